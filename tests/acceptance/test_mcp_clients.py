"""Claude's CLI as an MCP client, with a scripted model that has only our tools: it extracts, proposes a correction,
cannot approve it, and asks."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import claude_agent_sdk
import pytest

from fieldmark.offline_model.messages import call, text
from fieldmark.offline_model.server import OfflineModel
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio

CLI = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"


def last_result(body: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON of the last tool result in a request."""
    results = [
        part
        for message in body["messages"]
        if isinstance(message["content"], list)
        for part in message["content"]
        if part["type"] == "tool_result"
    ]
    content = results[-1]["content"]
    return json.loads(content if isinstance(content, str) else content[0]["text"])


def decide_it(body: dict[str, Any]) -> list[Any]:
    run = last_result(body)
    return [call("decide", {"run_id": run["run_id"], "call_id": run["waits_for"]["call_id"], "approved": True})]


@pytest.mark.full
@pytest.mark.long
@pytest.mark.real_cli("Claude's CLI is the MCP client")
async def test_claudes_cli_works_as_a_client(serve):
    async with serve() as server:
        document = str(await server.upload_text())
        results: list[dict[str, Any]] = []

        def with_extraction(body: dict[str, Any]) -> list[Any]:
            extraction = last_result(body)["extraction"]["id"]
            return [call("propose_correction", {"extraction_id": extraction, "message": "set total to 12"})]

        def keep(body: dict[str, Any]) -> list[Any]:
            results.append(last_result(body))
            return [call("ask", {"question": "How many documents are there?"})]

        script = Script(
            [
                [call("list_documents")],
                [call("extract", {"document_id": document})],
                with_extraction,
                decide_it,
                keep,
                [text("All done.")],
            ]
        )
        async with OfflineModel(script) as model:
            answer = await run_cli(model.base_url, f"{server.base_url}/mcp", server.http.headers["authorization"])
            offered = {str(tool["name"]) for body in model.requests for tool in body.get("tools", [])}
        assert answer == "All done."
        assert "mcp__fieldmark__propose_correction" in offered
        assert [one["code"] for one in results] == ["second_person_needed"]
        (run,) = (await server.get("runs?status=awaiting_approval"))["items"]
        assert run["task"] == "correct"


async def run_cli(model_url: str, url: str, authorization: str) -> str:
    """Run Claude's CLI once with our server. Return its answer."""
    servers = {"fieldmark": {"type": "http", "url": url, "headers": {"Authorization": authorization}}}
    with tempfile.TemporaryDirectory(prefix="fieldmark-mcp-cli-") as home:
        process = await asyncio.create_subprocess_exec(
            CLI,
            *("-p", "Work through the document.", "--strict-mcp-config", "--mcp-config"),
            json.dumps({"mcpServers": servers}),
            *("--allowedTools", "mcp__fieldmark__*", "--tools", "", "--output-format", "json"),
            cwd=home,
            env={
                "PATH": os.environ["PATH"],  # noqa: TID251  no settings of the service
                "HOME": home,
                "ANTHROPIC_BASE_URL": model_url,
                "ANTHROPIC_API_KEY": "test-key",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "ENABLE_TOOL_SEARCH": "false",
            },
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
    assert process.returncode == 0, (out.decode()[:2000], err.decode()[:2000])
    return json.loads(out)["result"]
