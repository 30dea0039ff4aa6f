"""A client of the service's HTTP API: of a remote service (`--server`) or of one in this process."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Generator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeGuard, TypeVar

import httpx

from fieldmark.cli import process
from fieldmark.cli.process import (
    CANNOT_WORK,
    FAILED,
    LOCAL_USER,
    MISUSED,
    exit_with,
    read_settings,
    run,
)
from fieldmark.cli.target import NO_SERVICE, Target
from fieldmark.cli.terminal import err
from fieldmark.errors import FieldmarkError, Unavailable
from fieldmark.http_client import http_client
from fieldmark.settings import Settings

Result = TypeVar("Result")

_TIMEOUT: Final = httpx.Timeout(120, connect=10)
_MAX_PAGE: Final = 200  # items of a list
_IDS_AT_ONCE: Final = 50  # in one address
_LOOPBACK_HOSTS: Final = ("localhost", "127.0.0.1", "::1")


class ErrorResponse(FieldmarkError):
    """An error response of the service. `answered` is the HTTP status, `reason` the error code."""

    def __init__(self, answered: int, reason: str, sentence: str) -> None:
        super().__init__(sentence)
        self.answered = answered
        self.reason = reason

    @property
    def exit_code(self) -> int:
        """3 if the service or the key does not work at all; else 1."""
        return CANNOT_WORK if self.answered == 401 or self.answered >= 500 else FAILED


class Disconnected(Unavailable):
    """The connection failed or was lost."""


class Client:
    """Sends requests to the service. Raises ErrorResponse for error responses, Disconnected if there is no response."""

    def __init__(
        self,
        http: httpx.AsyncClient,
        working: Callable[[], AbstractAsyncContextManager[object]],
        settings: Settings,
        options: str,
    ) -> None:
        self.http = http
        self.options = options
        """The options that a follow-up command needs for the same service and user."""
        self.working = working
        """A context in which a worker runs in this process, if the service does."""
        self.settings = settings

    async def get(self, path: str, **query: object) -> Any:
        """GET a path and return its JSON. Query parameters that are None are left out."""
        return _json((await self._ask("GET", path, params=_query_parameters(query))).content)

    async def send(self, method: str, path: str, body: object = None) -> Any:
        """Send a request and return its JSON, or None for an empty response."""
        answer = await self._ask(method, path, json=body)
        return _json(answer.content) if answer.content else None

    async def file(self, path: str, **query: object) -> bytes:
        """GET a path and return the file."""
        return (await self._ask("GET", path, params=_query_parameters(query))).content

    async def download(self, path: str, out: Path) -> None:
        """GET a path and write the file. An interrupted download leaves no file."""
        part = out.with_name(f"{out.name}.part")
        try:
            with part.open("wb") as opened:
                async with self._stream("GET", path) as answer:
                    async for some in answer.aiter_bytes():
                        opened.write(some)
            part.replace(out)
        finally:
            part.unlink(missing_ok=True)

    async def upload(self, file: Path, password: str | None, **query: object) -> dict[str, Any]:
        """Upload a file as a document."""
        name = os.fsencode(file.name).decode(errors="replace")
        with file.open("rb") as opened:
            content = opened if opened.seekable() else opened.read()  # a pipe has no size
            fields = {} if password is None else {"password": password}
            given = {"files": {"file": (name, content)}, "data": fields, "params": _query_parameters(query)}
            answer = await self._ask("POST", "/api/documents", **given)
        return _json(answer.content)

    async def start(self, task: str, body: Mapping[str, object], key: str) -> str:
        """Start a run and return its id. The same key returns the same run."""
        headers = {"Idempotency-Key": key}
        answer = await self._ask("POST", f"/api/agent/{task}", headers=headers, json={**body, "wait": False})
        return str(_json(answer.content)["run_id"])

    @asynccontextmanager
    async def events(self, run_id: str, after: int = 0) -> AsyncGenerator[AsyncIterator[tuple[int, dict[str, Any]]]]:
        """Stream a run's events after number `after`, with their numbers, until the run ends or waits for a decision.
        Partial output has the number of the event before it."""
        headers = {"Accept": "text/event-stream", **({"Last-Event-ID": str(after)} if after else {})}
        path = f"/api/runs/{run_id}/events"
        async with self._stream("GET", path, headers=headers, params={"deltas": True}) as answer:
            yield _events(answer)

    async def decide(self, run_id: str, decision: Mapping[str, object]) -> None:
        """Decide the call that a run waits for, and wait until it has run."""
        body = {"run_id": run_id, "approvals": [decision], "wait": False}
        await self._ask("POST", "/api/agent/approve", json=body)

    async def filename(self, document_id: str) -> str:
        """Return the file name of a document, or an empty string."""
        return (await self.filenames([document_id])).get(document_id, "")

    async def filenames(self, document_ids: Collection[str]) -> dict[str, str]:
        """Return file names by document id, without deleted documents. Empty if the key cannot read documents."""
        found: dict[str, str] = {}
        ids = sorted(set(document_ids))
        for first in range(0, len(ids), _IDS_AT_ONCE):
            some = ids[first : first + _IDS_AT_ONCE]
            try:
                listed = await self.get("/api/documents", document_id=some, limit=len(some))
            except ErrorResponse:
                return {}
            found |= {one["id"]: one["filename"] for one in listed["items"]}
        return found

    async def organisation(self, method: str, body: object = None) -> Any:
        """Get or change the organisation in use: that of --org, else the personal one, or the key's."""
        org_id = self.http.headers.get("X-Org-Id")
        if org_id is None:
            org_id = (await self.get("/api/me"))["org_id"]
        return await self.send(method, f"/api/organisations/{org_id}", body)

    async def _ask(self, method: str, path: str, **request: Any) -> httpx.Response:
        with _raising_disconnected():
            answer = await self.http.request(method, path, **request)
        _check(answer)
        return answer

    @asynccontextmanager
    async def _stream(self, method: str, path: str, **request: Any) -> AsyncGenerator[httpx.Response]:
        with _raising_disconnected():
            async with self.http.stream(method, path, **request) as answer:
                if answer.is_error:
                    await answer.aread()
                _check(answer)
                yield answer


@asynccontextmanager
async def open_client(target: Target, settings: Settings, task: str | None = None) -> AsyncGenerator[Client]:
    """Open a client of the service given on the command line or in the settings, or else of one in this process, which
    gets ready for an agent's `task`."""
    server = target.server or settings.server
    headers = {} if target.org is None else {"X-Org-Id": str(target.org)}
    if server is None:
        if target.key is not None:
            exit_with("--key goes with --server.", MISUSED)
        # Here: it takes long to import, and a service elsewhere has done it.
        from fieldmark.cli.own_service import open_own_service

        async with open_own_service(settings, target.user or LOCAL_USER, task) as (own, working):
            headers["Authorization"] = f"Bearer {own.token}"
            # The address of `fieldmark serve`: exported files have links to it.
            host = f"[{settings.host}]" if ":" in settings.host else settings.host
            base_url = f"http://{host}:{settings.port}"
            async with httpx.AsyncClient(
                transport=own.transport, base_url=base_url, headers=headers, timeout=_TIMEOUT
            ) as http:
                yield Client(http, working, settings, _options(org=target.org, user=target.user))
        return
    if target.user is not None:
        exit_with("--user goes without --server: there the key says who asks.", MISUSED)
    key = target.key or (settings.key.get_secret_value() if settings.key else None)
    if not key:
        exit_with("--server needs a key: pass --key or set FIELDMARK_KEY.", MISUSED)
    headers["Authorization"] = f"Bearer {_checked_key(key)}"
    url = _parse_url(server)
    # Only for https: reading the certificates takes a fiftieth of a second.
    verify = url.scheme == "https"
    async with http_client(base_url=url, headers=headers, timeout=_TIMEOUT, verify=verify) as http:
        yield Client(http, contextlib.nullcontext, settings, _options(org=target.org, server=target.server))


async def fetch_items(
    client: Client, path: str, limit: int, query: Mapping[str, object]
) -> tuple[list[dict[str, Any]], bool]:
    """Return the first items of a list, page by page, and whether there are more."""
    found: list[dict[str, Any]] = []
    before: str | None = None
    while len(found) < limit:
        page = await client.get(path, limit=min(limit - len(found), _MAX_PAGE), before=before, **query)
        found += page["items"]
        before = page["next"]
        if before is None:
            break
    return found, before is not None


def run_with_client(target: Target, work: Callable[[Client], Awaitable[Result]], task: str | None = None) -> Result:
    """Run a command with a client. `task`: the agent task that it will start, if any. An error response ends the
    command with its message and code."""
    settings = read_settings("warning")

    async def run_work() -> Result:
        try:
            async with open_client(target, settings, task) as client:
                return await work(client)
        except ErrorResponse as refused:
            exit_with(error_text(refused), refused.exit_code)

    return run(run_work())


def error_text(refused: FieldmarkError) -> str:
    """Return the message of an error response with its code (docs/errors.md)."""
    return f"{refused} [{refused.reason}]" if isinstance(refused, ErrorResponse) else str(refused)


def print_offline_notice(client: Client) -> None:
    """Print a notice if the service in this process has no language model."""
    if client.working is not contextlib.nullcontext:
        process.print_offline_notice(client.settings)


def _options(**given: object) -> str:
    return "".join(f" --{name} {value}" for name, value in given.items() if value is not None)


def _query_parameters(query: Mapping[str, object]) -> dict[str, str | list[str]]:
    return {
        name: [str(one) for one in value] if _is_list(value) else str(value)
        for name, value in query.items()
        if value is not None
    }


def _is_list(value: object) -> TypeGuard[list[object]]:
    return isinstance(value, list)


def _parse_url(server: str) -> httpx.URL:
    try:
        url = httpx.URL(server)
    except (httpx.InvalidURL, ValueError):
        url = httpx.URL()
    if url.scheme not in ("http", "https") or not re.fullmatch(r"[\w.:-]+", url.host):
        exit_with(f"{server!r} is no address of a service: it begins with https://.", MISUSED)
    if url.userinfo or url.query or url.fragment:
        exit_with("The service URL must not contain a user, ? or #. Pass the key in FIELDMARK_KEY.", MISUSED)
    if url.scheme == "http" and url.host not in _LOOPBACK_HOSTS:
        err.print("[yellow]The key is sent without encryption: use https.[/yellow]")
    return url


def _checked_key(key: str) -> str:
    # httpx would print the key in its complaint about it.
    if not (key.isascii() and key.isprintable()) or " " in key:
        exit_with("The key contains invalid characters.", MISUSED)
    return key


@contextlib.contextmanager
def _raising_disconnected() -> Generator[None]:
    try:
        yield
    except httpx.HTTPError as error:
        raise Disconnected(
            f"No response from the service at {_address(error)} ({type(error).__name__}). Check that it is running "
            "(`fieldmark serve`), and the address in --server or FIELDMARK_SERVER."
        ) from error


def _address(error: httpx.HTTPError) -> str:
    try:
        url = error.request.url
    except RuntimeError:  # the request was not built
        return "its address"
    return f"{url.scheme}://{url.netloc.decode()}"


def _check(answer: httpx.Response) -> None:
    if answer.is_success:
        return
    try:
        problem = _json(answer.content)
        refused = ErrorResponse(answer.status_code, str(problem["code"]), str(problem["detail"]))
    except (LookupError, TypeError):
        raise _no_service() from None
    raise refused


def _json(text: bytes | str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise _no_service() from None


def _no_service() -> ErrorResponse:
    return ErrorResponse(502, "unavailable", NO_SERVICE)


async def _events(answer: httpx.Response) -> AsyncIterator[tuple[int, dict[str, Any]]]:
    number, data = 0, list[str]()
    async for line in answer.aiter_lines():
        name, _, value = line.partition(":")
        if name == "id" and value.strip().isdecimal():
            number = int(value)
        elif name == "data":
            data.append(value.removeprefix(" "))
        elif not line and data:
            yield number, _json("\n".join(data))
            data = []
