"""`fieldmark mcp`: the MCP server over standard input and output, started by the package's own client."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from commands import _COMMAND
from mcp import Client, StdioServerParameters

from fieldmark.agents.extraction.offline import answer as answer_by_rules
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio


def parameters(fieldmark, *options: str) -> StdioServerParameters:
    return StdioServerParameters(
        command=sys.executable,
        args=["-c", _COMMAND, "mcp", *options],
        env=fieldmark.environment(),
        cwd=str(fieldmark.folder),
    )


@pytest.mark.parametrize(("mode", "place"), [("auto", "local"), ("legacy", "remote")])
async def test_a_client_uploads_and_extracts_over_stdio(commands, local_commands, mode, place):
    async with commands() if place == "remote" else local_commands(answer_by_rules) as fieldmark:
        fieldmark.file()
        fieldmark.file("secret", "../outside.txt")
        async with Client(parameters(fieldmark), mode=mode) as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
            assert "upload_file" in names and "upload_address" not in names and len(names) <= 15
            document = (await client.call_tool("upload_file", {"path": "a.txt"})).structured_content
            run = (await client.call_tool("extract", {"document_id": document["id"]})).structured_content
            assert run["status"] == "completed" and run["extraction"]["fields"]["total"] == 10
            for path in ("../outside.txt", str(fieldmark.folder.parent / "outside.txt"), "nothing.txt"):
                refused = await client.call_tool("upload_file", {"path": path})
                assert refused.is_error and json.loads(refused.content[0].text)["code"] == "not_found"


async def test_folders_that_may_be_uploaded_are_checked(commands):
    async with commands(Script([])) as fieldmark:
        assert (await fieldmark.run("mcp", "--folder", "/")).code == 2
        assert (await fieldmark.run("mcp", "--folder", "nothing")).code == 2


async def test_the_configuration_of_the_recipe_for_claude_desktop_starts_the_tools(local_commands):
    page = (Path(__file__).parents[2] / "docs" / "recipes" / "claude-desktop.md").read_text("utf-8")
    configured = json.loads(page.partition("```json\n")[2].partition("```")[0])["mcpServers"]["fieldmark"]
    assert Path(configured["command"]).name == "fieldmark" and configured["args"][:2] == ["mcp", "--folder"]
    async with local_commands(answer_by_rules) as fieldmark:
        fieldmark.file()
        async with Client(parameters(fieldmark, "--folder", str(fieldmark.folder))) as client:
            sent = await client.call_tool("upload_file", {"path": str(fieldmark.folder / "a.txt")})
            assert not sent.is_error, sent
