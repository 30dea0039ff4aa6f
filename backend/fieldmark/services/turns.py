"""Long work in turns of organisations: what one asks for does not keep others waiting."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
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
class _Place:
    """Where one organisation waits: it has one turn at a time, and then the next after everybody else who waits."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    asked_for: int = 0


@dataclass(slots=True)
class _State:
    of_all: asyncio.Semaphore
    of: dict[UUID, _Place] = field(default_factory=dict[UUID, _Place])


class Turns:
    """Turns at one kind of work, so many at once."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        # A service has one event loop; a test session has many, and what waits belongs to one of them.
        self._states: WeakKeyDictionary[asyncio.AbstractEventLoop, _State] = WeakKeyDictionary()

    @asynccontextmanager
    async def of(self, org_id: UUID, queue_defaults: int | None = None) -> AsyncGenerator[None]:
        """The organisation's turn, for as long as this context lasts. Wait for it without a connection. Raises
        TooManyAtOnce where so much of the organisation waits already."""
        state = self._states.setdefault(asyncio.get_running_loop(), _State(asyncio.Semaphore(self._at_once)))
        place = state.of.setdefault(org_id, _Place())
        if queue_defaults is not None and place.asked_for >= queue_defaults:
            raise TooManyAtOnce("Too much of this organisation waits: send less, or again a little later.")
        place.asked_for += 1
        try:
            async with place.lock, state.of_all:
                yield
        finally:
            place.asked_for -= 1
            if not place.asked_for:
                del state.of[org_id]


DRAWING: Final = Turns(2)
"""Turns at drawing pages, which is done in processes of their own."""

_computing: Final = Turns(AT_ONCE)

# Threads of its own: those that files are read and written with are never all taken by long computing, and what goes on
# when whoever asked has gone is counted too.
_threads: Final = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="turn")
_others: Final = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="without a turn")


async def in_turn(org_id: UUID, compute: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What a computation answers, run in a thread when it is its organisation's turn. Call it without a connection.
    Raises TooManyAtOnce where too much of the organisation waits already."""
    async with _computing.of(org_id, MOST_WAITING):
        return await _in_thread(partial(compute, *args, **kwargs))


async def in_turn_at_last(org_id: UUID, compute: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """As `in_turn`, however much waits: for what follows a write that is committed and must be answered."""
    async with _computing.of(org_id):
        return await _in_thread(partial(compute, *args, **kwargs))


async def without_turn(compute: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What a computation answers that cannot wait for its turn: inside a transaction, or where nobody is known yet.
    Its threads are none of those that turns, or files, are waited for with."""
    return await _in_thread(partial(compute, *args, **kwargs), _others)


async def _in_thread(compute: Callable[[], T], threads: ThreadPoolExecutor = _threads) -> T:
    context = contextvars.copy_context()
    return await asyncio.get_running_loop().run_in_executor(threads, partial(context.run, compute))
