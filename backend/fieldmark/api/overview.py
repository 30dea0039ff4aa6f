"""/api/overview and /api/schemas/{id}/quality: what the documents cost, and how good their values were."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import date, timedelta
from typing import Annotated

from fastapi import Query
from pydantic import BaseModel, Field

from fieldmark.api.auth import Conn, TheRuntime, TheScope
from fieldmark.api.named_items import SchemaId
from fieldmark.api.routing import Routes
from fieldmark.api.shared_types import MaxError, RequestBody
from fieldmark.api.usage import Credit
from fieldmark.domain.document_filters import FieldPath
from fieldmark.domain.statuses import CountedKind
from fieldmark.services import overview
from fieldmark.services.audits import ReviewRule, review_rule
from fieldmark.services.overview import Cost, FillingStack, Quality, TableQuality
from fieldmark.stores import audits, clock, usage
from fieldmark.stores import overview as stored
from fieldmark.stores.library import schemas
from fieldmark.stores.overview import Correction, CountedValue, DoneOnDay, Work

router = Routes(prefix="/api", tags=["overview"])

_WORK_DAYS = 10

Since = Annotated[date | None, Query(description="The first day, UTC. Default: first of `until`'s month.")]
Until = Annotated[date | None, Query(description="The last day, UTC, included. Default: today.")]


class Overview(BaseModel):
    """What the documents of a period cost, and how good their values were."""

    since: date
    until: date
    cost: Cost
    credit: Credit | None = Field(description="null: the organisation has no limits.")
    quality: Quality


class WorkNow(BaseModel):
    """What is done today, and what is being read."""

    today: date
    done: list[DoneOnDay] = Field(description="The last ten days, oldest first, without days with no work.")
    work: Work = Field(description="Today.")
    filling: Sequence[FillingStack]
    reading: int = Field(description="Other documents that are being read.")


class Goal(RequestBody):
    """The share of wrong values, among those that no one looks at, that a table may have."""

    max_error: MaxError | None = Field(description="null: the organisation's.")


class Corrections(BaseModel):
    """The values that people corrected, the last one first."""

    items: list[Correction]


class CountedValues(BaseModel):
    """Values that a number counts."""

    items: list[CountedValue]


@router.get("/overview")
async def get_overview(scope: TheScope, conn: Conn, since: Since = None, until: Until = None) -> Overview:
    """Return what the documents of a period cost, by day, table and model, and how good their values were, by field:
    how many values people checked in it, and how many of them they corrected."""
    days = await overview.period(conn, scope, since, until)
    credit = await usage.credit(conn, scope.org_id)
    return Overview(
        since=days.since,
        until=days.until,
        cost=await overview.cost(conn, days),
        credit=None if credit is None else Credit.model_validate(credit),
        quality=await overview.quality(conn, days),
    )


@router.get("/overview/work")
async def get_work(scope: TheScope, conn: Conn) -> WorkNow:
    """Return what people did today and on the nine days before, and what is being read now."""
    today = await clock.today(conn)
    days = await overview.period(conn, scope, today - timedelta(days=_WORK_DAYS - 1), today)
    return WorkNow(
        today=today,
        done=await stored.done_by_day(conn, days),
        work=await stored.work(conn, await overview.period(conn, scope, today, today)),
        filling=await overview.filling(conn, scope),
        reading=await stored.count_reading(conn, scope.org_id),
    )


@router.get("/schemas/{schema_id}/quality")
async def get_quality(
    schema_id: SchemaId, scope: TheScope, conn: Conn, since: Since = None, until: Until = None
) -> TableQuality:
    """Return how good the values of a schema's table were: how full its columns are, how many values people checked
    and corrected in a period, by column and by week, and when the schema changed."""
    return await overview.table_quality(conn, await overview.period(conn, scope, since, until, schema_id))


@router.get("/schemas/{schema_id}/quality/values")
async def list_counted_values(
    schema_id: SchemaId,
    scope: TheScope,
    conn: Conn,
    show: Annotated[
        CountedKind,
        Query(
            description="Confirmed, corrected, checked (both) or found by people in the period; filled or missing in "
            "its documents. Of the claim: accepted without a look, audited, wrong (of these), waiting for an audit."
        ),
    ],
    since: Since = None,
    until: Until = None,
    column: Annotated[FieldPath | None, Query(description="Only values of this field.")] = None,
    limit: Annotated[int, Query(ge=1, le=200, description="The most values to return.")] = 20,
    offset: Annotated[int, Query(ge=0, le=1_000_000, description="The number of values to skip.")] = 0,
) -> CountedValues:
    """List the values that a number of a table's quality counts, the last look first."""
    figures = await audits.review_figures(conn, schema_id)
    days = await overview.period(conn, scope, since, until, schema_id)
    return CountedValues(
        items=await stored.counted_values(conn, days, show, figures, column, limit=limit, offset=offset)
    )


@router.put("/schemas/{schema_id}/max_error")
async def set_max_error(schema_id: SchemaId, body: Goal, scope: TheScope, runtime: TheRuntime) -> ReviewRule:
    """Set how many of a table's values that no one looks at may be wrong. It holds for documents that are read from
    then on."""
    async with runtime.database.as_user(scope) as conn:
        await audits.set_max_error(conn, schema_id, body.max_error)
        return await review_rule(conn, schema_id)


@router.get("/schemas/{schema_id}/corrections")
async def list_corrections(
    schema_id: SchemaId,
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
    days = await overview.period(conn, scope, since, until, schema_id)
    corrected = CountedKind.CORRECTED
    found = await stored.counted_values(conn, days, corrected, None, column, limit=limit, offset=offset)
    return Corrections(items=[Correction(**asdict(one)) for one in found])
