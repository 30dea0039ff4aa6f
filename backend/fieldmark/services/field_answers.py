"""Answers to the question what the value of a field is: printed values that may be it, each with its location.

The reason of an answer is a code with data, so that a front end says it in the reader's language.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Final, Literal, TypeAlias

from pydantic import ConfigDict, Field, JsonValue

from fieldmark.db.pool import Database
from fieldmark.domain import paths
from fieldmark.domain.columns import ColumnType, column_type
from fieldmark.domain.fields import Missing, leaves, value_at
from fieldmark.domain.json_values import JsonObject, as_list, as_object
from fieldmark.domain.numbers import is_number
from fieldmark.domain.paths import EACH, Path
from fieldmark.domain.schema_walk import walk_fields
from fieldmark.identity.scope import Scope
from fieldmark.services.evidence import INDEXES
from fieldmark.services.extractions import find_rule_fixes
from fieldmark.services.fair_share import run_queued
from fieldmark.stores import extractions
from fieldmark.stores.rows import ALL_REQUIRED, ExtractionRow, location_in
from valuegrounding import Boxes, DocumentIndex, Location
from valuegrounding.dates import find_dates
from valuegrounding.decimals import canonical_decimal, to_decimal
from valuegrounding.folding import fold
from valuegrounding.numbers import BODY, possible_values
from valuegrounding.units import codes_of

AnswerCode: TypeAlias = Literal[
    "proposed",
    "current",
    "printed",
    "day_first",
    "month_first",
    "other_reading",
    "symbol",
    "rule",
    "sum",
    "label",
    "near",
    "second_reading",
]

MAX_ANSWERS: Final = 9
_MAX_CURRENCIES: Final = 5
_MAX_PRINTED: Final = 4
_MAX_ONLY: Final = 200
_WHOLE_NAME: Final = 3.0
_CENTS = re.compile(r"[.,]\d\d(?!\d)")
_COMMON_CURRENCIES: Final = ("USD", "EUR", "GBP", "CAD", "AUD", "SGD", "HKD", "NZD", "JPY", "CNY", "SEK", "NOK", "DKK")
_LABELS: Final[Mapping[str, str]] = {
    "total": "to pay|amount due|balance due|grand total|gesamt|summe|zu zahlen|endbetrag|montant|importe|totale",
    "due": "due|payable by|fallig|zahlbar",
    "date": "date|datum|issued|fecha",
    **dict.fromkeys(("tax", "vat"), "vat|tax|gst|sst|mwst|ust|iva|tva"),
    "net": "subtotal|net|netto|zwischensumme",
    "number": "no|nr|number|nummer",
}
"""What is printed beside some values in place of the name of their field."""
_COMMON_WORDS: Final = frozenset(
    {"number", "no", "nr", "nummer", "id", "code", "date", "datum", "name", "amount", "of"}
)
"""Words of names that alone say little: an invoice number is no order number."""
_TOTALS: Final = frozenset({"total", "totals", "gross", "gesamt", "brutto", "summe", "montant", "importe", "totale"})
"""Names of amounts that are not below another amount of the document."""


@dataclass(frozen=True, slots=True)
class CandidateAnswer:
    """A value that may be that of a field."""

    __pydantic_config__: ClassVar[ConfigDict] = ALL_REQUIRED

    value: JsonValue
    code: Annotated[
        AnswerCode,
        Field(
            description="Why. proposed: by an agent. current, printed: the field has it. day_first, month_first, "
            "other_reading: the printed text read this way. symbol: a currency that the printed symbol may mean. rule: "
            "it would satisfy the broken rule. sum: of a column. label: printed after a text like the field's name. "
            "near: printed, and of the field's type. second_reading: read by another model."
        ),
    ]
    data: Annotated[
        Mapping[str, str],
        Field(
            description="Of the code: quote, symbol, rule, of (a column), label, removed; rows (the number of "
            "a list's), and only, the text of those that the other answer does not have."
        ),
    ] = field(default_factory=dict[str, str])
    page: int | None = None
    boxes: Boxes = ()


async def find_answers(database: Database, scope: Scope, row: ExtractionRow, path: Path) -> list[CandidateAnswer]:
    """Return at most nine answers for a field, the likeliest first. Opens its own transactions."""
    name = paths.name(path)
    index = await INDEXES.get(database, scope, row.document_id)
    fixes = [one for one in await find_rule_fixes(database, scope, row) if one.reading.path == path]
    async with database.as_user(scope) as conn:
        second = as_object((await extractions.second_reading(conn, row.id)).get(name))
    found = [
        *_proposed(row, name),
        *_read_again(row, path, second),
        *(_located(one.reading.value, "rule", {"rule": one.reading.kind}, one.location) for one in fixes),
        *await run_queued(scope.org_id, lambda: list(_printed(index, row, path, second.get("value")))),
    ]
    once: dict[str, CandidateAnswer] = {}
    for one in found:
        once.setdefault(repr(one.value), one)
    return list(once.values())[:MAX_ANSWERS]


def _proposed(row: ExtractionRow, name: str) -> Iterator[CandidateAnswer]:
    for one in row.proposals:
        if one["path"] == name:
            proof = as_object(as_object(one["evidence"]).get(name))
            removed = {"removed": "true"} if one["removed"] else {}
            yield CandidateAnswer(one["new"], "proposed", removed, *_place(proof))
            yield CandidateAnswer(one["old"], "current")


def _read_again(row: ExtractionRow, path: Path, second: JsonObject) -> Iterator[CandidateAnswer]:
    """Yield the stored value and that of a second reading, if they differ. `second` is what only that reading has."""
    value, proof = value_at(dict(row.extracted_fields), path), as_object(row.evidence.get(paths.name(path)))
    said = as_object(proof.get("second_reading"))
    if said.get("result") == "differs" and not isinstance(value, Missing):
        yield CandidateAnswer(value, "printed" if proof.get("quote") else "current", _quote(proof), *_place(proof))
        yield CandidateAnswer(said.get("value"), "second_reading", _quote(said), *_place(said))
    elif "rows" in second:
        stored = as_list(None if isinstance(value, Missing) else value)
        yield from _lists(row, path, stored, as_list(second["rows"]))
    elif second and (value is None or isinstance(value, Missing)):
        yield CandidateAnswer(second.get("value"), "second_reading", _quote(second), *_place(second))


def _lists(row: ExtractionRow, path: Path, stored: list[JsonValue], rows: list[JsonValue]) -> Iterator[CandidateAnswer]:
    """Yield the stored list, and with the rows of the second reading. Rows that both have keep their stored values."""
    added = [as_object(one) for one in rows if not isinstance(one, int)]
    removed = {at: one for at, one in enumerate(stored) if at not in rows}
    if stored:
        proofs = [
            as_object(row.evidence.get(name)) for at, one in removed.items() for name, _ in leaves(one, (*path, at))
        ]
        yield CandidateAnswer(stored, "current", _rows_data(stored, removed.values()), *_places(proofs))
    other = [stored[one] if isinstance(one, int) else as_object(one).get("row") for one in rows]
    data = _rows_data(other, [one.get("row") for one in added])
    yield CandidateAnswer(other, "second_reading", data, *_places(added))


def _rows_data(rows: list[JsonValue], only: Iterable[JsonValue]) -> dict[str, str]:
    texts = [" ".join(str(value) for _, value in leaves(one) if value is not None) for one in only]
    return {"rows": str(len(rows)), **({"only": "; ".join(texts)[:_MAX_ONLY]} if texts else {})}


def _places(proofs: Iterable[JsonObject]) -> tuple[int | None, Boxes]:
    """Return the first page of several locations, and their boxes there."""
    found = [place for proof in proofs if (place := _place(proof))[0] is not None]
    return (
        (found[0][0], tuple(box for page, boxes in found if page == found[0][0] for box in boxes))
        if found
        else (None, ())
    )


def _quote(place: JsonObject) -> dict[str, str]:
    return {"quote": quote} if isinstance(quote := place.get("quote"), str) else {}


def _printed(index: DocumentIndex, row: ExtractionRow, path: Path, other: JsonValue) -> Iterator[CandidateAnswer]:
    """Yield what the page prints for a field. `other` is the value of a second reading, which may show its type."""
    name = paths.name(path)
    value = value_at(dict(row.extracted_fields), path)
    proof = as_object(row.evidence.get(name))
    quote = proof.get("quote")
    if not isinstance(value, Missing | dict | list) and proof.get("state") == "found" and isinstance(quote, str):
        page, boxes = _place(proof)
        yield from _readings(value, quote, proof, 0 if page is None else index.scale_at(page, boxes))
        if page is not None and is_number(value):
            for text in index.other_values_at(page, boxes, quote, value):
                number = float(text) if "." in text else int(text)
                yield CandidateAnswer(number, "other_reading", {"quote": quote}, page, boxes)
        return
    if isinstance(value, dict | list):
        return
    kind = _kind_of(row.schema or {}, path, other if value is None or isinstance(value, Missing) else value)
    yield from _unmapped_answers(index, row, name, kind)


def _unmapped_answers(
    index: DocumentIndex, row: ExtractionRow, name: str, kind: ColumnType
) -> Iterator[CandidateAnswer]:
    """Yield printed values of a field's type: those after a text like its name first, those of other fields last."""
    taken = {repr(one) for _, one in leaves(dict(row.extracted_fields))}
    held = [_place(as_object(proof)) for other, proof in row.evidence.items() if other != name]
    sums = dict(_sums(row.extracted_fields)) if kind == "number" else {}
    words = _words_of(name)
    least = _largest_amount(row) if words & _TOTALS else 0.0
    ranked: list[tuple[bool, float, float, CandidateAnswer]] = []
    for one in index.unmapped([]).items:
        if one.kind != ("date" if kind == "date" else "number"):
            continue
        readings = _dates_in(one.text) if kind == "date" else [(one.text if kind == "text" else one.value, None)]
        for answer, order in readings:
            amount = float(answer) if is_number(answer) else 0.0
            column = sums.get(amount)
            is_free = not any(_is_at(one.page, one.boxes, place) for place in held)
            label = _label_score(one.before, words)
            # What another field has is another value, unless the whole name is printed before it.
            score = (label if is_free or label == _WHOLE_NAME else 0) + (2 if column else 0)
            # Identifiers and counts are printed everywhere. An amount may be that of two fields.
            is_near = kind == "date" or (
                kind == "number" and abs(amount) >= least and _CENTS.search(one.text) is not None
            )
            if answer is None or (score == 0 and (not is_near or repr(answer) in taken)):
                continue
            code: AnswerCode = order or ("sum" if column else "label" if score else "near")
            data = {"label": one.before[-80:], "quote": one.text, **({"of": column} if column else {})}
            ranked.append((is_free, score, amount, CandidateAnswer(answer, code, data, one.page, one.boxes)))
    ranked.sort(key=lambda one: one[:3], reverse=True)
    yield from (answer for *_, answer in ranked[:_MAX_PRINTED])


def _largest_amount(row: ExtractionRow) -> float:
    """Return the largest printed amount of a field that is in no list."""
    amounts = [
        abs(value)
        for name, value in leaves(dict(row.extracted_fields))
        if is_number(value) and "[" not in name and _CENTS.search(str(as_object(row.evidence.get(name)).get("quote")))
    ]
    return float(max(amounts, default=0.0))


def _dates_in(quote: str) -> list[tuple[str, AnswerCode | None]]:
    """Return the days that a printed date may be. If there are two: which of them reads the day first."""
    folded = fold(quote)
    days = [day for one in find_dates(folded) for day in one.days]
    first = re.search(r"\d+", folded)
    return [
        (
            f"{year:04}-{month:02}-{day:02}",
            None if len(days) == 1 or first is None else "day_first" if int(first[0]) == day else "month_first",
        )
        for year, month, day in days
    ]


def _readings(value: JsonValue, quote: str, proof: JsonObject, scale: int) -> Iterator[CandidateAnswer]:
    """Yield the stored value and what its printed text may mean instead. A heading shifts the decimal point by `scale`
    places."""
    place = _place(proof)
    doubt = proof.get("reason")
    folded = fold(quote)
    dates = _dates_in(quote) if proof.get("match") == "date" else []
    if value in [text for text, _ in dates]:
        # Also where the document shows the order: a question about the value has both.
        for text, order in sorted(dates, key=lambda one: one[0] != value):
            yield CandidateAnswer(text, order or "printed", {"quote": quote}, *place)
        return
    yield CandidateAnswer(value, "printed", {"quote": quote}, *place)
    if doubt == "ambiguous_number" and is_number(value):
        for body in BODY.finditer(folded):
            for text in possible_values(body[0]):
                number = float(text) if "." in text else int(text)
                if number != value:
                    yield CandidateAnswer(number, "other_reading", {"quote": quote}, *place)
    if doubt == "scale" and is_number(value):
        printed = [text for body in BODY.findall(folded) for text in possible_values(body)]
        is_scaled = canonical_decimal(abs(value)) not in printed
        places = -2 if not scale else -scale if is_scaled else scale  # without a heading, cents were read as units
        other = to_decimal(value).scaleb(places)
        number = int(other) if other == other.to_integral_value() else float(other)
        yield CandidateAnswer(number, "other_reading", {"quote": quote}, *place)
    if proof.get("match") == "symbol":
        codes = codes_of(folded.strip()) or frozenset[str]()
        common = [one for one in _COMMON_CURRENCIES if one in codes] + sorted(codes - {*_COMMON_CURRENCIES})
        for code in common[:_MAX_CURRENCIES]:
            if code != value:
                yield CandidateAnswer(code, "symbol", {"symbol": quote}, *place)


def _kind_of(schema: JsonObject, path: Path, value: object) -> ColumnType:
    pattern = tuple(EACH if isinstance(step, int) else step for step in path)
    described = dict(walk_fields(schema).fields).get(pattern)
    if described is not None:
        kind = column_type(described)
        return "date" if kind == "text" and "date" in _words_of(paths.name(path)) else kind
    return "number" if is_number(value) else "date" if "date" in _words_of(paths.name(path)) else "text"


def _words_of(name: str) -> frozenset[str]:
    split = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name.rsplit(".", 1)[-1])
    return frozenset(re.findall(r"[^\W_]+", fold(split)))


def _label_score(before: str, words: frozenset[str]) -> float:
    """Return how like the field's name the text before a value is: _WHOLE_NAME for all words, 2 for a usual label."""
    text = fold(before)
    printed = set(re.findall(r"[^\W_]+", text))
    if words and words <= printed:
        return _WHOLE_NAME
    usual = "|".join(_LABELS[word] for word in words if word in _LABELS)
    if usual and re.search(rf"(?<![^\W_])(?:{usual})(?![^\W_])", text):
        return 2.0
    return 1.0 if (words - _COMMON_WORDS) & printed else 0.0


def _sums(fields: Mapping[str, JsonValue]) -> Iterator[tuple[float, str]]:
    """Yield the sums of the numbers of each column of a list, with the column's path."""
    columns: dict[str, list[float]] = {}
    for name, value in leaves(dict(fields)):
        if is_number(value) and "[" in name:
            columns.setdefault(re.sub(r"\[\d+\]", "[]", name), []).append(float(value))
    for pattern, numbers in columns.items():
        if len(numbers) > 1:
            yield round(sum(numbers), 4), pattern


def _place(proof: JsonObject) -> tuple[int | None, Boxes]:
    return location_in(proof.get("page"), proof.get("boxes"))


def _is_at(page: int, boxes: Boxes, place: tuple[int | None, Boxes]) -> bool:
    """Return whether one of the boxes has its middle in a box of a place."""
    return page == place[0] and any(
        other[0] <= (box[0] + box[2]) / 2 <= other[2] and other[1] <= (box[1] + box[3]) / 2 <= other[3]
        for box in boxes
        for other in place[1]
    )


def _located(value: JsonValue, code: AnswerCode, data: Mapping[str, str], location: Location) -> CandidateAnswer:
    return CandidateAnswer(value, code, data, location.page, location.boxes)
