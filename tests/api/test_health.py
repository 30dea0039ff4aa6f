"""/healthz and /readyz, and what becomes of everything else while the database is away."""

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
from answers import problem
from psycopg import sql

from extraction_case import until
from fieldmark.api.app import create_app
from fieldmark.documents.reading import readers
from fieldmark.settings import Settings
from running_server import PATIENCE

pytestmark = pytest.mark.anyio


@pytest.fixture
def allow(clone) -> Callable[[bool], None]:
    """Lets nobody into the clone any more, and ends who is in there; or lets them in again."""
    parts = urlsplit(clone.owner_url)
    name = parts.path[1:]

    def change(allowed: bool) -> None:
        with psycopg.connect(parts._replace(path="/postgres").geturl(), autocommit=True) as conn:
            conn.execute(
                sql.SQL("alter database {} with allow_connections {}").format(
                    sql.Identifier(name), sql.Literal(allowed)
                )
            )
            if not allowed:
                conn.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", (name,))

    return change


@pytest.mark.long
async def test_while_the_database_is_away_all_say_so_and_afterwards_all_go_on(serve, allow, clone):
    async with serve() as server:
        http = server.http
        assert (await http.get("/healthz")).json() == {"status": "ok", "model": None}
        assert (await http.get("/readyz")).json() == {"status": "ready", "model": "claude-sonnet-5"}
        document_id = await server.upload_text()
        # (What is at work then is the sweep's: its worker tries for eight seconds to say how it ended.)
        at_work = "select id from queue.procrastinate_jobs where status in ('todo', 'doing')"
        with psycopg.connect(clone.owner_url, autocommit=True) as owner:
            await until(lambda: not owner.execute(at_work).fetchall(), PATIENCE)
        allow(False)
        asked = [asyncio.create_task(http.get(path)) for path in ("/api/documents", f"/api/documents/{document_id}")]
        assert "127.0.0.1" not in problem(await http.get("/readyz"), 503)
        assert (await http.get("/healthz")).status_code == 200
        for answer in await asyncio.gather(*asked):
            detail = problem(answer, 503)
            assert int(answer.headers["retry-after"]) > 0
            assert "postgresql://" not in detail and "fieldmark_app" not in detail
        allow(True)

        async def ready() -> bool:
            return (await http.get("/readyz")).status_code == 200

        await until(ready, PATIENCE)
        assert (await http.get(f"/api/documents/{document_id}")).status_code == 200
        # The worker has come back too: what is uploaded now is read.
        assert await server.upload_text()


async def test_a_server_whose_worker_has_died_or_whose_disk_is_full_is_not_ready(clone, tmp_path):
    settings = Settings(_env_file=None, home=tmp_path, database_url=clone.app_url, log_level="error")
    for with_worker in (True, False):
        app = create_app(settings, with_worker=with_worker)
        here = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here")
        async with app.router.lifespan_context(app), here as http:
            assert (await http.get("/readyz")).json() == {"status": "ready", "model": "offline"}
            if with_worker:
                app.state.worker.cancel()
                await asyncio.wait([app.state.worker])
                assert "worker" in problem(await http.get("/readyz"), 503)
                assert (await http.get("/healthz")).status_code == 200
            # A pool with no connection free is busy, and works.
            async with AsyncExitStack() as busy:
                for _ in range(settings.pool_size):
                    await busy.enter_async_context(app.state.runtime.database.as_service())
                assert (await http.get("/readyz")).status_code == (503 if with_worker else 200)
    # Nor one with a full disk: none has as many MB free.
    app = create_app(settings.model_copy(update={"min_free_mb": 1 << 40}), with_worker=False)
    here = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here")
    async with app.router.lifespan_context(app), here as http:
        assert "disk" in problem(await http.get("/readyz"), 503)


async def test_a_server_can_be_ended_at_any_moment_of_its_start(clone, tmp_path):
    """A cancellation once met a connection that just became free, and was lost: the server never ended."""
    settings = Settings(_env_file=None, home=tmp_path, database_url=clone.app_url, log_level="error")
    for moment in range(12):
        app = create_app(settings)
        async with asyncio.timeout(PATIENCE):
            async with app.router.lifespan_context(app):
                await asyncio.sleep(moment / 200)
            assert app.state.worker.done()


def workers() -> set[asyncio.Task[Any]]:
    """The queue's workers in this process."""
    return {task for task in asyncio.all_tasks() if task.get_name().startswith("worker on ")}


async def test_a_worker_whose_queue_failed_comes_back(serve, clone):
    async with serve() as server:
        looking = workers()
        assert len(looking) == 4
        with psycopg.connect(clone.owner_url, autocommit=True) as conn:
            conn.execute("alter schema queue rename to away")
            await until(lambda: not looking & workers(), PATIENCE)  # each has looked for jobs, and failed
            conn.execute("alter schema away rename to queue")
        assert await server.upload_text()
        assert (await server.http.get("/readyz")).status_code == 200


async def test_a_worker_whose_readers_cannot_be_started_works_on_and_starts_them_later(serve, monkeypatch):
    tried = []

    def no_room(*_, **__):
        tried.append(1)
        raise RuntimeError("there is no room for another process")

    readers.PLAIN.stop()
    with monkeypatch.context() as full:
        full.setattr(subprocess, "Popen", no_room)
        async with serve() as server:
            await until(lambda: tried)
            assert (await server.http.get("/readyz")).status_code == 200
            full.undo()
            document = await server.get(f"documents/{await server.upload_text()}")
            assert document["status"] == "ready"
            assert (await server.http.get("/readyz")).status_code == 200
