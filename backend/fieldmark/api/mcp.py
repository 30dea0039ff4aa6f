"""/mcp: the MCP server over HTTP, with the API's own authentication."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import httpx
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from fieldmark.api.auth import get_runtime
from fieldmark.api.request_log import path_in_app, service_address
from fieldmark.errors import NotFound
from fieldmark.mcp_server.api_requests import ApiRequests

MCP_PATH: Final = "/mcp"
METADATA_PATHS: Final = tuple(f"/.well-known/oauth-protected-resource{of}" for of in ("", MCP_PATH))


class McpDoor:
    """Serves MCP. Opened by the first request, since the package takes long to import."""

    path = MCP_PATH

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self._serving: asyncio.Task[None] | None = None
        self._opened: asyncio.Future[Any] | None = None
        self._closing = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = self  # for the request log
        if self._opened is None:
            self._opened = asyncio.get_running_loop().create_future()
            self._serving = asyncio.create_task(self._serve(self._opened), name="mcp")
        handle = await asyncio.shield(self._opened)
        await handle(scope, receive, send)

    async def aclose(self) -> None:
        """End the requests that are being served."""
        self._closing.set()
        if self._serving is not None:
            await asyncio.wait({self._serving})
            self._serving = self._opened = None

    async def _serve(self, opened: asyncio.Future[Any]) -> None:
        open_over_http = await asyncio.to_thread(_import_server)
        # The server's tasks belong to this task, not to that of the first request.
        async with open_over_http(self._api_of) as handle:
            opened.set_result(handle)
            await self._closing.wait()

    def _api_of(self, request: Request) -> ApiRequests:
        """Return the API for the caller of a request. Its requests pass the same guards as those of other clients."""
        names = ("authorization", "x-org-id")
        headers = {name: request.headers[name] for name in names if name in request.headers}
        prefix = request.scope.get("root_path", "")
        transport = httpx.ASGITransport(self._app, raise_app_exceptions=False, root_path=prefix)
        return ApiRequests(httpx.AsyncClient(transport=transport, base_url=service_address(request)), headers)


def _import_server() -> Any:
    from fieldmark.mcp_server.over_http import open_over_http

    return open_over_http


def add_mcp(app: FastAPI) -> McpDoor:
    """Add the routes: /mcp, and the one that returns where its clients get tokens (RFC 9728)."""
    door = McpDoor(app)
    app.router.routes.append(Route(MCP_PATH, endpoint=door, methods=["POST"]))
    for path in METADATA_PATHS:
        app.add_api_route(path, get_metadata, include_in_schema=False)
    return door


async def get_metadata(request: Request) -> JSONResponse:
    supabase_url = get_runtime(request).settings.supabase_url
    if supabase_url is None:
        raise NotFound("This service has no OAuth server. Send an API key, or a token of `fieldmark token`.")
    resource = {
        "resource": f"{service_address(request)}{MCP_PATH}",
        "authorization_servers": [f"{supabase_url.rstrip('/')}/auth/v1"],
        "bearer_methods_supported": ["header"],
        "resource_name": "Fieldmark",
    }
    return JSONResponse(resource, headers={"access-control-allow-origin": "*"})


def challenge(request: Request) -> dict[str, str]:
    """Return the header from which an MCP client learns where to get a token. Empty without an OAuth server."""
    if path_in_app(request.scope) != MCP_PATH or get_runtime(request).settings.supabase_url is None:
        return {}
    address = f"{service_address(request)}{METADATA_PATHS[1]}"
    return {"WWW-Authenticate": f'Bearer resource_metadata="{address}"'}
