"""Fieldmark processes as on several machines: API and worker processes that share one Postgres and one model."""

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
    """A `fieldmark` process that is configured by environment variables only."""

    def __init__(
        self, folder: Path, arguments: Sequence[str], settings: dict[str, str], command_prefix: Sequence[str]
    ) -> None:
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
                subprocess.Popen([*command_prefix, *_COMMAND, *arguments], **given)
                if command_prefix
                else Command(arguments, **given)
            )

    @property
    def log_text(self) -> str:
        return self._log.read_text(errors="replace")

    async def wait_for_log(self, pattern: str) -> str:
        """Wait until the log matches the pattern and return its first group."""

        def group_in_log() -> str | None:
            assert self.popen.poll() is None, self.log_text
            match = re.search(pattern, self.log_text)
            return match and match[1]

        return await until(group_in_log, PATIENCE, lambda: self.log_text)

    def cli_processes(self) -> list[psutil.Process]:
        return cli_processes(self.popen.pid)

    async def wait_ended(self) -> int:
        """Wait for the process to end and return its exit code."""
        await until(lambda: self.popen.poll() is not None, describe=lambda: self.log_text)
        return self.popen.returncode

    async def stop(self) -> None:
        if self.popen.poll() is None:
            self.popen.terminate()
        await self.wait_ended()

    def kill(self) -> None:
        if self.popen.poll() is None:
            self.popen.kill()
        self.popen.wait()


@dataclass
class Hosts:
    """Processes that share one Postgres and one model. Settings of a process override those of the clone."""

    clone: Clone
    folder: Path
    model: OfflineModel
    user_id: UUID = field(default_factory=uuid4)
    _processes: list[Process] = field(default_factory=list[Process])
    _clients: list[httpx.AsyncClient] = field(default_factory=list[httpx.AsyncClient])

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def start(self, *arguments: str, command_prefix: Sequence[str] = (), **settings: str) -> Process:
        process_settings = {
            "DATABASE_URL": self.clone.app_url,
            "FIELDMARK_HOME": str(self.home),
            "FIELDMARK_WARM_SPARES": "0",
            "FIELDMARK_LOG_LEVEL": "warning",
            "ANTHROPIC_API_KEY": "test-key",
            "ANTHROPIC_BASE_URL": self.model.base_url,
            **settings,
        }
        process = Process(self.folder, arguments, process_settings, command_prefix)
        self._processes.append(process)
        return process

    async def api(self, **settings: str) -> Api:
        """Start an API process without a worker and wait until it serves."""
        process = self.start("serve", "--no-worker", "--port", "0", **settings)
        url = await process.wait_for_log(r"is running at (http://\S+)")
        token = LocalTokens(self.home).sign(self.user_id)
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
        http = httpx.AsyncClient(base_url=url, headers=headers, timeout=PATIENCE, verify=False)
        self._clients.append(http)
        return Api(process, http)

    async def worker(self, *arguments: str, command_prefix: Sequence[str] = (), **settings: str) -> Process:
        """Start a worker process and wait until it works."""
        process = self.start("worker", *arguments, command_prefix=command_prefix, **settings)
        await process.wait_for_log(r"(Worker started)")
        return process

    def sql(self, query: str, *parameters: Any) -> list[dict[str, Any]]:
        return sql(self.clone.owner_url, query, *parameters)

    def run(self, run_id: str) -> dict[str, Any]:
        return self.sql("select * from public.runs where id = %s", run_id)[0]

    async def wait_for_run(self, run_id: str, status: str, seconds: float = 60) -> dict[str, Any]:
        """Wait until a run has this status and return its row."""
        await until(
            lambda: self.run(run_id)["status"] == status, seconds, lambda: f"{self.run(run_id)}\n{self._all_logs()}"
        )
        return self.run(run_id)

    def events(self, run_id: str) -> list[dict[str, Any]]:
        return events(self.clone.owner_url, run_id)

    def _all_logs(self) -> str:
        return "\n".join(f"--- {process.popen.args}\n{process.log_text}" for process in self._processes)

    async def kill_all(self) -> None:
        for process in self._processes:
            process.kill()
        for client in self._clients:
            await client.aclose()


@dataclass
class Api:
    """An API process, used by one user."""

    process: Process
    http: httpx.AsyncClient

    async def document(self, text: str = "Invoice number: 1\nTotal: 10.00 EUR\n") -> dict[str, Any]:
        """Upload a document and wait until it is ready or has failed."""
        answer = await self.http.post("/api/documents", files={"file": ("a.txt", text.encode())})
        assert answer.status_code == 201, answer.text

        async def read() -> dict[str, Any] | None:
            document = (await self.http.get(f"/api/documents/{answer.json()['id']}")).json()
            return document if document["status"] != "reading" else None

        return await until(read)

    async def start_extraction(self, document_id: str, **options: Any) -> str:
        """Start an extraction, disconnect once its run id is known, and return that id."""
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
        """Yield (number, event) of an event stream as they arrive. Deltas have the number 0."""
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
            # The id may come before or after the data. An empty line ends the event.
            data = json.loads(line[6:])
        elif not line and data is not None:
            yield number, data
            number, data = 0, None


@asynccontextmanager
async def run_hosts(clone: Clone, folder: Path, answer: Any) -> AsyncIterator[Hosts]:
    """Run the processes a test starts, with `answer` as the model, and kill them at the end."""
    async with OfflineModel(answer) as model:
        hosts = Hosts(clone, folder, model)
        try:
            yield hosts
        finally:
            await hosts.kill_all()
