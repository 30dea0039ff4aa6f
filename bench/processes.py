"""Child processes of a benchmark: started with pipes, ended with it, and killed at a time limit.  `service` starts
Fieldmark."""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import httpx
import psutil

if TYPE_CHECKING:  # imported where needed, since measured processes import this module, too
    from fieldmark.db.embedded import EmbeddedServer

GOODBYE_SECONDS = 20
START_SECONDS = 300


@contextmanager
def child(*arguments: str | Path, program: str = sys.executable, **environment: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [program, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    try:
        yield process
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.terminate()
        try:
            process.wait(GOODBYE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def read_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    assert line, "a process of the benchmark ended early"
    return line


@dataclass(frozen=True)
class Service:
    home: Path
    address: str
    database: EmbeddedServer
    process: subprocess.Popen[str]

    def token(self, user: UUID | None = None) -> str:
        """Return a token of a user (default: the local user). The first request creates the user's organisation."""
        from fieldmark.cli.process import LOCAL_USER
        from fieldmark.identity.tokens import LocalTokens

        return LocalTokens(self.home).sign(user or LOCAL_USER)

    def client(self, user: UUID | None = None) -> httpx.AsyncClient:
        headers = {"Authorization": f"Bearer {self.token(user)}", "Accept": "application/json"}
        return httpx.AsyncClient(base_url=self.address, headers=headers, timeout=START_SECONDS)


@contextmanager
def service(home: Path, base_url: str, *arguments: str, **settings: str) -> Iterator[Service]:
    """Start Fieldmark with a model at `base_url` (empty: the offline model) and wait until it is ready. `arguments`:
    options of `fieldmark serve`."""
    from fieldmark.db.embedded import embedded_postgres

    given = {
        "FIELDMARK_HOME": str(home),
        "ANTHROPIC_API_KEY": "bench" if base_url else "",
        "ANTHROPIC_BASE_URL": base_url,
        "FIELDMARK_PORT": str(port := free_port()),
        "FIELDMARK_LOG_LEVEL": "error",
        "DATABASE_URL": "",
        "SUPABASE_URL": "",
        **settings,
    }
    with (
        embedded_postgres(home, 18) as database,
        child("-c", "from fieldmark.cli import main; main()", "serve", *arguments, **given) as made,
    ):
        address = f"http://127.0.0.1:{port}"
        wait_for(f"{address}/readyz")
        assert made.poll() is None, "the service ended early"
        yield Service(home, address, database, made)


class Workers:
    """Two worker processes, of `fieldmark worker` or another command of Python. `kill` kills one of them, and starts
    another."""

    def __init__(self, stack: contextlib.ExitStack, environment: dict[str, str], *command: str) -> None:
        self._stack, self._environment = stack, environment
        self._command = command or ("-c", "from fieldmark.cli import main; main()", "worker")
        self.processes = [self._start() for _ in range(2)]

    def _start(self) -> Any:
        return self._stack.enter_context(child(*self._command, **self._environment))

    def kill(self) -> None:
        at = random.randrange(len(self.processes))
        victim = psutil.Process(self.processes[at].pid)
        for process in (victim, *victim.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                process.kill()
        self.processes[at] = self._start()

    def memory(self) -> float:
        """Return the memory of the worker processes without their children, in megabytes."""
        return sum(psutil.Process(one.pid).memory_full_info().pss for one in self.processes) / 1e6


def wait_for(address: str) -> None:
    until = time.monotonic() + START_SECONDS
    with httpx.Client() as http:
        while time.monotonic() < until:
            with contextlib.suppress(httpx.TransportError):
                if http.get(address).is_success:
                    return
            time.sleep(0.1)
    raise SystemExit("The service did not become ready.")


async def upload(http: httpx.AsyncClient, name: str, content: bytes) -> str:
    answer = await http.post("/api/documents", files={"file": (name, content)})
    document: dict[str, Any] = answer.raise_for_status().json()
    while document["status"] == "reading":
        await asyncio.sleep(0.05)
        document = (await http.get(f"/api/documents/{document['id']}")).json()
    assert document["status"] == "ready", document
    return document["id"]


def postmaster(home: Path) -> psutil.Process:
    return psutil.Process(int((home / "postgres" / "data" / "postmaster.pid").read_text().split()[0]))


def cpu_by_process(at: Service) -> dict[str, float]:
    """Return the CPU seconds so far of the CLIs and readers, of the service, and of Postgres, with ended processes."""
    own = sum(psutil.Process(at.process.pid).cpu_times()[:2])
    tree, database = ProcessTreeUsage(at.process.pid).cpu(), ProcessTreeUsage(postmaster(at.home).pid).cpu()
    return {"CLIs and readers": tree - own, "service": own, "Postgres": database}


class ProcessTreeUsage:
    """CPU time and peak memory of a process with all its children, including ended ones."""

    def __init__(self, pid: int) -> None:
        self._root, self.peak, self.watching = psutil.Process(pid), 0.0, threading.Event()
        threading.Thread(target=self._sample, daemon=True).start()

    def _sum(self, figure: Callable[[psutil.Process], float]) -> float:
        total = 0.0
        for process in (self._root, *self._root.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                total += figure(process)
        return total

    def cpu(self) -> float:
        return self._sum(lambda process: sum(process.cpu_times()[:4]))

    def _sample(self) -> None:
        while self.watching.wait():
            self.peak = max(self.peak, self._sum(lambda process: process.memory_full_info().pss))
            time.sleep(0.05)


def restore_signals() -> None:
    """Restore the default signal handlers. A process started in the background or under nohup ignores signals, and its
    children inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


@contextmanager
def time_limit(seconds: float, folder: Path, report: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Kill all child processes, call `report`, and exit with 1 if the block exceeds the limit. Runs in a thread."""
    time_is_up = threading.Event()

    def watch() -> None:
        if time_is_up.wait(seconds):
            return
        try:
            kill_all(folder)
            print(f"not done after {seconds:g} s; it stood here:", file=sys.stderr, flush=True)
            faulthandler.dump_traceback(sys.stderr)
            report()
            sys.stdout.flush()
            kill_all(folder)  # processes restarted meanwhile
        finally:
            os._exit(1)

    threading.Thread(target=watch, name="deadline", daemon=True).start()
    try:
        yield
    finally:
        time_is_up.set()


def kill_all(folder: Path) -> None:
    """Kill all child processes, and all processes in `folder`, such as Postgres, which is not a child."""
    while found := [*_living(psutil.Process().children(recursive=True)), *processes_in(folder)]:
        for process in found:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(found, timeout=1)


def processes_in(folder: Path) -> list[psutil.Process]:
    """Return the running processes other than this one whose working directory is in `folder`."""
    found: list[psutil.Process] = []
    for process in _living(psutil.process_iter()):
        with contextlib.suppress(psutil.Error):
            if Path(process.cwd()).is_relative_to(folder) and process.pid != os.getpid():
                found.append(process)
    return found


def _living(processes: Iterable[psutil.Process]) -> Iterator[psutil.Process]:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            if process.status() != psutil.STATUS_ZOMBIE:
                yield process


def free_port() -> int:
    """Return a port outside the range the system assigns by itself, so that it stays free while the server restarts."""
    while True:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", random.randint(20_000, 32_000)))
            return probe.getsockname()[1]
