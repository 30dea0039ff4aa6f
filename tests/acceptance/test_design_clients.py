"""Front ends written only from design 004 work against the service."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from fieldmark.offline_model.messages import Body, call, text
from fieldmark.testing.script import Script
from node import node_paths
from running_server import PATIENCE

pytestmark = pytest.mark.anyio
HERE = Path(__file__).parent

TOTAL = {"fields": {"total": 10.0}, "confidences": {"total": 0.9}}
UPDATE = {"path": "total", "value": 12, "confidence": 0.9}
EXTRACT = [[call("get_document_text")], [call("extract_fields", TOTAL)], [call("complete_extraction")], [text("Done.")]]
CORRECT = [[call("no_such_tool")], [call("update_field", UPDATE)], [text("Corrected.")]]


def model(body: Body) -> Any:
    """Answer as the model: corrects if the request contains the correction's message, else extracts."""
    return Script(CORRECT if "The total is 12." in json.dumps(body) else EXTRACT)(body)


async def run_client(program: list[str], url: str, token: str, body: object) -> list[list[object]]:
    """Run a client and return what it shows for each event."""
    command = [*program, url, token, json.dumps(body)]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    out, _ = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert process.returncode == 0
    return [json.loads(line) for line in out.decode().splitlines()]


@pytest.mark.story
@pytest.mark.parametrize("language", ["python", "javascript"])
async def test_client_written_from_the_design_works_unchanged(serve, language):
    if language == "python":
        program = [sys.executable, str(HERE / "design_client.py")]
    else:
        program = [str(node_paths()[0] / "node"), str(HERE / "design_client.mjs")]
    async with serve(model, first_part_kb=0) as server:  # the agent reads the text by its tool
        document = await server.upload_text()
        token = server.http.headers["authorization"].removeprefix("Bearer ")
        *steps, last = await run_client(
            program, f"{server.base_url}/api/agent/extract", token, {"document_id": str(document)}
        )
        assert steps == [
            ["tool", "get_document_text", {}],
            ["tool", "extract_fields", TOTAL],
            ["tool", "complete_extraction", {}],
            ["text", "Done."],
        ]
        assert "Total: 10.00" not in json.dumps(server.model.requests[0]["messages"])
        kind, extraction, cost = last
        assert kind == "complete" and isinstance(cost, float)
        assert (await server.extraction(str(extraction)))["status"] == "completed"

        body = {"extraction_id": extraction, "message": "The total is 12.", "auto_approve": True}
        url = f"{server.base_url}/api/agent/correct?deltas=true"
        *steps, last = await run_client(program, url, token, body)
        assert steps == [["tool", "no_such_tool", {}], ["tool", "update_field", UPDATE], ["text", "Corrected."]]
        assert last[:2] == ["complete", extraction]
        assert (await server.extraction(str(extraction)))["extracted_fields"] == {"total": 12}


@pytest.mark.parametrize("approval", [False, True], ids=["failed run", "waiting run"])
async def test_client_written_from_the_design_shows_why_a_stream_ends_early(serve, approval):
    async with serve(model, first_part_kb=0) as server:
        document = await server.upload_text()
        token = server.http.headers["authorization"].removeprefix("Bearer ")
        body = {"document_id": str(document)} | ({"approval": "ask"} if approval else {"max_turns": 1})
        program = [sys.executable, str(HERE / "design_client.py")]
        *_, last = await run_client(program, f"{server.base_url}/api/agent/extract", token, body)
        (run,) = (await server.get("runs"))["items"]
        reason = run["error"] if run["status"] == "failed" else "Waiting for a person's decision"
        assert last[0] == "text" and str(last[1]).startswith(reason)
        assert run["status"] == ("awaiting_approval" if approval else "failed")
