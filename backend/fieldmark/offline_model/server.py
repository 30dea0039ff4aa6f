"""The Messages API on loopback, inside the running event loop."""

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
    """A response of its own making, such as a fault."""

    make: Callable[[Body], Response]
    is_fault: bool = False


Reply: TypeAlias = Sequence[Block] | Turn | Respond
"""What a request is answered with."""


class OfflineModel:
    """Serves `answer` as a Messages API at `base_url` for as long as the `async with` block lasts.

    `answer` is a function of the request's body to the next turn (`rules.answer`, a `Script`); it may be async. The
    address holds an unguessable token, so another user of the machine cannot ask: outside its path all is 404.
    `requests` holds the bodies that were sent, if they are kept: tests look at them.
    """

    def __init__(self, answer: Callable[[Body], Reply | Awaitable[Reply]], *, keeps_requests: bool = True) -> None:
        self.base_url = ""
        self.requests: list[Body] = []
        self._answer = answer
        self._keeps_requests = keeps_requests

    async def __aenter__(self) -> Self:
        token = secrets.token_urlsafe(24)
        listener = socket.create_server(("127.0.0.1", 0))
        # Else an answer in parts waits 40 ms for the other side's acknowledgement: asyncio sees to that for sockets of
        # its own making only.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # The protocol in pure Python, because it can be told not to log; `startup` alone, because `serve` takes the
        # process's signals and wakes ten times a second.
        config = uvicorn.Config(self._app(token), http=_SilentProtocol, ws="none", lifespan="off", log_config=None)
        config.load()
        self._server = uvicorn.Server(config)
        self._server.lifespan = config.lifespan_class(config)
        self._listener = listener
        await self._server.startup(sockets=[listener])
        self.base_url = f"http://127.0.0.1:{listener.getsockname()[1]}/{token}"
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
            # A function may take its time over a long document; the loop goes on.
            reply = await asyncio.to_thread(self._answer, body)
            if inspect.isawaitable(reply):
                reply = await reply
        except Exception:  # noqa: BLE001 - whatever it was, the client gets an answer
            # 400, because asking again would fail again.
            _log.exception("the offline model could not answer")
            return _refuse(400, "The offline model failed to answer.")
        if isinstance(reply, Respond):
            return reply.make(body)
        turn = reply if isinstance(reply, Turn) else Turn(reply)
        if not body.get("stream"):
            return JSONResponse(messages.message(body, turn))
        return StreamingResponse(_stream(body, turn), media_type="text/event-stream")


class _SilentProtocol(H11Protocol):
    """HTTP without a line in the log: a scripted drop is no error, and the server around has its own access log."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.logger = _SILENT
        self.access_log = False


_SILENT = logging.getLogger(f"{__name__}.http")
_SILENT.disabled = True


async def _stream(body: Body, turn: Turn) -> AsyncIterator[str]:
    for event in messages.opening(body, turn):
        yield event
    for index, block in enumerate(turn.blocks):
        for event in messages.block_events(index, block, body):
            yield event
    for event in messages.closing(turn):
        yield event


async def _read(request: Request) -> Body | None:
    try:
        body: JsonValue = await asyncio.to_thread(json.loads, await request.body())
    except ValueError:
        return None
    return body if isinstance(body, dict) else None


def _count(body: Body) -> dict[str, int]:
    return {"input_tokens": messages.input_tokens(body)}


def _refuse(status: int, words: str) -> Response:
    return JSONResponse(messages.error(status, words), status)


async def _not_found(request: Request, error: Exception) -> Response:
    return _refuse(404, "Not found.")
