"""Chromium, and a window that shows one running service."""

from __future__ import annotations

import asyncio
import functools
import json
import re
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from fieldmark.identity.tokens import LocalTokens
from running_server import PATIENCE, RunningServer

playwright = pytest.importorskip("playwright.async_api", reason="Install the extra `browser`.")

MILLISECONDS = PATIENCE * 1000 / 4
"""Timeout of each action and expectation. Playwright's own timeout of expectations is 5 seconds."""
playwright.expect.set_options(timeout=MILLISECONDS)

ROOT = Path(__file__).parents[2]
CATALOGUES = ROOT / "frontend" / "src" / "locales"
SAMPLES = ROOT / "docs" / "samples"

# Without any requests to Google at the start.
_FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
_FLAGS += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]


@functools.cache
def _catalogue(language: str) -> dict[str, Any]:
    return json.loads((CATALOGUES / f"{language}.json").read_text())


def label(key: str, language: str = "en", **values: object) -> str:
    """Return a text of the web UI by its key in the catalogue, with placeholders filled in."""
    text: Any = _catalogue(language)
    if "count" in values:
        key += "_one" if values["count"] == 1 else "_other"
    for part in key.split("."):
        text = text[part]
    return re.sub(r"{{(\w+)[^}]*}}", lambda match: str(values[match[1]]), text)


class Window:
    """A browser window of one user. Page errors, CSP violations and requests to other hosts are collected in
    `faults`."""

    def __init__(self, server: RunningServer, page: Any) -> None:
        self.server, self.page = server, page
        self.faults: list[str] = []
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("dialog", lambda dialog: self.faults.append(f"a dialog: {dialog.message}"))
        page.on("request", self._check_request)
        page.on("console", self._check_console_message)

    def _check_request(self, request: Any) -> None:
        if not request.url.startswith((self.server.base_url, "blob:", "data:")):
            self.faults.append(f"asked for {request.url}")

    def _check_console_message(self, message: Any) -> None:
        if "Content Security Policy" in message.text or "TrustedHTML" in message.text:
            self.faults.append(message.text)

    def link(self, address: str = "/", user_id: UUID | None = None) -> str:
        """Return a link that signs in, as `fieldmark serve` prints it."""
        token = LocalTokens(self.server.runtime.settings.home).sign(user_id or self.server.scope.user_id)
        return f"{self.server.base_url}{address}#token={token}"

    async def open(self, address: str = "/", user_id: UUID | None = None) -> None:
        await self.page.goto(self.link(address, user_id))
        areas, sign_in = (
            self.page.get_by_role("navigation", name=label("areas.main")),
            self.page.get_by_role("button", name="Sign in"),
        )
        await areas.or_(sign_in).first.wait_for()
        if await sign_in.is_visible():
            await sign_in.click()
        await areas.wait_for()

    def field_row(self, path: str) -> Any:
        return self.page.locator(f'[role=treeitem][data-path="{path}"] > div').first

    async def open_editor(self, path: str) -> Any:
        """Open the editor of a field with a double-click and return it."""
        editor = self.page.get_by_label(f"Value of {path}")
        await double_click(self.field_row(path), editor)
        return editor

    async def first_page(self) -> dict[str, float]:
        """Return where page 1 is on the screen, once its words are shown: only then is its size final."""
        sheet = self.page.locator("[data-page='1']")
        await sheet.locator("span").first.wait_for(state="attached")
        return await sheet.bounding_box()


async def double_click(target: Any, opened: Any) -> None:
    """Double-click until `opened` is visible. What is drawn again between the two clicks gets no double-click."""
    while not await opened.is_visible():
        with suppress(playwright.TimeoutError):
            await target.dblclick(timeout=3000)
            await opened.wait_for(timeout=3000)


def find_chromium() -> str:
    """Return the machine's Chromium. The headless shell needs half the CPU time of the whole browser."""
    names = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
    executable = next(filter(None, map(shutil.which, names)), None)
    if executable is None:
        pytest.skip("There is no Chromium here: apt-get install chromium-headless-shell.")
    return executable


@asynccontextmanager
async def launch(executable: str) -> AsyncIterator[Any]:
    async with playwright.async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=executable, args=_FLAGS)
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def delayed_response(page: Any, pattern: str) -> AsyncIterator[None]:
    """Delay the response to requests that match the pattern until the block ends."""
    may_continue = asyncio.Event()

    async def hold(route: Any) -> None:
        await may_continue.wait()
        await route.continue_()

    await page.route(pattern, hold)
    async with page.expect_response(pattern):
        try:
            yield
        finally:
            may_continue.set()


def build_page() -> None:
    """Build the web UI if it is out of date. An installed package already contains it."""
    from fieldmark.api.web_ui import UI_FOLDER

    sys.path.insert(0, str(ROOT / "frontend"))
    import building

    if building.BUILT == UI_FOLDER:
        if not building.is_up_to_date():
            building.build()
    elif not (UI_FOLDER / "index.html").is_file():
        pytest.skip("Fieldmark was installed without its page: FIELDMARK_UI=require pip install .")
