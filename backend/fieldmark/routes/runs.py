"""/api/runs: how a run went, and its events."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Header
from fastapi.responses import StreamingResponse
from fastapi.sse import EventSourceResponse
from pydantic import BaseModel

from fieldmark.errors import NotFound
from fieldmark.routes.auth import TheScope, TheService
from fieldmark.routes.problems import responses
from fieldmark.routes.streams import STREAM, event_stream, number_after
from fieldmark.stores import runs

router = APIRouter(prefix="/api/runs", tags=["runs"])


class Run(BaseModel):
    """One agent at work on one thing."""

    id: UUID
    agent: str
    task: Literal["extract", "correct"]
    document_id: UUID
    extraction_id: UUID
    status: Literal["queued", "running", "awaiting_approval", "completed", "failed", "cancelled"]
    attempt: int
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    answer: str | None
    error: str | None
    error_code: str | None
    cost_usd: float | None
    usage: dict[str, Any] | None


@router.get("/{run_id}", responses=responses(401, 404, 422))
async def get_run(run_id: UUID, scope: TheScope, service: TheService) -> Run:
    """One run as it stands now."""
    async with service.database.as_user(scope) as conn:
        row = await runs.get(conn, run_id)
    if row is None:
        raise NotFound("There is no such run.")
    return Run.model_validate(row)


@router.get(
    "/{run_id}/events",
    response_class=StreamingResponse,
    responses={200: {"description": "The events", "content": STREAM}, **responses(401, 404, 422)},
)
async def get_run_events(
    run_id: UUID,
    scope: TheScope,
    service: TheService,
    last_event_id: Annotated[str | None, Header(description="The number of the last event you saw.")] = None,
) -> EventSourceResponse:
    """The run's events as a stream of flat JSON objects: those behind `Last-Event-ID`, then the new ones, until it has
    ended. From any event on, as often as you like, from any server."""
    after = number_after(last_event_id)
    await get_run(run_id, scope, service)
    return event_stream(service, scope, run_id, after)
