"""The content of every export: the fields of an extraction with their statuses and locations, and its lists of objects
as tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pydantic import JsonValue

from fieldmark.domain import paths
from fieldmark.domain.field_order import FieldOrder
from fieldmark.domain.fields import MISSING, Missing, value_at
from fieldmark.domain.json_values import JsonObject, as_object
from fieldmark.domain.numbers import is_number
from fieldmark.domain.status_text import status_text
from fieldmark.domain.statuses import FieldStatus
from valuegrounding.paths import walk

MAX_TABLES = 50  # lists of objects with a table of their own; the leaves of further lists are only listed
MAX_COLUMNS = 200
MAX_BOXES = 100  # of one leaf

Box = tuple[float, float, float, float]


class Leaf(NamedTuple):
    """A scalar, an empty object or list, or a field without a value that has a status: one that is missing, or a list
    or object that breaks the schema itself. `boxes` are in fractions of the page. `status` is None in a past version of
    an extraction, which has none."""

    path: paths.Path
    name: str
    value: JsonValue
    status: FieldStatus | None
    reason: str | None
    confidence: float | None
    page: int | None
    boxes: list[Box]
    quote: str | None
    by_person: bool
    proposals: list[JsonValue | Missing]  # what agents would have written instead; MISSING: they would remove it

    @property
    def status_text(self) -> str:
        return "" if self.status is None else status_text(self.status, self.reason)


@dataclass(frozen=True, slots=True)
class Table:
    """A list of objects. `name`: `items`, `items[].taxes`, … `rows`: leaves by column, by the item's path."""

    name: str
    columns: list[str] = field(default_factory=list[str])
    rows: dict[str, dict[str, Leaf]] = field(default_factory=dict[str, dict[str, Leaf]])


def leaves_of(extraction: Mapping[str, Any]) -> list[Leaf]:
    """Return the leaves of an extraction in its order. Missing fields are where the schema has them, if the extraction
    has its schema, else at the end of their object."""
    scores, evidence = as_object(extraction.get("confidence_scores")), as_object(extraction.get("evidence"))
    locks, statuses = as_object(extraction.get("locks")), as_object(extraction.get("statuses"))
    proposed: dict[paths.Path, list[JsonValue | Missing]] = {}
    for one in extraction.get("proposals") or ():
        new = MISSING if one.get("removed") else one["new"]
        proposed.setdefault(paths.parse(str(one["path"])), []).append(new)
    found: list[Leaf] = []
    for path, value in _with_missing(extraction, statuses):
        name = paths.name(path)
        given, status = as_object(evidence.get(name)), as_object(statuses.get(name))
        score, page, quote = scores.get(name), given.get("page"), given.get("quote")
        found.append(
            Leaf(
                path,
                name,
                value,
                FieldStatus(str(status["status"])) if status else None,
                None if status.get("reason") is None else str(status["reason"]),
                float(score) if isinstance(score, int | float) else None,
                page if type(page) is int and page > 0 else None,
                _boxes(given.get("boxes")),
                quote if isinstance(quote, str) and quote else None,
                name in locks,
                list(_proposals(path, proposed)),
            )
        )
    return found


def _proposals(
    path: paths.Path, proposed: Mapping[paths.Path, Sequence[JsonValue | Missing]]
) -> Iterator[JsonValue | Missing]:
    """Yield what proposals for a field, or for a list or object around it, would write there."""
    for end in range(len(path) + 1) if proposed else ():
        for new in proposed.get(path[:end], ()):
            yield MISSING if isinstance(new, Missing) else value_at(new, path[end:])


def _with_missing(extraction: Mapping[str, Any], statuses: Mapping[str, Any]) -> Iterator[tuple[paths.Path, JsonValue]]:
    """Yield (path, value) of each leaf, and of each other field with a status, whose value is None: a missing one as if
    it were null, then the lists and objects that break the schema themselves."""
    fields: JsonObject = extraction["extracted_fields"]
    known = {paths.name(path) for path, _ in walk(fields)}
    others = [paths.parse(name) for name in statuses if name not in known]
    absent = [path for path in others if path and isinstance(value_at(fields, path), Missing)]
    if absent:
        fields = deepcopy(fields)
        for path in absent:
            around = value_at(fields, path[:-1])
            if isinstance(around, dict):
                around[str(path[-1])] = None
        if schema := extraction.get("schema"):
            fields = FieldOrder(schema, as_object(extraction.get("evidence"))).arrange(fields)
    yield from walk(fields)
    yield from ((path, None) for path in others if path not in absent)


def list_tables(leaves: Sequence[Leaf], schema: JsonObject | None) -> list[Table]:
    """Return the lists of objects. A list of objects inside an item is its own table; a list of scalars inside an item
    has a column for each index. Columns outside the schema come last, from left to right."""
    order = FieldOrder(schema, {})
    tables: dict[str, Table] = {}
    for leaf in leaves:
        at = _item_in(leaf.path)
        if at is None:
            continue
        name = "".join("[]" if isinstance(step, int) else f".{step}" for step in leaf.path[: at - 1]).lstrip(".")
        table = tables.get(name)
        if table is None:
            if len(tables) == MAX_TABLES:
                continue
            table = tables[name] = Table(name)
        column = paths.name(leaf.path[at:])
        row = table.rows.setdefault(paths.name(leaf.path[:at]), {})
        if column not in table.columns:
            if len(table.columns) == MAX_COLUMNS:
                continue
            table.columns.append(column)
        row[column] = leaf
    for table in tables.values():
        places = {name: _column_place(name, table, order) for name in table.columns}
        table.columns.sort(key=places.__getitem__)
    return list(tables.values())


def _column_place(column: str, table: Table, order: FieldOrder) -> tuple[tuple[float, ...], float]:
    """Return the position of a column in the schema, and the left edge of its first located value: 2.0, beyond the
    page, if there is none."""
    found = [row[column] for row in table.rows.values() if column in row]
    return order.position(found[0].path), next((leaf.boxes[0][0] for leaf in found if leaf.boxes), 2.0)


def _item_in(path: paths.Path) -> int | None:
    """Return the length of the path of the innermost list item that contains the leaf: 2 for `items[0].price`."""
    for at in range(len(path) - 1, 0, -1):
        if isinstance(path[at], str) and isinstance(path[at - 1], int):
            return at
    return None


def _boxes(given: Any) -> list[Box]:
    # Any client may have written the evidence: invalid boxes are skipped.
    boxes: list[Box] = []
    for box in given[:MAX_BOXES] if isinstance(given, list) else ():  # pyright: ignore[reportUnknownVariableType]
        if isinstance(box, list) and len(box) == 4 and all(is_number(side) for side in box):  # pyright: ignore
            x0, y0, x1, y1 = (float(side) for side in box)  # pyright: ignore
            if 0 <= x0 <= x1 <= 1 and 0 <= y0 <= y1 <= 1:
                boxes.append((x0, y0, x1, y1))
    return boxes
