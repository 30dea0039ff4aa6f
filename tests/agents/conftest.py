"""Conversations whose tools are called without a CLI."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from agents.talking import Talk, talk_at
from desk import INVOICE, Desk, laid_out


@pytest.fixture
async def talk(desk: Desk) -> Talk:
    return await talk_at(desk)


@pytest.fixture
async def stranger_talk(database, clone, make_user) -> AsyncIterator[Talk]:
    """A conversation in another organisation."""
    async with laid_out(database, clone.owner_url, await make_user(), [INVOICE]) as desk:
        yield await talk_at(desk)
