"""The life of a run, from top to bottom: claim it, finish a decided call, tell the agent its first message, converse,
record how it ended."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import structlog

from fieldmark.agents.registry import AGENTS
from fieldmark.agents.spec import AgentSpec, LastQuestion, Task
from fieldmark.db.pool import Connection, Database
from fieldmark.domain.events import CompleteEvent, ErrorEvent, EventBase, TextEvent, TokensUsed
from fieldmark.domain.statuses import Approval, CallStatus, RunError, RunStatus
from fieldmark.embedding import Embedder
from fieldmark.errors import Fenced, FieldmarkError, Invalid, Unavailable
from fieldmark.identity.scope import Scope
from fieldmark.runs.beginning import Beginning, begin, ended_earlier, restart
from fieldmark.runs.billing.meter import Meter
from fieldmark.runs.billing.prices import Prices
from fieldmark.runs.claim import claim, release, status_or_abandon
from fieldmark.runs.engine.binding import RunHandlers
from fieldmark.runs.engine.cli_attestation import SandboxViolation
from fieldmark.runs.engine.cli_errors import CliFailed, cli_errors
from fieldmark.runs.engine.message_calls import MessageCalls
from fieldmark.runs.engine.model_stream import model_stream
from fieldmark.runs.engine.permission_hook import PermissionHook, Policy
from fieldmark.runs.engine.pool import CliPool
from fieldmark.runs.engine.run_telemetry import RunTelemetry, run_telemetry
from fieldmark.runs.engine.session_store import Sessions, SessionWriteFailed
from fieldmark.runs.engine.tool_executor import ToolExecutor
from fieldmark.runs.events.deltas import DeltaBuffer
from fieldmark.runs.events.mapper import EventMapper, end_reporter, tool_event
from fieldmark.runs.events.previews import CallPreviews
from fieldmark.runs.events.writer import EventWriter
from fieldmark.runs.lifecycle.context import run_context, service_calls
from fieldmark.runs.monitor import RunMonitor
from fieldmark.runs.outcome import NO_ANSWER, NO_TURNS_LEFT, Outcome, OutcomeObserver, RunEnded, ended_by_call
from fieldmark.runs.parts import MessageStarted, Observer, notify
from fieldmark.stores import runs, tool_calls
from fieldmark.stores.runs import RunRow
from fieldmark.telemetry.metrics import Metrics
from fieldmark.tools.context import FIRST_PART_BYTES, TOOL_SECONDS, RunContext
from fieldmark.tools.ledger import By, ToolCall, collect, execute

log = structlog.get_logger()


class _NotResumed(Exception):
    """The CLI did not go on where its conversation stopped."""


@dataclass(frozen=True, slots=True)
class _Work:
    """A claimed run with what reports on it. `monitor` knows whether the run is still this worker's."""

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
    """Executes runs. One instance serves a whole worker.

    `model`, `max_turns` and `seconds` hold where neither the run nor its task asks for less. `approval_wait_seconds` is
    how long a CLI stays for a person's decision while no other run needs its slot. Without `falls_back` a run whose
    agent gives no answer fails."""

    database: Database
    pool: CliPool
    model: str
    max_turns: int
    seconds: int
    prices: Prices = field(default_factory=Prices)
    approval_wait_seconds: float = 0
    tool_seconds: float = TOOL_SECONDS
    embedder: Embedder | None = None
    falls_back: bool = True
    first_part_bytes: int = FIRST_PART_BYTES
    metrics: Metrics = field(default_factory=Metrics)
    _monitors: set[RunMonitor] = field(default_factory=set[RunMonitor], init=False)

    def stop_waiting(self) -> None:
        """Let go of the CLIs that stay for a person's decision: the worker stops."""
        for monitor in self._monitors:
            monitor.stop_waiting()

    async def execute(self, run_id: UUID) -> None:
        """Claim a run and lead it to its end, or to where it waits. Does nothing for a run that has ended or is
        gone."""
        async with self.database.as_service() as conn:
            scope = await runs.scope_of(conn, run_id)
        if scope is None:
            return
        with structlog.contextvars.bound_contextvars(run_id=str(run_id), org_id=str(scope.org_id)):
            if (run := await claim(self.database, scope, run_id, self.prices, self.model)) is None:
                return
            with run_telemetry(self.metrics, run, run.model or self.model) as telemetry:
                try:
                    outcome = await self._lead(scope, run, telemetry)
                    telemetry.ended(*await self._record(scope, run, outcome))
                except Fenced:
                    status = await status_or_abandon(self.database, scope, run_id)
                    telemetry.ended("cancelled" if status is RunStatus.CANCELLED else "taken_away")
                except asyncio.CancelledError:
                    # The worker stops. The cancellation is spent on releasing the run, and the queue's job is done.
                    await release(self.database, scope, run)
                    telemetry.ended("released")

    # Lead

    async def _lead(self, scope: Scope, run: RunRow, telemetry: RunTelemetry) -> Outcome:
        """Lead the run while it is this worker's. Raises Fenced when it no longer is."""
        try:
            context = replace(
                run_context(self.database, scope, run),
                tool_seconds=self.tool_seconds,
                first_part_bytes=self.first_part_bytes,
                embedder=self.embedder,
            )
        except Invalid as fault:
            return Outcome("failed", error=str(fault), code=RunError.INVALID_INPUT)
        deltas = DeltaBuffer(run.fencing_token, is_told=not run.background)
        if run.fencing_token > 1:
            deltas.withdraw_all()
        monitor = RunMonitor(context, self.approval_wait_seconds, self.pool)
        self._monitors.add(monitor)
        try:
            return await monitor.run_while_owned(lambda: self._answer(_Work(context, telemetry, deltas, monitor)))
        finally:
            self._monitors.discard(monitor)

    async def _answer(self, work: _Work) -> Outcome:
        """What the run comes to. Where its agent gives no answer: the last question, then the task's fallback."""
        task = work.task
        if task.fallback is not None and task.without_agent is not None and task.without_agent(task.parse(work.run)):
            return ended_by_call(await task.fallback(work.context, task.parse(work.run), "search_only"))
        outcome = await self._ask_agent(work)
        if task.fallback is None or not outcome.may_fall_back:
            return outcome
        if not self.falls_back:
            return outcome if outcome.status == "failed" else NO_ANSWER
        why = outcome.gave_up or outcome.code or RunError.AGENT_STOPPED
        if task.last_question is not None and outcome.model_can_be_asked:
            last = await self._ask_last_question(work, task.last_question, replace(work.context, falls_back=why))
            if last is not None and last.is_answer:
                work.telemetry.fell_back(why, "model")
                return last
        work.telemetry.fell_back(why, "passages")
        return ended_by_call(await task.fallback(work.context, task.parse(work.run), why))

    async def _ask_agent(self, work: _Work) -> Outcome:
        if self._turns_left(work.run) < 1:
            return NO_TURNS_LEFT
        if (outcome := await _finish_decided_call(work) or await ended_earlier(work.context)) is not None:
            return outcome
        seconds, left = await self._time_left(work)
        sessions = Sessions(self.database, work.context.scope, run=(work.run.id, work.run.fencing_token))
        try:
            async with work.monitor.deadline(left):
                beginning = await begin(work.context, sessions)
                try:
                    return await self._converse(work, beginning, sessions)
                except _NotResumed:
                    log.warning("the CLI did not go on where its conversation stopped; a new one begins")
                    return await self._converse(work, await restart(work.context), sessions)
        except TimeoutError:
            return Outcome("failed", error=f"The run took longer than {seconds} seconds.", code=RunError.DEADLINE)

    async def _ask_last_question(self, work: _Work, question: LastQuestion[Any], context: RunContext) -> Outcome | None:
        """Ask the model once more. None where there is nothing to ask, or no time."""
        try:
            async with work.monitor.deadline(question.seconds):
                async with self.database.as_user(context.scope) as conn:
                    run = await runs.get(conn, context.run_id)
                if run is None or self._turns_left(run) < 1:
                    return None
                context = replace(context, run=replace(run, fencing_token=context.fencing_token))
                prompt = await question.prepare(context, work.task.parse(run), service_calls(context))
                if prompt is None:
                    return None
                # Not kept: whoever takes the run up asks the agent again, in the agent's own conversation.
                whose = (run.id, context.fencing_token)
                sessions = Sessions(self.database, context.scope, run=whose, is_kept=False)
                return await self._converse(
                    replace(work, context=context), Beginning(uuid4(), prompt), sessions, last=question
                )
        except (TimeoutError, Unavailable) as error:
            log.warning("the last question came to nothing", error=type(error).__name__)
            return None

    async def _time_left(self, work: _Work) -> tuple[int, float]:
        """How long the run may take, and how much of that is left before its last question. The seconds of the task at
        the root are those of the whole tree, unless its calls wait for people."""
        root = work.run
        if root.parent_run_id is not None:
            async with self.database.as_user(work.context.scope) as conn:
                root = await runs.get(conn, root.root_run_id) or root
        task = AGENTS[root.agent].tasks[root.task]
        seconds = min(self.seconds, task.seconds or self.seconds)
        left = float(seconds)
        if task.seconds is not None and root.approval is not Approval.ASK:
            async with self.database.as_user(work.context.scope) as conn:
                left -= await runs.seconds_since_start(conn, root.id)
        last = work.task.last_question
        return seconds, (left - last.seconds if last is not None and left > 2 * last.seconds else left)

    def _most_turns(self, run: RunRow) -> int:
        return min(AGENTS[run.agent].tasks[run.task].max_turns or self.max_turns, self.max_turns)

    def _turns_left(self, run: RunRow) -> int:
        most = self._most_turns(run)
        return min(run.max_turns or most, most) - run.turns

    # Converse

    async def _converse(
        self, work: _Work, beginning: Beginning, sessions: Sessions, last: LastQuestion[Any] | None = None
    ) -> Outcome:
        """Lead a conversation to its end; with `last`, one message that may only call that question's tool. Raises
        _NotResumed, Fenced, and Unavailable for the queue to try again."""
        try:
            return await self._stream(work, beginning, sessions, last)
        except RunEnded as ended:
            return ended.outcome
        except SandboxViolation as error:
            return Outcome("failed", error=str(error), code=RunError.UNSEALED)
        except SessionWriteFailed:
            return Outcome("failed", error="The agent's conversation could not be kept.", code=RunError.SESSION)
        except CliFailed as error:
            return Outcome("failed", error=str(error), code=RunError.AGENT_PROCESS)
        except (FieldmarkError, _NotResumed):
            raise  # lost to another worker, or a database that does not answer: the queue tries again
        except Exception:
            # Whatever a hostile answer of the model has caused, the run ends, and is not tried again.
            log.exception("the run failed")
            return Outcome("failed", error="The run failed inside Fieldmark; its log says why.", code=RunError.INTERNAL)

    async def _stream(
        self, work: _Work, beginning: Beginning, sessions: Sessions, last: LastQuestion[Any] | None
    ) -> Outcome:
        context, run, agent, telemetry = work.context, work.run, work.agent, work.telemetry
        model, policy = run.model or self.model, Policy(run.approval, frozenset(run.auto_approved_tools))
        tools, turns = agent.create_tools(context), self._turns_left(run)
        kept = 1 if work.task.last_question is not None and turns > 1 else 0
        calls, decided = MessageCalls(), beginning.decided_call
        meter = Meter(context, agent.name, self.prices, model, 1 if last else turns - kept, paid=decided)
        async with EventWriter(context, work.deltas) as events, meter:

            async def before(call_id: str) -> None:
                await meter.charged(call_id)
                await events.flush()

            hook = PermissionHook(
                tools,
                context,
                policy,
                run.waiting_call,
                telemetry.called,
                calls=calls,
                wait_for_decision=work.monitor.wait_for_decision,
                before=before,
                rounds=None if last else work.task.rounds,
                only=frozenset({last.tool}) if last else None,
            )
            # Whoever watches knows already how the call ended that the run waited for.
            hook.decided.update([] if run.waiting_call is None else [run.waiting_call])
            executor = ToolExecutor(hook)
            mapper = EventMapper(tools, events.say, outcome_of=hook.outcomes.get, ended=hook.decided)
            ending = OutcomeObserver(lambda: hook.answer)
            # In this order: a refused key ends the run before "the service is busy" is reported. A message is reported
            # whether or not it can be paid for, but the hook hears that it is whole only once it is charged and stored,
            # so it never defers a call of a run that cannot go on. A block's event precedes the next block's words.
            observers: list[Observer] = [
                ending,
                mapper,
                meter,
                sessions,
                calls,
                telemetry,
                work.deltas,
                CallPreviews(tools, work.deltas),
            ]
            try:
                with cli_errors():
                    async with self.pool.acquire(
                        agent,
                        context.scope,
                        RunHandlers(hook, executor, sessions),
                        model=model,
                        max_turns=turns - kept,
                        session_id=beginning.session_id,
                        resumed=beginning.is_resumed,
                        one_at_a_time=policy.asks,
                    ) as lease:
                        sessions.record_with_next(partial(_record_conversation, run, lease.session_id))
                        async for part in model_stream(lease.converse(beginning.prompt)):
                            # Before anything of it is reported: it asks the model instead of repeating the call.
                            if isinstance(part, MessageStarted) and decided is not None and decided not in hook.seen:
                                raise _NotResumed
                            await notify(observers, part)
                if RunStatus(ending.outcome.status).is_final:
                    sessions.discard()
                else:
                    await sessions.flush()
                    sessions.check()
            except CliFailed:
                if decided is not None and decided not in hook.seen:
                    raise _NotResumed from None
                raise
            finally:
                await executor.close()
                await sessions.flush()
        outcome = ending.outcome
        if decided is not None and decided not in hook.seen and outcome.status == "failed":
            raise _NotResumed
        return outcome

    # Record

    async def _record(self, scope: Scope, run: RunRow, outcome: Outcome) -> tuple[str, str | None]:
        """Record how the run ended, or that it waits. Return the status and the error code."""
        async with self.database.as_user(scope) as conn:
            now = await runs.look(conn, run.id, run.fencing_token)
            if now is RunStatus.AWAITING_APPROVAL and outcome.code not in (None, RunError.UNSEALED):
                # Whatever ended the process that asked, the person can still decide, and a new process goes on.
                log.warning("the agent's process ended while a person decides", code=outcome.code)
                outcome = Outcome(RunStatus.AWAITING_APPROVAL)
            if outcome.status in (RunStatus.AWAITING_APPROVAL, RunStatus.AWAITING_RUNS):
                # What it waits for was reported when it began to wait; it may have been decided since.
                await runs.detach(conn, run.id, run.fencing_token)
                return outcome.status, None
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
            ended = await runs.get(conn, run.id)
            assert ended is not None
            if outcome.by_call and outcome.answer:
                await runs.append_event(conn, run.id, TextEvent(text=outcome.answer))
            await runs.append_event(conn, run.id, _last_event(ended, outcome))
        return outcome.status, outcome.code


async def _finish_decided_call(work: _Work) -> Outcome | None:
    """Finish the call that the run waited for: run it if a person approved it, or collect what its child runs came to.
    An outcome where the run still waits."""
    context, run = work.context, work.run
    if run.waiting_call is None:
        return None
    async with context.database.as_user(context.scope) as conn:
        row = await tool_calls.get(conn, run.id, run.waiting_call)
    if row is None or row.status not in (CallStatus.APPROVED, CallStatus.WAITING):
        return None
    call, tools = ToolCall(row.tool, row.id, row.arguments), work.agent.create_tools(context)
    then = end_reporter(run.id, tool_event(tools, row.tool, row.id, row.arguments))
    if row.status is CallStatus.WAITING:
        outcome = await collect(context, tools, row, then)
    elif row.decided_by is not None:
        outcome = await execute(tools, context, call, by=By.POLICY, then=then)
    else:
        return None  # approved by policy: its CLI repeats it, or the model asks again
    return Outcome(RunStatus.AWAITING_RUNS) if outcome is None or outcome.code == "awaiting_runs" else None


async def _record_conversation(run: RunRow, session_id: UUID, conn: Connection) -> None:
    """Store which conversation the run goes on with: a CLI may be in one that it began before."""
    if session_id != run.session_id:
        await runs.record_conversation(conn, run.id, session_id)


def _last_event(ended: RunRow, outcome: Outcome) -> EventBase:
    if outcome.status != RunStatus.COMPLETED:
        assert outcome.error is not None and outcome.code is not None
        return ErrorEvent(error=outcome.error, code=outcome.code, run_id=ended.id)
    cost = None if ended.cost_usd is None else float(ended.cost_usd)
    used = TokensUsed.model_validate(ended.usage)
    return CompleteEvent(extraction_id=ended.extraction_id, cost=cost, usage=used)
