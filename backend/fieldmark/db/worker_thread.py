"""Short computing off the event loop: JSON of thousands of values, which takes milliseconds."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

# One thread: of several the event loop would wait for each in a row, since they take the interpreter from each other.
_thread: Final = ThreadPoolExecutor(1, thread_name_prefix="aside")


async def run_in_thread(compute: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What a computation of some milliseconds answers. It may be called inside a transaction, since nobody's long
    computing is in front of it: that goes in turns (`services/turns`)."""
    context = contextvars.copy_context()
    call = partial(context.run, partial(compute, *args, **kwargs))
    return await asyncio.get_running_loop().run_in_executor(_thread, call)
