"""Whether many readers of live streams see every event, once and in order, and what a slow reader costs the others.

Events are written to some runs at a steady pace; readers follow them over HTTP, are cut at random and go on by
Last-Event-ID. The same again with readers beside them that take nothing from their sockets. All of it against one API
process, whose connections to the database are counted meanwhile.

    pip install '.[bench]' && python bench/readers.py [--readers 200] [--seconds 30]

Ends with 1 if an event was missing, repeated or out of order, or there is a connection for each reader.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import psycopg

from fieldmark.db.embedded import running
from fieldmark.identity.tokens import LocalTokens
from processes import bounded, heed_signals

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from chaos import Processes

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
    """Runs of this user that are at work, as far as their readers can tell. Answers their ids."""
    with psycopg.connect(owner_url) as owner:
        found = owner.execute(
            """with of as (select org_id, user_id from public.memberships where user_id = %(user)s),
                 d as (
                   insert into public.documents
                     (id, org_id, created_by, filename, storage_path, media_type, status, page_count, byte_size)
                   select %(id)s::uuid, org_id, user_id, 'a.txt', concat(org_id, '/', %(id)s::uuid, '/a.txt'),
                     'text/plain', 'ready', 1, 1 from of
                   returning id, org_id, created_by)
               insert into public.extractions (org_id, created_by, document_id)
               select org_id, created_by, id from d, generate_series(1, %(count)s)
               returning id""",
            {"user": user_id, "id": str(uuid4()), "count": RUNS},
        ).fetchall()
        runs = owner.execute(
            """insert into public.runs (org_id, created_by, agent, task, document_id, extraction_id, status,
                 fencing_token, started_at)
               select org_id, created_by, 'extraction', 'extract', document_id, id, 'running', 1, now()
               from public.extractions where id = any(%s)
               returning id::text""",
            [[id for (id,) in found]],
        ).fetchall()
    return [id for (id,) in runs]


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
                body = {"type": "text", "text": PADDING, "at": time.time(), "number": number + 1}
                await owner.execute(query, [run_id, json.dumps(body)])
        for run_id in ids:
            async with owner.transaction():
                await owner.execute("update public.runs set status = 'completed' where id = %s", [run_id])
                await owner.execute(query, [run_id, json.dumps({"type": "complete", "complete": True})])
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
                            if event["type"] == "complete":
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
        held = await connections(owner_url, until=writing)
        count = await writing
        async with asyncio.timeout(60):
            lasts = await asyncio.gather(*reading)
        for one in idle:
            one.cancel()
        await asyncio.gather(*idle, return_exceptions=True)
    seen.missing += sum(count - last for last in lasts)
    late = sorted(seen.late)
    print(
        f"{options.readers} readers beside {slow} that take nothing: {seen.events} events, {seen.cuts} cuts; missing "
        f"{seen.missing}, repeated or out of order {seen.repeated}; late p50 {statistics.median(late) * 1000:.0f} ms, "
        f"p95 {late[int(len(late) * 0.95)] * 1000:.0f} ms; at most {held} connections to the database at once"
    )
    return seen.missing + seen.repeated + (held >= options.readers)


async def connections(owner_url: str, until: asyncio.Task[Any]) -> int:
    """How many connections the service has to the database at the most, looked at twice a second."""
    most = 0
    with psycopg.connect(owner_url, autocommit=True) as owner:
        while not until.done():
            found = owner.execute(
                """select count(*) from pg_stat_activity
                   where application_name like 'fieldmark%%' and backend_type = 'client backend'""",
                (),
            ).fetchone()
            assert found is not None
            most = max(most, found[0])
            await asyncio.sleep(0.5)
    return most


async def measure(options: argparse.Namespace, folder: Path) -> int:
    home = folder / "home"
    home.mkdir()
    user_id = str(uuid4())
    with running(home, 18) as database:
        processes = Processes(folder, "http://127.0.0.1:1", workers=0)
        token = LocalTokens(home).sign(user_id)
        url = processes.url
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
    parser.add_argument("--readers", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="fieldmark-readers-", ignore_cleanup_errors=True) as folder,
        bounded(4 * options.seconds + 240, Path(folder)),
    ):
        return await measure(options, Path(folder))


if __name__ == "__main__":
    heed_signals()
    sys.exit(asyncio.run(main()))
