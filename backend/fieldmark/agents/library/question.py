"""A question at work: its run, its conversation, and the documents that it may be answered from."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from fieldmark.domain.document_filters import DocumentFilters
from fieldmark.tools.context import RunContext


@dataclass(frozen=True, slots=True)
class Question:
    """One turn of a conversation over many documents. No tool reaches past `filters`."""

    context: RunContext
    thread_id: UUID
    filters: DocumentFilters

    @classmethod
    def of(cls, context: RunContext) -> Question:
        """The question of a run. Its task needs a thread, or the database would have refused the run."""
        assert context.run.thread_id is not None
        filters = DocumentFilters.model_validate(context.run.input.get("filters") or {})
        return cls(context, context.run.thread_id, filters)

    @property
    def is_search(self) -> bool:
        """Return whether the person asked for passages without a model."""
        return self.context.run.input.get("mode") == "search"

    @property
    def message(self) -> str:
        """What the person asks."""
        return str(self.context.run.input.get("message", ""))
