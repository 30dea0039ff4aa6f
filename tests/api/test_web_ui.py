"""The web UI as served over HTTP, built or not, and the public configuration."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from answers import assert_problem
from fastapi import FastAPI

from fieldmark.api.problems import add_error_handlers
from fieldmark.api.web_ui import add_web_ui
from fieldmark.settings import Settings

pytestmark = pytest.mark.anyio

INDEX = "<!doctype html><title>Built</title>" + " " * 2000 + '<script src="./assets/index-abc123.js">'
SCRIPT = "export const one = 1;\n" * 500


@pytest.fixture
def built_ui(tmp_path: Path) -> Path:
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text(INDEX)
    (tmp_path / "assets" / "index-abc123.js").write_text(SCRIPT)
    (tmp_path.parent / "secret.js").write_text("secret")
    return tmp_path


def ui_client(built_ui: Path, **settings: str) -> httpx.AsyncClient:
    app = FastAPI(openapi_url=None)
    add_error_handlers(app)
    add_web_ui(app, Settings(_env_file=None, **settings), built_ui)
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://page")


async def test_ui_paths_return_the_page_and_others_404(built_ui: Path):
    async with ui_client(built_ui) as http:
        for address in ("/", "/documents", "/documents/7c5b/anything", "/settings/members"):
            answer = await http.get(address)
            page = INDEX.replace("./", "../" * (address.count("/") - 1) or "./")
            assert (answer.status_code, answer.text) == (200, page), address
            assert answer.headers["cache-control"] == "no-cache"
        for address in ("/nowhere", "/index.html", "/api/documents2", "/assets/none.js", "/documents.js"):
            assert_problem(await http.get(address), 404)
        for address in ("/assets/../../secret.js", "/assets/..%2f..%2fsecret.js", "/assets/%2e%2e/index.html"):
            assert "secret" not in (await http.get(address)).text
        assert (await http.post("/documents")).status_code == 405


async def test_assets_are_cached_forever_and_compressed(built_ui: Path):
    async with ui_client(built_ui) as http:
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


async def test_content_security_policy_allows_own_scripts_and_connections_only(built_ui: Path):
    for settings, elsewhere in (
        ({}, ""),
        ({"supabase_url": "https://project.supabase.co/"}, " https://project.supabase.co"),
    ):
        async with ui_client(built_ui, **settings) as http:
            answer = await http.get("/documents")
        policy = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
        assert policy["default-src"] == "'none'" and policy["frame-ancestors"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == "'self'"
        assert policy["connect-src"] == f"'self'{elsewhere}"
        assert (policy["require-trusted-types-for"], policy["trusted-types"]) == ("'script'", "'none'")
        assert answer.headers["referrer-policy"] == "no-referrer"


async def test_unbuilt_ui_returns_a_page_without_scripts(tmp_path: Path):
    async with ui_client(tmp_path / "none") as http:
        answer = await http.get("/documents")
        assert answer.status_code == 200 and answer.text != INDEX
        assert "script" not in answer.headers["content-security-policy"]


async def test_sign_in_configuration_is_public_and_has_no_secrets(serve):
    # A public key and a secret one.
    settings = {"supabase_secret_key": "sb_secret_x", "supabase_publishable_key": "sb_publishable_x"}
    async with serve(**settings) as server, httpx.AsyncClient(base_url=server.base_url) as anonymous:
        response = await anonymous.get("/api/config")
        public = {"supabase": None, "offline_model": False, "max_file_mb": 50, "embedded_database": False}
        assert response.json() == public
        assert_problem(await anonymous.get("/api/documents"), 401)
        assert_problem(await anonymous.get("/api/config/"), 401)
        assert_problem(await anonymous.post("/documents"), 401)
        assert_problem(await anonymous.request("GET", "/documents", content=b"x"), 413)
        assert (await anonymous.get("/documents")).status_code == 200
