"""What approvals cost and whether each is decided once.

1. Races: two API processes are told two things about the same waiting call at the same moment: approve against approve,
   against reject, against cancel. The rows must tell of one decision, and of one job at most.
2. Ten thousand runs wait: how much memory the API and a worker take before and after, and how many CLIs live.
3. From the request that approves until the write is told, and until the agent's next event, with the real CLI and a
   model without delay: where the CLI has stayed, and where it has to be resumed.
4. Some of the ten thousand are approved, and must run to their ends.

One run comes to wait by itself; those that wait beside it are copies of its rows.

    pip install '.[bench]' && python bench/approvals.py [--races 2000] [--waiting 10000] [--latencies 40] [--sample 20]

Ends with 1 if a call was not decided exactly once, a run of the sample did not end well, there are more CLIs while all
wait, or the API takes 50 MB more.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import httpx
import psutil
import psycopg
from psycopg.rows import dict_row

import chaos
from fieldmark.db.embedded import running
from fieldmark.identity.tokens import LocalTokens
from processes import bounded, child, heed_signals, said

DEADLINE_SECONDS = 1200
MORE_MB = 50
SSE = {"Accept": "text/event-stream"}
AT_ONCE = 16
RIVALS = ("approve", "reject", "cancel")


COPY = """
    create temp table copies on commit drop as
      select gen_random_uuid() as run, gen_random_uuid() as extraction, gen_random_uuid() as session
      from generate_series(1, %(count)s);
    insert into public.extractions select (jsonb_populate_record(e, jsonb_build_object('id', n.extraction))).*
      from copies as n, public.extractions as e join public.runs as r on r.extraction_id = e.id where r.id = %(run)s;
    insert into public.runs
      select (jsonb_populate_record(
        r, jsonb_build_object('id', n.run, 'extraction_id', n.extraction, 'session_id', n.session))).*
      from copies as n, public.runs as r where r.id = %(run)s;
    insert into public.tool_calls select (jsonb_populate_record(c, jsonb_build_object('run_id', n.run))).*
      from copies as n, public.tool_calls as c where c.run_id = %(run)s;
    insert into public.run_events (run_id, number, org_id, body, created_by, created_at)
      select n.run, e.number, e.org_id,
        replace(replace(e.body::text, r.id::text, n.run::text), r.extraction_id::text, n.extraction::text)::json,
        e.created_by, e.created_at
      from copies as n, public.run_events as e join public.runs as r on r.id = e.run_id where r.id = %(run)s;
    insert into public.agent_sessions (org_id, project, session_id, subpath, uuid, entry, created_by, created_at)
      select s.org_id, s.project, n.session::text, s.subpath, s.uuid,
        replace(s.entry::text, s.session_id, n.session::text)::json, s.created_by, s.created_at
      from copies as n, public.agent_sessions as s join public.runs as r on s.session_id = r.session_id::text
      where r.id = %(run)s order by n.run, s.number;
    select run::text from copies
"""


def copies(owner_url: str, run_id: str, count: int) -> list[str]:
    """Copies of a run that waits, each with an extraction and a conversation of its own. Answers their ids."""
    with psycopg.connect(owner_url) as owner, psycopg.ClientCursor(owner) as cursor:
        cursor.execute(COPY, {"run": run_id, "count": count})
        while cursor.nextset():
            pass
        return [run for (run,) in cursor.fetchall()]


async def say(http: httpx.AsyncClient, run_id: str, call_id: str, what: str) -> int:
    """The HTTP status of one decision; what follows is not waited for."""
    if what == "cancel":
        return (await http.post(f"/api/runs/{run_id}/cancel")).status_code
    body = {"run_id": run_id, "approvals": [{"call_id": call_id, "approved": what == "approve"}]}
    async with http.stream("POST", "/api/agent/approve", json=body, headers=SSE) as answer:
        return answer.status_code


async def race(
    replicas: list[httpx.AsyncClient], owner_url: str, ids: list[str], call_id: str, dice: random.Random
) -> list[str]:
    """What went wrong; prints what won."""
    wrong: list[str] = []
    wins: collections.Counter[str] = collections.Counter()
    places = asyncio.Semaphore(AT_ONCE)

    async def one(run_id: str) -> None:
        rival = dice.choice(RIVALS)
        first, second = dice.sample(replicas, 2)
        async with places:
            approved, answered = await asyncio.gather(
                say(first, run_id, call_id, "approve"), say(second, run_id, call_id, rival)
            )
        with psycopg.connect(owner_url, row_factory=dict_row) as owner:
            found = owner.execute(
                """select r.status as run, c.status as call, (
                     select count(*) from queue.procrastinate_jobs where args ->> 'run_id' = r.id::text) as jobs
                   from public.runs as r join public.tool_calls as c on c.run_id = r.id
                   where r.id = %s and c.id = %s""",
                [run_id, call_id],
            ).fetchone()
        assert found is not None
        decided = (approved == 200) + (rival != "cancel" and answered == 200)
        expected = {
            "approve": ("queued", "done", 1),
            "reject": ("queued", "done" if approved == 200 else "refused", 1),
            "cancel": ("cancelled", "done" if approved == 200 else "refused", approved == 200),
        }[rival]
        if (found["run"], found["call"], found["jobs"]) != expected or decided != (1 if rival != "cancel" else decided):
            wrong.append(f"approve {approved} against {rival} {answered}: {found}")
        if {approved, answered} - {200, 202, 409}:
            wrong.append(f"approve {approved} against {rival} {answered}")
        wins[f"approve against {rival}: {'the first' if approved == 200 else 'the other'}"] += 1

    begin = time.monotonic()
    await asyncio.gather(*(one(run_id) for run_id in ids))
    print(f"races       {len(ids)} in {time.monotonic() - begin:.0f} s, {len(wrong)} not decided exactly once")
    for what, count in sorted(wins.items()):
        print(f"              {count} {what}")
    return wrong


async def memory(http: httpx.AsyncClient, processes: chaos.Processes) -> tuple[float, float]:
    """MB of the API and of the worker, after the inbox was read to its end."""
    before = None
    while True:
        query = {"status": "awaiting_approval", "limit": 200} | ({"before": before} if before else {})
        before = (await http.get("/api/runs", params=query)).json()["next"]
        if before is None:
            break
    await asyncio.sleep(8)
    api, worker = (psutil.Process(processes.pids(kind)[0]).memory_info().rss / 1e6 for kind in ("api", "worker"))
    return api, worker


async def come_to_wait(http: httpx.AsyncClient, label: str) -> tuple[str, str]:
    """A run of one item that waits now: its id, and the call that it waits for."""
    document = (await http.post("/api/documents", files={"file": ("a.txt", b"Total: 1")})).json()["id"]
    body = {
        "document_id": document,
        "instructions": f"label={label} items=1",
        "approval": "ask",
        "auto_approved_tools": ["complete_extraction"],
    }
    answer = (await http.post("/api/agent/extract", json=body)).json()
    run = (await http.get(f"/api/runs/{answer['run_id']}")).json()
    assert run["status"] == "awaiting_approval", run
    return run["id"], run["waiting_call"]


async def latency(http: httpx.AsyncClient, count: int) -> list[tuple[float, float]]:
    """Seconds from the request that approves until the person is told that the write is there, and until the agent is
    heard again."""
    seconds: list[tuple[float, float]] = []
    for number in range(count):
        run_id, call_id = await come_to_wait(http, f"l{number}")
        request = {"run_id": run_id, "approvals": [{"call_id": call_id, "approved": True}]}
        begin = time.perf_counter()
        told: float | None = None
        heard: float | None = None
        async with http.stream("POST", "/api/agent/approve", json=request, headers=SSE) as answer:
            async for line in answer.aiter_lines():
                if not line.startswith("data: "):
                    continue
                event = json.loads(line[6:])
                if told is None:
                    told = time.perf_counter() - begin
                if heard is None and event["type"] in ("text", "tool") and event.get("call_id") != call_id:
                    heard = time.perf_counter() - begin
        assert told is not None and heard is not None
        seconds.append((told, heard))
    return seconds


def show_latency(what: str, seconds: list[tuple[float, float]]) -> None:
    for moment, found in (
        ("the write told", [one for one, _ in seconds]),
        ("the agent's next event", [one for _, one in seconds]),
    ):
        found = sorted(found)
        print(
            f"latency     approve -> {moment}, {what}: p50 {statistics.median(found) * 1000:.0f} ms, "
            f"p95 {found[int(len(found) * 0.95)] * 1000:.0f} ms of {len(found)}"
        )


async def approve_sample(http: httpx.AsyncClient, ids: list[str], call_id: str) -> list[str]:
    """Approve these runs, and answer what did not end as it should."""

    async def one(run_id: str) -> str | None:
        request = {"run_id": run_id, "approvals": [{"call_id": call_id, "approved": True}]}
        answer = (await http.post("/api/agent/approve", json=request)).json()
        ended = answer.get("status") == "completed" and len(answer["extraction"]["extracted_fields"]["items"]) == 1
        return None if ended else f"approved, and then: {answer}"

    return [wrong for wrong in await asyncio.gather(*map(one, ids)) if wrong]


async def measure(options: argparse.Namespace, folder: Path) -> int:
    home = folder / "home"
    home.mkdir()
    user_id = str(uuid4())
    wrong: list[str] = []
    headers = {"Authorization": f"Bearer {LocalTokens(home).sign(user_id)}"}
    with child(chaos.__file__, "--model") as answering, running(home, 18) as database:
        owner_url, model_url = database.owner_url, said(answering)

        @contextlib.asynccontextmanager
        async def service(
            name: str, wait: float = 10, **counts: int
        ) -> AsyncIterator[tuple[chaos.Processes, list[httpx.AsyncClient]]]:
            own = folder / name
            own.mkdir()
            (own / "home").symlink_to(home)
            processes = chaos.Processes(own, model_url, **counts)
            processes._environment["FIELDMARK_APPROVAL_WAIT_SECONDS"] = str(wait)
            async with contextlib.AsyncExitStack() as stack:
                stack.callback(processes.end)
                clients = [httpx.AsyncClient(base_url=url, headers=headers, timeout=120) for url in processes.urls]
                for client in clients:
                    await stack.enter_async_context(client)
                processes.keep_up()
                for client in clients:
                    await until_it_answers(client)
                yield processes, clients
                await processes.stop()

        async with service("first", workers=1) as (_, [http]):
            first, call_id = await come_to_wait(http, "first")
        async with service("races", workers=0, replicas=2) as (_, replicas):
            ids = copies(owner_url, first, options.races)
            wrong += await race(replicas, owner_url, ids, call_id, random.Random(options.seed))
            with psycopg.connect(owner_url, options="-c search_path=queue") as owner:
                owner.execute("delete from public.runs where id <> %s", [first])
                owner.execute("delete from procrastinate_jobs")
        async with service("waiting", workers=1) as (processes, [http]):
            before, clis_before = await memory(http, processes), len(processes.clis())
            ids = copies(owner_url, first, options.waiting)
            after, clis = await memory(http, processes), len(processes.clis())
            print(
                f"waiting     {options.waiting}: API {before[0]:.0f} -> {after[0]:.0f} MB, worker {before[1]:.0f} -> "
                f"{after[1]:.0f} MB, CLIs {clis_before} -> {clis} (kept for the next run)"
            )
            if clis > clis_before or after[0] - before[0] > MORE_MB:
                wrong.append("what waits costs too much")
            show_latency("its CLI there", await latency(http, options.latencies))
            sample = random.Random(options.seed).sample(ids, min(options.sample, len(ids)))
            failed = await approve_sample(http, sample, call_id)
            print(
                f"sample      {len(sample)} of those that waited approved, {len(sample) - len(failed)} ran to their end"
            )
            wrong += failed
        async with service("deferred", wait=0, workers=1) as (_, [http]):
            show_latency("its CLI gone", await latency(http, options.latencies))
    for fault in wrong[:10]:
        print(fault, file=sys.stderr)
    return 1 if wrong else 0


async def until_it_answers(http: httpx.AsyncClient) -> None:
    """Wait until the service has started. The first answer makes the user's organisation too."""
    while True:
        try:
            await http.get("/api/runs")
            return
        except httpx.HTTPError:
            await asyncio.sleep(0.1)


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--races", type=int, default=2000)
    parser.add_argument("--waiting", type=int, default=10_000)
    parser.add_argument("--latencies", type=int, default=40)
    parser.add_argument("--sample", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="fieldmark-approvals-", ignore_cleanup_errors=True) as folder,
        bounded(DEADLINE_SECONDS, Path(folder)),
    ):
        Path(folder).chmod(0o755)  # the CLI's own user must be able to reach its folder
        return await measure(options, Path(folder))


if __name__ == "__main__":
    heed_signals()
    sys.exit(asyncio.run(main()))
