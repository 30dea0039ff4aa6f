"""The toy agent's task and spec."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from fieldmark.agents.spec import AgentSpec, RunStart, Task
from fieldmark.db.pool import Connection
from fieldmark.errors import NotFound
from fieldmark.identity.scope import Scope
from fieldmark.stores import documents, threads
from fieldmark.stores.runs import Subject
from fieldmark.tools.context import RunContext
from fieldmark.tools.toolset import RunTools, Toolset
from toy_agent.tools import ToyTools

_TOOLSET = Toolset(ToyTools)


class CompareRequest(BaseModel):
    """A request to compare two documents."""

    model_config = ConfigDict(extra="forbid")

    documents: tuple[UUID, UUID]
    message: Annotated[str, Field(min_length=1, max_length=2000)]
    thread_id: UUID | None = None


class CompareInput(BaseModel):
    """The stored input of a run."""

    documents: tuple[UUID, UUID]
    message: str


async def begin(conn: Connection, scope: Scope, request: CompareRequest) -> RunStart[CompareInput]:
    thread = (
        await threads.add(conn, scope, agent="toy", title=request.message[:100])
        if request.thread_id is None
        else await threads.find(conn, request.thread_id)
    )
    if thread is None:
        raise NotFound("There is no such thread.")
    return RunStart(Subject(thread_id=thread.id), CompareInput(documents=request.documents, message=request.message))


async def brief(conn: Connection, context: RunContext, task_input: CompareInput) -> str:
    names: list[Any] = [await documents.find(conn, one) for one in task_input.documents]
    return TOY.text("compare", first=names[0].filename, second=names[1].filename, message=task_input.message)


def create_toy_tools(context: RunContext) -> RunTools:
    """Return the tools of one run, for its two documents and its thread."""
    assert context.run.thread_id is not None
    documents = CompareInput.model_validate(context.run.input).documents
    return _TOOLSET.bind(ToyTools(context, documents, context.run.thread_id))


COMPARE = Task(
    name="compare",
    description="Compare two documents.",
    request=CompareRequest,
    input=CompareInput,
    begin=begin,
    briefing=brief,
    needs=("thread_id",),
)
TOY = AgentSpec(
    name="toy",
    briefs=Path(__file__).parent / "briefs",
    toolset=_TOOLSET,
    create_tools=create_toy_tools,
    tasks={COMPARE.name: COMPARE},
)
