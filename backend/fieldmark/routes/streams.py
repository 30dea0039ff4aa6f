"""A run's events as server-sent events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

from fastapi.sse import EventSourceResponse, format_sse_event

from fieldmark.errors import FieldmarkError, Malformed
from fieldmark.routes.problems import log
from fieldmark.runs.stream import follow
from fieldmark.scope import Scope
from fieldmark.service import Service

STREAM: dict[str, Any] = {
    "text/event-stream": {
        "schema": {"type": "string"},
        "example": 'id: 1\ndata: {"run_id": "…", "extraction_id": "…"}\n\nid: 2\ndata: {"text": "I read first."}\n\n',
    }
}
"""For a route's OpenAPI: what such a stream looks like."""

# Proxies buffer and compress what they think is a page; this is a stream.
_HEADERS = {"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"}


def event_stream(service: Service, scope: Scope, run_id: UUID, after: int = 0) -> EventSourceResponse:
    """The run's events behind number `after`, then the new ones, until it has ended. `id:` is an event's number."""
    return EventSourceResponse(_events(service, scope, run_id, after), headers=_HEADERS)


async def _events(service: Service, scope: Scope, run_id: UUID, after: int) -> AsyncIterator[bytes]:
    try:
        with service.metrics.stream_readers.track_inprogress():
            yield format_sse_event(comment="run " + str(run_id))
            async for event in follow(service.database, scope, run_id, after):
                if event is None:
                    yield format_sse_event(comment="waiting")
                else:
                    number, body = event
                    yield format_sse_event(data_str=body, id=str(number))
    except FieldmarkError as error:
        # The response has begun: the reader is cut off here and comes back with the last number it saw.
        log.warning("stream broke off", run_id=str(run_id), reason=error.code)


def number_after(last_event_id: str | None) -> int:
    """The event number in a Last-Event-ID header; 0 without one. Raises Malformed for what is no number of ours."""
    if last_event_id is None or last_event_id.strip() == "":
        return 0
    if not last_event_id.strip().isascii() or not last_event_id.strip().isdigit() or len(last_event_id.strip()) > 9:
        raise Malformed("Last-Event-ID must be the number of the last event you saw.")
    return int(last_event_id)
