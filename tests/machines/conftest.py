"""Gives these tests their machines."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from hosts import Hosts, standing

from running_server import Clone

OnHosts = Callable[[Any], AbstractAsyncContextManager[Hosts]]


@pytest.fixture
def on_hosts(clone: Clone, tmp_path: Path) -> OnHosts:
    """Processes around a clone of the database: `async with on_hosts(Script([...])) as hosts`."""
    return lambda answer: standing(clone, tmp_path, answer)
