"""Processes of Fieldmark as they stand on several machines: APIs and workers of their own, one Postgres, one model."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import psutil

import fieldmark
from child_processes import cli_processes
from extraction_case import events, sql, until
from fieldmark.identity.tokens import LocalTokens
from fieldmark.offline_model.server import OfflineModel
from running_server import PATIENCE, Clone
from zygote import Command

_COMMAND = [sys.executable, "-c", "from fieldmark.cli import main; main()"]
_BACKEND = str(Path(fieldmark.__file__).parents[1])


class Process:
    """A `fieldmark` of its own, told what to do by its settings alone."""

    def __init__(self, folder: Path, arguments: Sequence[str], settings: dict[str, str], before: Sequence[str]) -> None:
        self._log = folder / f"{arguments[0]}-{uuid4().hex[:6]}.log"
        with self._log.open("wb") as log:
            given: dict[str, Any] = {
                "cwd": folder,  # without a .env
                "env": {"PATH": os.environ["PATH"], "PYTHONPATH": _BACKEND, **settings},  # noqa: TID251  no settings here
                "stdin": subprocess.DEVNULL,
                "stdout": log,
                "stderr": log,
            }
            self.popen: subprocess.Popen[Any] = (
                subprocess.Popen([*before, *_COMMAND, *arguments], **given) if before else Command(arguments, **given)
            )

    @property
    def says(self) -> str:
        return self._log.read_text(errors="replace")

    async def said(self, pattern: str) -> str:
        """The first group of the pattern, as soon as the process has said it."""

        def found() -> str | None:
            assert self.popen.poll() is None, self.says
            match = re.search(pattern, self.says)
            return match and match[1]

        return await until(found, PATIENCE, lambda: self.says)

    def cli_processes(self) -> list[psutil.Process]:
        """The agents' CLIs that this process has started and that still live."""
        return cli_processes(self.popen.pid)

    async def ended(self) -> int:
        """Its exit code."""
        await until(lambda: self.popen.poll() is not None, describe=lambda: self.says)
        return self.popen.returncode

    async def stop(self) -> None:
        """SIGTERM, and what it does then."""
        if self.popen.poll() is None:
            self.popen.terminate()
        await self.ended()

    def kill(self) -> None:
        if self.popen.poll() is None:
            self.popen.kill()
        self.popen.wait()


@dataclass
class Hosts:
    """Machines around one Postgres and one model. Settings given to a process go before those that all have."""

    clone: Clone
    folder: Path
    model: OfflineModel
    user_id: UUID = field(default_factory=uuid4)
    _processes: list[Process] = field(default_factory=list[Process])
    _clients: list[httpx.AsyncClient] = field(default_factory=list[httpx.AsyncClient])

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def start(self, *arguments: str, before: Sequence[str] = (), **settings: str) -> Process:
        """A `fieldmark` with these arguments, not waited for."""
        chosen = {
            "DATABASE_URL": self.clone.app_url,
            "FIELDMARK_HOME": str(self.home),
            "FIELDMARK_WARM_SPARES": "0",
            "FIELDMARK_LOG_LEVEL": "warning",
            "ANTHROPIC_API_KEY": "test-key",
            "ANTHROPIC_BASE_URL": self.model.base_url,
            **settings,
        }
        process = Process(self.folder, arguments, chosen, before)
        self._processes.append(process)
        return process

    async def api(self, **settings: str) -> Api:
        """An API process without a worker."""
        process = self.start("serve", "--no-worker", "--port", "0", **settings)
        url = await process.said(r"is running at (http://\S+)")
        token = LocalTokens(self.home).sign(self.user_id)
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
        http = httpx.AsyncClient(base_url=url, headers=headers, timeout=PATIENCE)
        self._clients.append(http)
        return Api(process, http)

    async def worker(self, *arguments: str, before: Sequence[str] = (), **settings: str) -> Process:
        """A worker process that works."""
        process = self.start("worker", *arguments, before=before, **settings)
        await process.said(r"(Worker started)")
        return process

    def sql(self, query: str, *parameters: Any) -> list[dict[str, Any]]:
        """Rows as the owner of the database sees them."""
        return sql(self.clone.owner_url, query, *parameters)

    def run(self, run_id: str) -> dict[str, Any]:
        return self.sql("select * from public.runs where id = %s", run_id)[0]

    async def run_at(self, run_id: str, status: str, seconds: float = 60) -> dict[str, Any]:
        """The run's row, once it has this status."""
        await until(
            lambda: self.run(run_id)["status"] == status, seconds, lambda: f"{self.run(run_id)}\n{self._all_said()}"
        )
        return self.run(run_id)

    def events(self, run_id: str) -> list[dict[str, Any]]:
        return events(self.clone.owner_url, run_id)

    def _all_said(self) -> str:
        return "\n".join(f"--- {process.popen.args}\n{process.says}" for process in self._processes)

    async def clear(self) -> None:
        for process in self._processes:
            process.kill()
        for client in self._clients:
            await client.aclose()


@dataclass
class Api:
    """An API process, as one user meets it."""

    process: Process
    http: httpx.AsyncClient

    async def document(self, text: str = "Invoice number: 1\nTotal: 10.00 EUR\n") -> dict[str, Any]:
        """A document that has been read, or could not be."""
        answer = await self.http.post("/api/documents", files={"file": ("a.txt", text.encode())})
        assert answer.status_code == 201, answer.text

        async def read() -> dict[str, Any] | None:
            document = (await self.http.get(f"/api/documents/{answer.json()['id']}")).json()
            return document if document["status"] != "reading" else None

        return await until(read)

    async def begin(self, document_id: str, **options: Any) -> str:
        """Start an extraction and go away as soon as its number is known: its events are for others to read."""
        body = {"document_id": document_id, **options}
        headers = {"Accept": "text/event-stream"}
        async with self.http.stream("POST", "/api/agent/extract", json=body, headers=headers) as response:
            async for line in response.aiter_lines():
                if line.startswith(": run "):
                    return line[6:]
        raise AssertionError("the stream did not name its run")

    @asynccontextmanager
    async def stream(
        self, path: str, body: dict[str, Any] | None = None, after: int | None = None
    ) -> AsyncIterator[AsyncIterator[tuple[int, dict[str, Any]]]]:
        """(number, flat object) of an event stream, as they come; a delta has the number 0."""
        headers = {"Accept": "text/event-stream", **({} if after is None else {"Last-Event-ID": str(after)})}
        method = "GET" if body is None else "POST"
        async with self.http.stream(method, path, json=body, headers=headers) as response:
            assert response.status_code == 200, await response.aread()
            yield _events(response)


async def _events(response: httpx.Response) -> AsyncIterator[tuple[int, dict[str, Any]]]:
    number, data = 0, None
    async for line in response.aiter_lines():
        if line.startswith("id: "):
            number = int(line[4:])
        elif line.startswith("data: "):
            # The data comes before or after its id: both belong to the block that an empty line ends.
            data = json.loads(line[6:])
        elif not line and data is not None:
            yield number, data
            number, data = 0, None


@asynccontextmanager
async def standing(clone: Clone, folder: Path, answer: Any) -> AsyncIterator[Hosts]:
    """Hosts around a clone, with `answer` speaking for the model. Whatever was started is gone afterwards."""
    async with OfflineModel(answer) as model:
        hosts = Hosts(clone, folder, model)
        try:
            yield hosts
        finally:
            await hosts.clear()
