"""The stack agent: its tasks, what they are given, and its spec."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from fieldmark.agents.spec import AgentSpec, Briefing, Instructions, Message, RunStart, Task
from fieldmark.agents.stack.offline import answer
from fieldmark.agents.stack.tools import StackTools, columns_json, row_json
from fieldmark.db.pool import Connection
from fieldmark.domain.column_definitions import Definitions
from fieldmark.domain.permissions import Permission
from fieldmark.domain.statuses import Approval
from fieldmark.domain.values import value_problem
from fieldmark.errors import Conflict, Invalid
from fieldmark.identity.scope import Scope
from fieldmark.services import stacks
from fieldmark.stores import stacks as stored
from fieldmark.stores.runs import Subject
from fieldmark.tools.context import RunContext
from fieldmark.tools.documents import Boundary
from fieldmark.tools.fields import cut
from fieldmark.tools.toolset import RunTools, Toolset

_SHOWN: Final = 50
_SHOWN_BYTES: Final = 12_000


class StackRequest(BaseModel):
    """Fill the table of a stack: each document without a current row is read."""

    model_config = ConfigDict(extra="forbid")

    stack_id: UUID
    instructions: Instructions | None = Field(
        None, description="For the agent, and for those that read the documents.", examples=["Amounts are net."]
    )
    columns: Definitions | None = Field(
        None, description="The columns of the table. Left out: those it has, or else the agent proposes columns."
    )


class StackCorrectRequest(BaseModel):
    """Correct the table of a stack in words."""

    model_config = ConfigDict(extra="forbid")

    stack_id: UUID
    message: Message = Field(examples=["drop the VAT column; the vendor is always the letterhead"])


class StackInput(BaseModel):
    """The stored part of a request to fill a table."""

    model_config = ConfigDict(extra="forbid")

    instructions: Instructions | None = None


class StackCorrectInput(BaseModel):
    """The stored part of a correction."""

    model_config = ConfigDict(extra="forbid")

    message: Message


async def _check_stack(request: StackRequest) -> None:
    if request.columns is not None:
        for one in request.columns:
            if problem := value_problem(one.model_dump()):
                raise Invalid(f"The columns cannot be used. {problem}")


def _scopes(request: StackRequest) -> Mapping[Permission, str]:
    part = "`columns`, which make a version of a schema"
    return {} if request.columns is None else {Permission.SCHEMAS_WRITE: part}


async def _begin_stack(conn: Connection, scope: Scope, request: StackRequest) -> RunStart[StackInput]:
    await stored.get(conn, request.stack_id)
    if not await stored.rows(conn, request.stack_id, limit=1):
        raise Conflict("The stack has no documents. Add some first.")
    if request.columns is not None:
        await stacks.define_columns(conn, scope, request.stack_id, request.columns)
    return RunStart(Subject(stack_id=request.stack_id), StackInput(instructions=request.instructions))


async def _begin_correct(conn: Connection, scope: Scope, request: StackCorrectRequest) -> RunStart[StackCorrectInput]:
    await stored.get(conn, request.stack_id)
    return RunStart(Subject(stack_id=request.stack_id), StackCorrectInput(message=request.message))


async def _brief_stack(conn: Connection, context: RunContext, given: StackInput) -> Briefing:
    words = (given.instructions or "").strip()
    instructions = f"<instructions>\n{words}\n</instructions>\n\n" if words else ""
    return STACK.text("fill").strip(), instructions + await _table_text(conn, context, words)


async def _brief_correct(conn: Connection, context: RunContext, given: StackCorrectInput) -> Briefing:
    table = await _table_text(conn, context, given.message)
    message = f"<message>\n{given.message.strip()}\n</message>"
    return STACK.text("correct").strip(), f"{table}\n\n{message}"


async def _table_text(conn: Connection, context: RunContext, *foreign: str) -> str:
    """Return the columns, the number of rows in each state and the first documents, between delimiter lines."""
    stack = await stored.get(conn, context.stack_id)
    progress = (await stored.progress(conn, [stack.id]))[stack.id]
    documents = cut([row_json(row) for row in await stored.rows(conn, stack.id, limit=_SHOWN)], _SHOWN_BYTES)
    shown = {
        "columns": columns_json(stack.columns),
        "rows_are": stack.row_path or "documents",
        "states": {str(state): number for state, number in progress.counts.items()},
        "documents": documents,
        "documents_not_shown": sum(progress.counts.values()) - len(documents),
    }
    text = json.dumps(shown, ensure_ascii=False)
    boundary = Boundary(context.run_id, text, *foreign)
    return STACK.text("table", boundary=boundary.word, table=boundary.delimit("table", text)).strip()


FILL = Task(
    name="stack",
    description="Fill the table of a stack.",
    request=StackRequest,
    input=StackInput,
    check=_check_stack,
    scopes=_scopes,
    begin=_begin_stack,
    briefing=_brief_stack,
    needs=("stack_id",),
)
CORRECT = Task(
    name="stack_correct",
    description="Change the table of a stack as the message says.",
    request=StackCorrectRequest,
    input=StackCorrectInput,
    begin=_begin_correct,
    briefing=_brief_correct,
    needs=("stack_id",),
    message=lambda given: given.message,
)

_TOOLSET = Toolset(StackTools)


def create_stack_tools(
    context: RunContext, *, user_id: UUID, org_id: UUID, stack_id: UUID, max_rows: int = stacks.MAX_READ_AT_ONCE
) -> RunTools:
    """Return the tools of one run. They close over these ids: an argument can only name documents of the stack."""
    return _TOOLSET.bind(StackTools(context.acting_as(user_id, org_id), stack_id, max_rows))


STACK = AgentSpec(
    name="stack",
    briefs=Path(__file__).parent / "briefs",
    toolset=_TOOLSET,
    create_tools=lambda context: create_stack_tools(
        context, user_id=context.user_id, org_id=context.org_id, stack_id=context.stack_id
    ),
    tasks={task.name: task for task in (FILL, CORRECT)},
    approval=Approval.ASK,
    offline=answer,
)
