"""A Messages API inside the running event loop."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import secrets
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeAlias

import uvicorn
from pydantic import JsonValue
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from fieldmark.offline_model import messages
from fieldmark.offline_model.messages import Block, Body, Turn

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Respond:
    """A custom HTTP response, such as an error. `make` creates it from the request's body."""

    make: Callable[[Body], Response]
    is_fault: bool = False


Reply: TypeAlias = Sequence[Block] | Turn | Respond
"""The reply to a request."""


class OfflineModel:
    """Serves the results of `answer` as a Messages API at `base_url` during the `async with` block.

    `answer` is a function, which may be async, from the request's body to the reply (`rules.answer`, a `Script`). The
    URL contains a random token, so that other users of the machine cannot call it: other paths get 404. `requests`
    keeps the bodies of requests for tests, unless `keeps_requests` is false. `host` is the address to listen on.
    """

    def __init__(
        self,
        answer: Callable[[Body], Reply | Awaitable[Reply]],
        *,
        keeps_requests: bool = True,
        host: str = "127.0.0.1",
    ) -> None:
        self.base_url = ""
        self._host = host
        self.requests: list[Body] = []
        self._answer = answer
        self._keeps_requests = keeps_requests

    async def __aenter__(self) -> Self:
        token = secrets.token_urlsafe(24)
        listener = socket.create_server((self._host, 0))
        # Otherwise each part of a response waits up to 40 ms for an acknowledgement. asyncio sets TCP_NODELAY only on
        # sockets that it creates.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # The pure Python protocol, because its logging can be disabled; only `startup`, because `serve` installs signal
        # handlers and wakes ten times a second.
        config = uvicorn.Config(self._app(token), http=_SilentProtocol, ws="none", lifespan="off", log_config=None)
        config.load()
        self._server = uvicorn.Server(config)
        self._server.lifespan = config.lifespan_class(config)
        self._listener = listener
        await self._server.startup(sockets=[listener])
        self.base_url = f"http://{self._host}:{listener.getsockname()[1]}/{token}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Not `shutdown`: that sleeps for 0.1 s, and waits for stalled streams.
        for server in self._server.servers:
            server.close()
        self._listener.close()
        answering = list(self._server.server_state.tasks)
        for task in answering:
            task.cancel()
        await asyncio.gather(*answering, return_exceptions=True)
        for connection in list(self._server.server_state.connections):
            connection.shutdown()
        await asyncio.sleep(0)  # the transports close

    def _app(self, token: str) -> Starlette:
        return Starlette(
            routes=[
                Route(f"/{token}/v1/messages", self._messages, methods=["POST"]),
                Route(f"/{token}/v1/messages/count_tokens", self._count_tokens, methods=["POST"]),
            ],
            exception_handlers={404: _not_found},
        )

    async def _count_tokens(self, request: Request) -> Response:
        body = await _read(request)
        return _refuse(400, "The request is not a JSON object.") if body is None else JSONResponse(_count(body))

    async def _messages(self, request: Request) -> Response:
        body = await _read(request)
        if body is None:
            return _refuse(400, "The request is not a JSON object.")
        if self._keeps_requests:
            self.requests.append(body)
        try:
            # In a thread, because a function may take long for a large document.
            reply = await asyncio.to_thread(self._answer, body)
            if inspect.isawaitable(reply):
                reply = await reply
        except Exception:  # noqa: BLE001 - whatever it was, the client gets an answer
            # 400, so that the client does not retry.
            _log.exception("the offline model could not answer")
            return _refuse(400, "The offline model failed to answer.")
        if isinstance(reply, Respond):
            return reply.make(body)
        turn = reply if isinstance(reply, Turn) else Turn(reply)
        if not body.get("stream"):
            return JSONResponse(messages.complete_message(body, turn))
        return StreamingResponse(_stream(body, turn), media_type="text/event-stream")


class _SilentProtocol(H11Protocol):
    """An HTTP protocol that logs nothing: scripts drop connections on purpose, and the main server has its own access
    log."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.logger = _SILENT
        self.access_log = False


_SILENT = logging.getLogger(f"{__name__}.http")
_SILENT.disabled = True


async def _stream(body: Body, turn: Turn) -> AsyncIterator[str]:
    for event in messages.start_events(body, turn):
        yield event
    for index, block in enumerate(turn.blocks):
        for event in messages.block_events(index, block, body):
            yield event
    for event in messages.end_events(turn):
        yield event


async def _read(request: Request) -> Body | None:
    try:
        body: JsonValue = await asyncio.to_thread(json.loads, await request.body())
    except ValueError:
        return None
    return body if isinstance(body, dict) else None


def _count(body: Body) -> dict[str, int]:
    return {"input_tokens": messages.input_tokens(body)}


def _refuse(status: int, message: str) -> Response:
    return JSONResponse(messages.error(status, message), status)


async def _not_found(request: Request, error: Exception) -> Response:
    return _refuse(404, "Not found.")
