"""A question in progress: its run, its conversation, and the documents that may be used to answer it."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from fieldmark.domain.document_filters import DocumentFilters
from fieldmark.tools.context import RunContext


@dataclass(frozen=True, slots=True)
class Question:
    """One turn of a conversation over many documents. Tools can only access documents that match `filters`."""

    context: RunContext
    thread_id: UUID
    filters: DocumentFilters

    @classmethod
    def of(cls, context: RunContext) -> Question:
        """Return the question of a run. The database guarantees that its run has a thread."""
        assert context.run.thread_id is not None
        filters = DocumentFilters.model_validate(context.run.input.get("filters") or {})
        return cls(context, context.run.thread_id, filters)

    @property
    def is_search(self) -> bool:
        """Return whether the person asked for passages without a model."""
        return self.context.run.input.get("mode") == "search"

    @property
    def message(self) -> str:
        return str(self.context.run.input.get("message", ""))
