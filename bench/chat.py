"""What a turn of a conversation about a document takes.

1. A turn without a tool, from the request to the end of its events, beside a bare ClaudeSDKClient that resumes its
   session a turn, with the same tools in memory. The two take turns. And until the first word is there.
2. From the request until the person is shown what a write would change: in a thread that goes on, and in new ones.
3. Messages to the model in a turn that mentions a schema, in a thread with a working state.
4. Five hundred threads wait for a person: how many CLIs live, and whether some of them go on. One comes to wait by
   itself; those beside it are copies of its rows.

The scripted model answers without delay.

    pip install '.[bench]' && python bench/chat.py [--turns 20] [--cards 10] [--waiting 500]

Ends with 1 if a mention costs a message, a CLI lives while all wait, or a thread of the sample does not go on.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import psutil
import psycopg

import extraction
from fieldmark.db.embedded import running
from fieldmark.identity.tokens import LocalTokens
from fieldmark.offline_model.messages import Block, Body, call, items, text
from fieldmark.offline_model.server import OfflineModel
from processes import bounded, child, free_port, heed_signals, said

DEADLINE_SECONDS = 900
SSE = {"Accept": "text/event-stream"}
DELTAS = {"deltas": "true"}
SERVE = ("-c", "from fieldmark.cli import main; main()", "serve")
DOCUMENT = "Invoice number: 1\nVendor: Acme GmbH\nTotal: 10.00 EUR\n"
CARD = re.compile(r"card-[0-9a-f]{32}")
PAUSE_SECONDS = 0.3
"""Between two turns: what the one before has left to do is not the next one's. A person takes longer."""
SAMPLE = 5
_GOALS = {"turn": 0.3, "word": 0.080, "card": 0.25}


def answer(body: Body) -> list[Block]:
    """A write where the last message asks for a card, else a word."""
    said = items(body, "messages")
    since = max((at for at, one in enumerate(said) if one.get("role") == "assistant"), default=-1)
    last = json.dumps(said[since + 1 :])
    if "tool_result" in last:
        return [text("Done.")]
    found = CARD.search(last)
    return [call("create_tag", {"name": found[0]})] if found else [text("It is ten euros.")]


# Beside it: a bare client that resumes its session a turn -------------------------------------------------------------


async def bare(base_url: str, home: str) -> None:
    """A turn for each line; tells how long it took, and when the first word was there."""
    from claude_agent_sdk import (
        ClaudeAgentOptions,
        ClaudeSDKClient,
        ResultMessage,
        SdkMcpTool,
        StreamEvent,
        create_sdk_mcp_server,
    )

    from fieldmark.agents.registry import AGENTS

    async def nothing(arguments: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": "Done."}]}

    agent = AGENTS["document"]
    tools = [SdkMcpTool(one.name, one.description, one.input_schema, nothing) for one in agent.toolset.tools.values()]
    session: str | None = None
    print("ready", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        begun, first = time.perf_counter(), 0.0
        options = ClaudeAgentOptions(
            system_prompt=agent.prompt,
            mcp_servers={"fieldmark": create_sdk_mcp_server("fieldmark", tools=tools)},
            allowed_tools=[f"mcp__fieldmark__{one.name}" for one in tools],
            tools=[],
            setting_sources=[],
            include_partial_messages=True,
            model="claude-sonnet-5",
            resume=session,
            cwd=home,
            env={
                "ANTHROPIC_BASE_URL": base_url,
                "ANTHROPIC_API_KEY": "bench",
                "CLAUDE_CONFIG_DIR": f"{home}/config",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "DISABLE_AUTOUPDATER": "1",
            },
        )
        async with ClaudeSDKClient(options) as client:
            await client.query(line)
            async for message in client.receive_response():
                if isinstance(message, StreamEvent) and not first:
                    first = time.perf_counter() if message.event.get("type") == "content_block_delta" else 0.0
                if isinstance(message, ResultMessage):
                    assert not message.is_error, message
                    session = message.session_id
        print(time.perf_counter() - begun, first - begun, flush=True)


# Ours -----------------------------------------------------------------------------------------------------------------


@dataclass
class Talk:
    """One person's conversation over HTTP."""

    http: httpx.AsyncClient
    document_id: str
    thread_id: str | None = None
    run_id: str = ""
    call_id: str = ""
    first: float = 0.0

    async def say(self, message: str, until: str, **more: Any) -> float:
        """How long it takes from the request to an event of a type; `first`: to the first word."""
        body = {"document_id": self.document_id, "message": message, **more}
        body |= {"thread_id": self.thread_id} if self.thread_id else {}
        begun, self.first = time.perf_counter(), 0.0
        async with self.http.stream("POST", "/api/agent/chat", json=body, headers=SSE, params=DELTAS) as stream:
            async for line in stream.aiter_lines():
                if not line.startswith("data: "):
                    continue
                event = json.loads(line[6:])
                assert event["type"] != "error", event
                if event["type"] in ("text_delta", "text") and not self.first:
                    self.first = time.perf_counter() - begun
                self.run_id = event.get("run_id") or self.run_id
                self.thread_id = event.get("thread_id") or self.thread_id
                self.call_id = event.get("call_id") or self.call_id
                if event["type"] == until:
                    return time.perf_counter() - begun
        raise AssertionError(f"no event {until}")

    async def decide(self, approved: bool) -> str:
        """How the run ends where it went on."""
        body = {"run_id": self.run_id, "approvals": [{"call_id": self.call_id, "approved": approved}]}
        told = await self.http.post("/api/agent/approve", json=body)
        assert told.status_code == 200, told.text
        return str(told.json()["status"])


@dataclass
class Bench:
    """What is measured, and where that is."""

    model: OfflineModel
    home: str
    owner_url: str
    faults: list[str] = field(default_factory=list[str])

    @asynccontextmanager
    async def served(self, **more: str) -> AsyncGenerator[tuple[Talk, int]]:
        """A service, its process, and a conversation on a document."""
        port = free_port()
        settings = {
            "FIELDMARK_HOME": self.home,
            "ANTHROPIC_API_KEY": "bench",
            "ANTHROPIC_BASE_URL": self.model.base_url,
            "FIELDMARK_PORT": str(port),
            "FIELDMARK_LOG_LEVEL": "warning",
            "DATABASE_URL": "",
            "SUPABASE_URL": "",
            **more,
        }
        with child(*SERVE, **settings) as server:
            address = f"http://127.0.0.1:{port}"
            await asyncio.to_thread(extraction.wait_for, f"{address}/readyz")
            headers = {"Authorization": f"Bearer {LocalTokens(Path(self.home)).sign(uuid4())}"}
            async with httpx.AsyncClient(base_url=address, headers=headers, timeout=60) as http:
                document = (await http.post("/api/documents", files={"file": ("a.txt", DOCUMENT.encode())})).json()
                while (await http.get(f"/api/documents/{document['id']}")).json()["status"] == "reading":
                    await asyncio.sleep(0.05)
                yield Talk(http, document["id"]), server.pid

    async def turns(self, count: int) -> None:
        """1. Turns without a tool."""
        walls: dict[str, list[float]] = {"ours": [], "bare": []}
        words: dict[str, list[float]] = {"ours": [], "bare": []}
        with (
            tempfile.TemporaryDirectory(prefix="fieldmark-bench-") as place,
            child(str(Path(__file__)), "bare", self.model.base_url, place) as beside,
        ):
            assert said(beside) == "ready" and beside.stdin is not None
            async with self.served() as (talk, _):
                for turn in range(count + 2):
                    wall = await talk.say(f"What is the total? ({turn})", "complete")
                    first = talk.first
                    await asyncio.sleep(PAUSE_SECONDS)
                    beside.stdin.write(f"What is the total? ({turn})\n")
                    beside.stdin.flush()
                    bare_wall, bare_first = map(float, (await asyncio.to_thread(said, beside)).split())
                    await asyncio.sleep(PAUSE_SECONDS)
                    if turn >= 2:
                        walls["ours"].append(wall)
                        walls["bare"].append(bare_wall)
                        words["ours"].append(first)
                        words["bare"].append(bare_first)
        ratio = statistics.median(walls["ours"]) / statistics.median(walls["bare"])
        print(f"a turn without a tool, {count} of each, interleaved, median")
        for name in ("ours", "bare"):
            print(f"    {name}: {told(walls[name])}; first word {told(words[name])}")
        print(f"    {ratio:.2f} x the bare client that resumes (goal {_GOALS['turn']}); first word: goal 80 ms")

    async def cards(self, count: int) -> None:
        """2. and 3. What a person is shown, and what a mention costs."""
        going_on: list[float] = []
        new: list[float] = []
        async with self.served() as (talk, _):
            await talk.say("Hello.", "complete")
            for _ in range(count):
                await asyncio.sleep(PAUSE_SECONDS)
                going_on.append(await talk.say(f"card-{uuid4().hex}", "approval"))
                assert await talk.decide(False) == "completed"
            for _ in range(count):
                await asyncio.sleep(4 * PAUSE_SECONDS)  # a spare takes the place of the one that was taken
                other = Talk(talk.http, talk.document_id)
                new.append(await other.say(f"card-{uuid4().hex}", "approval"))
                assert await other.decide(False) == "completed"
            print(f"request to approval card, {count} of each (goal {_GOALS['card']} s)")
            print(f"    in a thread that goes on: {told(going_on)}; in a new thread: {told(new)}")
            await talk.say(f"card-{uuid4().hex}", "approval")
            assert await talk.decide(True) == "completed"
            tag = (await talk.http.get(f"/api/runs/{talk.run_id}")).json()
            before = len(self.model.requests)
            mentions = [{"type": "document", "id": talk.document_id}]
            await talk.say("What is this about?", "complete", mentions=mentions)
            asked = len(self.model.requests) - before
            print(f"a turn with a mention and a working state asks the model {asked} time(s) [{tag['status']}]")
            if asked != 1:
                self.faults.append("a mention costs a message of the model")

    async def waiting(self, count: int) -> None:
        """4. Threads that wait for a person."""
        more = {"FIELDMARK_APPROVAL_WAIT_SECONDS": "0", "FIELDMARK_WARM_SPARES": "0"}
        async with self.served(**more) as (talk, pid):
            await talk.say(f"card-{uuid4().hex}", "approval")
            left = 200
            while (
                attached(self.owner_url, talk.run_id) or clis_of(pid)
            ) and left:  # the one that asked takes its leave
                await asyncio.sleep(0.1)
                left -= 1
            runs = await asyncio.to_thread(copies, self.owner_url, talk.run_id, count - 1)
            alive = clis_of(pid)
            print(f"{count} threads wait for a person: {alive} CLI(s) live")
            if alive:
                self.faults.append(f"{alive} CLIs live while all wait")
            for run_id in runs[:: max(1, len(runs) // SAMPLE)][:SAMPLE]:
                other = Talk(talk.http, talk.document_id, run_id=run_id, call_id=talk.call_id)
                if (status := await other.decide(False)) != "completed":
                    self.faults.append(f"a thread of the sample is {status}")
            print(f"    {min(SAMPLE, len(runs))} of them went on, {len(self.faults)} faults")


COPY = """
    create temp table copies on commit drop as
      select gen_random_uuid() as run, gen_random_uuid() as thread, gen_random_uuid() as session
      from generate_series(1, %(count)s);
    insert into public.threads
      select (jsonb_populate_record(t, jsonb_build_object('id', n.thread, 'session_id', n.session))).*
      from copies as n, public.threads as t join public.runs as r on r.thread_id = t.id where r.id = %(run)s;
    insert into public.runs
      select (jsonb_populate_record(r, jsonb_build_object(
        'id', n.run, 'root_run_id', n.run, 'thread_id', n.thread, 'session_id', n.session,
        'lock_key', replace(r.lock_key, r.thread_id::text, n.thread::text)))).*
      from copies as n, public.runs as r where r.id = %(run)s;
    insert into public.tool_calls select (jsonb_populate_record(c, jsonb_build_object('run_id', n.run))).*
      from copies as n, public.tool_calls as c where c.run_id = %(run)s;
    insert into public.run_events (run_id, number, org_id, body, created_by, created_at)
      select n.run, e.number, e.org_id, replace(e.body::text, r.id::text, n.run::text)::json, e.created_by, e.created_at
      from copies as n, public.run_events as e join public.runs as r on r.id = e.run_id where r.id = %(run)s;
    insert into public.agent_sessions (org_id, project, session_id, subpath, uuid, entry, created_by, created_at)
      select s.org_id, s.project, n.session::text, s.subpath, s.uuid,
        replace(s.entry::text, s.session_id, n.session::text)::json, s.created_by, s.created_at
      from copies as n, public.agent_sessions as s join public.runs as r on s.session_id = r.session_id::text
      where r.id = %(run)s order by n.run, s.number;
    select run::text from copies
"""


def copies(owner_url: str, run_id: str, count: int) -> list[str]:
    """Copies of a run that waits, each with a thread and a conversation of its own. Answers their ids."""
    with psycopg.connect(owner_url) as owner, psycopg.ClientCursor(owner) as cursor:
        cursor.execute(COPY, {"run": run_id, "count": count})
        while cursor.nextset():
            pass
        return [run for (run,) in cursor.fetchall()]


def attached(owner_url: str, run_id: str) -> bool:
    """Whether a run's CLI waits, too."""
    with psycopg.connect(owner_url) as owner:
        row = owner.execute("select attached from public.runs where id = %s", [run_id]).fetchone()
    assert row is not None
    return bool(row[0])


def clis_of(pid: int) -> int:
    """How many CLIs a service has."""
    found = 0
    for process in psutil.Process(pid).children(recursive=True):
        try:
            found += "fieldmark-agent-" in process.environ().get("HOME", "")
        except psutil.Error:
            continue
    return found


def told(seconds: list[float]) -> str:
    ordered = sorted(seconds)
    p95 = ordered[min(len(ordered) - 1, round(0.95 * len(ordered)))]
    return f"{statistics.median(ordered) * 1000:.0f} ms (p95 {p95 * 1000:.0f})"


async def measure(turns: int, cards: int, waiting: int) -> int:
    with tempfile.TemporaryDirectory(prefix="fieldmark-bench-") as home, bounded(DEADLINE_SECONDS, Path(home)):
        async with OfflineModel(answer) as model:
            with running(Path(home), 18) as embedded:
                bench = Bench(model, home, embedded.owner_url)
                print(f"load {os.getloadavg()[0]:.1f}")
                await bench.turns(turns)
                await bench.cards(cards)
                await bench.waiting(waiting)
        for fault in bench.faults:
            print(fault, file=sys.stderr)
        return 1 if bench.faults else 0


if __name__ == "__main__":
    heed_signals()
    if sys.argv[1:2] == ["bare"]:
        asyncio.run(bare(*sys.argv[2:]))
    else:
        parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--turns", type=int, default=20)
        parser.add_argument("--cards", type=int, default=10)
        parser.add_argument("--waiting", type=int, default=500)
        given = parser.parse_args()
        sys.exit(asyncio.run(measure(given.turns, given.cards, given.waiting)))
