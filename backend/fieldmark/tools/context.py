"""One run at work: whose it is, what it is about, and what its tools may use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from uuid import UUID

from fieldmark.db.pool import Connection, Database
from fieldmark.domain.answers import FallbackCode
from fieldmark.embedding import Embedder
from fieldmark.identity.scope import Scope
from fieldmark.services.evidence import INDEXES, DocumentIndexes
from fieldmark.stores.runs import RunRow
from fieldmark.tools.toolset import ChildRun

FIRST_PART_BYTES = 80_000
TOOL_SECONDS = 60.0


async def start_nothing(conn: Connection, context: RunContext, child: ChildRun) -> UUID:
    """For a context whose tools start no runs."""
    raise RuntimeError("This context starts no runs.")


@dataclass(frozen=True, slots=True)
class RunContext:
    """One run at work. `call_id` is the call that is being answered."""

    database: Database
    scope: Scope
    run: RunRow
    # What the person said whose run this is, where the task lets the agent speak for them: a correction.
    message: str | None = None
    indexes: DocumentIndexes = field(default=INDEXES, compare=False)
    # Starts a child of the run for the call that is being answered, in its transaction.
    start_run: Callable[[Connection, RunContext, ChildRun], Awaitable[UUID]] = field(
        default=start_nothing, compare=False
    )
    call_id: str | None = None
    # How many bytes of a document's text the first message of its run may hold.
    first_part_bytes: int = FIRST_PART_BYTES
    # How long one call may work in its transaction.
    tool_seconds: float = TOOL_SECONDS
    # What finds passages by their meaning, where the service has one.
    embedder: Embedder | None = field(default=None, compare=False)
    # Why the task falls back, where the model is asked for the last time.
    falls_back: FallbackCode | None = None

    @property
    def run_id(self) -> UUID:
        return self.run.id

    @property
    def document_id(self) -> UUID:
        """The document that the run is about. Its task needs one, or the database would have refused the run."""
        assert self.run.document_id is not None
        return self.run.document_id

    @property
    def extraction_id(self) -> UUID:
        """The extraction that the run writes."""
        assert self.run.extraction_id is not None
        return self.run.extraction_id

    @property
    def fencing_token(self) -> int:
        return self.run.fencing_token
