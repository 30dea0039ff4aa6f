"""Whether anything is lost when processes die: kills workers, the API, CLIs and Postgres under load, then counts.

An API process and several workers share an embedded Postgres in a folder of their own; a model that decides its next
turn from the conversation answers; customers start runs over HTTP, follow their streams, decide what waits, and try
again when they are cut off. Meanwhile processes are killed (SIGKILL), some at random and some right at a commit: a run
taken, a call approved or done, an approval asked for, the end of a run. Postgres stands still, or is itself killed,
every 5 to 40 seconds. When the kills are over, all runs must end, and the ledger, the journal, the events and what
readers saw must agree:

    lost        a call recorded done that the extraction or its journal does not hold, an event or a run that is missing
    duplicated  an item, a path or an event written twice, a run started twice, an event seen twice or out of order
    stuck       a run that neither ended nor waits for a person
    orphaned    a CLI or a reader of documents whose worker is gone, a job that a dead worker holds for a minute

    pip install '.[test]' && python tests/chaos.py --kills 100 --seed 1

Ends with 1 if any of these is not 0, or a run failed. Ctrl-C ends the kills early, and counts. The seed gives the order
of faults; what they hit differs.
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

from processes import bounded, free_port, heed_signals

COMMAND = ("-c", "from fieldmark.cli import main; main()")
# Should this program itself be killed, what it started goes too.
WITH_US = ("setpriv", "--pdeathsig", "KILL") if shutil.which("setpriv") else ()
ENDS = ("complete", "error")
AT_COMMITS = ("taken", "approved", "done", "approval", "before the end", "after the end")
BROKEN_OFF = "started before and interrupted"
SETTLE_SECONDS = 180
HELD_SECONDS = 60
STOP_SECONDS = 40
ORPHAN_SECONDS = 8
# What follows the last kill takes so long at most: the runs settle, the queue empties, all are told to end.
AFTERWARDS_SECONDS = SETTLE_SECONDS + HELD_SECONDS + STOP_SECONDS + 50


# The model -----------------------------------------------------------------------------------------------------------


async def answer(body: Body) -> list[Any]:
    """The next turn of a sensible agent, told from the conversation alone. It writes the items of a list one by one,
    each with a value never used again, so that an item that was written twice shows."""
    await asyncio.sleep(random.uniform(0.02, 0.3))
    said = "".join(_texts(body))
    task = re.search(r"label=(\S+) items=(\d+)", said)
    if task is None:
        return [text("There is nothing to do.")]
    label, wanted = task[1], int(task[2])
    have: int | None = 0
    calls: dict[str, str] = {}
    for message in objects_in(body, "messages"):
        for block in _blocks(message):
            if block.get("type") == "text" and message["role"] == "user" and BROKEN_OFF in block["text"]:
                have = None
            elif block.get("type") == "tool_use":
                calls[block["id"]] = block["name"].rsplit("__", 1)[-1]
            elif block.get("type") == "tool_result":
                have = _after(calls.get(block["tool_use_id"], ""), block, have)
    if not calls:
        return [call("get_document_text")]
    if have is None:
        return [call("get_current_extraction")]
    if have == COMPLETE:
        return [text(f"Done: {label}.")]
    if have >= wanted:
        return [call("complete_extraction", {"summary": label})]
    value = f"{label}-{have}-{uuid4().hex[:8]}"
    return [call("update_field", {"path": f"items[{have}]", "value": value, "confidence": 0.9})]


COMPLETE = -1


def _after(tool: str, result: dict[str, Any], have: int | None) -> int | None:
    """How many items there are, as far as a tool's answer tells; None: look."""
    words = result.get("content")
    words = words if isinstance(words, str) else "".join(part.get("text", "") for part in words or [])
    last = words.rsplit("\n", 1)[-1]
    code = json.loads(last)["code"] if last.startswith('{"code"') else "ok"
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
    if tool == "complete_extraction":
        return COMPLETE if code == "completed" else None
    return have


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content or [])


def _texts(body: Body) -> Iterator[str]:
    for message in objects_in(body, "messages"):
        for block in _blocks(message):
            if block.get("type") == "text":
                yield block["text"]


# What is killed ------------------------------------------------------------------------------------------------------


@dataclass
class Figures:
    """What is counted on the way."""

    kills: collections.Counter[str] = field(default_factory=collections.Counter)
    stops: collections.Counter[str] = field(default_factory=collections.Counter)
    cuts: int = 0
    most_failures: int = 0
    tries_of_clients: collections.Counter[str] = field(default_factory=collections.Counter)
    decisions: collections.Counter[str] = field(default_factory=collections.Counter)
    faults: dict[str, list[str]] = field(default_factory=lambda: collections.defaultdict(list))

    def found(self, what: str, detail: str) -> None:
        self.faults[what].append(detail)

    def show(self, *lines: str) -> bool:
        """Print all of it, these lines in the middle. Answers whether it is all in order."""
        for what, details in self.faults.items():
            for detail in details[:10]:
                print(f"{what}: {detail}", file=sys.stderr)
        print(f"kills       {sum(self.kills.values())}: {_counted(self.kills)}")
        print(f"postgres    {sum(self.stops.values())} times: {_counted(self.stops)}")
        print(f"readers     cut {self.cuts} times; tried again after {_counted(self.tries_of_clients) or 'nothing'}")
        print(*lines, sep="\n")
        counted = {what: len(self.faults[what]) for what in ("lost", "duplicated", "stuck", "orphaned", "failed")}
        print(" ".join(f"{what} {count}" for what, count in counted.items()))
        return not any(counted.values())


class Processes:
    """The API and the workers: started, killed by their pids, started again."""

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
        self._due: dict[str, float] = {}
        self._from: dict[str, int] = {}
        self.ever: set[int] = set()

    def keep_up(self) -> None:
        """Start what does not run and is due."""
        for name in self._commands:
            process = self._live.get(name)
            if process is not None and process.poll() is not None:
                del self._live[name]
                self._due.setdefault(name, time.monotonic() + 0.3)
            if name not in self._live and self._due.get(name, 0) <= time.monotonic():
                self._due.pop(name, None)
                self._start(name)

    def _start(self, name: str) -> None:
        with self._log(name).open("ab") as log:
            self._from[name] = log.tell()
            process = subprocess.Popen(
                [*WITH_US, sys.executable, *COMMAND, *self._commands[name]],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=self._environment,
                start_new_session=True,
            )
        self._live[name] = process
        self.ever.add(process.pid)

    def pids(self, kind: str, *, up: bool = False) -> list[int]:
        """The pids of the API processes or the workers; with `up` of those that have said that they are at work."""
        live = [(name, p.pid) for name, p in self._live.items() if name.startswith(kind) and p.poll() is None]
        return [pid for name, pid in live if not up or self._is_up(name)]

    def _is_up(self, name: str) -> bool:
        with self._log(name).open("rb") as log:
            log.seek(self._from[name])
            return any(line.startswith((b"Fieldmark is running", b"Worker started")) for line in log)

    def _log(self, name: str) -> Path:
        return self.folder / f"{name.replace(' ', '-')}.log"

    def kill(self, pid: int) -> bool:
        """SIGKILL one of ours; False if it has gone meanwhile."""
        for name, process in list(self._live.items()):
            if process.pid == pid and process.poll() is None:
                process.kill()
                process.wait()
                del self._live[name]
                self._due[name] = time.monotonic() + random.uniform(0, 0.5)
                return True
        return False

    def cli_processes(self) -> list[psutil.Process]:
        """Every CLI that one of our workers, dead or alive, has started: its home lies in our folder."""
        return [p for p, command in _commands() if "/proc/self/fd/9" in command and self._is_ours(p)]

    def readers(self) -> list[psutil.Process]:
        """Readers of files and what they are forked from: these name the service's process in their commands."""
        found: list[psutil.Process] = []
        for process, command in _commands():
            service = re.search(r"forkserver\.main\(\) (?:plain|ocr) (\d+)", command)
            if service and int(service[1]) in self.ever:
                found.append(process)
        return found

    def orphans(self) -> list[psutil.Process]:
        """CLIs and readers whose parent is none of the live workers."""
        readers = self.readers()
        live = {*self.pids("worker"), *(reader.pid for reader in readers)}
        with_parent = [(p, _parent_of(p)) for p in [*self.cli_processes(), *readers]]
        return [p for p, parent in with_parent if parent is not None and parent not in live]

    def _is_ours(self, process: psutil.Process) -> bool:
        try:
            return str(self.folder).encode() in Path(f"/proc/{process.pid}/environ").read_bytes()
        except OSError:
            return False

    async def stop(self) -> list[str]:
        """SIGTERM to all; answers which of them stay too long."""
        until = time.monotonic() + STOP_SECONDS
        for process in self._live.values():
            process.terminate()
        while staying := [name for name, process in self._live.items() if process.poll() is None]:
            if time.monotonic() > until:
                return staying
            await asyncio.sleep(0.05)
        return []

    def end(self) -> None:
        """Whatever happened: nothing of ours stays."""
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


def _command_of(process: psutil.Process) -> str:
    """How its command line begins; empty once it has ended."""
    try:
        return " ".join(process.cmdline())[:300]
    except psutil.Error:
        return ""


def _parent_of(process: psutil.Process) -> int | None:
    try:
        return process.ppid()
    except psutil.Error:
        return None


class Postgres:
    """The embedded server's processes: halted, or killed and left to be started again by those that use it."""

    def __init__(self, home: Path) -> None:
        self._pid_file = home / "postgres" / "data" / "postmaster.pid"

    async def halt(self, seconds: float) -> None:
        stopped: list[psutil.Process] = []
        try:
            with contextlib.suppress(psutil.Error):
                main = self._main()
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
            self._main().send_signal(how)

    def _main(self) -> psutil.Process:
        process = psutil.Process(int(self._pid_file.read_text().split("\n")[0]))
        if "postgres" not in " ".join(process.cmdline()):
            raise psutil.NoSuchProcess(process.pid)
        return process


# The load ------------------------------------------------------------------------------------------------------------


@dataclass
class Followed:
    """One run as its customer knows it."""

    key: str
    label: str
    wanted: int
    ask: bool
    run_id: str | None = None
    seen: dict[int, str] = field(default_factory=dict)
    last: int = 0
    due: int = 1
    ended: bool = False
    waits: dict[str, Any] | None = None


class Refused(Exception):
    """What no trying again mends."""


class Customers:
    """People (or their programs) who start runs, watch them, decide, and try again whenever they are cut off."""

    def __init__(self, base_url: str, token: str, seed: int, figures: Figures) -> None:
        self._http = httpx.AsyncClient(
            base_url=base_url, headers={"Authorization": f"Bearer {token}"}, timeout=httpx.Timeout(20, connect=5)
        )
        self._random = random.Random(f"{seed} customers")
        self._seed = seed
        self._figures = figures
        self.followed: list[Followed] = []
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
                one = Followed(str(uuid4()), f"s{self._seed}r{number}", wanted, ask)
                self.followed.append(one)
                await self._see_through(one, document)
            except Refused as refused:
                self._figures.found("failed", f"a customer was refused: {refused}")
                document = None
                await asyncio.sleep(1)

    async def _upload(self) -> str:
        async def once() -> str | None:
            answer = await self._http.post("/api/documents", files={"file": ("a.txt", b"Invoice number: 1\nTotal: 1")})
            return answer.json()["id"] if answer.status_code == 201 else await self._failed("upload", answer)

        return await self._until(once)

    async def _see_through(self, one: Followed, document: str) -> None:
        body = {
            "document_id": document,
            "instructions": f"label={one.label} items={one.wanted}",
            "approval": "ask" if one.ask else "auto",
            "auto_approved_tools": ["complete_extraction"],
        }
        sse = {"Accept": "text/event-stream"}

        async def start() -> bool | None:
            headers = {**sse, "Idempotency-Key": one.key}
            one.due = 1  # a run that was started before is shown from its first event again
            async with self._http.stream("POST", "/api/agent/extract", json=body, headers=headers) as answer:
                if answer.status_code != 200:
                    return await self._failed("start", answer)
                await self._read(answer, one)
            return True if one.run_id else None

        async def follow() -> bool | None:
            headers = {**sse, "Last-Event-ID": str(one.last)}
            one.due = one.last + 1
            async with self._http.stream("GET", f"/api/runs/{one.run_id}/events", headers=headers) as answer:
                if answer.status_code != 200:
                    return await self._failed("events", answer)
                await self._read(answer, one)
            return True if one.ended or one.waits else None

        async def decide() -> bool | None:
            if one.waits is None:  # decided, and cut off while the answer was closed
                return True
            approved = self._random.random() < 0.85
            said = {"call_id": one.waits["call_id"], "approved": approved}
            if not approved:
                said["reason"] = "Look again."
            request = {"run_id": one.run_id, "approvals": [said]}
            async with self._http.stream("POST", "/api/agent/approve", json=request, headers=sse) as answer:
                if answer.status_code in (200, 409):
                    self._figures.decisions[str(answer.status_code)] += 1
                    one.waits = None
                    return True
                return await self._failed("approve", answer)

        await self._until(start)
        while not one.ended:
            if one.waits:
                await asyncio.sleep(self._random.uniform(0, 1))
                await self._until(decide)
            else:
                await self._until(follow)

    async def _until(self, once: Callable[[], Any]) -> Any:
        while True:
            try:
                # A client that is cut off at a random moment, and comes back.
                async with asyncio.timeout(max(0.3, self._random.expovariate(1 / 8))):
                    done = await once()
                if done:
                    return done
            except TimeoutError:
                self._figures.cuts += 1
            except httpx.HTTPError as error:
                self._figures.tries_of_clients[type(error).__name__] += 1
            await asyncio.sleep(self._random.uniform(0.1, 0.4))

    async def _failed(self, what: str, answer: httpx.Response) -> None:
        self._figures.tries_of_clients[f"{what} {answer.status_code}"] += 1
        if answer.is_client_error:
            raise Refused(f"{what} {answer.status_code} {(await answer.aread()).decode()}")

    async def _read(self, answer: httpx.Response, one: Followed) -> None:
        number, body = 0, ""
        async for line in answer.aiter_lines():
            if line.startswith(": run "):
                one.run_id = one.run_id or line.removeprefix(": run ").strip()
            elif line.startswith("id: "):
                number = int(line[4:])
            elif line.startswith("data: "):
                body = line[6:]
            elif not line and body:  # whole: one that is cut off in the middle counts for nothing
                self._take(one, number, body)
                body = ""

    def _take(self, one: Followed, number: int, body: str) -> None:
        if number != one.due:
            what = "lost" if number > one.due else "duplicated"
            self._figures.found(what, f"{one.label}: event {number} came in place of {one.due}")
        if one.seen.get(number, body) != body:
            self._figures.found("duplicated", f"{one.label}: event {number} is another than before")
        one.due = number + 1
        one.seen[number] = body
        one.last = max(one.last, number)
        event = json.loads(body)
        one.run_id = event.get("run_id", one.run_id)
        if number == one.last:
            one.waits = event["approval"] if event.get("type") == "approval" else None
        one.ended = one.ended or event.get("type") in ENDS


# The chaos -----------------------------------------------------------------------------------------------------------


class Chaos:
    def __init__(self, processes: Processes, postgres: Postgres, owner_url: str, seed: int, figures: Figures) -> None:
        self._processes = processes
        self._postgres = postgres
        self._owner_url = owner_url
        self._random = random.Random(f"{seed} faults")
        self._figures = figures
        self._strange: dict[int, float] = {}

    async def kill(self, count: int, every_seconds: float) -> None:
        at_commit: asyncio.Task[None] | None = None
        try:
            while sum(self._figures.kills.values()) < count:
                await asyncio.sleep(min(self._random.expovariate(1 / every_seconds), 4 * every_seconds))
                what = self._random.choices(("worker", "cli", "api", "commit"), (30, 20, 20, 30))[0]
                if what == "commit":
                    if at_commit is None or at_commit.done():
                        at_commit = asyncio.create_task(self._kill_at(self._random.choice(AT_COMMITS)))
                elif what == "cli":
                    self._kill_a_cli()
                # Mostly one that is at work: those that just start would be hit all the time, and prove little.
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
                self._figures.kills["cli"] += 1

    def _count(self, what: str, killed: bool) -> None:
        self._figures.kills[what] += killed

    async def _kill_at(self, moment: str) -> None:
        """Kill the worker of the next run that comes to this moment; whichever worker, if none does in time."""
        pause = self._random.uniform(0, 0.02) if self._random.random() < 0.5 else 0
        worker = None
        with contextlib.suppress(psycopg.Error, TimeoutError):
            worker = await asyncio.to_thread(self._worker_at, moment)
        if worker is not None:
            time.sleep(pause)
            self._count(f"worker, {moment}", self._processes.kill(worker))

    def _worker_at(self, moment: str) -> int | None:
        """The pid of the worker whose run just came there: found by its CLI, which names its first conversation; one
        that was kept from an earlier run does not tell, and any worker is taken."""
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
                    runs = [run for run in runs if self._is_at(owner, run, moment)]
                for run in runs:
                    if worker := self._worker_of(owner, run):
                        return worker
        return None

    def _is_at(self, owner: psycopg.Connection[dict[str, Any]], run_id: str, moment: str) -> bool:
        query = "select body::text as body from public.run_events where run_id = %s order by number desc limit 1"
        found = owner.execute(query, [run_id]).fetchone()
        event = json.loads(found["body"]) if found else {}
        kind = event.get("type")
        return {
            "taken": kind == "run",
            "done": kind == "changed",
            "approval": kind == "approval",
            "before the end": event.get("tool_result") == "complete_extraction" or kind == "text",
            "after the end": kind == "complete",
        }[moment]

    def _worker_of(self, owner: psycopg.Connection[dict[str, Any]], run_id: str) -> int | None:
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
            self._figures.stops[what] += 1
            if what == "halt":
                await self._postgres.halt(self._random.uniform(0.2, 2))
            else:
                self._postgres.crash(signal.SIGQUIT if what == "immediate" else signal.SIGKILL)

    async def keep_up(self) -> None:
        while True:
            self._processes.keep_up()
            await asyncio.sleep(0.1)

    async def watch(self) -> None:
        """Count what outlives its worker: a process for eight seconds, a job for a minute."""
        held: set[int] = set()
        while True:
            await asyncio.sleep(1)
            now = time.monotonic()
            strange = dict[int, str]()
            for process in self._processes.orphans():
                if command := _command_of(process):
                    strange[process.pid] = command
            for pid in [pid for pid in self._strange if pid not in strange]:
                del self._strange[pid]
            for pid, command in strange.items():
                first = self._strange.setdefault(pid, now)
                if first < now - ORPHAN_SECONDS:
                    self._figures.found("orphaned", f"process {pid} outlives its worker: {command}")
                    self._strange[pid] = float("inf")
            with contextlib.suppress(psycopg.Error, TimeoutError):
                async with asyncio.timeout(5):  # wait_for loses a cancellation that meets the answer, in Python 3.11
                    jobs, failures = await asyncio.to_thread(held_jobs, self._owner_url)
                self._figures.most_failures = max(self._figures.most_failures, failures)
                for job in jobs:
                    if job["id"] not in held:
                        held.add(job["id"])
                        self._figures.found("orphaned", f"job {job['id']} is held by a dead worker ({job['silent']})")


def held_jobs(owner_url: str) -> tuple[list[dict[str, Any]], int]:
    """The jobs that dead workers still hold, and how often in a row a run was claimed without getting a call done."""
    with psycopg.connect(owner_url, autocommit=True, row_factory=dict_row, connect_timeout=2) as owner:
        owner.execute("set statement_timeout = '3s'")
        query = """select j.id, now() - w.last_heartbeat as silent from queue.procrastinate_jobs as j
                   join queue.procrastinate_workers as w on w.id = j.worker_id
                   where j.status = 'doing' and w.last_heartbeat < now() - make_interval(secs => %s)"""
        worst = owner.execute("select coalesce(max(consecutive_failures), 0) as most from public.runs").fetchone()
        return owner.execute(query, [HELD_SECONDS]).fetchall(), worst["most"] if worst else 0


# The reckoning -------------------------------------------------------------------------------------------------------


def reckon(owner_url: str, followed: list[Followed], figures: Figures) -> collections.Counter[str]:
    """Compare what was recorded, what is there and what was seen; answers how the runs ended."""
    ends: collections.Counter[str] = collections.Counter()
    with psycopg.connect(owner_url, autocommit=True, row_factory=dict_row) as owner:
        for one in followed:
            runs = owner.execute("select * from public.runs where idempotency_key = %s", [one.key]).fetchall()
            if len(runs) > 1:
                figures.found("duplicated", f"{one.label}: started {len(runs)} times")
            if not runs:
                if one.run_id is not None:
                    figures.found("lost", f"{one.label}: the run is gone")
                continue
            run = runs[0]
            if one.run_id not in (None, str(run["id"])):
                figures.found("lost", f"{one.label}: the run that was answered is another than the one that is there")
            ends[run["status"] if run["error_code"] is None else f"{run['status']}, {run['error_code']}"] += 1
            if run["status"] in ("queued", "running"):
                claims = f"claimed {run['fencing_token']} times"
                figures.found("stuck", f"{one.label}: run {run['id']} is {run['status']}, {claims}")
            elif run["status"] != "awaiting_approval" and run["status"] != "completed":
                figures.found("failed", f"{one.label}: run {run['id']} {run['status']}, {run['error_code']}")
            _check_events(owner, run, one, figures)
            _check_fields(owner, run, one, figures)
        jobs = owner.execute("select * from queue.procrastinate_jobs where status in ('todo', 'doing')").fetchall()
        for job in jobs:
            figures.found("stuck", f"job {job['id']} {job['task_name']} is {job['status']}: {job['args']}")
    return ends


def _check_events(owner: Any, run: dict[str, Any], one: Followed, figures: Figures) -> None:
    query = "select number, body::text as body from public.run_events where run_id = %s order by number"
    rows = owner.execute(query, [run["id"]]).fetchall()
    numbers = [row["number"] for row in rows]
    if numbers != list(range(1, len(numbers) + 1)):
        figures.found("lost", f"{one.label}: the events have gaps: {numbers}")
    kept = {row["number"]: row["body"] for row in rows}
    for number, body in one.seen.items():
        if number not in kept or json.loads(kept[number]) != json.loads(body):
            figures.found("lost", f"{one.label}: event {number} was shown and is not there")
    events = [json.loads(row["body"]) for row in rows]
    if one.ended and len(one.seen) != len(kept):
        figures.found("lost", f"{one.label}: a reader saw {len(one.seen)} of {len(kept)} events")
    last = [n for n, event in enumerate(events) if event.get("type") in ENDS]
    if run["status"] in ("completed", "failed", "cancelled") and last != [len(events) - 1]:
        figures.found("lost" if not last else "duplicated", f"{one.label}: ends at {last} of {len(events)} events")
    if sum(event.get("type") == "run" for event in events) > 1:
        figures.found("duplicated", f"{one.label}: begins twice")


def _check_fields(owner: Any, run: dict[str, Any], one: Followed, figures: Figures) -> None:
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
    written = [call for call in calls if call["tool"] == "update_field" and call["status"] == "done"]
    for call_ in written:
        at = int(re.findall(r"\d+", call_["arguments"]["path"])[0])
        if at >= len(there) or there[at] != call_["arguments"]["value"]:
            figures.found("lost", f"{one.label}: {call_['arguments']} is recorded as done and not there")
        if call_["id"] not in [entry["call_id"] for entry in journal]:
            figures.found("lost", f"{one.label}: call {call_['id']} is not in the journal")
    for path, count in collections.Counter(tuple(entry["path"]) for entry in journal).items():
        if count > 1:
            figures.found("duplicated", f"{one.label}: {path} was written {count} times")
    for entry in journal:
        if entry["call_id"] not in [call_["id"] for call_ in written]:
            figures.found("duplicated", f"{one.label}: {entry['path']} was written by no call that is recorded as done")
    if sorted(change["body"]["version"] for change in changes) != sorted(entry["version"] for entry in journal):
        figures.found("lost", f"{one.label}: {len(changes)} events tell of {len(journal)} changes")
    names = [value.rsplit("-", 1)[0] for value in there]
    if len(set(names)) < len(names):
        figures.found("duplicated", f"{one.label}: {there}")
    if run["status"] == "completed" and names != [f"{one.label}-{n}" for n in range(one.wanted)]:
        figures.found("lost", f"{one.label}: completed with {there}, {one.wanted} were wanted")


# The whole -----------------------------------------------------------------------------------------------------------


async def chaos(options: argparse.Namespace, folder: Path, figures: Figures) -> int:
    begin = time.monotonic()
    home = folder / "home"
    home.mkdir()
    async with OfflineModel(answer) as server:
        with embedded_postgres(home, 18) as database:
            processes = Processes(folder, server.base_url, options.workers)
            try:
                return await _under_fire(options, processes, Postgres(home), database.owner_url, home, figures, begin)
            finally:
                processes.end()


async def _under_fire(
    options: argparse.Namespace,
    processes: Processes,
    postgres: Postgres,
    owner_url: str,
    home: Path,
    figures: Figures,
    begin: float,
) -> int:
    chaos = Chaos(processes, postgres, owner_url, options.seed, figures)
    processes.keep_up()
    token = LocalTokens(home).sign(uuid4())
    customers = Customers(processes.url, token, options.seed, figures)
    always = [asyncio.create_task(chaos.keep_up()), asyncio.create_task(chaos.watch())]
    working = [asyncio.create_task(customers.work()) for _ in range(options.customers)]
    stopping: asyncio.Task[None] | None = None
    killed_for = 0.0
    try:
        while not any(one.seen for one in customers.followed):  # undisturbed until the first run is under way
            await asyncio.sleep(0.1)
        stopping = asyncio.create_task(chaos.stop_postgres())
        first_kill = time.monotonic()
        killing = asyncio.create_task(chaos.kill(options.kills, options.every))
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, killing.cancel)  # enough: now reckon
        await asyncio.wait({killing}, timeout=options.seconds)
        killing.cancel()
        for error in await asyncio.gather(killing, return_exceptions=True):
            if isinstance(error, Exception):
                raise error
        asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)
        killed_for = time.monotonic() - first_kill
        stopping.cancel()
        await asyncio.gather(stopping, return_exceptions=True)
        customers.closing = True
        settle = time.monotonic()
        _, late = await asyncio.wait(working, timeout=SETTLE_SECONDS)
        for one in customers.followed if late else []:
            if not one.ended:
                figures.found("stuck", f"{one.label}: its customer waits after {SETTLE_SECONDS} s, run {one.run_id}")
        await asyncio.to_thread(_wait_for_the_queue, owner_url)
        settled_in = time.monotonic() - settle
        for one in late:
            one.cancel()
        for task in await asyncio.gather(*working, return_exceptions=True):
            if isinstance(task, Exception):
                figures.found("failed", f"a customer: {task!r}")
        ends = reckon(owner_url, customers.followed, figures)
        for one in always:
            one.cancel()
        await asyncio.gather(*always, return_exceptions=True)
        for name in await processes.stop():
            figures.found("stuck", f"{name} lives {STOP_SECONDS} s after SIGTERM")
        ended = time.monotonic()
        while left := [*processes.cli_processes(), *processes.readers()]:
            if time.monotonic() > ended + ORPHAN_SECONDS:
                break
            await asyncio.sleep(0.1)
        for process in left:
            command = _command_of(process)
            figures.found("orphaned", f"process {process.pid} lives although all workers have ended: {command}")
    finally:
        for task in [*always, *working, *([stopping] if stopping else [])]:
            task.cancel()
        await customers.close()
    with psycopg.connect(owner_url, row_factory=dict_row) as owner:
        sums = owner.execute(
            """select sum(fencing_token) as claims, max(fencing_token) as most,
                 (select count(*) from public.tool_calls where status = 'done') as calls,
                 (select count(*) from public.run_events) as events from public.runs"""
        ).fetchone()
    assert sums is not None
    in_order = figures.show(
        f"runs        {len(customers.followed)}: {_counted(ends)}",
        f"claims      {sums['claims']}, at most {sums['most']} for a run, {figures.most_failures} without a call done",
        f"written     {sums['calls']} calls done, {sums['events']} events, decisions {_counted(figures.decisions)}",
        f"then        all ended after {settled_in:.0f} s",
        f"folders     {len(list((processes.folder / 'tmp').iterdir()))} left for the next worker to clear up",
        f"time        {time.monotonic() - begin:.0f} s, {killed_for:.0f} s of kills, seed {options.seed}",
    )
    return 0 if in_order else 1


def _wait_for_the_queue(owner_url: str) -> None:
    """A job whose worker was killed after its run's end is still taken up once: give it the time."""
    until = time.monotonic() + HELD_SECONDS + 10
    query = "select 1 from queue.procrastinate_jobs where status in ('todo', 'doing') limit 1"
    while time.monotonic() < until:
        try:
            with psycopg.connect(owner_url, autocommit=True, connect_timeout=5) as owner:
                if not owner.execute(query).fetchall():
                    return
        except psycopg.OperationalError:
            pass  # the last stop of Postgres may have been a moment ago
        time.sleep(0.5)


def _counted(counter: collections.Counter[str]) -> str:
    return ", ".join(f"{count} {what}" for what, count in sorted(counter.items()))


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--every", type=float, default=1.5, help="seconds between kills, on average")
    parser.add_argument("--seconds", type=float, default=3600, help="kill no longer than this")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--customers", type=int, default=6)
    options = parser.parse_args()
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)  # in order, with all that was started
    folder = Path(tempfile.mkdtemp(prefix="fieldmark-chaos-"))
    folder.chmod(0o755)  # the CLI's own user must be able to reach its folder
    figures = Figures()

    try:
        with bounded(options.seconds + AFTERWARDS_SECONDS, folder):
            return await chaos(options, folder, figures)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    heed_signals()
    sys.exit(asyncio.run(main()))
