"""The tools that make, show, change and delete schemas."""

from __future__ import annotations

import pytest
from talking import SCHEMA

pytestmark = pytest.mark.anyio


async def test_a_schema_that_is_made_is_what_the_conversation_works_with(talk):
    context = await talk.turn("make a schema for invoices like this")
    made = await talk.call(context, "create_schema", name="Invoices", schema=SCHEMA)
    assert (made.code, made.data["number"], made.data["name"]) == ("schema_created", 1, "Invoices")
    assert talk.state == {"schema_revid": made.data["schema_revid"], "prompt_revid": None}
    read = await talk.call(context, "get_schema")
    assert read.data["schema"] == SCHEMA
