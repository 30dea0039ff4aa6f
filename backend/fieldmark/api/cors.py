"""Requests of browser pages on other origins (CORS)."""

from __future__ import annotations

from collections.abc import Sequence

import structlog
from fastapi import FastAPI
from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response

from fieldmark.api.problems import error_response
from fieldmark.errors import Forbidden

_log = structlog.get_logger()


def add_cors(app: FastAPI, origins: Sequence[str]) -> None:
    """Let pages of these origins call the service. Preflight requests of others get 403 and are logged."""
    app.add_middleware(
        _Cors,
        allow_origins=origins,
        allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
        allow_headers=[
            *("authorization", "content-type", "x-org-id", "idempotency-key", "if-match", "last-event-id"),
            *("range", "x-by-agent", "mcp-protocol-version", "mcp-method", "mcp-name"),
        ],
        expose_headers=["content-disposition", "location", "retry-after", "x-box", "x-database-time"],
    )


class _Cors(CORSMiddleware):
    def preflight_response(self, request_headers: Headers) -> Response:
        origin = request_headers["origin"]
        if self.is_allowed_origin(origin):
            return super().preflight_response(request_headers)
        # A browser shows its page's developer neither status nor body, so the log says it, too.
        _log.warning("origin refused", origin=origin[:200], setting="FIELDMARK_CORS_ORIGINS")
        return error_response(
            Forbidden("Pages of this origin may not call the service. Add the origin to FIELDMARK_CORS_ORIGINS.")
        )
