"""Gives the tests of the command line a home."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from command import Home


@pytest.fixture(scope="module")
def home(postgres_major: int) -> Iterator[Home]:
    """One home for a module: with a space in its path, below a folder that is closed to all others."""
    with tempfile.TemporaryDirectory(prefix="fieldmark cli ", ignore_cleanup_errors=True) as folder:
        work = Path(folder) / "work"
        work.mkdir()
        home = Home(Path(folder) / "closed" / "my home", work, postgres_major)
        home.path.parent.mkdir(mode=0o700)
        yield home
        assert home.is_free()
