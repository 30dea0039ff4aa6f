"""The processes of a benchmark: started with pipes, ended with it, and all of them ended when it takes too long.

`service` starts Fieldmark itself."""

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

if TYPE_CHECKING:  # imported where it is needed: the processes that are measured import this module too
    from fieldmark.db.embedded import EmbeddedServer

GOODBYE_SECONDS = 20
START_SECONDS = 300


@contextmanager
def child(*arguments: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, *arguments],
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


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    assert line, "a process of the benchmark ended early"
    return line


@dataclass(frozen=True)
class Service:
    """Fieldmark, at work on loopback with a Postgres of its own."""

    home: Path
    address: str
    database: EmbeddedServer
    process: subprocess.Popen[str]

    def token(self, user: UUID | None = None) -> str:
        """Return a token of a user, who gets an organisation of its own with the first request. None: the local one."""
        from fieldmark.cli.process import LOCAL_USER
        from fieldmark.identity.tokens import LocalTokens

        return LocalTokens(self.home).sign(user or LOCAL_USER)

    def client(self, user: UUID | None = None) -> httpx.AsyncClient:
        headers = {"Authorization": f"Bearer {self.token(user)}", "Accept": "application/json"}
        return httpx.AsyncClient(base_url=self.address, headers=headers, timeout=START_SECONDS)


@contextmanager
def service(home: Path, base_url: str, **settings: str) -> Iterator[Service]:
    """Start Fieldmark with a model at `base_url` (none: the offline model) and wait until it is ready."""
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
        child("-c", "from fieldmark.cli import main; main()", "serve", **given) as made,
    ):
        address = f"http://127.0.0.1:{port}"
        wait_for(f"{address}/readyz")
        assert made.poll() is None, "the service ended early"
        yield Service(home, address, database, made)


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
    """Upload a document, wait until it is read, and return its id."""
    answer = await http.post("/api/documents", files={"file": (name, content)})
    document: dict[str, Any] = answer.raise_for_status().json()
    while document["status"] == "reading":
        await asyncio.sleep(0.05)
        document = (await http.get(f"/api/documents/{document['id']}")).json()
    assert document["status"] == "ready", document
    return document["id"]


def postmaster(home: Path) -> psutil.Process:
    return psutil.Process(int((home / "postgres" / "data" / "postmaster.pid").read_text().split()[0]))


class Watched:
    """CPU and peak memory of a process with all its children, dead ones included."""

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
    """Let this process and all that it starts be told to end: who started it in the background, or under nohup, may
    have had them ignored, and that is inherited."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


@contextmanager
def bounded(seconds: float, folder: Path, say: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Should the block take longer: kill all that was started, `say` what there is, and end this process with 1.

    A thread sees to it, so that nothing the block may wait for holds it up."""
    over = threading.Event()

    def watch() -> None:
        if over.wait(seconds):
            return
        try:
            end_all(folder)
            print(f"not done after {seconds:g} s; it stood here:", file=sys.stderr, flush=True)
            faulthandler.dump_traceback(sys.stderr)
            say()
            sys.stdout.flush()
            end_all(folder)  # what was started again meanwhile
        finally:
            os._exit(1)

    threading.Thread(target=watch, name="deadline", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def end_all(folder: Path) -> None:
    """Kill our children and theirs, and whoever works in `folder`: that is Postgres, which is nobody's child, too."""
    while found := [*_living(psutil.Process().children(recursive=True)), *at_work_in(folder)]:
        for process in found:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(found, timeout=1)


def at_work_in(folder: Path) -> list[psutil.Process]:
    """The living processes, other than this one, whose working directory is `folder` or lies in it."""
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
    """A port that the system gives to nobody who asks for any: it stays ours while what listens there is started
    again."""
    while True:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", random.randint(20_000, 32_000)))
            return probe.getsockname()[1]
