"""The fields of a document: its labelled values, in the types of a JSON schema where there is one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

from fieldmark.offline_model.labels import (
    CURRENCY,
    Habits,
    Labels,
    Seen,
    Target,
    currency,
    head,
    plain,
    sightings,
    vocabulary,
)

_NO_FIELD = {"page", "seite", "pagina"}
_YES, _NO = {"yes", "ja", "oui", "si", "true", "x"}, {"no", "nein", "non", "nee", "false"}


@dataclass(frozen=True, slots=True)
class Field:
    """A value that was found: where it belongs, how sure, and what is printed on which page."""

    keys: tuple[str, ...]
    value: Any
    confidence: float
    quote: str
    page: int


def read_fields(text: str, schema: dict[str, Any] | None = None) -> list[Field]:
    """The labelled values: the schema's properties, or without a schema the known fields and what else has a label."""
    known = vocabulary() if schema is None else schema_labels(schema)
    habits, best = Habits.of(text), dict[tuple[str, ...], tuple[tuple[float, ...], Field]]()
    disagreeing: dict[tuple[str, ...], set[Any]] = {}
    for order, seen in enumerate(sightings(text, known)):
        name = head(seen.label) or plain(seen.label)
        vat = any(target.kind == "vat" for target in vocabulary().get(name, ()))
        names = [f"{seen.section} {'vat id' if vat else name}", name] if seen.section else [name]
        targets = next((known[label] for label in names if label in known), list[Target]())
        for target in targets or (_unlisted(seen, habits) if schema is None and len(best) < 60 else []):
            read = habits.value(target.kind, seen)
            value = shaped(*read, target.shape) if read else None
            if read is None or value is None:
                continue
            # Of several totals the last is the grand one; all else is first said where it matters.
            rank = (target.rank, -seen.confidence, -order if target.kind == "money" else order)
            if target.keys not in best or rank < best[target.keys][0]:
                confidence = seen.confidence if target.rank < 8 else 0.6
                best[target.keys] = rank, Field(target.keys, value, confidence, read[1], seen.page)
            if target.kind == "tax":
                disagreeing.setdefault((*target.keys, str(target.rank)), set()).add(value)
    # Several taxes are several rates: none of them is the tax.
    fields = [f for (rank, *_), f in best.values() if len(disagreeing.get((*f.keys, str(rank)), set())) < 2]
    for target in known.get("currency", []):
        sure = sorted(fields, key=lambda field: -field.confidence)
        signs = [(field, sign) for field in sure if (sign := re.search(CURRENCY, field.quote, re.IGNORECASE))]
        code = shaped(currency(signs[0][1][0]), signs[0][1][0], target.shape) if signs else None
        if code and target.keys not in best:
            fields.append(Field(target.keys, code, 0.6, signs[0][0].quote, signs[0][0].page))
    return fields


def _unlisted(seen: Seen, habits: Habits) -> list[Target]:
    """A field named after a label that no list knows, if it looks like a label."""
    words = plain(seen.label).split()
    if (
        len(words) not in range(1, 5)
        or re.search(r"[\d|,;@]", seen.label)
        or seen.how not in ("colon", "cells")
        or words[0] in _NO_FIELD
    ):
        return []
    amount, kind = habits.amount(seen.printed[0]), "date" if habits.day(seen.printed[0]) else "any"
    if amount and re.search(r"[.,]\d\d\D*$", amount[1]) and len(amount[1]) == len(seen.printed[0]):
        kind = "money"
    keys = (seen.section, "_".join(words)) if seen.section else ("_".join(words),)
    return [Target(keys, kind, 8)] if seen.how == "colon" or kind != "any" else []


def schema_labels(schema: dict[str, Any]) -> Labels:
    """The labels that stand for a schema's properties: their names, what is usual for those, their descriptions."""
    known: Labels = {}
    for keys, shape in _leaves(schema, schema, (), 8):
        spaced = [re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", key) for key in keys]
        path, title, last = plain(" ".join(spaced)), plain(str(shape.get("title", ""))), plain(spaced[-1])
        words = plain(str(shape.get("description", "")))[:400].split()
        grams = [" ".join(words[at : at + size]) for size in (4, 3, 2, 1) for at in range(len(words) - size + 1)]
        kind = _kind(shape)
        known_names = [name for name in (path, title, last, *grams) if name not in grams or " " in name]
        usual = [
            target
            for name in known_names
            for target in sorted(vocabulary().get(name, ()), key=lambda target: target.rank)
            if _suits(target.kind, kind)
        ]
        for rank, name in ((0, path), (0, title), (5, last), *((8, gram) for gram in grams if len(gram) > 5)):
            if name and name not in vocabulary():
                known.setdefault(name, []).append(Target(keys, kind, rank, shape))
        for label, targets in vocabulary().items():
            for target in targets:
                if usual and target.keys == usual[0].keys:
                    known.setdefault(label, []).append(Target(keys, target.kind, target.rank + 1, shape))
                elif label in (path, title) and not usual:
                    known.setdefault(label, []).append(Target(keys, kind, 0, shape))
    return known


def _leaves(
    shape: dict[str, Any], root: dict[str, Any], keys: tuple[str, ...], depth: int
) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    for _ in range(4):  # a reference or an alternative may lead to another
        options = [o for key in ("anyOf", "oneOf", "allOf") for o in shape.get(key, []) if o.get("type") != "null"]
        name = str(shape.get("$ref", "")).rpartition("/")[2]
        target = next((root[key][name] for key in ("$defs", "definitions") if name in root.get(key, {})), None)
        if target or options:
            shape = {**shape, "$ref": "", "anyOf": [], "oneOf": [], "allOf": [], **(target or options[0])}
    properties = cast("dict[str, Any]", shape.get("properties", {}))
    if properties and depth:
        for key, inner in properties.items():
            if isinstance(inner, dict):
                yield from _leaves(cast("dict[str, Any]", inner), root, (*keys, key), depth - 1)
    elif keys and not {"array", "object"} & _types(shape):
        yield keys, shape


def _types(shape: dict[str, Any]) -> set[str]:
    named = shape.get("type", [])
    return {named} if isinstance(named, str) else {str(name) for name in named}


def _kind(shape: dict[str, Any]) -> str:
    if _types(shape) & {"number", "integer"}:
        return "money"
    return "date" if str(shape.get("format")).startswith("date") else "any"


def _suits(kind: str, wanted: str) -> bool:
    return wanted in ("any", kind) or (wanted == "money" and kind == "tax")


def shaped(value: Any, quote: str, shape: dict[str, Any] | None) -> Any:
    """The value in the type that its schema asks for; None if it has no such form."""
    if shape is None or value is None:
        return value
    types = _types(shape)
    if "enum" in shape:
        return next(
            (choice for choice in shape["enum"] if plain(str(choice)) in (plain(str(value)), plain(quote))), None
        )
    if "boolean" in types:
        return True if plain(quote) in _YES else False if plain(quote) in _NO else None
    if isinstance(value, float):
        if "integer" in types and "number" not in types:
            return int(value) if value.is_integer() else None
        return quote if "string" in types and "number" not in types else value
    return value if not types or "string" in types else None
