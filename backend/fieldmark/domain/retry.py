"""Doing something anew that was prepared for what does not stand any more."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeVar

from fieldmark.errors import Stale

MAX_ATTEMPTS: Final = 3

T = TypeVar("T")


async def retry_while_stale(attempt: Callable[[], Awaitable[T]]) -> T:
    """What an attempt to prepare and apply answers. Begun anew where it is stale, three times in all; then it raises
    Stale."""
    for _ in range(MAX_ATTEMPTS - 1):
        with suppress(Stale):
            return await attempt()
    return await attempt()
