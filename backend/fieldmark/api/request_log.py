"""A line in the log and a span for each request: method, route, status, duration, and who asked where that is known."""

from __future__ import annotations

import time
from collections.abc import MutableMapping
from typing import Any

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fieldmark.telemetry.traces import span

log = structlog.get_logger()

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_ASKED_EVERY_FEW_SECONDS = frozenset({"/healthz", "/readyz", "/metrics"})


class RequestLog:
    """Says when a request has been answered, streams when they have ended."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status: int | None = None

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        method = scope["method"] if scope["method"] in _METHODS else "OTHER"
        begun = time.monotonic()
        # Bound to this request's task, by what tells whose it is: routes/auth.
        structlog.contextvars.clear_contextvars()
        with span("request", method=method) as current:
            try:
                await self._app(scope, receive, watched)
            except Exception:
                status = status or 500  # answered further out
                raise
            finally:
                route = route_of(scope)
                current.update_name(f"request {method} {route}")
                if status is not None:
                    current.set_attribute("http.response.status_code", status)
                say = log.debug if route in _ASKED_EVERY_FEW_SECONDS else log.info
                duration_ms = round((time.monotonic() - begun) * 1000)
                say("request", method=method, route=route, status=status, duration_ms=duration_ms)


def route_of(scope: MutableMapping[str, Any]) -> str:
    """The route's template, never the path itself: that is the caller's text."""
    path = getattr(scope.get("route"), "path", None)
    return path if isinstance(path, str) else "none"
