"""Fixtures of the command line tests: commands on their own database."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from commands import Commands

from fieldmark.agents.extraction.offline import answer as answer_by_rules
from fieldmark.cli.process import LOCAL_USER
from fieldmark.offline_model.server import OfflineModel
from running_server import Clone, Serve


@pytest.fixture(scope="package")
def home(_home: Path, postgres_major: int) -> Iterator[Commands]:
    """Commands that start an embedded Postgres, in a folder with a space in its name that is closed to other users. It
    contains documents of other tests."""
    with tempfile.TemporaryDirectory(prefix="fieldmark cli ", dir=_home, ignore_cleanup_errors=True) as folder:
        work, closed = Path(folder) / "work", Path(folder) / "closed"
        work.mkdir()
        closed.mkdir(mode=0o700)
        settings = {"FIELDMARK_HOME": str(closed / "my home"), "FIELDMARK_POSTGRES_MAJOR": str(postgres_major)}
        home = Commands(work, settings)
        yield home
        assert home.is_stopped()


@pytest.fixture
def commands(serve: Serve, clone: Clone, memory_path: Path) -> Callable[..., Any]:
    """Commands that know only the address and a token of a service in this process: `async with commands(Script([...]),
    max_live_agents=1) as fieldmark`. A Script answers as the model, or the rules of the offline model."""

    @asynccontextmanager
    async def start(answer: Any = answer_by_rules, **settings: Any) -> AsyncIterator[Commands]:
        async with serve(answer, **settings) as server:
            known_settings = {"FIELDMARK_SERVER": server.base_url}
            yield Commands(memory_path, known_settings, clone.owner_url, server.model, server).as_user(LOCAL_USER)

    return start


@pytest.fixture
def local_commands(clone: Clone, memory_path: Path) -> Callable[..., Any]:
    """Commands that run the service in their own process: `async with local_commands(Script([...]), EDITOR="…")`."""

    @asynccontextmanager
    async def start(answer: Any, **settings: str) -> AsyncIterator[Commands]:
        async with OfflineModel(answer) as model:
            own_settings = {"ANTHROPIC_API_KEY": "test-key", "ANTHROPIC_BASE_URL": model.base_url, **settings}
            yield Commands(memory_path, {"DATABASE_URL": clone.app_url, **own_settings}, clone.owner_url, model)

    return start
