"""What a conversation works on: the schema, the prompt and the extraction that arguments mean which are left out."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from pydantic import JsonValue

from fieldmark.agents.document.deps import DocumentDeps
from fieldmark.db.pool import Connection
from fieldmark.stores import auto_creations, threads
from fieldmark.tools.context import RunContext


@dataclass(frozen=True, slots=True)
class WorkingState:
    """The versions that the conversation has last made or used, and its last extraction."""

    schema_revid: UUID | None = None
    prompt_revid: UUID | None = None
    extraction_id: UUID | None = None


async def recall(conn: Connection, context: RunContext[DocumentDeps]) -> WorkingState:
    """The working state of the run's conversation; of a run that nobody talks with, what it proposes so far."""
    if context.deps.thread_id is None:
        row = await auto_creations.of_run(conn, context.run_id)
        return WorkingState() if row is None else WorkingState(row.schema_revid, row.prompt_revid, row.extraction_id)
    thread = await threads.get(conn, context.deps.thread_id)
    kept = {} if thread is None else thread.working_state
    return WorkingState(*(_id(kept.get(name)) for name in ("schema_revid", "prompt_revid", "extraction_id")))


async def remember(conn: Connection, context: RunContext[DocumentDeps], **ids: UUID | None) -> None:
    """Keep what a tool has made or used; None for what is gone."""
    if context.deps.thread_id is None:
        await auto_creations.remember(conn, context.run_id, **ids)
    else:
        kept: dict[str, JsonValue] = {name: None if one is None else str(one) for name, one in ids.items()}
        await threads.remember(conn, context.deps.thread_id, kept)


def _id(kept: JsonValue) -> UUID | None:
    return UUID(kept) if isinstance(kept, str) else None
