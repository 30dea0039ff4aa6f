"""/api/runs: how a run went, and its events."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import Header, Query, Response
from fastapi.responses import StreamingResponse
from fastapi.sse import EventSourceResponse
from pydantic import BaseModel

from fieldmark.api.auth import Conn, TheRuntime, TheScope
from fieldmark.api.extractions import Evidence
from fieldmark.api.routing import Routes
from fieldmark.api.shapes import STORABLE, Before, Filename, Limit, ListPage, Since, Until, json_of
from fieldmark.api.streams import STREAM, Deltas, event_stream, number_after
from fieldmark.domain.statuses import RunStatus
from fieldmark.errors import BadRequest, EventsExpired
from fieldmark.runs.lifecycle import decisions
from fieldmark.runs.lifecycle.views import Run, described, listed
from fieldmark.stores import runs

router = Routes(prefix="/api/runs", tags=["runs"])


class ProposedFields(BaseModel):
    """Where proposed values are in the document, by path, as in an extraction."""

    confidence_scores: dict[str, float]
    evidence: dict[str, Evidence]


@router.get("")
async def list_runs(
    scope: TheScope,
    conn: Conn,
    status: Annotated[RunStatus | None, Query(description="Only runs of this status.")] = None,
    limit: Limit = 50,
    before: Before = None,
    task: Annotated[str | None, Query(max_length=100, pattern=STORABLE, description="Only runs of this task.")] = None,
    document_id: Annotated[UUID | None, Query(description="Only those about this document.")] = None,
    extraction_id: Annotated[UUID | None, Query(description="Only those about this extraction.")] = None,
    filename: Filename = None,
    since: Since = None,
    until: Until = None,
) -> ListPage[Run]:
    """Your own runs. With `status=awaiting_approval`: your inbox."""
    wanted = runs.RunFilter(task, document_id, extraction_id, filename, since, until)
    page = await runs.list_runs(conn, scope, status=status, limit=limit, before=before, wanted=wanted)
    return ListPage[Run](items=await listed(conn, page.items), next=page.next)


@router.post("/{run_id}/cancel", status_code=202)
async def cancel_run(run_id: UUID, scope: TheScope, runtime: TheRuntime) -> Run:
    """End a run, whatever it is at. What it wrote stays; one that has ended stays as it is."""
    await decisions.cancel(runtime.database, scope, run_id)
    async with runtime.database.as_user(scope) as conn:
        return await get_run(run_id, scope, conn)


@router.get("/{run_id}")
async def get_run(run_id: UUID, scope: TheScope, conn: Conn) -> Run:
    """One run as it stands now."""
    return await described(conn, await runs.find(conn, run_id))


@router.get("/{run_id}/proposed", response_model=ProposedFields)
async def get_proposed_fields(run_id: UUID, scope: TheScope, runtime: TheRuntime) -> Response:
    """Where the values that the run waits to write are on the pages: what you see before you decide. Their old and new
    values are in `waits_for`."""
    shown = await decisions.proposed_evidence(runtime.database, scope, run_id)
    return await json_of(ProposedFields.model_construct, confidence_scores=shown.confidences, evidence=shown.evidence)


@router.delete("/{run_id}", status_code=204)
async def delete_run(run_id: UUID, scope: TheScope, conn: Conn) -> None:
    """Delete a run that has ended, with its events, calls and parts. What it wrote stays, with its history; so does
    what it cost. A member may delete their own, an owner any."""
    await runs.find(conn, run_id)
    await runs.remove(conn, run_id)


@router.get(
    "/{run_id}/events",
    response_class=StreamingResponse,
    responses={200: {"description": "The events", "content": STREAM}},
)
async def get_run_events(
    run_id: UUID,
    scope: TheScope,
    conn: Conn,
    runtime: TheRuntime,
    last_event_id: Annotated[
        str | None,
        Header(description="The number of the last event you saw.", json_schema_extra={"pattern": "^[0-9]{0,9}$"}),
    ] = None,
    deltas: Deltas = False,
) -> EventSourceResponse:
    """The run's events as a stream of flat JSON objects: those behind `Last-Event-ID`, then the new ones, until it has
    ended. From any event on, as often as you like, from any server."""
    after = number_after(last_event_id)
    run = await runs.find(conn, run_id)
    last = await runs.last_event(conn, run_id)
    # (Every end is told by an event.)
    if run.finished_at is not None and last == 0:
        raise EventsExpired("The events of this run are kept no longer. GET /api/runs/{id} says how it ended.")
    # Of another run, perhaps: whoever waited for what follows it would miss all that comes before.
    if after > last:
        raise BadRequest("Last-Event-ID is no event of this run. Leave it out to read from the first.")
    return event_stream(runtime, scope, run_id, after, deltas=deltas)
