"""Logs of a whole service: every line has its ids, and no line contains document content."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from uuid import uuid4

import pytest
from commands import SOURCE

from fieldmark.offline_model.messages import call, text, thinking
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio

CANARY = "zanzibar"


def hostile_script() -> Script:
    update = {"path": CANARY, "value": f"{CANARY} 1", "confidence": 0.9}
    return Script(
        [
            [thinking(f"{CANARY}…"), text(f"I read {CANARY}."), call("get_document_text")],
            [call("search_document", {"query": CANARY})],
            [call("update_field", update)],
            [call("update_field", {**update, "confidence": CANARY})],
            [call("remove_field", {"path": f"{CANARY}.nothing"})],
            [call(CANARY, {CANARY: CANARY})],
            # Violates a constraint, so that Postgres quotes the whole row.
            [call("identify_document", {"document_type": CANARY, "confidence": 1.0})],
            [text(f"Done with {CANARY}.")],
        ]
    )


async def test_run_logs_have_ids_and_no_content(local_commands):
    async with local_commands(hostile_script(), FIELDMARK_LOG_LEVEL="debug") as fieldmark:
        fieldmark.sql("alter table public.extractions add check (document_type <> 'zanzibar')")
        async with fieldmark.serving() as server:
            http = server.http
            file = (f"{CANARY}.txt", f"Vendor: {CANARY} Ltd\n".encode())
            document = (await http.post("/api/documents", files={"file": file})).json()
            broken = (f"b.{CANARY}", b"\x00\x01 " + CANARY.encode())
            assert (await http.post("/api/documents", files={"file": broken})).status_code == 201
            schema = {"type": "object", "properties": {CANARY: {"type": "string", "description": CANARY}}}
            options = {"document_id": document["id"], "schema": schema, "instructions": f"Look for {CANARY}."}
            result = (await http.post("/api/agent/extract", json=options)).json()
            fields = result["extraction"]["extracted_fields"]
            assert (result["status"], fields) == ("completed", {CANARY: f"{CANARY} 1"})
            # Requests from outside, valid and hostile.
            for method, path in (
                ("GET", f"/api/{CANARY}"),
                ("GET", f"/api/runs?before={CANARY}"),
                (CANARY, "/healthz"),
            ):
                await http.request(method, path)
            await http.get("/api/runs", headers={"Authorization": f"Bearer {CANARY}", "X-Org-Id": CANARY})
            await http.post("/api/agent/extract", json={CANARY: CANARY})
            await http.get(f"/api/runs/{(unknown := uuid4())}")
            token = http.headers["authorization"].removeprefix("Bearer ")
        log_text = "".join(server.lines)
        assert CANARY in json.dumps(fieldmark.model.requests)  # the model saw it
        assert CANARY not in log_text.lower()
        assert token not in log_text and token.split(".")[1] not in log_text and "test-key" not in log_text
        assert "CheckViolation 23514" in log_text and "Failing row" not in log_text

        log = [json.loads(line) for line in server.lines if line.startswith("{")]
        (run,) = fieldmark.sql("select * from public.runs")
        ids = {"run_id": result["run_id"], "org_id": str(run["org_id"])}
        calls = [line for line in log if line["event"] == "tool call"]
        assert [(line["tool"], line["outcome"]) for line in calls] == [
            ("get_document_text", "done"),
            ("search_document", "done"),
            ("update_field", "done"),
            ("update_field", "refused"),
            ("remove_field", "failed"),
            ("identify_document", "failed"),
        ]
        assert all(ids.items() <= line.items() and line["call_id"].startswith("toolu_") for line in calls)
        assert len({line["call_id"] for line in calls}) == len(calls)
        run_lines = [line for line in log if line["event"] in ("run claimed", "run ended")]
        assert [line["event"] for line in run_lines] == ["run claimed", "run ended"]
        assert all(ids.items() <= line.items() and "call_id" not in line for line in run_lines)
        ended = run_lines[1]
        assert ended["status"] == "completed" and ended["duration_ms"] > 0
        assert (ended["tool_calls"], ended["searches"], ended["reads"]) == (6, 1, 1)
        (used,) = fieldmark.sql(
            """select count(*) as messages, sum(input_tokens) as input_tokens, sum(output_tokens) as output_tokens,
                 sum(cost_usd)::float as cost_usd from public.usage"""
        )
        assert used["cost_usd"] > 0 and {name: ended[name] for name in used} == used

        requests = {(line["route"], line["status"]): line for line in log if line["event"] == "request"}
        started = requests["/api/agent/extract", 200]
        assert started["method"] == "POST" and started["duration_ms"] > 0
        assert (started["org_id"], started["user_id"]) == (ids["org_id"], str(run["created_by"]))
        # Who asked for what: ids are the only part of a path that is logged.
        assert requests["/api/runs/{run_id}", 404]["ids"] == {"run_id": str(unknown)}


WRITER_WITHOUT_READER = """
import structlog
from fieldmark.telemetry.logs import set_up_logs
set_up_logs("info")
for _ in range(3):
    structlog.get_logger().warning("a line")
print("goes on", flush=True)
"""


def test_service_continues_if_its_log_is_not_read():
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-c", WRITER_WITHOUT_READER],
            env={"PYTHONPATH": SOURCE},
            stdout=-1,
            stderr=writer,
            text=True,
        )
    finally:
        os.close(writer)
    assert done.stdout == "goes on\n"


LIBRARIES = """
import asyncio, logging
from fieldmark.telemetry.logs import set_up_logs
set_up_logs("info")
for name in ("claude_agent_sdk._internal.query", "mcp.server", "procrastinate.worker"):
    logging.getLogger(name).error("Fatal error: %s", "zanzibar in " + name)
try:
    raise ValueError("zanzibar")
except ValueError as error:
    logging.getLogger("uvicorn.error").exception("Exception in ASGI application")
    asyncio.new_event_loop().call_exception_handler({"message": f"never retrieved: {error!r}", "exception": error})
"""


def test_library_logs_contain_no_content():
    code = [sys.executable, "-c", LIBRARIES]
    done = subprocess.run(code, env={"PYTHONPATH": SOURCE}, capture_output=True, text=True, check=True)
    sdk, mcp, queue, web, loop = (json.loads(line) for line in done.stderr.splitlines())
    assert sdk["logger"] == "claude_agent_sdk._internal.query" and sdk["event"] == mcp["event"] == "<string>:6"
    assert queue["event"] == "Fatal error: zanzibar in procrastinate.worker"  # this library logs ids and states only
    assert web["event"] == "Exception in ASGI application" and "ValueError" in web["exception"]
    assert "ValueError" in loop["exception"]
    assert "zanzibar" not in str((sdk, mcp, web, loop))
