"""Kills workers, the API, CLIs and Postgres under load, and then checks that nothing was lost.

An API process and several workers share an embedded Postgres. A scripted model decides its next turn from the
conversation. Clients start runs over HTTP, follow their streams, decide approvals, and reconnect when disconnected.
Meanwhile processes are killed (SIGKILL), at random or right at a commit: a claimed run, an approved or executed call,
an approval request, the end of a run. Every 5 to 40 seconds Postgres is paused or killed. After the kills all runs must
end, and the tool calls, the journal, the events and the events seen by clients must agree:

    lost        a finished call that is not in the extraction or its journal, a missing event or run
    duplicated  an item, path or event written twice, a run started twice, an event seen twice or out of order
    stuck       a run that neither ended nor waits for a person
    orphaned    a CLI or file reader without its worker, a job held by a dead worker for a minute

    pip install '.[test]' && python tests/chaos.py --kills 100 --seed 1

Exits with 1 if any of these is not 0, or a run failed. Ctrl-C ends the kills early; the checks still run. The seed
determines the order of the kills, but not what they hit.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import psutil
import psycopg
from psycopg.rows import dict_row

import fieldmark
from fieldmark.db.embedded import embedded_postgres
from fieldmark.identity.tokens import LocalTokens
from fieldmark.offline_model.messages import Body, call, objects_in, text
from fieldmark.offline_model.server import OfflineModel

sys.path.append(str(Path(__file__).parents[1] / "bench"))

from processes import free_port, restore_signals, time_limit

COMMAND = ("-c", "from fieldmark.cli import main; main()")
# If this program is killed, its processes are killed, too.
WITH_PARENT = ("setpriv", "--pdeathsig", "KILL") if shutil.which("setpriv") else ()
END_TYPES = ("complete", "error")
AT_COMMITS = ("taken", "approved", "done", "approval", "before the end", "after the end")
INTERRUPTED_TEXT = "started before and interrupted"
SETTLE_SECONDS = 180
HELD_SECONDS = 60
STOP_SECONDS = 40
ORPHAN_SECONDS = 8
# Maximum time after the last kill: runs end, the queue empties, all processes stop.
AFTERWARDS_SECONDS = SETTLE_SECONDS + HELD_SECONDS + STOP_SECONDS + 50


# The model -----------------------------------------------------------------------------------------------------------


async def answer(body: Body) -> list[Any]:
    """Return the next turn of the agent, from the conversation only. It writes list items one by one, each with a
    unique value, so that an item written twice is detected. Half of the runs end with a write that completes."""
    await asyncio.sleep(random.uniform(0.02, 0.3))
    said = "".join(_texts(body))
    task = re.search(r"label=(\S+) items=(\d+)", said)
    if task is None:
        return [text("There is nothing to do.")]
    label, wanted = task[1], int(task[2])
    item_count: int | None = 0
    calls: dict[str, str] = {}
    for message in objects_in(body, "messages"):
        for block in _blocks(message):
            if block.get("type") == "text" and message["role"] == "user" and INTERRUPTED_TEXT in block["text"]:
                item_count = None
            elif block.get("type") == "tool_use":
                calls[block["id"]] = block["name"].rsplit("__", 1)[-1]
            elif block.get("type") == "tool_result":
                item_count = _items_after_result(calls.get(block["tool_use_id"], ""), block, item_count)
    if not calls:
        return [call("get_document_text")]
    if item_count is None:
        return [call("get_current_extraction")]
    if item_count == COMPLETE:
        return [text(f"Done: {label}.")]
    value = f"{label}-{item_count}-{uuid4().hex[:8]}"
    if item_count >= wanted and sum(map(ord, label)) % 2:
        return [call("extract_fields", {"fields": {"last": value}, "summary": label})]
    if item_count >= wanted:
        return [call("complete_extraction", {"summary": label})]
    return [call("update_field", {"path": f"items[{item_count}]", "value": value, "confidence": 0.9})]


COMPLETE = -1


def _items_after_result(tool: str, result: dict[str, Any], item_count: int | None) -> int | None:
    """Return the number of items after a tool result; None if the extraction must be read."""
    words = result.get("content")
    words = words if isinstance(words, str) else "".join(part.get("text", "") for part in words or [])
    last = words.rsplit("\n", 1)[-1]
    outcome = json.loads(last) if last.startswith('{"code"') else {"code": "ok"}
    code = outcome["code"]
    if result.get("is_error"):
        return None
    if tool == "get_current_extraction":
        try:
            current = json.loads(words)
        except ValueError:
            return None
        return COMPLETE if current["status"] == "completed" else len(current["extracted_fields"].get("items", []))
    if tool == "update_field":
        stored = re.search(r'"items\[(\d+)\]"', words)
        return int(stored[1]) + 1 if stored and code == "stored" else None
    if tool in ("complete_extraction", "extract_fields"):
        return COMPLETE if "completed" in (code, outcome["data"].get("complete_extraction")) else None
    return item_count


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content or [])


def _texts(body: Body) -> Iterator[str]:
    for message in objects_in(body, "messages"):
        for block in _blocks(message):
            if block.get("type") == "text":
                yield block["text"]


# Processes -----------------------------------------------------------------------------------------------------------


@dataclass
class Counts:
    kills: collections.Counter[str] = field(default_factory=collections.Counter)
    stops: collections.Counter[str] = field(default_factory=collections.Counter)
    disconnections: int = 0
    most_failures: int = 0
    retries: collections.Counter[str] = field(default_factory=collections.Counter)
    decisions: collections.Counter[str] = field(default_factory=collections.Counter)
    faults: dict[str, list[str]] = field(default_factory=lambda: collections.defaultdict(list))

    def add_fault(self, what: str, detail: str) -> None:
        self.faults[what].append(detail)

    def print_report(self, *lines: str) -> bool:
        """Print all counts, with `lines` in the middle. Return whether there are no faults."""
        for what, details in self.faults.items():
            for detail in details[:10]:
                print(f"{what}: {detail}", file=sys.stderr)
        print(f"kills       {sum(self.kills.values())}: {_format_counts(self.kills)}")
        print(f"postgres    {sum(self.stops.values())} stops: {_format_counts(self.stops)}")
        retries = _format_counts(self.retries) or "no error"
        print(f"clients     disconnected {self.disconnections} times; retried after {retries}")
        print(*lines, sep="\n")
        counted = {what: len(self.faults[what]) for what in ("lost", "duplicated", "stuck", "orphaned", "failed")}
        print(" ".join(f"{what} {count}" for what, count in counted.items()))
        return not any(counted.values())


class Processes:
    """The API process and the workers: started, killed and restarted."""

    def __init__(self, folder: Path, model_url: str, workers: int) -> None:
        self.folder = folder
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        (folder / "tmp").mkdir()
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("FIELDMARK_", "ANTHROPIC_"))},  # noqa: TID251
            "FIELDMARK_HOME": str(folder / "home"),
            "FIELDMARK_MAX_LIVE_AGENTS": "3",
            "FIELDMARK_LOG_LEVEL": "warning",
            "FIELDMARK_RUN_SECONDS": "300",
            "ANTHROPIC_API_KEY": "a-key-of-the-test",
            "ANTHROPIC_BASE_URL": model_url,
            "TMPDIR": str(folder / "tmp"),
            "PYTHONPATH": str(Path(fieldmark.__file__).parents[1]),
        }
        self._environment.pop("DATABASE_URL", None)
        self._commands = {"api": ["serve", "--no-worker", "--port", str(port)]}
        self._commands |= {f"worker {n}": ["worker"] for n in range(1, workers + 1)}
        self._live: dict[str, subprocess.Popen[bytes]] = {}
        self._restart_at: dict[str, float] = {}
        self._log_offsets: dict[str, int] = {}
        self.all_pids: set[int] = set()

    def restart_processes(self) -> None:
        """Start processes that do not run, after their delay."""
        for name in self._commands:
            process = self._live.get(name)
            if process is not None and process.poll() is not None:
                del self._live[name]
                self._restart_at.setdefault(name, time.monotonic() + 0.3)
            if name not in self._live and self._restart_at.get(name, 0) <= time.monotonic():
                self._restart_at.pop(name, None)
                self._start(name)

    def _start(self, name: str) -> None:
        with self._log(name).open("ab") as log:
            self._log_offsets[name] = log.seek(0, os.SEEK_END)
            process = subprocess.Popen(
                [*WITH_PARENT, sys.executable, *COMMAND, *self._commands[name]],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=self._environment,
                start_new_session=True,
            )
        self._live[name] = process
        self.all_pids.add(process.pid)

    def pids(self, kind: str, *, up: bool = False) -> list[int]:
        """Return the process ids of the API or the workers; with `up`, only of those that have reported that they are
        running."""
        live = [(name, p.pid) for name, p in self._live.items() if name.startswith(kind) and p.poll() is None]
        return [pid for name, pid in live if not up or self._is_running(name)]

    def _is_running(self, name: str) -> bool:
        with self._log(name).open("rb") as log:
            log.seek(self._log_offsets[name])
            return any(line.startswith((b"Fieldmark is running", b"Worker started")) for line in log)

    def _log(self, name: str) -> Path:
        return self.folder / f"{name.replace(' ', '-')}.log"

    def kill(self, pid: int) -> bool:
        """Send SIGKILL to a process started here. Return False if it has ended already."""
        for name, process in list(self._live.items()):
            if process.pid == pid and process.poll() is None:
                process.kill()
                process.wait()
                del self._live[name]
                self._restart_at[name] = time.monotonic() + random.uniform(0, 0.5)
                return True
        return False

    def cli_processes(self) -> list[psutil.Process]:
        """Return all CLIs started by our workers, including dead ones: their home is in our folder."""
        return [p for p, command in _commands() if "/proc/self/fd/9" in command and self._is_in_folder(p)]

    def readers(self) -> list[psutil.Process]:
        """Return file readers and their forkservers: their command lines contain the service's process id."""
        found: list[psutil.Process] = []
        for process, command in _commands():
            service = re.search(r"forkserver\.main\(\) (?:plain|ocr) (\d+)", command)
            if service and int(service[1]) in self.all_pids:
                found.append(process)
        return found

    def orphans(self) -> list[psutil.Process]:
        """Return CLIs and readers whose parent is not a running worker."""
        readers = self.readers()
        live = {*self.pids("worker"), *(reader.pid for reader in readers)}
        with_parent = [(p, _parent_pid(p)) for p in [*self.cli_processes(), *readers]]
        return [p for p, parent in with_parent if parent is not None and parent not in live]

    def _is_in_folder(self, process: psutil.Process) -> bool:
        try:
            return str(self.folder).encode() in Path(f"/proc/{process.pid}/environ").read_bytes()
        except OSError:
            return False

    async def stop(self) -> list[str]:
        """Send SIGTERM to all. Return those that still run after STOP_SECONDS."""
        until = time.monotonic() + STOP_SECONDS
        for process in self._live.values():
            process.terminate()
        while staying := [name for name, process in self._live.items() if process.poll() is None]:
            if time.monotonic() > until:
                return staying
            await asyncio.sleep(0.05)
        return []

    def kill_all(self) -> None:
        for process in self._live.values():
            if process.poll() is None:
                process.kill()
                process.wait()
        for process in [*self.cli_processes(), *self.readers()]:
            with contextlib.suppress(psutil.Error):
                process.kill()


def _commands() -> Iterator[tuple[psutil.Process, str]]:
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.status() != psutil.STATUS_ZOMBIE:
                yield process, " ".join(process.cmdline())


def _command_line(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())[:300]
    except psutil.Error:
        return ""


def _parent_pid(process: psutil.Process) -> int | None:
    try:
        return process.ppid()
    except psutil.Error:
        return None


class Postgres:
    """The processes of the embedded server: paused, or killed and restarted by the processes that use it."""

    def __init__(self, home: Path) -> None:
        self._pid_file = home / "postgres" / "data" / "postmaster.pid"

    async def pause(self, seconds: float) -> None:
        stopped: list[psutil.Process] = []
        try:
            with contextlib.suppress(psutil.Error):
                main = self._main_process()
                for process in [main, *main.children(recursive=True)]:
                    process.suspend()
                    stopped.append(process)
            await asyncio.sleep(seconds)
        finally:
            for process in reversed(stopped):
                with contextlib.suppress(psutil.Error):
                    process.resume()

    def crash(self, how: signal.Signals) -> None:
        with contextlib.suppress(psutil.Error, OSError, ValueError):
            self._main_process().send_signal(how)

    def _main_process(self) -> psutil.Process:
        process = psutil.Process(int(self._pid_file.read_text().split("\n")[0]))
        if "postgres" not in " ".join(process.cmdline()):
            raise psutil.NoSuchProcess(process.pid)
        return process


# The load ------------------------------------------------------------------------------------------------------------


@dataclass
class ClientRun:
    """A run as its client knows it."""

    key: str
    label: str
    item_count: int
    ask: bool
    run_id: str | None = None
    seen: dict[int, str] = field(default_factory=dict)
    last: int = 0
    next_number: int = 1
    ended: bool = False
    approval: dict[str, Any] | None = None


class PermanentError(Exception):
    """An error that retrying does not fix."""


class Clients:
    def __init__(self, base_url: str, token: str, seed: int, counts: Counts) -> None:
        self._http = httpx.AsyncClient(
            base_url=base_url, headers={"Authorization": f"Bearer {token}"}, timeout=httpx.Timeout(20, connect=5)
        )
        self._random = random.Random(f"{seed} clients")
        self._seed = seed
        self._counts = counts
        self.followed: list[ClientRun] = []
        self.closing = False

    async def close(self) -> None:
        await self._http.aclose()

    async def work(self) -> None:
        document: str | None = None
        while not self.closing:
            try:
                if document is None or self._random.random() < 0.2:
                    document = await self._upload()
                number = len(self.followed)
                ask = self._random.random() < 0.25
                wanted = self._random.randint(1, 3) if ask else self._random.randint(4, 9)
                client_run = ClientRun(str(uuid4()), f"s{self._seed}r{number}", wanted, ask)
                self.followed.append(client_run)
                await self._complete_run(client_run, document)
            except PermanentError as refused:
                self._counts.add_fault("failed", f"a client was refused: {refused}")
                document = None
                await asyncio.sleep(1)

    async def _upload(self) -> str:
        async def once() -> str | None:
            answer = await self._http.post("/api/documents", files={"file": ("a.txt", b"Invoice number: 1\nTotal: 1")})
            return (
                answer.json()["id"] if answer.status_code == 201 else await self._raise_if_permanent("upload", answer)
            )

        return await self._retry(once)

    async def _complete_run(self, client_run: ClientRun, document: str) -> None:
        body = {
            "document_id": document,
            "instructions": f"label={client_run.label} items={client_run.item_count}",
            "approval": "ask" if client_run.ask else "auto",
            "auto_approved_tools": ["complete_extraction"],
        }
        sse = {"Accept": "text/event-stream"}

        async def start() -> bool | None:
            headers = {**sse, "Idempotency-Key": client_run.key}
            client_run.next_number = 1  # a run that was started before is streamed from its first event
            async with self._http.stream("POST", "/api/agent/extract", json=body, headers=headers) as answer:
                if answer.status_code != 200:
                    return await self._raise_if_permanent("start", answer)
                await self._read(answer, client_run)
            return True if client_run.run_id else None

        async def follow() -> bool | None:
            headers = {**sse, "Last-Event-ID": str(client_run.last)}
            client_run.next_number = client_run.last + 1
            async with self._http.stream("GET", f"/api/runs/{client_run.run_id}/events", headers=headers) as answer:
                if answer.status_code != 200:
                    return await self._raise_if_permanent("events", answer)
                await self._read(answer, client_run)
            return True if client_run.ended or client_run.approval else None

        async def decide() -> bool | None:
            if client_run.approval is None:  # decided, but disconnected before the response ended
                return True
            approved = self._random.random() < 0.85
            said = {"call_id": client_run.approval["call_id"], "approved": approved}
            if not approved:
                said["reason"] = "Look again."
            request = {"run_id": client_run.run_id, "approvals": [said]}
            async with self._http.stream("POST", "/api/agent/approve", json=request, headers=sse) as answer:
                if answer.status_code in (200, 409):
                    self._counts.decisions[str(answer.status_code)] += 1
                    client_run.approval = None
                    return True
                return await self._raise_if_permanent("approve", answer)

        await self._retry(start)
        while not client_run.ended:
            if client_run.approval:
                await asyncio.sleep(self._random.uniform(0, 1))
                await self._retry(decide)
            else:
                await self._retry(follow)

    async def _retry(self, once: Callable[[], Any]) -> Any:
        while True:
            try:
                # Disconnect at a random moment.
                async with asyncio.timeout(max(0.3, self._random.expovariate(1 / 8))):
                    done = await once()
                if done:
                    return done
            except TimeoutError:
                self._counts.disconnections += 1
            except httpx.HTTPError as error:
                self._counts.retries[type(error).__name__] += 1
            await asyncio.sleep(self._random.uniform(0.1, 0.4))

    async def _raise_if_permanent(self, what: str, answer: httpx.Response) -> None:
        self._counts.retries[f"{what} {answer.status_code}"] += 1
        if answer.is_client_error:
            raise PermanentError(f"{what} {answer.status_code} {(await answer.aread()).decode()}")

    async def _read(self, answer: httpx.Response, client_run: ClientRun) -> None:
        number, body = 0, ""
        async for line in answer.aiter_lines():
            if line.startswith(": run "):
                client_run.run_id = client_run.run_id or line.removeprefix(": run ").strip()
            elif line.startswith("id: "):
                number = int(line[4:])
            elif line.startswith("data: "):
                body = line[6:]
            elif not line and body:  # complete: a partial event does not count
                self._add_event(client_run, number, body)
                body = ""

    def _add_event(self, client_run: ClientRun, number: int, body: str) -> None:
        if number != client_run.next_number:
            what = "lost" if number > client_run.next_number else "duplicated"
            self._counts.add_fault(
                what, f"{client_run.label}: event {number} arrived instead of {client_run.next_number}"
            )
        if client_run.seen.get(number, body) != body:
            self._counts.add_fault("duplicated", f"{client_run.label}: event {number} differs from before")
        client_run.next_number = number + 1
        client_run.seen[number] = body
        client_run.last = max(client_run.last, number)
        event = json.loads(body)
        client_run.run_id = event.get("run_id", client_run.run_id)
        if number == client_run.last:
            client_run.approval = event["approval"] if event.get("type") == "approval" else None
        client_run.ended = client_run.ended or event.get("type") in END_TYPES


# The kills -----------------------------------------------------------------------------------------------------------


class Chaos:
    def __init__(self, processes: Processes, postgres: Postgres, owner_url: str, seed: int, counts: Counts) -> None:
        self._processes = processes
        self._postgres = postgres
        self._owner_url = owner_url
        self._random = random.Random(f"{seed} faults")
        self._counts = counts
        self._orphaned_since: dict[int, float] = {}

    async def kill(self, count: int, every_seconds: float) -> None:
        at_commit: asyncio.Task[None] | None = None
        try:
            while sum(self._counts.kills.values()) < count:
                await asyncio.sleep(min(self._random.expovariate(1 / every_seconds), 4 * every_seconds))
                what = self._random.choices(("worker", "cli", "api", "commit"), (30, 20, 20, 30))[0]
                if what == "commit":
                    if at_commit is None or at_commit.done():
                        at_commit = asyncio.create_task(self._kill_at_moment(self._random.choice(AT_COMMITS)))
                elif what == "cli":
                    self._kill_a_cli()
                # Mostly running processes: killing starting ones proves little.
                elif pids := self._processes.pids(what, up=True):
                    self._count(what, self._processes.kill(self._random.choice(pids)))
                elif self._random.random() < 0.1 and (pids := self._processes.pids(what)):
                    self._count(f"{what}, starting", self._processes.kill(self._random.choice(pids)))
        finally:
            if at_commit is not None:
                at_commit.cancel()

    def _kill_a_cli(self) -> None:
        if cli_processes := self._processes.cli_processes():
            with contextlib.suppress(psutil.Error):
                self._random.choice(cli_processes).kill()
                self._counts.kills["cli"] += 1

    def _count(self, what: str, killed: bool) -> None:
        self._counts.kills[what] += killed

    async def _kill_at_moment(self, moment: str) -> None:
        """Kill the worker of the next run that reaches this moment."""
        pause = self._random.uniform(0, 0.02) if self._random.random() < 0.5 else 0
        worker = None
        with contextlib.suppress(psycopg.Error, TimeoutError):
            worker = await asyncio.to_thread(self._worker_at, moment)
        if worker is not None:
            time.sleep(pause)
            self._count(f"worker, {moment}", self._processes.kill(worker))

    def _worker_at(self, moment: str) -> int | None:
        """Wait until a run reaches this moment and return its worker's process id. The worker is found by its CLI,
        whose command line names the session. A reused CLI names another session; then any worker is chosen."""
        until = time.monotonic() + 5
        with psycopg.connect(self._owner_url, autocommit=True, row_factory=dict_row, connect_timeout=2) as owner:
            owner.execute("set statement_timeout = '3s'")
            owner.execute("listen fieldmark_run_events")
            while time.monotonic() < until:
                if moment == "approved":
                    time.sleep(0.002)
                    query = """select run_id from public.tool_calls where status = 'approved'
                               and created_at > clock_timestamp() - interval '1 second'"""
                    runs = [str(row["run_id"]) for row in owner.execute(query)]
                else:
                    runs = [notification.payload for notification in owner.notifies(timeout=0.2, stop_after=1)]
                    runs = [run for run in runs if self._is_at_moment(owner, run, moment)]
                for run in runs:
                    if worker := self._find_worker_pid(owner, run):
                        return worker
        return None

    def _is_at_moment(self, owner: psycopg.Connection[dict[str, Any]], run_id: str, moment: str) -> bool:
        query = "select body::text as body from public.run_events where run_id = %s order by number desc limit 1"
        found = owner.execute(query, [run_id]).fetchone()
        event = json.loads(found["body"]) if found else {}
        kind = event.get("type")
        return {
            "taken": kind == "run",
            "done": kind == "changed",
            "approval": kind == "approval",
            "before the end": event.get("tool_result") in ("complete_extraction", "extract_fields") or kind == "text",
            "after the end": kind == "complete",
        }[moment]

    def _find_worker_pid(self, owner: psycopg.Connection[dict[str, Any]], run_id: str) -> int | None:
        found = owner.execute("select session_id from public.runs where id = %s", [run_id]).fetchone()
        session = str(found["session_id"]) if found else "none"
        live = self._processes.pids("worker")
        for cli in self._processes.cli_processes():
            with contextlib.suppress(psutil.Error):
                if session in cli.cmdline() and cli.ppid() in live:
                    return cli.ppid()
        return self._random.choice(live) if live else None

    async def stop_postgres(self) -> None:
        while True:
            await asyncio.sleep(self._random.uniform(5, 40))
            what = self._random.choices(("halt", "immediate", "kill"), (60, 20, 20))[0]
            self._counts.stops[what] += 1
            if what == "halt":
                await self._postgres.pause(self._random.uniform(0.2, 2))
            else:
                self._postgres.crash(signal.SIGQUIT if what == "immediate" else signal.SIGKILL)

    async def restart_processes(self) -> None:
        while True:
            self._processes.restart_processes()
            await asyncio.sleep(0.1)

    async def watch(self) -> None:
        """Report processes that outlive their worker by ORPHAN_SECONDS, and jobs held by a dead worker for
        HELD_SECONDS."""
        reported_jobs: set[int] = set()
        while True:
            await asyncio.sleep(1)
            now = time.monotonic()
            orphans_now = dict[int, str]()
            for process in self._processes.orphans():
                if command := _command_line(process):
                    orphans_now[process.pid] = command
            for pid in [pid for pid in self._orphaned_since if pid not in orphans_now]:
                del self._orphaned_since[pid]
            for pid, command in orphans_now.items():
                first = self._orphaned_since.setdefault(pid, now)
                if first < now - ORPHAN_SECONDS:
                    self._counts.add_fault("orphaned", f"process {pid} outlives its worker: {command}")
                    self._orphaned_since[pid] = float("inf")
            with contextlib.suppress(psycopg.Error, TimeoutError):
                async with asyncio.timeout(5):  # in Python 3.11, wait_for may lose a cancellation
                    jobs, failures = await asyncio.to_thread(held_jobs, self._owner_url)
                self._counts.most_failures = max(self._counts.most_failures, failures)
                for job in jobs:
                    if job["id"] not in reported_jobs:
                        reported_jobs.add(job["id"])
                        self._counts.add_fault(
                            "orphaned", f"job {job['id']} is held by a dead worker ({job['silent']})"
                        )


def held_jobs(owner_url: str) -> tuple[list[dict[str, Any]], int]:
    """Return the jobs that dead workers still hold, and the maximum number of consecutive claims of a run without a
    finished call."""
    with psycopg.connect(owner_url, autocommit=True, row_factory=dict_row, connect_timeout=2) as owner:
        owner.execute("set statement_timeout = '3s'")
        query = """select j.id, now() - w.last_heartbeat as silent from queue.procrastinate_jobs as j
                   join queue.procrastinate_workers as w on w.id = j.worker_id
                   where j.status = 'doing' and w.last_heartbeat < now() - make_interval(secs => %s)"""
        worst = owner.execute("select coalesce(max(consecutive_failures), 0) as most from public.runs").fetchone()
        return owner.execute(query, [HELD_SECONDS]).fetchall(), worst["most"] if worst else 0


# The checks ----------------------------------------------------------------------------------------------------------


def check_runs(owner_url: str, followed: list[ClientRun], counts: Counts) -> collections.Counter[str]:
    """Compare calls, journal, events and the events seen by clients. Return the number of runs by status."""
    ends: collections.Counter[str] = collections.Counter()
    with psycopg.connect(owner_url, autocommit=True, row_factory=dict_row) as owner:
        for client_run in followed:
            runs = owner.execute("select * from public.runs where idempotency_key = %s", [client_run.key]).fetchall()
            if len(runs) > 1:
                counts.add_fault("duplicated", f"{client_run.label}: started {len(runs)} times")
            if not runs:
                if client_run.run_id is not None:
                    counts.add_fault("lost", f"{client_run.label}: the run is gone")
                continue
            run = runs[0]
            if client_run.run_id not in (None, str(run["id"])):
                counts.add_fault("lost", f"{client_run.label}: the run id in the response differs from the stored one")
            ends[run["status"] if run["error_code"] is None else f"{run['status']}, {run['error_code']}"] += 1
            if run["status"] in ("queued", "running"):
                claims = f"claimed {run['fencing_token']} times"
                counts.add_fault("stuck", f"{client_run.label}: run {run['id']} is {run['status']}, {claims}")
            elif run["status"] != "awaiting_approval" and run["status"] != "completed":
                counts.add_fault("failed", f"{client_run.label}: run {run['id']} {run['status']}, {run['error_code']}")
            _check_events(owner, run, client_run, counts)
            _check_fields(owner, run, client_run, counts)
        jobs = owner.execute("select * from queue.procrastinate_jobs where status in ('todo', 'doing')").fetchall()
        for job in jobs:
            counts.add_fault("stuck", f"job {job['id']} {job['task_name']} is {job['status']}: {job['args']}")
    return ends


def _check_events(owner: Any, run: dict[str, Any], client_run: ClientRun, counts: Counts) -> None:
    query = "select number, body::text as body from public.run_events where run_id = %s order by number"
    rows = owner.execute(query, [run["id"]]).fetchall()
    numbers = [row["number"] for row in rows]
    if numbers != list(range(1, len(numbers) + 1)):
        counts.add_fault("lost", f"{client_run.label}: the events have gaps: {numbers}")
    kept = {row["number"]: row["body"] for row in rows}
    for number, body in client_run.seen.items():
        if number not in kept or json.loads(kept[number]) != json.loads(body):
            counts.add_fault("lost", f"{client_run.label}: event {number} was streamed, but is not stored")
    events = [json.loads(row["body"]) for row in rows]
    if client_run.ended and len(client_run.seen) != len(kept):
        counts.add_fault("lost", f"{client_run.label}: a reader saw {len(client_run.seen)} of {len(kept)} events")
    last = [n for n, event in enumerate(events) if event.get("type") in END_TYPES]
    if run["status"] in ("completed", "failed", "cancelled") and last != [len(events) - 1]:
        counts.add_fault(
            "lost" if not last else "duplicated", f"{client_run.label}: ends at {last} of {len(events)} events"
        )
    if sum(event.get("type") == "run" for event in events) > 1:
        counts.add_fault("duplicated", f"{client_run.label}: begins twice")


def _check_fields(owner: Any, run: dict[str, Any], client_run: ClientRun, counts: Counts) -> None:
    extraction = owner.execute("select * from public.extractions where id = %s", [run["extraction_id"]]).fetchone()
    journal = owner.execute(
        "select * from public.extraction_journal where extraction_id = %s order by id", [run["extraction_id"]]
    ).fetchall()
    calls = owner.execute("select * from public.tool_calls where run_id = %s", [run["id"]]).fetchall()
    changes = owner.execute(
        "select body from public.run_events where run_id = %s and body ->> 'type' = 'changed' order by number",
        [run["id"]],
    ).fetchall()
    there = extraction["extracted_fields"].get("items", [])
    written = [call for call in calls if call["tool"] != "complete_extraction" and call["status"] == "done"]
    written = [call for call in written if call["code"] == "stored"]
    for call_ in written:
        arguments = call_["arguments"]
        if call_["tool"] == "extract_fields":
            is_stored = extraction["extracted_fields"].items() >= arguments["fields"].items()
            is_completed = call_["data"]["complete_extraction"] == "completed"
            is_stored &= is_completed is (extraction["status"] == "completed")
        else:
            at = int(re.findall(r"\d+", arguments["path"])[0])
            is_stored = at < len(there) and there[at] == arguments["value"]
        if not is_stored:
            counts.add_fault("lost", f"{client_run.label}: {call_['arguments']} is recorded as done, but not stored")
        if call_["id"] not in [entry["call_id"] for entry in journal]:
            counts.add_fault("lost", f"{client_run.label}: call {call_['id']} is not in the journal")
    for path, count in collections.Counter(tuple(entry["path"]) for entry in journal).items():
        if count > 1:
            counts.add_fault("duplicated", f"{client_run.label}: {path} was written {count} times")
    for entry in journal:
        if entry["call_id"] not in [call_["id"] for call_ in written]:
            counts.add_fault(
                "duplicated", f"{client_run.label}: {entry['path']} was written, but no call is recorded as done"
            )
    if sorted(change["body"]["version"] for change in changes) != sorted(entry["version"] for entry in journal):
        counts.add_fault("lost", f"{client_run.label}: {len(changes)} events for {len(journal)} changes")
    names = [value.rsplit("-", 1)[0] for value in there]
    if len(set(names)) < len(names):
        counts.add_fault("duplicated", f"{client_run.label}: {there}")
    if run["status"] == "completed" and names != [f"{client_run.label}-{n}" for n in range(client_run.item_count)]:
        counts.add_fault("lost", f"{client_run.label}: completed with {there}, expected {client_run.item_count} items")


# Main ----------------------------------------------------------------------------------------------------------------


async def run_chaos(options: argparse.Namespace, folder: Path, counts: Counts) -> int:
    begin = time.monotonic()
    home = folder / "home"
    home.mkdir()
    async with OfflineModel(answer) as server:
        with embedded_postgres(home, 18) as database:
            processes = Processes(folder, server.base_url, options.workers)
            try:
                return await _run_under_load(
                    options, processes, Postgres(home), database.owner_url, home, counts, begin
                )
            finally:
                processes.kill_all()


async def _run_under_load(
    options: argparse.Namespace,
    processes: Processes,
    postgres: Postgres,
    owner_url: str,
    home: Path,
    counts: Counts,
    begin: float,
) -> int:
    run_chaos = Chaos(processes, postgres, owner_url, options.seed, counts)
    processes.restart_processes()
    token = LocalTokens(home).sign(uuid4())
    clients = Clients(processes.url, token, options.seed, counts)
    background_tasks = [asyncio.create_task(run_chaos.restart_processes()), asyncio.create_task(run_chaos.watch())]
    working = [asyncio.create_task(clients.work()) for _ in range(options.clients)]
    stopping: asyncio.Task[None] | None = None
    killed_for = 0.0
    try:
        while not any(client_run.seen for client_run in clients.followed):  # no kills until the first run has started
            await asyncio.sleep(0.1)
        stopping = asyncio.create_task(run_chaos.stop_postgres())
        first_kill = time.monotonic()
        killing = asyncio.create_task(run_chaos.kill(options.kills, options.every))
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, killing.cancel)  # end the kills early
        await asyncio.wait({killing}, timeout=options.seconds)
        killing.cancel()
        for error in await asyncio.gather(killing, return_exceptions=True):
            if isinstance(error, Exception):
                raise error
        asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)
        killed_for = time.monotonic() - first_kill
        stopping.cancel()
        await asyncio.gather(stopping, return_exceptions=True)
        clients.closing = True
        settle = time.monotonic()
        _, waiting_clients = await asyncio.wait(working, timeout=SETTLE_SECONDS)
        for client_run in clients.followed if waiting_clients else []:
            if not client_run.ended:
                counts.add_fault(
                    "stuck",
                    f"{client_run.label}: its client still waits after {SETTLE_SECONDS} s, run {client_run.run_id}",
                )
        await asyncio.to_thread(_wait_until_queue_is_empty, owner_url)
        settled_in = time.monotonic() - settle
        for task in waiting_clients:
            task.cancel()
        for task in await asyncio.gather(*working, return_exceptions=True):
            if isinstance(task, Exception):
                counts.add_fault("failed", f"a client: {task!r}")
        ends = check_runs(owner_url, clients.followed, counts)
        for task in background_tasks:
            task.cancel()
        await asyncio.gather(*background_tasks, return_exceptions=True)
        for name in await processes.stop():
            counts.add_fault("stuck", f"{name} still runs {STOP_SECONDS} s after SIGTERM")
        ended = time.monotonic()
        while left := [*processes.cli_processes(), *processes.readers()]:
            if time.monotonic() > ended + ORPHAN_SECONDS:
                break
            await asyncio.sleep(0.1)
        for process in left:
            command = _command_line(process)
            counts.add_fault("orphaned", f"process {process.pid} still runs after all workers have ended: {command}")
    finally:
        for task in [*background_tasks, *working, *([stopping] if stopping else [])]:
            task.cancel()
        await clients.close()
    with psycopg.connect(owner_url, row_factory=dict_row) as owner:
        sums = owner.execute(
            """select sum(fencing_token) as claims, max(fencing_token) as most,
                 (select count(*) from public.tool_calls where status = 'done') as calls,
                 (select count(*) from public.run_events) as events from public.runs"""
        ).fetchone()
    assert sums is not None
    in_order = counts.print_report(
        f"runs        {len(clients.followed)}: {_format_counts(ends)}",
        f"claims      {sums['claims']}, at most {sums['most']} for a run, {counts.most_failures} without a call done",
        f"written     {sums['calls']} calls done, {sums['events']} events",
        f"decisions   {_format_counts(counts.decisions)}",
        f"end         all ended after {settled_in:.0f} s",
        f"folders     {len(list((processes.folder / 'tmp').iterdir()))} left for the next worker to remove",
        f"time        {time.monotonic() - begin:.0f} s, {killed_for:.0f} s of kills, seed {options.seed}",
    )
    return 0 if in_order else 1


def _wait_until_queue_is_empty(owner_url: str) -> None:
    """Wait until the queue is empty. A job whose worker was killed after the run's end is claimed once more."""
    until = time.monotonic() + HELD_SECONDS + 10
    query = "select 1 from queue.procrastinate_jobs where status in ('todo', 'doing') limit 1"
    while time.monotonic() < until:
        try:
            with psycopg.connect(owner_url, autocommit=True, connect_timeout=5) as owner:
                if not owner.execute(query).fetchall():
                    return
        except psycopg.OperationalError:
            pass  # Postgres may just be restarting
        time.sleep(0.5)


def _format_counts(counter: collections.Counter[str]) -> str:
    return ", ".join(f"{count} {what}" for what, count in sorted(counter.items()))


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--every", type=float, default=1.5, help="seconds between kills, on average")
    parser.add_argument("--seconds", type=float, default=3600, help="kill no longer than this")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--clients", type=int, default=6)
    options = parser.parse_args()
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)  # stops all processes first
    folder = Path(tempfile.mkdtemp(prefix="fieldmark-chaos-"))
    folder.chmod(0o755)  # the CLI's own user must be able to reach its folder
    counts = Counts()

    try:
        with time_limit(options.seconds + AFTERWARDS_SECONDS, folder):
            return await run_chaos(options, folder, counts)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    restore_signals()
    sys.exit(asyncio.run(main()))
