"""The memory of a conversation over many documents: earlier questions, documents and actions, for the agent and for
readers of the thread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final
from uuid import UUID

from pydantic import JsonValue

from fieldmark.agents.library.question import Question
from fieldmark.agents.library.record import Record, computation
from fieldmark.db.pool import Connection
from fieldmark.domain.answers import AnyAnswer
from fieldmark.domain.formatting import cut_text
from fieldmark.domain.json_values import JsonObject, as_list, as_object
from fieldmark.domain.statuses import CallStatus
from fieldmark.stores import threads
from fieldmark.stores.tool_calls import RecordedCall
from fieldmark.tools.context import RunContext

MOST_DOCUMENTS: Final = 20
MOST_ACTIONS: Final = 40
MOST_TURNS: Final = 12
SEARCH: Final = "search"
"""The intent of a question with `mode: "search"`."""
_ASKED_CHARACTERS: Final = 300
_ANSWERED_CHARACTERS: Final = 600


async def recall(conn: Connection, question: Question) -> JsonObject:
    """Return the conversation's memory."""
    thread = await threads.find(conn, question.thread_id)
    return {} if thread is None else dict(thread.working_state)


def texts(state: Mapping[str, JsonValue]) -> list[str]:
    """Return what the conversation has said so far: questions, answers, names of documents."""
    turns = map(as_object, as_list(state.get("conversation")))
    names = [str(as_object(one).get("name")) for one in as_list(state.get("active_documents"))]
    return [*(str(turn.get(key) or "") for turn in turns for key in ("asked", "answered")), *names]


def subject(state: Mapping[str, JsonValue]) -> tuple[list[UUID], str]:
    """Return the documents that the conversation is about, the latest first, and its last question."""
    documents = [UUID(str(as_object(one)["id"])) for one in as_list(state.get("active_documents"))]
    turns = as_list(state.get("conversation"))
    return documents[::-1], str(as_object(turns[-1]).get("asked") or "") if turns else ""


async def remember(conn: Connection, question: Question, record: Record, answer: AnyAnswer) -> None:
    """Store the result of a turn. A restarted run stores it once."""
    said = answer.summary if answer.kind == "summary" else answer.answer
    if question.is_search:
        ended = f"ended with passages: {len(answer.sources)}"
    else:
        ended = f"ended with {answer.kind}" if answer.fallback is None else f"fell back: {answer.fallback.code}"
    await _add_turn(conn, question, record, {"answered": cut_text(said, _ANSWERED_CHARACTERS)}, ended)


async def remember_failure(conn: Connection, context: RunContext, code: str) -> None:
    """Store the actions of a turn that ended without an answer, and the reason."""
    question = Question.of(context)
    await _add_turn(conn, question, await Record.of(conn, context.run_id), {"failed": code}, f"failed: {code}")


async def _add_turn(conn: Connection, question: Question, record: Record, end: JsonObject, ended: str) -> None:
    """Add a turn to the memory. Of entries that no longer fit, only the number is kept."""
    before = await recall(conn, question)
    is_again = before.get("last_run") == str(question.context.run_id)
    turn = _count(before, "turns") + (not is_again)
    entry: JsonValue = {"turn": turn, "asked": cut_text(question.message, _ASKED_CHARACTERS), **end}
    conversation = as_list(before.get("conversation"))
    if is_again:
        # What a run falls back on is no call, so the ledger does not know it: a worker died before the run had ended.
        await threads.save_state(conn, question.thread_id, {**before, "conversation": [*conversation[:-1], entry]})
        return
    read: dict[str, JsonValue] = {str(one): name for one, name in record.documents.items()}
    known = map(as_object, as_list(before.get("active_documents")))
    active: list[JsonValue] = [one for one in known if str(one.get("id")) not in read]
    active += [{"id": one, "name": name} for one, name in read.items()]
    used = Counter({name: _number(count) for name, count in as_object(before.get("tools_used")).items()})
    used.update(record.tools)
    done = [line for call in record.calls for line in _steps(call)]
    if question.is_search:
        done = [f"understood as {SEARCH}", f"looked for {question.message[:120]}"]
    actions = [*as_list(before.get("actions")), *(f"Turn {turn}: {line}" for line in [*done, ended])]
    turns: list[JsonValue] = [*conversation, entry]
    state: dict[str, JsonValue] = {
        "turns": turn,
        "last_run": str(question.context.run_id),
        "active_documents": active[-MOST_DOCUMENTS:],
        "tools_used": dict[str, JsonValue](used),
        "actions": actions[-MOST_ACTIONS:],
        "actions_left_out": _count(before, "actions_left_out") + max(0, len(actions) - MOST_ACTIONS),
        "conversation": turns[-MOST_TURNS:],
        "turns_left_out": _count(before, "turns_left_out") + max(0, len(turns) - MOST_TURNS),
    }
    if record.intent is None:  # an earlier turn's intent is not this one's
        kind = SEARCH if question.is_search else None
        state |= {"intent": kind, "next_step": kind, "intent_confidence": None}
    await threads.save_state(conn, question.thread_id, state)


def _steps(call: RecordedCall) -> list[str]:
    """Return one line per step of a call. Reading several documents is several steps."""
    data = as_object(call.data)
    if call.status is not CallStatus.DONE:
        return [f"{call.tool} was refused: {call.code or 'refused'}"]
    match call.tool:
        case "record_intent":
            return [f"understood as {data.get('intent')}"]
        case "search_documents":
            return [f"looked for {str(data.get('searched'))[:120]}"]
        case "read_document" | "read_multiple_documents":
            return [f"read {as_object(one).get('name')}" for one in as_list(data.get("read"))]
        case "calculator" | "query_fields":
            return [f"computed {computation(call)}"]
        case "cite_source":
            source = as_object(data.get("source"))
            return [f"cited {source.get('filename')}, page {source.get('page')}"]
        case _:
            return [call.tool]


def _count(state: Mapping[str, JsonValue], name: str) -> int:
    return _number(state.get(name))


def _number(value: JsonValue) -> int:
    return value if isinstance(value, int) else 0
