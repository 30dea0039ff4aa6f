"""Whether many readers of live streams see every event, once and in order, and what a slow reader costs the others.

Events are written to some runs at a steady pace; readers follow them over HTTP, are cut at random and go on by
Last-Event-ID. The same again with readers beside them that take nothing from their sockets. All of it against one API
process; the connections that it holds are counted while the readers wait.

    pip install '.[bench]' && python bench/readers.py [--readers 200] [--seconds 30]

Ends with 1 if an event was missing, repeated or out of order.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import shutil
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import httpx
import psycopg
from psycopg import sql

import chaos
from approvals import add_waiting, until_it_answers
from fieldmark.db.embedded import running
from fieldmark.routes.tokens import LocalTokens

RUNS = 20
EVENTS_A_SECOND = 4  # in each run
PADDING = "x" * 2000
SLOW = 20


@dataclass
class Seen:
    """What all readers of a phase saw. `late`: seconds from the writing of each event."""

    events: int = 0
    cuts: int = 0
    missing: int = 0
    repeated: int = 0
    late: list[float] = field(default_factory=list)


def begin(owner_url: str, user_id: str) -> list[str]:
    ids = add_waiting(owner_url, user_id, RUNS)
    with psycopg.connect(owner_url) as owner:
        owner.execute("update public.runs set status = 'running', waiting_call = null where id = any(%s)", [ids])
    return ids


async def write(owner_url: str, ids: list[str], seconds: float) -> int:
    """Write events to all runs and end them. Answers how many each got."""
    count = int(seconds * EVENTS_A_SECOND)
    query = "select private.append_event(%s, %s::json)"
    async with await psycopg.AsyncConnection.connect(owner_url, autocommit=True) as owner:
        due = time.monotonic()
        for number in range(count):
            for run_id in ids:
                due += 1 / EVENTS_A_SECOND / RUNS
                await asyncio.sleep(max(0, due - time.monotonic()))
                body = {"text": PADDING, "at": time.time(), "number": number + 1}
                await owner.execute(query, [run_id, json.dumps(body)])
        for run_id in ids:
            async with owner.transaction():
                await owner.execute("update public.runs set status = 'completed' where id = %s", [run_id])
                await owner.execute(query, [run_id, json.dumps({"complete": True})])
    return count + 1


async def read(http: httpx.AsyncClient, run_id: str, seen: Seen, dice: random.Random) -> int:
    """Follow a run to its end, cut now and then. Answers the number of the last event."""
    last = 0
    while True:
        with contextlib.suppress(TimeoutError, httpx.HTTPError):
            headers = {"Last-Event-ID": str(last)}
            async with asyncio.timeout(dice.expovariate(1 / 8)):
                async with http.stream("GET", f"/api/runs/{run_id}/events", headers=headers) as answer:
                    body = ""
                    async for line in answer.aiter_lines():
                        if line.startswith("data: "):
                            body = line[6:]
                        elif line.startswith("id: "):
                            number = int(line[4:])
                        elif not line and body:
                            event, body = json.loads(body), ""
                            seen.events += 1
                            seen.missing += max(0, number - last - 1)
                            seen.repeated += number <= last
                            last = max(last, number)
                            if "complete" in event:
                                return last
                            # Live ones only: what is read again after a cut was written long before.
                            if (late := time.time() - event["at"]) < 5:
                                seen.late.append(late)
        seen.cuts += 1
        await asyncio.sleep(dice.uniform(0, 0.3))


async def take_nothing(url: str, token: str, run_id: str) -> None:
    """A reader that asks and then leaves everything in its socket."""
    host, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=1024)
    writer.write(
        f"GET /api/runs/{run_id}/events HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
    )
    try:
        await writer.drain()
        await reader.readline()
        await asyncio.Event().wait()
    finally:
        writer.transport.abort()


async def phase(options: argparse.Namespace, url: str, owner_url: str, user_id: str, token: str, slow: int) -> int:
    seen, dice = Seen(), random.Random(options.seed)
    ids = begin(owner_url, user_id)
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=30, limits=limits) as http:
        idle = [asyncio.create_task(take_nothing(url, token, ids[n % RUNS])) for n in range(slow)]
        reading = [asyncio.create_task(read(http, ids[n % RUNS], seen, dice)) for n in range(options.readers)]
        writing = asyncio.create_task(write(owner_url, ids, options.seconds))
        await asyncio.sleep(options.seconds / 2)
        with psycopg.connect(owner_url) as owner:
            held = owner.execute(
                sql.SQL("""select count(*), count(*) filter (where state <> 'idle') from pg_stat_activity
                           where application_name like 'fieldmark%' and backend_type = 'client backend'""")
            ).fetchone()
        count = await writing
        async with asyncio.timeout(60):
            lasts = await asyncio.gather(*reading)
        for one in idle:
            one.cancel()
        await asyncio.gather(*idle, return_exceptions=True)
    assert held is not None
    seen.missing += sum(count - last for last in lasts)
    late = sorted(seen.late)
    print(
        f"{options.readers} readers beside {slow} that take nothing: {seen.events} events, {seen.cuts} cuts; missing "
        f"{seen.missing}, repeated or out of order {seen.repeated}; late p50 {statistics.median(late) * 1000:.0f} ms, "
        f"p95 {late[int(len(late) * 0.95)] * 1000:.0f} ms; connections {held[0]}, {held[1]} of them busy"
    )
    return seen.missing + seen.repeated


async def measure(options: argparse.Namespace, folder: Path) -> int:
    home = folder / "home"
    home.mkdir()
    user_id = str(uuid4())
    with running(home, 18) as database:
        processes = chaos.Processes(folder, "http://127.0.0.1:1", workers=0)
        token = LocalTokens(home).sign(user_id)
        url = processes.urls[0]
        try:
            processes.keep_up()
            async with httpx.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {token}"}) as http:
                await until_it_answers(http)
            faults = 0
            for slow in (0, SLOW):
                faults += await phase(options, url, database.owner_url, user_id, token, slow)
            await processes.stop()
        finally:
            processes.end()
    return 1 if faults else 0


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--readers", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="fieldmark-readers-"))
    try:
        async with asyncio.timeout(600):
            return await measure(options, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
