"""What approvals cost and whether each is decided once.

1. Races: two API processes are told opposite things about the same waiting call at the same moment: approve against
   approve, against reject, against cancel. Each call must be decided once, and its run be enqueued once at most.
2. Ten thousand runs wait: how much memory the API and a worker take before and after, and how many CLIs live.
3. From the request that approves to the first event that follows, with the real CLI and a model without delay.

    pip install '.[bench]' && python bench/approvals.py [--races 2000] [--waiting 10000] [--latencies 40]

Ends with 1 if a call was not decided exactly once.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import json
import random
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from uuid import uuid4

import httpx
import psutil
import psycopg
from psycopg.rows import dict_row

import chaos
from fieldmark.db.embedded import running
from fieldmark.routes.tokens import LocalTokens
from fieldmark.tools.toolkit import hash_of
from processes import child, said

ARGUMENTS = {"path": "total", "value": 1, "confidence": 0.9}
SSE = {"Accept": "text/event-stream"}
AT_ONCE = 16
RIVALS = ("approve", "reject", "cancel")


def add_waiting(owner_url: str, user_id: str, count: int) -> list[str]:
    """Runs that wait for this user to decide the call `call`, as if an agent had proposed it. Answers their ids."""
    with psycopg.connect(owner_url, row_factory=dict_row) as owner:
        org = owner.execute("select org_id from public.memberships where user_id = %s", [user_id]).fetchone()
        assert org is not None
        given = {"org": org["org_id"], "user": user_id, "document": str(uuid4()), "count": count}
        owner.execute(
            """insert into public.documents
                 (id, org_id, created_by, filename, storage_path, media_type, status, page_count, byte_size)
               values (%(document)s::uuid, %(org)s, %(user)s, 'a.txt',
                 concat(%(org)s::uuid, '/', %(document)s::uuid, '/a.txt'), 'text/plain', 'ready', 1, 1)""",
            given,
        )
        rows = owner.execute(
            """with e as (
                 insert into public.extractions (org_id, created_by, document_id)
                 select %(org)s::uuid, %(user)s::uuid, %(document)s::uuid from generate_series(1, %(count)s)
                 returning id)
               insert into public.runs (org_id, created_by, document_id, extraction_id, approval, status, attempt,
                 session_id, waiting_call, started_at)
               select %(org)s::uuid, %(user)s::uuid, %(document)s::uuid, e.id, 'ask', 'awaiting_approval', 1,
                 gen_random_uuid(), 'call', now()
               from e returning id""",
            given,
        ).fetchall()
        ids = [str(row["id"]) for row in rows]
        owner.execute(
            """insert into public.calls (run_id, id, org_id, created_by, tool, arguments, arguments_hash, status)
               select id, 'call', %s::uuid, %s::uuid, 'update_field', %s::jsonb, %s, 'pending'
               from unnest(%s::uuid[]) as id""",
            [org["org_id"], user_id, json.dumps(ARGUMENTS), hash_of(ARGUMENTS), ids],
        )
    return ids


async def say(http: httpx.AsyncClient, run_id: str, what: str) -> int:
    """The HTTP status of one decision; what follows is not waited for."""
    if what == "cancel":
        return (await http.post(f"/api/runs/{run_id}/cancel")).status_code
    body = {"run_id": run_id, "approvals": [{"call_id": "call", "approved": what == "approve"}]}
    async with http.stream("POST", "/api/agent/approve", json=body, headers=SSE) as answer:
        return answer.status_code


async def race(replicas: list[httpx.AsyncClient], owner_url: str, ids: list[str], dice: random.Random) -> list[str]:
    """What went wrong; prints what won."""
    wrong: list[str] = []
    wins: collections.Counter[str] = collections.Counter()
    places = asyncio.Semaphore(AT_ONCE)

    async def one(run_id: str) -> None:
        rival = dice.choice(RIVALS)
        first, second = dice.sample(replicas, 2)
        async with places:
            approved, answered = await asyncio.gather(say(first, run_id, "approve"), say(second, run_id, rival))
        with psycopg.connect(owner_url, row_factory=dict_row) as owner:
            found = owner.execute(
                """select r.status as run, c.status as call, (
                     select count(*) from queue.procrastinate_jobs where args ->> 'run_id' = r.id::text) as jobs
                   from public.runs as r join public.calls as c on c.run_id = r.id where r.id = %s""",
                [run_id],
            ).fetchone()
        assert found is not None
        decided = (approved == 200) + (rival != "cancel" and answered == 200)
        expected = {
            "approve": ("queued", "admitted", 1),
            "reject": ("queued", "admitted" if approved == 200 else "refused", 1),
            "cancel": ("cancelled", "admitted" if approved == 200 else "refused", approved == 200),
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


async def latency(http: httpx.AsyncClient, count: int) -> list[float]:
    """Seconds from the request that approves to the first event behind it."""
    document = (await http.post("/api/documents", files={"file": ("a.txt", b"Total: 1")})).json()["id"]
    while (await http.get(f"/api/documents/{document}")).json()["status"] == "reading":
        await asyncio.sleep(0.1)
    seconds: list[float] = []
    for number in range(count):
        body = {
            "document_id": document,
            "instructions": f"label=l{number} items=1",
            "approval": "ask",
            "auto_approved_tools": ["complete_extraction"],
        }
        run = (await http.post("/api/agent/extract", json=body)).json()
        row = (await http.get(f"/api/runs/{run['run_id']}")).json()
        request = {"run_id": run["run_id"], "approvals": [{"call_id": row["waiting_call"], "approved": True}]}
        begin = time.perf_counter()
        first: float | None = None
        async with http.stream("POST", "/api/agent/approve", json=request, headers=SSE) as answer:
            async for line in answer.aiter_lines():
                if line.startswith("data: ") and first is None:
                    first = time.perf_counter() - begin
        assert first is not None
        seconds.append(first)
    return seconds


async def measure(options: argparse.Namespace, folder: Path) -> int:
    home = folder / "home"
    home.mkdir()
    user_id = str(uuid4())
    with child(chaos.__file__, "--model") as answering, running(home, 18) as database:
        processes = chaos.Processes(folder, said(answering), workers=0, replicas=2)
        headers = {"Authorization": f"Bearer {LocalTokens(home).sign(user_id)}"}
        replicas = [httpx.AsyncClient(base_url=url, headers=headers, timeout=60) for url in processes.urls]
        try:
            processes.keep_up()
            for replica in replicas:
                await until_it_answers(replica)
            ids = add_waiting(database.owner_url, user_id, options.races)
            wrong = await race(replicas, database.owner_url, ids, random.Random(options.seed))
            with psycopg.connect(database.owner_url, options="-c search_path=queue") as owner:
                owner.execute("delete from public.runs")
                owner.execute("delete from procrastinate_jobs")
            await processes.stop()

            (folder / "tmp").rmdir()
            processes = chaos.Processes(folder, processes.model_url, workers=1)
            replicas[0].base_url = processes.urls[0]
            processes.keep_up()
            await until_it_answers(replicas[0])
            before = await memory(replicas[0], processes)
            add_waiting(database.owner_url, user_id, options.waiting)
            after = await memory(replicas[0], processes)
            print(
                f"waiting     {options.waiting}: API {before[0]:.0f} -> {after[0]:.0f} MB, worker {before[1]:.0f} -> "
                f"{after[1]:.0f} MB, CLIs {len(processes.clis())}"
            )
            seconds = await latency(replicas[0], options.latencies)
            ordered = sorted(seconds)
            print(
                f"latency     approve -> first event: p50 {statistics.median(seconds) * 1000:.0f} ms, p95 "
                f"{ordered[int(len(ordered) * 0.95)] * 1000:.0f} ms of {len(seconds)}"
            )
            await processes.stop()
        finally:
            for replica in replicas:
                await replica.aclose()
            processes.end()
    for fault in wrong[:10]:
        print(fault, file=sys.stderr)
    return 1 if wrong else 0


async def until_it_answers(http: httpx.AsyncClient) -> None:
    """Wait until the service has started. The first answer makes the user's organisation too."""
    for _ in range(600):
        try:
            await http.get("/api/runs")
            return
        except httpx.HTTPError:
            await asyncio.sleep(0.1)
    raise SystemExit("The service did not start within a minute.")


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--races", type=int, default=2000)
    parser.add_argument("--waiting", type=int, default=10_000)
    parser.add_argument("--latencies", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="fieldmark-approvals-"))
    folder.chmod(0o755)  # the CLI's own user must be able to reach its folder
    try:
        async with asyncio.timeout(1800):
            return await measure(options, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
