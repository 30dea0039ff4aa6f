"""The page of docs/recipes/own-page.md, on another origin than the service."""

from __future__ import annotations

import re
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from browser.window import playwright
from http_stub import http_stub

pytestmark = pytest.mark.anyio

RECIPE = Path(__file__).parents[2] / "docs" / "recipes" / "own-page.md"


async def test_the_page_of_the_recipe_extracts_a_file(_chromium, serve):
    text = RECIPE.read_text("utf-8")
    html = text.partition("```html\n")[2].partition("```")[0]
    scopes = re.findall(r'"(\w+:\w+)"', text)

    class Page(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(html.encode())

    with http_stub(Page) as origin:
        async with serve(cors_origins=[origin]) as server:
            made = await server.http.post("/api/keys", json={"name": "page", "scopes": scopes})
            html = html.replace("https://fieldmark.example.com", server.base_url).replace(
                "YOUR_KEY", made.json()["key"]
            )
            page = await _chromium.new_page()
            await page.goto(origin)
            file = {"name": "a.txt", "mimeType": "text/plain", "buffer": b"Total: 10.00 EUR"}
            await page.set_input_files("input", file)
            await playwright.expect(page.locator("pre")).to_contain_text('"total": 10')
            await page.close()
