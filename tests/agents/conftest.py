"""Conversations whose tools are called without a CLI."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from agents.talking import Talk, talk_at
from extraction_case import INVOICE, ExtractionCase, document_with_pages


@pytest.fixture
async def talk(case: ExtractionCase) -> Talk:
    return await talk_at(case)


@pytest.fixture
async def stranger_talk(database, clone, make_user) -> AsyncIterator[Talk]:
    """A conversation in another organisation."""
    async with document_with_pages(database, clone.owner_url, await make_user(), [INVOICE]) as case:
        yield await talk_at(case)
