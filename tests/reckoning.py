"""What `query_fields` must answer, reckoned in plain Python over the same documents. It shares no code with the SQL."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import Any

from shelf import Shelved

BLANK = (None, "", [], {})
SYMBOLS = {"€": "EUR", "EURO": "EUR"}


def walk(value: Any, steps: list[Any], name: str = "", at: tuple[int, ...] = (), around: tuple[Any, ...] = ()):
    """(name, at, value, around) of each value at a path such as ["items", "[]", "total"]."""
    if not steps:
        if value not in BLANK or value is False or (isinstance(value, int | float) and value == 0):
            yield name, at, value, around
        return
    step, rest = steps[0], steps[1:]
    if step == "[]":
        if isinstance(value, list):
            for index, item in enumerate(value):
                yield from walk(item, rest, f"{name}[{index}]", (*at, index), around)
    elif isinstance(value, dict) and step in value:
        yield from walk(value[step], rest, f"{name}.{step}" if name else step, at, (*around, value))


def values(document: Shelved, path: str) -> Iterator[tuple[str, tuple[int, ...], Any, bool, str | None]]:
    """(name, at, value, is_verified, currency)."""
    steps = path.replace("[]", ".[]").split(".")
    for name, at, value, around in walk(document.fields or {}, steps):
        verified = name in document.locked or name not in document.unverified or kind(value) == "container"
        currency = None
        for depth, parent in enumerate(reversed(around)):
            for key in ([f"{steps[-1]}_currency"] if depth == 0 else []) + ["currency"]:
                said = parent.get(key)
                if currency is None and isinstance(said, str) and said.strip():
                    currency = SYMBOLS.get(said.strip().upper(), said.strip().upper())
        yield name, at, value, verified, currency


def kind(value: Any) -> str:
    if isinstance(value, bool):
        return "text"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, dict | list):
        return "container"
    return "day" if re.match(r"\d{4}-\d{2}-\d{2}([T ]|$)", value) else "text"


def number(value: Any) -> Fraction:
    return Fraction(repr(value))


def spelt(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    text = format(Decimal(repr(value)), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def folded(text: str) -> str:
    return " ".join(text.split()).lower()


def compares(op: str, value: Any, given: Any) -> bool | None:
    """Whether it holds (of != whether they are equal); None where the two cannot be compared."""
    if op in ("exists", "missing"):
        return True
    if isinstance(given, bool):
        return value is given if isinstance(value, bool) else None
    if isinstance(given, Decimal):
        if kind(value) != "number":
            return None
        left, right = number(value), Fraction(given)
    elif op in ("<", "<=", ">", ">="):
        if kind(value) != "day":
            return None
        left, right = value[:10], given
    else:
        if kind(value) == "container":
            return None
        left, right = folded(str(value) if isinstance(value, str) else spelt(value)), folded(given)
        if op == "contains":
            return right in left
    return {
        "=": left == right,
        "!=": left == right,
        "<": left < right,
        "<=": left <= right,
        ">": left > right,
        ">=": left >= right,
    }[op]


def of_path(document: Shelved, path: str, takes: Any, include: bool) -> dict[str, Any]:
    """What is known of a path in one document. `takes` says of a value whether it can be used."""
    found = list(values(document, path))
    counted = [one for one in found if one[3] or include]
    usable = [one for one in counted if takes(one[2])]
    return {"found": found, "counted": counted, "usable": usable}


def coverage(documents: Iterable[Shelved], path: str, takes: Any, include: bool) -> dict[str, int]:
    told: dict[str, int] = defaultdict(int)
    for document in documents:
        known = of_path(document, path, takes, include)
        told["documents"] += 1
        told["have"] += bool(known["usable"])
        told["lack"] += not known["found"]
        told["unverified"] += bool(known["found"] and not known["counted"])
        told["unusable"] += bool(known["counted"] and not known["usable"])
        told["values"] += len(known["found"])
        told["values_unverified"] += sum(not one[3] for one in known["found"])
        told["values_unusable"] += len(known["counted"]) - len(known["usable"])
    return {name: told[name] for name in _NAMES}


_NAMES = ("documents", "have", "lack", "unverified", "unusable", "values", "values_unverified", "values_unusable")


def reckon(shelf: list[Shelved], query: Any) -> dict[str, Any]:
    """The answer, as `shown` below shows that of the service."""
    where, include = query.where, query.include_unverified

    def asked_of_documents(one: Shelved) -> bool:
        return (
            (not where.document_ids or one.id in where.document_ids)
            and {tag.lower() for tag in where.tags} <= {tag.lower() for tag in one.tags}
            and (where.filename is None or where.filename.lower() in one.filename.lower())
            and (where.uploaded_after is None or one.created_at >= where.uploaded_after)
            and (where.uploaded_before is None or one.created_at < where.uploaded_before)
        )

    documents = [one for one in shelf if asked_of_documents(one)]
    without = [one for one in documents if one.fields is None or not one.is_completed]
    has_none = {one.id for one in without}
    of_kind = [
        one
        for one in documents
        if one.id not in has_none
        and (
            where.document_type is None
            or (one.document_type is not None and folded(one.document_type) == folded(where.document_type))
        )
    ]

    def meets(one: Shelved) -> bool:
        for condition in where.fields:
            known = of_path(one, condition.path, lambda v, c=condition: compares(c.op, v, c.value) is not None, include)
            hits = [value for value in known["usable"] if compares(condition.op, value[2], condition.value)]
            if condition.op == "missing":
                holds = not known["found"]
            elif condition.op == "!=":
                holds = bool(known["usable"]) and not hits
            else:
                holds = bool(hits)
            if not holds:
                return False
        return True

    matched = [one for one in of_kind if meets(one)]
    told = {
        "of_kind": len(of_kind),
        "matched": len(matched),
        "no_extraction": sum(one.status == "ready" for one in without),
        "reading": sum(one.status == "reading" for one in without),
        "failed": sum(one.status == "failed" for one in without),
        "paths": [
            coverage(of_kind, c.path, lambda v, c=c: compares(c.op, v, c.value) is not None, include)
            for c in where.fields
        ],
    }

    takes: dict[str, set[str]] = {}
    for aggregate in query.aggregates:
        if aggregate.path is not None:
            allowed = {
                "sum": {"number"},
                "avg": {"number"},
                "min": {"number", "day"},
                "max": {"number", "day"},
                "count": {"number", "day", "text", "container"},
            }[aggregate.op]
            takes[aggregate.path] = takes.get(aggregate.path, allowed) & allowed
    for path, kinds in takes.items():
        told["paths"].append(coverage(matched, path, lambda v, k=kinds: kind(v) in k, include))

    # Which groups the items of a document are in: {document: [(at, key)]}.
    keys: dict[Any, list[tuple[tuple[int, ...], str]]] = defaultdict(list)
    group = query.group_by
    if group is not None and group.path is not None:
        kinds = {"number", "day", "text"} if group.kind == "field" else {"day"}
        length = {"field": None, "month": 7, "year": 4}[group.kind]
        told["paths"].append(coverage(matched, group.path, lambda v: kind(v) in kinds, include))
        for one in matched:
            for _, at, value, _, _ in of_path(one, group.path, lambda v: kind(v) in kinds, include)["usable"]:
                keys[one.id].append((at, folded(spelt(value)[:length])))
    elif group is not None:
        for one in matched:
            said = [one.document_type] if group.kind == "document_type" else list(one.tags)
            keys[one.id] += [((), folded(word)) for word in said if word is not None]

    sizes: dict[str | None, int] = defaultdict(int)
    for one in matched:
        for key in {key for _, key in keys[one.id]} or {None}:
            sizes[key] += 1
    if group is None:
        sizes.setdefault(None, 0)
    cells: dict[Any, list[Any]] = defaultdict(list)
    for path, kinds in takes.items():
        shared = _shared(path, group.path if group is not None else None)
        for one in matched:
            for _, at, value, _, currency in of_path(one, path, lambda v, k=kinds: kind(v) in k, include)["usable"]:
                mine = {key for key_at, key in keys[one.id] if key_at[:shared] == at[:shared]} or {None}
                for key in mine:
                    sizes.setdefault(key, 0)
                    told_currency = currency if "text" not in kinds or kind(value) == "number" else None
                    cells[key, path, kind(value), told_currency].append(value)
    results = []
    for aggregate in query.aggregates:
        if aggregate.path is None:
            results += [(key, "count", None, "number", None, str(size)) for key, size in sizes.items()]
            continue
        if aggregate.op == "count":
            for key in sizes:
                n = sum(len(found) for (k, p, _, _), found in cells.items() if (k, p) == (key, aggregate.path))
                results.append((key, "count", aggregate.path, "number", None, str(n)))
            continue
        for (key, path, of_kind_, currency), found in cells.items():
            if path != aggregate.path:
                continue
            if of_kind_ == "day":
                value = {"min": min, "max": max}[aggregate.op](one[:10] for one in found)
            else:
                exact = [number(one) for one in found]
                average = sum(exact) / len(exact)
                value = {"sum": sum(exact), "min": min(exact), "max": max(exact), "avg": average}[aggregate.op]
            results.append((key, str(aggregate.op), path, of_kind_, currency, value))
    return {
        "documents": told,
        "coverage": told.pop("paths"),
        "sizes": dict(sizes),
        "results": sorted(map(comparable, results), key=repr),
        "in_several_groups": sum(len({key for _, key in keys[one.id]}) > 1 for one in matched),
    }


def comparable(result: tuple[Any, ...]) -> tuple[Any, ...]:
    """With its number rounded to 50 digits, whoever reckoned it."""
    *rest, value = result
    try:
        exact = Fraction(value)
    except ValueError:
        return (*rest, value)
    context = Context(prec=50, rounding=ROUND_HALF_UP)
    return (*rest, format(context.divide(Decimal(exact.numerator), Decimal(exact.denominator)).normalize(context), "f"))


def shown(answer: Any) -> dict[str, Any]:
    """The answer of the service, without its rows."""

    def key(group: Any) -> str | None:
        return None if group.key is None else folded(group.key)

    return {
        "documents": {
            name: getattr(answer.coverage, name)
            for name in ("of_kind", "matched", "no_extraction", "reading", "failed")
        },
        "coverage": [{name: getattr(path, name) for name in _NAMES} for path in answer.coverage.paths],
        "sizes": {key(group): group.documents for group in answer.groups},
        "results": sorted(
            (
                comparable((key(group), str(one.op), one.path, str(one.kind), one.currency, one.value))
                for group in answer.groups
                for one in group.results
            ),
            key=repr,
        ),
        "in_several_groups": answer.in_several_groups,
    }


def _shared(path: str, other: str | None) -> int:
    shared = 0
    for step, beside in zip(
        path.replace("[]", ".[]").split("."), (other or "").replace("[]", ".[]").split("."), strict=False
    ):
        if step != beside:
            break
        shared += step == "[]"
    return shared
