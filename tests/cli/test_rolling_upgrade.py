"""Processes are replaced one by one under load, after a migration: no request fails, no decision is lost."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import shutil
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from commands import Commands, Serving

from api.members import create_invitation
from fieldmark.cli.process import LOCAL_USER
from fieldmark.db.migrate import migrate
from fieldmark.identity.tokens import LocalTokens
from fieldmark.offline_model.messages import Body, call, text
from two_agent_model import tools_of

pytestmark = [pytest.mark.anyio, pytest.mark.full, pytest.mark.timeout(900)]

EXPAND = "alter table public.documents add column later text;\ncreate table public.later (id int primary key);\n"
RUNS_EACH = 2  # of each of two people: extractions, and conversations that start an extraction
FIELDS = {f"field_{number}": number for number in range(3)}
UPDATES = [("update_field", {"path": path, "value": value, "confidence": 0.9}) for path, value in FIELDS.items()]
EXTRACTION = [*UPDATES, ("complete_extraction", {"summary": "Three fields."})]
CONVERSATION = [("run_extraction", {}), ("update_extraction_field", {"path": "field_0", "value": 7})]
DECISIONS = 2 * RUNS_EACH * (len(UPDATES) + len(UPDATES) + len(CONVERSATION))
DECISIONS_BEFORE_EACH_STOP = 5
DECIDED = re.compile(r"^- (\w+) ({.*}) \(done\)", re.MULTILINE)


async def answer(body: Body) -> list[Any]:
    """Make the agent's next call: the first that is neither answered without an error nor reported as decided."""
    contents = [message["content"] for message in body["messages"]]
    blocks = [
        block
        for content in contents
        for block in (content if isinstance(content, list) else [{"type": "text", "text": content}])
    ]
    done = {block["tool_use_id"] for block in blocks if block["type"] == "tool_result" and not block.get("is_error")}
    called = [
        (block["name"].rpartition("__")[2], block["input"].get("path"))
        for block in blocks
        if block["type"] == "tool_use" and block["id"] in done
    ]
    # A conversation that was interrupted before a decided call was stored in it: agents/briefs/decided.md.
    said = "\n".join(block["text"] for block in blocks if block["type"] == "text")
    called += [(name, json.loads(given).get("path")) for name, given in DECIDED.findall(said)]
    steps = CONVERSATION if "run_extraction" in tools_of(body) else EXTRACTION
    missing = [(name, given) for name, given in steps if (name, given.get("path")) not in called]
    return [call(*missing[0]) if missing else text("Done.")]


class Client:
    """Sends each request to any server that is up, and repeats one that was refused: what docs/deploy.md says."""

    def __init__(self) -> None:
        self.servers: list[Serving] = []
        self.failed: list[str] = []
        self.sent = self.repeated = 0

    async def send(self, method: str, path: str, **sent: Any) -> Any:
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
                    return response.json()
            self.repeated += 1
            await asyncio.sleep(0.2)
        self.failed.append(f"{method} {path}: no answer")
        raise AssertionError(self.failed)


@dataclass(frozen=True)
class Person:
    client: Client
    headers: dict[str, str]
    decided: list[str]
    """The calls that were decided, also by others."""

    async def send(self, method: str, path: str, **sent: Any) -> Any:
        headers = self.headers | ({"Idempotency-Key": str(uuid4())} if method == "POST" else {})
        return await self.client.send(method, path, headers=headers, **sent)

    async def start(self, task: str, **request: Any) -> str:
        """Start a run about a new document, and return its id."""
        file = {"file": (f"{uuid4()}.txt", b"Invoice\nTotal: 1.00\n")}
        document = await self.send("POST", "/api/documents", files=file)
        body = {"document_id": document["id"], "wait": False, **request}
        run = await self.send("POST", f"/api/agent/{task}", json=body)
        if run["thread_id"] is not None:
            await self.send("PATCH", f"/api/threads/{run['thread_id']}", json={"shared": True})
        return run["run_id"]

    async def decide_all(self) -> None:
        """Approve each call of the other's runs, as soon as it waits."""
        while True:
            waiting = await self.send("GET", "/api/runs", params={"status": "awaiting_approval"})
            await asyncio.gather(*map(self.decide, waiting["items"]))
            await asyncio.sleep(0.2)

    async def decide(self, run: dict[str, Any]) -> None:
        if run["waits_for"] is None or run["decision_refusal"] is not None:
            return  # decided meanwhile, or only the other person may
        call_id = run["waits_for"]["call_id"]
        approvals = [{"call_id": call_id, "approved": True}]
        # Half of the requests wait for what the run does next, also while their server stops.
        body = {"run_id": run["id"], "approvals": approvals, "wait": len(self.decided) % 2 == 0}
        self.decided.append(call_id)
        await self.send("POST", "/api/agent/approve", json=body)

    async def request_every_100_ms(self) -> None:
        while True:
            await self.send("GET", "/api/documents")
            await asyncio.sleep(0.1)


async def test_no_request_fails_and_no_decision_is_lost_while_processes_are_replaced(
    local_commands: Any, memory_path: Path
) -> None:
    folder = memory_path / "migrations"
    shutil.copytree(Path(__file__).parents[2] / "migrations", folder)
    (folder / "20990101000000_fieldmark_99_0_0_adds_a_column.sql").write_text(EXPAND)
    client = Client()
    decided: list[str] = []
    async with local_commands(answer) as fieldmark, AsyncExitStack() as stack:
        old = [await stack.enter_async_context(fieldmark.serving()) for _ in range(2)]
        client.servers = list(old)
        people = await two_people(fieldmark, client, decided)
        starting = [
            person.start(task, **request)
            for person, (task, request) in itertools.product(
                people, [("extract", {}), ("chat", {"message": "Extract it."})] * RUNS_EACH
            )
        ]
        started = await asyncio.gather(*starting)
        tasks = [asyncio.create_task(people[0].request_every_100_ms())]
        tasks += [asyncio.create_task(person.decide_all()) for person in people]
        at_stops: list[int] = []
        assert await migrate(fieldmark.owner_url, folder=folder) != []
        for server in old:
            new = await stack.enter_async_context(fieldmark.serving())
            client.servers.append(new)
            await until_decided(tasks, decided, len(decided) + DECISIONS_BEFORE_EACH_STOP)
            client.servers.remove(server)
            server.process.terminate()
            at_stops.append(len(decided))
            await server.process.wait()
            at_stops.append(len(decided))
        await until_decided(tasks, decided, DECISIONS)
        ended = {"completed": 0}
        while ended["completed"] < len(started):
            found = [await people[0].send("GET", f"/api/runs/{run}/result") for run in started]
            ended = {status: sum(run["status"] == status for run in found) for status in ("completed", "failed")}
            assert ended["failed"] == 0, found
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        said = "".join(line for server in [*old, *client.servers] for line in server.lines if "rror" in line)
        assert client.failed == [] and client.sent > 20, said
        assert at_stops[-1] < DECISIONS, "the chains ended before the last process was replaced"
        calls = fieldmark.sql(
            """select c.id, c.run_id, c.tool, c.arguments ->> 'path' as path, c.status,
                      c.decided_by = root.created_by as by_starter
               from public.tool_calls as c join public.runs as r on r.id = c.run_id
               join public.runs as root on root.id = r.root_run_id where c.approved_by = 'person'"""
        )
        asked = Counter((row["run_id"], row["tool"], row["path"]) for row in calls)
        assert [one for one, times in asked.items() if times > 1] == []
        assert sorted(row["id"] for row in calls) == sorted(decided)
        assert [(row["status"], row["by_starter"]) for row in calls] == [("done", False)] * DECISIONS
        rows = fieldmark.sql("select extracted_fields as fields, status from public.extractions")
        assert sorted(row["fields"]["field_0"] for row in rows) == [0] * 2 * RUNS_EACH + [7] * 2 * RUNS_EACH
        assert [(row["status"], row["fields"] | {"field_0": 0}) for row in rows] == [("completed", FIELDS)] * len(rows)
        written = fieldmark.sql("select count(*) as n from public.extraction_journal where path[1] like 'field_%'")
        assert written == [{"n": DECISIONS - 2 * RUNS_EACH}]  # all but those that start an extraction
        print(f"{client.sent} requests, {client.repeated} repeated, decisions at stops: {at_stops} of {DECISIONS}")


async def two_people(fieldmark: Commands, client: Client, decided: list[str]) -> list[Person]:
    """Return two members of an organisation that requires a second person to decide."""
    http = client.servers[0].http
    org = (await http.get("/api/me")).json()["organisations"][0]["id"]
    invitation = await create_invitation(http, org, role="member")
    tokens = [LocalTokens(fieldmark.home).sign(user) for user in (LOCAL_USER, uuid4())]
    people = [Person(client, {"Authorization": f"Bearer {token}", "X-Org-Id": org}, decided) for token in tokens]
    joining = {"Authorization": f"Bearer {tokens[1]}"}
    await client.send("POST", "/api/invitations/accept", json={"token": invitation["token"]}, headers=joining)
    await people[0].send("PATCH", f"/api/organisations/{org}", json={"second_person": True})
    return people


async def until_decided(tasks: list[asyncio.Task[None]], decided: list[str], count: int) -> None:
    while len(decided) < count:
        ended, _ = await asyncio.wait(tasks, timeout=0.1, return_when=asyncio.FIRST_COMPLETED)
        for task in ended:
            task.result()
