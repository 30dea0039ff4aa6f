"""The web UI below a path: the service is a part of another application, or behind a proxy that removes the path."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI

from browser.window import label
from fieldmark.api.app import create_app
from running_server import RunningServer

pytestmark = pytest.mark.anyio


def mounted(app: Any) -> Any:
    outer = FastAPI()
    outer.mount("/fm", app)
    return outer


def proxied(app: Any) -> Any:
    async def proxy(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            paths = {"path": scope["path"].removeprefix("/fm"), "raw_path": scope["raw_path"].removeprefix(b"/fm")}
            assert paths["path"] != scope["path"]  # nothing outside of it was requested
            scope = {**scope, **paths}
        await app(scope, receive, send)

    return proxy


@asynccontextmanager
async def below_a_path(server: RunningServer, around: Any) -> AsyncIterator[RunningServer]:
    """Start a second server on the same data, below /fm."""
    app = create_app(server.runtime.settings, with_worker=False)
    async with app.router.lifespan_context(app):
        outer = uvicorn.Server(uvicorn.Config(around(app), port=0, ws="none", lifespan="off", log_config=None))
        outer.config.load()
        outer.lifespan = outer.config.lifespan_class(outer.config)
        await outer.startup()
        port = outer.servers[0].sockets[0].getsockname()[1]
        try:
            yield dataclasses.replace(server, base_url=f"http://127.0.0.1:{port}/fm")
        finally:
            await outer.shutdown()


@pytest.mark.parametrize("around", [mounted, proxied])
async def test_the_page_works_below_a_path(browsing, serve, around):
    async with serve() as server, below_a_path(server, around) as inner, browsing(inner) as window:
        page = window.page
        await window.open("/documents")
        await page.set_input_files(
            "input[type=file]", {"name": "a.txt", "mimeType": "text/plain", "buffer": b"Invoice number: 7\nTotal: 5.00"}
        )
        await page.get_by_role("link", name="a.txt").click()
        await page.get_by_role("button", name="Extract").click()
        await page.get_by_role("menuitem", name="Extract all fields").click()
        await page.locator("[data-phase=complete]").wait_for()  # streamed
        await window.field_row("total").click()  # changes the search parameters
        await page.wait_for_url(lambda url: url.startswith(f"{inner.base_url}/documents/") and "total" in url)
        await page.reload()  # a deeper address
        await window.field_row("total").wait_for()
        await page.get_by_role("navigation", name=label("areas.main")).get_by_role("link").first.click()
        await page.wait_for_url(f"{inner.base_url}/home**")
        await page.goto(f"{inner.base_url}/nothing/here")
        await page.get_by_text(label("shell.notFound")).wait_for()
