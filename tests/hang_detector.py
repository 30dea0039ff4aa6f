"""Ends a hanging test and prints the stacks of its threads and asyncio tasks. Extends pytest-timeout, which prints
threads only."""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import io
import os
import signal
import sys
import threading
import traceback
import weakref
from collections.abc import Generator, Iterator
from types import FrameType
from typing import Any, Final

import pytest

LONG_SECONDS: Final = 600
"""Timeout of tests marked `long`. pyproject.toml has the timeout of the others."""
_REPEAT_SECONDS: Final = 60
_TEARDOWN_SECONDS: Final = 300

_loops: weakref.WeakSet[asyncio.AbstractEventLoop] = weakref.WeakSet()
_stderr = pytest.StashKey[int]()


class TestHangs(BaseException):
    """Raised in a hanging test. anyio continues a test after a pytest failure, and the fixtures would wait for it
    endlessly. After a BaseException anyio cancels the test."""


def watch_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Include this loop's tasks in the stacks."""
    _loops.add(loop)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("long") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(LONG_SECONDS))


@pytest.hookimpl(wrapper=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> Generator[None, object, object]:
    result = yield
    if signal.getsignal(signal.SIGALRM) not in (
        signal.SIG_DFL,
        signal.SIG_IGN,
        None,
    ):  # otherwise pytest-timeout uses a thread

        def raise_hang(number: int, frame: FrameType | None) -> None:
            raise TestHangs(f"{item.nodeid} takes longer than {settings.timeout:g} seconds.\n{format_stacks()}")

        signal.signal(signal.SIGALRM, raise_hang)
        # Repeated: the first exception may hit a task that is never awaited.
        signal.setitimer(signal.ITIMER_REAL, settings.timeout, _REPEAT_SECONDS)
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> None:
    if call.excinfo is not None and call.excinfo.errisinstance(TestHangs):
        # Collect the cancelled tasks now. If they log while pytest parses sources for its report, the parser of Python
        # 3.11 fails (cpython issue 106905) and the session ends.
        gc.collect()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    # pytest-timeout ignores the teardown of a failed test. A hanging teardown ends the process; xdist starts another.
    faulthandler.dump_traceback_later(_TEARDOWN_SECONDS, file=item.config.stash[_stderr], exit=True)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_stderr] = os.dup(2)  # the real stderr: pytest captures it during a test


def pytest_unconfigure(config: pytest.Config) -> None:
    os.close(config.stash[_stderr])


def format_stacks() -> str:
    """Return the stacks of all asyncio tasks and of all threads except the caller's."""
    out = io.StringIO()
    frames = sys._current_frames()
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and thread.ident in frames:
            print(f"\nThread {thread.name}:", file=out)
            out.writelines(traceback.format_stack(frames[thread.ident]))
    for loop in _loops:
        for task in asyncio.all_tasks(loop):
            print(f"\nTask {task.get_name()}:", file=out)
            out.writelines(traceback.StackSummary.extract(_frames(task.get_coro())).format())
    return out.getvalue()


def _frames(coroutine: Any) -> Iterator[tuple[FrameType, int]]:
    """Yield the frames of a coroutine and of all that it awaits. `Task.get_stack` returns the first frame only."""
    while coroutine is not None:
        # Coroutines, generators and async generators have the same attributes with different prefixes.
        prefix = next((prefix for prefix in ("cr", "gi", "ag") if hasattr(coroutine, f"{prefix}_frame")), None)
        if prefix is None or (frame := getattr(coroutine, f"{prefix}_frame")) is None:
            return
        yield frame, frame.f_lineno
        coroutine = getattr(coroutine, "gi_yieldfrom" if prefix == "gi" else f"{prefix}_await")
