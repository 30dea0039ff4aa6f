"""Logs each request and traces it: method, route, the ids in its path, status, duration, user and organisation."""

from __future__ import annotations

import time
from collections.abc import MutableMapping
from contextlib import suppress
from typing import Any
from uuid import UUID

import structlog
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fieldmark.telemetry.traces import span

log = structlog.get_logger()

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_POLLED_ROUTES = frozenset({"/healthz", "/readyz", "/metrics"})


class RequestLog:
    """ASGI middleware that logs each request when its response is complete; a stream when it ends."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status: int | None = None

        async def record_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        method = scope["method"] if scope["method"] in _METHODS else "OTHER"
        started = time.monotonic()
        structlog.contextvars.clear_contextvars()  # api/auth binds the user and organisation
        with span("request", method=method) as current:
            try:
                await self._app(scope, receive, record_status)
            except Exception:
                status = status or 500  # sent by an outer middleware
                raise
            finally:
                route = route_template(scope)
                current.update_name(f"request {method} {route}")
                if status is not None:
                    current.set_attribute("http.response.status_code", status)
                write = log.debug if route in _POLLED_ROUTES else log.info
                duration_ms = round((time.monotonic() - started) * 1000)
                write("request", method=method, route=route, **_ids(scope), status=status, duration_ms=duration_ms)


def _ids(scope: Scope) -> dict[str, Any]:
    """Return the ids in a request's path, so that the log says who read what."""
    given: dict[str, object] = scope.get("path_params") or {}
    ids: dict[str, str] = {}
    for name, value in given.items():
        with suppress(ValueError):  # a client chooses the path: nothing else of it is logged
            ids[name] = str(UUID(str(value)))
    return {"ids": ids} if ids else {}


def path_in_app(scope: MutableMapping[str, Any]) -> str:
    """Return the path of a request without the prefix at which the application is mounted."""
    path, prefix = str(scope["path"]), str(scope.get("root_path", ""))
    return path.removeprefix(prefix) if path.startswith(f"{prefix}/") else path


def service_address(request: Request) -> str:
    """Return the address of the service as the client reached it, with the prefix at which the application is mounted
    (which `Request.base_url` leaves out), and without a slash at its end."""
    return f"{request.url.scheme}://{request.url.netloc}{request.scope.get('root_path', '').rstrip('/')}"


def route_template(scope: MutableMapping[str, Any]) -> str:
    """Return the route's path template, never the path itself, which the client chooses."""
    path = getattr(scope.get("route"), "path", None)
    return path if isinstance(path, str) else "none"
