"""A run's events as server-sent events."""

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
"""For a route's OpenAPI: what such a stream looks like. The schema is that of one event's data."""


def event_schemas() -> dict[str, Any]:
    """For the OpenAPI: `RunEvent`, which is any event, and the shapes that it is made of."""
    union = EVENT.json_schema(ref_template="#/components/schemas/{model}")
    schemas: dict[str, Any] = union.pop("$defs")
    schemas["JsonValue"] = {"description": "Any JSON value."}
    # Passed on as the row has it, and told as what the service writes.
    of_field = schemas["ChangedField"]["properties"]["evidence"]
    of_field["anyOf"] = [{"$ref": "#/components/schemas/Evidence"}, {"type": "null"}]
    schemas["ChildEvent"]["properties"]["event"] = {"$ref": "#/components/schemas/RunEvent"}
    about = "What a run tells: the data of one event of its stream, told apart by `type`."
    return {"RunEvent": {"title": "RunEvent", "description": about, **union}, **schemas}


# Proxies buffer and compress what they think is a page; this is a stream.
_HEADERS = {"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"}


Deltas = Annotated[
    bool,
    Query(
        description="Also tell what the model says while it says it, as events of type `text_delta` and "
        "`thinking_delta` without an `id`. Append them as they come. When the next event with an `id` comes, throw "
        "away what you have gathered: that event is the whole `text` or `thinking` which it was the beginning of, or "
        "tells why there is none (`retry`, `error`). Deltas are not kept, so nobody gets one again, and any of them "
        "may be missing, but never one before another of the same block. An answer in JSON has none. Also each field "
        "that a call will write, as `preview`, while the call is being written: shown until a `changed` names its path "
        "or its call ends, or until `preview_withdrawn`."
    ),
]
"""A route's parameter."""


def event_stream(runtime: Runtime, scope: Scope, run_id: UUID, after: int = 0, *, deltas: bool) -> EventSourceResponse:
    """The run's events behind number `after`, then the new ones, until it has ended. `id:` is an event's number; a
    delta has none."""
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
        # The response has begun: the reader is cut off here and comes back with the last number it saw.
        log.warning("stream broke off", run_id=str(run_id), reason=error.code)


def number_after(last_event_id: str | None) -> int:
    """The event number in a Last-Event-ID header; 0 without one. Raises BadRequest for what is no number of ours."""
    if last_event_id is None or last_event_id.strip() == "":
        return 0
    if not last_event_id.strip().isascii() or not last_event_id.strip().isdigit() or len(last_event_id.strip()) > 9:
        raise BadRequest("Last-Event-ID must be the number of the last event you saw.")
    return int(last_event_id)
