"""The library agent: its task, what it is given, and its spec."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final, Literal, TypeAlias
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from fieldmark.agents.library import fallback, memory
from fieldmark.agents.library.offline import answer as answer_offline
from fieldmark.agents.library.question import Question
from fieldmark.agents.library.record import Record
from fieldmark.agents.library.reply import plain_reply
from fieldmark.agents.library.tools.citing import CitingTools
from fieldmark.agents.library.tools.figures import CalculationTools
from fieldmark.agents.library.tools.reading import ReadingTools
from fieldmark.agents.library.tools.searching import SearchTools
from fieldmark.agents.library.tools.submitting import SubmittingTools, answer_text
from fieldmark.agents.spec import (
    MORE_TURNS,
    AgentSpec,
    Briefing,
    CallTool,
    LastQuestion,
    Message,
    RunStart,
    Task,
)
from fieldmark.db.pool import Connection
from fieldmark.domain.answers import FallbackCode
from fieldmark.domain.document_filters import DocumentFilters
from fieldmark.domain.statuses import Approval
from fieldmark.identity.scope import Scope
from fieldmark.services.field_queries import check_fields
from fieldmark.stores import runs, threads
from fieldmark.stores.runs import Subject
from fieldmark.tools.context import RunContext
from fieldmark.tools.documents import Boundary
from fieldmark.tools.toolset import RunAnswer, RunTools, Toolset

MAX_ROUNDS: Final = 16
ASK_SECONDS: Final = 180
LAST_SECONDS: Final = 30

Mode: TypeAlias = Literal["agent", "search"]


class AskInput(BaseModel):
    """The stored part of a question."""

    model_config = ConfigDict(extra="forbid")

    message: Message = Field(examples=["What do the surveys say about the roof?"])
    filters: DocumentFilters | None = Field(None, description="Limits the documents. No tool can read other documents.")
    mode: Mode = Field("agent", description="search: return the best matching passages, without a model.")


class AskRequest(AskInput):
    """Ask a question about all documents, or those that match the filters."""

    thread_id: UUID | None = Field(None, description="The conversation to continue. Default: a new one.")


async def _begin(conn: Connection, scope: Scope, request: AskRequest) -> RunStart[AskInput]:
    await check_fields(conn, scope, request.filters or DocumentFilters())
    thread = await threads.for_message(conn, scope, request.thread_id, request.message, agent=LIBRARY.name)
    return RunStart(
        Subject(thread_id=thread.id), AskInput(message=request.message, filters=request.filters, mode=request.mode)
    )


async def _brief(conn: Connection, context: RunContext, given: AskInput) -> Briefing:
    kept = await memory.recall(conn, Question.of(context))
    state: dict[str, JsonValue] = {
        name: kept[name] for name in ("active_documents", "conversation", "turns_left_out") if name in kept
    }
    if given.filters is not None:
        state["filters"] = given.filters.model_dump(mode="json", exclude_defaults=True)
    remembered = json.dumps(state, ensure_ascii=False)
    boundary = Boundary(context.run_id, remembered, given.message)
    return LIBRARY.text(
        "ask",
        boundary=boundary.word,
        state=boundary.delimit("working state", remembered),
        message=given.message.strip(),
    )


async def _prepare_last(context: RunContext, given: AskInput, call: CallTool) -> Briefing | None:
    """Search and read the best passages with the agent's tools. Return the last question about them, with what the run
    has cited and computed so far."""
    async with context.database.as_user(context.scope) as conn:
        record = await Record.of(conn, context.run_id)
        about = await fallback.subject_of(conn, Question.of(context), record)
    shown = await fallback.read_best_documents(given.message, about, call)
    if shown is None:
        return None
    done = [f"[{one.number}] {one.filename}, page {one.page}: {one.quote}" for one in record.sources]
    done = "\n".join([*done, *record.computed])
    boundary = Boundary(context.run_id, shown, done, given.message)
    return LIBRARY.text(
        "last_question",
        boundary=boundary.word,
        passages=boundary.delimit("passages", shown),
        done=boundary.delimit("cited and computed so far", done),
        message=given.message.strip(),
    )


async def _fall_back(context: RunContext, given: AskInput, why: FallbackCode) -> RunAnswer:
    question = Question.of(context)
    async with context.database.as_user(context.scope) as conn:
        await runs.fence(conn, context.run_id, context.fencing_token)
        record = await Record.of(conn, context.run_id)
        answer = await fallback.answer_from_passages(conn, question, why, record)
        await memory.remember(conn, question, record, answer)
    result = answer.model_dump(mode="json")
    return RunAnswer(answer_text(result), result)


ASK = Task(
    name="ask",
    description="Ask about all documents. Claims carry their location, and counts their coverage.",
    request=AskRequest,
    input=AskInput,
    begin=_begin,
    briefing=_brief,
    needs=("thread_id",),
    reply=lambda context, _, text: plain_reply(context, text),
    fallback=_fall_back,
    on_failure=memory.remember_failure,
    last_question=LastQuestion("submit_answer", LAST_SECONDS, _prepare_last),
    without_agent=lambda given: given.mode == "search",
    max_turns=MAX_ROUNDS + MORE_TURNS,
    seconds=ASK_SECONDS,
    rounds=MAX_ROUNDS,
)

_TOOLS = (SearchTools, ReadingTools, CalculationTools, CitingTools, SubmittingTools)
_TOOLSET = Toolset(*_TOOLS)


def create_library_tools(
    context: RunContext, *, user_id: UUID, org_id: UUID, thread_id: UUID, filters: DocumentFilters
) -> RunTools:
    """Return the tools of one run. They close over these ids and the filters of the question: an argument can only name
    documents of the organisation that match the filters."""
    question = Question(context.acting_as(user_id, org_id), thread_id, filters)
    return _TOOLSET.bind(*(tools(question) for tools in _TOOLS))


def _create_tools(context: RunContext) -> RunTools:
    question = Question.of(context)
    return create_library_tools(
        context,
        user_id=context.user_id,
        org_id=context.org_id,
        thread_id=question.thread_id,
        filters=question.filters,
    )


LIBRARY = AgentSpec(
    name="library",
    briefs=Path(__file__).parent / "briefs",
    toolset=_TOOLSET,
    create_tools=_create_tools,
    tasks={ASK.name: ASK},
    approval=Approval.AUTO,
    offline=answer_offline,
)
