"""Tools that explain how to write schemas and prompts. The texts are Markdown files beside the agent."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from fieldmark.db.pool import Connection
from fieldmark.tools.toolset import Tool, ToolInput, ToolResult

_BRIEFS = Path(__file__).parents[1] / "briefs"


class HelpSchemas(ToolInput):
    """Read how to write a schema: its keywords, its rules, an example."""


class HelpPrompts(ToolInput):
    """Read how to write a prompt, and how it is used."""


@cache
def _read_brief(name: str) -> str:
    return (_BRIEFS / f"{name}.md").read_text(encoding="utf-8").strip()


async def help_schemas(conn: Connection, args: HelpSchemas) -> ToolResult:
    return ToolResult(_read_brief("help_schemas"))


async def help_prompts(conn: Connection, args: HelpPrompts) -> ToolResult:
    return ToolResult(_read_brief("help_prompts"))


HELP_SCHEMAS = Tool("help_schemas", HelpSchemas, summary=lambda args: "Reading how schemas are written")
HELP_PROMPTS = Tool("help_prompts", HelpPrompts, summary=lambda args: "Reading how prompts are written")
