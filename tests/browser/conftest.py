"""One Chromium for all tests of the web UI in a worker, and screenshots where `--screenshots` asks for them."""

from __future__ import annotations

import fcntl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from browser.window import Window, build_page, find_chromium, launch
from standing import PATIENCE, Served

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
    """`async with browsing(served) as window`: a window that shares no cookies, storage or cache with any other.
    Options are those of a Playwright context, such as `viewport`."""

    @asynccontextmanager
    async def open_window(served: Served, **options: Any) -> AsyncIterator[Window]:
        context = await _chromium.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
        try:
            context.set_default_timeout(PATIENCE * 1000 / 4)
            yield Window(served, await context.new_page())
        finally:
            await context.close()

    return open_window


@pytest.fixture
def picture(request: pytest.FixtureRequest) -> Callable[[Any, str], Awaitable[None]]:
    """`await picture(page, "a name")` saves a screenshot in the folder of `--screenshots`, if that is given."""
    folder: Path | None = request.config.getoption("--screenshots")

    async def take(page: Any, name: str) -> None:
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            await page.screenshot(path=folder / f"{name}.png")

    return take
