"""Runs the commands as their users do: processes of their own, with an environment, a standard input, a terminal."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import UUID

import fieldmark
import zygote
from desk import sql
from fieldmark.cli.process import LOCAL_USER
from fieldmark.domain.permissions import Permission
from fieldmark.identity.tokens import LocalTokens
from fieldmark.offline_model.server import OfflineModel
from standing import PATIENCE, Clone, Served

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")


@dataclass(frozen=True)
class Ended:
    code: int | None
    out: str
    err: str


async def ended(process: asyncio.subprocess.Process, stdin: str | None = None) -> tuple[str, str]:
    """What a command has written on standard output and error when it has ended."""
    try:
        async with asyncio.timeout(PATIENCE):
            out, err = await process.communicate(None if stdin is None else stdin.encode())
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return out.decode(), err.decode()


@dataclass(frozen=True)
class Terminal:
    """A process at a terminal: what it shows, and the keys pressed."""

    process: asyncio.subprocess.Process
    screen: bytearray
    main: int

    @property
    def shown(self) -> str:
        return _ESCAPES.sub("", self.screen.decode(errors="replace"))

    async def sees(self, text: str) -> None:
        given_up = time.monotonic() + PATIENCE
        while text not in self.shown:
            assert time.monotonic() < given_up, f"{text!r} was not shown:\n{self.shown}"
            await asyncio.sleep(0.05)

    def types(self, keys: str) -> None:
        os.write(self.main, keys.encode())


@dataclass(frozen=True)
class Commands:
    """Commands in a folder, beside a clone of the database. `served`: the test's own service, if they ask that."""

    clone: Clone
    folder: Path
    model: OfflineModel
    settings: dict[str, str] = field(default_factory=dict)
    served: Served | None = None

    def environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],  # noqa: TID251  no settings of the service
            "PYTHONPATH": str(Path(fieldmark.__file__).parents[1]),
            "TERM": "xterm",
            "FIELDMARK_HOME": str(self.folder / "home"),
            "FIELDMARK_WARM_PROCESSES": "0",
            "FIELDMARK_APPROVAL_WAIT_SECONDS": "0",
            "DATABASE_URL": self.clone.app_url,
            "ANTHROPIC_API_KEY": "test-key",
            "ANTHROPIC_BASE_URL": self.model.base_url,
            **self.settings,
        }

    def file(self, text: str = "Invoice number: 1\nTotal: 10.00 EUR\n", name: str = "a.txt") -> str:
        (self.folder / name).write_text(text)
        return name

    async def start(self, *arguments: str, **streams: Any) -> asyncio.subprocess.Process:
        pipes = {"stdin": asyncio.subprocess.DEVNULL, "stdout": asyncio.subprocess.PIPE, "stderr": -1, **streams}
        return await zygote.start(*arguments, cwd=self.folder, env=self.environment(), **pipes)

    async def run(self, *arguments: str, stdin: str | None = None) -> Ended:
        """A command to its end; `stdin` is piped in, without it there is no input."""
        source = asyncio.subprocess.DEVNULL if stdin is None else asyncio.subprocess.PIPE
        process = await self.start(*arguments, stdin=source)
        out, err = await ended(process, stdin)
        return Ended(process.returncode, out, err)

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
            except OSError:  # the other end is gone
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

    def by(self, user_id: UUID) -> Commands:
        """The same commands as another user of the service."""
        assert self.served is not None
        token = LocalTokens(self.served.service.settings.home).sign(user_id)
        return replace(self, settings={**self.settings, "FIELDMARK_KEY": token})

    def sql(self, query: str, *parameters: Any) -> list[dict[str, Any]]:
        """Rows as the owner sees them."""
        return sql(self.clone.owner_url, query, *parameters)

    def only_run(self) -> dict[str, Any]:
        (run,) = self.sql("select * from public.runs")
        return run

    def fields(self) -> dict[str, Any]:
        (row,) = self.sql("select extracted_fields from public.extractions")
        return row["extracted_fields"]


async def key_of(served: Served, *scopes: str, user: UUID = LOCAL_USER) -> str:
    """A key of the local user, whose commands in the process itself then act in the same organisation."""
    async with served.client(user) as http:
        made = await http.post("/api/keys", json={"name": "k", "scopes": list(scopes or Permission)})
    assert made.status_code == 201, made.text
    return made.json()["key"]


def elsewhere(fieldmark: Commands, served: Served, key: str) -> Commands:
    """Commands that know nothing but an address and a key."""
    known = {"FIELDMARK_SERVER": served.base_url, "FIELDMARK_KEY": key}
    nothing = dict.fromkeys(("DATABASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"), "")
    return replace(fieldmark, served=served, settings=known | nothing)
