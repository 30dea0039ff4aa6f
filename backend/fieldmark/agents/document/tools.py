"""Tools of the document agent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias
from uuid import UUID

from fieldmark.agents.document.deps import DocumentDeps
from fieldmark.db.pool import Connection
from fieldmark.domain.statuses import Approval
from fieldmark.services import extractions, prompts
from fieldmark.stores import extractions as extraction_rows
from fieldmark.stores import threads
from fieldmark.stores.runs import RunRow, Subject
from fieldmark.tools.context import RunContext
from fieldmark.tools.toolset import RunsStarted, Tool, ToolEffect, ToolInput, ToolResult

Context: TypeAlias = RunContext[DocumentDeps]


class RunExtraction(ToolInput):
    """Have the fields of the document extracted, by the latest prompt of this conversation or by the one that is named.
    Answers the fields."""

    prompt_revid: UUID | None = None


async def _run_extraction(conn: Connection, context: Context, args: RunExtraction) -> ToolResult:
    prompt = None if args.prompt_revid is None else await prompts.get_version(conn, args.prompt_revid)
    extraction_id = await extraction_rows.add(
        conn,
        org_id=context.scope.org_id,
        document_id=context.deps.document_id,
        prompt_revid=None if prompt is None else prompt.prompt_revid,
    )
    await context.start_run(
        conn,
        context,
        "extract",
        {} if prompt is None else {"instructions": prompt.content},
        Subject(context.deps.document_id, extraction_id),
        # Whoever has admitted this call has admitted what it is for.
        approval=Approval.AUTO,
        model=None if prompt is None else prompt.model,
    )
    return RunsStarted("Extracting the fields.")


async def _extracted(conn: Connection, context: Context, args: RunExtraction, runs: Sequence[RunRow]) -> ToolResult:
    (child,) = runs
    assert child.extraction_id is not None
    row = await extractions.get(conn, child.extraction_id)
    if context.deps.thread_id is not None:
        await threads.remember(conn, context.deps.thread_id, {"extraction_id": str(row.id)})
    return ToolResult(
        f"The extraction {child.status}.", "extracted", {"extraction_id": str(row.id), "fields": row.extracted_fields}
    )


RUN_EXTRACTION = Tool(
    "run_extraction",
    RunExtraction,
    _run_extraction,
    summary=lambda args: "Extracting the fields",
    effect=ToolEffect.WRITE,
    collect=_extracted,
)
