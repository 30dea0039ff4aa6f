"""The MCP server, inside this process, that gives the CLI its tools."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from claude_agent_sdk.types import McpSdkServerConfig
from mcp.server import Server
from mcp.types import CallToolRequestParams, CallToolResult, ListToolsResult, TextContent
from mcp.types import Tool as WireTool
from pydantic import JsonValue

from fieldmark.tools.ledger import ToolOutcome
from fieldmark.tools.toolset import Toolset

SERVER_NAME = "fieldmark"
TOOL_PREFIX = f"mcp__{SERVER_NAME}__"
"""Prefix of tool names in the CLI and the model."""

# Metadata key of a request with the id of the model's call, which is its id in the ledger.
CALL_ID_KEY = "claudecode/toolUseId"

CallHandler = Callable[[str, str | None, dict[str, JsonValue]], Awaitable[ToolOutcome]]


def tool_server(toolset: Toolset, call: CallHandler) -> McpSdkServerConfig:
    """Return a server that lists the toolset's tools and passes each request to `call(name, call_id, arguments)`.

    The SDK's own server isn't used because it hides the call's id and returns the text of any exception.
    """
    tools = ListToolsResult(
        tools=[
            WireTool(name=tool.name, description=tool.description, input_schema=tool.input_schema)
            for tool in toolset.tools.values()
        ]
    )

    async def on_list_tools(context: Any, params: Any) -> ListToolsResult:
        return tools

    async def on_call_tool(context: Any, params: CallToolRequestParams) -> CallToolResult:
        meta: Any = params.meta or {}
        call_id = meta.get(CALL_ID_KEY)
        outcome = await call(params.name, call_id if isinstance(call_id, str) else None, params.arguments or {})
        return CallToolResult(content=[TextContent(type="text", text=outcome.text)], is_error=outcome.is_error)

    server = Server(SERVER_NAME, on_list_tools=on_list_tools, on_call_tool=on_call_tool)
    return McpSdkServerConfig(type="sdk", name=SERVER_NAME, instance=server)
