"""A scripted model for tests, with the faults of a real service."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.responses import JSONResponse, StreamingResponse

from fieldmark.domain.json_values import as_object
from fieldmark.offline_model import messages
from fieldmark.offline_model.messages import Block, Body, Call, Turn, objects_in
from fieldmark.offline_model.server import Reply, Respond

Step = Reply | Callable[[Body], Reply | Awaitable[Reply]]


def http_error(status: int, retry_after: float | None = None, message: str = "Scripted error.") -> Respond:
    headers = {} if retry_after is None else {"retry-after": f"{retry_after:g}"}
    return Respond(lambda body: JSONResponse(messages.error(status, message), status, headers), is_fault=True)


def drop_connection(*blocks: Block) -> Respond:
    return stall_connection(0, *blocks)


def stall_connection(seconds: float, *blocks: Block) -> Respond:
    """Stop sending in the middle of the last block for `seconds`, then close the connection."""
    return Respond(lambda body: _event_stream(_interrupted_events(body, blocks, seconds)), is_fault=True)


def stream_in_steps(proceed: Callable[[str], Awaitable[Any]], *blocks: Block, characters: int = 4) -> Respond:
    """Stream a few characters at a time. Before each step, await `proceed(text sent so far)`."""
    return Respond(lambda body: _event_stream(_paced_events(body, blocks, proceed, characters)))


def pause_midway(proceed: Callable[[], Awaitable[Any]], *blocks: Block) -> Respond:
    """Stream half of the first block, await `proceed()`, then stream the rest."""
    words = messages.block_text(blocks[0])
    half = -(-len(words) // 2)

    async def wait(written: str) -> None:
        if written == words[:half]:
            await proceed()

    return stream_in_steps(wait, *blocks, characters=half)


def _event_stream(events: AsyncIterator[str]) -> StreamingResponse:
    return StreamingResponse(events, media_type="text/event-stream")


class _ConnectionLostError(Exception):
    """Ends a response early: the connection closes without the last chunk."""


async def _interrupted_events(body: Body, blocks: Sequence[Block], seconds: float) -> AsyncIterator[str]:
    for event in messages.start_events(body):
        yield event
    for index, block in enumerate(blocks):
        for event in messages.block_events(index, block, body, unfinished=index == len(blocks) - 1):
            yield event
    await asyncio.sleep(seconds)
    raise _ConnectionLostError


async def _paced_events(
    body: Body, blocks: Sequence[Block], proceed: Callable[[str], Awaitable[Any]], size: int
) -> AsyncIterator[str]:
    for event in messages.start_events(body):
        yield event
    for index, block in enumerate(blocks):
        words = messages.block_text(block)
        # The start event and, for a call, an empty delta come first; the end event and a signature come last.
        events = list(messages.block_events(index, block, body, characters=size))
        for at, event in enumerate(events, -1 - isinstance(block, Call)):
            if 0 <= at * size < len(words):
                await proceed(words[: at * size])
            yield event
    for event in messages.end_events(Turn(blocks)):
        yield event


@dataclass(frozen=True, slots=True)
class RepeatedStep:
    step: Step


def repeat_forever(step: Step) -> RepeatedStep:
    return RepeatedStep(step)


class Script:
    """Answers each conversation with the steps in order. A step is a list of blocks, a `Turn`, a fault, or a function
    (which may be async) from the request's body to one of these. A fault is served once, before the next turn.

    The position is read from the request: the n-th turn answers a request that contains n model answers (adjacent
    assistant messages count as one). So a repeated request gets the same turn again, and parallel conversations do not
    affect each other. Only the number of served faults is stored, by conversation and position. After the last turn,
    the response is error 400.
    """

    def __init__(self, steps: Sequence[Step | RepeatedStep]) -> None:
        self._turns: list[tuple[list[Respond], Step]] = []
        self._endless = False
        faults: list[Respond] = []
        for step in steps:
            if isinstance(step, Respond) and step.is_fault:
                faults.append(step)
                continue
            self._endless = isinstance(step, RepeatedStep)
            self._turns.append((faults, step.step if isinstance(step, RepeatedStep) else step))
            faults = []
        self._final_faults = faults
        self._served: OrderedDict[tuple[str, int], int] = OrderedDict()

    async def __call__(self, body: Body, earlier_turns: int = 0) -> Reply:
        """Return the reply to a request. `earlier_turns` is the number of turns that belong to earlier
        conversations."""
        position = earlier_turns + count_model_answers(body)
        is_past_end = position >= len(self._turns)
        if is_past_end and self._endless and self._turns:
            faults, step = [], self._turns[-1][1]
        elif is_past_end:
            faults = self._final_faults if position == len(self._turns) else []
            step = http_error(
                400, message=f"The script has {len(self._turns)} turns and was asked for number {position + 1}."
            )
        else:
            faults, step = self._turns[position]
        key = (conversation_key(body), position)
        served = self._served.get(key, 0)
        if served < len(faults):
            self._served[key] = served + 1
            return faults[served]
        if not callable(step):
            return step
        reply = step(body)
        return await reply if inspect.isawaitable(reply) else reply


def count_model_answers(body: Body) -> int:
    roles = [role for message in objects_in(body, "messages") if (role := message.get("role")) != "system"]
    return sum(role == "assistant" and (at == 0 or roles[at - 1] != "assistant") for at, role in enumerate(roles))


def conversation_key(body: Body) -> str:
    """Return a key for the conversation: a digest of the client's session or, without one, of the first message."""
    session = as_object(body.get("metadata")).get("user_id")
    first = session if session else json.dumps(objects_in(body, "messages")[:1], sort_keys=True)
    return hashlib.sha256(str(first).encode()).hexdigest()
