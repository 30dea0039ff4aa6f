"""Connections of an idle process."""

from __future__ import annotations

import pytest

from extraction_case import sql, until
from fieldmark.db import pool
from fieldmark.runs.lifecycle import queue

pytestmark = pytest.mark.anyio


async def test_idle_process_holds_at_most_four_connections(serve, clone, monkeypatch):
    for module in (pool, queue):
        monkeypatch.setattr(module, "IDLE_SECONDS", 1)
    query = """select count(*) as held from pg_stat_activity
        where datname = current_database() and usename = 'fieldmark_app'"""
    async with serve() as server:
        async with server.runtime.database.listen("fieldmark_run_events"):
            assert (await server.http.get("/api/documents")).is_success
        # Connections of a busy moment are closed soon after.
        await until(lambda: 3 <= sql(clone.owner_url, query)[0]["held"] <= 4)
