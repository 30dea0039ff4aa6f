"""The service as a part of another application, below a path of it."""

from __future__ import annotations

from uuid import uuid4

import httpx
import pytest
from answers import assert_problem
from fastapi import FastAPI

from fieldmark.api.app import create_app
from fieldmark.identity.tokens import LocalTokens
from fieldmark.settings import Settings
from mcp_calls import McpCalls

pytestmark = pytest.mark.anyio


async def test_a_mounted_service_serves_its_routes_and_refuses_strangers(clone, tmp_path):
    settings = Settings(_env_file=None, home=tmp_path, database_url=clone.app_url, log_level="error")
    fieldmark = create_app(settings, with_worker=False, with_ui=False)
    app = FastAPI(lifespan=lambda _: fieldmark.router.lifespan_context(fieldmark))
    app.mount("/fm", fieldmark)
    token = LocalTokens(tmp_path).sign(uuid4())
    place = {"transport": httpx.ASGITransport(app), "base_url": "http://a/fm"}
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(**place, headers={"authorization": f"Bearer {token}"}) as http,
        httpx.AsyncClient(**place) as stranger,
    ):
        assert (await stranger.get("/healthz")).status_code == 200
        assert (await stranger.get("/openapi.json")).status_code == 200
        assert_problem(await stranger.get("/api/documents"), 401)
        made = await http.post("/api/documents", files={"file": ("a.txt", b"x" * 3_000_000)})  # the limit of uploads
        assert made.status_code == 201, made.text
        listed = await http.get("/api/documents")
        assert len(listed.json()["items"]) == 1 and listed.headers["cache-control"] == "private, no-store"
        body = {"document_id": made.json()["id"], "wait": False}
        started = await http.post("/api/agent/extract", json=body, headers={"accept": "application/json"})
        assert started.headers["location"] == f"/fm/api/runs/{started.json()['run_id']}"
        called = await McpCalls(http).call("list_documents")
        assert [one["id"] for one in called["structuredContent"]["items"]] == [made.json()["id"]]
        address = (await McpCalls(http).call("upload_address"))["structuredContent"]["url"]
        assert address == "http://a/fm/api/documents"
        assert (await http.get("/nothing")).status_code == 404


async def test_a_service_that_was_not_started_says_so(tmp_path):
    app = FastAPI()
    app.mount("/fm", create_app(Settings(_env_file=None, home=tmp_path), with_worker=False, with_ui=False))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://a/fm") as http:
        assert_problem(await http.get("/api/documents", headers={"authorization": "Bearer a"}), 503)
