"""What the library agent's tools need: the conversation, and which documents the person asks about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias
from uuid import UUID

from fieldmark.domain.document_filters import DocumentFilters
from fieldmark.stores.runs import RunRow
from fieldmark.tools.context import RunContext


@dataclass(frozen=True, slots=True)
class LibraryDeps:
    """The thread, and what narrows the documents: no tool reaches past it."""

    thread_id: UUID
    filters: DocumentFilters

    @classmethod
    def of(cls, run: RunRow) -> LibraryDeps:
        """Those of a run; private.agent_tasks sees to it that it has a thread."""
        assert run.thread_id is not None
        return cls(run.thread_id, DocumentFilters.model_validate(run.input.get("filters") or {}))


Context: TypeAlias = RunContext[LibraryDeps]
