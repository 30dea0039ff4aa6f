"""One run, from claimed to ended: admission, the watch for a cancellation or a decision, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID, uuid4

import structlog
from pydantic import JsonValue

from fieldmark.agents.registry import AGENTS
from fieldmark.agents.spec import LastQuestion, Prompt, Task, decided_text
from fieldmark.db.pool import Connection, Database
from fieldmark.domain.events import CompleteEvent, ErrorEvent, EventBase, RunStartedEvent, TextEvent, TokensUsed
from fieldmark.domain.statuses import Approval, CallStatus, RunError, RunStatus
from fieldmark.embedding import Embedder
from fieldmark.errors import Fenced, FieldmarkError, Invalid, Unavailable
from fieldmark.identity.scope import Scope
from fieldmark.runs.billing.meter import REFUSALS
from fieldmark.runs.billing.prices import Prices
from fieldmark.runs.engine.attempt import Attempt, attempt
from fieldmark.runs.engine.options import ModelService
from fieldmark.runs.engine.permission_hook import Policy
from fieldmark.runs.engine.pool import CliPool
from fieldmark.runs.engine.run_telemetry import RunTelemetry, run_telemetry
from fieldmark.runs.engine.session_store import Sessions
from fieldmark.runs.engine.starts import AfterCrash, AfterDecision, Fresh, NextMessage, NotResumed, RunStart
from fieldmark.runs.events.deltas import DeltaBuffer
from fieldmark.runs.events.mapper import ended_event
from fieldmark.runs.lifecycle.context import run_context
from fieldmark.runs.outcome import NO_TURNS_LEFT, Outcome, ended_by_call
from fieldmark.stores import runs, threads, tool_calls, usage
from fieldmark.stores.channels import WORK_CHANNEL
from fieldmark.stores.runs import RunRow
from fieldmark.telemetry.metrics import Metrics
from fieldmark.tools.context import FIRST_PART_BYTES, TOOL_SECONDS, RunContext
from fieldmark.tools.ledger import By, ToolCall, ToolOutcome, collect, execute

log = structlog.get_logger()

MAX_CONSECUTIVE_FAILURES = 10
"""How often in a row a run may be broken off, by whatever death, without a single call done. Workers die for reasons of
their own, several runs at a time; a run that is the reason comes to nothing each time."""
_NO_FALLBACK = frozenset({RunError.UNSEALED, RunError.INTERNAL, RunError.SESSION})
"""What is wrong with the service itself is told, and not passed over."""
_ASKED_ONCE_MORE = frozenset(
    {
        *(RunError.DEADLINE, RunError.MAX_TURNS, RunError.AGENT_STOPPED, RunError.AGENT_PROCESS),
        *(RunError.DOCUMENT_TOO_LONG, RunError.ANSWER_TOO_LONG),
    }
)
"""Where the model can be asked for the last time: it is there, and there is money."""
MAX_CLAIMS = 1000
"""Ends a run that gets a call done each time before it takes its worker down."""


@dataclass(frozen=True, slots=True)
class TaskLimits:
    """What the service's settings say of a task, in the place of what the task says."""

    seconds: int
    last_seconds: int


@dataclass(frozen=True, slots=True)
class Limits:
    """How long and how far a run may go where it does not say so itself, and what that costs. `approval_wait_seconds`:
    how long a CLI stays for a person's decision, while no other run wants its place. `first_part_bytes`: how much of a
    document's text a run's first message may hold."""

    model: str
    max_turns: int
    seconds: int
    prices: Prices = field(default_factory=Prices)
    first_part_bytes: int = FIRST_PART_BYTES
    approval_wait_seconds: float = 0
    tool_seconds: float = TOOL_SECONDS
    embedder: Embedder | None = None
    tasks: Mapping[str, TaskLimits] = field(default_factory=dict[str, "TaskLimits"])

    def task(self, run: RunRow) -> Task[Any, Any]:
        """The task of a run, with what the service's settings say of it."""
        task = AGENTS[run.agent].tasks[run.task]
        said = self.tasks.get(run.task)
        if said is None:
            return task
        last = task.last_question
        return replace(
            task,
            seconds=said.seconds,
            last_question=None if last is None else replace(last, seconds=said.last_seconds),
        )

    def model_of(self, run: RunRow) -> str:
        return run.model or self.model


class Runner:
    """Executes runs. One instance serves a whole worker."""

    def __init__(
        self,
        database: Database,
        service: ModelService,
        limits: Limits,
        metrics: Metrics | None = None,
        pool: CliPool | None = None,
    ) -> None:
        self._database = database
        self._limits = limits
        self._metrics = metrics or Metrics()
        self._pool = pool or CliPool(
            service, most_turns=limits.max_turns, seconds=limits.seconds, metrics=self._metrics
        )
        self._watches: set[_Watch] = set()

    def stop_waiting(self) -> None:
        """The worker stops: CLIs that stay for a person's decision are let go, in order and at once."""
        for watch in self._watches:
            watch.stop_waiting()

    async def execute(self, run_id: UUID) -> None:
        """Claim a run and bring it to its end, or to where it waits. Does nothing for a run that has ended or is
        gone."""
        async with self._database.as_service() as conn:
            scope = await runs.scope_of(conn, run_id)
        if scope is None:
            return
        with structlog.contextvars.bound_contextvars(run_id=str(run_id), org_id=str(scope.org_id)):
            run = await self._claim(scope, run_id)
            if run is None:
                return
            with run_telemetry(self._metrics, run, self._limits.model_of(run)) as telemetry:
                await self._execute(scope, run, telemetry)

    async def _execute(self, scope: Scope, run: RunRow, telemetry: RunTelemetry) -> None:
        try:
            context = replace(
                run_context(self._database, scope, run),
                first_part_bytes=self._limits.first_part_bytes,
                tool_seconds=self._limits.tool_seconds,
                embedder=self._limits.embedder,
            )
        except Invalid as fault:
            await self._fail(run.id, str(fault), RunError.INVALID_INPUT)
            telemetry.ended("failed", RunError.INVALID_INPUT)
            return
        try:
            outcome = await self._until_taken_away(context, telemetry)
            telemetry.ended(*await self._finish(context, outcome))
        except Fenced:
            status = await self._status_or_abandon(context)
            telemetry.ended("cancelled" if status is RunStatus.CANCELLED else "taken_away")
        except asyncio.CancelledError:
            # The worker stops. The cancellation is spent on releasing the run, and the queue's job is done.
            await self._release(context)
            telemetry.ended("released")

    # Claiming

    async def _claim(self, scope: Scope, run_id: UUID) -> RunRow | None:
        async with self._database.as_user(scope) as conn:
            room = await self._find_room(conn, run_id)
            run = await runs.claim(conn, run_id) if room == "granted" else None
            if (
                run is not None
                and run.consecutive_failures <= MAX_CONSECUTIVE_FAILURES
                and run.fencing_token <= MAX_CLAIMS
            ):
                # One that a front end has inserted, or a run's call, has told nothing yet.
                if run.fencing_token == 1 and await runs.last_event(conn, run_id) == 0:
                    await runs.append_event(conn, run_id, _first_event(run))
                return run
            has_ended = room is None and await runs.get_in_reach(conn, run_id) is not None
            if has_ended:
                await runs.disown(conn, run_id)
                return None
        if room == "held":
            log.info("the run waits for another of its organisation to end")
            return None
        if room is not None and room in REFUSALS:
            await self._fail(run_id, REFUSALS[room], RunError(room))
            return None
        # Out of reach of its user (who left, or only reads now), or claimed again and again: nobody works on it.
        await self._abandon(run_id, scope)
        return None

    async def _find_room(self, conn: Connection, run_id: UUID) -> str | None:
        """What the organisation's limits say to a run that is to be claimed in this transaction."""
        run = await runs.get(conn, run_id)
        priced = run is not None and self._limits.prices.of(self._limits.model_of(run)) is not None
        return await usage.find_room(conn, run_id, priced=priced)

    async def _status_or_abandon(self, context: RunContext) -> RunStatus | None:
        """The status that somebody else gave the run; one that is out of its user's reach is abandoned."""
        async with self._database.as_user(context.scope) as conn:
            run = await runs.get_in_reach(conn, context.run_id)
        if run is None:
            await self._abandon(context.run_id, context.scope)
            return None
        return run.status

    async def _abandon(self, run_id: UUID, scope: Scope) -> None:
        async with self._database.as_service() as conn:
            # Somebody who stays may have taken it over meanwhile: then it goes on as theirs.
            if await runs.scope_of(conn, run_id) == scope:
                await runs.fail(conn, run_id, "The run could not be brought to its end.", RunError.ABANDONED)

    async def _fail(self, run_id: UUID, error: str, code: RunError) -> None:
        async with self._database.as_service() as conn:
            await runs.fail(conn, run_id, error, code)

    async def _release(self, context: RunContext) -> None:
        """The worker stops: another one shall go on, now or when a person has decided."""
        try:
            async with self._database.as_user(context.scope) as conn:
                await runs.fence(conn, context.run_id, context.fencing_token)
                await runs.release(conn, context.run_id)
                await runs.detach(conn, context.run_id, context.fencing_token)
        except FieldmarkError as error:
            log.warning("the run could not be released; the sweep will find it", reason=str(error))

    # At work

    async def _until_taken_away(self, context: RunContext, telemetry: RunTelemetry) -> Outcome:
        """The attempt, broken off as soon as the run is no longer this worker's: raises Fenced then."""
        deltas = DeltaBuffer(context.fencing_token, is_told=not context.run.background)
        if context.fencing_token > 1:
            deltas.withdraw_all()
        watch = _Watch(context, self._limits.approval_wait_seconds, self._pool)
        self._watches.add(watch)
        async with self._database.listen(WORK_CHANNEL, about=str(context.run_id)) as news:
            working = asyncio.create_task(self._answered(context, telemetry, deltas, watch))
            next_news: asyncio.Future[str | None] | None = None
            try:
                while not working.done():
                    # Asked before each silence: the news may have come before anybody listened.
                    await watch.look()
                    next_news = next_news or asyncio.ensure_future(anext(news))
                    await asyncio.wait({working, next_news}, return_when=asyncio.FIRST_COMPLETED)
                    if next_news.done():
                        next_news = None
                return working.result()
            finally:
                self._watches.discard(watch)
                if next_news is not None:
                    next_news.cancel()
                working.cancel()
                await _settled(working)

    async def _answered(
        self, context: RunContext, telemetry: RunTelemetry, deltas: DeltaBuffer, watch: _Watch
    ) -> Outcome:
        """What an attempt comes to; in the place of one that came to no answer, what its task falls back on."""
        outcome = await self._attempt(context, telemetry, deltas, watch)
        task = self._limits.task(context.run)
        is_answered = outcome.by_call and outcome.gave_up is None
        if task.fallback is None or is_answered or outcome.code in _NO_FALLBACK:
            return outcome
        if outcome.status not in (RunStatus.COMPLETED, RunStatus.FAILED):
            return outcome
        why = outcome.gave_up or outcome.code or RunError.AGENT_STOPPED
        if task.last_question is not None and (outcome.code is None or outcome.code in _ASKED_ONCE_MORE):
            falling = replace(context, falls_back=why)
            last = await self._ask_once_more(falling, task.last_question, telemetry, deltas, watch)
            if last is not None and last.by_call and last.gave_up is None:
                telemetry.fell_back(why, "model")
                return last
        telemetry.fell_back(why, "passages")
        return ended_by_call(await task.fallback(context, task.parse(context.run), why))

    async def _ask_once_more(
        self,
        context: RunContext,
        question: LastQuestion[Any],
        telemetry: RunTelemetry,
        deltas: DeltaBuffer,
        watch: _Watch,
    ) -> Outcome | None:
        """What comes of a task's last question; None where there was nothing to ask, or no time."""
        task = AGENTS[context.run.agent].tasks[context.run.task]
        try:
            async with asyncio.timeout(question.seconds) as deadline:
                watch.deadline = deadline
                async with self._database.as_user(context.scope) as conn:
                    run = await runs.get(conn, context.run_id)
                if run is None or self._turns_left(run) < 1:
                    return None
                context = replace(context, run=replace(run, fencing_token=context.fencing_token))
                steps = _Steps(context)
                prompt = await question.prepare(context, task.parse(run), steps)
                if prompt is None:
                    return None
                # Nobody goes on with it: whoever takes the run up asks the agent again, in its own conversation. Kept,
                # this would stand in the place of that one, which then nobody would ever clear away.
                whose = (run.id, context.fencing_token)
                sessions = Sessions(self._database, context.scope, run=whose, is_kept=False)
                wanted = replace(
                    self._wanted(context, sessions, telemetry, deltas, watch),
                    messages=1,
                    rounds=None,
                    only=frozenset({question.tool}),
                )
                return await attempt(self._pool, wanted, Fresh(prompt), uuid4(), frozenset())
        except (TimeoutError, NotResumed, Unavailable) as error:
            log.warning("the last question came to nothing", error=type(error).__name__)
            return None

    async def _attempt(
        self, context: RunContext, telemetry: RunTelemetry, deltas: DeltaBuffer, watch: _Watch
    ) -> Outcome:
        if self._turns_left(context.run) < 1:
            return NO_TURNS_LEFT
        if (waits := await self._settle_waiting_call(context)) is not None:
            return waits
        if (ended := await self._ended_by_call(context)) is not None:
            return ended
        seconds, left = await self._seconds(context)
        if (last := self._limits.task(context.run).last_question) is not None and left > 2 * last.seconds:
            left -= last.seconds
        try:
            async with asyncio.timeout(left) as deadline:
                watch.deadline = deadline
                return await self._lead(context, telemetry, deltas, watch)
        except TimeoutError:
            return Outcome("failed", error=f"The run took longer than {seconds} seconds.", code=RunError.DEADLINE)

    async def _seconds(self, context: RunContext) -> tuple[int, float]:
        """How long the run may take, and how much of that is left. The seconds of the task at the root are those of the
        whole tree, unless its calls wait for people."""
        root, most = context.run, self._limits.seconds
        async with self._database.as_user(context.scope) as conn:
            if root.parent_run_id is not None:
                root = await runs.get(conn, root.root_run_id) or root
            of_task = self._limits.task(root).seconds
            if of_task is None or root.approval is Approval.ASK:
                seconds = min(most, of_task or most)
                return seconds, seconds
            gone = await runs.seconds_since_start(conn, root.id)
        return min(most, of_task), min(most, of_task - gone)

    def _turns_left(self, run: RunRow) -> int:
        most = self._most_turns(run)
        return min(run.max_turns or most, most) - run.turns

    def _most_turns(self, run: RunRow) -> int:
        """How many turns a run may have that says nothing of them."""
        most = self._limits.max_turns
        return min(self._limits.task(run).max_turns or most, most)

    async def _lead(self, context: RunContext, telemetry: RunTelemetry, deltas: DeltaBuffer, watch: _Watch) -> Outcome:
        """The conversation with the model, to its end."""
        run = context.run
        sessions = Sessions(self._database, context.scope, run=(run.id, run.fencing_token))
        start, told, stale_call = await self._start(context, sessions)
        wanted = self._wanted(context, sessions, telemetry, deltas, watch)
        assert run.session_id is not None
        session_id = run.session_id
        if run.fencing_token == 1 and AGENTS[run.agent].tasks[run.task].begins_anew:
            start, session_id, stale_call = Fresh(await self._briefing(context)), uuid4(), None
        try:
            return await attempt(self._pool, wanted, start, session_id, told, stale_call)
        except NotResumed:
            log.warning("the CLI did not go on where its conversation stopped; a new one begins")
            return await attempt(self._pool, wanted, Fresh(await self._anew(context)), uuid4(), told)

    def _wanted(
        self,
        context: RunContext,
        sessions: Sessions,
        telemetry: RunTelemetry,
        deltas: DeltaBuffer,
        watch: _Watch,
    ) -> Attempt:
        """What an attempt of a run is made with."""
        run, limits, turns = context.run, self._limits, self._turns_left(context.run)
        telemetry.model = limits.model_of(run)
        task = limits.task(run)
        kept = 1 if task.last_question is not None and turns > 1 else 0  # that needs one
        return Attempt(
            context=context,
            agent=AGENTS[run.agent],
            policy=Policy(run.approval, frozenset(run.auto_approved_tools)),
            model=telemetry.model,
            # The meter counts those that a thread's run has left, so that its CLI can stay for the next turn.
            turns=(self._most_turns(run) if run.max_turns is None and run.thread_id is not None else turns) - kept,
            messages=turns - kept,
            prices=limits.prices,
            sessions=sessions,
            waiting_call=run.waiting_call,
            waiting=watch,
            deltas=deltas,
            telemetry=telemetry,
            rounds=task.rounds,
        )

    async def _settle_waiting_call(self, context: RunContext) -> Outcome | None:
        """See to it that the call which the run waited for is done, whatever the CLI will make of it: one that a person
        has admitted runs, one whose child runs have ended gets its answer. An outcome where the run still waits."""
        run = context.run
        if run.waiting_call is None:
            return None
        async with self._database.as_user(context.scope) as conn:
            call = await tool_calls.get(conn, run.id, run.waiting_call)
        if call is None or call.status not in (CallStatus.ADMITTED, CallStatus.WAITING):
            return None
        then = _telling(context, ToolCall(call.tool, call.id, call.arguments))
        tools = AGENTS[run.agent].create_tools(context)
        if call.status is CallStatus.WAITING:
            outcome = await collect(context, tools, call, then)
        elif call.decided_by is not None:
            admitted = ToolCall(call.tool, call.id, call.arguments)
            outcome = await execute(tools, context, admitted, by=By.POLICY, then=then)
        else:
            return None  # admitted by policy: its CLI repeats it, or the model asks anew
        is_waiting = outcome is None or outcome.code == "awaiting_runs"
        return Outcome(RunStatus.AWAITING_RUNS) if is_waiting else None

    async def _ended_by_call(self, context: RunContext) -> Outcome | None:
        """How the run ended, if a call of an earlier attempt, or one that a person has approved, has ended it."""
        toolset = AGENTS[context.run.agent].toolset
        if context.run.fencing_token == 1 or not toolset.ending:
            return None
        async with self._database.as_user(context.scope) as conn:
            call = await tool_calls.done_of(conn, context.run_id, toolset.ending)
        answer = None if call is None else toolset.answer(call.tool, call.arguments, call.data)
        return None if answer is None else ended_by_call(answer)

    async def _start(self, context: RunContext, sessions: Sessions) -> tuple[RunStart, frozenset[str], str | None]:
        """How the conversation begins, the calls whose end was told to whoever watches the run already, and the call at
        which an earlier run of the thread has stopped: it was never decided, and never will be."""
        run = context.run
        assert run.session_id is not None
        is_first = run.fencing_token == 1
        # Before its first attempt a run has a conversation only where its thread has one.
        has_begun = (run.thread_id is not None or not is_first) and await sessions.has(run.session_id)
        told: frozenset[str] = frozenset({run.waiting_call} if run.waiting_call is not None else ())
        if not has_begun:
            return Fresh(await self._briefing(context) if is_first else await self._anew(context)), told, None
        # Asked of the conversation: the run's row may lag behind, if it was broken off just then.
        deferred, stale = await sessions.deferred_call(run.session_id), None
        if deferred is not None:
            async with self._database.as_user(context.scope) as conn:
                is_own = await tool_calls.get(conn, run.id, deferred) is not None
            if is_own:
                return AfterDecision(deferred), told, None
            stale = deferred
            sessions.pass_over(stale)
        prompt = await self._briefing(context) if is_first else await self._goes_on(context)
        if stale is not None:
            prompt = await self._with_what_became_of(stale, prompt, context)
        return (NextMessage(prompt) if is_first else AfterCrash(prompt)), told, stale

    async def _briefing(self, context: RunContext) -> Prompt:
        task = AGENTS[context.run.agent].tasks[context.run.task]
        async with self._database.as_user(context.scope) as conn:
            return await task.briefing(conn, context, task.parse(context.run))

    async def _anew(self, context: RunContext) -> Prompt:
        """The first message of a conversation that begins again: an attempt that left none may have written all the
        same."""
        return _and(await self._briefing(context), await self._resumed(context))

    async def _with_what_became_of(self, call_id: str, prompt: Prompt, context: RunContext) -> Prompt:
        """A message, and how the call ended at which an earlier turn of the thread has stopped. Of itself the CLI says
        that nobody knows whether it was done."""
        assert context.run.thread_id is not None
        async with self._database.as_user(context.scope) as conn:
            call = await tool_calls.of_thread(conn, context.run.thread_id, call_id)
        return prompt if call is None else _and(prompt, decided_text([call]))

    async def _goes_on(self, context: RunContext) -> Prompt:
        """The message to a conversation that was broken off. In a thread its own message may not be in it yet."""
        return await (self._resumed(context) if context.run.thread_id is None else self._anew(context))

    async def _resumed(self, context: RunContext) -> str:
        async with self._database.as_user(context.scope) as conn:
            calls = await tool_calls.decided(conn, context.run_id)
        resumed = AGENTS[context.run.agent].resumed
        return f"{resumed}\n\n{decided_text(calls)}" if calls else resumed

    # Ending

    async def _finish(self, context: RunContext, outcome: Outcome) -> tuple[str, str | None]:
        """Record how the attempt ended; answers that as the telemetry has it."""
        run = context.run
        async with self._database.as_user(context.scope) as conn:
            if outcome.status in (RunStatus.AWAITING_APPROVAL, RunStatus.AWAITING_RUNS):
                # What it waits for was said when it began to wait; it may have been decided since.
                await runs.detach(conn, run.id, run.fencing_token)
                return outcome.status, None
            # The status and the event that tells of it are one transaction: whoever sees the one sees the other.
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
            if run.thread_id is not None:
                now = await runs.get(conn, run.id)
                assert now is not None and now.session_id is not None
                await threads.record_conversation(conn, run.thread_id, now.session_id)
            if outcome.by_call and outcome.answer is not None:
                await runs.append_event(conn, run.id, TextEvent(text=outcome.answer))
            await runs.append_event(conn, run.id, await self._last_event(conn, run, outcome))
        return outcome.status, outcome.code

    async def _last_event(self, conn: Connection, run: RunRow, outcome: Outcome) -> EventBase:
        if outcome.status != RunStatus.COMPLETED:
            assert outcome.error is not None and outcome.code is not None
            return ErrorEvent(error=outcome.error, code=outcome.code, run_id=run.id)
        ended = await runs.get(conn, run.id)
        assert ended is not None
        cost = None if ended.cost_usd is None else float(ended.cost_usd)
        used = TokensUsed.model_validate(ended.usage)
        return CompleteEvent(extraction_id=run.extraction_id, cost_usd=cost, usage=used)


class _Watch:
    """What the run's row says, for the attempt that works on it: whether it is still its, and what was decided."""

    def __init__(self, context: RunContext, wait_seconds: float, pool: CliPool) -> None:
        self._context = context
        self._wait_seconds = wait_seconds
        self._pool = pool
        self._looked = asyncio.Event()
        self._status = RunStatus.RUNNING
        self._stops = False
        self.deadline: asyncio.Timeout | None = None

    async def look(self) -> None:
        """Read the run's status. Raise Fenced if the run has ended or another worker has it."""
        async with self._context.database.as_user(self._context.scope) as conn:
            status = await runs.look(conn, self._context.run_id, self._context.fencing_token)
        if status is None or status.is_final:
            raise Fenced("The run has ended or was taken up by another worker.")
        self._status = status
        self._looked.set()

    def stop_waiting(self) -> None:
        """Wait for no decision any longer."""
        self._stops = True
        self._looked.set()

    async def may_wait(self) -> bool:
        return self._wait_seconds > 0 and await self._has_room()

    async def _has_room(self) -> bool:
        """Whether the CLI takes nobody's place by waiting."""
        if self._stops:
            return False
        if self._pool.has_room:
            return True
        async with self._context.database.as_service() as conn:
            return not await runs.others_wait(conn)

    async def until_decided(self) -> RunStatus:
        """How the run stands when a person has decided, when others want the CLI's place, or when time is up."""
        until = time.monotonic() + self._wait_seconds
        await self.look()
        while self._status is RunStatus.AWAITING_APPROVAL and await self._has_room():
            left = until - time.monotonic()
            if left <= 0:
                break
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(left, 0.5)):
                    await self._looked.wait()
            self._looked.clear()
        await self.look()
        return self._status


class _Steps:
    """Calls that the service itself makes for a run: in the ledger, and told, like the model's."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._made = 0

    async def __call__(self, tool: str, arguments: dict[str, JsonValue]) -> ToolOutcome:
        context = self._context
        self._made += 1
        call = ToolCall(tool, f"fallback_{context.fencing_token}_{self._made}", arguments)
        tools = AGENTS[context.run.agent].create_tools(context)
        return await execute(tools, context, call, by=By.SERVICE, then=_telling(context, call))


def _telling(context: RunContext, call: ToolCall) -> Callable[[Connection, ToolOutcome], Awaitable[None]]:
    """Tells whoever watches the run how a call ended that no CLI has made, in the transaction of the call."""
    began = time.monotonic()
    summary = AGENTS[context.run.agent].toolset.summary(call.tool, call.arguments)

    async def tell(conn: Connection, outcome: ToolOutcome) -> None:
        if outcome.code == "awaiting_runs":
            return
        assert call.id is not None
        milliseconds = round((time.monotonic() - began) * 1000)
        ended = ended_event(call.tool, call.id, summary, outcome, milliseconds)
        await runs.append_events(conn, context.run_id, context.fencing_token, [ended])

    return tell


def _and(prompt: Prompt, more: str) -> Prompt:
    return f"{prompt}\n\n{more}" if isinstance(prompt, str) else (prompt[0], f"{prompt[1]}\n\n{more}")


def _first_event(run: RunRow) -> RunStartedEvent:
    return RunStartedEvent(
        run_id=run.id,
        extraction_id=run.extraction_id,
        thread_id=run.thread_id,
        parent_run_id=run.parent_run_id,
        parent_call_id=run.parent_call_id,
    )


async def _settled(task: asyncio.Task[Any]) -> None:
    """Wait for a cancelled task however often this one is cancelled meanwhile: left alone it would leave its CLI. What
    it failed with before, if it did, is not news: something else has ended the run by now."""
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            cancelled = True
    if not task.cancelled():
        task.exception()  # or asyncio would complain that nobody asked for it
    if cancelled:
        raise asyncio.CancelledError
