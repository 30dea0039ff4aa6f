"""The MCP server over standard input and output, for one caller."""

from __future__ import annotations

from pathlib import Path

import httpx
from mcp.server.stdio import stdio_server

from fieldmark.mcp_server.api_requests import ApiRequests
from fieldmark.mcp_server.server import create_server
from fieldmark.mcp_server.tools import TOOLS, upload_tool


async def serve_over_stdio(http: httpx.AsyncClient, folders: tuple[Path, ...]) -> None:
    """Serve until standard input ends. Files may be uploaded from these folders."""
    tools = {name: tool for name, tool in TOOLS.items() if name != "upload_address"}
    upload = upload_tool(folders)
    api = ApiRequests(http)
    server = create_server(lambda _: api, {upload.name: upload, **tools})
    async with stdio_server() as (requests, responses):
        await server.run(requests, responses, server.create_initialization_options())
