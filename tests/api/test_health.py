"""/healthz and /readyz, and requests while the database is unreachable."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any
from urllib.parse import urlsplit

import httpx
import psycopg
import pytest
from answers import assert_problem
from psycopg import sql

from extraction_case import until
from fieldmark.api.app import create_app
from fieldmark.db import pool
from fieldmark.settings import Settings
from pagewords import readers
from running_server import PATIENCE

pytestmark = pytest.mark.anyio


@pytest.fixture
def set_connections_allowed(clone) -> Callable[[bool], None]:
    """Allow connections to the clone, or refuse and terminate them."""
    parts = urlsplit(clone.owner_url)
    name = parts.path[1:]

    def change(available: bool) -> None:
        with psycopg.connect(parts._replace(path="/postgres").geturl(), autocommit=True) as conn:
            conn.execute(
                sql.SQL("alter database {} with allow_connections {}").format(
                    sql.Identifier(name), sql.Literal(available)
                )
            )
            if not available:
                conn.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", (name,))

    return change


async def test_database_outage_gets_503_and_ends(serve, set_connections_allowed, clone, monkeypatch):
    monkeypatch.setattr(pool, "WAIT_SECONDS", 2)
    async with serve() as server:
        http = server.http
        assert (await http.get("/healthz")).json() == {"status": "ok", "model": None}
        assert (await http.get("/readyz")).json() == {"status": "ready", "model": "claude-sonnet-5"}
        document_id = await server.upload_text()
        # A running maintenance job would retry for eight seconds to record its end.
        jobs = "select id from queue.procrastinate_jobs where status in ('todo', 'doing')"
        with psycopg.connect(clone.owner_url, autocommit=True) as owner:
            await until(lambda: not owner.execute(jobs).fetchall(), PATIENCE)
        set_connections_allowed(False)
        asked = [asyncio.create_task(http.get(path)) for path in ("/api/documents", f"/api/documents/{document_id}")]
        assert "127.0.0.1" not in assert_problem(await http.get("/readyz"), 503)
        assert (await http.get("/healthz")).status_code == 200
        for answer in await asyncio.gather(*asked):
            detail = assert_problem(answer, 503)
            assert int(answer.headers["retry-after"]) > 0
            assert "postgresql://" not in detail and "fieldmark_app" not in detail
        set_connections_allowed(True)

        async def is_ready() -> bool:
            return (await http.get("/readyz")).status_code == 200

        await until(is_ready, PATIENCE)
        assert (await http.get(f"/api/documents/{document_id}")).status_code == 200
        # The worker has recovered too.
        assert await server.upload_text()


async def test_server_with_a_dead_worker_or_a_full_disk_is_not_ready(clone, tmp_path):
    settings = Settings(_env_file=None, home=tmp_path, database_url=clone.app_url, log_level="error")
    for with_worker in (True, False):
        app = create_app(settings, with_worker=with_worker)
        here = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here")
        async with app.router.lifespan_context(app), here as http:
            assert (await http.get("/readyz")).json() == {"status": "ready", "model": "offline"}
            if with_worker:
                app.state.worker.cancel()
                await asyncio.wait([app.state.worker])
                assert "worker" in assert_problem(await http.get("/readyz"), 503)
                assert (await http.get("/healthz")).status_code == 200
            # A server with a busy connection pool is ready.
            async with AsyncExitStack() as busy:
                for _ in range(settings.pool_size):
                    await busy.enter_async_context(app.state.runtime.database.as_service())
                assert (await http.get("/readyz")).status_code == (503 if with_worker else 200)
    # No disk has so many MB free.
    app = create_app(settings.model_copy(update={"min_free_mb": 1 << 40}), with_worker=False)
    here = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here")
    async with app.router.lifespan_context(app), here as http:
        assert "disk" in assert_problem(await http.get("/readyz"), 503)


async def test_server_can_be_stopped_at_any_moment_of_its_start(clone, tmp_path):
    settings = Settings(_env_file=None, home=tmp_path, database_url=clone.app_url, log_level="error")
    # A cancellation during the acquisition of a connection must not be lost.
    for moment in range(12):
        app = create_app(settings)
        async with asyncio.timeout(PATIENCE):
            async with app.router.lifespan_context(app):
                await asyncio.sleep(moment / 200)
            assert app.state.worker.done()


def worker_tasks() -> set[asyncio.Task[Any]]:
    return {task for task in asyncio.all_tasks() if task.get_name().startswith("worker on ")}


async def test_worker_restarts_after_its_queue_failed(serve, clone):
    async with serve() as server:
        tasks = worker_tasks()
        assert len(tasks) == 4
        with psycopg.connect(clone.owner_url, autocommit=True) as conn:
            conn.execute("alter schema queue rename to away")
            # Each fetches a job, and fails.
            for queue in ("runs", "background", "documents", "search"):
                conn.execute(
                    'select pg_notify(\'procrastinate_queue_v1#\' || %s, \'{"type": "job_inserted", "job_id": 1}\')',
                    [queue],
                )
            await until(lambda: not tasks & worker_tasks(), PATIENCE)
            conn.execute("alter schema away rename to queue")
        assert await server.upload_text()
        assert (await server.http.get("/readyz")).status_code == 200


async def test_worker_starts_readers_later_if_they_cannot_be_forked(serve, monkeypatch):
    attempts = []

    def fail_to_fork(*_, **__):
        attempts.append(1)
        raise RuntimeError("cannot fork")

    readers.PLAIN.stop()
    with monkeypatch.context() as patched:
        patched.setattr(subprocess, "Popen", fail_to_fork)
        async with serve() as server:
            await until(lambda: attempts)
            assert (await server.http.get("/readyz")).status_code == 200
            patched.undo()
            document = await server.get(f"documents/{await server.upload_text()}")
            assert document["status"] == "ready"
            assert (await server.http.get("/readyz")).status_code == 200
