"""Injects faults into a service with two workers, and counts what was lost, written twice, stuck or failed.

    pip install '.[bench]' && python bench/faults.py --times 20 [--fault frozen_worker --fault failover …]

An API process and two workers run as on machines of their own: each reaches Postgres over a relay that can be cut. The
model decides from the conversation and writes list items one by one, each with a unique value. In each round some runs
are started, the fault begins when both workers have one, further runs are started meanwhile, and the round ends when
all runs have. Calls, journal, events and values are then compared as in tests/chaos.py. Needs root on Linux.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import httpx
import psutil
import psycopg

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from chaos import ClientRun, Counts, answer, check_runs
from fieldmark.agents.registry import agent_rows
from fieldmark.db.embedded import embedded_postgres, postgres_programs
from fieldmark.db.migrate import migrate
from fieldmark.identity.tokens import LocalTokens
from fieldmark.offline_model.messages import Body
from fieldmark.offline_model.server import OfflineModel
from fieldmark.testing.script import http_error
from processes import child, free_port, postmaster, restore_signals, time_limit, wait_for

RUNS = 4  # of a round: half before the fault, half during it
ROUND_SECONDS = 400
OPEN_RUNS = "select count(*) from public.runs where status not in ('completed', 'failed', 'cancelled')"
OPEN_JOBS = "select count(*) from queue.procrastinate_jobs where status in ('todo', 'doing')"
RUNNING = "select count(*) from public.runs where status = 'running'"
WORKERS = "select count(*) from queue.procrastinate_workers where last_heartbeat > now() - interval '12 s'"
BUSY_WORKERS = "select count(distinct worker_id) from queue.procrastinate_jobs where status = 'doing'"


class Relay:
    """A connection to a port on loopback that can be cut (nothing arrives, nothing is closed), and moved."""

    def __init__(self, target: int) -> None:
        self.target, self.port = target, 0
        self._is_open = asyncio.Event()
        self._is_open.set()
        self._writers: set[asyncio.StreamWriter] = set()

    async def start(self) -> None:
        server = await asyncio.start_server(self._relay, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]

    async def cut(self, seconds: float) -> None:
        self._is_open.clear()
        await asyncio.sleep(seconds)
        self._is_open.set()

    def move(self, target: int) -> None:
        self.target = target
        for writer in self._writers:
            writer.close()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._is_open.wait()
        self._writers.add(writer)
        try:
            other_reader, other_writer = await asyncio.open_connection("127.0.0.1", self.target)
            await asyncio.gather(self._copy(reader, other_writer), self._copy(other_reader, writer))
        except OSError:
            writer.close()
        finally:
            self._writers.discard(writer)

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while chunk := await reader.read(65536):
                await self._is_open.wait()
                writer.write(chunk)
                await writer.drain()
        await self._is_open.wait()
        writer.close()


@dataclass
class Postgres:
    """A server that this program starts and stops."""

    data: Path
    program: Path
    user: int
    owner_url: str  # for port 0
    port: int = 0

    @property
    def url(self) -> str:
        return with_port(self.owner_url, self.port)

    async def start(self) -> None:
        self.port = self.port or free_port()
        settings = ("listen_addresses=127.0.0.1", "unix_socket_directories=", "wal_level=logical")
        options = [part for setting in settings for part in ("-c", setting)]
        with (self.data.parent / "log").open("ab") as log:
            command = [self.program, "-D", self.data, "-p", str(self.port), *options]
            subprocess.Popen(command, user=self.user, group=self.user, extra_groups=[], cwd="/", stdout=log, stderr=log)
        if not await until(lambda: is_ready(self.url), 60):
            raise SystemExit((self.data.parent / "log").read_text()[-2000:])

    async def stop(self, how: signal.Signals) -> None:
        process = psutil.Process(int((self.data / "postmaster.pid").read_text().split()[0]))
        process.send_signal(how)
        await asyncio.to_thread(process.wait, 60)

    async def standby(self) -> Postgres:
        """Make a synchronous standby: no commit is acknowledged before it has it."""
        other = Postgres(self.data.with_name(f"data-{uuid4().hex[:8]}"), self.program, self.user, self.owner_url)
        backup = [postgres_programs(18) / "pg_basebackup", "-R", "-c", "fast", "-D", other.data, "-d", self.url]
        await asyncio.to_thread(subprocess.run, backup, check=True)
        subprocess.run(["chown", "-R", str(self.user), other.data], check=True)
        await other.start()
        self.execute("alter system set synchronous_standby_names = '*'", "select pg_reload_conf()")
        in_sync = "select count(*) from pg_stat_replication where sync_state = 'sync'"
        await until(lambda: value(self.url, in_sync) == 1, 60)
        return other

    def execute(self, *statements: str) -> None:
        with psycopg.connect(self.url, autocommit=True) as owner:
            for statement in statements:
                owner.execute(statement.encode())


@dataclass
class Site:
    """What the faults act on."""

    home: Path
    postgres: Postgres
    relays: list[Relay]  # of the API and of each worker
    model: Relay
    app_url: str
    standby: Postgres | None = None
    is_model_down: bool = False
    pids: list[int] = field(default_factory=list)
    start: list[Callable[[], int]] = field(default_factory=list)  # starts the API and each worker, returns its pid
    http: httpx.AsyncClient = field(default_factory=httpx.AsyncClient)

    def count(self, query: str) -> int:
        return value(self.postgres.url, query)


# --- the faults: each returns when it is over


async def nothing(site: Site) -> None:
    """For comparison."""


async def restart(site: Site) -> None:
    await site.postgres.stop(signal.SIGINT)
    await site.postgres.start()


async def crash(site: Site) -> None:
    await site.postgres.stop(signal.SIGQUIT)
    await site.postgres.start()


async def read_only(site: Site) -> None:
    site.postgres.execute("alter system set default_transaction_read_only = on", "select pg_reload_conf()")
    await asyncio.sleep(8)
    with psycopg.connect(site.postgres.url, autocommit=True) as owner:
        owner.execute("set default_transaction_read_only = off")
        owner.execute("alter system reset default_transaction_read_only")
        owner.execute("select pg_reload_conf()")


async def failover(site: Site) -> None:
    """Kill the primary, and promote its standby two seconds later."""
    old, new = site.postgres, site.standby
    assert new is not None
    await old.stop(signal.SIGQUIT)
    await asyncio.sleep(2)
    new.execute("alter system reset synchronous_standby_names", "select pg_promote()")
    for relay in site.relays:
        relay.move(new.port)
    site.postgres = new
    shutil.rmtree(old.data)


async def short_partition(site: Site) -> None:
    await site.relays[1].cut(8)


async def long_partition(site: Site) -> None:
    await site.relays[1].cut(30)


async def frozen_worker(site: Site) -> None:
    """Stop a worker with its agents for longer than its lease of 15 s, as a machine that is suspended."""
    worker = psutil.Process(site.pids[1])
    stopped = [worker, *worker.children(recursive=True)]
    for process in stopped:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.suspend()
    await asyncio.sleep(30)
    for process in reversed(stopped):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.resume()


async def clock_skew(site: Site) -> None:
    """Kill a worker that reads documents, restart Postgres, so that jobs are retried, and replace the worker. Their
    clocks are off by more than a token may be: all times must be those of the database."""
    counts = Counts()
    documents = [await upload(site, counts) for _ in range(4)]
    worker = psutil.Process(site.pids[1])
    for process in (worker, *worker.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    await restart(site)
    site.pids[1] = site.start[1]()
    ready = f"select count(*) from public.documents where status = 'ready' and id = any('{{{','.join(documents)}}}')"
    if not await until(lambda: site.count(ready) == len(documents), 120):
        raise SystemExit(f"{len(documents) - site.count(ready)} documents were not read.")


async def model_down(site: Site) -> None:
    """Answer 529 for longer than the agent's process retries a request."""
    site.is_model_down = True
    await asyncio.sleep(100)
    site.is_model_down = False


FAULTS: dict[str, Callable[[Site], Awaitable[None]]] = {
    fault.__name__: fault
    for fault in (
        nothing,
        restart,
        crash,
        read_only,
        failover,
        short_partition,
        long_partition,
        frozen_worker,
        clock_skew,
        model_down,
    )
}
SKEWS = (-420, 420, -420)  # seconds that the clocks of the API and the workers are off, for clock_skew


# --- a round


@dataclass(frozen=True)
class Round:
    runs: int
    lasted: float
    recovered: float  # from the start of the fault until the interrupted runs have ended
    done: float  # until all runs and jobs have


async def play(site: Site, name: str, number: int, document: str, counts: Counts) -> Round:
    if name == "failover":
        site.standby = await site.postgres.standby()
    runs = [ClientRun(str(uuid4()), f"{name}{number}r{n}", 2 + n % 2, False) for n in range(RUNS)]
    await asyncio.gather(*(start(site, one, document, counts) for one in runs[: RUNS // 2]))
    await until(lambda: site.count(BUSY_WORKERS) >= 2 and site.count(RUNNING) >= RUNS // 2, 60)
    ids = "select coalesce(array_agg(id), '{}') from public.runs where status = 'running'"
    interrupted: list[Any] = value(site.postgres.url, ids)
    open_runs = f"{OPEN_RUNS} and id = any('{{{','.join(map(str, interrupted))}}}')"
    began = time.monotonic()
    recovering = asyncio.create_task(seconds_until(lambda: site.count(open_runs) == 0, began))
    more = asyncio.gather(*(start(site, one, document, counts) for one in runs[RUNS // 2 :]))
    await FAULTS[name](site)
    lasted = time.monotonic() - began
    await more
    recovered = await recovering
    done = await seconds_until(lambda: site.count(OPEN_RUNS) == 0 and site.count(OPEN_JOBS) == 0, began)
    check_runs(site.postgres.url, runs, counts)
    line = (
        f"{name} {number}: lasted {lasted:.1f} s, interrupted {len(interrupted)} done {recovered:.1f}, all {done:.1f}"
    )
    print(line, file=sys.stderr, flush=True)
    return Round(len(runs), lasted, recovered, done)


QUEUES = 4  # runs, background, documents, search


async def upload(site: Site, counts: Counts) -> str:
    async def once() -> httpx.Response:
        return await site.http.post("/api/documents", files={"file": ("a.txt", b"Invoice number: 1\nTotal: 1")})

    return (await persist(once, counts))["id"]


async def start(site: Site, run: ClientRun, document: str, counts: Counts) -> None:
    body = {
        "document_id": document,
        "instructions": f"label={run.label} items={run.item_count}",
        "wait": False,
        "background": run.label.startswith("model_down") or run.item_count % 2 == 0,
    }

    async def once() -> httpx.Response:
        return await site.http.post("/api/agent/extract", json=body, headers={"Idempotency-Key": run.key})

    run.run_id = (await persist(once, counts))["run_id"]


async def persist(once: Callable[[], Awaitable[httpx.Response]], counts: Counts) -> dict[str, Any]:
    """Repeat a request while it is answered with 503 or not at all. Any other refusal is a failure."""
    for _ in range(300):
        with contextlib.suppress(httpx.TransportError):
            response = await once()
            if response.is_success:
                return response.json()
            counts.retries[str(response.status_code)] += 1
            if response.status_code != 503:
                counts.add_fault("failed", f"a request was answered {response.status_code}: {response.text[:300]}")
        await asyncio.sleep(0.5)
    raise SystemExit("The API did not recover.")


# --- the site


@asynccontextmanager
async def site_in(folder: Path, skews: tuple[int, ...]) -> AsyncIterator[Site]:
    home = folder / "home"
    with embedded_postgres(home, 18) as made:
        await migrate(made.owner_url, app_password=made.app_password, agents=agent_rows())
        server = postmaster(home)
        program, user = Path(server.exe()), server.uids().real
    (home / "postgres").chmod(0o711)  # the server's own user must be able to reach its data
    postgres = Postgres(home / "postgres" / "data", program, user, made.owner_url)
    await postgres.start()
    async with OfflineModel(lambda body: respond(body), keeps_requests=False) as model:
        model_port = urlsplit(model.base_url).port
        assert model_port is not None
        site = Site(home, postgres, [Relay(postgres.port) for _ in range(3)], Relay(model_port), made.app_url)

        async def respond(body: Body) -> Any:
            return http_error(529) if site.is_model_down else await answer(body)

        for relay in site.relays:
            await relay.start()
        stack = contextlib.ExitStack()
        try:
            ports = [free_port() for _ in site.relays]
            for relay, port, skew in zip(site.relays, ports, skews, strict=True):
                command = ("serve", "--no-worker") if relay is site.relays[0] else ("worker",)
                given = {
                    "FIELDMARK_HOME": str(home),
                    "DATABASE_URL": with_port(site.app_url, relay.port),
                    "ANTHROPIC_API_KEY": "bench",
                    "ANTHROPIC_BASE_URL": model.base_url,
                    "FIELDMARK_LOG_LEVEL": os.environ.get("FIELDMARK_LOG_LEVEL", "error"),
                    "FIELDMARK_MAX_LIVE_AGENTS": "2",
                    "FIELDMARK_WARM_SPARES": "1",
                    "SUPABASE_URL": "",
                    **({"LD_PRELOAD": str(clock_library(folder)), "CLOCK_OFFSET_SECONDS": str(skew)} if skew else {}),
                }
                program_text = "from fieldmark.cli import main; main()"
                arguments = ("-c", program_text, *command, "--port", str(port))

                def launch(arguments: tuple[str, ...] = arguments, given: dict[str, str] = given) -> int:
                    return stack.enter_context(child(*arguments, **given)).pid

                site.start.append(launch)
                site.pids.append(launch())
            for port in ports:
                await asyncio.to_thread(wait_for, f"http://127.0.0.1:{port}/readyz")
            headers = {"Authorization": f"Bearer {LocalTokens(home).sign(uuid4())}", "Accept": "application/json"}
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{ports[0]}", headers=headers, timeout=60) as http:
                site.http = http
                yield site
        finally:
            await asyncio.to_thread(stack.close)  # the relays must work meanwhile
            await site.postgres.stop(signal.SIGINT)


def clock_library(folder: Path) -> Path:
    """Compile `clock_offset.c`."""
    made = folder / "clock_offset.so"
    if not made.exists():
        source = Path(__file__).with_name("clock_offset.c")
        subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", made, source], check=True)
        made.chmod(0o755)
    return made


def with_port(url: str, port: int) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=f"{parts.username}:{parts.password}@127.0.0.1:{port}").geturl()


def value(url: str, query: str) -> Any:
    with psycopg.connect(url, autocommit=True, connect_timeout=5) as owner:
        row = owner.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


def is_ready(url: str) -> bool:
    try:
        return value(url, "select true")
    except psycopg.OperationalError:
        return False


async def until(condition: Callable[[], bool], seconds: float) -> bool:
    """Return whether the condition holds within this time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(psycopg.OperationalError):
            if await asyncio.to_thread(condition):
                return True
        await asyncio.sleep(0.1)
    return False


async def seconds_until(condition: Callable[[], bool], since: float) -> float:
    """Return the seconds from `since` until the condition holds, or until the round is over."""
    await until(condition, since + ROUND_SECONDS - time.monotonic())
    return time.monotonic() - since


async def measure(site: Site, name: str, times: int) -> bool:
    """Print the row of a fault. Return whether nothing was lost, written twice, stuck or failed."""
    counts = Counts()
    document = await upload(site, counts)
    rounds = [await play(site, name, number, document, counts) for number in range(times)]
    if not await until(lambda: site.count(WORKERS) == 2 * QUEUES, 120):
        counts.add_fault("stuck", f"{site.count(WORKERS)} of {2 * QUEUES} workers send heartbeats")
    for what, details in counts.faults.items():
        for detail in details[:5]:
            print(f"    {what}: {detail}", flush=True)
    found = ", ".join(f"{len(counts.faults[what])} {what}" for what in ("lost", "duplicated", "stuck", "failed"))
    seconds = [
        f"{statistics.median(one):.1f}/{max(one):.1f}"
        for one in ([r.lasted for r in rounds], [r.recovered for r in rounds], [r.done for r in rounds])
    ]
    answers = dict(counts.retries)
    print(f"{name:16} {times} times, {sum(r.runs for r in rounds)} runs: {found}; requests repeated {answers}")
    print(f"    seconds, median/worst: lasted {seconds[0]}, interrupted runs done {seconds[1]}, all {seconds[2]}")
    print(f"    load of the machine: {os.getloadavg()[0]:.0f}", flush=True)
    return not any(counts.faults.values())


async def measure_all(folder: Path, names: list[str], times: int, skews: tuple[int, ...]) -> bool:
    async with site_in(folder, skews) as site:
        return all([await measure(site, name, times) for name in names])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--fault", action="append", choices=FAULTS, help="may be repeated; default: all")
    options = parser.parse_args()
    names = options.fault or list(FAULTS)
    is_clean = True
    for skews in ((0, 0, 0), SKEWS):
        group = [name for name in names if (name == "clock_skew") == (skews is SKEWS)]
        if not group:
            continue
        with temporary_folder() as folder, time_limit(len(group) * options.times * ROUND_SECONDS, folder):
            is_clean &= asyncio.run(measure_all(folder, group, options.times, skews))
    return 0 if is_clean else 1


@contextmanager
def temporary_folder() -> Any:
    import tempfile

    with tempfile.TemporaryDirectory(prefix="fieldmark-faults-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)  # the CLI's own user must be able to reach its folder
        yield Path(folder)


if __name__ == "__main__":
    restore_signals()
    sys.exit(main())
