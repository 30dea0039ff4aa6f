"""/api/runs: list, read, cancel and delete runs, and stream their events."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import Header, Query, Response
from fastapi.responses import StreamingResponse
from fastapi.sse import EventSourceResponse
from pydantic import AwareDatetime, BaseModel

from fieldmark.api.auth import Conn, ThePerson, TheRuntime, TheScope
from fieldmark.api.extractions import Evidence
from fieldmark.api.routing import Routes
from fieldmark.api.shared_types import STORABLE, Before, Filename, Limit, Since, Until, json_response
from fieldmark.api.streams import STREAM, Deltas, event_stream, parse_last_event_id
from fieldmark.api.webhooks import StatusOfDelivery
from fieldmark.domain.statuses import RunStatus
from fieldmark.errors import BadRequest, EventsExpired
from fieldmark.runs.lifecycle import decisions, launch
from fieldmark.runs.lifecycle.views import Run, to_run, to_runs
from fieldmark.stores import runs, webhooks
from fieldmark.stores.paging import ListPage
from fieldmark.stores.webhooks import Delivery

router = Routes(prefix="/api/runs", tags=["runs"])


class ProposedFields(BaseModel):
    """Locations of proposed values in the document, by path, as in an extraction."""

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
    stack_id: Annotated[
        UUID | None, Query(description="Only those that fill this stack's table or read one of its rows.")
    ] = None,
    filename: Filename = None,
    since: Since = None,
    until: Until = None,
    everyone: Annotated[
        bool, Query(description="Also runs of other members, without those of conversations that you cannot see.")
    ] = False,
    changed_since: Annotated[
        AwareDatetime | None, Query(description="Only runs that started, waited for a person or ended since this time.")
    ] = None,
    root: Annotated[bool, Query(description="Only runs that no other run started.")] = False,
) -> ListPage[Run]:
    """List your own runs. With `status=awaiting_approval` also those that you may approve."""
    filters = runs.RunFilter(
        *(task, document_id, extraction_id, stack_id, filename, since, until),
        everyone=everyone,
        is_root=root,
        changed_since=changed_since,
    )
    page = await runs.list_runs(conn, scope, status=status, limit=limit, before=before, filters=filters)
    return ListPage(items=await to_runs(conn, page.items), next=page.next)


@router.post("/{run_id}/cancel", status_code=202)
async def cancel_run(run_id: UUID, scope: TheScope, runtime: TheRuntime) -> Run:
    """Cancel a run. What it wrote stays. A run that has ended is returned unchanged."""
    await decisions.cancel(runtime.database, scope, run_id)
    async with runtime.database.as_user(scope) as conn:
        return await get_run(run_id, scope, conn)


@router.post("/{run_id}/retry", status_code=202)
async def retry_run(run_id: UUID, _: ThePerson, scope: TheScope, runtime: TheRuntime) -> Run:
    """Start a run that failed or was cancelled once more, as a new run of yours with the same request. 409 if it did
    not fail, or if another run started it. Only a person can."""
    new_id = await launch.retry(runtime.database, scope, run_id, prices=runtime.prices)
    async with runtime.database.as_user(scope) as conn:
        return await get_run(new_id, scope, conn)


@router.get("/{run_id}")
async def get_run(run_id: UUID, scope: TheScope, conn: Conn) -> Run:
    """Return a run in its current state."""
    return await to_run(conn, await runs.get(conn, run_id))


@router.get("/{run_id}/proposed", response_model=ProposedFields)
async def get_proposed_fields(run_id: UUID, scope: TheScope, runtime: TheRuntime) -> Response:
    """Return the locations of the values that the run waits to write, to show before you decide. The old and new values
    are in `waits_for`."""
    shown = await decisions.proposed_evidence(runtime.database, scope, run_id)
    return await json_response(
        ProposedFields.model_construct, confidence_scores=shown.confidences, evidence=shown.evidence
    )


@router.get("/{run_id}/deliveries")
async def list_run_deliveries(
    run_id: UUID, conn: Conn, status: StatusOfDelivery = None, limit: Limit = 50, before: Before = None
) -> ListPage[Delivery]:
    """List what was and is sent to the run's `callback`, newest first. Only who started the run and owners see it."""
    await runs.get(conn, run_id)
    webhook_id = await webhooks.callback_of(conn, run_id)
    return await webhooks.list_deliveries(conn, webhook_id, status=status, limit=limit, before=before)


@router.post("/{run_id}/deliveries/{delivery_id}", status_code=202)
async def send_run_delivery_again(run_id: UUID, delivery_id: UUID, conn: Conn) -> None:
    """Send a change to the run's `callback` again now, with the same id."""
    await webhooks.send_again(conn, await webhooks.callback_of(conn, run_id), delivery_id)


@router.delete("/{run_id}", status_code=204)
async def delete_run(run_id: UUID, scope: TheScope, conn: Conn) -> None:
    """Delete a run that has ended, with its events, calls and child runs. What it wrote stays, with its history and its
    cost. A member can delete their own runs, an owner any run."""
    await runs.get(conn, run_id)
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
    """Stream a run's events as flat JSON objects: those after `Last-Event-ID`, then new events until the run ends. A
    stream can be repeated from any event, on any server."""
    after = parse_last_event_id(last_event_id)
    run = await runs.get(conn, run_id)
    last = await runs.last_event(conn, run_id)
    # Every run ends with an event, so a finished run without events has lost them.
    if run.finished_at is not None and last == 0:
        raise EventsExpired("The events of this run have been deleted. GET /api/runs/{id} returns how it ended.")
    # The number may be of another run: a client that waited for later events would miss the earlier ones.
    if after > last:
        raise BadRequest("Last-Event-ID is no event of this run. Leave it out to read from the first.")
    return event_stream(runtime, scope, run_id, after, deltas=deltas)
