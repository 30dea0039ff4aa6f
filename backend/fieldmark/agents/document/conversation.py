"""The conversation of a run: its document, and the versions that omitted arguments refer to."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Final
from uuid import UUID

from pydantic import JsonValue

from fieldmark.db.pool import Connection
from fieldmark.stores import auto_creations, extractions, threads
from fieldmark.stores.library import prompts, schemas
from fieldmark.tools.context import RunContext


class MentionType(StrEnum):
    """The kinds of objects that a message can mention."""

    SCHEMA = "schema"
    PROMPT = "prompt"
    TAG = "tag"
    DOCUMENT = "document"
    EXTRACTION = "extraction"


@dataclass(frozen=True, slots=True)
class WorkingState:
    """The versions that the conversation last created or used, and its last extraction. At the start: those of the
    document's undecided suggestion, else those of its shown extraction."""

    schema_revid: UUID | None = None
    prompt_revid: UUID | None = None
    extraction_id: UUID | None = None


_NAMES: Final = tuple(field.name for field in fields(WorkingState))


@dataclass(frozen=True, slots=True)
class Conversation:
    """One run of the document agent. `thread_id` is None for an automatic run."""

    context: RunContext
    document_id: UUID
    thread_id: UUID | None

    @classmethod
    def of(cls, context: RunContext) -> Conversation:
        return cls(context, context.document_id, context.run.thread_id)

    async def recall(self, conn: Connection) -> WorkingState:
        """Return the thread's working state, or without a thread the items that this run has suggested. `extraction_id`
        is the newer one of the document's and the conversation's extraction, if it is not empty."""
        start = await threads.starting_state(conn, self.document_id)
        if self.thread_id is None:
            row = await auto_creations.find_by_run(conn, self.context.run_id)
            kept = {name: None if row is None else getattr(row, name) for name in _NAMES}
        else:
            thread = await threads.find(conn, self.thread_id)
            state = {} if thread is None else thread.working_state
            kept = {name: _id(state[name]) if name in state else start[name] for name in _NAMES}
        found = [one for one in (kept["extraction_id"], start["extraction_id"]) if one is not None]
        return WorkingState(**{**kept, "extraction_id": await extractions.preferred_id(conn, found)})

    async def deleted(self, conn: Connection, state: WorkingState) -> list[str]:
        """Return which of the schema and the prompt in the working state are deleted."""
        schema = None if state.schema_revid is None else await schemas.find_version(conn, state.schema_revid)
        prompt = None if state.prompt_revid is None else await prompts.find_version(conn, state.prompt_revid)
        return [name for name, row in (("schema", schema), ("prompt", prompt)) if row is not None and row.is_deleted]

    async def remember(self, conn: Connection, **ids: UUID | None) -> None:
        """Store the ids of items that a tool created or used. None clears an id."""
        if self.thread_id is None:
            await auto_creations.save_ids(conn, self.context.run_id, **ids)
        else:
            kept: dict[str, JsonValue] = {name: None if one is None else str(one) for name, one in ids.items()}
            await threads.save_state(conn, self.thread_id, kept)


def _id(kept: JsonValue) -> UUID | None:
    return UUID(kept) if isinstance(kept, str) else None
