"""The page as the service answers it, built or not, and what anybody may know before they sign in."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from answers import problem
from fastapi import FastAPI

from fieldmark.api.problems import add_error_handlers
from fieldmark.api.web_ui import add_web_ui
from fieldmark.settings import Settings

pytestmark = pytest.mark.anyio

INDEX = "<!doctype html><title>Built</title>" + " " * 2000
SCRIPT = "export const one = 1;\n" * 500


@pytest.fixture
def built(tmp_path: Path) -> Path:
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text(INDEX)
    (tmp_path / "assets" / "index-abc123.js").write_text(SCRIPT)
    (tmp_path.parent / "secret.js").write_text("secret")
    return tmp_path


def page_of(built: Path, **settings: str) -> httpx.AsyncClient:
    app = FastAPI(openapi_url=None)
    add_error_handlers(app)
    add_web_ui(app, Settings(_env_file=None, **settings), built)
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://page")


async def test_each_of_its_addresses_is_the_page_and_no_other_is(built: Path):
    async with page_of(built) as http:
        for address in ("/", "/documents", "/documents/7c5b/anything", "/settings/members"):
            answer = await http.get(address)
            assert (answer.status_code, answer.text) == (200, INDEX), address
            assert answer.headers["cache-control"] == "no-cache"
        for address in ("/nowhere", "/index.html", "/api/documents2", "/assets/none.js", "/documents.js"):
            problem(await http.get(address), 404)
        for address in ("/assets/../../secret.js", "/assets/..%2f..%2fsecret.js", "/assets/%2e%2e/index.html"):
            assert "secret" not in (await http.get(address)).text
        assert (await http.post("/documents")).status_code == 405


async def test_its_files_are_kept_for_ever_and_compressed(built: Path):
    async with page_of(built) as http:
        answer = await http.get("/assets/index-abc123.js")
        assert (answer.text, answer.headers["content-encoding"]) == (SCRIPT, "gzip")
        assert int(answer.headers["content-length"]) < len(SCRIPT) / 10
        assert "immutable" in answer.headers["cache-control"] and answer.headers["content-type"].startswith(
            "text/javascript"
        )
        assert answer.headers["x-content-type-options"] == "nosniff"
        plain = await http.get("/assets/index-abc123.js", headers={"accept-encoding": "identity"})
        assert (plain.text, "content-encoding" in plain.headers) == (SCRIPT, False)
        again = await http.get("/", headers={"if-none-match": (await http.get("/")).headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")


async def test_nothing_foreign_runs_or_is_fetched_there(built: Path):
    for settings, elsewhere in (
        ({}, ""),
        ({"supabase_url": "https://project.supabase.co/"}, " https://project.supabase.co"),
    ):
        async with page_of(built, **settings) as http:
            answer = await http.get("/documents")
        policy = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
        assert policy["default-src"] == "'none'" and policy["frame-ancestors"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == "'self'"
        assert policy["connect-src"] == f"'self'{elsewhere}"
        assert (policy["require-trusted-types-for"], policy["trusted-types"]) == ("'script'", "'none'")
        assert answer.headers["referrer-policy"] == "no-referrer"


async def test_where_it_is_not_built_it_says_how(tmp_path: Path):
    async with page_of(tmp_path / "none") as http:
        answer = await http.get("/documents")
        assert answer.status_code == 200 and "FIELDMARK_UI=require pip install" in answer.text
        assert "script" not in answer.headers["content-security-policy"]


async def test_anybody_may_know_how_to_sign_in_and_nothing_else(serve):
    # A key that may be published, and one beside it that may not.
    settings = {"supabase_secret_key": "sb_secret_never_told", "supabase_publishable_key": "sb_publishable_x"}
    async with serve(**settings) as server, httpx.AsyncClient(base_url=server.base_url) as anybody:
        response = await anybody.get("/api/config")
        assert response.json() == {"supabase": None, "offline_model": False, "max_file_mb": 50}
        problem(await anybody.get("/api/documents"), 401)
        problem(await anybody.get("/api/config/"), 401)
        problem(await anybody.post("/documents"), 401)
        problem(await anybody.request("GET", "/documents", content=b"x"), 413)
        assert (await anybody.get("/documents")).status_code == 200
