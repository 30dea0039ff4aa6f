"""The MCP server over streamable HTTP, without sessions: each request is complete in itself."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from fieldmark.mcp_server.api_requests import ApiRequests
from fieldmark.mcp_server.server import create_server

AsgiApp = Callable[[Any, Any, Any], Any]


@asynccontextmanager
async def open_over_http(api_of: Callable[[Any], ApiRequests]) -> AsyncGenerator[AsgiApp]:
    """Open the server. Yield its ASGI application."""
    manager = StreamableHTTPSessionManager(create_server(api_of), stateless=True)
    async with manager.run():
        yield manager.handle_request
