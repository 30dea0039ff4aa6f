"""Fixtures with conversations."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from agents.conversation import Chat, start_chat
from extraction_case import INVOICE, ExtractionCase, document_with_pages


@pytest.fixture
async def chat(case: ExtractionCase) -> Chat:
    return await start_chat(case)


@pytest.fixture
async def stranger_chat(database, clone, make_user) -> AsyncIterator[Chat]:
    """A conversation in another organisation."""
    async with document_with_pages(database, clone.owner_url, await make_user(), [INVOICE]) as case:
        yield await start_chat(case)
