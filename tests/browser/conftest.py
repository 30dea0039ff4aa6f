"""The page in a browser: built once for the session, and pictures of it where somebody asks for them."""

from __future__ import annotations

import fcntl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from browsing import build_page


@pytest.fixture(scope="session")
def built_page(_home: Path) -> None:
    with (_home / "page-is-being-built").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        build_page()


@pytest.fixture
def picture(request: pytest.FixtureRequest) -> Callable[[Any, str], Awaitable[None]]:
    """`await picture(page, "a name")`: kept where `--screenshots` says, else nowhere."""
    folder: Path | None = request.config.getoption("--screenshots")

    async def take(page: Any, name: str) -> None:
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            await page.screenshot(path=folder / f"{name}.png")

    return take
