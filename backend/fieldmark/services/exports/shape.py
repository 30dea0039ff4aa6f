"""The content of every export: the leaves of an extraction with their locations, and its lists of objects as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pydantic import JsonValue

from fieldmark.domain import paths
from fieldmark.domain.field_order import FieldOrder
from fieldmark.domain.fields import walk
from fieldmark.domain.json_values import JsonObject
from fieldmark.domain.numbers import is_number

STATES = ("found", "blank", "not_found", "message")
MAX_TABLES = 50  # lists of objects with a table of their own; the leaves of further lists are only listed
MAX_COLUMNS = 200
MAX_BOXES = 100  # of one leaf

Box = tuple[float, float, float, float]


class Leaf(NamedTuple):
    """A scalar, or an empty object or list. `boxes` are in fractions of the page; `state` is one of STATES or None."""

    path: paths.Path
    name: str
    value: JsonValue
    confidence: float | None
    state: str | None
    page: int | None
    boxes: list[Box]
    quote: str | None
    by_person: bool
    proposals: list[JsonValue]  # values that agents would have written instead


@dataclass(frozen=True, slots=True)
class Table:
    """A list of objects. `name`: `items`, `items[].taxes`, … `rows`: leaves by column, by the item's path."""

    name: str
    columns: list[str] = field(default_factory=list[str])
    rows: dict[str, dict[str, Leaf]] = field(default_factory=dict[str, dict[str, Leaf]])


def leaves_of(extraction: Mapping[str, Any]) -> list[Leaf]:
    """Return the leaves of an extraction in its order."""
    scores, evidence = _object(extraction.get("confidence_scores")), _object(extraction.get("evidence"))
    locks = _object(extraction.get("locks"))
    proposed: dict[str, list[JsonValue]] = {}
    for proposal in extraction.get("proposals") or ():
        if not proposal.get("removed"):
            proposed.setdefault(str(proposal["path"]), []).append(proposal["new"])
    found: list[Leaf] = []
    for path, value in walk(extraction["extracted_fields"]):
        name = paths.name(path)
        given = _object(evidence.get(name))
        score, state, page, quote = scores.get(name), given.get("state"), given.get("page"), given.get("quote")
        found.append(
            Leaf(
                path,
                name,
                value,
                float(score) if isinstance(score, int | float) else None,
                state if state in STATES else None,
                page if type(page) is int and page > 0 else None,
                _boxes(given.get("boxes")),
                quote if isinstance(quote, str) and quote else None,
                name in locks,
                proposed.get(name, []),
            )
        )
    return found


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


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}  # pyright: ignore[reportUnknownVariableType]


def _boxes(given: Any) -> list[Box]:
    # Any client may have written the evidence: invalid boxes are skipped.
    boxes: list[Box] = []
    for box in given[:MAX_BOXES] if isinstance(given, list) else ():  # pyright: ignore[reportUnknownVariableType]
        if isinstance(box, list) and len(box) == 4 and all(is_number(side) for side in box):  # pyright: ignore
            x0, y0, x1, y1 = (float(side) for side in box)  # pyright: ignore
            if 0 <= x0 <= x1 <= 1 and 0 <= y0 <= y1 <= 1:
                boxes.append((x0, y0, x1, y1))
    return boxes
