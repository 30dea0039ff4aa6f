"""Streams the events of a run as server-sent events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any
from uuid import UUID

from fastapi import Query
from fastapi.sse import EventSourceResponse, format_sse_event

from fieldmark.api.problems import log
from fieldmark.domain.events import EVENT
from fieldmark.errors import BadRequest, FieldmarkError
from fieldmark.identity.scope import Scope
from fieldmark.runs.events.follow import EPHEMERAL, follow
from fieldmark.runtime import Runtime

STREAM: dict[str, Any] = {
    "text/event-stream": {
        "schema": {"$ref": "#/components/schemas/RunEvent"},
        "example": {"type": "text", "text": "I read first."},
    }
}
"""The stream in a route's OpenAPI. The schema describes the data of one event."""


def event_schemas() -> dict[str, Any]:
    """Return the OpenAPI schemas of `RunEvent`, a union of all events, and of its parts."""
    union = EVENT.json_schema(ref_template="#/components/schemas/{model}")
    schemas: dict[str, Any] = union.pop("$defs")
    schemas["JsonValue"] = {"description": "Any JSON value."}
    # The event's model accepts any JSON from the row; the OpenAPI describes what the service writes.
    evidence = schemas["ChangedField"]["properties"]["evidence"]
    evidence["anyOf"] = [{"$ref": "#/components/schemas/Evidence"}, {"type": "null"}]
    schemas["ChildEvent"]["properties"]["event"] = {"$ref": "#/components/schemas/RunEvent"}
    description = "The data of one event of a run. `type` says which event it is."
    return {"RunEvent": {"title": "RunEvent", "description": description, **union}, **schemas}


# Keeps proxies from buffering and compressing the stream.
_HEADERS = {"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"}


Deltas = Annotated[
    bool,
    Query(
        description="Also stream the model's output while it is generated, as events of type `text_delta` and "
        "`thinking_delta` without an `id`. Append them in order. When the next event with an `id` arrives, discard the "
        "appended text: that event contains the whole `text` or `thinking`, or says why it failed (`retry`, `error`). "
        "Deltas are not stored, so they are sent once. The last deltas of a block may be missing, never earlier ones. "
        "Responses in JSON have none. Each field that a call is about to write is also streamed, as `preview`: show it "
        "until a `changed` event has its path, the call ends, or `preview_withdrawn` arrives."
    ),
]


def event_stream(runtime: Runtime, scope: Scope, run_id: UUID, after: int = 0, *, deltas: bool) -> EventSourceResponse:
    """Return a stream of the run's events with numbers above `after`, then new events until the run ends. `id:` is an
    event's number; deltas have none."""
    return EventSourceResponse(_events(runtime, scope, run_id, after, deltas), headers=_HEADERS)


async def _events(runtime: Runtime, scope: Scope, run_id: UUID, after: int, deltas: bool) -> AsyncIterator[bytes]:
    try:
        with runtime.metrics.stream_readers.track_inprogress():
            yield format_sse_event(comment="run " + str(run_id))
            async for event in follow(runtime.database, scope, run_id, after, deltas=deltas, progress=True):
                if event is None:
                    yield format_sse_event(comment="waiting")
                else:
                    number, body = event
                    yield format_sse_event(data_str=body, id=None if number == EPHEMERAL else str(number))
    except FieldmarkError as error:
        # The response has started, so the stream just ends. The client reconnects with Last-Event-ID.
        log.warning("stream aborted", run_id=str(run_id), reason=error.code)


def parse_last_event_id(last_event_id: str | None) -> int:
    """Return the event number in a Last-Event-ID header; 0 without one. Raise BadRequest if it is not an event
    number."""
    if last_event_id is None or last_event_id.strip() == "":
        return 0
    if not last_event_id.strip().isascii() or not last_event_id.strip().isdigit() or len(last_event_id.strip()) > 9:
        raise BadRequest("Last-Event-ID must be the number of the last event you saw.")
    return int(last_event_id)
