"""Measures the throughput of several workers on one Postgres, against that of one, and what a document costs.

    pip install '.[bench]' && python bench/workers.py --workers 3 1 --documents 1000 160 --seconds 24 --at-once 8

The model answers after a fixed time, so it is the limit as long as the throughput grows with the number of workers. The
documents belong to four organisations. Each worker is a process of its own, as on a machine of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import httpx
import psutil
import psycopg

from processes import ProcessTreeUsage, Service, child, free_port, postmaster, restore_signals, service, wait_for
from simulated_model import SCHEMA, SimulatedModel, model_and_home, upload_invoices

ORGANISATIONS = 4


@contextmanager
def workers(at: Service, model: SimulatedModel, count: int, runs_at_once: int) -> Iterator[list[int]]:
    """Run workers and yield their process ids."""
    given = {
        "FIELDMARK_HOME": str(at.home),
        "ANTHROPIC_API_KEY": "bench",
        "ANTHROPIC_BASE_URL": model.base_url,
        "FIELDMARK_LOG_LEVEL": "error",
        "DATABASE_URL": "",
        "SUPABASE_URL": "",
    }
    with contextlib.ExitStack() as stack:
        pids: list[int] = []
        for _ in range(count):
            port = free_port()
            command = ("-c", "from fieldmark.cli import main; main()", "worker")
            options = ("--concurrency", str(runs_at_once), "--port", str(port))
            pids.append(stack.enter_context(child(*command, *options, **given)).pid)
            wait_for(f"http://127.0.0.1:{port}/readyz")
        yield pids


def counters(owner: psycopg.Connection[Any]) -> dict[str, float]:
    """Return commits and bytes so far: WAL, and all tables with their indexes."""
    row = owner.execute(
        """select xact_commit, pg_current_wal_lsn() - '0/0'::pg_lsn, pg_database_size(current_database())
           from pg_stat_database where datname = current_database()"""
    ).fetchone()
    assert row is not None
    return dict(zip(("commits", "WAL kB", "database kB"), map(float, row), strict=True))


async def measure(
    at: Service, model: SimulatedModel, owner: psycopg.Connection[Any], count: int, documents: int, runs_at_once: int
) -> dict[str, float]:
    """Return documents a second and the cost of a document, with `count` workers."""
    async with contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(at.client(uuid4())) for _ in range(ORGANISATIONS)]
        with workers(at, model, 1, 1):  # reads the documents
            uploaded = await asyncio.gather(*(upload_invoices(one, documents // ORGANISATIONS) for one in clients))
        gate = asyncio.Semaphore(8)

        async def start(http: httpx.AsyncClient, document: str) -> str:
            async with gate:
                body = {"document_id": document, "schema": SCHEMA, "wait": False}
                return (await http.post("/api/agent/extract", json=body)).raise_for_status().json()["run_id"]

        pairs = zip(clients, uploaded, strict=True)
        jobs = [start(http, document) for http, found in pairs for document in found.values()]
        runs = await asyncio.gather(*jobs)
        before = counters(owner)
        with workers(at, model, count, runs_at_once) as pids:
            trees = [ProcessTreeUsage(pid) for pid in (*pids, postmaster(at.home).pid)]
            cpu, connections, done = sum(one.cpu() for one in trees), 0, 0
            while done < len(runs):
                await asyncio.sleep(1)
                found = owner.execute(
                    "select count(*) from public.runs where id = any(%s) and status = 'completed'", [runs]
                ).fetchone()
                live = owner.execute("select count(*) from pg_stat_activity where usename = 'fieldmark_app'").fetchone()
                assert found is not None and live is not None
                done, connections = found[0], max(connections, live[0])
            cpu = sum(one.cpu() for one in trees) - cpu
        await asyncio.sleep(12)  # backends report their statistics after ten idle seconds
    times = owner.execute(
        "select extract(epoch from max(finished_at) - min(started_at))::float from public.runs where id = any(%s)",
        [runs],
    ).fetchone()
    assert times is not None
    figures = {name: (now - before[name]) / len(runs) for name, now in counters(owner).items()}
    figures["WAL kB"] /= 1000
    figures["database kB"] /= 1000
    return {"documents": len(runs), "rate": len(runs) / times[0], "CPU s": cpu / len(runs), **figures} | {
        "connections": connections
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 3])
    parser.add_argument("--documents", type=int, nargs="+", default=[8, 24], help="for each number of workers")
    parser.add_argument("--seconds", type=float, default=4, help="of an answer of the model")
    parser.add_argument("--at-once", type=int, default=4, help="runs of a worker")
    given = parser.parse_args()
    print(f"answer {given.seconds:g} s, {given.at_once} runs at once, {psutil.cpu_count()} processors", flush=True)
    rates: dict[int, float] = {}
    for count, documents in zip(given.workers, given.documents, strict=True):
        with contextlib.ExitStack() as stack:
            home, model = stack.enter_context(model_and_home(3600))
            model.requests(str(given.seconds))
            at = stack.enter_context(service(home, model.base_url, "--no-worker"))
            owner = stack.enter_context(psycopg.connect(at.database.owner_url, autocommit=True))
            found = asyncio.run(measure(at, model, owner, count, documents, given.at_once))
        rates[count] = found["rate"]
        print(f"{count} workers:", ", ".join(f"{name} {value:.3g}" for name, value in found.items()))
        print(f"    load of the machine: {os.getloadavg()[0]:.0f}", flush=True)
    fewest = min(rates)
    for count, rate in rates.items():
        print(f"{count} workers: {rate / rates[fewest] * fewest / count:.2f} of linear", flush=True)


if __name__ == "__main__":
    restore_signals()
    main()
