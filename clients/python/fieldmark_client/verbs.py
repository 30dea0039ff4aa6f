"""The verbs of both clients, each written once, as coroutines. Those of the blocking client never suspend."""

from __future__ import annotations

import json
import random
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias
from urllib.parse import quote
from uuid import uuid4

import httpx

from fieldmark_client.errors import FieldmarkError
from fieldmark_client.rows import Rows
from fieldmark_client.types import (
    Callback,
    Change,
    ChangedExtraction,
    Document,
    Extraction,
    RunAccepted,
    RunResult,
    UploadedDocument,
)

_PAGE: Final = 200
_POLL_SECONDS: Final = 2.0
_RETRIES: Final = 4
_TEMPORARY: Final = (429, 502, 503, 504)
_MAX_PAUSE: Final = 30.0
_ENDED: Final = ("completed", "failed", "cancelled")
_LAST_EVENTS: Final = ("complete", "error")

File: TypeAlias = str | Path | tuple[str, bytes]
"""A path, or a name and the content."""


class Connection(Protocol):
    """Sends requests. Raises httpx.TransportError."""

    async def request(self, method: str, path: str, **options: Any) -> httpx.Response: ...

    def stream_lines(self, path: str, headers: Mapping[str, str]) -> AsyncGenerator[str, None]: ...

    async def read_file(self, path: Path) -> bytes: ...

    async def pause(self, seconds: float) -> None: ...


class Verbs:
    """What both clients can do."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def request(self, method: str, path: str, *, body: Any = None, **query: Any) -> Any:
        """Send any request of the API and return its JSON. Raise FieldmarkError."""
        return await self._send(method, path, body=body, query=query)

    async def upload(
        self,
        file: File,
        *,
        extract: str | None = None,
        table: str | None = None,
        external_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        password: str | None = None,
        callback: Callback | None = None,
        idempotency_key: str | None = None,
    ) -> UploadedDocument:
        """Upload a file. With `extract` (a schema's name, id or version; "": without one) a run extracts its fields.
        With `table` (the name or id of a stack or schema) it becomes a row of that table."""
        given = file if isinstance(file, tuple) else (Path(file).name, await self._connection.read_file(Path(file)))
        texts = without_none({"metadata": metadata, "callback": callback})
        form = {name: json.dumps(value, ensure_ascii=False) for name, value in texts.items()}
        form |= without_none({"external_id": external_id, "password": password})
        key, query = idempotency_key or str(uuid4()), {"extract": extract, "table": table}
        return await self._send("POST", "/api/documents", query=query, key=key, files={"file": given}, data=form)

    async def extract(
        self,
        document_id: str,
        *,
        schema: str | Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
        **options: Any,
    ) -> RunAccepted:
        """Start to extract a document's fields. `options` are further members of the request, such as `instructions`
        and `approval`."""
        return await self._start("extract", idempotency_key, document_id=document_id, schema=schema, **options)

    async def correct(self, extraction_id: str, message: str, **options: Any) -> RunAccepted:
        """Start to correct an extraction in words."""
        return await self._start("correct", None, extraction_id=extraction_id, message=message, **options)

    async def ask(self, message: str, **options: Any) -> RunAccepted:
        """Start to answer a question about all documents."""
        return await self._start("ask", None, message=message, **options)

    async def wait(self, run_id: str, *, timeout: float | None = None) -> RunResult:
        """Wait until a run ends or waits for a decision (`waits_for`). Raise FieldmarkError `timeout`."""
        ends = None if timeout is None else time.monotonic() + timeout
        while True:
            seconds = 50 if ends is None else max(0, min(50, int(ends - time.monotonic())))
            headers = {"Prefer": f"wait={seconds}"}
            result: RunResult = await self._send("GET", f"/api/runs/{run_id}/result", headers=headers)
            if result["status"] in (*_ENDED, "awaiting_approval"):
                return result
            if ends is not None and time.monotonic() >= ends:
                raise FieldmarkError(0, "timeout", f"The run {run_id} is still {result['status']}.")
            if seconds == 0:
                await self._connection.pause(0.2)

    async def follow(self, run_id: str, *, after: int = 0) -> AsyncIterator[dict[str, Any]]:
        """Yield the events of a run until it ends or waits for a decision, across lost connections."""
        while True:
            is_last, count = False, 0
            headers = {"Accept": "text/event-stream", "Last-Event-ID": str(after)}
            try:
                lines = self._connection.stream_lines(f"/api/runs/{run_id}/events", headers)
                async with aclosing(_events(lines)) as events:
                    async for number, event in events:
                        after, count = number or after, count + 1
                        is_last = event["type"] in _LAST_EVENTS
                        yield event
            except httpx.TransportError:
                await self._connection.pause(_POLL_SECONDS)
            if is_last:
                return
            # At rest after a connection without new events: all were seen.
            run = await self.request("GET", f"/api/runs/{run_id}")
            if count == 0 and (run["waits_for"] is not None or run["status"] in _ENDED):
                return

    async def decide(
        self,
        run_id: str,
        call_id: str,
        *,
        approved: bool,
        arguments: Mapping[str, Any] | None = None,
        reason: str | None = None,
    ) -> RunAccepted:
        """Approve or reject the call that a run waits for. `arguments` replace those of the agent."""
        decision = without_none({"call_id": call_id, "approved": approved, "input": arguments, "reason": reason})
        body = {"run_id": run_id, "approvals": [decision], "wait": False}
        return await self._send("POST", "/api/agent/approve", body=body)

    async def document(self, document_id: str) -> Document:
        return await self._send("GET", f"/api/documents/{document_id}")

    async def documents(self, **filters: Any) -> AsyncIterator[Document]:
        """Yield documents, newest first, page by page. `filters` are parameters of the API, such as `stage`."""
        before: str | None = None
        while True:
            page = await self.request("GET", "/api/documents", limit=_PAGE, before=before, **filters)
            for item in page["items"]:
                yield item
            if (before := page["next"]) is None:
                return

    async def extraction(self, extraction_id: str) -> Extraction:
        return await self._send("GET", f"/api/extractions/{extraction_id}")

    async def set_fields(
        self, extraction_id: str, values: Mapping[str, Any], *, version: int | None = None
    ) -> ChangedExtraction:
        """Set fields by path. With `version`, only if the extraction still has it."""
        headers = {} if version is None else {"If-Match": f'"{version}"'}
        body = [{"path": path, "value": value} for path, value in values.items()]
        path = f"/api/extractions/{extraction_id}/fields"
        return await self._send("PATCH", path, body=body, headers=headers, may_repeat=True)

    async def rows(self, table: str, **query: Any) -> Rows:
        """Return all rows of the table of a schema or stack, by its name or id. `query`: such as `filter`, `sort`."""
        path = f"/api/tables/{quote(table, safe='')}/rows"
        items: list[dict[str, Any]] = []
        while True:
            page = await self.request("GET", path, limit=500, offset=len(items), **query)
            items += page["items"]
            if len(items) >= page["total"] or not page["items"]:
                return Rows([column["path"] for column in page["columns"]], items)

    async def changes(
        self, after: int = 0, *, types: Iterable[str] = (), follow: bool = False
    ) -> AsyncIterator[Change]:
        """Yield what happened after a number, oldest first. With `follow`, wait for more."""
        while True:
            page = await self.request("GET", "/api/changes", after=after, type=[*types] or None, limit=_PAGE)
            for item in page["items"]:
                yield item
            after = page["last"]
            if not page["has_more"]:
                if not follow:
                    return
                await self._connection.pause(_POLL_SECONDS)

    async def _start(self, task: str, key: str | None, **body: Any) -> RunAccepted:
        body = {**without_none(body), "wait": False}
        return await self._send("POST", f"/api/agent/{task}", body=body, key=key or str(uuid4()))

    async def _send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        key: str | None = None,
        may_repeat: bool = False,
        **form: Any,
    ) -> Any:
        """Send a request, again if the failure is temporary and a repetition is harmless. Return the JSON of the
        response; None for an empty one. Raise FieldmarkError."""
        may_repeat = may_repeat or key is not None or method in ("GET", "PUT", "DELETE")
        options = {"params": without_none(query or {}), **form, **without_none({"json": body})}
        options["headers"] = {**(headers or {}), **without_none({"Idempotency-Key": key})}
        for attempt in range(_RETRIES + 1):
            pause = 0.2 * 2**attempt
            try:
                response = await self._connection.request(method, path, **options)
                if response.is_success:
                    return json.loads(response.content) if response.content else None
                error, is_temporary = error_of(response), response.status_code in _TEMPORARY
                if (wanted := response.headers.get("retry-after", "")).isdigit():
                    pause = float(wanted)
            except httpx.TransportError as lost:
                message = f"The service cannot be reached ({type(lost).__name__})."
                error, is_temporary = FieldmarkError(0, "unreachable", message), True
            if attempt == _RETRIES or not (is_temporary and may_repeat):
                raise error
            await self._connection.pause(min(pause, _MAX_PAUSE) * (1 + random.random() / 4))  # noqa: S311
        raise AssertionError


async def _events(lines: AsyncGenerator[str, None]) -> AsyncGenerator[tuple[int | None, dict[str, Any]], None]:
    """Yield the events of a stream with their numbers."""
    number: int | None = None
    data: list[str] = []
    async with aclosing(lines):
        async for line in lines:
            name, _, value = line.partition(":")
            if name == "id":
                number = int(value)
            elif name == "data":
                data.append(value.removeprefix(" "))
            elif not line and data:
                yield number, json.loads("\n".join(data))
                number, data = None, []


def error_of(response: httpx.Response) -> FieldmarkError:
    """Return the error of a refused request."""
    try:
        problem: dict[str, Any] = json.loads(response.content)
        return FieldmarkError(response.status_code, str(problem["code"]), str(problem["detail"]), problem)
    except (ValueError, LookupError, TypeError):
        return FieldmarkError(response.status_code, "unavailable", f"The service answered {response.status_code}.")


def without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
