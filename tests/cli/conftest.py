"""Gives the tests of the command line a home, and commands on a database of their own."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from at_work import Commands, elsewhere
from command import Home

from fieldmark.agents.extraction.offline import answer as answer_by_rules
from fieldmark.cli.process import LOCAL_USER
from fieldmark.identity.tokens import LocalTokens
from fieldmark.offline_model.server import OfflineModel
from standing import Clone, Serve


@pytest.fixture(scope="module")
def home(_home: Path, postgres_major: int) -> Iterator[Home]:
    """One home for a module: with a space in its path, below a folder that is closed to all others."""
    with tempfile.TemporaryDirectory(prefix="fieldmark cli ", dir=_home, ignore_cleanup_errors=True) as folder:
        work = Path(folder) / "work"
        work.mkdir()
        home = Home(Path(folder) / "closed" / "my home", work, postgres_major)
        home.path.parent.mkdir(mode=0o700)
        yield home
        assert home.is_free()


@pytest.fixture
def commands(serve: Serve, clone: Clone, quick_path: Path) -> Callable[..., Any]:
    """Commands that ask a service in the test's own process, as the local user: `async with commands(Script([...]),
    max_live_agents=1) as fieldmark`. What answers for the model is a Script, or the rules of the offline model."""

    @asynccontextmanager
    async def start(answer: Any = answer_by_rules, **settings: Any) -> AsyncIterator[Commands]:
        async with serve(answer, **settings) as served:
            token = LocalTokens(served.service.settings.home).sign(LOCAL_USER)
            yield elsewhere(Commands(clone, quick_path, served.model), served, token)

    return start


@pytest.fixture
def local_commands(clone: Clone, quick_path: Path) -> Callable[..., Any]:
    """Commands that open the service in their own processes: `async with local_commands(Script([...]), EDITOR="…")`."""

    @asynccontextmanager
    async def start(answer: Any, **settings: str) -> AsyncIterator[Commands]:
        async with OfflineModel(answer) as model:
            yield Commands(clone, quick_path, model, settings)

    return start
