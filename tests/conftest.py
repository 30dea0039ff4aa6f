"""Shared: one real Postgres for a session, one migrated template in it, and a clone of it for each test."""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import httpx
import psycopg
import pytest
import structlog
import uvicorn
from claude_agent_sdk import CLIConnectionError
from hypothesis import HealthCheck
from hypothesis import settings as drawing
from psycopg import sql

import hang_detector
from cli_stand_in import standing_in
from extraction_case import case as case  # a fixture
from fieldmark.agents.extraction.offline import answer as answer_by_rules
from fieldmark.agents.registry import agent_rows
from fieldmark.api.app import create_app
from fieldmark.db.embedded import EmbeddedServer, embedded_postgres
from fieldmark.db.migrate import migrate
from fieldmark.db.pool import Database
from fieldmark.identity.scope import Scope
from fieldmark.identity.tokens import LocalTokens
from fieldmark.offline_model.server import OfflineModel
from fieldmark.runtime import Runtime
from fieldmark.services.organisations import enter
from fieldmark.settings import Settings
from running_server import METRICS_TOKEN, PATIENCE, Clone, RunningServer, Serve

# Drawn examples are the same in every run, and however slowly they are drawn, that is no fault of what is tested.
drawing.register_profile("steady", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
drawing.load_profile("steady")

# Drawn in colours with all their variables, as structlog does by itself, tracebacks take seconds.
structlog.configure(processors=[structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)])

_HOME = pytest.StashKey[tempfile.TemporaryDirectory[str]]()
_TEMPLATE = "fieldmark_template"


def pytest_addoption(parser: pytest.Parser) -> None:
    chosen = os.environ.get("FIELDMARK_TEST_POSTGRES", "18")  # noqa: TID251  no settings of the service
    parser.addoption("--home", help="a folder whose Postgres runs on after the tests, with a template of its own")
    parser.addoption("--cli", choices=("real", "stand-in"), default="stand-in", help="what leads the runs")
    parser.addoption("--postgres-major", type=int, default=int(chosen), help="PostgreSQL to test on: 16 or 18")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # Tests are handed out in this order: one that takes long and comes last would keep all the others waiting.
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


def pytest_collection_finish() -> None:
    # What is imported and collected by now stays: to look through it for garbage during the tests is a tenth of their
    # processor time.
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000)


# Under xdist the first process makes the home, tells the workers, and clears it away when all of them have ended.


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(hang_detector)
    # Started in the background by a shell, SIGINT is ignored, and every child would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if not hasattr(config, "workerinput"):
        config.stash[_HOME] = tempfile.TemporaryDirectory(
            prefix="fieldmark-tests-", dir=_quick_place(), ignore_cleanup_errors=True
        )


def _quick_place() -> str | None:
    """Memory, where there is plenty: a clone is 400 files, and some disks take 300 ms to make them. Else the disk."""
    memory = Path("/dev/shm")
    roomy = memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 2 << 30
    return str(memory) if roomy else None


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node) -> None:
    node.workerinput["fieldmark_home"] = node.config.stash[_HOME].name


def pytest_unconfigure(config: pytest.Config) -> None:
    if _HOME in config.stash:
        config.stash[_HOME].cleanup()


class _Loop(asyncio.SelectorEventLoop):
    """The SDK answers its CLI in tasks that nobody waits for. Where the CLI is killed meanwhile, they cannot."""

    def __init__(self) -> None:
        super().__init__()
        hang_detector.known(self)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not isinstance(context.get("exception"), CLIConnectionError):
            super().call_exception_handler(context)


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"loop_factory": _Loop}


@pytest.fixture(autouse=True)
def _cli(request: pytest.FixtureRequest) -> Iterator[None]:
    """Runs go through a stand-in for Claude's CLI, but for tests marked `real_cli`, and all with `--cli real`."""
    is_real = request.config.getoption("--cli") == "real" or request.node.get_closest_marker("real_cli") is not None
    with nullcontext() if is_real else standing_in():
        yield


@pytest.fixture(scope="session")
def postgres_major(pytestconfig: pytest.Config) -> int:
    return pytestconfig.getoption("--postgres-major")


@pytest.fixture(scope="session")
def _home(pytestconfig: pytest.Config) -> Path:
    if chosen := pytestconfig.getoption("--home"):
        return Path(chosen)
    worker = getattr(pytestconfig, "workerinput", None)
    return Path(worker["fieldmark_home"] if worker else pytestconfig.stash[_HOME].name)


@pytest.fixture
def quick_path(_home: Path) -> Iterator[Path]:
    """A folder of this test's own, like tmp_path, but in memory where there is plenty."""
    with tempfile.TemporaryDirectory(dir=_home, ignore_cleanup_errors=True) as path:
        yield Path(path)


@pytest.fixture(scope="session")
def postgres(_home: Path, postgres_major: int) -> Iterator[EmbeddedServer]:
    """The server that the session's workers share. Started by the first, stopped by the last."""
    with embedded_postgres(_home, postgres_major) as server:
        yield server


@pytest.fixture(scope="session")
def _administration(postgres: EmbeddedServer) -> Iterator[psycopg.Connection]:
    with psycopg.connect(postgres.owner_url, autocommit=True) as connection:
        # Nothing here outlives the session, so nothing waits for the disk.
        for setting in ("fsync", "synchronous_commit", "full_page_writes", "autovacuum"):
            connection.execute(f"alter system set {setting} = off")
        connection.execute("select pg_reload_conf()")
        yield connection


@pytest.fixture(scope="session")
def _template(postgres: EmbeddedServer, _administration: psycopg.Connection) -> str:
    """The name of the migrated database that clones are made of. The first worker makes it, the others wait."""
    _administration.execute("select pg_advisory_lock(1)")
    try:
        found = _administration.execute("select 1 from pg_database where datname = %s", [_TEMPLATE]).fetchone()
        if found is None:
            unfinished = f"{_TEMPLATE}_unfinished"
            _administration.execute(f"drop database if exists {unfinished}")
            _administration.execute(f"create database {unfinished}")
            asyncio.run(
                migrate(_at(postgres.owner_url, unfinished), app_password=postgres.app_password, agents=agent_rows())
            )
            _administration.execute(f"alter database {unfinished} rename to {_TEMPLATE}")
    finally:
        _administration.execute("select pg_advisory_unlock(1)")
    return _TEMPLATE


@pytest.fixture(scope="session")
def _left_over() -> list[sql.Identifier]:
    return []


@pytest.fixture
def clone(
    postgres: EmbeddedServer, _administration: psycopg.Connection, _template: str, _left_over: list[sql.Identifier]
) -> Iterator[Clone]:
    # The last test's clone is dropped here rather than after it: by now its connections are gone, and need no waiting.
    while _left_over:
        with suppress(psycopg.errors.ObjectInUse):  # it waits for five seconds, and the whole server goes in the end
            _administration.execute(sql.SQL("drop database {} with (force)").format(_left_over.pop()))
    name = f"test_{uuid4().hex}"
    quoted = sql.Identifier(name)
    _administration.execute(
        sql.SQL("create database {} template {} strategy wal_log").format(quoted, sql.Identifier(_template))
    )
    _left_over.append(quoted)
    yield Clone(owner_url=_at(postgres.owner_url, name), app_url=_at(postgres.app_url, name))


@pytest.fixture
async def database(anyio_backend: Any, clone: Clone) -> AsyncIterator[Database]:
    """A clone as the service sees it."""
    async with Database(clone.app_url, size=5) as database:
        yield database


@pytest.fixture
def make_user(database: Database) -> Callable[[], Awaitable[Scope]]:
    """Makes users, each seen for the first time and acting in the personal organisation that this gives them."""

    async def make() -> Scope:
        user_id = uuid4()
        async with database.as_user_without_org(user_id) as connection:
            row = await (await connection.execute("select private.enter() as org_id")).fetchone()
        assert row is not None
        return Scope(user_id=user_id, org_id=row["org_id"])

    return make


def _at(url: str, database: str) -> str:
    return urlsplit(url)._replace(path=f"/{database}").geturl()


@pytest.fixture
def serve(clone: Clone) -> Serve:
    """Starts the whole service on a clone of the database: `async with serve(Script([...])) as server`. What answers
    for the model is a Script, or the rules of the offline model if left out. Other keywords are settings."""

    @asynccontextmanager
    async def start(
        answer: Any = answer_by_rules, *, with_worker: bool = True, **settings: Any
    ) -> AsyncIterator[RunningServer]:
        async with AsyncExitStack() as stack:
            model = await stack.enter_async_context(OfflineModel(answer))
            home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fieldmark-home-")))
            chosen = {
                "home": home,
                "database_url": clone.app_url,
                "anthropic_api_key": "test-key",
                "anthropic_base_url": model.base_url,
                "log_level": "error",
                "approval_wait_seconds": 0,
                "metrics_token": METRICS_TOKEN,
                "max_live_agents": 4,
                "warm_spares": 0,  # half a second of processor time for each, that few tests have a use for
                **settings,
            }
            app = create_app(Settings(_env_file=None, **chosen), with_worker=with_worker)
            server = uvicorn.Server(uvicorn.Config(app, port=0, ws="none", log_config=None, timeout_keep_alive=600))
            # Not serve(): that takes the process's signals, which are pytest's, and sleeps for 0.2 s at the end.
            server.config.load()
            server.lifespan = server.config.lifespan_class(server.config)
            await server.startup()
            assert server.started
            service: Runtime = app.state.runtime
            if with_worker:
                await _workers_hear(service)
            base_url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
            user_id = uuid4()
            scope = await enter(service.database, user_id)
            token = LocalTokens(chosen["home"]).sign(user_id)
            headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
            try:
                async with httpx.AsyncClient(base_url=base_url, headers=headers, timeout=PATIENCE) as http:
                    yield RunningServer(http, base_url, service, scope, model)
            finally:
                await _shut_down(server)

    return start


async def _shut_down(server: uvicorn.Server) -> None:
    """Stop like uvicorn, after a second at the latest, but as soon as no request is open."""
    state = server.server_state
    for listener in server.servers:
        listener.close()
    for connection in list(state.connections):
        connection.shutdown()
    with suppress(TimeoutError):
        async with asyncio.timeout(1):
            while state.connections or state.tasks:
                await asyncio.sleep(0.005)
    for task in state.tasks:
        task.cancel()
    await server.lifespan.shutdown()


async def _workers_hear(service: Runtime) -> None:
    """Wait until the service's four workers hear of new jobs: of one that comes earlier they learn a second later."""
    for _ in range(100):  # nothing relies on it
        if sum(channel.startswith("procrastinate_") for channel in service.database._notifications._channels) == 4:
            return
        await asyncio.sleep(0.01)
