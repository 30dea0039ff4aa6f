"""Runs `fieldmark` commands as users do: as processes with an environment, standard input and a terminal."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import pty
import re
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import psutil
import structlog
from typer.testing import CliRunner

import fieldmark
import zygote
from child_processes import children
from extraction_case import sql
from fieldmark.cli import _app
from fieldmark.cli.process import LOCAL_USER
from fieldmark.domain.permissions import Permission
from fieldmark.identity.tokens import LocalTokens
from fieldmark.offline_model.server import OfflineModel
from running_server import PATIENCE, RunningServer

SAMPLES = Path(__file__).parents[2] / "docs" / "samples"
INVOICE = SAMPLES / "i2d_AzureInterior.pdf"
SOURCE = str(Path(fieldmark.__file__).parents[1])

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")
# Under nohup, this process and its children would ignore SIGHUP.
_COMMAND = "import signal; signal.signal(signal.SIGHUP, signal.SIG_DFL); from fieldmark.cli import main; main()"


@dataclass(frozen=True)
class CompletedCommand:
    code: int | None
    out: str
    err: str


@dataclass(frozen=True)
class Terminal:
    """A process on a terminal: the text it shows, and keys to type."""

    process: asyncio.subprocess.Process
    screen: bytearray
    main: int

    @property
    def shown(self) -> str:
        return _ESCAPES.sub("", self.screen.decode(errors="replace"))

    async def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while text not in self.shown:
            assert time.monotonic() < deadline, f"{text!r} was not shown:\n{self.shown}"
            await asyncio.sleep(0.05)

    def type_keys(self, keys: str) -> None:
        os.write(self.main, keys.encode())


@dataclass
class Serving:
    """A running `fieldmark serve`: an HTTP client of the local user, and the lines of its standard error."""

    process: asyncio.subprocess.Process
    http: httpx.AsyncClient
    lines: list[str]

    @property
    def url(self) -> str:
        return str(self.http.base_url)


@dataclass(frozen=True)
class Commands:
    """Runs commands in a folder, with only `settings` in their environment. `server` is the service they ask, if the
    test runs it. `owner_url` is their database, bypassing row policies."""

    folder: Path
    settings: dict[str, str] = field(default_factory=dict)
    owner_url: str = ""
    model: OfflineModel | None = None
    server: RunningServer | None = None

    @property
    def home(self) -> Path:
        return Path(self.settings.get("FIELDMARK_HOME", self.folder / "home"))

    def environment(self) -> dict[str, str]:
        given = {
            "PATH": os.environ["PATH"],  # noqa: TID251  no settings of the service
            "PYTHONPATH": SOURCE,
            "TERM": "xterm",
            "FIELDMARK_HOME": str(self.home),
            "FIELDMARK_WARM_SPARES": "0",
            "FIELDMARK_APPROVAL_WAIT_SECONDS": "0",
            **self.settings,
        }
        return {name: value for name, value in given.items() if value}

    def with_settings(self, **settings: str) -> Commands:
        return replace(self, settings=self.settings | settings)

    def as_user(self, user_id: UUID) -> Commands:
        assert self.server is not None
        return self.with_settings(FIELDMARK_KEY=LocalTokens(self.server.runtime.settings.home).sign(user_id))

    async def with_key(self, *scopes: str) -> Commands:
        """Return commands with an API key of the local user. Without arguments the key has all scopes."""
        assert self.server is not None
        async with self.server.client(LOCAL_USER) as http:
            made = await http.post("/api/keys", json={"name": "k", "scopes": list(scopes or Permission)})
        assert made.status_code == 201, made.text
        return self.with_settings(FIELDMARK_KEY=made.json()["key"])

    def file(self, text: str | bytes = "Invoice number: 1\nTotal: 10.00 EUR\n", name: str | bytes = "a.txt") -> str:
        """Write a file to the folder and return its name."""
        path = self.folder / os.fsdecode(name)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path.name

    async def start(self, *arguments: str, is_fresh: bool = False, **streams: Any) -> asyncio.subprocess.Process:
        """Start a command. With `is_fresh` in a new interpreter instead of a fork."""
        given = {"stdin": asyncio.subprocess.DEVNULL, "stdout": asyncio.subprocess.PIPE, "stderr": -1, **streams}
        given |= {"cwd": self.folder, "env": self.environment()}
        if is_fresh:
            return await asyncio.create_subprocess_exec(sys.executable, "-c", _COMMAND, *arguments, **given)
        return await zygote.start(*arguments, **given)

    async def run(self, *arguments: str, stdin: str | None = None, is_fresh: bool = False) -> CompletedCommand:
        source = asyncio.subprocess.DEVNULL if stdin is None else asyncio.subprocess.PIPE
        return await wait_ended(await self.start(*arguments, is_fresh=is_fresh, stdin=source), stdin)

    @asynccontextmanager
    async def at_terminal(self, *arguments: str) -> AsyncIterator[Terminal]:
        main, side = pty.openpty()
        screen = bytearray()
        process = await self.start(*arguments, stdin=side, stdout=side, stderr=side, start_new_session=True)
        os.close(side)
        loop = asyncio.get_running_loop()

        def read() -> None:
            try:
                data = os.read(main, 65_536)
            except OSError:  # the process has ended
                data = b""
            screen.extend(data)
            if not data:
                loop.remove_reader(main)

        loop.add_reader(main, read)
        try:
            yield Terminal(process, screen, main)
            async with asyncio.timeout(PATIENCE):
                await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
            loop.remove_reader(main)
            os.close(main)

    @asynccontextmanager
    async def serving(self, *arguments: str, is_fresh: bool = False) -> AsyncIterator[Serving]:
        """Run `fieldmark serve` on a free port until the block ends."""
        process = await self.start("serve", "--port", "0", *arguments, is_fresh=is_fresh)
        lines: list[str] = []
        said = await read_until(process, "is running at", lines)
        collecting = asyncio.create_task(_collect(process, lines))
        headers = {"Authorization": f"Bearer {LocalTokens(self.home).sign(LOCAL_USER)}", "Accept": "application/json"}
        url = said.split("is running at ")[1].split()[0]
        try:
            async with httpx.AsyncClient(base_url=url, headers=headers, timeout=PATIENCE, verify=False) as http:
                yield Serving(process, http, lines)
        finally:
            if process.returncode is None:
                process.terminate()
            await collecting
            await process.wait()

    def sql(self, query: str, *parameters: Any) -> list[dict[str, Any]]:
        return sql(self.owner_url, query, *parameters)

    def only_run(self) -> dict[str, Any]:
        (run,) = self.sql("select * from public.runs")
        return run

    def fields(self) -> dict[str, Any]:
        (row,) = self.sql("select extracted_fields from public.extractions")
        return row["extracted_fields"]

    def is_stopped(self) -> bool:
        """Return whether no process of the home's embedded Postgres runs."""
        if not (self.home / "postgres").exists():
            return True
        with (self.home / "postgres" / "server").open("r+b") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True


async def wait_ended(process: asyncio.subprocess.Process, stdin: str | None = None) -> CompletedCommand:
    try:
        async with asyncio.timeout(PATIENCE):
            out, err = await process.communicate(None if stdin is None else stdin.encode())
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return CompletedCommand(process.returncode, (out or b"").decode(), err.decode())


async def read_until(process: asyncio.subprocess.Process, words: str, lines: list[str] | None = None) -> str:
    """Read standard error up to the line that contains these words and return that line."""
    lines = [] if lines is None else lines
    assert process.stderr is not None
    while line := (await process.stderr.readline()).decode():
        lines.append(line)
        if words in line:
            return line
    raise AssertionError(f"it never said {words!r}, but: {''.join(lines)}")


async def _collect(process: asyncio.subprocess.Process, lines: list[str]) -> None:
    assert process.stderr is not None
    while line := await process.stderr.readline():
        lines.append(line.decode())


def process_tree(process: asyncio.subprocess.Process) -> list[psutil.Process]:
    return [psutil.Process(process.pid), *children(process.pid)]


def interrupt(process: asyncio.subprocess.Process) -> None:
    """Send SIGINT to the whole process group, as Ctrl-C does."""
    os.killpg(process.pid, signal.SIGINT)


def run_here(*arguments: str | Path) -> CompletedCommand:
    """Run a command in this process, which is faster. Only for commands that end before they start anything."""
    logs, handlers, level = structlog.get_config(), logging.root.handlers[:], logging.root.level
    try:
        done = CliRunner().invoke(_app, [*map(str, arguments)])
    finally:  # the command's log handler writes to its standard error, which is closed now
        structlog.configure(**logs)
        logging.basicConfig(level=level, handlers=handlers, force=True)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return CompletedCommand(done.exit_code, done.stdout, done.stderr)
