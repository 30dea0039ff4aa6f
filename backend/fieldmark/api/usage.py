"""/api/usage: what the organisation has used of the model, and what it may still spend."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Annotated

from fastapi import Query
from pydantic import BaseModel, Field

from fieldmark.api.auth import Conn, TheScope
from fieldmark.api.routing import Routes
from fieldmark.errors import Invalid
from fieldmark.stores import usage

router = Routes(prefix="/api/usage", tags=["usage"])

MAX_DAYS = 366


class Used(BaseModel):
    """What one agent used of one model on one day."""

    day: date
    agent: str
    model: str
    messages: int
    input_tokens: int
    output_tokens: int
    cache_creation_input_tokens: int
    cache_read_input_tokens: int
    cost_usd: float | None = Field(description="null where the model's price was not known.")


class Credit(BaseModel):
    """What whoever runs the service lets the organisation do; null is no limit."""

    max_usd: float | None = Field(description="In a calendar month, UTC.")
    spent_usd: float = Field(description="In this month.")
    max_concurrent_runs: int | None


class Usage(BaseModel):
    """What was used, oldest day first."""

    since: date
    until: date
    items: list[Used]
    credit: Credit | None = Field(description="null where the organisation has no limits.")


@router.get("")
async def get_usage(
    scope: TheScope,
    conn: Conn,
    since: Annotated[date | None, Query(description="The first day, UTC. Left out: the month's first.")] = None,
    until: Annotated[date | None, Query(description="The last day, UTC, included. Left out: today.")] = None,
) -> Usage:
    """What the organisation's runs have used, by day, agent and model. What was used for documents that are gone is in
    it."""
    last = until or datetime.now(UTC).date()
    first = since or last.replace(day=1)
    if not timedelta() <= last - first < timedelta(days=MAX_DAYS):
        raise Invalid(f"`since` must not be later than `until`, nor more than {MAX_DAYS} days before the day after it.")
    rows = await usage.by_day(conn, scope.org_id, first, last)
    credit = await usage.credit(conn, scope.org_id)
    return Usage(
        since=first,
        until=last,
        items=[Used.model_validate(row) for row in rows],
        credit=None if credit is None else Credit.model_validate(credit),
    )
