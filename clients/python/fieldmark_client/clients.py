"""The clients: `Fieldmark` and `AsyncFieldmark` have the same verbs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import httpx

from fieldmark_client.errors import FieldmarkError
from fieldmark_client.types import UploadedDocument
from fieldmark_client.verbs import File, Verbs, error_of, without_none

P = ParamSpec("P")
Result = TypeVar("Result")
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Upload:
    """A file of `upload_many`, with its own key and data."""

    file: File
    external_id: str | None = None
    metadata: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Uploaded:
    """What became of a file of `upload_many`: a document or an error."""

    upload: Upload
    document: UploadedDocument | None = None
    error: FieldmarkError | None = None


class AsyncFieldmark(Verbs):
    """A client for asyncio. Use it in an `async with` block, or call `close`. `options` are those of
    httpx.AsyncClient."""

    def __init__(
        self, base_url: str, key: str, *, organisation_id: str | None = None, timeout: float = 60, **options: Any
    ) -> None:
        self._http = httpx.AsyncClient(**_options(base_url, key, organisation_id, timeout), **options)
        super().__init__(_AsyncConnection(self._http))

    async def upload_many(
        self, files: Iterable[File | Upload], *, extract: str | None = None, table: str | None = None, at_once: int = 4
    ) -> list[Uploaded]:
        """Upload files, `at_once` of them at the same time. Return what became of each, in their order."""
        slots = asyncio.Semaphore(at_once)

        async def send(one: Upload) -> Uploaded:
            async with slots:
                try:
                    sent = self.upload(
                        one.file, extract=extract, table=table, external_id=one.external_id, metadata=one.metadata
                    )
                    return Uploaded(one, await sent)
                except FieldmarkError as error:
                    return Uploaded(one, error=error)

        return await asyncio.gather(*(send(one if isinstance(one, Upload) else Upload(one)) for one in files))

    async def close(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _blocking(
    verb: Callable[Concatenate[Verbs, P], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate[Fieldmark, P], Result]:
    """Return a verb as a method that waits for its result."""

    @wraps(verb)
    def method(client: Fieldmark, /, *arguments: P.args, **options: P.kwargs) -> Result:
        return _result(verb(client.verbs, *arguments, **options))

    return method


def _iterating(
    verb: Callable[Concatenate[Verbs, P], AsyncIterator[Item]],
) -> Callable[Concatenate[Fieldmark, P], Iterator[Item]]:
    """Return a verb as a method that waits for each item."""

    @wraps(verb)
    def method(client: Fieldmark, /, *arguments: P.args, **options: P.kwargs) -> Iterator[Item]:
        items: Any = verb(client.verbs, *arguments, **options)
        try:
            while True:
                yield _result(items.__anext__())
        except StopAsyncIteration:
            return
        finally:
            _result(items.aclose())

    return method


def _result(verb: Awaitable[Result]) -> Result:
    """Run a coroutine that never suspends."""
    try:
        next(verb.__await__())
    except StopIteration as done:
        return done.value
    raise AssertionError


class Fieldmark:
    """A client that waits for each response. Use it in a `with` block, or call `close`. `options` are those of
    httpx.Client."""

    def __init__(
        self, base_url: str, key: str, *, organisation_id: str | None = None, timeout: float = 60, **options: Any
    ) -> None:
        self._http = httpx.Client(**_options(base_url, key, organisation_id, timeout), **options)
        self.verbs = Verbs(_BlockingConnection(self._http))

    request = _blocking(Verbs.request)
    upload = _blocking(Verbs.upload)
    extract = _blocking(Verbs.extract)
    correct = _blocking(Verbs.correct)
    ask = _blocking(Verbs.ask)
    wait = _blocking(Verbs.wait)
    follow = _iterating(Verbs.follow)
    decide = _blocking(Verbs.decide)
    document = _blocking(Verbs.document)
    documents = _iterating(Verbs.documents)
    extraction = _blocking(Verbs.extraction)
    set_fields = _blocking(Verbs.set_fields)
    rows = _blocking(Verbs.rows)
    changes = _iterating(Verbs.changes)

    def upload_many(
        self, files: Iterable[File | Upload], *, extract: str | None = None, table: str | None = None, at_once: int = 4
    ) -> Iterator[Uploaded]:
        """Upload files, `at_once` of them at the same time. Yield what became of each, in their order."""

        def send(given: File | Upload) -> Uploaded:
            one = given if isinstance(given, Upload) else Upload(given)
            try:
                sent = self.upload(
                    one.file, extract=extract, table=table, external_id=one.external_id, metadata=one.metadata
                )
                return Uploaded(one, sent)
            except FieldmarkError as error:
                return Uploaded(one, error=error)

        with ThreadPoolExecutor(at_once) as threads:
            yield from threads.map(send, files)

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _options(base_url: str, key: str, organisation_id: str | None, timeout: float) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {key}", "Accept": "application/json"}
    headers |= without_none({"X-Org-Id": organisation_id})
    # A request that waits for a run takes up to 50 s.
    return {"base_url": base_url, "headers": headers, "timeout": max(timeout, 60)}


@dataclass(frozen=True)
class _AsyncConnection:
    http: httpx.AsyncClient

    async def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        return await self.http.request(method, path, **options)

    async def stream_lines(self, path: str, headers: Mapping[str, str]) -> AsyncGenerator[str, None]:
        async with self.http.stream("GET", path, headers=headers) as response:
            if response.is_error:
                await response.aread()
                raise error_of(response)
            async for line in response.aiter_lines():
                yield line

    async def read_file(self, path: Path) -> bytes:
        return await asyncio.to_thread(path.read_bytes)

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


@dataclass(frozen=True)
class _BlockingConnection:
    http: httpx.Client

    async def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        return self.http.request(method, path, **options)

    async def stream_lines(self, path: str, headers: Mapping[str, str]) -> AsyncGenerator[str, None]:
        with self.http.stream("GET", path, headers=headers) as response:
            if response.is_error:
                response.read()
                raise error_of(response)
            for line in response.iter_lines():
                yield line

    async def read_file(self, path: Path) -> bytes:
        return path.read_bytes()  # noqa: ASYNC240

    async def pause(self, seconds: float) -> None:
        time.sleep(seconds)  # noqa: ASYNC251
