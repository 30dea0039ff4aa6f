"""One attempt at a run: a CLI, a beginning, and what it says until it ends. The Agent SDK is driven here."""

from __future__ import annotations

import signal
from collections.abc import Container
from dataclasses import dataclass
from uuid import UUID

import structlog
from claude_agent_sdk import ClaudeSDKError, CLIConnectionError, CLINotFoundError, ProcessError

from fieldmark.agents.spec import AgentSpec
from fieldmark.domain.statuses import RunError
from fieldmark.errors import FieldmarkError, Unavailable
from fieldmark.runs.billing.meter import BudgetExceeded, Meter
from fieldmark.runs.billing.prices import Prices
from fieldmark.runs.engine.binding import RunHandlers
from fieldmark.runs.engine.cli_attestation import SandboxViolation
from fieldmark.runs.engine.message_calls import MessageCalls
from fieldmark.runs.engine.model_stream import model_stream
from fieldmark.runs.engine.permission_hook import PermissionHook, Policy, Waiting
from fieldmark.runs.engine.pool import CliPool, ThreadTurn
from fieldmark.runs.engine.run_telemetry import RunTelemetry
from fieldmark.runs.engine.session_store import Sessions, SessionWriteFailed
from fieldmark.runs.engine.starts import AfterDecision, Fresh, NextMessage, NotResumed, RunStart
from fieldmark.runs.engine.tool_executor import ToolExecutor
from fieldmark.runs.events.deltas import DeltaBuffer
from fieldmark.runs.events.mapper import EventMapper
from fieldmark.runs.events.previews import CallPreviews
from fieldmark.runs.events.writer import EventWriter
from fieldmark.runs.outcome import KEY_REFUSED, KeyRefused, Outcome, OutcomeObserver
from fieldmark.runs.parts import CheckEachPart, MessageStarted, Observer, Part, show
from fieldmark.stores import runs, threads
from fieldmark.tools.context import RunContext

log = structlog.get_logger()

# The CLI itself exits with 128 + the number, the launcher before it dies of the signal.
_KILLED = {-signal.SIGKILL} | {
    code for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP) for code in (-number, 128 + number)
}


@dataclass(frozen=True, slots=True)
class Attempt:
    """What an attempt is made with. `waiting_call` is the call that the run waited for, whatever has become of it.
    `messages`: how many the model may say, where that is fewer than the turns that are left. `rounds`: in how many
    messages it may call tools. `only`: the tools that it may call, if not all."""

    context: RunContext
    agent: AgentSpec
    policy: Policy
    model: str
    turns: int
    prices: Prices
    sessions: Sessions
    waiting_call: str | None
    waiting: Waiting
    deltas: DeltaBuffer
    telemetry: RunTelemetry
    messages: int
    rounds: int | None = None
    only: frozenset[str] | None = None


async def attempt(
    pool: CliPool, made: Attempt, start: RunStart, session_id: UUID, told: frozenset[str], stale_call: str | None = None
) -> Outcome:
    """Lead the conversation `session_id` from its start to its end; answers how that was. `told` are calls of which the
    events say already how they ended.

    Raises NotResumed, what ends a run in another worker's favour (Fenced), and Unavailable for the queue to try again.
    """
    try:
        return await _converse(pool, made, start, session_id, told, stale_call)
    except KeyRefused:
        return KEY_REFUSED
    except BudgetExceeded as spent:
        return spent.outcome
    except SandboxViolation as error:
        return Outcome("failed", error=str(error), code=RunError.UNSEALED)
    except SessionWriteFailed:
        return Outcome("failed", error="The agent's conversation could not be kept.", code=RunError.SESSION)
    except ClaudeSDKError as error:
        # Its text may repeat what the CLI said, and with it the document.
        exit_code = getattr(error, "exit_code", None)
        log.warning("the agent's process failed", error=type(error).__name__, exit_code=exit_code)
        if _was_killed(error):
            raise Unavailable(
                "The agent's process was killed, or did not start."
            ) from None  # for the queue to try again
        return Outcome(
            "failed",
            error="The agent's process ended unexpectedly, or sent more than it may.",
            code=RunError.AGENT_PROCESS,
        )
    except (FieldmarkError, NotResumed):
        raise  # lost to another worker, or a database that does not answer: the queue tries again
    except Exception:
        # Whatever a hostile answer of the model has brought about, the run ends, and is not tried again.
        log.exception("the run failed")
        return Outcome("failed", error="The run failed inside Fieldmark; its log says why.", code=RunError.INTERNAL)


async def _converse(
    pool: CliPool, made: Attempt, start: RunStart, session_id: UUID, told: frozenset[str], stale_call: str | None
) -> Outcome:
    context, telemetry = made.context, made.telemetry
    toolset = made.agent.create_tools(context)
    expected = start.call_id if isinstance(start, AfterDecision) else None
    calls = MessageCalls()
    meter = Meter(context, made.agent.name, made.prices, made.model, made.messages, paid=expected)
    previews = CallPreviews(toolset, made.deltas)
    async with EventWriter(context, made.deltas) as events, meter:

        async def before(call_id: str) -> None:
            await meter.charged(call_id)
            await events.flush()

        hook = PermissionHook(
            toolset,
            context,
            made.policy,
            made.waiting_call,
            telemetry.called,
            stale_call=stale_call,
            calls=calls,
            waiting=made.waiting,
            before=before,
            rounds=made.rounds,
            only=made.only,
        )
        executor = ToolExecutor(hook, toolset, context, before=before, on_tool_outcome=telemetry.called)
        mapper = EventMapper(toolset, events.say, outcome_of=executor.outcome_of, ended=_Ended(told, hook.decided))
        ending = OutcomeObserver(lambda: hook.answer)
        # In this order: a conversation that does not go on where it stopped is given up before anything of it is told.
        # A key that is refused ends the run before it is told that the service is busy. What a message says is told
        # whether or not it can be paid for; but the hook does not hear that a message is whole before it is charged and
        # its conversation is known to be kept, so it never defers a call of a run that cannot go on. A block's own
        # event comes before the first words of the next.
        observers: list[Observer] = [
            _GoesOn(expected, hook),
            ending,
            mapper,
            meter,
            CheckEachPart(made.sessions.check),
            calls,
            telemetry,
            made.deltas,
            previews,
        ]
        turn = None
        if context.run.thread_id is not None and not made.agent.tasks[context.run.task].begins_anew:
            is_next = isinstance(start, NextMessage) and stale_call is None
            turn = ThreadTurn(context.run.thread_id, await made.sessions.last_entry(session_id) if is_next else None)
        try:
            async with pool.acquire(
                made.agent,
                context.scope,
                RunHandlers(hook, executor, made.sessions),
                model=made.model,
                max_turns=made.turns,
                session_id=session_id,
                resumed=not isinstance(start, Fresh),
                turn=turn,
                one_at_a_time=made.policy.asks,
            ) as lease:
                if made.sessions.is_kept:
                    await _record_conversation(context, lease.session_id)
                prompt = None if isinstance(start, AfterDecision) else start.prompt
                async for part in model_stream(lease.converse(prompt)):
                    await show(observers, part)
        except (ClaudeSDKError, NotResumed) as error:
            if expected is not None and expected not in hook.seen and not _was_killed(error):
                raise NotResumed from error
            raise
        finally:
            await executor.close()
    outcome = ending.outcome
    if expected is not None and expected not in hook.seen and outcome.status == "failed":
        raise NotResumed
    return outcome


async def _record_conversation(context: RunContext, session_id: UUID) -> None:
    """From where the run, and its thread, are gone on with: a CLI may be in a conversation that was begun before."""
    run = context.run
    if session_id == run.session_id and run.thread_id is None:
        return
    async with context.database.as_user(context.scope) as conn:
        await runs.fence(conn, run.id, run.fencing_token)
        await runs.record_conversation(conn, run.id, session_id)
        if run.thread_id is not None:
            await threads.record_conversation(conn, run.thread_id, session_id)


class _Ended(Container[object]):
    """The calls whose end was told by whoever decided them: before this attempt, or while its CLI waited."""

    def __init__(self, *calls: Container[object]) -> None:
        self._calls = calls

    def __contains__(self, call_id: object) -> bool:
        return any(call_id in one for one in self._calls)


class _GoesOn:
    """Ends the attempt where the CLI asks the model instead of going on with the call that was decided."""

    def __init__(self, expected: str | None, hook: PermissionHook) -> None:
        self._expected = expected
        self._hook = hook

    def on_part(self, part: Part) -> None:
        if self._expected is not None and isinstance(part, MessageStarted) and self._expected not in self._hook.seen:
            raise NotResumed


def _was_killed(error: Exception) -> bool:
    """Whether the CLI did not end by itself or never began: by the system, for want of memory or time, or with whoever
    else kills: who stops a service may tell all of its processes at once."""
    if isinstance(error, ProcessError):
        return error.exit_code in _KILLED
    return isinstance(error, CLIConnectionError) and not isinstance(error, CLINotFoundError)
