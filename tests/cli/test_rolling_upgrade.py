"""Processes are replaced one by one under load, after a migration: no request fails, no decision is lost."""

from __future__ import annotations

import asyncio
import shutil
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from commands import Serving

from fieldmark.db.migrate import migrate
from fieldmark.offline_model.messages import Body, call, text

pytestmark = [pytest.mark.anyio, pytest.mark.full, pytest.mark.timeout(900)]

RUNS, WRITES = 6, 3
EXPAND = "alter table public.documents add column later text;\ncreate table public.later (id int primary key);\n"


async def answer(body: Body) -> list[Any]:
    """Write one field in each message, until all have a result that is no error."""
    blocks = [
        block for message in body["messages"] if isinstance(message["content"], list) for block in message["content"]
    ]
    done = {block["tool_use_id"] for block in blocks if block["type"] == "tool_result" and not block.get("is_error")}
    written = {block["input"].get("path") for block in blocks if block["type"] == "tool_use" and block["id"] in done}
    missing = [number for number in range(WRITES) if f"field_{number}" not in written]
    if not missing:
        return [text("Done.")]
    return [call("update_field", {"path": f"field_{missing[0]}", "value": missing[0], "confidence": 0.9})]


class Client:
    """Sends each request to any server that is up, and repeats one that was refused: what docs/deploy.md says."""

    def __init__(self) -> None:
        self.servers: list[Serving] = []
        self.failed: list[str] = []
        self.sent = self.repeated = 0

    async def send(self, method: str, path: str, **sent: Any) -> httpx.Response:
        self.sent += 1
        for attempt in range(50):
            server = self.servers[(self.sent + attempt) % len(self.servers)]
            try:
                response = await server.http.request(method, path, **sent)
            except httpx.TransportError:
                pass
            else:
                if response.status_code != 503:
                    if response.status_code >= 400:
                        self.failed.append(f"{method} {path}: {response.status_code} {response.text}")
                    return response
            self.repeated += 1
            await asyncio.sleep(0.2)
        self.failed.append(f"{method} {path}: no answer")
        raise AssertionError(self.failed)


async def test_no_request_fails_and_no_decision_is_lost_while_processes_are_replaced(
    local_commands: Any, memory_path: Path
) -> None:
    folder = memory_path / "migrations"
    shutil.copytree(Path(__file__).parents[2] / "migrations", folder)
    (folder / "20990101000000_fieldmark_99_0_0_adds_a_column.sql").write_text(EXPAND)
    client = Client()
    async with local_commands(answer) as fieldmark, AsyncExitStack() as stack:
        old = [await stack.enter_async_context(fieldmark.serving()) for _ in range(2)]
        client.servers = list(old)
        waiting = [await _start_run(client, number) for number in range(RUNS)]
        load = asyncio.create_task(_request_every_100_ms(client))
        deciding = [asyncio.create_task(_decide_all(client, run)) for run in waiting]
        assert await migrate(fieldmark.owner_url, folder=folder) != []
        for server in old:
            new = await stack.enter_async_context(fieldmark.serving())
            client.servers.append(new)
            client.servers.remove(server)
            server.process.terminate()
            await server.process.wait()
        ended = await asyncio.gather(*deciding)
        load.cancel()
        await asyncio.wait({load})
        said = "".join(line for server in [*old, *client.servers] for line in server.lines if "rror" in line)
        assert client.failed == [] and client.sent > 20, said
        assert [run["status"] for run in ended] == ["completed"] * RUNS
        expected = {f"field_{number}": number for number in range(WRITES)}
        rows = fieldmark.sql("select extracted_fields as fields, version from public.extractions")
        assert [row["fields"] for row in rows] == [expected] * RUNS
        written = fieldmark.sql("select count(*) as n from public.extraction_journal where path[1] like 'field_%'")
        assert written == [{"n": RUNS * WRITES}]
        print(f"{client.sent} requests, {client.repeated} repeated, {len(client.failed)} failed")


async def _start_run(client: Client, number: int) -> dict[str, Any]:
    file = {"file": (f"{number}.txt", f"Invoice {number}\nTotal: 1.00\n".encode())}
    document = (await client.send("POST", "/api/documents", files=file)).json()
    body = {"document_id": document["id"], "approval": "ask"}
    headers = {"Idempotency-Key": str(uuid4())}
    return (await client.send("POST", "/api/agent/extract", json=body, headers=headers)).json()


async def _decide_all(client: Client, run: dict[str, Any]) -> dict[str, Any]:
    while run["status"] == "awaiting_approval":
        await asyncio.sleep(0.5)
        approvals = [{"call_id": run["waits_for"]["call_id"], "approved": True}]
        body = {"run_id": run["run_id"], "approvals": approvals}
        await client.send("POST", "/api/agent/approve", json=body)
        run = await _result(client, run["run_id"], approvals[0]["call_id"])
    return run


async def _result(client: Client, run_id: str, decided: str) -> dict[str, Any]:
    """Wait until the run waits for another decision, or has ended."""
    deadline = time.monotonic() + 300
    while True:
        run = (await client.send("GET", f"/api/runs/{run_id}/result")).json()
        waits = run.get("waits_for")
        if run["status"] == "completed" or (waits and waits["call_id"] != decided):
            return run
        assert time.monotonic() < deadline, run
        await asyncio.sleep(0.2)


async def _request_every_100_ms(client: Client) -> None:
    while True:
        await client.send("GET", "/api/documents")
        await asyncio.sleep(0.1)
