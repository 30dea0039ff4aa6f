"""Shared fixtures: one Postgres server for the session, one migrated template database, a clone of it per test."""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import signal
import sys
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
from hypothesis import settings as hypothesis_settings
from psycopg import sql

import hang_detector
import zygote
from cli_stand_in import stand_in_cli
from extraction_case import case as case  # a fixture
from extraction_case import close_connection
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
from fieldmark.services.organisations import scope_of_user
from fieldmark.settings import Settings
from fieldmark.worker import jobs
from pagewords.readers import PLAIN, WITH_OCR
from running_server import METRICS_TOKEN, PATIENCE, Clone, RunningServer, Serve

# Tests start hundreds of Python processes. Without stored bytecode each would compile Fieldmark, and pytest the tests.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # noqa: TID251  no settings of the service

# Hypothesis draws the same examples in every run. Slow drawing fails no test.
hypothesis_settings.register_profile(
    "steady", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
hypothesis_settings.load_profile("steady")

# structlog's default tracebacks, with colours and local variables, take seconds.
structlog.configure(processors=[structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)])

# A reader loads the OCR models when it reads the first picture, not in advance: most test processes read none.
jobs.MODELS_AFTER_SECONDS = zygote.MODELS_AFTER_SECONDS

# Tests of a group run in one worker process, since each process would prepare the same.
_GROUPS = {
    "commands": ("tests/cli/", "tests/machines/"),  # imports the product (zygote.py)
    "ocr": (  # loads the OCR models
        "tests/pagewords/test_odd_files.py",
        "tests/pagewords/test_garbled.py",
        "tests/pagewords/test_pictures.py",
        "tests/pagewords/test_sandbox.py",
        "tests/api/test_review_views.py::test_cropped_page_image",
    ),
    "ordinary owner": ("tests/sql/test_managed_postgres.py",),  # starts a Postgres server
}

_HOME = pytest.StashKey[tempfile.TemporaryDirectory[str]]()
_TEMPLATE = "fieldmark_template"


def pytest_addoption(parser: pytest.Parser) -> None:
    major = os.environ.get("FIELDMARK_TEST_POSTGRES", "18")  # noqa: TID251  no settings of the service
    parser.addoption("--home", help="folder of a Postgres server that keeps running after the tests")
    parser.addoption("--cli", choices=("real", "stand-in"), default="stand-in", help="the CLI that runs use")
    parser.addoption("--full", action="store_true", help="also tests marked `full`")
    parser.addoption(
        "--litellm", help="LiteLLM's program, in an environment of its own, for tests/acceptance/test_litellm.py"
    )
    parser.addoption("--postgres-major", type=int, default=int(major), help="PostgreSQL to test on: 16 or 18")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--full"):
        left_out = [item for item in items if item.get_closest_marker("full")]
        items[:] = [item for item in items if not item.get_closest_marker("full")]
        config.hook.pytest_deselected(items=left_out)
    # Long tests start first: one that starts last would prolong the session.
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


def pytest_collection_finish() -> None:
    # Imported modules and collected tests stay until the end. Garbage collection would take a tenth of the CPU time to
    # scan them.
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Start with the groups. (The mark `xdist_group` has no effect: xdist 3.8 sets an attribute that pytest 9.2 does
    not read.)"""
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return next((group for group, paths in _GROUPS.items() if nodeid.startswith(paths)), nodeid)

    return Scheduling(config, log)


# With xdist the controller creates the home folder, passes its path to the workers and removes it at the end.


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(hang_detector)
    # A shell starts background processes with SIGINT ignored, and child processes inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if not hasattr(config, "workerinput"):
        config.stash[_HOME] = tempfile.TemporaryDirectory(
            prefix="fieldmark-tests-", dir=_memory_folder(), ignore_cleanup_errors=True
        )


def _memory_folder() -> str | None:
    """Return a folder in memory if it has 2 GiB free: a clone is 400 files, which some disks take 300 ms to create."""
    path = Path("/dev/shm")
    has_space = path.is_dir() and os.access(path, os.W_OK) and shutil.disk_usage(path).free > 2 << 30
    return str(path) if has_space else None


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node) -> None:
    node.workerinput["fieldmark_home"] = node.config.stash[_HOME].name


def pytest_unconfigure(config: pytest.Config) -> None:
    for forkserver in (PLAIN, WITH_OCR):
        forkserver.stop()
    if _HOME in config.stash:
        config.stash[_HOME].cleanup()


class _Loop(asyncio.SelectorEventLoop):
    """An event loop that ignores the failures of SDK tasks whose CLI was killed. The SDK never awaits these tasks."""

    def __init__(self) -> None:
        super().__init__()
        hang_detector.watch_loop(self)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not isinstance(context.get("exception"), CLIConnectionError):
            super().call_exception_handler(context)


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"loop_factory": _Loop}


@pytest.fixture(autouse=True)
def _cli(request: pytest.FixtureRequest) -> Iterator[None]:
    """Replace the CLI by a stand-in, except in tests marked `real_cli` and with `--cli real`."""
    is_real = request.config.getoption("--cli") == "real" or request.node.get_closest_marker("real_cli") is not None
    with nullcontext() if is_real else stand_in_cli():
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
def memory_path(_home: Path) -> Iterator[Path]:
    """A folder like tmp_path, but in memory where there is space."""
    with tempfile.TemporaryDirectory(dir=_home, ignore_cleanup_errors=True) as path:
        yield Path(path)


@pytest.fixture(scope="session")
def postgres(_home: Path, postgres_major: int) -> Iterator[EmbeddedServer]:
    """The server shared by the session's workers. The first worker starts it, the last one stops it."""
    with embedded_postgres(_home, postgres_major) as server:
        yield server


@pytest.fixture(scope="session")
def _superuser(postgres: EmbeddedServer) -> Iterator[psycopg.Connection]:
    with psycopg.connect(postgres.owner_url, autocommit=True) as connection:
        # The data need not survive a crash, so no statement waits for the disk.
        for setting in ("fsync", "synchronous_commit", "full_page_writes", "autovacuum"):
            connection.execute(f"alter system set {setting} = off")
        # A login hashes its password this many times, 4096 by default. Tests log in ten thousand times.
        connection.execute("alter system set scram_iterations = 1")
        connection.execute("select pg_reload_conf()")
        yield connection


@pytest.fixture(scope="session")
def _template(postgres: EmbeddedServer, _superuser: psycopg.Connection) -> str:
    """Return the name of the migrated database that clones copy. The first worker creates it."""
    _superuser.execute("select pg_advisory_lock(1)")
    try:
        found = _superuser.execute("select 1 from pg_database where datname = %s", [_TEMPLATE]).fetchone()
        if found is None:
            unfinished = f"{_TEMPLATE}_unfinished"
            _superuser.execute(f"drop database if exists {unfinished}")
            _superuser.execute(f"create database {unfinished}")
            asyncio.run(
                migrate(
                    _with_database(postgres.owner_url, unfinished),
                    app_password=postgres.app_password,
                    agents=agent_rows(),
                )
            )
            # Audits are drawn at random: tests that need them set a goal.
            with psycopg.connect(_with_database(postgres.owner_url, unfinished), autocommit=True) as connection:
                connection.execute("alter table public.organisations alter column max_error set default 1")
            _superuser.execute(f"alter database {unfinished} rename to {_TEMPLATE}")
    finally:
        _superuser.execute("select pg_advisory_unlock(1)")
    return _TEMPLATE


@pytest.fixture(scope="session")
def _undropped_clones() -> list[sql.Identifier]:
    return []


@pytest.fixture
def clone(
    postgres: EmbeddedServer, _superuser: psycopg.Connection, _template: str, _undropped_clones: list[sql.Identifier]
) -> Iterator[Clone]:
    # The previous test's clone is dropped here: its connections have closed by now, so the drop does not wait.
    while _undropped_clones:
        with suppress(psycopg.errors.ObjectInUse):  # after five seconds; the server is deleted at the end
            _superuser.execute(sql.SQL("drop database {} with (force)").format(_undropped_clones.pop()))
    name = f"test_{uuid4().hex}"
    identifier = sql.Identifier(name)
    _superuser.execute(
        sql.SQL("create database {} template {} strategy file_copy").format(identifier, sql.Identifier(_template))
    )
    _undropped_clones.append(identifier)
    yield Clone(owner_url=_with_database(postgres.owner_url, name), app_url=_with_database(postgres.app_url, name))
    close_connection()


@pytest.fixture
async def database(anyio_backend: Any, clone: Clone) -> AsyncIterator[Database]:
    """A clone, opened with the service's role."""
    async with Database(clone.app_url, size=5) as database:
        yield database


@pytest.fixture
def make_user(database: Database) -> Callable[[], Awaitable[Scope]]:
    """Create users on their first sign-in, each in a personal organisation."""

    async def make() -> Scope:
        user_id = uuid4()
        async with database.as_user_without_org(user_id) as connection:
            row = await (await connection.execute("select private.resolve_organisation() as org_id")).fetchone()
        assert row is not None
        return Scope(user_id=user_id, org_id=row["org_id"])

    return make


def _with_database(url: str, database: str) -> str:
    return urlsplit(url)._replace(path=f"/{database}").geturl()


@pytest.fixture
def serve(clone: Clone) -> Serve:
    """Start the whole service on a clone of the database: `async with serve(Script([...])) as server`. The model is a
    script, or the rules of the offline model by default. Other keywords are settings."""

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
                "warm_spares": 0,  # each costs half a second of CPU time and few tests need one
                **settings,
            }
            app = create_app(Settings(_env_file=None, **chosen), with_worker=with_worker)
            server = uvicorn.Server(uvicorn.Config(app, port=0, ws="none", log_config=None, timeout_keep_alive=600))
            # Not serve(): it replaces pytest's signal handlers, and sleeps for 0.2 s at the end.
            server.config.load()
            server.lifespan = server.config.lifespan_class(server.config)
            await server.startup()
            assert server.started
            service: Runtime = app.state.runtime
            if with_worker:
                await _wait_for_workers(service)
            base_url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
            user_id = uuid4()
            scope = await scope_of_user(service.database, user_id)
            token = LocalTokens(chosen["home"]).sign(user_id)
            headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
            try:
                # (No certificates: reading them takes longer than a request.)
                async with httpx.AsyncClient(
                    base_url=base_url, headers=headers, timeout=PATIENCE, verify=False
                ) as http:
                    yield RunningServer(http, base_url, service, scope, model)
            finally:
                await _shut_down(server)

    return start


async def _shut_down(server: uvicorn.Server) -> None:
    """Stop like uvicorn as soon as no request is open, after a second at the latest."""
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


async def _wait_for_workers(service: Runtime) -> None:
    """Wait until the service's four workers listen for jobs: otherwise they find a new job only a second later."""
    for _ in range(100):  # an optimisation: no test relies on it
        if sum(channel.startswith("procrastinate_") for channel in service.database._notifications._channels) == 4:
            return
        await asyncio.sleep(0.01)
