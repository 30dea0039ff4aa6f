"""The tools of one run as the CLI sees them: an MCP server inside this process."""

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

NAME = "fieldmark"
TOOL_PREFIX = f"mcp__{NAME}__"
"""What the CLI and the model put before a tool's own name."""

# The CLI names the model's call in each request's metadata; the ledger's entry is found by it.
CALL_ID = "claudecode/toolUseId"

Call = Callable[[str, str | None, dict[str, JsonValue]], Awaitable[ToolOutcome]]


def tool_server(toolset: Toolset, call: Call) -> McpSdkServerConfig:
    """A server that lists the toolset's tools and hands each request to `call(name, call_id, arguments)`.

    Our own and not the SDK's ready-made one, for two reasons: that one hides the call's id, and it answers with the
    text of any exception.
    """
    listed = ListToolsResult(
        tools=[
            WireTool(name=tool.name, description=tool.description, input_schema=tool.input_schema)
            for tool in toolset.tools.values()
        ]
    )

    async def on_list_tools(context: Any, params: Any) -> ListToolsResult:
        return listed

    async def on_call_tool(context: Any, params: CallToolRequestParams) -> CallToolResult:
        meta: Any = params.meta or {}
        call_id = meta.get(CALL_ID)
        outcome = await call(params.name, call_id if isinstance(call_id, str) else None, params.arguments or {})
        return CallToolResult(content=[TextContent(type="text", text=outcome.text)], is_error=outcome.is_error)

    server = Server(NAME, on_list_tools=on_list_tools, on_call_tool=on_call_tool)
    return McpSdkServerConfig(type="sdk", name=NAME, instance=server)
