"""What the tools of one run are locked to: whose it is, what it is about. The model never sees or names any of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar
from uuid import UUID

from pydantic import JsonValue

from fieldmark.db.pool import Connection, Database
from fieldmark.domain.answers import FallbackCode
from fieldmark.domain.statuses import Approval
from fieldmark.embedding import Embedder
from fieldmark.identity.scope import Scope
from fieldmark.services.evidence import DocumentIndexes
from fieldmark.stores.runs import RunRow, Subject

Deps = TypeVar("Deps")

FIRST_PART_BYTES = 80_000
TOOL_SECONDS = 60.0


class StartRun(Protocol):
    """Starts a child of the run whose tool calls it, in the tool's own transaction."""

    async def __call__(
        self,
        conn: Connection,
        context: RunContext[Any],
        task: str,
        task_input: Mapping[str, JsonValue],
        subject: Subject,
        *,
        approval: Approval | None = None,
        model: str | None = None,
    ) -> UUID:
        """The child's id. Who admits its writes and which model is asked is as in the parent, where nothing is said.
        Raises Invalid where the task, its input or the subject is none."""
        ...


async def start_nothing(
    conn: Connection,
    context: RunContext[Any],
    task: str,
    task_input: Mapping[str, JsonValue],
    subject: Subject,
    *,
    approval: Approval | None = None,
    model: str | None = None,
) -> UUID:
    """For a context whose tools start no runs."""
    raise RuntimeError("This context starts no runs.")


@dataclass(frozen=True, slots=True)
class RunContext(Generic[Deps]):
    """One run at work. `deps` is what its agent's tools need besides (an AgentSpec says which); `call_id` is the call
    that is being answered."""

    database: Database
    scope: Scope
    run: RunRow
    deps: Deps
    # What the person said whose run this is, where the task lets the agent speak for them: a correction.
    message: str | None = None
    indexes: DocumentIndexes = field(default_factory=DocumentIndexes, compare=False)
    start_run: StartRun = field(default=start_nothing, compare=False)
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
    def fencing_token(self) -> int:
        return self.run.fencing_token
