"""Retry an operation whose input changed before it was applied (optimistic locking)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeVar

from fieldmark.errors import Stale

MAX_ATTEMPTS: Final = 3

T = TypeVar("T")


async def retry_while_stale(attempt: Callable[[], Awaitable[T]]) -> T:
    """Run an attempt and return its result. Retry while it raises Stale, at most 3 attempts in all; then raise
    Stale."""
    for _ in range(MAX_ATTEMPTS - 1):
        with suppress(Stale):
            return await attempt()
    return await attempt()
