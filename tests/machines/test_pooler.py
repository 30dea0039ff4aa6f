"""Behind pgbouncer in transaction mode: everything works, and no session state reaches the next user."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from extraction_case import until
from fieldmark.db.pool import Database
from fieldmark.errors import Misconfigured
from fieldmark.identity.scope import Scope
from fieldmark.offline_model.messages import call, text
from fieldmark.runs.lifecycle.queue import open_queue
from fieldmark.testing.script import Script
from running_server import Clone

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(shutil.which("pgbouncer") is None, reason="pgbouncer is not installed (Debian: pgbouncer)"),
]

TOTAL = {"path": "total", "value": 10, "confidence": 0.9}

_UNPRIVILEGED_USER = pwd.getpwuid(65534).pw_name
_SETTINGS = """
[databases]
{database} = host={host} port={port} dbname={database} user={user} password={password}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen_port}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
default_pool_size = {size}
logfile = {log}
"""


@asynccontextmanager
async def pgbouncer(clone: Clone, size: int, mode: str = "transaction") -> AsyncIterator[str]:
    """Run pgbouncer with `size` connections to the clone and return its URL, which names a transaction pooler."""
    to = urlsplit(clone.app_url)
    port = _free_port()
    with tempfile.TemporaryDirectory() as folder:
        settings, log = Path(folder) / "pgbouncer.ini", Path(folder) / "log"
        settings.write_text(
            _SETTINGS.format(
                database=to.path[1:],
                host=to.hostname,
                port=to.port,
                user=to.username,
                password=to.password,
                listen_port=port,
                size=size,
                mode=mode,
                log=log,
            )
        )
        as_root = os.geteuid() == 0  # pgbouncer refuses to run as root
        if as_root:
            shutil.chown(folder, _UNPRIVILEGED_USER)
        process = subprocess.Popen(["pgbouncer", "-q", *(["-u", _UNPRIVILEGED_USER] if as_root else []), str(settings)])
        try:
            await until(lambda: _accepts_connections(port), describe=log.read_text)
            named = "?pgbouncer=true" if mode == "transaction" else ""
            yield f"postgresql://{to.username}:none@127.0.0.1:{port}{to.path}{named}"
        finally:
            process.kill()  # after SIGTERM it would wait for its clients
            process.wait()


def _free_port() -> int:
    """Return a port outside the range the system assigns by itself. Each test process has its own ports."""
    for port in range(20_000 + os.getpid() % 1_200 * 10, 32_000):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise OSError("All ports are taken.")


def _accepts_connections(port: int) -> bool:
    with socket.socket() as attempt:
        return attempt.connect_ex(("127.0.0.1", port)) == 0


async def test_extraction_stream_and_approval_go_through_a_pooler(on_hosts, clone):
    script = Script([[call("get_document_text")], [call("update_field", TOTAL)], [text("Done.")]])
    # Two connections for all processes: a process that holds one while it needs another would wait forever.
    async with pgbouncer(clone, size=2) as url, on_hosts(script) as hosts:
        via_pooler = {"DATABASE_URL": url, "DATABASE_DIRECT_URL": clone.app_url}
        first, second, _ = await asyncio.gather(
            hosts.api(**via_pooler), hosts.api(**via_pooler), hosts.worker(**via_pooler)
        )
        document = await first.document()
        assert document["status"] == "ready", document
        async with first.stream("/api/agent/extract", {"document_id": document["id"], "approval": "ask"}) as events:
            seen = [event async for event in events]
        approval, run_id = seen[-1][1]["approval"], seen[-1][1]["run_id"]
        decision = {"run_id": run_id, "approvals": [{"call_id": approval["call_id"], "approved": True}]}
        async with second.stream("/api/agent/approve", decision) as events:
            seen += [event async for event in events]
        assert [number for number, _ in seen] == list(range(1, len(seen) + 1)) and seen[-1][1]["complete"] is True
        run = (await first.http.get(f"/api/runs/{run_id}")).json()
        extraction = (await second.http.get(f"/api/extractions/{run['extraction_id']}")).json()
        assert extraction["extracted_fields"] == {"total": 10}


async def test_two_users_on_a_pooled_connection_see_only_their_own_rows(
    clone: Clone, make_user: Callable[[], Awaitable[Scope]]
):
    users = [await make_user(), await make_user()]
    async with pgbouncer(clone, size=1) as url, Database(url, clone.app_url, size=4) as database:
        backend_pids = set()

        async def read_own_rows(user: Scope) -> None:
            async with database.as_user(user) as connection:
                cursor = await connection.execute(
                    "select pg_backend_pid() as pid, array(select id from public.organisations) as mine, "
                    "auth.uid() as who, (select count(*) from pg_prepared_statements) as prepared"
                )
                row = await cursor.fetchone()
            backend_pids.add(row.pop("pid"))
            assert row == {"mine": [user.org_id], "who": user.user_id, "prepared": 0}

        async def read_without_user() -> None:
            async with database.as_service() as connection:
                row = await (await connection.execute(_LEAKED_SETTINGS_QUERY)).fetchone()
            assert row == {"role": "fieldmark_app", "claims": None, "patience": "15s"}

        # More executions than psycopg needs to prepare a statement, concurrently and one after the other.
        await asyncio.gather(*[read_own_rows(user) for _ in range(20) for user in users])
        for user in users * 3:
            await read_own_rows(user)
            await read_without_user()
        assert len(backend_pids) == 1
        assert await _leaked_settings(url) == {"role": "fieldmark_app", "claims": None, "patience": "0"}


async def test_worker_works_through_a_session_pooler(clone: Clone):
    async with pgbouncer(clone, size=6, mode="session") as url, Database(url) as database:
        async with open_queue(database, url, lambda queue: 1) as queue:
            assert await queue.job_manager.list_jobs_async() == []  # its schema is found
        async with database.listen("runs") as heard:
            async with database.as_service() as connection:
                connection.notify_after_commit("runs", "1")
            assert await anext(heard) in (None, "1")


@pytest.mark.parametrize("size", [1, 2, 6])
async def test_transaction_pooler_that_the_url_does_not_name_is_refused(database: Database, clone: Clone, size: int):
    async with pgbouncer(clone, size) as named:
        url = named.partition("?")[0]
        with pytest.raises(Misconfigured, match="pgbouncer=true"):
            async with Database(url):
                pass
        with pytest.raises(Misconfigured, match="pgbouncer=true"):
            async with open_queue(database, url, lambda queue: 1):
                pass


async def test_session_settings_would_leak_through_the_pooler(clone: Clone):
    """Control: a session setting does reach the next client of the same pooler."""
    async with pgbouncer(clone, size=1) as url:
        async with await _session(url) as session:
            await session.execute("select set_config('request.jwt.claims', 'mine', false)")
        assert (await _leaked_settings(url))["claims"] == "mine"


_LEAKED_SETTINGS_QUERY = (
    "select current_user::text as role, nullif(current_setting('request.jwt.claims', true), '') as claims, "
    "current_setting('idle_in_transaction_session_timeout') as patience"
)


async def _leaked_settings(url: str) -> dict[str, Any]:
    async with await _session(url) as session:
        return await (await session.execute(_LEAKED_SETTINGS_QUERY)).fetchone()


async def _session(url: str) -> psycopg.AsyncConnection[Any]:
    return await psycopg.AsyncConnection.connect(
        url.partition("?")[0], autocommit=True, prepare_threshold=None, row_factory=psycopg.rows.dict_row
    )
