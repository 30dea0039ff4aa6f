"""Marks on rows that a person should look at: likely duplicates, and values far outside their column's range."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Final, Literal, TypeAlias
from uuid import UUID

from pydantic import Field

from fieldmark.db.pool import Connection
from fieldmark.domain.identifying_columns import identifying_columns
from fieldmark.domain.statuses import FieldStatus
from fieldmark.stores import table_marks
from fieldmark.stores.table_marks import ColumnDistribution
from fieldmark.stores.tables import Table, TableRow

_FENCE: Final = 2.2
"""Distance of the bounds from the quartiles of the logarithms, in interquartile ranges (Hoaglin and Iglewicz, 1987)."""
_LEAST_SPREAD: Final = math.log(2)
"""Least interquartile range, so that a column of equal values has bounds of about a fifth and five times the value."""
_DAYS: Final = 3653
"""Days from the median of a column's days to the bounds: ten years."""


@dataclass(frozen=True, slots=True)
class MarkedDocument:
    """The document that a row duplicates."""

    document_id: UUID
    filename: str


@dataclass(frozen=True, slots=True)
class DuplicateMark:
    """A row that agrees with that of an earlier document in at least three of vendor, number, date and total."""

    extraction_id: UUID
    path: None
    code: Literal["duplicate"]
    of: MarkedDocument
    columns: Annotated[Sequence[str], Field(description="The columns that agree.")]


@dataclass(frozen=True, slots=True)
class OutlierMark:
    """A value far outside the usual range of its column, among values of the same currency."""

    extraction_id: UUID
    path: Annotated[str, Field(description="The path of the value.")]
    code: Literal["outlier"]
    low: float | date
    high: float | date
    currency: str | None


Mark: TypeAlias = Annotated[DuplicateMark | OutlierMark, Field(discriminator="code")]


async def list_marks(conn: Connection, table: Table, rows: Sequence[TableRow]) -> list[Mark]:
    """Return the marks of these rows, compared with all rows of the table. Values that a person set or confirmed have
    none. Raise TooLongToAnswer."""
    if not rows:
        return []
    marks: list[Mark] = []
    if table.rows is None:
        found = await table_marks.find_duplicates(
            conn,
            table,
            identifying_columns(list(table.columns.values())),
            [row.extraction_id for row in rows if row.extraction_id],
        )
        marks += [
            DuplicateMark(
                one.extraction_id, None, "duplicate", MarkedDocument(one.of_document_id, one.of_filename), one.columns
            )
            for one in found
        ]
    usual = {
        (one.column, one.currency, one.median_day is not None): _bounds(one)
        for one in await table_marks.column_distributions(conn, table)
    }
    return [*marks, *dict.fromkeys(mark for row in rows for mark in _outliers(row, usual))]


@dataclass(frozen=True, slots=True)
class _Bounds:
    """The usual range of a column: of the absolute values of its numbers, or of its days as ordinals."""

    low: float
    high: float
    is_day: bool


def _bounds(column: ColumnDistribution) -> _Bounds:
    if column.median_day is not None:
        middle = column.median_day.toordinal()
        return _Bounds(max(middle - _DAYS, 1), min(middle + _DAYS, date.max.toordinal()), is_day=True)
    low, high = column.lower_quartile or 0.0, column.upper_quartile or 0.0
    distance = _FENCE * max(high - low, _LEAST_SPREAD)
    return _Bounds(_exponential(low - distance), _exponential(high + distance), is_day=False)


def _exponential(logarithm: float) -> float:
    """Return the number with this logarithm, rounded to three digits."""
    return float(f"{math.exp(max(min(logarithm, 700.0), -700.0)):.3g}")


def _outliers(row: TableRow, usual: Mapping[tuple[str, str | None, bool], _Bounds]) -> Iterator[OutlierMark]:
    if row.extraction_id is None:
        return
    for column, cell in row.cells.items():
        bounds = usual.get((column, cell["currency"], cell["kind"] == "day"))
        if bounds is None or cell["kind"] not in ("number", "day") or cell["status"] == FieldStatus.CONFIRMED:
            continue
        low, high = bounds.low, bounds.high
        if bounds.is_day:
            if not low <= date.fromisoformat(cell["value"][:10]).toordinal() <= high:
                days = date.fromordinal(int(low)), date.fromordinal(int(high))
                yield OutlierMark(row.extraction_id, cell["path"], "outlier", *days, cell["currency"])
        elif (value := cell["value"]) and not low <= abs(value) <= high:
            limits = (low, high) if value > 0 else (-high, -low)
            yield OutlierMark(row.extraction_id, cell["path"], "outlier", *limits, cell["currency"])
