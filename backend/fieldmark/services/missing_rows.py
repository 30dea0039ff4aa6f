"""Printed lines that look like rows of an extraction's lists and are in none of their items, ready to be added."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, JsonValue, TypeAdapter, ValidationError

from fieldmark.db.pool import Database
from fieldmark.domain import paths
from fieldmark.domain.days import is_iso_date
from fieldmark.domain.fields import Missing, value_at
from fieldmark.domain.json_values import JsonObject, as_object
from fieldmark.domain.numbers import is_number
from fieldmark.domain.paths import Path
from fieldmark.identity.scope import Scope
from fieldmark.services.evidence import INDEXES
from fieldmark.services.fair_share import run_queued
from fieldmark.stores.rows import ExtractionRow
from valuegrounding import Boxes, DocumentIndex
from valuegrounding.missing_rows import LocatedValue, PrintedCell
from valuegrounding.paths import walk

_PLACE = TypeAdapter[tuple[int, Boxes]](tuple[int, Boxes])


@dataclass(frozen=True, slots=True)
class MissingRow:
    """A printed line that looks like a row of a list and is in no item."""

    path: Annotated[str, Field(description="Where to set `value`: the end of the list.", examples=["items[4]"])]
    page: int
    boxes: Boxes
    text: Annotated[str, Field(description="The line as printed.")]
    value: Annotated[
        JsonObject,
        Field(description="The item, with what is printed in the columns of the others. null: nothing of that type."),
    ]


async def find_missing_rows(database: Database, scope: Scope, row: ExtractionRow) -> list[MissingRow]:
    """Return the missing rows of an extraction, at most 50. Opens its own transaction."""
    index = await INDEXES.get(database, scope, row.document_id)
    return await run_queued(scope.org_id, _find, index, row)


def _find(index: DocumentIndex, row: ExtractionRow) -> list[MissingRow]:
    fields = dict(row.extracted_fields)
    found: list[MissingRow] = []
    added = Counter[Path]()
    for one in index.missing_rows(located_values(row.evidence)):
        items = value_at(fields, one.path)
        if not isinstance(items, list):
            continue
        at = (*one.path, len(items) + added[one.path])
        added[one.path] += 1
        value: JsonObject = {}
        for column in {path: None for item in items for path, _ in walk(item)}:
            if not any(isinstance(step, int) for step in column):
                others = [other for item in items if not isinstance(other := value_at(item, column), Missing)]
                _put(value, column, _value(one.cells.get(column), others))
        found.append(MissingRow(paths.name(at), one.page, (one.box,), one.text, value))
    return found


def located_values(evidence: Mapping[str, JsonValue]) -> Iterator[LocatedValue]:
    """Yield the locations in stored evidence."""
    for name, stored in evidence.items():
        proof = as_object(stored)
        if proof.get("state") == "found" and proof.get("page") is not None:
            # A front end may have written any JSON.
            try:
                page, boxes = _PLACE.validate_python((proof["page"], proof.get("boxes")))
            except ValidationError:
                continue
            yield LocatedValue(paths.parse(name), page, boxes, str(proof.get("quote") or ""))


def _value(cell: PrintedCell | None, others: list[JsonValue]) -> JsonValue:
    """Return the value of a cell, of the type that the column has in the other items."""
    sample = next((one for one in others if one is not None), None)
    if cell is None or isinstance(sample, bool | dict | list):
        return None
    if is_number(sample):
        return cell.value if is_number(cell.value) else None
    if isinstance(sample, str) and is_iso_date(sample):
        return cell.value if isinstance(cell.value, str) else None
    return cell.text


def _put(item: JsonObject, path: Path, value: JsonValue) -> None:
    *above, last = map(str, path)
    for step in above:
        item = as_object(item.setdefault(step, {}))
    item[last] = value
