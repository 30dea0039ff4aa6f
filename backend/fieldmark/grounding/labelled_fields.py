"""The fields that fixed rules read from a document's text: values beside a label. And the labels alone.

A label is a phrase of the vocabulary, a name in the schema, or words before a colon.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from fieldmark.domain.folding import HARD_SPACE, fold
from fieldmark.grounding.dates import MONTHS
from fieldmark.grounding.numbers import possible_values

Keys = tuple[str, ...]
Schema = dict[str, Any]
Labels = dict[str, list[tuple[Keys, str, int]]]  # the fields a label may stand for, their kinds, and 0 if it is usual


class Field(NamedTuple):
    """A value that was found: its keys, its confidence, and its quote and page."""

    keys: Keys
    value: Any
    confidence: float
    quote: str
    page: int


_FILE = Path(__file__).with_name("vocabulary.txt").read_text("utf-8")
_LINES = [line.split(" | ") for line in _FILE.splitlines() if line and line[0] != "#"]
_WORDS = [(word, name, kind, int(rank)) for name, kind, rank, words in _LINES for word in words.split(",")]
_SIGNS, _TYPES = ({w: name for w, name, kind, _ in _WORDS if kind == k} for k in ("sign", "type"))
LABELS: Labels = {}
for _word, _field, _kind, _rank in _WORDS:
    if _kind not in ("sign", "type"):
        LABELS.setdefault(_word, []).append((tuple(_field.split(".")), _kind, _rank))
_TYPE = re.compile(rf"\b(?:{'|'.join(f'({words})' for words in _TYPES)})\b")
_SIGN = rf"(?<![^\W\d_])(?:{'|'.join(map(re.escape, _SIGNS))})(?![^\W\d_])"
# Kerning may print `2.321 ,00`: a space beside a separator is none. Every repetition is bounded or eats digits.
_NUMBER = r"(?:\d{1,3}(?:\s?[.,'’\s]\s?\d{3})+(?!\d)|\d{1,15})(?:\s?[.,]\s?\d{1,4})?"
_BEHIND = rf"(?:\s?{_SIGN}(?:\s[^\d%]{{0,30}})?|\s[A-Z*])?"  # a few words, or the letter of a receipt's tax rate
_AMOUNT = re.compile(rf"[-−(]?\s?(?:{_SIGN})?\s?[-−]?\s?({_NUMBER})[-)]?{_BEHIND}", re.IGNORECASE)
_BETWEEN = r"(?:st|nd|rd|th|er|º)?[-‐–/.,\s]{1,2}(?:de |del |di )?"
_DATE = re.compile(_BETWEEN.join([r"(\d{1,4}|[^\W\d_]{3,10})"] * 3) + r"(?!\w)")
_FORMS = {"id": r"(?=.*\d)[^\s%€$£]+(?:\s[^\s%€$£]+){0,2}", "text": r".*[^\W\d_].*", "any": r".*\w.*", "code": r"\S+"}
_DATED = re.compile(r"((?=\S*\d)\S+) (?:vom|dated|du|del|van|of) (.{6,20})")  # `Rechnung Nr. 12 vom 05.06.2018`
_CELL = re.compile(r"\S+(?:(?:[^\S\t]| +(?=:))\S+)*")  # cells stand two spaces apart
_OTHER = re.compile(r"(?!page|seite|pagina)[^\W\d_][^\d|,;@ ]*(?: [^\d|,;@ ]+){0,3}", re.IGNORECASE)
YES_NO = {"yes": True, "ja": True, "oui": True, "true": True, "no": False, "nein": False, "non": False, "false": False}
_SURE = {"colon": 0.9, "cells": 0.85, "joined": 0.8, "below": 0.75}


def plain(words: str) -> str:
    """A label alone, in lower case without accents and punctuation: `USt.-Betrag (EUR)`, `ustBetrag` → `ust betrag`."""
    bare = re.sub(r"\((?!\d+[.,]\d\d\))[^()]*\)|\d{1,2}(?:[.,]\d{1,2})?\s?%", "", words)
    apart = unicodedata.normalize("NFKD", re.sub(r"(?<=[a-z0-9])(?=[A-Z][a-z])", " ", bare).casefold())
    return " ".join(re.findall(r"[^\W_]+", "".join(sign for sign in apart if not unicodedata.combining(sign))))


def meant(name: str) -> dict[Keys, str]:
    """The known fields that a name most likely means, with their kinds."""
    targets = LABELS.get(plain(name), [])
    return {keys: kind for keys, kind, rank in targets if rank == min(rank for *_, rank in targets)}


def document_type(text: str) -> tuple[str, float]:
    """The document type that is printed first, and the confidence in it."""
    found = _TYPE.search(plain(text[:6000]))
    name = list(_TYPES.values())[found.lastindex - 1] if found and found.lastindex else "document"
    return name, 0.3 if not found else 0.9 if found.start() < 400 else 0.6


def labels(text: str) -> set[str]:
    """The words beside or above values, as `plain` spells them: by these a document of the same form is known again."""
    found = (plain(label) for label, _, _, _ in _sightings(text, LABELS))
    return {label for label in found if 2 <= len(label) <= 60}


def amount(printed: str) -> float | None:
    """The number that is printed, in any locale's spelling, or None if it is not one amount alone."""
    if len(printed) > 100 or not (found := _AMOUNT.fullmatch(printed)):
        return None
    digits = re.sub(r"\s?([.,'])\s?", r"\1", fold(found[1]))
    readings = possible_values(re.sub(r"\s+", HARD_SPACE, digits))
    if not readings:
        return None
    value = float(readings[-1])  # 1.250 is 1250: money has no three decimals
    return -value if value and re.search(r"^\D*[-−(]|-$", printed) else value


def day(printed: str, *, month_first: bool = False) -> tuple[str, str] | None:
    """The date at the beginning of a text, as YYYY-MM-DD, and its quote."""
    if not (found := _DATE.match(printed)):
        return None
    first, month, year = found.groups()
    if len(first) == 4 and first.isdigit():
        first, year = year, first
    elif not first.isdigit() or (month_first and "/" in found[0]):
        first, month = month, first
    month = MONTHS.get(fold(month), month)
    try:
        return date(int(year) + (2000 if len(year) == 2 else 0), int(month), int(first)).isoformat(), found[0]
    except ValueError:
        return None


def read_fields(text: str, schema: Schema | None = None) -> list[Field]:
    """The labelled values: the schema's properties; without a schema, known fields and any label with a colon."""
    leaves = list(_leaves(schema or {}, schema or {}, (), 8))
    names = [[plain(name) for name in (" ".join(keys), shape.get("title", ""), keys[-1])] for keys, shape in leaves]
    last = Counter(each[2] for each in names)
    own: Labels = {name: [((name,), "any", 0)] for each in names for name in each if name}
    found, fields = _found(text, own | LABELS, others=schema is None), dict[Keys, Field]()
    # A value belongs to one property: the one whose path or title names it, else the only one that ends so.
    for at, (keys, shape), each in ((at, *leaf) for at in range(3) for leaf in zip(leaves, names, strict=True)):
        sole = at < 2 or last[each[2]] == 1
        for target in (*meant(each[at]), (each[at],)) if sole else ():
            field = found.get(target) if keys not in fields else None
            if field and (value := _shaped(field, shape)) is not None:
                fields[keys] = found.pop(target)._replace(keys=keys, value=value)
    return list((found if schema is None else fields).values())


def _found(text: str, known: Labels, *, others: bool) -> dict[Keys, Field]:
    slashed = re.findall(r"\b(\d\d?)/(\d\d?)/\d\d", text)
    american = any(int(b) > 12 for _, b in slashed) or ("$" in text and all(int(a) <= 12 for a, _ in slashed))
    seen = dict[tuple[Keys, str], dict[tuple[float, float], list[Field]]]()
    for label, how, printed, page in _sightings(text, known):
        other = others and how == "colon" and len(seen) < 60 and _OTHER.fullmatch(label)
        unknown = [(("_".join(plain(label).split()),), "any", 9)] if other else []
        for keys, kind, rank in known.get(plain(label), unknown):
            for value, quote in _read(kind, how, printed, american):
                field = Field(keys, value, _SURE[how] if rank < 9 else 0.6, quote, page)
                seen.setdefault((keys, kind), {}).setdefault((rank, -field.confidence), []).append(field)
    best = {keys: (kind == "money", values[min(values)]) for (keys, kind), values in seen.items()}
    # Of several totals the last is the grand one; of all else that differs none is sure.
    fields = {keys: each[-1] for keys, (sums, each) in best.items() if sums or len({one.value for one in each}) == 1}
    for field in [] if ("currency",) in fields else list(fields.values()):
        if sign := re.search(_SIGN, field.quote, re.IGNORECASE):
            fields["currency",] = Field(("currency",), _SIGNS[sign[0].casefold()], 0.6, field.quote, field.page)
    return fields


def _read(kind: str, how: str, printed: list[str], american: bool) -> list[tuple[Any, str]]:
    """The value of this kind that is printed at a label, with its quote: one or none."""
    amounts = [(number, cell) for cell in printed if (number := amount(cell)) is not None]
    if kind in ("money", "tax"):
        return amounts[:1] if how == "colon" else amounts[-1:]
    first, dated = printed[0], day(printed[0], month_first=american)
    if kind == "date" or (kind == "any" and dated and dated[1] == first):
        return [dated] if dated else []
    if kind == "any" and amounts[:1] and amounts[0][1] == first and re.search(r"\d[.,]\d\d(?!\d)", first):
        return amounts[:1]
    # In the same cell stands the rest of a sentence, too, and below a heading anything: there a number is one word.
    alone = how in ("colon", "cells") or (" " not in first if kind == "id" else how == "below")
    fits = alone and len(first) <= 160 and re.fullmatch(_FORMS[kind], first) and not (kind == "id" and dated)
    value = _SIGNS.get(first.casefold()) if kind == "code" else first
    return [(value, first)] if fits and value else []


def _sightings(text: str, known: Labels) -> Iterator[tuple[str, str, list[str], int]]:
    """Every (label, layout, printed cells, page) in the text of `get_document_text`. The layout is a key of _SURE."""
    said = [line for line in text.splitlines() if line.strip() and not line.startswith("[warning: ")]
    page, lines = 1, [list(_CELL.finditer(line))[:40] for line in said]
    for cells, under in zip(lines, [*lines[1:], []], strict=False):
        header = re.fullmatch(r"--- page (\d{1,6}) of \d+ ---", cells[0][0])
        page = int(header[1]) if header else page
        row: list[tuple[re.Match[str], str, str, list[str]]] = []
        for cell in cells:
            label, how, rest = _split(cell[0], known, spaced=not row or row[-1][2] != "colon" or bool(row[-1][3]))
            if how:
                dated = _DATED.fullmatch(rest)
                row.append((cell, label, how, [dated[1] if dated else rest] if rest else []))
                row += (
                    [(cell, "invoice date", how, [dated[2]])] if dated and ("invoice_number",) in meant(label) else []
                )
            elif row:
                row[-1][3].append(cell[0])
        for cell, label, how, printed in row:
            below = [one[0] for one in under if one.start() < cell.end() and one.end() > cell.start()]
            if printed:
                yield label, how, printed, page
            # In the head of a table of goods most cells are no label.
            elif below and len(row) == len(cells) and not _split(below[0], known)[1] and below[0][:3] != "---":
                yield label, "below", below[:1], page


def _split(cell: str, known: Labels, *, spaced: bool = True) -> tuple[str, str, str]:
    """A cell's label, its layout, and the rest of the cell. The layout is empty if there is no label."""
    label, colon, rest = cell.partition(":")
    if colon and label[:1].isalpha() and len(label) <= 48 and not rest.startswith("//"):
        return label.strip(), "colon", rest.strip()
    words = cell[:200].split(" ")[:8] if spaced else []
    for label in (" ".join(words[:count]) for count in range(len(words), 0, -1)):
        rest = cell[len(label) :].strip()
        if plain(label) in known and (not rest or re.search(rf"\d|{_SIGN}", rest[:40], re.IGNORECASE)):
            return label, "joined" if rest else "cells", rest
    return "", "", ""


def _leaves(shape: Schema, root: Schema, keys: Keys, depth: int) -> Iterator[tuple[Keys, Schema]]:
    for _ in range(4):  # a reference or an alternative may lead to another
        choices = [each for key in ("anyOf", "oneOf", "allOf") for each in shape.get(key, [])]
        referred = root.get("$defs", {}).get(str(shape.get("$ref", "")).rpartition("/")[2])
        shape = referred or next((each for each in choices if each.get("type") != "null"), shape)
    inner: Schema = shape.get("properties", {})
    for key in inner if depth else ():
        yield from _leaves(inner[key], root, (*keys, key), depth - 1) if isinstance(inner[key], dict) else ()
    if keys and not inner and not re.search("array|object", str(shape.get("type"))):
        yield keys, shape


def _shaped(field: Field, shape: Schema) -> Any:
    types, said, number = str(shape.get("type", "string")), plain(field.quote), amount(field.quote)
    if "enum" in shape:
        return next((one for one in shape["enum"] if plain(str(one)) in (plain(str(field.value)), said)), None)
    if "boolean" in types:
        return YES_NO.get(said)
    if "number" in types or "integer" in types:
        return number if number is None or "number" in types else int(number) if number.is_integer() else None
    value = field.quote if isinstance(field.value, float) else field.value
    return value if shape.get("format") != "date" or re.fullmatch(r"\d{4}-\d\d-\d\d", value) else None
