"""Fixtures of the services."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def files(memory_path: Path) -> Path:
    """A folder for original files."""
    return memory_path / "files"
