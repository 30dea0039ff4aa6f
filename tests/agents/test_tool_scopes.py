"""The tools of every agent close over user and organisation: no argument names them, and documents of other
organisations are refused."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest

from agents.conversation import start_chat
from extraction_case import INVOICE, document_with_pages
from fieldmark.agents.document.agent import DOCUMENT, create_document_tools
from fieldmark.agents.extraction.agent import create_extraction_tools
from fieldmark.agents.library.agent import LIBRARY, create_library_tools
from fieldmark.agents.registry import AGENTS
from fieldmark.agents.second_reading.agent import create_reading_tools
from fieldmark.agents.stack.agent import create_stack_tools
from fieldmark.tools.ledger import StartedBy, ToolCall, execute

pytestmark = pytest.mark.anyio

FACTORIES = {
    "extraction": (create_extraction_tools, {"document_id", "extraction_id"}),
    "document": (create_document_tools, {"document_id", "thread_id"}),
    "library": (create_library_tools, {"thread_id", "filters"}),
    "second_reading": (create_reading_tools, {"document_id"}),
    "stack": (create_stack_tools, {"stack_id", "max_rows"}),
}


def argument_names(schema: Any) -> Iterator[str]:
    """Return the names of all properties in a schema, at any depth."""
    if isinstance(schema, dict):
        properties = schema.get("properties")
        yield from properties if isinstance(properties, dict) else ()
        for one in schema.values():
            yield from argument_names(one)
    elif isinstance(schema, list):
        for one in schema:
            yield from argument_names(one)


def test_factories_name_what_tools_close_over():
    assert FACTORIES.keys() == AGENTS.keys()
    for factory, subject in FACTORIES.values():
        names = {name for name, one in inspect.signature(factory).parameters.items() if one.kind is one.KEYWORD_ONLY}
        assert names == {"user_id", "org_id", *subject}


def test_no_tool_has_an_argument_for_a_user_or_an_organisation():
    for agent in AGENTS.values():
        for tool in agent.toolset.tools.values():
            for name in argument_names(tool.input.model_json_schema()):
                assert not {"user", "org", "organisation", "organization", "tenant", "owner"} & set(name.split("_")), (
                    name
                )
    # The extraction agent's tools name no document at all, nor their extraction.
    extraction = AGENTS["extraction"].toolset.tools.values()
    assert not {one for tool in extraction for one in argument_names(tool.input_schema) if one.endswith("_id")}


async def test_document_of_another_organisation_is_refused(case, database, clone, make_user):
    async with document_with_pages(database, clone.owner_url, await make_user(), [INVOICE]) as foreign:
        for agent, tool, arguments, own_code, foreign_code in (
            (LIBRARY, "read_document", {}, "ok", "not_found"),
            (DOCUMENT, "update_document", {"name": "new.txt"}, "document_updated", "not_given"),
        ):
            chat = await start_chat(case, agent)
            context = await chat.turn()
            for document_id, code in ((case.document_id, own_code), (foreign.document_id, foreign_code)):
                result = await chat.call(context, tool, document_id=str(document_id), **arguments)
                assert result.code == code, result
            await chat.end(context)
        # Nor does a factory that is given a foreign document read it.
        context = await case.context()
        for document_id, is_refused in ((case.document_id, False), (foreign.document_id, True)):
            result = await _read(context, document_id, case.extraction_id)
            assert result.is_error is is_refused and ("Acme" in result.text) is not is_refused


async def _read(context: Any, document_id: UUID, extraction_id: UUID) -> Any:
    tools = create_extraction_tools(
        context,
        user_id=context.user_id,
        org_id=context.org_id,
        document_id=document_id,
        extraction_id=extraction_id,
    )
    call = ToolCall("get_document_text", f"call-{uuid4()}", {})
    return await execute(tools, context, call, started_by=StartedBy.POLICY)
