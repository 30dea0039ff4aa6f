"""Run short CPU-bound functions, such as encoding JSON with thousands of values, in a worker thread."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

# One thread: several would compete with the event loop for the GIL.
_thread: Final = ThreadPoolExecutor(1, thread_name_prefix="worker_thread")


async def run_in_thread(compute: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a CPU-bound function of a few milliseconds in a worker thread. Safe inside a transaction: long computations
    use `services/fair_share` and never block this thread."""
    context = contextvars.copy_context()
    call = partial(context.run, partial(compute, *args, **kwargs))
    return await asyncio.get_running_loop().run_in_executor(_thread, call)
