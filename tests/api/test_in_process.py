"""The service in a command's own process, over a Unix socket."""

from __future__ import annotations

from uuid import uuid4

import httpx
import pytest

from fieldmark.api.in_process import open_in_process
from fieldmark.identity.tokens import LocalTokens
from fieldmark.settings import Settings
from running_server import PATIENCE

pytestmark = pytest.mark.anyio


@pytest.fixture
def settings(clone, memory_path) -> Settings:
    return Settings(_env_file=None, home=memory_path, database_url=clone.app_url, anthropic_api_key=None, warm_spares=0)


async def test_only_the_token_of_the_process_is_accepted(settings: Settings):
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
