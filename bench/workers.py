"""Measures the throughput of several workers on one Postgres, against that of one, and what a document costs.

    pip install '.[bench]' && python bench/workers.py --workers 3 1 --documents 1000 160 --seconds 24 --at-once 8

With `--containers` all of it runs in containers of compose.yaml's stack; `python tests/containers.py` builds the image.

The model answers after a fixed time, so it is the limit as long as the throughput grows with the number of workers. The
documents belong to four organisations. Each worker is a process of its own, as on a machine of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import psutil
import psycopg

sys.path.append(str(Path(__file__).parents[1] / "tests"))

import containers
from processes import (
    START_SECONDS,
    ProcessTreeUsage,
    child,
    free_port,
    postmaster,
    restore_signals,
    service,
    wait_for,
)
from simulated_model import SCHEMA, SimulatedModel, model_and_home, upload_invoices

ORGANISATIONS = 4


@dataclass(frozen=True)
class Installation:
    """A service without workers, the process id of its Postgres, and a function that runs workers."""

    client: Callable[[UUID], httpx.AsyncClient]
    owner_url: str
    postgres: int
    workers: Callable[[int, int], AbstractContextManager[list[int]]]


@contextmanager
def in_processes(seconds: float) -> Iterator[Installation]:
    """Run the service, its embedded Postgres and workers as processes of this machine."""
    with model_and_home(3600) as (home, model), service(home, model.base_url, "--no-worker") as at:
        model.requests(str(seconds))
        given = {
            "FIELDMARK_HOME": str(home),
            "ANTHROPIC_API_KEY": "bench",
            "ANTHROPIC_BASE_URL": model.base_url,
            "FIELDMARK_LOG_LEVEL": "error",
            "DATABASE_URL": "",
            "SUPABASE_URL": "",
        }

        @contextmanager
        def workers(count: int, runs_at_once: int) -> Iterator[list[int]]:
            with contextlib.ExitStack() as stack:
                pids: list[int] = []
                for _ in range(count):
                    port = free_port()
                    command = ("-c", "from fieldmark.cli import main; main()", "worker")
                    options = ("--concurrency", str(runs_at_once), "--port", str(port))
                    pids.append(stack.enter_context(child(*command, *options, **given)).pid)
                    wait_for(f"http://127.0.0.1:{port}/readyz")
                yield pids

        yield Installation(at.client, at.database.owner_url, postmaster(home).pid, workers)


def inspect(container: str, what: str) -> str:
    return containers.run("podman", "inspect", f"--format={{{{{what}}}}}", container).strip()


def address(container: str) -> str:
    return inspect(container, "range .NetworkSettings.Networks}}{{.IPAddress}}{{end")


@contextmanager
def in_containers(seconds: float) -> Iterator[Installation]:
    """Run compose.yaml's Postgres, service and workers as containers, and the model as another of their network."""
    with containers.prepared() as work, containers.compose_stack(work) as stack:
        options = ("--rm", "--interactive", "--no-healthcheck", "--entrypoint=python3", *containers.HARDENED)
        network = (f"--network={stack.project}_default", "--network-alias=model", "--hostname=model")
        bench = f"--volume={Path(__file__).parent}:/bench:ro"
        command = (containers.IMAGE, "/bench/simulated_model.py", "model")
        with child("run", *options, *network, bench, *command, program="podman") as process:
            model = SimulatedModel(process)
            model.requests(str(seconds))
            stack.configure(ANTHROPIC_API_KEY="bench", ANTHROPIC_BASE_URL=model.base_url, FIELDMARK_LOG_LEVEL="error")
            stack.start("service")
            (serving,) = stack.containers("service")
            (database,) = stack.containers("postgres")
            base_url = f"http://{address(serving)}:8731"
            wait_for(f"{base_url}/readyz")

            def client(user: UUID) -> httpx.AsyncClient:
                token = containers.run("podman", "exec", serving, "fieldmark", "token", f"--user={user}").strip()
                headers = {"Authorization": f"Bearer {token}"}
                return httpx.AsyncClient(base_url=base_url, headers=headers, timeout=START_SECONDS)

            @contextmanager
            def workers(count: int, runs_at_once: int) -> Iterator[list[int]]:
                stack.configure(FIELDMARK_MAX_LIVE_AGENTS=runs_at_once)
                stack.start("--scale", f"worker={count}", "worker")
                names = stack.containers("worker")
                try:
                    assert len(names) == count, names
                    for name in names:
                        wait_for(f"http://{address(name)}:8731/readyz")
                    yield [int(inspect(name, ".State.Pid")) for name in names]
                finally:
                    containers.run("podman", "rm", "--force", "--time=20", *names)

            owner_url = f"postgresql://fieldmark_owner:{stack.owner_password}@{address(database)}/fieldmark"
            yield Installation(client, owner_url, int(inspect(database, ".State.Pid")), workers)


def counters(owner: psycopg.Connection[Any]) -> dict[str, float]:
    """Return commits and bytes so far: WAL, and all tables with their indexes."""
    row = owner.execute(
        """select xact_commit, pg_current_wal_lsn() - '0/0'::pg_lsn, pg_database_size(current_database())
           from pg_stat_database where datname = current_database()"""
    ).fetchone()
    assert row is not None
    return dict(zip(("commits", "WAL kB", "database kB"), map(float, row), strict=True))


async def measure(
    at: Installation, owner: psycopg.Connection[Any], count: int, documents: int, runs_at_once: int
) -> dict[str, float]:
    """Return documents a second and the cost of a document, with `count` workers."""
    async with contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(at.client(uuid4())) for _ in range(ORGANISATIONS)]
        with at.workers(1, 1):  # reads the documents
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
        with at.workers(count, runs_at_once) as pids:
            trees = [ProcessTreeUsage(pid) for pid in (*pids, at.postgres)]
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
    parser.add_argument("--containers", action="store_true", help="run compose.yaml's stack, of the built image")
    given = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGALRM):
        signal.signal(number, lambda *_: sys.exit("stopped"))  # containers and processes end first
    print(f"answer {given.seconds:g} s, {given.at_once} runs at once, {psutil.cpu_count()} processors", flush=True)
    rates: dict[int, float] = {}
    for count, documents in zip(given.workers, given.documents, strict=True):
        with (
            (in_containers if given.containers else in_processes)(given.seconds) as at,
            psycopg.connect(at.owner_url, autocommit=True) as owner,
        ):
            found = asyncio.run(measure(at, owner, count, documents, given.at_once))
        rates[count] = found["rate"]
        print(f"{count} workers:", ", ".join(f"{name} {value:.3g}" for name, value in found.items()))
        print(f"    load of the machine: {os.getloadavg()[0]:.0f}", flush=True)
    fewest = min(rates)
    for count, rate in rates.items():
        print(f"{count} workers: {rate / rates[fewest] * fewest / count:.2f} of linear", flush=True)


if __name__ == "__main__":
    restore_signals()
    main()
