"""Fixtures of the document agent's tests."""

from __future__ import annotations

import pytest
from talking import Talk, talk_at

from desk import Desk


@pytest.fixture
async def talk(desk: Desk) -> Talk:
    return await talk_at(desk)
