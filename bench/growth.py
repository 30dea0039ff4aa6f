"""Whether anything gets slower with a million rows: every route and every function of the stores, beside a thousand.

Two databases of one Postgres are filled, a small one (a thousand documents) and a large one (a million by `--scale`).
Of 1,000 organisations one has 30 %. Each document has a page, an extraction, a run, ten events, ten rows of journal,
three calls, two messages of a conversation and two of usage. Then each operation is done in both by turns, for the
organisation with the 30 %, so that whatever else the machine does falls on both alike.

    pip install '.[bench]' && python bench/growth.py [--scale 1] [--times 60] [--seconds 3600] [--folder DIR]

A whole million takes 12 GB of disk, and 3 minutes to load on two cores that do nothing else. Ends with 1 where the
large database takes more than 1.8 times as long (and 0.2 ms more) by the median, and where a route or a function was
left out.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import structlog

from fieldmark.agents.registry import agent_rows
from fieldmark.db.embedded import EmbeddedServer, embedded_postgres
from fieldmark.db.migrate import migrate
from growth_operations import ALL, LARGER, LARGER_FUNCTIONS, NOT_MEASURED, Side, StoreTimes, opened
from growth_rows import load
from processes import bounded, restore_signals

WORST = 1.8
NOTICEABLE_MS = 0.2
WARM = 6


async def compare(small: Side, large: Side, times: int, stores: StoreTimes) -> list[str]:
    """Print both medians of each operation and each function of the stores. Answers what is slower or left out."""
    taken: dict[str, dict[int, list[float]]] = {}
    for steps, part in ALL.items():
        warm = max(round(WARM * part), 1)
        for turn in range(warm + max(round(times * part), 1)):
            stores.counts = turn >= warm  # by then plans are generic, where Postgres makes them so
            for side in (small, large) if turn % 2 else (large, small):
                began = time.perf_counter()
                async for name in steps(side, turn):
                    if name and stores.counts:
                        both = taken.setdefault(name, {small.count: [], large.count: []})
                        both[side.count].append((time.perf_counter() - began) * 1000)
                    began = time.perf_counter()
    stores.counts = False
    slower = table("operation", small, large, {name: tuple(both.values()) for name, both in taken.items()})
    by_database = [urlsplit(side.owner_url).path[1:] for side in (small, large)]
    slower += table(
        "function of the stores",
        small,
        large,
        {name: tuple(stores.taken[name][which] for which in by_database) for name in sorted(stores.taken)},
    )
    left_out = sorted(stores.functions - stores.taken.keys())
    routes = [f"{method.upper()} {path}" for path, methods in large.routes.items() for method in methods]
    left_out += [
        route for route in routes if not any(re.match(re.escape(route) + r"(?![^ ,])", name) for name in taken)
    ]
    left_out = [name for name in left_out if name not in NOT_MEASURED]
    if left_out:
        print("\nnot measured: " + ", ".join(left_out))
    return slower + left_out


def table(of: str, small: Side, large: Side, taken: dict[str, tuple[list[float], ...]]) -> list[str]:
    slower: list[str] = []
    print(f"\n| {of} | {small.count:,} | {large.count:,} | |\n|---|---|---|---|", flush=True)
    for name, both in taken.items():
        if not all(both):
            slower.append(f"{name} (one of the databases has no row for it)")
            continue
        one, other = (statistics.median(times) for times in both)
        is_slower = (
            not (name.endswith(LARGER) or name in LARGER_FUNCTIONS)
            and other > one * WORST
            and other - one > NOTICEABLE_MS
        )
        slower += [name] * is_slower
        print(f"| {name} | {one:.2f} | {other:.2f} | {other / one:.2f} ×{' !' * is_slower} |", flush=True)
    return slower


async def wal_of_runs(side: Side, count: int) -> float:
    """KB of log that a run leaves, from the upload of its document to its end, with the offline model."""
    with psycopg.connect(side.owner_url, autocommit=True) as owner:
        # The log is the whole server's: nobody else writes it meanwhile.
        owner.execute("alter system set autovacuum = off")
        owner.execute("select pg_reload_conf()")
        owner.execute("checkpoint")
        while owner.execute("select from pg_stat_activity where backend_type = 'autovacuum worker'").rowcount:
            await asyncio.sleep(1)

        def position() -> int:
            row = owner.execute("select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')").fetchone()
            assert row is not None
            return int(row[0])

        async def one(n: int) -> None:
            text = f"Invoice {n}\nVendor: Acme GmbH\nDate: 2026-11-01\nTotal: {n}.00 EUR\n".encode()
            stored = await side.http.post("/api/documents", files={"file": (f"{n}.txt", text, "text/plain")})
            assert stored.is_success, stored.text
            answer = await side.http.post("/api/agent/extract", json={"document_id": stored.json()["id"]})
            assert answer.is_success and answer.json()["status"] == "completed", answer.text[:500]

        # The first after a checkpoint write whole pages, where later ones write what has changed.
        for n in range(count // 2):
            await one(n)
        before = position()
        for n in range(count):
            await one(n)
        kilobytes = (position() - before) / count / 1024
        owner.execute("alter system reset autovacuum")
        owner.execute("select pg_reload_conf()")
        return kilobytes


async def measure(server: EmbeddedServer, sides: dict[str, int], home: Path, times: int) -> list[str]:
    stores = StoreTimes()
    urls = {
        name: [urlsplit(url)._replace(path=f"/{name}").geturl() for url in (server.owner_url, server.app_url)]
        for name in sides
    }
    async with AsyncExitStack() as stack:
        opened_sides: list[Side] = []
        for name, count in sides.items():
            own = home / name
            own.mkdir(exist_ok=True)
            opened_sides.append(await stack.enter_async_context(opened(*urls[name], count, own)))
        small, large = opened_sides
        slower = await compare(small, large, times, stores)
        for side in opened_sides:
            print(f"log of a run among {side.count:,}: {await wal_of_runs(side, 10):,.0f} KB", flush=True)
    return slower


def filled(server: EmbeddedServer, scale: float) -> dict[str, int]:
    """Both databases, migrated and filled, unless they were before. Answers how many documents each has."""
    sides = {"small": 1000, f"large_{round(scale * 1_000_000)}": round(scale * 1_000_000)}
    with psycopg.connect(server.owner_url, autocommit=True) as administration:
        there = {name for (name,) in administration.execute("select datname from pg_database")}
        with altered(administration, fsync="off", full_page_writes="off", autovacuum="off"):
            for name, count in sides.items():
                if name not in there:
                    began = time.monotonic()
                    fill(server, administration, name, count)
                    row = administration.execute("select pg_database_size(%s) / 1e9", [name]).fetchone()
                    assert row is not None
                    taken = time.monotonic() - began
                    print(f"{count:,} documents: {row[0]:.2f} GB in {taken:.0f} s", flush=True)
        administration.execute("checkpoint")
        os.sync()
    return sides


def fill(server: EmbeddedServer, administration: psycopg.Connection, name: str, count: int) -> None:
    unfinished = f"{name}_unfinished"
    administration.execute(f"drop database if exists {unfinished}".encode())
    administration.execute(f"create database {unfinished}".encode())
    url = urlsplit(server.owner_url)._replace(path=f"/{unfinished}").geturl()
    asyncio.run(migrate(url, app_password=server.app_password, agents=agent_rows()))
    load(url, count, min(1000, max(count // 100, 1)))
    administration.execute(f"alter database {unfinished} rename to {name}".encode())


@contextmanager
def altered(administration: psycopg.Connection, **settings: str) -> Generator[None]:
    """Settings of the whole server, for as long as the block takes."""
    for setting, value in settings.items():
        administration.execute(f"alter system set {setting} = '{value}'".encode())
    administration.execute("select pg_reload_conf()")
    try:
        yield
    finally:
        for setting in settings:
            administration.execute(f"alter system reset {setting}".encode())
        administration.execute("select pg_reload_conf()")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=0.1, help="1: a million documents")
    parser.add_argument("--times", type=int, default=60, help="how often each operation is measured")
    parser.add_argument("--seconds", type=float, default=3600, help="at most, loading included")
    parser.add_argument("--folder", type=Path, help="where the filled databases stay for the next time")
    given = parser.parse_args()
    restore_signals()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    with ExitStack() as stack:
        if given.folder is None:
            temporary = tempfile.TemporaryDirectory(prefix="fieldmark-growth-", ignore_cleanup_errors=True)
            home = Path(stack.enter_context(temporary))
        else:
            home = given.folder.resolve()
            home.mkdir(exist_ok=True)
        home.chmod(0o755)
        stack.enter_context(bounded(given.seconds, home))
        server = stack.enter_context(embedded_postgres(home, 18))
        slower = asyncio.run(measure(server, filled(server, given.scale), home, given.times))
    print("\nslower: " + ", ".join(slower) if slower else "\nnothing is slower")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
