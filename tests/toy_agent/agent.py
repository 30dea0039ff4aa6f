"""The toy agent's task and spec, and the rows that its database must know it by."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from fieldmark.agents.spec import AgentSpec, Begun, Task
from fieldmark.db.pool import Connection
from fieldmark.errors import NotFound
from fieldmark.identity.scope import Scope
from fieldmark.stores import documents, threads
from fieldmark.stores.runs import RunRow, Subject
from fieldmark.tools.context import RunContext
from fieldmark.tools.toolset import Toolset
from toy_agent.tools import FIND_VALUE, NOTE, READ_FIELDS, WAIT, ToyDeps

ROWS = """
insert into private.agents (name, approval) values ('toy', 'auto');
insert into private.agent_tasks (agent, task, needs) values ('toy', 'compare', '{thread_id}');
"""


class CompareRequest(BaseModel):
    """One turn of a comparison."""

    model_config = ConfigDict(extra="forbid")

    documents: tuple[UUID, UUID]
    message: Annotated[str, Field(min_length=1, max_length=2000)]
    thread_id: UUID | None = None


class CompareInput(BaseModel):
    """What is kept of a turn."""

    documents: tuple[UUID, UUID]
    message: str


async def begin(conn: Connection, scope: Scope, request: CompareRequest) -> Begun[CompareInput]:
    thread = (
        await threads.add(conn, scope, agent="toy", title=request.message[:100])
        if request.thread_id is None
        else await threads.get(conn, request.thread_id)
    )
    if thread is None:
        raise NotFound("There is no such thread.")
    return Begun(Subject(thread_id=thread.id), CompareInput(documents=request.documents, message=request.message))


async def brief(conn: Connection, context: RunContext[ToyDeps], given: CompareInput) -> str:
    names: list[Any] = [await documents.get(conn, one) for one in given.documents]
    return TOY.text("compare", first=names[0].filename, second=names[1].filename, message=given.message)


def deps_of(run: RunRow) -> ToyDeps:
    assert run.thread_id is not None
    return ToyDeps(CompareInput.model_validate(run.input).documents, run.thread_id)


COMPARE = Task(
    name="compare",
    description="Compare two documents.",
    request=CompareRequest,
    input=CompareInput,
    begin=begin,
    briefing=brief,
)
TOY = AgentSpec(
    name="toy",
    briefs=Path(__file__).parent / "briefs",
    toolset=Toolset(FIND_VALUE, WAIT, NOTE, READ_FIELDS),
    tasks={COMPARE.name: COMPARE},
    deps=deps_of,
)
