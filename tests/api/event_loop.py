"""Measures how long a callback of the event loop blocks it."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def longest_block(found: dict[str, float], name: str, seconds: float = 0.05) -> Iterator[None]:
    """Record the CPU time of the longest callback in the context under a name, if it exceeds a limit in seconds. It is
    CPU time, so that a busy machine does not matter."""
    longest, run = 0.0, asyncio.Handle._run

    def run_timed(handle: asyncio.Handle) -> None:
        nonlocal longest
        before = time.thread_time()
        run(handle)
        longest = max(longest, time.thread_time() - before)

    gc.disable()  # it would count for the callback in which it happens
    try:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(asyncio.Handle, "_run", run_timed)
            yield
    finally:
        gc.enable()
    if longest > seconds:
        found[name] = max(round(longest, 3), found.get(name, 0))
