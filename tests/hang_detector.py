"""Ends a test that hangs, and says where: on top of pytest-timeout, which knows threads but no event loops."""

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
"""What a test that is marked `long` may take; the others what pyproject.toml says."""
_AGAIN_SECONDS: Final = 60
_TEARDOWN_SECONDS: Final = 300

_loops: weakref.WeakSet[asyncio.AbstractEventLoop] = weakref.WeakSet()
_errors = pytest.StashKey[int]()


class Hangs(BaseException):
    """Raised in a test that hangs. No failure of pytest's own: after one of those anyio lets the test go on in its
    loop, and the fixtures wait for it without end. After any other exception that is no error, it cancels the test."""


def known(loop: asyncio.AbstractEventLoop) -> None:
    """Tell of this loop's tasks where a test hangs."""
    _loops.add(loop)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("long") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(LONG_SECONDS))


@pytest.hookimpl(wrapper=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> Generator[None, object, object]:
    done = yield
    if signal.getsignal(signal.SIGALRM) not in (signal.SIG_DFL, signal.SIG_IGN, None):  # else it uses a thread, or none

        def end(number: int, frame: FrameType | None) -> None:
            raise Hangs(f"{item.nodeid} takes longer than {settings.timeout:g} seconds.\n{stacks()}")

        signal.signal(signal.SIGALRM, end)
        # Again and again: the first one may hit a task that nobody asks how it ended.
        signal.setitimer(signal.ITIMER_REAL, settings.timeout, _AGAIN_SECONDS)
    return done


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> None:
    if call.excinfo is not None and call.excinfo.errisinstance(Hangs):
        # The tasks that were broken off are thrown away here, and not by chance while pytest parses sources for its
        # report: what they log then confuses the parser of Python 3.11 (cpython issue 106905), and the session ends.
        gc.collect()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    # Once a test has failed, pytest-timeout looks no more. What cannot even be cleared up takes its process along, and
    # xdist starts another.
    faulthandler.dump_traceback_later(_TEARDOWN_SECONDS, file=item.config.stash[_errors], exit=True)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_errors] = os.dup(2)  # the real one: during a test, pytest captures what is written on standard error


def pytest_unconfigure(config: pytest.Config) -> None:
    os.close(config.stash[_errors])


def stacks() -> str:
    """Where all threads and all tasks are, but for the thread that asks: its own stack is the failure's."""
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
    """Those of a coroutine and of all that it awaits. `Task.get_stack` has the first alone."""
    while coroutine is not None:
        # A coroutine, a generator or an asynchronous one: each names the same things with letters of its own.
        kind = next((kind for kind in ("cr", "gi", "ag") if hasattr(coroutine, f"{kind}_frame")), None)
        if kind is None or (frame := getattr(coroutine, f"{kind}_frame")) is None:
            return
        yield frame, frame.f_lineno
        coroutine = getattr(coroutine, "gi_yieldfrom" if kind == "gi" else f"{kind}_await")
