"""/api/overview and /api/schemas/{id}/quality: what the documents cost, and how good their values were."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Annotated
from uuid import UUID

from fastapi import Query
from pydantic import AwareDatetime, BaseModel, Field

from fieldmark.api.auth import Conn, TheScope
from fieldmark.api.routing import Routes
from fieldmark.api.shared_types import ResponseModel
from fieldmark.api.usage import Credit
from fieldmark.domain.document_filters import FieldPath
from fieldmark.services import overview
from fieldmark.stores import overview as stored
from fieldmark.stores import usage
from fieldmark.stores.library import schemas

router = Routes(prefix="/api", tags=["overview"])

_WORK_DAYS = 10

Since = Annotated[date | None, Query(description="The first day, UTC. Default: first of `until`'s month.")]
Until = Annotated[date | None, Query(description="The last day, UTC, included. Default: today.")]


class CostShare(ResponseModel):
    """A part of the cost."""

    cost_usd: float = Field(description="Without the `unpriced` messages.")
    documents_read: int = Field(description="A document that was read again counts again.")
    messages: int = Field(description="Calls of the model.")
    unpriced: int = Field(description="Calls of a model whose price is not known.")


class DayCost(ResponseModel):
    """The cost of a day."""

    day: date
    share: CostShare


class TableCost(ResponseModel):
    """The cost of reading into a table; or, without one, of a task of an agent, such as a question."""

    schema_id: UUID | None
    stack_id: UUID | None
    table: str | None = Field(description="The name of the table. null: none, or it was deleted.")
    agent: str | None
    task: str | None
    share: CostShare


class ModelCost(ResponseModel):
    """The cost of a model."""

    model: str
    share: CostShare


class Cost(ResponseModel):
    """The cost of a period. The days, the tables and the models have the same sum, `total`. Costs of deleted documents
    are included."""

    total: CostShare
    by_day: list[DayCost] = Field(description="Days with a cost, oldest first.")
    by_table: list[TableCost] = Field(description="The highest cost first.")
    by_model: list[ModelCost] = Field(description="The highest cost first.")


class Checks(ResponseModel):
    """The agents' values that people checked: confirmed or corrected one by one, or reviewed with their document."""

    checked: int
    corrected: int = Field(description="Of those, the values that a person replaced or removed.")
    at_most: float | None = Field(
        description="The share of wrong values is not higher, with a confidence of 95 % (Clopper-Pearson). null: no "
        "value was checked."
    )


class FieldQuality(ResponseModel):
    """The quality of a field in a table."""

    schema_id: UUID | None
    table: str | None
    pattern: str = Field(description="The field, such as `total` or `items[].price`.")
    checks: Checks
    found: int = Field(description="Values that a person entered where the agent had none.")
    missing: int = Field(description="Required values that are missing now, of extractions started in the period.")
    not_found: int = Field(description="Values that are not on the page and that a person has to look at now.")


class Work(ResponseModel):
    """The time that people spent on checks."""

    people: int
    documents: int
    gaps: int = Field(description="The times between one check of a person and the next, of at most five minutes.")
    seconds: float = Field(description="Their sum. Longer times count as breaks, the first check of a person as none.")


class Quality(ResponseModel):
    """The quality of the values that were checked in a period. Values of deleted documents are not included."""

    checks: Checks
    found: int
    missing: int
    not_found: int
    work: Work
    fields: list[FieldQuality] = Field(description="The most corrections first; at most 200.")


class Overview(BaseModel):
    """What the documents of a period cost, and how good their values were."""

    since: date
    until: date
    cost: Cost
    credit: Credit | None = Field(description="null: the organisation has no limits.")
    quality: Quality


class DoneOnDay(ResponseModel):
    """What people did on a day."""

    day: date
    confirmed: int = Field(description="Values that a person confirmed one by one.")
    corrected: int
    found: int = Field(description="Values that a person entered where the agent had none.")
    absent: int = Field(description="Values that a person said are not in the document.")
    reviewed_documents: int = Field(description="Documents with values that were reviewed without a look at each.")


class FillingStack(ResponseModel):
    """A stack whose table is being filled."""

    stack_id: UUID
    name: str
    done: int
    total: int
    since: AwareDatetime


class WorkNow(BaseModel):
    """What is done today, and what is being read."""

    today: date
    done: list[DoneOnDay] = Field(description="The last ten days, oldest first, without days with no work.")
    work: Work = Field(description="Today.")
    filling: list[FillingStack]
    reading: int = Field(description="Other documents that are being read.")


class ColumnQuality(ResponseModel):
    """The quality of a column."""

    path: str
    title: str | None
    filled: int | None = Field(description="Documents with a value in it. null: it is a field of list items.")
    checks: Checks
    found: int


class WeekQuality(ResponseModel):
    """The values that were checked in a week."""

    monday: date
    checks: Checks


class SchemaVersion(ResponseModel):
    """A version of the schema."""

    number: int
    created_at: datetime


class TableQuality(ResponseModel):
    """The quality of the table of a schema in a period."""

    name: str
    stack_id: UUID | None = Field(description="The stack whose columns the schema is.")
    documents: int = Field(description="The documents of the table whose reading started in the period.")
    filled: int = Field(description="Their values, in all columns outside lists.")
    checks: Checks
    found: int
    work: Work
    columns: list[ColumnQuality]
    weeks: list[WeekQuality]
    versions: list[SchemaVersion]


class Correction(ResponseModel):
    """A value that a person corrected."""

    document_id: UUID
    filename: str
    extraction_id: UUID
    path: str
    pattern: str
    was: str | None = Field(description="The agent's value.")
    now: str | None = Field(description="The person's value. null: the document has none.")
    checked_by: UUID
    checked_at: datetime
    page: int | None = Field(description="The page of the value.")


class Corrections(ResponseModel):
    """The values that people corrected, the last one first."""

    items: list[Correction]


@router.get("/overview")
async def get_overview(scope: TheScope, conn: Conn, since: Since = None, until: Until = None) -> Overview:
    """Return what the documents of a period cost, by day, table and model, and how good their values were, by field:
    how many values people checked in it, and how many of them they corrected."""
    days = overview.period(scope, since, until)
    credit = await usage.credit(conn, scope.org_id)
    return Overview(
        since=days.since,
        until=days.until,
        cost=Cost.of(await overview.cost(conn, days)),
        credit=None if credit is None else Credit.model_validate(credit),
        quality=Quality.of(await overview.quality(conn, days)),
    )


@router.get("/overview/work")
async def get_work(scope: TheScope, conn: Conn) -> WorkNow:
    """Return what people did today and on the nine days before, and what is being read now."""
    today = datetime.now(UTC).date()
    days = overview.period(scope, today - timedelta(days=_WORK_DAYS - 1), today)
    return WorkNow(
        today=today,
        done=[DoneOnDay.of(one) for one in await stored.done_by_day(conn, days)],
        work=Work.of(await stored.work(conn, overview.period(scope, today, today))),
        filling=[FillingStack.of(one) for one in await overview.filling(conn, scope)],
        reading=await stored.count_reading(conn, scope.org_id),
    )


@router.get("/schemas/{schema_id}/quality")
async def get_quality(
    schema_id: UUID, scope: TheScope, conn: Conn, since: Since = None, until: Until = None
) -> TableQuality:
    """Return how good the values of a schema's table were: how full its columns are, how many values people checked
    and corrected in a period, by column and by week, and when the schema changed."""
    return TableQuality.of(await overview.table_quality(conn, overview.period(scope, since, until, schema_id)))


@router.get("/schemas/{schema_id}/corrections")
async def list_corrections(
    schema_id: UUID,
    scope: TheScope,
    conn: Conn,
    since: Since = None,
    until: Until = None,
    column: Annotated[FieldPath | None, Query(description="Only corrections of this field.")] = None,
    limit: Annotated[int, Query(ge=1, le=200, description="The most corrections to return.")] = 20,
    offset: Annotated[int, Query(ge=0, le=1_000_000, description="The number of corrections to skip.")] = 0,
) -> Corrections:
    """List the values of a schema's table that people corrected in a period."""
    await schemas.get(conn, schema_id)
    days = overview.period(scope, since, until, schema_id)
    rows = await stored.corrections(conn, days, column, limit=limit, offset=offset)
    return Corrections(items=[Correction.of(one) for one in rows])
