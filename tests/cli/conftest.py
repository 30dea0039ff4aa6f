"""Gives the tests of the command line a home, and commands on a database of their own."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from at_work import Commands
from command import Home

from fieldmark.offline_model.server import OfflineModel
from standing import Clone


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
def commands(clone: Clone, quick_path: Path) -> Callable[..., Any]:
    """`async with commands(Script([...]), EDITOR="…") as commands`."""

    @asynccontextmanager
    async def start(answer: Any, **settings: str) -> AsyncIterator[Commands]:
        async with OfflineModel(answer) as model:
            yield Commands(clone, quick_path, model, settings)

    return start
