"""How soon a key that is revoked on one server is refused on another, and what idle servers hold of the database.

Two servers on one database, each with workers. A key is made, used on both and revoked on the first; meanwhile a client
asks the second without a pause. The time from the revocation's answer to the first refusal is taken. Afterwards nothing
is asked for a while, and the connections are counted.

    pip install '.[bench]' && python bench/keys.py [--times 50] [--idle 45]

Ends with 1 if a refusal takes a second or more, or a server holds more than 4 connections.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import psycopg

from fieldmark.db.embedded import running
from fieldmark.db.migrate import migrate
from fieldmark.identity.tokens import LocalTokens
from processes import bounded, child, free_port, heed_signals

DEADLINE_SECONDS = 600
SERVERS = 2
MOST_SECONDS = 1.0
MOST_CONNECTIONS = 4


@contextmanager
def served(home: Path, url: str) -> Iterator[str]:
    """The address of a server that is ready."""
    port = str(free_port())
    settings = {"FIELDMARK_HOME": str(home), "DATABASE_URL": url, "FIELDMARK_LOG_LEVEL": "error"}
    with child("-c", "from fieldmark.cli import main; main()", "serve", "--port", port, **settings):
        address = f"http://127.0.0.1:{port}"
        while True:
            try:
                httpx.get(f"{address}/readyz").raise_for_status()
                break
            except httpx.HTTPError:
                time.sleep(0.1)
        yield address


async def refused_after(person: httpx.AsyncClient, there: str) -> tuple[float, float]:
    """Seconds from the revocation's answer, and from its request, to the first refusal on the other server."""
    made: dict[str, Any] = (await person.post("/api/keys", json={"name": "k", "scopes": ["documents:read"]})).json()
    headers = {"Authorization": f"Bearer {made['key']}"}
    async with httpx.AsyncClient(base_url=there, headers=headers) as robot:
        (await robot.get("/api/documents")).raise_for_status()

        async def until_refused() -> float:
            while (await robot.get("/api/documents")).status_code != 401:
                pass
            return time.perf_counter()

        asking = asyncio.create_task(until_refused())
        await asyncio.sleep(0.02)
        began = time.perf_counter()
        (await person.delete(f"/api/keys/{made['id']}")).raise_for_status()
        answered = time.perf_counter()
        refused = await asking
    return max(0.0, refused - answered), refused - began


async def revocations(home: Path, here: str, there: str, times: int) -> float:
    """The longest that a revoked key went on, seen from the revocation's answer."""
    token = LocalTokens(home).sign(uuid4())
    async with httpx.AsyncClient(base_url=here, headers={"Authorization": f"Bearer {token}"}) as person:
        found = [await refused_after(person, there) for _ in range(times)]
    for name, taken in zip(("its answer", "its request"), zip(*found, strict=True), strict=True):
        p50, longest = statistics.median(taken) * 1000, max(taken) * 1000
        print(f"refused elsewhere after {name}: p50 {p50:.1f} ms, at most {longest:.1f} ms ({times} keys)")
    return max(after for after, _ in found)


def connections(owner_url: str) -> dict[str, int]:
    """How many connections the servers hold, by what for."""
    query = "select application_name, count(*) from pg_stat_activity where usename = 'fieldmark_app' group by 1"
    with psycopg.connect(owner_url) as owner:
        return dict(owner.execute(query).fetchall())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--idle", type=float, default=45, help="seconds in which nothing is asked")
    chosen = parser.parse_args()
    heed_signals()
    with tempfile.TemporaryDirectory(prefix="fieldmark-bench-") as folder, bounded(DEADLINE_SECONDS, Path(folder)):
        home = Path(folder)
        with ExitStack() as stack:
            postgres = stack.enter_context(running(home / "postgres", 18))
            asyncio.run(migrate(postgres.owner_url, app_password=postgres.app_password))
            here, there = (stack.enter_context(served(home, postgres.app_url)) for _ in range(SERVERS))
            longest = asyncio.run(revocations(home, here, there, chosen.times))
            time.sleep(chosen.idle)
            held = connections(postgres.owner_url)
            print(f"{SERVERS} idle servers hold {sum(held.values())} connections: {held}")
    return int(longest >= MOST_SECONDS or sum(held.values()) > SERVERS * MOST_CONNECTIONS)


if __name__ == "__main__":
    sys.exit(main())
