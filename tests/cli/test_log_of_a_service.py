"""The log of a whole service: every line bears its ids, and none a word of what went through it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

import fieldmark
from desk import until
from fieldmark.cli.process import LOCAL_USER
from fieldmark.identity.tokens import LocalTokens
from fieldmark.offline_model.messages import call, text, thinking
from fieldmark.testing.script import Script
from standing import PATIENCE

pytestmark = pytest.mark.anyio

CANARY = "zanzibar"


@asynccontextmanager
async def serving(commands) -> AsyncIterator[tuple[httpx.AsyncClient, list[str]]]:
    """`fieldmark serve`, a client with its token, and (when it has ended) the lines that it wrote on standard error."""
    lines: list[str] = []
    process = await commands.start("serve", "--port", "0")

    async def collect() -> None:
        while line := await process.stderr.readline():
            lines.append(line.decode())

    collecting = asyncio.create_task(collect())
    try:
        said = await until(lambda: next((line for line in lines if "serves at" in line), None), PATIENCE)
        base_url = said.split()[3]
        token = LocalTokens(commands.folder / "home").sign(LOCAL_USER)
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(base_url=base_url, headers=headers, timeout=PATIENCE) as http:
            yield http, lines
    finally:
        process.send_signal(signal.SIGTERM)
        await collecting
        await process.wait()


def hostile(*last) -> Script:
    update = {"path": CANARY, "value": f"{CANARY} 1", "confidence": 0.9}
    return Script(
        [
            [thinking(f"{CANARY}…"), text(f"I read {CANARY}."), call("get_document_text")],
            [call("search_document", {"query": CANARY})],
            [call("update_field", update)],
            [call("update_field", {**update, "confidence": CANARY})],
            [call("remove_field", {"path": f"{CANARY}.nothing"})],
            [call(CANARY, {CANARY: CANARY})],
            # Breaks a constraint below, and Postgres quotes the whole row.
            [call("identify_document", {"document_type": CANARY, "confidence": 1.0})],
            *last,
            [text(f"Done with {CANARY}.")],
        ]
    )


async def test_nothing_that_went_through_it_stands_in_the_log(local_commands):
    async with local_commands(hostile(), FIELDMARK_LOG_LEVEL="debug") as fieldmark:
        fieldmark.sql("alter table public.extractions add check (document_type <> 'zanzibar')")
        async with serving(fieldmark) as (http, lines):
            file = (f"{CANARY}.txt", f"Vendor: {CANARY} Ltd\n".encode())
            document = (await http.post("/api/documents", files={"file": file})).json()
            broken = (f"b.{CANARY}", b"\x00\x01 " + CANARY.encode())
            assert (await http.post("/api/documents", files={"file": broken})).status_code == 201
            schema = {"type": "object", "properties": {CANARY: {"type": "string", "description": CANARY}}}
            options = {"document_id": document["id"], "schema": schema, "instructions": f"Look for {CANARY}."}
            result = (await http.post("/api/agent/extract", json=options)).json()
            assert result["status"] == "completed" and result["extraction"]["extracted_fields"] == {
                CANARY: f"{CANARY} 1"
            }
            said = {"extraction_id": result["extraction"]["id"], "message": f"It is {CANARY}."}
            assert (await http.post("/api/agent/correct", json=said)).json()["status"] == "completed"
            await http.get(f"/api/runs/{result['run_id']}/events", headers={"Last-Event-ID": "1"})
            # What comes from outside, well and badly meant.
            for method, path in (
                ("GET", f"/api/{CANARY}"),
                ("GET", f"/api/runs?before={CANARY}"),
                (CANARY, "/healthz"),
            ):
                await http.request(method, path)
            await http.get("/api/runs", headers={"Authorization": f"Bearer {CANARY}", "X-Org-Id": CANARY})
            await http.post("/api/agent/extract", json={CANARY: CANARY})
            token = http.headers["authorization"].removeprefix("Bearer ")
        told = "".join(lines)
        assert CANARY in json.dumps(fieldmark.model.requests)  # it was everywhere else
        assert CANARY not in told.lower()
        assert token not in told and token.split(".")[1] not in told and "test-key" not in told
        assert "CheckViolation 23514" in told and "Failing row" not in told  # what failed is said all the same


async def test_every_line_of_a_run_bears_its_ids(local_commands):
    async with local_commands(hostile()) as fieldmark:
        async with serving(fieldmark) as (http, lines):
            file = ("a.txt", b"Total: 1\n")
            document = (await http.post("/api/documents", files={"file": file})).json()
            result = (await http.post("/api/agent/extract", json={"document_id": document["id"]})).json()
            unknown = str(uuid4())
            await http.get(f"/api/runs/{unknown}")
            await http.get("/healthz")
        log = [json.loads(line) for line in lines if line.startswith("{")]
        (run,) = fieldmark.sql("select * from public.runs")
        ids = {"run_id": result["run_id"], "org_id": str(run["org_id"])}

        calls = [line for line in log if line["event"] == "tool call"]
        assert [(line["tool"], line["outcome"]) for line in calls] == [
            ("get_document_text", "done"),
            ("search_document", "done"),
            ("update_field", "done"),
            ("update_field", "refused"),
            ("remove_field", "failed"),
            ("identify_document", "done"),
        ]
        assert all(ids.items() <= line.items() and line["call_id"].startswith("toolu_") for line in calls)
        assert len({line["call_id"] for line in calls}) == len(calls)
        course = [line for line in log if line["event"] in ("run taken up", "run ended")]
        assert [line["event"] for line in course] == ["run taken up", "run ended"]
        assert all(ids.items() <= line.items() and "call_id" not in line for line in course)
        assert course[1]["status"] == "completed" and course[1]["duration_ms"] > 0

        requests = {line["route"]: line for line in log if line["event"] == "request"}
        assert requests.keys() == {"/api/documents", "/api/agent/extract", "/api/runs/{run_id}"}
        started = requests["/api/agent/extract"]
        assert (started["method"], started["status"]) == ("POST", 200) and started["duration_ms"] > 0
        assert (started["org_id"], started["user_id"]) == (ids["org_id"], str(run["created_by"]))
        assert requests["/api/runs/{run_id}"]["status"] == 404 and unknown not in "".join(lines)


UNREAD = """
import structlog
from fieldmark.telemetry.logs import set_up_logs
set_up_logs("info")
for _ in range(3):
    structlog.get_logger().warning("nobody reads this")
print("goes on", flush=True)
"""


def test_who_logs_goes_on_when_nobody_reads_the_log():
    environment = {"PYTHONPATH": str(Path(fieldmark.__file__).parents[1])}
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-c", UNREAD], env=environment, stdout=subprocess.PIPE, stderr=writer, text=True
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


def test_libraries_that_repeat_what_they_met_are_told_of_by_place():
    environment = {"PYTHONPATH": str(Path(fieldmark.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", LIBRARIES], env=environment, capture_output=True, text=True, check=True
    )
    sdk, mcp, queue, web, loop = (json.loads(line) for line in done.stderr.splitlines())
    assert sdk["logger"] == "claude_agent_sdk._internal.query" and sdk["event"] == mcp["event"] == "<string>:6"
    assert queue["event"] == "Fatal error: zanzibar in procrastinate.worker"  # it says ids and states only
    assert web["event"] == "Exception in ASGI application" and "ValueError" in web["exception"]
    assert "ValueError" in loop["exception"]
    assert "zanzibar" not in str((sdk, mcp, web, loop))
