"""The application without a socket: requests of this process are answered in this process.

The command line speaks to it as it speaks to a service elsewhere, so each command is written once.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import UUID

import httpx
from starlette.types import ASGIApp, Message, Scope

from fieldmark.api.app import create_app
from fieldmark.errors import Unauthenticated
from fieldmark.identity.tokens import Person
from fieldmark.runtime import Runtime
from fieldmark.settings import Settings


@dataclass(frozen=True, slots=True)
class InProcess:
    """An application that only this process reaches: with `token`, as one user."""

    transport: httpx.AsyncBaseTransport
    token: str
    runtime: Runtime


@asynccontextmanager
async def open_in_process(settings: Settings, user_id: UUID) -> AsyncGenerator[InProcess]:
    """Open the application for one user, whatever signs tokens elsewhere. Raises what `open_runtime` raises."""
    app = create_app(settings, with_worker=False)
    async with app.router.lifespan_context(app):
        token = f"local-{secrets.token_urlsafe(32)}"
        app.state.tokens = _OneToken(token, Person(user_id))
        yield InProcess(_Transport(app), token, app.state.runtime)


class _OneToken:
    """Knows one person by one token, which nobody else has."""

    def __init__(self, token: str, person: Person) -> None:
        self._token = token
        self._person = person

    async def person_of(self, token: str) -> Person:
        if not secrets.compare_digest(token.encode(), self._token.encode()):
            raise Unauthenticated("Only this process is answered here.")
        return self._person


class _Transport(httpx.AsyncBaseTransport):
    """(httpx has one too, but it hands an answer over when it is whole: nobody could watch a run.)"""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        assert isinstance(request.stream, httpx.AsyncByteStream)
        scope: Scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": request.url.scheme,
            "path": request.url.path,
            "raw_path": request.url.raw_path.split(b"?")[0],
            "query_string": request.url.query,
            "root_path": "",
            "headers": [(name.lower(), value) for name, value in request.headers.raw],
            "client": None,
            "server": None,
        }
        answer = _Answer(self._app, scope, aiter(request.stream))
        try:
            status, headers = await answer.head
        except BaseException:
            await answer.aclose()
            raise
        return httpx.Response(status, headers=headers, stream=answer)


class _Answer(httpx.AsyncByteStream):
    """One request under way: `head` is the answer's status and headers, iterating gives its body as it comes."""

    def __init__(self, app: ASGIApp, scope: Scope, body: AsyncIterator[bytes]) -> None:
        self._body = body
        self._is_sent = False
        self._is_left = asyncio.Event()
        self._pieces: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.head: asyncio.Future[tuple[int, list[tuple[bytes, bytes]]]] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._run(app, scope), name="request")

    async def _run(self, app: ASGIApp, scope: Scope) -> None:
        try:
            await app(scope, self._receive, self._send)
        except Exception as error:  # noqa: BLE001  it reaches who has asked
            # Behind the head it is logged, and the answer ends: as on a connection.
            if not self.head.done():
                self.head.set_exception(error)
        finally:
            self._pieces.put_nowait(None)

    async def _receive(self) -> Message:
        if not self._is_sent:
            piece = await anext(self._body, None)
            self._is_sent = piece is None
            return {"type": "http.request", "body": piece or b"", "more_body": piece is not None}
        await self._is_left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            if not self.head.done():
                self.head.set_result((message["status"], list(message["headers"])))
        elif message["type"] == "http.response.body":
            if message.get("body"):
                self._pieces.put_nowait(message["body"])
            if not message.get("more_body", False):
                self._pieces.put_nowait(None)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (piece := await self._pieces.get()) is not None:
            yield piece

    async def aclose(self) -> None:
        self._is_left.set()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
