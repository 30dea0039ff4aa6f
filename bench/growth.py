"""Compares every route and store function in a database of a million documents with one of a thousand.

Two databases of one Postgres are filled: a small one with a thousand documents, and a large one with a million times
`--scale`. One of 1,000 organisations has 30 % of the documents. Each document has a page, an extraction, a run, ten
events, ten journal entries, three calls, two session entries and two usage rows. Each operation runs alternately in
both databases, for the organisation with 30 %, so that other load affects both alike.

    pip install '.[bench]' && python bench/growth.py [--scale 1] [--times 60] [--seconds 3600] [--folder DIR]

A million documents take 12 GB of disk and 3 minutes to load on two idle cores. Exits with 1 if the median in the large
database is more than 1.8 times as high (and 0.2 ms higher), or if a route or function was not measured.
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
from growth_operations import ALL, LARGER, LARGER_FUNCTIONS, NOT_MEASURED, Side, StoreTimes, open_side
from growth_rows import load
from processes import restore_signals, time_limit

MAX_RATIO = 1.8
NOTICEABLE_MS = 0.2
WARM_UP_ROUNDS = 6


async def compare(small: Side, large: Side, times: int, stores: StoreTimes) -> list[str]:
    """Print both medians of each operation and each store function. Return those that are slower or not measured."""
    taken: dict[str, dict[int, list[float]]] = {}
    for steps, part in ALL.items():
        warm = max(round(WARM_UP_ROUNDS * part), 1)
        for round_number in range(warm + max(round(times * part), 1)):
            stores.counts = round_number >= warm  # from now on Postgres may use generic plans
            for side in (small, large) if round_number % 2 else (large, small):
                began = time.perf_counter()
                async for name in steps(side, round_number):
                    if name and stores.counts:
                        both = taken.setdefault(name, {small.count: [], large.count: []})
                        both[side.count].append((time.perf_counter() - began) * 1000)
                    began = time.perf_counter()
    stores.counts = False
    slower = print_table("operation", small, large, {name: tuple(both.values()) for name, both in taken.items()})
    by_database = [urlsplit(side.owner_url).path[1:] for side in (small, large)]
    slower += print_table(
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


def print_table(title: str, small: Side, large: Side, taken: dict[str, tuple[list[float], ...]]) -> list[str]:
    slower: list[str] = []
    print(f"\n| {title} | {small.count:,} | {large.count:,} | |\n|---|---|---|---|", flush=True)
    for name, both in taken.items():
        if not all(both):
            slower.append(f"{name} (not measured in one of the databases)")
            continue
        small_median, large_median = (statistics.median(times) for times in both)
        is_slower = (
            not (name.endswith(LARGER) or name in LARGER_FUNCTIONS)
            and large_median > small_median * MAX_RATIO
            and large_median - small_median > NOTICEABLE_MS
        )
        slower += [name] * is_slower
        print(
            f"| {name} | {small_median:.2f} | {large_median:.2f} "
            f"| {large_median / small_median:.2f} ×{' !' * is_slower} |",
            flush=True,
        )
    return slower


async def measure(server: EmbeddedServer, sides: dict[str, int], home: Path, times: int) -> list[str]:
    stores = StoreTimes()
    urls = {
        name: [urlsplit(url)._replace(path=f"/{name}").geturl() for url in (server.owner_url, server.app_url)]
        for name in sides
    }
    async with AsyncExitStack() as stack:
        sides_list: list[Side] = []
        for name, count in sides.items():
            side_home = home / name
            side_home.mkdir(exist_ok=True)
            sides_list.append(await stack.enter_async_context(open_side(*urls[name], count, side_home)))
        small, large = sides_list
        return await compare(small, large, times, stores)


def create_databases(server: EmbeddedServer, scale: float) -> dict[str, int]:
    """Create and fill the small and the large database if they do not exist. Return the number of documents in each."""
    sides = {"small": 1000, f"large_{round(scale * 1_000_000)}": round(scale * 1_000_000)}
    with psycopg.connect(server.owner_url, autocommit=True) as administration:
        existing = {name for (name,) in administration.execute("select datname from pg_database")}
        with changed_settings(administration, fsync="off", full_page_writes="off", autovacuum="off"):
            for name, count in sides.items():
                if name not in existing:
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
def changed_settings(administration: psycopg.Connection, **settings: str) -> Generator[None]:
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
    parser.add_argument("--scale", type=float, default=0.1, help="1 is a million documents")
    parser.add_argument("--times", type=int, default=60, help="measurements of each operation")
    parser.add_argument("--seconds", type=float, default=3600, help="time limit, including loading")
    parser.add_argument("--folder", type=Path, help="folder that keeps the filled databases for later runs")
    options = parser.parse_args()
    restore_signals()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    with ExitStack() as stack:
        if options.folder is None:
            temporary = tempfile.TemporaryDirectory(prefix="fieldmark-growth-", ignore_cleanup_errors=True)
            home = Path(stack.enter_context(temporary))
        else:
            home = options.folder.resolve()
            home.mkdir(exist_ok=True)
        home.chmod(0o755)
        stack.enter_context(time_limit(options.seconds, home))
        server = stack.enter_context(embedded_postgres(home, 18))
        slower = asyncio.run(measure(server, create_databases(server, options.scale), home, options.times))
    print("\nslower: " + ", ".join(slower) if slower else "\nnothing is slower")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
