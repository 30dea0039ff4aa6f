"""`fieldmark mcp`: the MCP server over standard input and output, started by the package's own client."""

from __future__ import annotations

import json
import sys

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
