"""One Chromium per worker for all tests of the web UI."""

from __future__ import annotations

import fcntl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from browser.window import MILLISECONDS, Window, build_page, find_chromium, launch
from running_server import RunningServer

Browsing = Callable[..., AbstractAsyncContextManager[Window]]


@pytest.fixture(scope="session")
def built_page(_home: Path) -> None:
    with (_home / "page-is-being-built").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        build_page()


@pytest.fixture(scope="package")
async def _chromium(anyio_backend: Any, built_page: None) -> AsyncIterator[Any]:
    async with launch(find_chromium()) as browser:
        yield browser


@pytest.fixture
def browsing(_chromium: Any) -> Browsing:
    """Open a window: `async with browsing(server) as window`. It shares no cookies, storage or cache with other
    windows, and the test fails if its page reports an error. Options are those of a Playwright context, such as
    `viewport`."""

    @asynccontextmanager
    async def open_window(server: RunningServer, **options: Any) -> AsyncIterator[Window]:
        default_options = {"viewport": {"width": 1280, "height": 800}, "reduced_motion": "reduce"}
        context = await _chromium.new_context(**default_options | options)
        try:
            context.set_default_timeout(MILLISECONDS)
            window = Window(server, await context.new_page())
            yield window
            assert window.faults == []
        finally:
            await context.close()

    return open_window
