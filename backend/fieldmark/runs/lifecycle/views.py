"""Runs and turns as the API returns them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import BaseModel, Field, JsonValue

from fieldmark.db.pool import Connection
from fieldmark.domain.answers import AnyAnswer, SecondReading, parse_answer, parse_second_reading
from fieldmark.domain.events import TokensUsed
from fieldmark.domain.statuses import RunError, RunStatus
from fieldmark.runs.lifecycle.decisions import WaitingCall, pending_calls
from fieldmark.stores import documents, runs, usage
from fieldmark.stores.documents import OwnData
from fieldmark.stores.runs import RunRow
from fieldmark.stores.threads import TurnRow


class ShownExample(BaseModel):
    """A correction that the agent got as an example. It is one no more once its value is unlocked."""

    extraction_id: UUID
    path: str


class ModelUsage(BaseModel):
    """Tokens and cost of one model in a run."""

    model: str
    turns: int
    input_tokens: int
    output_tokens: int
    cache_creation_input_tokens: int
    cache_read_input_tokens: int
    cost_usd: float | None


class Run(BaseModel):
    """One execution of a task by an agent."""

    id: UUID
    agent: str
    task: str
    created_by: UUID = Field(description="The person or key that started it, or took it over.")
    model: str | None = Field(description="The model that was requested. null: the service's default.")
    document_id: UUID | None
    external_id: str | None = Field(description="The caller's own key of the document.")
    metadata: dict[str, JsonValue] = Field(description="The caller's own data about the document.")
    extraction_id: UUID | None
    thread_id: UUID | None
    stack_id: UUID | None
    parent_run_id: UUID | None = Field(description="The run whose call started this run.")
    status: RunStatus
    waiting_call: str | None
    waits_for: WaitingCall | None = Field(
        description="The call that awaits a decision, while the run is `awaiting_approval`."
    )
    decision_refusal: Literal["read_only", "not_approver", "second_person_needed", "not_found"] | None = Field(
        description="Why you may not decide the call. null if you may, or if no call is pending."
    )
    waits_behind: UUID | None = Field(
        description="While `queued`: the run on the same subject that this run waits for."
    )
    attempt: int = Field(description="Number of times a worker has claimed the run.")
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    answer: str | None
    result: AnyAnswer | None = Field(description="The structured answer, if the task has one.")
    second_reading: SecondReading | None = Field(None, description="null: the run had none.")
    error: str | None
    error_code: RunError | None = Field(description="Code of the reason why the run failed or was cancelled.")
    cost_usd: float | None
    usage: TokensUsed
    examples: list[ShownExample] | None = Field(description="Corrections that the agent got as examples. null if off.")
    models: list[ModelUsage] | None = Field(description="Usage of each model. null in a list of runs.")


class Turn(BaseModel):
    """One turn of a thread: a person's message and the run that answers it. `GET /api/runs/{run_id}/events` has the
    text, reasoning and calls."""

    run_id: UUID
    created_by: UUID = Field(description="The author of the message, or the member who took the run over.")
    message: str | None = Field(description="The person's message, if the task has one.")
    mentions: list[JsonValue] = Field(description="Objects mentioned in the message: `type` and `id`.")
    created_at: datetime
    finished_at: datetime | None
    status: RunStatus
    earlier_texts: list[str] = Field(description="The agent's texts before its answer, in order.")
    answer: str | None
    result: AnyAnswer | None = Field(description="The structured answer, if the task has one.")
    error: str | None
    error_code: RunError | None = Field(description="Code of the reason why the run failed or was cancelled.")
    waits_behind: UUID | None = Field(
        description="While `queued`: the run on the same subject that this run waits for."
    )
    waiting_run_id: UUID | None = Field(description="The run whose call awaits a decision: this run, or a child run.")
    waits_for: WaitingCall | None = Field(description="The call of `waiting_run_id` that awaits a decision.")


async def to_run(conn: Connection, row: RunRow) -> Run:
    """Return a run for the API, with its usage by model."""
    (run,) = await to_runs(conn, [row])
    return run.model_copy(update={"models": [ModelUsage(**one) for one in await usage.by_model(conn, row.id)]})


async def to_runs(conn: Connection, rows: Sequence[RunRow]) -> list[Run]:
    """Return runs for the API, with their pending calls."""
    behind = await runs.waits_behind(conn, rows)
    waiting = {row.id: row.agent for row in rows if row.status is RunStatus.AWAITING_APPROVAL}
    calls = await pending_calls(conn, waiting)
    refusals = await runs.approval_refusal_reason(conn, list(calls))
    own = await documents.own_data(conn, [row.document_id for row in rows])
    return [
        _to_run(row, calls.get(row.id), behind.get(row.id), refusals.get(row.id), own.get(row.document_id, OwnData()))
        for row in rows
    ]


async def to_turns(conn: Connection, rows: Sequence[TurnRow]) -> list[Turn]:
    """Return turns of a thread for the API, with their pending calls."""
    calls = await pending_calls(
        conn, {row.waiting_run: row.waiting_agent or row.agent for row in rows if row.waiting_run}
    )
    texts = await runs.texts_by_run(conn, [row.id for row in rows])
    return [_to_turn(row, texts.get(row.id, []), calls.get(row.waiting_run or row.id)) for row in rows]


def _to_turn(row: TurnRow, texts: Sequence[str], call: WaitingCall | None) -> Turn:
    is_answer = bool(texts) and row.answer is not None and texts[-1].strip() == row.answer
    message, mentions = row.input.get("message"), row.input.get("mentions")
    shown = {name: getattr(row, name) for name in Turn.model_fields if hasattr(row, name)}
    return Turn.model_validate(
        {
            **shown,
            "run_id": row.id,
            "earlier_texts": texts[:-1] if is_answer else texts,
            "message": message if isinstance(message, str) else None,
            "mentions": mentions if isinstance(mentions, list) else [],
            "result": parse_answer(row.result),
            "waiting_run_id": row.waiting_run,
            "waits_for": call,
        }
    )


def _to_run(row: RunRow, call: WaitingCall | None, behind: UUID | None, refusal: str | None, own: OwnData) -> Run:
    shown = {name: getattr(row, name) for name in Run.model_fields if hasattr(row, name)}
    return Run.model_validate(
        {
            **shown,
            **asdict(own),
            "attempt": row.fencing_token,
            "waits_for": call,
            "decision_refusal": refusal or None,
            "waits_behind": behind,
            "result": parse_answer(row.result),
            "second_reading": parse_second_reading(row.result),
            "models": None,
        }
    )
