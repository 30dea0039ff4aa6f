"""Long computing, off the event loop and in turns: what one organisation asks for does not keep others waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, ParamSpec, TypeVar
from uuid import UUID
from weakref import WeakKeyDictionary

from fieldmark.errors import TooManyAtOnce

AT_ONCE: Final = 2
"""How many organisations compute at once in a process. More threads than that would only take the interpreter from each
other, and from the event loop."""

MOST_WAITING: Final = 32
"""How many turns of one organisation may be asked for at once."""

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(slots=True)
class _Turns:
    """The turns of one organisation: it has one at a time, and then the next after everybody else who waits."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    asked_for: int = 0


@dataclass(slots=True)
class _State:
    of_all: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))
    of: dict[UUID, _Turns] = field(default_factory=dict[UUID, _Turns])


# A service has one event loop; a test session has many, and what waits belongs to one of them.
_states: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, _State]] = WeakKeyDictionary()


async def in_turn(org_id: UUID, compute: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What a computation answers, run in a thread when it is its organisation's turn. Call it without a connection.
    Raises TooManyAtOnce where too much of the organisation waits already."""
    state = _states.setdefault(asyncio.get_running_loop(), _State())
    turns = state.of.setdefault(org_id, _Turns())
    if turns.asked_for >= MOST_WAITING:
        raise TooManyAtOnce("Too much of this organisation waits to be looked for: send less, or again a little later.")
    turns.asked_for += 1
    try:
        async with turns.lock, state.of_all:
            return await asyncio.to_thread(compute, *args, **kwargs)
    finally:
        turns.asked_for -= 1
        if not turns.asked_for:
            del state.of[org_id]
