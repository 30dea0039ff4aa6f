"""The service in a command's own process, at a Unix socket."""

from __future__ import annotations

from uuid import uuid4

import httpx
import pytest

from desk import until
from fieldmark.api.in_process import open_in_process
from fieldmark.identity.tokens import LocalTokens
from fieldmark.settings import Settings
from fieldmark.worker.jobs import working
from standing import PATIENCE

pytestmark = pytest.mark.anyio


@pytest.fixture
def settings(clone, quick_path) -> Settings:
    return Settings(
        _env_file=None, home=quick_path, database_url=clone.app_url, anthropic_api_key=None, warm_processes=0
    )


async def test_its_one_token_is_the_user_s_and_no_other_is_taken(settings: Settings):
    user = uuid4()
    async with (
        open_in_process(settings, user) as own,
        httpx.AsyncClient(transport=own.transport, base_url="http://in-process", timeout=PATIENCE) as http,
    ):
        mine = await http.get("/api/me", headers={"Authorization": f"Bearer {own.token}"})
        assert (mine.status_code, mine.json()["user_id"]) == (200, str(user))
        for token in ("x", own.token + "x", LocalTokens(settings.home).sign(user)):
            refused = await http.get("/api/me", headers={"Authorization": f"Bearer {token}"})
            assert (refused.status_code, refused.json()["code"]) == (401, "unauthenticated")
        assert (await http.get("/nowhere", headers={"Authorization": f"Bearer {own.token}"})).status_code == 404


async def test_an_answer_comes_as_it_is_made_and_ends_when_nobody_takes_it(settings: Settings):
    async with (
        open_in_process(settings, uuid4()) as own,
        httpx.AsyncClient(
            transport=own.transport,
            base_url="http://in-process",
            headers={"Authorization": f"Bearer {own.token}"},
            timeout=PATIENCE,
        ) as http,
    ):
        made = await http.post("/api/documents", files={"file": ("a.txt", b"Invoice number: 1")})
        assert made.status_code == 201, made.text
        body = {"document_id": made.json()["id"]}
        async with http.stream(
            "POST", "/api/agent/extract", json=body, headers={"Accept": "text/event-stream"}
        ) as answer:
            # Nobody works on it, so that it never ends; and yet its beginning is here.
            assert (await anext(answer.aiter_lines())).startswith(": run ")
        await until(lambda: b"fieldmark_event_stream_readers 0.0" in own.runtime.metrics.text())
        async with working(own.runtime):
            done = await http.post("/api/agent/extract", json=body)
        assert done.json()["status"] == "completed"
