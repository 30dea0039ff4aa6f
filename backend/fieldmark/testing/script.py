"""A model that follows a script, with the faults a real service has: for tests."""

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
from fieldmark.offline_model.messages import Block, Body, Call, Turn, items
from fieldmark.offline_model.server import Reply, Respond

Step = Reply | Callable[[Body], Reply | Awaitable[Reply]]


def http_error(status: int, retry_after: float | None = None, message: str = "The script says so.") -> Respond:
    headers = {} if retry_after is None else {"retry-after": f"{retry_after:g}"}
    return Respond(lambda body: JSONResponse(messages.error(status, message), status, headers), is_fault=True)


def drop(*blocks: Block) -> Respond:
    """The connection breaks in the middle of the last block."""
    return stall(0, *blocks)


def stall(seconds: float, *blocks: Block) -> Respond:
    """The stream falls silent for `seconds` in the middle of its last block, and then breaks."""
    return Respond(lambda body: _streaming(_cut(body, blocks, seconds)), is_fault=True)


def paced(goes_on: Callable[[str], Awaitable[Any]], *blocks: Block, characters: int = 4) -> Respond:
    """The model writes a few characters at a time, and waits before each for `goes_on(text so far)`."""
    return Respond(lambda body: _streaming(_paced(body, blocks, goes_on, characters)))


def held(goes_on: Callable[[], Awaitable[Any]], *blocks: Block) -> Respond:
    """The model says half of the first block, waits for `goes_on()`, and says the rest."""
    words = messages.said(blocks[0])
    half = -(-len(words) // 2)

    async def wait(written: str) -> None:
        if written == words[:half]:
            await goes_on()

    return paced(wait, *blocks, characters=half)


def _streaming(events: AsyncIterator[str]) -> StreamingResponse:
    return StreamingResponse(events, media_type="text/event-stream")


class _BrokenOffError(Exception):
    """Ends a response in the middle: the connection closes without the last chunk."""


async def _cut(body: Body, blocks: Sequence[Block], seconds: float) -> AsyncIterator[str]:
    for event in messages.opening(body):
        yield event
    for index, block in enumerate(blocks):
        for event in messages.block_events(index, block, body, unfinished=index == len(blocks) - 1):
            yield event
    await asyncio.sleep(seconds)
    raise _BrokenOffError


async def _paced(
    body: Body, blocks: Sequence[Block], goes_on: Callable[[str], Awaitable[Any]], size: int
) -> AsyncIterator[str]:
    for event in messages.opening(body):
        yield event
    for index, block in enumerate(blocks):
        words = messages.said(block)
        # The block's start, and of a call an empty piece, come first; its end, and a thought's signature, last.
        events = list(messages.block_events(index, block, body, characters=size))
        for at, event in enumerate(events, -1 - isinstance(block, Call)):
            if 0 <= at * size < len(words):
                await goes_on(words[: at * size])
            yield event
    for event in messages.closing(Turn(blocks)):
        yield event


@dataclass(frozen=True, slots=True)
class Endless:
    step: Step


def endless(step: Step) -> Endless:
    """This turn for ever, from here on."""
    return Endless(step)


class Script:
    """Answers each conversation with the turns in order; a fault is served once, before the turn that follows it.

    The position in a conversation is read from the request: the n-th turn answers a request that contains n answers of
    the model (neighbouring assistant messages count as one). So a request that is repeated, by the client's own
    retries or by a second process that resumes the conversation, gets the same turn again, a turn with several calls
    counts once, and conversations beside each other never take each other's turns. Only how many faults were served is
    remembered, by conversation (the CLI's session, else the first message) and place.

    A step is a list of blocks, a `Turn`, a fault, or a function of the request's body that gives one of them (it may
    be async, so a test can hold the model's answer back). Past the last turn the answer is an error 400 that says so.
    A Script is itself a function of the body, so a test with two kinds of conversation chooses between two scripts in
    a function of its own.
    """

    def __init__(self, steps: Sequence[Step | Endless]) -> None:
        self._turns: list[tuple[list[Respond], Step]] = []
        self._endless = False
        faults: list[Respond] = []
        for step in steps:
            if isinstance(step, Respond) and step.is_fault:
                faults.append(step)
                continue
            self._endless = isinstance(step, Endless)
            self._turns.append((faults, step.step if isinstance(step, Endless) else step))
            faults = []
        self._faults_after_the_last = faults
        self._served: OrderedDict[tuple[str, int], int] = OrderedDict()

    async def __call__(self, body: Body, before: int = 0) -> Reply:
        """Answer with the turn for this request; `before` turns belong to earlier conversations."""
        place = before + answers_so_far(body)
        beyond = place >= len(self._turns)
        if beyond and self._endless and self._turns:
            faults, step = [], self._turns[-1][1]
        elif beyond:
            faults = self._faults_after_the_last if place == len(self._turns) else []
            step = http_error(
                400, message=f"The script has {len(self._turns)} turns and was asked for number {place + 1}."
            )
        else:
            faults, step = self._turns[place]
        key = (conversation(body), place)
        served = self._served.get(key, 0)
        if served < len(faults):
            self._served[key] = served + 1
            return faults[served]
        if not callable(step):
            return step
        reply = step(body)
        return await reply if inspect.isawaitable(reply) else reply


def answers_so_far(body: Body) -> int:
    """How many answers of the model the conversation holds."""
    roles = [role for message in items(body, "messages") if (role := message.get("role")) != "system"]
    return sum(role == "assistant" and (at == 0 or roles[at - 1] != "assistant") for at, role in enumerate(roles))


def conversation(body: Body) -> str:
    """Return the key of a conversation: the client's session, else a digest of the first message."""
    session = as_object(body.get("metadata")).get("user_id")
    first = session if session else json.dumps(items(body, "messages")[:1], sort_keys=True)
    return hashlib.sha256(str(first).encode()).hexdigest()
