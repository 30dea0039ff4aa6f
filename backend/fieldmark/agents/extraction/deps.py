"""What the extraction agent's tools need: the document and the extraction of their run."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from fieldmark.stores.runs import RunRow


@dataclass(frozen=True, slots=True)
class ExtractionDeps:
    """The document that is read, and the extraction that is written."""

    document_id: UUID
    extraction_id: UUID

    @classmethod
    def of(cls, run: RunRow) -> ExtractionDeps:
        """Those of a run; private.agent_tasks sees to it that it has both."""
        assert run.document_id is not None and run.extraction_id is not None
        return cls(run.document_id, run.extraction_id)
