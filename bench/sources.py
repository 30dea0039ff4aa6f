"""Measures the intake of a large bucket, of which half are no documents and some fail, while workers are killed.

Reported are objects that became a document not once, the counts of the source, the speed and the memory of the workers
in each tenth, listings and downloads, and what a look costs when nothing is new.

    pip install '.[bench]' && python bench/sources.py [--objects 100000] [--kills 10] [--minutes 60] [--unread]

With `--unread` the workers only look at the source, and documents count as read at once: reading, which takes longer,
has a benchmark of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import psycopg

from fieldmark.runtime import open_runtime
from fieldmark.services.sources.intake import Intake
from fieldmark.settings import Settings
from fieldmark.worker.jobs import SOURCE_SECONDS
from processes import Service, Workers, restore_signals, service, time_limit

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from object_server import KEY_ID, SECRET, ObjectServer, object_server

BAD = 5
"""Objects that are refused, and as many that fail."""
LOOPBACK = '["127.0.0.0/8"]'
READ = """with done as (delete from queue.procrastinate_jobs where task_name in ('read_document', 'index_document'))
  update public.documents set status = 'ready', media_type = 'text/plain', page_count = 1
  where status = 'reading'"""


def fill(bucket: ObjectServer, count: int) -> set[str]:
    """Put objects into a bucket, in the order of their names. Return the names of the documents."""
    for number in sorted(range(count), key=lambda one: f"{one * 2654435761 % 2**32:08x}"):
        name = f"{number * 2654435761 % 2**32:08x}.{'txt' if number % 2 else 'mov'}"
        bucket.objects[name] = b"Invoice number: R-%d\nTotal: %d.50 EUR\n" % (number, number)
    found = {name for name in bucket.objects if name.endswith(".txt")}
    bad = random.sample(sorted(found), 2 * BAD)
    bucket.refused = {name: 403 if number % 2 else 500 for number, name in enumerate(bad)}
    return found


def count_reading(owner: psycopg.Connection[Any]) -> int:
    return owner.execute("select count(*) from public.documents where status = 'reading'").fetchall()[0][0]


async def look() -> None:
    """Be a worker that only looks at sources."""
    settings = Settings()
    async with open_runtime(settings) as at:
        limit = at.reading_limits.max_bytes
        intake = Intake(at.database, at.documents, settings.private_networks, limit)
        while True:
            await intake.look_at_due()
            await asyncio.sleep(SOURCE_SECONDS)


async def measure(at: Service, stack: contextlib.ExitStack, bucket: ObjectServer, given: argparse.Namespace) -> None:
    owner = stack.enter_context(psycopg.connect(at.database.owner_url, autocommit=True))
    wanted = fill(bucket, given.objects)
    workers = Workers(
        stack,
        {
            "FIELDMARK_HOME": str(at.home),
            "DATABASE_URL": at.database.app_url,
            "ANTHROPIC_API_KEY": "",
            "FIELDMARK_WARM_SPARES": "0",
            "FIELDMARK_LOG_LEVEL": "error",
            "FIELDMARK_PRIVATE_NETWORKS": LOOPBACK,
        },
        *((__file__, "--look") if given.unread else ()),
    )
    async with at.client() as http:
        body = {"kind": "bucket", "address": f"{bucket.url}/inbox", "username": KEY_ID, "secret": SECRET}
        source_id = (await http.post("/api/sources", json=body)).raise_for_status().json()["id"]
        start, killed, until = time.monotonic(), 0, time.monotonic() + given.minutes * 60
        pauses = sorted(random.uniform(0.02, 0.98) for _ in range(given.kills))
        tenths: list[tuple[float, float, int]] = []

        async def status() -> dict[str, Any]:
            listed = (await http.get("/api/sources")).raise_for_status().json()["items"]
            return next(one for one in listed if one["id"] == source_id)

        codes: Counter[str | None] = Counter()
        while time.monotonic() < until:
            await asyncio.sleep(2)
            if given.unread:
                owner.execute(READ)
            source = await status()
            codes[source["error_code"]] += 1
            done = (source["taken"] + sum(source["skipped"].values())) / given.objects
            while done >= (len(tenths) + 1) / 10:
                tenths.append((time.monotonic() - start, workers.memory(), len(bucket.requests)))
                print(f"    {len(tenths)}0 % after {tenths[-1][0]:.0f} s: {tenths[-1][1]:.0f} MB", flush=True)
            while killed < given.kills and pauses[killed] <= done:
                workers.kill()
                killed += 1
            if source["checked_at"]:
                break
        took = time.monotonic() - start
        while count_reading(owner) and time.monotonic() < until and not given.unread:
            await asyncio.sleep(1)
        print(f"{given.objects:,} objects, {killed} workers killed; {took:.0f} s; all: {source['checked_at']}")
        rows = owner.execute("select metadata->>'object', count(*), min(status) from documents group by 1").fetchall()
        taken = {name: (number, state) for name, number, state in rows}
        print(f"    documents: {len(taken):,}; more than one of an object: {sum(n > 1 for n, _ in taken.values())}")
        print(f"    objects without a document, not bad: {len(wanted - taken.keys() - bucket.refused.keys()):,}")
        print(f"    documents of other objects: {len(taken.keys() - wanted)}")
        print(f"    documents by status: {dict(Counter(state for _, state in taken.values()))}")
        source = await status()
        shown = {name: source[name] for name in ("taken", "skipped", "retrying", "failed", "error_code")}
        print(f"    the source: {shown}; error codes, seen every two seconds: {dict(codes)}")
        requests = Counter(bool(name) for _, name, _ in bucket.requests)
        got = Counter(name for _, name, _ in bucket.requests if name)
        print(f"    requests: {requests[False]:,} listings, {requests[True]:,} downloads; most of one good object: "
              f"{max((n for name, n in got.items() if name not in bucket.refused), default=0)}")  # fmt: skip
        if not source["checked_at"]:
            return
        before, requests_before, start = source["checked_at"], len(bucket.requests), time.monotonic()
        (await http.post(f"/api/sources/{source_id}/check")).raise_for_status()
        while (await status())["checked_at"] == before and time.monotonic() < until + 300:
            await asyncio.sleep(0.2)
        print(f"    a look at all with nothing new: {time.monotonic() - start:.1f} s, "
              f"{len(bucket.requests) - requests_before} requests; memory {workers.memory():.0f} MB")  # fmt: skip


def main() -> None:
    restore_signals()
    if sys.argv[1:] == ["--look"]:
        asyncio.run(look())
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--objects", type=int, default=2000)
    parser.add_argument("--kills", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--unread", action="store_true", help="without reading the documents")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    random.seed(given.seed)
    with contextlib.ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fieldmark-bench-")))
        home.chmod(0o755)
        stack.enter_context(time_limit(given.minutes * 60 + 600, home))
        bucket = stack.enter_context(object_server())
        at = stack.enter_context(service(home, "", "--no-worker", FIELDMARK_PRIVATE_NETWORKS=LOOPBACK))
        asyncio.run(measure(at, stack, bucket, given))


if __name__ == "__main__":
    main()
