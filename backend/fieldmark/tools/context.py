"""The context of one run's tools: the run, its user, the database and limits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
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


async def refuse_child_runs(conn: Connection, context: RunContext, child: ChildRun) -> UUID:
    """Default of `RunContext.start_run`. Raise RuntimeError."""
    raise RuntimeError("This context starts no runs.")


@dataclass(frozen=True, slots=True)
class RunContext:
    """A run in progress, and what its tools may use. `call_id` is the current tool call."""

    database: Database
    scope: Scope
    run: RunRow
    # The person's message, in tasks that act on the person's behalf, such as a correction.
    message: str | None = None
    indexes: DocumentIndexes = field(default=INDEXES, compare=False)
    # Starts a child run for the current call, in the call's transaction.
    start_run: Callable[[Connection, RunContext, ChildRun], Awaitable[UUID]] = field(
        default=refuse_child_runs, compare=False
    )
    call_id: str | None = None
    # Most bytes of document text in the run's first message.
    first_part_bytes: int = FIRST_PART_BYTES
    # Timeout of one call, inside its transaction.
    tool_seconds: float = TOOL_SECONDS
    # Embeds queries for semantic search. None if the service has no embedding model.
    embedder: Embedder | None = field(default=None, compare=False)
    # The run's model, and the one that reads a document a second time. None if the service has none. Both with the
    # address of their service; None: Anthropic's.
    model: str | None = None
    second_model: str | None = None
    model_url: str | None = None
    second_model_url: str | None = None
    # Why the task falls back. Set only while the model gets its last question.
    fallback_code: FallbackCode | None = None

    def acting_as(self, user_id: UUID, org_id: UUID) -> RunContext:
        """Return the context of tools that act as one user in one organisation."""
        return replace(self, scope=replace(self.scope, user_id=user_id, org_id=org_id))

    @property
    def user_id(self) -> UUID:
        return self.scope.user_id

    @property
    def org_id(self) -> UUID:
        return self.scope.org_id

    @property
    def run_id(self) -> UUID:
        return self.run.id

    @property
    def document_id(self) -> UUID:
        """The document that the run is about. The database guarantees one for tasks that need it."""
        assert self.run.document_id is not None
        return self.run.document_id

    @property
    def extraction_id(self) -> UUID:
        """The extraction that the run writes."""
        assert self.run.extraction_id is not None
        return self.run.extraction_id

    @property
    def stack_id(self) -> UUID:
        """The stack whose table the run fills."""
        assert self.run.stack_id is not None
        return self.run.stack_id

    @property
    def fencing_token(self) -> int:
        return self.run.fencing_token
