"""The `on_hosts` fixture."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from hosts import Hosts, run_hosts

from running_server import Clone

OnHosts = Callable[[Any], AbstractAsyncContextManager[Hosts]]


@pytest.fixture
def on_hosts(clone: Clone, tmp_path: Path) -> OnHosts:
    """Start processes around a clone of the database: `async with on_hosts(Script([...])) as hosts`."""
    return lambda answer: run_hosts(clone, tmp_path, answer)
