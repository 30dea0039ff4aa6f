"""What an organisation's documents cost in a period, and how good their values were by the checks of people."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, TypeVar
from uuid import UUID

from pydantic import Field

from fieldmark.db.pool import Connection
from fieldmark.domain.columns import list_columns
from fieldmark.domain.proportions import upper_bound
from fieldmark.domain.statuses import RowStatus
from fieldmark.errors import Invalid
from fieldmark.identity.scope import Scope
from fieldmark.services.audits import ReviewRule, review_rule
from fieldmark.services.fair_share import run_unqueued
from fieldmark.stores import clock, stacks
from fieldmark.stores import overview as stored
from fieldmark.stores.library import schemas
from fieldmark.stores.overview import CostRow, Period, VersionDate, Work

MAX_DAYS = 366
MAX_FIELDS = 200
_MAX_FILLING = 5

Key = TypeVar("Key")


@dataclass(frozen=True, slots=True)
class CostShare:
    """A part of the cost."""

    cost_usd: Annotated[float, Field(description="Without the `unpriced` messages.")]
    documents_read: Annotated[int, Field(description="A document that was read again counts again.")]
    messages: Annotated[int, Field(description="Calls of the model.")]
    unpriced: Annotated[int, Field(description="Calls of a model whose price is not known.")]

    @classmethod
    def of(cls, rows: Sequence[CostRow]) -> CostShare:
        return cls(
            float(sum((row.cost_usd for row in rows), Decimal(0))),
            sum(row.documents_read for row in rows),
            sum(row.messages for row in rows),
            sum(row.unpriced for row in rows),
        )


@dataclass(frozen=True, slots=True)
class DayCost:
    """The cost of a day."""

    day: date
    share: CostShare


@dataclass(frozen=True, slots=True)
class TableCost:
    """The cost of reading into a table; or, without one, of a task of an agent, such as a question."""

    schema_id: UUID | None
    stack_id: UUID | None
    table: Annotated[str | None, Field(description="The name of the table. null: none, or it was deleted.")]
    agent: str | None
    task: str | None
    share: CostShare


@dataclass(frozen=True, slots=True)
class ModelCost:
    """The cost of a model."""

    model: str
    share: CostShare


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a period. The days, the tables and the models have the same sum, `total`. Costs of deleted documents
    are included."""

    total: CostShare
    by_day: Annotated[Sequence[DayCost], Field(description="Days with a cost, oldest first.")]
    by_table: Annotated[Sequence[TableCost], Field(description="The highest cost first.")]
    by_model: Annotated[Sequence[ModelCost], Field(description="The highest cost first.")]


@dataclass(frozen=True, slots=True)
class Checks:
    """The agents' values that people checked: confirmed or corrected one by one, or reviewed with their document."""

    checked: int
    corrected: Annotated[int, Field(description="Of those, the values that a person replaced or removed.")]
    at_most: Annotated[
        float | None,
        Field(
            description="The share of wrong values is not higher, with a confidence of 95 % (Clopper-Pearson). null: "
            "no value was checked."
        ),
    ]

    @classmethod
    def of(cls, unchanged: int, corrected: int) -> Checks:
        checked = unchanged + corrected
        return cls(checked, corrected, upper_bound(corrected, checked))


@dataclass(frozen=True, slots=True)
class FieldQuality:
    """The quality of a field in a table."""

    schema_id: UUID | None
    table: str | None
    pattern: Annotated[str, Field(description="The field, such as `total` or `items[].price`.")]
    checks: Checks
    found: Annotated[int, Field(description="Values that a person entered where the agent had none.")]
    missing: Annotated[
        int, Field(description="Required values that are missing now, of extractions started in the period.")
    ]
    not_found: Annotated[
        int, Field(description="Values that are not on the page and that a person has to look at now.")
    ]


@dataclass(frozen=True, slots=True)
class Quality:
    """The quality of the values that were checked in a period. Values of deleted documents are not included."""

    checks: Checks
    found: int
    missing: int
    not_found: int
    work: Work
    fields: Annotated[Sequence[FieldQuality], Field(description="The most corrections first; at most 200.")]


@dataclass(frozen=True, slots=True)
class FillingStack:
    """A stack whose table is being filled."""

    stack_id: UUID
    name: str
    done: int
    total: int
    since: datetime


@dataclass(frozen=True, slots=True)
class ColumnQuality:
    """The quality of a column."""

    path: str
    title: str | None
    filled: Annotated[int | None, Field(description="Documents with a value in it. null: it is a field of list items.")]
    checks: Checks
    found: int


@dataclass(frozen=True, slots=True)
class WeekQuality:
    """The values that were checked in a week."""

    monday: date
    checks: Checks


@dataclass(frozen=True, slots=True)
class TableQuality:
    """The quality of the table of a schema in a period."""

    name: str
    stack_id: Annotated[UUID | None, Field(description="The stack whose columns the schema is.")]
    documents: Annotated[int, Field(description="The documents of the table whose reading started in the period.")]
    filled: Annotated[int, Field(description="Their values, in all columns outside lists.")]
    checks: Checks
    found: int
    work: Work
    columns: Sequence[ColumnQuality]
    weeks: Sequence[WeekQuality]
    versions: Sequence[VersionDate]
    review: ReviewRule


async def period(
    conn: Connection, scope: Scope, since: date | None, until: date | None, schema_id: UUID | None = None
) -> Period:
    """Return the days from `since` to `until` (UTC, both included). Default: this month until today. Raise Invalid."""
    last = until or await clock.today(conn)
    first = since or last.replace(day=1)
    if not timedelta() <= last - first < timedelta(days=MAX_DAYS):
        raise Invalid(f"`since` must not be after `until`, and the range must have at most {MAX_DAYS} days.")
    return Period(scope.org_id, first, last, schema_id)


async def cost(conn: Connection, days: Period) -> Cost:
    """Return the cost of a period. Costs of deleted documents are included."""
    rows = await stored.costs(conn, days)
    by_table = _shares(rows, _table_of)
    return Cost(
        CostShare.of(rows),
        [DayCost(day, share) for day, share in sorted(_shares(rows, lambda row: row.day))],
        [TableCost(*table, share) for table, share in _dearest_first(by_table)],
        [ModelCost(model, share) for model, share in _dearest_first(_shares(rows, lambda row: row.model))],
    )


def _table_of(row: CostRow) -> tuple[UUID | None, UUID | None, str | None, str | None, str | None]:
    if row.schema_id is None:
        return None, None, None, row.agent, row.task
    return row.schema_id, row.stack_id, row.table, None, None


def _shares(rows: Sequence[CostRow], key: Callable[[CostRow], Key]) -> list[tuple[Key, CostShare]]:
    found: dict[Key, list[CostRow]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return [(name, CostShare.of(rows)) for name, rows in found.items()]


def _dearest_first(shares: list[tuple[Key, CostShare]]) -> list[tuple[Key, CostShare]]:
    return sorted(shares, key=lambda one: (-one[1].cost_usd, -one[1].messages))


async def quality(conn: Connection, days: Period) -> Quality:
    """Return the quality of the values that were checked in a period. Raise TooLongToAnswer."""
    checked = await stored.checked_columns(conn, days)
    to_look_at = {(one.schema_id, one.pattern): one for one in await stored.open_columns(conn, days)}
    fields: list[FieldQuality] = []
    for one in checked:
        need = to_look_at.pop((one.schema_id, one.pattern), None)
        fields.append(
            FieldQuality(
                *(one.schema_id, one.table, one.pattern, Checks.of(one.unchanged, one.corrected), one.found),
                *((need.missing, need.not_found) if need else (0, 0)),
            )
        )
    fields += [
        FieldQuality(one.schema_id, one.table, one.pattern, Checks.of(0, 0), 0, one.missing, one.not_found)
        for one in sorted(to_look_at.values(), key=lambda one: -one.missing - one.not_found)
    ]
    return Quality(
        Checks.of(sum(one.unchanged for one in checked), sum(one.corrected for one in checked)),
        sum(one.found for one in checked),
        sum(one.missing for one in fields),
        sum(one.not_found for one in fields),
        await stored.work(conn, days),
        fields[:MAX_FIELDS],
    )


async def filling(conn: Connection, scope: Scope) -> Sequence[FillingStack]:
    """Return the stacks whose tables are being filled, the newest run first. Raise TooLongToAnswer."""
    runs = await stored.filling_runs(conn, scope.org_id, _MAX_FILLING)
    progress = await stacks.progress(conn, [one.stack_id for one in runs]) if runs else {}
    return [
        FillingStack(one.stack_id, one.name, counts.get(RowStatus.DONE, 0), sum(counts.values()), one.since)
        for one in runs
        for counts in (progress[one.stack_id].counts,)
    ]


async def table_quality(conn: Connection, days: Period) -> TableQuality:
    """Return the quality of a schema's table in a period. Raise NotFound, TooLongToAnswer."""
    assert days.schema_id is not None
    schema = await schemas.get(conn, days.schema_id)
    columns = await run_unqueued(list_columns, schema.schema)
    checked = {one.pattern: one for one in await stored.checked_columns(conn, days)}
    documents, filled = await stored.filled_columns(conn, days, [column.path for column in columns])
    titles = {column.path: column.title for column in columns}
    shown: list[ColumnQuality] = []
    for name in titles | checked:
        one = checked.get(name)
        checks = Checks.of(one.unchanged, one.corrected) if one else Checks.of(0, 0)
        count = None if "[" in name else filled.get(name, 0)
        shown.append(ColumnQuality(name, titles.get(name), count, checks, one.found if one else 0))
    return TableQuality(
        schema.name,
        await stored.stack_of(conn, days.schema_id),
        documents,
        sum(filled.values()),
        Checks.of(sum(one.unchanged for one in checked.values()), sum(one.corrected for one in checked.values())),
        sum(one.found for one in checked.values()),
        await stored.work(conn, days),
        shown,
        [
            WeekQuality(one.monday, Checks.of(one.unchanged, one.corrected))
            for one in await stored.checked_weeks(conn, days)
        ],
        await stored.schema_versions(conn, days.schema_id),
        await review_rule(conn, days.schema_id),
    )
