"""The clients: `Fieldmark` and `AsyncFieldmark` have the same verbs."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Final, Self

import httpx

from fieldmark_client import verbs
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
from fieldmark_client.verbs import File, Pause, Request, Result, Upload, Uploaded, Verb

_PAGE: Final = 200
_POLL_SECONDS: Final = 2.0
_LAST_EVENTS: Final = ("complete", "error")
_ENDED: Final = ("completed", "failed", "cancelled")


class _Client:
    """What both clients do in the same way."""

    def __init__(self, base_url: str, key: str, *, organisation_id: str | None, timeout: float) -> None:
        headers = {"Authorization": f"Bearer {key}", "Accept": "application/json"}
        headers |= verbs.without_none({"X-Org-Id": organisation_id})
        # A request that waits for a run takes up to 50 s.
        self._options: dict[str, Any] = {"base_url": base_url, "headers": headers, "timeout": max(timeout, 60)}


class _Stream:
    """Reads the lines of an event stream."""

    def __init__(self, after: int) -> None:
        self.after = after
        self.is_over = False
        self._count = 0
        self._number: int | None = None
        self._data: list[str] = []

    def headers(self) -> dict[str, str]:
        return {"Accept": "text/event-stream", "Last-Event-ID": str(self.after)}

    def feed(self, line: str) -> dict[str, Any] | None:
        """Return the event that a line completes."""
        name, _, value = line.partition(":")
        if name == "id":
            self._number = int(value)
        elif name == "data":
            self._data.append(value.removeprefix(" "))
        elif not line and self._data:
            event: dict[str, Any] = json.loads("\n".join(self._data))
            if self._number is not None:
                self.after = self._number
            self._number, self._data = None, []
            self._count += 1
            self.is_over = event["type"] in _LAST_EVENTS
            return event
        return None

    def look(self, run: Mapping[str, Any]) -> None:
        """Take note of the state of the run after a connection: at rest and without new events, all were seen."""
        is_at_rest = run["waits_for"] is not None or run["status"] in _ENDED
        self.is_over = is_at_rest and self._count == 0
        self._count = 0


class Fieldmark(_Client):
    """A client that waits for each response. Use it in a `with` block, or call `close`."""

    def __init__(
        self, base_url: str, key: str, *, organisation_id: str | None = None, timeout: float = 60, **options: Any
    ) -> None:
        super().__init__(base_url, key, organisation_id=organisation_id, timeout=timeout)
        self._http = httpx.Client(**self._options, **options)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def request(self, method: str, path: str, *, body: Any = None, **query: Any) -> Any:
        """Send any request of the API and return its JSON. Raise FieldmarkError."""
        may_repeat = method.upper() in ("GET", "PUT", "DELETE")
        return self._run(verbs.send(Request(method, path, query, body, may_repeat=may_repeat)))

    def upload(
        self,
        file: File,
        *,
        extract: str | None = None,
        external_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        password: str | None = None,
        callback: Callback | None = None,
        idempotency_key: str | None = None,
    ) -> UploadedDocument:
        """Upload a file. With `extract` (a schema's name, id or version; "": without one) a run extracts its fields."""
        return self._run(
            verbs.upload(
                file,
                extract=extract,
                external_id=external_id,
                metadata=metadata,
                password=password,
                callback=callback,
                idempotency_key=idempotency_key,
            )
        )

    def upload_many(
        self, files: Iterable[File | Upload], *, extract: str | None = None, at_once: int = 4
    ) -> Iterator[Uploaded]:
        """Upload files, `at_once` of them at the same time. Yield what became of each, in their order."""

        def send(one: File | Upload) -> Uploaded:
            given = one if isinstance(one, Upload) else Upload(one)
            try:
                document = self.upload(
                    given.file, extract=extract, external_id=given.external_id, metadata=given.metadata
                )
                return Uploaded(given, document)
            except FieldmarkError as error:
                return Uploaded(given, error=error)

        with ThreadPoolExecutor(at_once) as threads:
            yield from threads.map(send, files)

    def extract(
        self,
        document_id: str,
        *,
        schema: str | Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
        **options: Any,
    ) -> RunAccepted:
        """Start to extract a document's fields. `options` are further members of the request, such as `instructions`
        and `approval`."""
        body = {"document_id": document_id, "schema": schema, **options}
        return self._run(verbs.start("extract", body, idempotency_key))

    def correct(self, extraction_id: str, message: str, **options: Any) -> RunAccepted:
        """Start to correct an extraction in words."""
        return self._run(verbs.start("correct", {"extraction_id": extraction_id, "message": message, **options}, None))

    def ask(self, message: str, **options: Any) -> RunAccepted:
        """Start to answer a question about all documents."""
        return self._run(verbs.start("ask", {"message": message, **options}, None))

    def wait(self, run_id: str, *, timeout: float | None = None) -> RunResult:
        """Wait until a run ends or waits for a decision (`waits_for`). Raise FieldmarkError `timeout`."""
        return self._run(verbs.wait(run_id, timeout))

    def follow(self, run_id: str, *, after: int = 0) -> Iterator[dict[str, Any]]:
        """Yield the events of a run until it ends or waits for a decision, across lost connections."""
        stream = _Stream(after)
        while not stream.is_over:
            try:
                path = f"/api/runs/{run_id}/events"
                with self._http.stream("GET", path, headers=stream.headers()) as response:
                    if response.is_error:
                        response.read()
                        raise verbs.error_of(response)
                    for line in response.iter_lines():
                        if (event := stream.feed(line)) is not None:
                            yield event
            except httpx.TransportError:
                time.sleep(_POLL_SECONDS)
            if not stream.is_over:
                stream.look(self.request("GET", f"/api/runs/{run_id}"))

    def decide(
        self,
        run_id: str,
        call_id: str,
        *,
        approved: bool,
        arguments: Mapping[str, Any] | None = None,
        reason: str | None = None,
    ) -> RunAccepted:
        """Approve or reject the call that a run waits for. `arguments` replace those of the agent."""
        return self._run(verbs.decide(run_id, call_id, approved=approved, arguments=arguments, reason=reason))

    def document(self, document_id: str) -> Document:
        return self.request("GET", f"/api/documents/{document_id}")

    def documents(self, **filters: Any) -> Iterator[Document]:
        """Yield documents, newest first, page by page. `filters` are parameters of the API, such as `stage`."""
        before: str | None = None
        while True:
            page = self.request("GET", "/api/documents", limit=_PAGE, before=before, **filters)
            yield from page["items"]
            if (before := page["next"]) is None:
                return

    def extraction(self, extraction_id: str) -> Extraction:
        return self.request("GET", f"/api/extractions/{extraction_id}")

    def set_fields(
        self, extraction_id: str, values: Mapping[str, Any], *, version: int | None = None
    ) -> ChangedExtraction:
        """Set fields by path. With `version`, only if the extraction still has it."""
        return self._run(verbs.set_fields(extraction_id, values, version))

    def rows(self, table: str, **query: Any) -> Rows:
        """Return all rows of the table of a schema or stack, by its name or id. `query`: such as `filter`, `sort`."""
        table_id = self._run(verbs.find_table(table))
        items: list[dict[str, Any]] = []
        while True:
            page = self.request("GET", f"/api/tables/{table_id}/rows", limit=500, offset=len(items), **query)
            items += page["items"]
            if len(items) >= page["total"] or not page["items"]:
                return Rows([column["path"] for column in page["columns"]], items)

    def changes(self, after: int = 0, *, types: Iterable[str] = (), follow: bool = False) -> Iterator[Change]:
        """Yield what happened after a number, oldest first. With `follow`, wait for more."""
        while True:
            page = self.request("GET", "/api/changes", after=after, type=[*types] or None, limit=_PAGE)
            yield from page["items"]
            after = page["last"]
            if not page["has_more"]:
                if not follow:
                    return
                time.sleep(_POLL_SECONDS)

    def _run(self, verb: Verb[Result]) -> Result:
        outcome: verbs.Outcome = None
        try:
            while True:
                step = verb.send(outcome)
                outcome = None
                if isinstance(step, Pause):
                    time.sleep(step.seconds)
                    continue
                try:
                    outcome = self._http.request(step.method, step.path, **step.options())
                except httpx.TransportError as error:
                    outcome = error
        except StopIteration as done:
            return done.value


class AsyncFieldmark(_Client):
    """A client for asyncio. Use it in an `async with` block, or call `close`."""

    def __init__(
        self, base_url: str, key: str, *, organisation_id: str | None = None, timeout: float = 60, **options: Any
    ) -> None:
        super().__init__(base_url, key, organisation_id=organisation_id, timeout=timeout)
        self._http = httpx.AsyncClient(**self._options, **options)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    async def request(self, method: str, path: str, *, body: Any = None, **query: Any) -> Any:
        may_repeat = method.upper() in ("GET", "PUT", "DELETE")
        return await self._run(verbs.send(Request(method, path, query, body, may_repeat=may_repeat)))

    async def upload(
        self,
        file: File,
        *,
        extract: str | None = None,
        external_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        password: str | None = None,
        callback: Callback | None = None,
        idempotency_key: str | None = None,
    ) -> UploadedDocument:
        return await self._run(
            verbs.upload(
                file,
                extract=extract,
                external_id=external_id,
                metadata=metadata,
                password=password,
                callback=callback,
                idempotency_key=idempotency_key,
            )
        )

    async def upload_many(
        self, files: Iterable[File | Upload], *, extract: str | None = None, at_once: int = 4
    ) -> list[Uploaded]:
        """Upload files, `at_once` of them at the same time. Return what became of each, in their order."""
        slots = asyncio.Semaphore(at_once)

        async def send(given: Upload) -> Uploaded:
            async with slots:
                try:
                    document = await self.upload(
                        given.file, extract=extract, external_id=given.external_id, metadata=given.metadata
                    )
                    return Uploaded(given, document)
                except FieldmarkError as error:
                    return Uploaded(given, error=error)

        return await asyncio.gather(*(send(one if isinstance(one, Upload) else Upload(one)) for one in files))

    async def extract(
        self,
        document_id: str,
        *,
        schema: str | Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
        **options: Any,
    ) -> RunAccepted:
        body = {"document_id": document_id, "schema": schema, **options}
        return await self._run(verbs.start("extract", body, idempotency_key))

    async def correct(self, extraction_id: str, message: str, **options: Any) -> RunAccepted:
        body = {"extraction_id": extraction_id, "message": message, **options}
        return await self._run(verbs.start("correct", body, None))

    async def ask(self, message: str, **options: Any) -> RunAccepted:
        return await self._run(verbs.start("ask", {"message": message, **options}, None))

    async def wait(self, run_id: str, *, timeout: float | None = None) -> RunResult:
        return await self._run(verbs.wait(run_id, timeout))

    async def follow(self, run_id: str, *, after: int = 0) -> AsyncIterator[dict[str, Any]]:
        stream = _Stream(after)
        while not stream.is_over:
            try:
                path = f"/api/runs/{run_id}/events"
                async with self._http.stream("GET", path, headers=stream.headers()) as response:
                    if response.is_error:
                        await response.aread()
                        raise verbs.error_of(response)
                    async for line in response.aiter_lines():
                        if (event := stream.feed(line)) is not None:
                            yield event
            except httpx.TransportError:
                await asyncio.sleep(_POLL_SECONDS)
            if not stream.is_over:
                stream.look(await self.request("GET", f"/api/runs/{run_id}"))

    async def decide(
        self,
        run_id: str,
        call_id: str,
        *,
        approved: bool,
        arguments: Mapping[str, Any] | None = None,
        reason: str | None = None,
    ) -> RunAccepted:
        return await self._run(verbs.decide(run_id, call_id, approved=approved, arguments=arguments, reason=reason))

    async def document(self, document_id: str) -> Document:
        return await self.request("GET", f"/api/documents/{document_id}")

    async def documents(self, **filters: Any) -> AsyncIterator[Document]:
        before: str | None = None
        while True:
            page = await self.request("GET", "/api/documents", limit=_PAGE, before=before, **filters)
            for item in page["items"]:
                yield item
            if (before := page["next"]) is None:
                return

    async def extraction(self, extraction_id: str) -> Extraction:
        return await self.request("GET", f"/api/extractions/{extraction_id}")

    async def set_fields(
        self, extraction_id: str, values: Mapping[str, Any], *, version: int | None = None
    ) -> ChangedExtraction:
        return await self._run(verbs.set_fields(extraction_id, values, version))

    async def rows(self, table: str, **query: Any) -> Rows:
        table_id = await self._run(verbs.find_table(table))
        items: list[dict[str, Any]] = []
        while True:
            page = await self.request("GET", f"/api/tables/{table_id}/rows", limit=500, offset=len(items), **query)
            items += page["items"]
            if len(items) >= page["total"] or not page["items"]:
                return Rows([column["path"] for column in page["columns"]], items)

    async def changes(
        self, after: int = 0, *, types: Iterable[str] = (), follow: bool = False
    ) -> AsyncIterator[Change]:
        while True:
            page = await self.request("GET", "/api/changes", after=after, type=[*types] or None, limit=_PAGE)
            for item in page["items"]:
                yield item
            after = page["last"]
            if not page["has_more"]:
                if not follow:
                    return
                await asyncio.sleep(_POLL_SECONDS)

    async def _run(self, verb: Verb[Result]) -> Result:
        outcome: verbs.Outcome = None
        try:
            while True:
                step = verb.send(outcome)
                outcome = None
                if isinstance(step, Pause):
                    await asyncio.sleep(step.seconds)
                    continue
                try:
                    options = await asyncio.to_thread(step.options)
                    outcome = await self._http.request(step.method, step.path, **options)
                except httpx.TransportError as error:
                    outcome = error
        except StopIteration as done:
            return done.value
