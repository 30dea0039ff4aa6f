"""Executes a run: claims it, finishes the call that was decided, holds the conversation, records the outcome."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import structlog

from fieldmark.agents.registry import AGENTS
from fieldmark.agents.spec import AgentSpec, LastQuestion, Task
from fieldmark.db.pool import Connection, Database, savepoint
from fieldmark.domain.events import CompleteEvent, ErrorEvent, EventBase, RetryCode, TextEvent, TokensUsed
from fieldmark.domain.statuses import Approval, CallStatus, RunError, RunStatus
from fieldmark.embedding import Embedder
from fieldmark.errors import Fenced, FieldmarkError, Invalid, ModelServiceDown, Unavailable, is_disk_full
from fieldmark.identity.scope import Scope
from fieldmark.runs.billing.meter import LIMIT_MESSAGES, Meter
from fieldmark.runs.billing.prices import Prices
from fieldmark.runs.claim import claim, release, status_or_abandon
from fieldmark.runs.conversation_start import ConversationStart, earlier_outcome, start_or_resume, start_over
from fieldmark.runs.engine.binding import RunHandlers
from fieldmark.runs.engine.cli_attestation import SandboxViolation
from fieldmark.runs.engine.cli_errors import CliFailed, cli_errors
from fieldmark.runs.engine.message_calls import MessageCalls
from fieldmark.runs.engine.model_stream import model_stream
from fieldmark.runs.engine.permission_hook import ApprovalPolicy, PermissionHook
from fieldmark.runs.engine.pool import CliPool
from fieldmark.runs.engine.run_telemetry import RunTelemetry, run_telemetry
from fieldmark.runs.engine.session_store import ConversationStore, SessionWriteFailed
from fieldmark.runs.engine.tool_executor import ToolExecutor
from fieldmark.runs.events.deltas import DeltaBuffer
from fieldmark.runs.events.mapper import EventMapper, end_reporter, retry_event, tool_event
from fieldmark.runs.events.previews import CallPreviews
from fieldmark.runs.events.writer import EventWriter
from fieldmark.runs.lifecycle.context import run_context, service_calls
from fieldmark.runs.message_parts import MessageStarted, Observer, notify
from fieldmark.runs.monitor import RunMonitor
from fieldmark.runs.outcome import (
    NO_ANSWER,
    NO_TURNS_LEFT,
    Outcome,
    OutcomeObserver,
    RefusalLimit,
    RunEnded,
    completed_by_tool,
)
from fieldmark.stores import runs, tool_calls, usage
from fieldmark.stores.runs import RunRow
from fieldmark.telemetry.metrics import Metrics
from fieldmark.tools.context import FIRST_PART_BYTES, TOOL_SECONDS, RunContext
from fieldmark.tools.ledger import StartedBy, ToolCall, collect, execute

log = structlog.get_logger()

_DISK_FULL = Outcome(
    "failed",
    error="A disk of the service or of Postgres is full. Make space, then start the run again.",
    code=RunError.DISK_FULL,
)

MODEL_WAIT_SECONDS = 60
"""Pause between attempts of a background run while the model's service is down."""
_MODEL_PATIENCE_SECONDS = 24 * 3600
_RETRY_CODES: dict[RunError | None, RetryCode] = {
    RunError.MODEL_BUSY: "busy",
    RunError.MODEL_UNREACHABLE: "no_response",
}


class _ResumeFailed(Exception):
    """The CLI did not continue its stored conversation at the call that was decided."""


@dataclass(frozen=True, slots=True)
class _ClaimedRun:
    """A claimed run, with the objects that report on it and that watch whether this worker still owns it."""

    context: RunContext
    telemetry: RunTelemetry
    deltas: DeltaBuffer
    monitor: RunMonitor

    @property
    def run(self) -> RunRow:
        return self.context.run

    @property
    def agent(self) -> AgentSpec:
        return AGENTS[self.run.agent]

    @property
    def task(self) -> Task[Any, Any]:
        return self.agent.tasks[self.run.task]


@dataclass(frozen=True, slots=True)
class Runner:
    """Executes runs. A worker has one instance.

    `model` is the default, and `second_model` that of agents that use it, each with its service's address. `max_turns`
    and `seconds` are upper limits of what a run or its task asks for. `approval_wait_seconds` is how long the CLI is
    kept while a person decides, if no other run needs its slot. If `uses_fallbacks` is false, a run without an answer
    fails instead of using its task's fallback."""

    database: Database
    pool: CliPool
    model: str
    max_turns: int
    seconds: int
    second_model: str | None = None
    model_url: str | None = None
    second_model_url: str | None = None
    prices: Prices = field(default_factory=Prices)
    approval_wait_seconds: float = 0
    tool_seconds: float = TOOL_SECONDS
    embedder: Embedder | None = None
    uses_fallbacks: bool = True
    first_part_bytes: int = FIRST_PART_BYTES
    metrics: Metrics = field(default_factory=Metrics)
    _monitors: set[RunMonitor] = field(default_factory=set[RunMonitor], init=False)

    def stop_waiting(self) -> None:
        """Release the CLIs that are kept while a person decides. Called when the worker stops."""
        for monitor in self._monitors:
            monitor.stop_waiting()

    async def execute(self, run_id: UUID) -> None:
        """Claim a run and execute it until it ends or waits. Do nothing if the run has ended or was deleted. Raise
        ModelServiceDown if it is to be executed again, without counting a failure."""
        scope = await self.database.once(lambda conn: runs.scope_of(conn, run_id))
        if scope is None:
            return
        with structlog.contextvars.bound_contextvars(run_id=str(run_id), org_id=str(scope.org_id)):
            if (run := await claim(self.database, scope, run_id, self.prices, self._model_of)) is None:
                return
            with run_telemetry(self.metrics, run, self._model_of(run)) as telemetry:
                try:
                    outcome = await self._run_while_owned(scope, run, telemetry)
                    if run.background and outcome.is_service_down and await self._postpone(scope, run, outcome):
                        telemetry.run_ended("released")
                        raise ModelServiceDown("The model's service is down. The run waits.")
                    telemetry.run_ended(*await self._record(scope, run, outcome))
                except Fenced:
                    status = await status_or_abandon(self.database, scope, run_id)
                    if status is RunStatus.CANCELLED:
                        async with self.database.as_user(scope) as conn:
                            await self._record_failure(conn, scope, run, RunError.CANCELLED)
                    telemetry.run_ended("cancelled" if status is RunStatus.CANCELLED else "taken_away")
                except asyncio.CancelledError:
                    # The worker stops. Not raised again: the run is released, so its job is done.
                    await release(self.database, scope, run)
                    telemetry.run_ended("released")

    async def _run_while_owned(self, scope: Scope, run: RunRow, telemetry: RunTelemetry) -> Outcome:
        """Execute the run while this worker owns it. Raise Fenced once it doesn't."""
        try:
            context = replace(
                run_context(self.database, scope, run),
                tool_seconds=self.tool_seconds,
                first_part_bytes=self.first_part_bytes,
                embedder=self.embedder,
                model=self._model_of(run),
                second_model=self.second_model,
                model_url=self.model_url,
                second_model_url=self.second_model_url,
            )
        except Invalid as fault:
            return Outcome("failed", error=str(fault), code=RunError.INVALID_INPUT)
        deltas = DeltaBuffer(run.fencing_token, is_published=not run.background)
        if run.fencing_token > 1:
            deltas.withdraw_all()
        monitor = RunMonitor(context, self.approval_wait_seconds, self.pool)
        self._monitors.add(monitor)
        try:
            return await monitor.run_while_owned(
                lambda: self._run_task(_ClaimedRun(context, telemetry, deltas, monitor))
            )
        finally:
            self._monitors.discard(monitor)

    def _model_of(self, run: RunRow) -> str:
        uses_second = run.agent in AGENTS and AGENTS[run.agent].uses_second_model
        return run.model or (self.second_model if uses_second else None) or self.model

    async def _run_task(self, claimed: _ClaimedRun) -> Outcome:
        """Run the agent, then make the task's last call, if it has one. It may start runs to wait for. If it fails, the
        agent's outcome counts."""
        outcome = await self._run_with_fallback(claimed)
        make_call = claimed.task.last_call
        if outcome.status != RunStatus.COMPLETED or make_call is None:
            return outcome
        call = await make_call(claimed.context, claimed.task.parse(claimed.run), outcome.answer or "")
        if call is None:
            return outcome
        if outcome.ended_by_tool and outcome.answer:  # what it says is shown while the call waits
            async with self.database.as_user(claimed.context.scope) as conn:
                await runs.append_event(conn, claimed.run.id, TextEvent(text=outcome.answer))
            outcome = replace(outcome, ended_by_tool=False)
        tool, arguments = call
        called = await service_calls(claimed.context)(tool, arguments)
        if called.code == RunStatus.AWAITING_RUNS:
            return Outcome(RunStatus.AWAITING_RUNS)
        answer = claimed.agent.create_tools(claimed.context).answer(tool, arguments, called.data)
        return outcome if called.is_error or answer is None else completed_by_tool(answer)

    async def _run_with_fallback(self, claimed: _ClaimedRun) -> Outcome:
        """Run the agent. If it has neither an answer nor a reply, ask the task's last question, then use its
        fallback."""
        task = claimed.task
        if task.fallback is not None and task.without_agent is not None and task.without_agent(task.parse(claimed.run)):
            return completed_by_tool(await task.fallback(claimed.context, task.parse(claimed.run), "search_only"))
        outcome = await self._run_agent(claimed)
        if task.fallback is None or not outcome.needs_fallback:
            return outcome
        if task.reply is not None and outcome.code is None and not outcome.ended_by_tool and outcome.answer:
            reply = await task.reply(claimed.context, task.parse(claimed.run), outcome.answer)
            if reply is not None:
                return replace(outcome, result=reply)
        if not self.uses_fallbacks:
            return outcome if outcome.status == "failed" else NO_ANSWER
        fallback_code = outcome.fallback_code or outcome.code or RunError.AGENT_STOPPED
        if task.last_question is not None and outcome.can_ask_again:
            last_question = await self._ask_last_question(
                claimed, task.last_question, replace(claimed.context, fallback_code=fallback_code)
            )
            if last_question is not None and last_question.ended_with_answer_call:
                claimed.telemetry.used_fallback(fallback_code, "model")
                return last_question
        claimed.telemetry.used_fallback(fallback_code, "passages")
        return completed_by_tool(await task.fallback(claimed.context, task.parse(claimed.run), fallback_code))

    async def _run_agent(self, claimed: _ClaimedRun) -> Outcome:
        if (outcome := await _finish_decided_call(claimed) or await earlier_outcome(claimed.context)) is not None:
            return outcome
        if claimed.run.waiting_call is not None and (limit := await self._reached_limit(claimed)) is not None:
            return limit
        if self._turns_left(claimed.run) < 1:
            return NO_TURNS_LEFT
        seconds, left = await self._time_left(claimed)
        sessions = ConversationStore(
            self.database, claimed.context.scope, run=(claimed.run.id, claimed.run.fencing_token)
        )
        try:
            async with claimed.monitor.deadline(left):
                start = await start_or_resume(claimed.context, sessions)
                try:
                    return await self._converse(claimed, start, sessions)
                except _ResumeFailed:
                    log.warning("the CLI did not continue its stored conversation; starting a new one")
                    return await self._converse(claimed, await start_over(claimed.context), sessions)
        except TimeoutError:
            return Outcome("failed", error=f"The run took longer than {seconds} seconds.", code=RunError.DEADLINE)

    async def _reached_limit(self, claimed: _ClaimedRun) -> Outcome | None:
        """Return the outcome of a run whose child runs spent its budget or credit, or None."""
        async with self.database.as_user(claimed.context.scope) as conn:
            room = await usage.check_capacity(conn, claimed.run.id, priced=True)
        if room is None or room not in LIMIT_MESSAGES:
            return None
        return Outcome("failed", error=LIMIT_MESSAGES[room], code=RunError(room))

    async def _ask_last_question(
        self, claimed: _ClaimedRun, question: LastQuestion[Any], context: RunContext
    ) -> Outcome | None:
        """Ask the task's last question in a new conversation. Return None if there is nothing to ask, or the turns or
        the time are used up."""
        try:
            async with claimed.monitor.deadline(question.seconds):
                async with self.database.as_user(context.scope) as conn:
                    run = await runs.find(conn, context.run_id)
                if run is None or self._turns_left(run) < 1:
                    return None
                context = replace(context, run=replace(run, fencing_token=context.fencing_token))
                prompt = await question.prepare(context, claimed.task.parse(run), service_calls(context))
                if prompt is None:
                    return None
                # Not stored: after an interruption, the next attempt continues the agent's own conversation.
                attempt = (run.id, context.fencing_token)
                sessions = ConversationStore(self.database, context.scope, run=attempt, is_stored=False)
                return await self._converse(
                    replace(claimed, context=context),
                    ConversationStart(uuid4(), prompt),
                    sessions,
                    last_question=question,
                )
        except (TimeoutError, Unavailable) as error:
            log.warning("the last question was not answered", error=type(error).__name__)
            return None

    async def _time_left(self, claimed: _ClaimedRun) -> tuple[int, float]:
        """Return the time limit in seconds, and how much of it is left without the time reserved for the last question.
        The limit of the root run's task covers all its child runs, unless calls wait for a person's approval; a child
        run's own task may have a lower one."""
        root = claimed.run
        if root.parent_run_id is not None:
            async with self.database.as_user(claimed.context.scope) as conn:
                root = await runs.find(conn, root.root_run_id) or root
        task = AGENTS[root.agent].tasks[root.task]
        seconds = min(self.seconds, task.seconds or self.seconds)
        left = float(seconds)
        if task.seconds is not None and root.approval is not Approval.ASK:
            async with self.database.as_user(claimed.context.scope) as conn:
                left -= await runs.seconds_since_start(conn, root.id)
        if claimed.run is not root and claimed.task.seconds is not None:
            async with self.database.as_user(claimed.context.scope) as conn:
                own = claimed.task.seconds - await runs.seconds_since_start(conn, claimed.run.id)
            seconds, left = (claimed.task.seconds, own) if own < left else (seconds, left)
        last_question = claimed.task.last_question
        return seconds, (
            left - last_question.seconds if last_question is not None and left > 2 * last_question.seconds else left
        )

    def _turn_limit(self, run: RunRow) -> int:
        return min(AGENTS[run.agent].tasks[run.task].max_turns or self.max_turns, self.max_turns)

    def _turns_left(self, run: RunRow) -> int:
        limit = self._turn_limit(run)
        return min(run.max_turns or limit, limit) - run.turns

    async def _converse(
        self,
        claimed: _ClaimedRun,
        start: ConversationStart,
        sessions: ConversationStore,
        last_question: LastQuestion[Any] | None = None,
    ) -> Outcome:
        """Hold a conversation and return its outcome. With `last_question`, the model has one message and may only call
        that question's tool. Raise _ResumeFailed, Fenced, or Unavailable if the queue should retry the run."""
        try:
            return await self._stream_conversation(claimed, start, sessions, last_question)
        except RunEnded as ended:
            return ended.outcome
        except SandboxViolation as error:
            return Outcome("failed", error=str(error), code=RunError.UNSEALED)
        except SessionWriteFailed as error:
            return (
                _DISK_FULL
                if is_disk_full(error)
                else Outcome(
                    "failed",
                    error="The agent's conversation could not be stored. Start the run again.",
                    code=RunError.SESSION,
                )
            )
        except CliFailed as error:
            return Outcome("failed", error=str(error), code=error.code)
        except (FieldmarkError, _ResumeFailed):
            raise  # another worker owns the run, or the database is unavailable: the queue retries
        except Exception as error:
            # Not retried: a hostile answer of the model may have caused the error.
            log.exception("the run failed")
            return (
                _DISK_FULL
                if is_disk_full(error)
                else Outcome(
                    "failed", error="Internal error in Fieldmark. The log has the details.", code=RunError.INTERNAL
                )
            )

    async def _stream_conversation(
        self,
        claimed: _ClaimedRun,
        start: ConversationStart,
        sessions: ConversationStore,
        last_question: LastQuestion[Any] | None,
    ) -> Outcome:
        context, run, agent, telemetry = claimed.context, claimed.run, claimed.agent, claimed.telemetry
        model, policy = self._model_of(run), ApprovalPolicy(run.approval, frozenset(run.auto_approved_tools))
        tools, turns = agent.create_tools(context), self._turns_left(run)
        reserved = 1 if claimed.task.last_question is not None and turns > 1 else 0
        calls, decided_call = MessageCalls(), start.decided_call
        meter = Meter(
            context, agent.name, self.prices, model, 1 if last_question else turns - reserved, charged_call=decided_call
        )
        async with EventWriter(context, claimed.deltas) as events, meter:

            async def before_call(call_id: str) -> None:
                await meter.wait_until_charged(call_id)
                await events.flush()

            hook = PermissionHook(
                tools,
                context,
                policy,
                run.waiting_call,
                telemetry.tool_called,
                calls=calls,
                wait_for_decision=claimed.monitor.wait_for_decision,
                before_call=before_call,
                rounds=None if last_question else claimed.task.rounds,
                only_tools=frozenset({last_question.tool}) if last_question else None,
            )
            # The end of the call that the run waited for was already reported.
            hook.decided.update([] if run.waiting_call is None else [run.waiting_call])
            executor = ToolExecutor(hook)
            mapper = EventMapper(tools, events.append, outcome_of=hook.outcomes.get, reported_call_ids=hook.decided)
            outcome_observer = OutcomeObserver(lambda: hook.answer)
            # The order matters: a refused key ends the run before "the service is busy" is reported. A message is
            # reported even if the budget is used up, but `calls` completes it only once it is charged and stored, so
            # the hook never defers a call of a run that can't continue. A block's event precedes the next block's text.
            observers: list[Observer] = [
                outcome_observer,
                mapper,
                meter,
                sessions,
                calls,
                telemetry,
                claimed.deltas,
                CallPreviews(tools, claimed.deltas),
                RefusalLimit(claimed.task.max_refusals),
            ]
            try:
                with cli_errors():
                    async with self.pool.acquire(
                        agent,
                        context.scope,
                        RunHandlers(hook, executor, sessions),
                        model=model,
                        max_turns=turns - reserved,
                        session_id=start.session_id,
                        resumed=start.is_resumed,
                        one_at_a_time=policy.asks,
                    ) as lease:
                        sessions.call_in_next_transaction(partial(_record_conversation, run, lease.session_id))
                        async for part in model_stream(lease.converse(start.prompt)):
                            # The CLI asks the model instead of repeating the call. Nothing was reported yet.
                            if (
                                isinstance(part, MessageStarted)
                                and decided_call is not None
                                and decided_call not in hook.seen
                            ):
                                raise _ResumeFailed
                            await notify(observers, part)
                if RunStatus(outcome_observer.outcome.status).is_final:
                    sessions.discard()
                else:
                    await sessions.flush()
                    sessions.check()
            except CliFailed:
                if decided_call is not None and decided_call not in hook.seen:
                    raise _ResumeFailed from None
                raise
            finally:
                await executor.close()
                await sessions.flush()
        outcome = outcome_observer.outcome
        if decided_call is not None and decided_call not in hook.seen and outcome.status == "failed":
            raise _ResumeFailed
        return outcome

    # Record

    async def _postpone(self, scope: Scope, run: RunRow, outcome: Outcome) -> bool:
        """Record that a run waits for the model's service. Return False if it does not, or has waited for a day."""
        async with self.database.as_user(scope) as conn:
            await runs.fence(conn, run.id, run.fencing_token)
            if (
                await runs.status_if_held(conn, run.id, run.fencing_token) is not RunStatus.RUNNING
                or await runs.seconds_since_start(conn, run.id) > _MODEL_PATIENCE_SECONDS
            ):
                return False
            await runs.postpone(conn, run.id)
            code = _RETRY_CODES.get(outcome.code, "no_response")
            await runs.append_event(conn, run.id, retry_event(code, MODEL_WAIT_SECONDS))
        return True

    async def _record(self, scope: Scope, run: RunRow, outcome: Outcome) -> tuple[str, str | None, Decimal | None]:
        """Record the outcome. Return the status, the error code, and the cost if the run has ended."""
        async with self.database.as_user(scope) as conn:
            now = await runs.status_if_held(conn, run.id, run.fencing_token)
            if now is RunStatus.AWAITING_APPROVAL and outcome.code not in (None, RunError.UNSEALED):
                # The person can still decide; another process continues the run then.
                log.warning("the agent's process ended while a person decides", code=outcome.code)
                outcome = Outcome(RunStatus.AWAITING_APPROVAL)
            if outcome.status in (RunStatus.AWAITING_APPROVAL, RunStatus.AWAITING_RUNS):
                # Why it waits was already reported, and a person may have decided since.
                await runs.detach(conn, run.id, run.fencing_token)
                return outcome.status, None, None
            # The status and the event that reports it are one transaction: a reader sees both or none.
            await runs.fence(conn, run.id, run.fencing_token)
            await runs.finish(
                conn,
                run.id,
                RunStatus(outcome.status),
                answer=outcome.answer,
                result=outcome.result,
                error=outcome.error,
                error_code=outcome.code,
            )
            if outcome.status == RunStatus.FAILED and outcome.code is not None:
                await self._record_failure(conn, scope, run, outcome.code)
            ended = await runs.find(conn, run.id)
            assert ended is not None
            if outcome.ended_by_tool and outcome.answer:
                await runs.append_event(conn, run.id, TextEvent(text=outcome.answer))
            await runs.append_event(conn, run.id, _final_event(ended, outcome))
        return outcome.status, outcome.code, ended.cost_usd

    async def _record_failure(self, conn: Connection, scope: Scope, run: RunRow, code: RunError) -> None:
        """Have the task record that the run failed or was cancelled. The run ends even if that is refused."""
        try:
            context = run_context(self.database, scope, run)
            task = AGENTS[run.agent].tasks[run.task]
            if task.on_failure is not None:
                async with savepoint(conn):
                    await task.on_failure(conn, context, code.value)
        except FieldmarkError as error:
            log.warning("the run's failure could not be recorded in its thread", reason=str(error))


async def _finish_decided_call(claimed: _ClaimedRun) -> Outcome | None:
    """Finish the call that the run waited for: run it if a person approved it, or collect the results of its child
    runs. Return an outcome if the run still waits."""
    context, run = claimed.context, claimed.run
    if run.waiting_call is None:
        return None
    async with context.database.as_user(context.scope) as conn:
        row = await tool_calls.find(conn, run.id, run.waiting_call)
    if row is None or row.status not in (CallStatus.APPROVED, CallStatus.WAITING):
        return None
    call, tools = ToolCall(row.tool, row.id, row.arguments), claimed.agent.create_tools(context)
    then = end_reporter(run.id, tool_event(tools, row.tool, row.id, row.arguments))
    if row.status is CallStatus.WAITING:
        outcome = await collect(context, tools, row, then)
    elif row.decided_by is not None:
        outcome = await execute(tools, context, call, started_by=StartedBy.POLICY, then=then)
    else:
        return None  # approved by policy: the CLI repeats the call, or the model does
    return Outcome(RunStatus.AWAITING_RUNS) if outcome is None or outcome.code == RunStatus.AWAITING_RUNS else None


async def _record_conversation(run: RunRow, session_id: UUID, conn: Connection) -> None:
    """Store the id of the run's conversation, if the pool's CLI already had a conversation with another id."""
    if session_id != run.session_id:
        await runs.record_conversation(conn, run.id, session_id)


def _final_event(ended: RunRow, outcome: Outcome) -> EventBase:
    if outcome.status != RunStatus.COMPLETED:
        assert outcome.error is not None and outcome.code is not None
        return ErrorEvent(error=outcome.error, code=outcome.code, run_id=ended.id, text=outcome.error)
    cost = None if ended.cost_usd is None else float(ended.cost_usd)
    used = TokensUsed.model_validate(ended.usage)
    return CompleteEvent(extraction_id=ended.extraction_id, cost=cost, usage=used)
