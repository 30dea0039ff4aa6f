"""Read labelled fields from a document's text with fixed rules, without a model.

A label is a phrase from `labelled_fields.txt`, a property name of the schema, or the words before a colon. A schema's
date and vendor are also read without a label if the document has only one date or company; a person then has to check
them.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from fieldmark.domain.columns import column_unit, schema_fields
from fieldmark.domain.likeness import Likeness
from fieldmark.domain.numbers import MAX_EXACT_DIGITS, digit_count
from valuegrounding.dates import MONTHS, usual_order
from valuegrounding.folding import HARD_SPACE, fold
from valuegrounding.measures import Measure, unit_name
from valuegrounding.numbers import possible_values

Keys = tuple[str, ...]
Schema = dict[str, Any]
Labels = dict[str, list[tuple[Keys, str, int]]]  # by label: (field, kind, rank); rank 0 is the most usual meaning


class Field(NamedTuple):
    """A value read from the document, with the path of its property."""

    keys: Keys
    value: Any
    confidence: float
    quote: str
    page: int


_VOCABULARY_FILE = Path(__file__).with_name("labelled_fields.txt").read_text("utf-8")
_VOCABULARY_LINES = [line.split(" | ") for line in _VOCABULARY_FILE.splitlines() if line and line[0] != "#"]
_VOCABULARY = [
    (word, name, kind, int(rank)) for name, kind, rank, words in _VOCABULARY_LINES for word in words.split(",")
]
_CURRENCIES, _DOCUMENT_TYPES = ({w: name for w, name, kind, _ in _VOCABULARY if kind == k} for k in ("sign", "type"))
LABELS: Labels = {}
for _word, _field, _kind, _rank in _VOCABULARY:
    if _kind not in ("sign", "type"):
        LABELS.setdefault(_word, []).append((tuple(_field.split(".")), _kind, _rank))
_TYPE_PATTERN = re.compile(rf"\b(?:{'|'.join(f'({words})' for words in _DOCUMENT_TYPES)})\b")
_CURRENCY = rf"(?<![^\W\d_])(?:{'|'.join(map(re.escape, _CURRENCIES))})(?![^\W\d_])"
# Kerning may print `2.321 ,00`, so spaces beside a separator are ignored. Every repetition is bounded or consumes
# digits, which keeps the time linear.
_NUMBER = r"(?:\d{1,3}(?:\s?[.,'’\s]\s?\d{3})+(?!\d)|\d{1,15})(?:\s?[.,]\s?\d{1,4})?"
_AFTER_AMOUNT = rf"(?:\s?{_CURRENCY}(?:\s[^\d%]{{0,30}})?|\s[A-Z*])?"  # a few words, or a tax rate's letter
_AMOUNT = re.compile(rf"[-−(]?\s?(?:{_CURRENCY})?\s?[-−]?\s?({_NUMBER})([-−)])?{_AFTER_AMOUNT}", re.IGNORECASE)
_DATE_SEPARATOR = r"(?:st|nd|rd|th|er|º)?[-‐–/.,\s]{1,2}(?:de |del |di )?"
_DATE = re.compile(_DATE_SEPARATOR.join([r"(\d{1,4}|[^\W\d_]{3,10})"] * 3) + r"(?!\w)")
_VALUE_PATTERNS = {"id": r"(?=.*\d)[^\s%€$£]+(?:\s[^\s%€$£]+){0,2}", "text": r".*[^\W\d_].*", "any": r".*\w.*"}
_VALUE_PATTERNS["code"] = r"\S+"
_VALUE_AND_DATE = re.compile(
    r"((?=\S*\d)\S+) (?:vom|dated|du|del|van|of) (.{6,20})"
)  # `Rechnung Nr. 12 vom 05.06.2018`
_CELL = re.compile(r"\S+(?:(?:[^\S\t]| +(?=:))\S+)*")  # at least two spaces separate cells
_UNKNOWN_LABEL = re.compile(r"(?!page|seite|pagina)[^\W\d_][^\d|,;@ ]*(?: [^\d|,;@ ]+){0,3}", re.IGNORECASE)
# A remark in brackets that makes another amount of `Total (excl. VAT)`.
_EXCLUDING = r"\s*(?i:excl|ex\b|ohne|zzgl|hors|ht\b|net|before)"
YES_NO = {"yes": True, "ja": True, "oui": True, "true": True, "no": False, "nein": False, "non": False, "false": False}
_LEGAL_FORM = re.compile(
    r"[^\W\d_][^\t:]{1,70}[\s,.](?:sdn\.? ?bhd|s/b|gmbh|ag|kg|ohg|ug|ltd|limited|plc|ll[cp]|inc|corp|sarl|sas|"
    r"s\.?r\.?l|s\.?p\.?a|s\.?a|b\.?v|n\.?v|pty|oy|ab|kft)\.?",
    re.IGNORECASE,
)
# Lines of a receipt that prove its total: what was added to round it, what was paid, and the change.
_ROUNDING = re.compile(
    r"\b(?:rounding|round(?:ed)? ?(?:adj\w*|off|diff\w*)|rundung\w*|arrondi\w*|redondeo|arrotondamento|afronding)\b"
)
_PAID = re.compile(r"\b(?:cash|tender(?:ed)?|(?<!be )paid|received|gegeben|bar|especes|efectivo|contanti|contant)\b")
_CHANGE = re.compile(r"\b(?:change|ruckgeld|wechselgeld|rendu|cambio|resto|wisselgeld)\b")
_CENTS = re.compile(r"(?<!\d)(?:\d{1,3}(?:[.,'\s]\d{3}){1,3}|\d{0,12})[.,]\d\d(?!\d)")
_TO_CHECK = 0.4
_MAX_LABELS = 200  # that are compared
_CONFIDENCES = {"colon": 0.9, "cells": 0.85, "joined": 0.8, "below": 0.75}


def normalise_label(words: str) -> str:
    """Return a label in lower case, without accents, punctuation, rates and remarks in brackets.

    `USt.-Betrag (EUR)` and `ustBetrag` both give `ust betrag`.
    """
    bare = re.sub(rf"\((?!\d+[.,]\d\d\)|{_EXCLUDING})[^()]*\)|\d{1, 2}(?:[.,]\d{1, 2})?\s?%", "", words)
    decomposed = unicodedata.normalize("NFKD", re.sub(r"(?<=[a-z0-9])(?=[A-Z][a-z])", " ", bare).casefold())
    return " ".join(
        re.findall(r"[^\W_]+", "".join(letter for letter in decomposed if not unicodedata.combining(letter)))
    )


def fields_named(name: str) -> dict[Keys, str]:
    """Return the fields that a label or property name most likely means, with their kinds."""
    targets = LABELS.get(normalise_label(name), [])
    return {keys: kind for keys, kind, rank in targets if rank == min(rank for *_, rank in targets)}


def document_type(text: str) -> tuple[str, float]:
    """Return the first document type named in the text, and a confidence of 0.3 if none is named."""
    found = _TYPE_PATTERN.search(normalise_label(text[:6000]))
    name = list(_DOCUMENT_TYPES.values())[found.lastindex - 1] if found and found.lastindex else "document"
    return name, 0.3 if not found else 0.9 if found.start() < 400 else 0.6


def labels(text: str) -> set[str]:
    """Return the normalised labels of a text. Documents with the same layout share most of them."""
    found = (normalise_label(label) for label, _, _, _ in _labelled_cells(text, LABELS))
    return {label for label in found if 2 <= len(label) <= 60}


def likeness(text: str) -> Likeness:
    """Return what the document with this text is compared by."""
    return Likeness(document_type(text)[0], frozenset(sorted(labels(text))[:_MAX_LABELS]))


def parse_amount(printed: str) -> float | None:
    """Return the number that a text is, in any locale's format, or None if it is more than one amount, or has more
    digits than a float keeps."""
    if len(printed) > 100 or not (found := _AMOUNT.fullmatch(printed)):
        return None
    digits = re.sub(r"\s?([.,'])\s?", r"\1", fold(found[1]))
    readings = possible_values(re.sub(r"\s+", HARD_SPACE, digits))
    if not readings or digit_count(Decimal(readings[-1])) > MAX_EXACT_DIGITS:
        return None
    value = float(readings[-1])  # 1.250 is 1250: amounts of money don't have three decimals
    is_negative = found[2] in ("-", "−") or re.match(r"\D*[-−(]", printed)
    return -value if value and is_negative else value


def _parse_measure(printed: str, unit: str) -> float | None:
    """Return a printed measure in a unit: converted, or as it is if it has no unit or one that cannot be converted.
    None for `1.250 kg`, which may have either value."""
    found = re.fullmatch(rf"([-−]?\s?{_NUMBER})\s?(\S{{0,10}})", printed)
    number = parse_amount(found[1]) if found else None
    if found is None or number is None or re.fullmatch(r"\D*\d{1,3}[.,]\d{3}", found[1]):
        return None
    if not found[2]:
        return number
    own, wanted = unit_name(found[2]), unit_name(unit)
    if own is None or wanted is None:
        return None
    converted = dict(Measure(number, own).printings()).get(wanted, number)
    return float(f"{float(converted):.{MAX_EXACT_DIGITS}g}")


def parse_date(printed: str, *, month_first: bool = False) -> tuple[str, str] | None:
    """Return the date at the start of a text as YYYY-MM-DD, and the text that was read as the date."""
    if not (found := _DATE.match(printed)):
        return None
    first, month, year = found.groups()
    if len(first) == 4 and first.isdigit():
        first, year = year, first
    elif not first.isdigit() or (month_first and re.search("[-/]", found[0])):
        first, month = month, first
    month = MONTHS.get(fold(month), month)
    try:
        number = int(year)
        if len(year) == 2:
            number += 1900 if number > 68 else 2000  # as in POSIX
        elif number < 1000:  # 1.2.3 is no date
            return None
        return date(number, int(month), int(first)).isoformat(), found[0]
    except ValueError:
        return None


def read_fields(text: str, schema: Schema | None = None) -> list[Field]:
    """Return the labelled values: of the schema's properties, else of known fields and of any label with a colon."""
    leaves = list(_schema_leaves(schema or {}))
    names = [
        [normalise_label(name) for name in (" ".join(keys), shape.get("title", ""), keys[-1])] for keys, shape in leaves
    ]
    last_keys = Counter(each[2] for each in names)
    own: Labels = {name: [((name,), "any", 0)] for each in names for name in each if name}
    found, fields = _find_fields(text, own | LABELS, include_unknown=schema is None), dict[Keys, Field]()
    # A value is used for one property: the one whose path or title is its label, else the only one with that last key.
    for at, (keys, shape), each in ((at, *leaf) for at in range(3) for leaf in zip(leaves, names, strict=True)):
        is_unique = at < 2 or last_keys[each[2]] == 1
        for target in (*fields_named(each[at]), (each[at],)) if is_unique else ():
            field = found.get(target) if keys not in fields else None
            if field and (value := _convert_to_schema(field, shape)) is not None:
                fields[keys] = found.pop(target)._replace(keys=keys, value=value)
    dates = {field.value for field in [*found.values(), *fields.values()]}
    for keys, shape in leaves:
        field = _find_without_label(text, keys, dates) if keys not in fields else None
        if field and (value := _convert_to_schema(field, shape)) is not None:
            fields[keys] = field._replace(value=value)
    return list((found if schema is None else fields).values())


def _find_without_label(text: str, keys: Keys, known: set[Any]) -> Field | None:
    """Return the only date of a document's first page that is no `known` value, or the only company with a legal form,
    in the heading. The name of a company that is not at the top is often the recipient's, or incomplete."""
    page = re.split(r"^--- page [2-9]", text, maxsplit=1, flags=re.MULTILINE)[0]
    named = {target for name in (" ".join(keys), keys[-1]) for target in fields_named(name)}
    found = dict[str, str]()
    if ("invoice_date",) in named:
        month_first = _is_month_first(text)
        read = (parse_date(start, month_first=month_first) for start in _date_starts(page))
        found = {dated[0]: dated[1] for dated in read if dated}
        found = {} if found.keys() & known else found
    elif ("vendor", "name") in named or normalise_label(keys[-1]) in ("company", "company name", "store", "shop"):
        cells = [cell[0] for line in page.splitlines() if line[:3] != "---" for cell in _CELL.finditer(line)]
        companies = {normalise_label(cell): cell for cell in cells if _LEGAL_FORM.fullmatch(cell)}
        found = companies if {*companies.values()} & {*cells[:2]} else {}
    if len(found) != 1:
        return None
    ((value, quote),) = found.items()
    return Field(keys, value if ("invoice_date",) in named else quote, _TO_CHECK, quote, 1)


def _date_starts(text: str) -> Iterator[str]:
    for found in re.finditer(r"(?<![\w.,/-])(?:\d{1,4}|[^\W\d_]{3,10})(?=[-/.,\s])", text):
        yield text[found.start() : found.start() + 40]


def _is_month_first(text: str) -> bool:
    order = usual_order(fold(text))
    return order == "mdy" or (order is None and "$" in text)


def _find_fields(text: str, known: Labels, *, include_unknown: bool) -> dict[Keys, Field]:
    month_first = _is_month_first(text)
    seen = dict[tuple[Keys, str], dict[tuple[float, float], list[Field]]]()
    for label, layout, printed, page in _labelled_cells(text, known):
        is_unknown = include_unknown and layout == "colon" and len(seen) < 60 and _UNKNOWN_LABEL.fullmatch(label)
        unknown = [(("_".join(normalise_label(label).split()),), "any", 9)] if is_unknown else []
        for keys, kind, rank in known.get(normalise_label(label), unknown):
            for value, quote in _read_value(kind, layout, printed, month_first):
                field = Field(keys, value, _CONFIDENCES[layout] if rank < 9 else 0.6, quote, page)
                seen.setdefault((keys, kind), {}).setdefault((rank, -field.confidence), []).append(field)
    fields = dict[Keys, Field]()
    for (keys, kind), by_rank in seen.items():
        best = by_rank[min(by_rank)]
        if len({one.value for one in best}) == 1 or kind == "money":
            # Of several sums, the last is that of the whole. Any other field with conflicting values is dropped.
            fields[keys] = best[-1]
        if keys == ("total",) and kind == "money":
            totals = [one for (rank, _), each in by_rank.items() if rank < 2 for one in each]
            fields[keys] = _choose_total(best[-1], totals, text)
    for field in [] if ("currency",) in fields else list(fields.values()):
        if sign := re.search(_CURRENCY, field.quote, re.IGNORECASE):
            fields["currency",] = Field(("currency",), _CURRENCIES[sign[0].casefold()], 0.6, field.quote, field.page)
    return fields


def _choose_total(total: Field, others: list[Field], text: str) -> Field:
    """Return the total after rounding, if the document rounds it, or another total that was paid: cash less change. It
    is to be checked if neither explains why totals differ, or if another amount was paid."""
    page, printed = 1, list[tuple[int, re.Match[str], int]]()  # (amount in cents, its text, page)
    adjustments, paid, change = list[tuple[int, int]](), list[int](), list[int]()
    for line in text.splitlines():
        if header := re.fullmatch(r"--- page (\d{1,6}) of \d+ ---", line):
            page = int(header[1])
        found = [(int(re.sub(r"\D", "", one[0])), one, page) for one in _CENTS.finditer(line)]
        words = normalise_label(re.sub(r"\d", " ", line)) if found else ""
        if _ROUNDING.search(words) and 0 < found[-1][0] < 100:
            adjustments.append((len(printed), found.pop()[0]))
        elif _CHANGE.search(words):
            change.append(found.pop()[0])
        elif _PAID.search(words):
            paid.append(found.pop()[0])
        printed += found
    amount, explained = _cents(total), {_cents(total)}
    for at, adjustment in adjustments[-1:]:
        explained |= {amount - adjustment, amount + adjustment}
        after = next((one for one in printed[at:] if one[0] in explained), None)
        if after is not None and after[0] != amount:
            total = total._replace(value=after[0] / 100, quote=_words_of(after[1]), page=after[2])
    spent = {one - other for one in paid[:10] for other in change[:10]}
    if not spent.isdisjoint(explained):
        return total
    proven = {one.value: one for one in others if _cents(one) in spent}
    if len(proven) == 1:
        return proven.popitem()[1]
    return total._replace(confidence=_TO_CHECK) if spent or not explained.issuperset(map(_cents, others)) else total


def _words_of(found: re.Match[str]) -> str:
    """Return a match with the rest of its words: `TOTALRM15.40`."""
    line, (start, end) = found.string, found.span()
    return line[line.rfind(" ", 0, start + 1) + 1 : len(line) if (at := line.find(" ", end)) < 0 else at]


def _cents(field: Field) -> int:
    return round(100 * field.value)


def _read_value(kind: str, layout: str, printed: list[str], month_first: bool) -> list[tuple[Any, str]]:
    """Return the value of this kind beside a label, with its quote: a list of at most one."""
    amounts = [(number, cell) for cell in printed if (number := parse_amount(cell)) is not None]
    if kind == "tax":
        return amounts[:1] if layout == "colon" else amounts[-1:]
    if kind == "money":
        # `Total includes 6% tax   1.44` is no total. Beside a sum of columns (net, tax, gross) the last is the largest.
        is_label = layout == "joined" and not (amounts and amounts[0][1] == printed[0]) and not _is_currency(printed[0])
        return [] if is_label else [one for one in amounts[-1:] if one[0] == max(amounts)[0]]
    first, dated = printed[0], parse_date(printed[0], month_first=month_first)
    if kind == "date" or (kind == "any" and dated and dated[1] == first):
        return [dated] if dated else []
    if kind == "any" and amounts[:1] and amounts[0][1] == first and re.search(r"\d[.,]\d\d(?!\d)", first):
        return amounts[:1]
    # A label's own cell may continue as a sentence, and any text may be below it. There an identifier is one word.
    is_alone = layout in ("colon", "cells") or (" " not in first if kind == "id" else layout == "below")
    fits = (
        is_alone and len(first) <= 160 and re.fullmatch(_VALUE_PATTERNS[kind], first) and not (kind == "id" and dated)
    )
    value = _CURRENCIES.get(first.casefold()) if kind == "code" else first
    return [(value, first)] if fits and value else []


def _is_currency(words: str) -> bool:
    return re.fullmatch(_CURRENCY, words, re.IGNORECASE) is not None


def _labelled_cells(text: str, known: Labels) -> Iterator[tuple[str, str, list[str], int]]:
    """Yield the (label, layout, printed cells, page) of each label in the output of `get_document_text`. The layout is
    a key of _CONFIDENCES."""
    printed_lines = [line for line in text.splitlines() if line.strip() and not line.startswith("[warning: ")]
    page, lines = 1, [list(_CELL.finditer(line))[:40] for line in printed_lines]
    for cells, under in zip(lines, [*lines[1:], []], strict=False):
        header = re.fullmatch(r"--- page (\d{1,6}) of \d+ ---", cells[0][0])
        page = int(header[1]) if header else page
        row: list[tuple[re.Match[str], str, str, list[str]]] = []
        for cell in cells:
            label, layout, rest = _split_label(
                cell[0], known, spaced=not row or row[-1][2] != "colon" or bool(row[-1][3])
            )
            if layout:
                dated = _VALUE_AND_DATE.fullmatch(rest)
                row.append((cell, label, layout, [dated[1] if dated else rest] if rest else []))
                row += (
                    [(cell, "invoice date", layout, [dated[2]])]
                    if dated and ("invoice_number",) in fields_named(label)
                    else []
                )
            elif row:
                row[-1][3].append(cell[0])
        for cell, label, layout, printed in row:
            below = [one[0] for one in under if one.start() < cell.end() and one.end() > cell.start()]
            if printed:
                yield label, layout, printed, page
            # Most cells in the header of an items table are not labels of single values.
            elif below and len(row) == len(cells) and not _split_label(below[0], known)[1] and below[0][:3] != "---":
                yield label, "below", below[:1], page


def _split_label(cell: str, known: Labels, *, spaced: bool = True) -> tuple[str, str, str]:
    """Return a cell's label, its layout, and the rest of the cell. The layout is empty if the cell has no label."""
    label, colon, rest = cell.partition(":")
    if colon and label[:1].isalpha() and len(label) <= 48 and not rest.startswith("//"):
        return label.strip(), "colon", rest.strip()
    words = cell[:200].split(" ")[:8] if spaced else []
    for label in (" ".join(words[:count]) for count in range(len(words), 0, -1)):
        rest = cell[len(label) :].strip()
        if normalise_label(label) in known and (not rest or re.search(rf"\d|{_CURRENCY}", rest[:40], re.IGNORECASE)):
            return label, "joined" if rest else "cells", rest
    return "", "", ""


def _schema_leaves(schema: Schema) -> Iterator[tuple[Keys, Schema]]:
    """Yield the single values outside lists that a schema describes, by their keys."""
    for pattern, shape in schema_fields(schema):
        keys = tuple(step for step in pattern if isinstance(step, str))
        if len(keys) == len(pattern) and not re.search("array|object", str(shape.get("type"))):
            yield keys, shape


def _convert_to_schema(field: Field, shape: Schema) -> Any:
    types, text = str(shape.get("type", "string")), normalise_label(field.quote)
    number = field.value if isinstance(field.value, float) else parse_amount(field.quote)
    if "enum" in shape:
        return next(
            (one for one in shape["enum"] if normalise_label(str(one)) in (normalise_label(str(field.value)), text)),
            None,
        )
    if "boolean" in types:
        return YES_NO.get(text)
    if (unit := column_unit(shape)) is not None:
        return _parse_measure(field.quote, unit)
    if "number" in types or "integer" in types:
        return number if number is None or "number" in types else int(number) if number.is_integer() else None
    value = field.quote if isinstance(field.value, float) else field.value
    return value if shape.get("format") != "date" or re.fullmatch(r"\d{4}-\d\d-\d\d", value) else None
