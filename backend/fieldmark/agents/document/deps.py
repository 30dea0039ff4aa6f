"""What the document agent's tools need: the document that the conversation is on, and the conversation."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from fieldmark.stores.runs import RunRow


@dataclass(frozen=True, slots=True)
class DocumentDeps:
    """The document, and the thread; None for a run that nobody talks with."""

    document_id: UUID
    thread_id: UUID | None

    @classmethod
    def of(cls, run: RunRow) -> DocumentDeps:
        """Those of a run; private.agent_tasks sees to it that it has a document."""
        assert run.document_id is not None
        return cls(run.document_id, run.thread_id)
