"""/api/usage: the organisation's tokens and costs by day, what it stores, and its limits."""

from __future__ import annotations

from dataclasses import asdict
from datetime import date
from typing import Annotated

from fastapi import Query
from pydantic import BaseModel, Field

from fieldmark.api.auth import Conn, TheScope
from fieldmark.api.routing import Routes
from fieldmark.services.overview import period
from fieldmark.stores import usage

router = Routes(prefix="/api/usage", tags=["usage"])


class DailyUsage(BaseModel):
    """What one agent used of one model on one day."""

    day: date
    agent: str
    model: str
    messages: int
    input_tokens: int
    output_tokens: int
    cache_creation_input_tokens: int
    cache_read_input_tokens: int
    cost_usd: float | None = Field(description="null: the model's price was not known.")


class Credit(BaseModel):
    """The organisation's limits, set by the service's administrator. null: no limit."""

    max_usd: float | None = Field(description="Per calendar month, UTC.")
    spent_usd: float = Field(description="In the current month.")
    max_concurrent_runs: int | None


class Storage(BaseModel):
    """What the organisation stores, with the files inside archives and mails, and the most that it may, set by the
    service's administrator. null: no limit. An upload over a limit gets 409 `quota_exceeded`."""

    documents: int
    bytes: int
    max_documents: int | None
    max_bytes: int | None


class Usage(BaseModel):
    """The organisation's usage, oldest day first."""

    since: date
    until: date
    items: list[DailyUsage]
    credit: Credit | None = Field(description="null: the organisation has no limits.")
    storage: Storage


@router.get("")
async def get_usage(
    scope: TheScope,
    conn: Conn,
    since: Annotated[date | None, Query(description="The first day, UTC. Default: first of `until`'s month.")] = None,
    until: Annotated[date | None, Query(description="The last day, UTC, included. Default: today.")] = None,
) -> Usage:
    """Return what the organisation's runs used, by day, agent and model. Usage of deleted documents is included."""
    days = await period(conn, scope, since, until)
    rows = await usage.by_day(conn, scope.org_id, days.since, days.until)
    credit = await usage.credit(conn, scope.org_id)
    return Usage(
        since=days.since,
        until=days.until,
        items=[DailyUsage.model_validate(row) for row in rows],
        credit=None if credit is None else Credit.model_validate(credit),
        storage=Storage.model_validate(asdict(await usage.storage(conn, scope.org_id))),
    )
