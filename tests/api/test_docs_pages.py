"""/llms.txt and the pages that it lists."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest
from answers import assert_problem
from fastapi import FastAPI

from fieldmark.api.app import create_app
from fieldmark.settings import Settings

pytestmark = pytest.mark.anyio

DOCS = Path(__file__).parents[2] / "docs"


async def test_every_page_is_listed_and_served_without_a_token(tmp_path):
    fieldmark = create_app(Settings(_env_file=None, home=tmp_path), with_worker=False)
    outer = FastAPI()
    outer.mount("/fm", fieldmark)
    for app, address in ((fieldmark, "http://a"), (outer, "http://a/fm")):
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=address) as http:
            listed = await http.get("/llms.txt")
            assert listed.status_code == 200 and listed.headers["content-type"].startswith("text/plain")
            entries = re.findall(r"^- \[(.+)\]\((.+)\): (.{10,})$", listed.text, re.MULTILINE)
            assert len(entries) == len([*DOCS.glob("*.md"), *DOCS.glob("recipes/*.md")])
            for title, page, _ in entries:
                answer = await http.get(page)
                assert answer.text == (DOCS / page.removeprefix(f"{address}/docs/")).read_text("utf-8")
                assert answer.text.startswith(f"# {title}\n") and answer.headers["content-type"].startswith(
                    "text/markdown"
                )
            assert (await http.get("/openapi.json")).status_code == 200
            assert_problem(await http.get("/docs/nothing.md"), 404)
            for outside in ("/docs/../README.md", "/docs/..%2fREADME.md", "/docs/%2e%2e/CONTRIBUTING.md"):
                assert "# " not in (await http.get(outside)).text
            assert_problem(await http.get("/docs/samples/invoice.schema.json"), 401)
