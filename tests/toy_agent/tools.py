"""The toy agent's tools: one per effect."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any
from uuid import UUID

from pydantic import Field

from fieldmark.db.pool import Connection
from fieldmark.stores import extractions, threads
from fieldmark.stores.runs import RunRow, Subject
from fieldmark.tools.context import RunContext
from fieldmark.tools.errors import ModelRetry
from fieldmark.tools.toolset import ChildRun, ToolEffect, ToolInput, ToolResult, tool
from valuegrounding import Location


class FindValue(ToolInput):
    """Find a value in one of the two documents."""

    document: Annotated[int, Field(ge=1, le=2)]
    value: Annotated[str, Field(min_length=1, max_length=200)]


class WaitForOthers(ToolInput):
    """Wait for an external event."""

    seconds: Annotated[float, Field(ge=0, le=60)]


class Note(ToolInput):
    """Store a note in the thread."""

    text: Annotated[str, Field(max_length=2000)]


class ReadFields(ToolInput):
    """Start the extraction agent on one of the two documents."""

    document: Annotated[int, Field(ge=1, le=2)]


class ToyTools:
    """The tool functions of one run."""

    def __init__(self, context: RunContext, documents: tuple[UUID, UUID], thread_id: UUID) -> None:
        self.context = context
        self.documents = documents
        self.thread_id = thread_id

    async def locate_value(self, args: FindValue) -> Location | None:
        document_id, context = self.documents[args.document - 1], self.context
        return (await context.indexes.get(context.database, context.scope, document_id)).find(args.value)

    @tool(FindValue, lambda args: f"Looking for {args.value}", prepare=locate_value)
    async def find_value(self, conn: Connection, location: Location | None) -> ToolResult:
        if location is None:
            raise ModelRetry("The document does not contain the value.", "not_found")
        return ToolResult(
            f"The value is on page {location.page}.", "found", {"page": location.page, "quote": location.quote}
        )

    async def wait(self, args: WaitForOthers) -> float:
        await asyncio.sleep(args.seconds)
        return args.seconds

    @tool(WaitForOthers, lambda args: "Waiting", ToolEffect.WRITE, prepare=wait)
    async def wait_for_others(self, conn: Connection, seconds: float) -> ToolResult:
        return ToolResult(f"Waited {seconds} seconds.", "waited")

    @tool(Note, lambda args: "Storing a note", ToolEffect.WRITE)
    async def note(self, conn: Connection, args: Note) -> ToolResult:
        await threads.save_state(conn, self.thread_id, {"note": args.text})
        return ToolResult("Noted.", "noted")

    async def collect_fields(self, conn: Connection, args: ReadFields, runs: Sequence[RunRow]) -> ToolResult:
        (child,) = runs
        assert child.extraction_id is not None
        extraction: Any = await extractions.find(conn, child.extraction_id)
        fields = extraction.extracted_fields
        return ToolResult(f"The run {child.status}.", "fields_read", {"status": child.status, "fields": fields})

    @tool(
        ReadFields,
        lambda args: f"Reading the fields of document {args.document}",
        ToolEffect.WRITE,
        collect=collect_fields,
    )
    async def read_fields(self, conn: Connection, args: ReadFields) -> ChildRun:
        document_id, org_id = self.documents[args.document - 1], self.context.scope.org_id
        extraction_id = await extractions.add(conn, org_id=org_id, document_id=document_id, schema=None)
        return ChildRun("Reading the fields.", "extract", {}, Subject(document_id, extraction_id))
