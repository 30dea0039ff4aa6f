"""One run, from taken up to ended: drives the Agent SDK and records what happens."""

from __future__ import annotations

import asyncio
import json
import signal
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import structlog
from claude_agent_sdk import (
    AssistantMessage,
    ClaudeSDKError,
    CLIConnectionError,
    CLINotFoundError,
    ProcessError,
    ResultMessage,
    StreamEvent,
)

from fieldmark.agents.registry import AGENTS
from fieldmark.agents.spec import AgentSpec
from fieldmark.db.pool import Connection, Database
from fieldmark.errors import Fenced, FieldmarkError, Unavailable
from fieldmark.identity.scope import Scope
from fieldmark.runs.billing.meter import REFUSALS, BudgetExceeded, Meter
from fieldmark.runs.billing.prices import Prices
from fieldmark.runs.engine.binding import RunHandlers
from fieldmark.runs.engine.cli_attestation import SandboxViolation
from fieldmark.runs.engine.options import ModelService
from fieldmark.runs.engine.permission_hook import PermissionHook, Policy, ToolExecutor
from fieldmark.runs.engine.pool import CliPool
from fieldmark.runs.engine.run_telemetry import RunTelemetry, run_telemetry
from fieldmark.runs.engine.session_store import Sessions, SessionWriteFailed
from fieldmark.runs.events.deltas import DeltaBuffer
from fieldmark.runs.events.writer import EventMapper, EventWriter
from fieldmark.runs.lifecycle.outcome import KEY_REFUSED, NO_TURNS_LEFT, KeyRefused, Outcome, check_key, outcome_of
from fieldmark.stores import documents, extractions, runs, tool_calls, usage
from fieldmark.telemetry.metrics import Metrics
from fieldmark.tools.toolset import ToolContext

log = structlog.get_logger()

MAX_TRIES = 10
"""How often in a row a run may be broken off, by whatever death, without a single call done. Workers die for reasons of
their own, several runs at a time; a run that is the reason comes to nothing each time."""
MAX_ATTEMPTS = 1000
"""Ends a run that gets a call done each time before it takes its worker down."""


# The CLI itself exits with 128 + the number, the launcher before it dies of the signal.
_KILLED = {-signal.SIGKILL} | {
    code for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP) for code in (-number, 128 + number)
}


@dataclass(frozen=True, slots=True)
class Limits:
    """How long and how far a run may go where it does not say so itself, and what that costs."""

    model: str
    max_turns: int
    seconds: int
    prices: Prices = field(default_factory=Prices)


class Runner:
    """Executes runs. One instance serves a whole worker."""

    def __init__(
        self,
        database: Database,
        service: ModelService,
        limits: Limits,
        metrics: Metrics | None = None,
        clients: CliPool | None = None,
    ) -> None:
        self._database = database
        self._limits = limits
        self._metrics = metrics or Metrics()
        self._clients = clients or CliPool(
            service, most_turns=limits.max_turns, seconds=limits.seconds, metrics=self._metrics
        )

    async def execute(self, run_id: UUID) -> None:
        """Take a run up and bring it to its end. Does nothing for a run that has ended or is gone."""
        async with self._database.as_service() as conn:
            scope = await runs.scope_of(conn, run_id)
        if scope is None:
            return
        with structlog.contextvars.bound_contextvars(run_id=str(run_id), org_id=str(scope.org_id)):
            run = await self._take(scope, run_id)
            if run is None:
                return
            with run_telemetry(self._metrics, run, run["model"] or self._limits.model) as course:
                await self._go_through(scope, run, course)

    async def _go_through(self, scope: Scope, run: dict[str, Any], course: RunTelemetry) -> None:
        context = ToolContext(
            self._database,
            scope,
            run["id"],
            run["attempt"],
            run["document_id"],
            run["extraction_id"],
            message=run["instructions"] if run["task"] == "correct" else None,
        )
        try:
            outcome = await self._until_cancelled(context, run, course)
            await self._finish(context, outcome)
            course.ended(outcome.status, outcome.code)
        except Fenced:
            status = await self._status_or_give_up(context)
            course.ended("cancelled" if status == "cancelled" else "taken_away")
        except asyncio.CancelledError:
            # The worker stops. The cancellation is spent on handing the run back, and the queue's job is done.
            await self._release(context)
            course.ended("handed_back")

    async def _take(self, scope: Scope, run_id: UUID) -> dict[str, Any] | None:
        async with self._database.as_user(scope) as conn:
            room = await self._find_room(conn, run_id)
            run = await runs.take(conn, run_id) if room == "granted" else None
            if run is not None and run["tries"] <= MAX_TRIES and run["attempt"] <= MAX_ATTEMPTS:
                if run["attempt"] == 1:
                    await runs.append_event(
                        conn, run_id, {"run_id": str(run_id), "extraction_id": str(run["extraction_id"])}
                    )
                return run
            has_ended = room is None and await runs.get(conn, run_id) is not None
        if has_ended:
            return None
        if room == "held":
            log.info("the run waits for another of its organisation to end")
            return None
        if room in REFUSALS:
            async with self._database.as_service() as conn:
                await runs.fail(conn, run_id, REFUSALS[room], room)
            return None
        # Out of sight for its own user (who left the organisation), or taken up again and again: nobody works on it.
        await self._abandon(run_id)
        return None

    async def _find_room(self, conn: Connection, run_id: UUID) -> str | None:
        """What the organisation's limits say to a run that is to be taken up in this transaction."""
        run = await runs.get(conn, run_id)
        price = self._limits.prices.of(run["model"] or self._limits.model) if run is not None else None
        return await usage.reserve(conn, run_id, None if price is None else price.of_next())

    async def _status_or_give_up(self, context: ToolContext) -> str | None:
        """The status that somebody else gave the run; one that is out of sight is given up."""
        async with self._database.as_user(context.scope) as conn:
            run = await runs.get(conn, context.run_id)
        if run is None:
            await self._abandon(context.run_id)
            return None
        return run["status"]

    async def _abandon(self, run_id: UUID) -> None:
        async with self._database.as_service() as conn:
            await runs.fail(conn, run_id, "The run could not be brought to its end.", "abandoned")

    async def _release(self, context: ToolContext) -> None:
        """The worker stops: another one shall go on."""
        try:
            async with self._database.as_user(context.scope) as conn:
                await runs.fence(conn, context.run_id, context.attempt)
                await runs.release(conn, context.run_id)
        except FieldmarkError as error:
            log.warning("the run could not be handed back; the sweep will find it", reason=str(error))

    async def _until_cancelled(self, context: ToolContext, run: dict[str, Any], course: RunTelemetry) -> Outcome:
        """The attempt, broken off as soon as the run is no longer this worker's: raises Fenced then."""
        draft = DeltaBuffer(context.attempt)
        async with self._database.listen(runs.WORK_CHANNEL, about=str(context.run_id)) as news:
            working = asyncio.create_task(self._attempt(context, run, course, draft))
            hearing: asyncio.Future[str | None] | None = None
            try:
                while not working.done():
                    # Asked before each silence: the news may have come before anybody listened.
                    async with self._database.as_user(context.scope) as conn:
                        draft.watched_for(await runs.watched(conn, context.run_id, context.attempt))
                    hearing = hearing or asyncio.ensure_future(anext(aiter(news)))
                    await asyncio.wait({working, hearing}, return_when=asyncio.FIRST_COMPLETED)
                    if hearing.done():
                        hearing = None
                return working.result()
            finally:
                if hearing is not None:
                    hearing.cancel()
                working.cancel()
                await _settled(working)

    async def _attempt(
        self, context: ToolContext, run: dict[str, Any], course: RunTelemetry, draft: DeltaBuffer
    ) -> Outcome:
        try:
            async with asyncio.timeout(self._limits.seconds):
                return await self._converse(context, run, course, draft)
        except TimeoutError:
            return Outcome("failed", error=f"The run took longer than {self._limits.seconds} seconds.", code="deadline")
        except KeyRefused:
            return KEY_REFUSED
        except BudgetExceeded as spent:
            return spent.outcome
        except SandboxViolation as error:
            return Outcome("failed", error=str(error), code="unsealed")
        except SessionWriteFailed:
            return Outcome("failed", error="The agent's conversation could not be kept.", code="session")
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
                code="agent_process",
            )
        except FieldmarkError:
            raise  # lost to another worker, or a database that does not answer: the queue tries again
        except Exception:
            # Whatever a hostile answer of the model has brought about, the run ends, and is not tried again.
            log.exception("the run failed")
            return Outcome("failed", error="The run failed inside Fieldmark; its log says why.", code="internal")

    async def _converse(
        self, context: ToolContext, run: dict[str, Any], course: RunTelemetry, draft: DeltaBuffer
    ) -> Outcome:
        spec = AGENTS[run["agent"]]
        policy = Policy(run["approval"], frozenset(run["auto_approved_tools"]))
        narrator = EventMapper(spec.toolset)
        sessions = Sessions(self._database, context.scope, run=(context.run_id, context.attempt))
        resumed = run["attempt"] > 1 and await sessions.has(run["session_id"])
        # Asked of the conversation: the run's row may lag behind, if the last attempt was broken off just then.
        deferred = await sessions.deferred_call(run["session_id"]) if resumed else None
        gate = PermissionHook(spec.toolset, context, policy, deferred, told=course.called)
        if deferred is None:
            prompt = await self._first_message(spec, context, run, resumed)
        else:
            prompt = None
            async with self._database.as_user(context.scope) as conn:
                waited = await tool_calls.get(conn, context.run_id, deferred)
            if waited is not None:
                narrator.goes_on(deferred, waited["tool"], waited["arguments"])
        result: ResultMessage | None = None
        api_error: str | None = None
        model = run["model"] or self._limits.model
        turns = self._turns_left(run)
        if turns < 1:
            return NO_TURNS_LEFT
        meter = Meter(context, run["agent"], self._limits.prices, model, turns, paid=deferred)
        async with EventWriter(context, draft) as events, meter:

            async def before(call_id: str) -> None:
                await meter.charged(call_id)
                await events.flush()

            served = ToolExecutor(gate, spec.toolset, context, before=before, told=course.called)

            async with self._clients.acquire(
                spec,
                context.scope,
                RunHandlers(gate, served, sessions),
                model=model,
                max_turns=turns,
                session_id=run["session_id"],
                resumed=resumed,
            ) as client:
                if client.session_id != run["session_id"]:
                    await self._record_conversation(context, client.session_id)
                async for message in client.converse(prompt):
                    check_key(message)
                    for said in narrator.objects(message):
                        events.say(said)
                    # Before the gate hears of it, so that it never defers what the run cannot pay for.
                    await meter.saw(message)
                    sessions.check()
                    if isinstance(message, StreamEvent):
                        gate.saw(message.event)
                        course.saw(message.event)
                        draft.saw(message.event)
                    elif isinstance(message, AssistantMessage):
                        api_error = message.error
                    elif isinstance(message, ResultMessage):
                        result = message
        if result is None:
            return Outcome("failed", error="The agent's process ended without a result.", code="agent_process")
        return outcome_of(result, api_error)

    async def _record_conversation(self, context: ToolContext, session_id: UUID) -> None:
        """The CLI is in a conversation that was begun before the run: from there the run would be gone on with."""
        async with self._database.as_user(context.scope) as conn:
            await runs.fence(conn, context.run_id, context.attempt)
            await runs.record_conversation(conn, context.run_id, session_id)

    def _turns_left(self, run: dict[str, Any]) -> int:
        most = min(run["max_turns"] or self._limits.max_turns, self._limits.max_turns)
        return most - run["usage"]["turns"]

    async def _first_message(self, spec: AgentSpec, context: ToolContext, run: dict[str, Any], resumed: bool) -> str:
        """What the agent is told: its task, or in a conversation that goes on, that it was broken off."""
        if resumed:
            return spec.resumed
        async with self._database.as_user(context.scope) as conn:
            document = await documents.get(conn, context.document_id)
            schema = await extractions.schema_of(conn, context.extraction_id)
        if document is None:
            raise Fenced("The document is gone.")
        instructions = (run["instructions"] or "").strip()
        if run["task"] == "extract" and instructions:
            instructions = f"\n<instructions>\n{instructions}\n</instructions>\n"
        first = spec.first_message(
            run["task"],
            # A file's name is foreign text: as a JSON string it stays one word of the sentence.
            filename=json.dumps(document.filename, ensure_ascii=False),
            media_type=document.media_type,
            page_count=document.page_count,
            schema=f"\n<schema>\n{json.dumps(schema, ensure_ascii=False)}\n</schema>\n" if schema else "",
            instructions=instructions,
        )
        # An attempt that left no conversation may have written all the same.
        return f"{first}\n\n{spec.resumed}" if run["attempt"] > 1 else first

    async def _finish(self, context: ToolContext, outcome: Outcome) -> None:
        # The status and the event that tells of it are one transaction: whoever sees the one sees the other.
        async with self._database.as_user(context.scope) as conn:
            await runs.fence(conn, context.run_id, context.attempt)
            if outcome.waiting_call is not None:
                await runs.wait(conn, context.run_id, outcome.waiting_call)
                await runs.append_event(conn, context.run_id, await self._approval(conn, context, outcome.waiting_call))
                return
            await runs.finish(
                conn,
                context.run_id,
                outcome.status,
                answer=outcome.answer,
                error=outcome.error,
                error_code=outcome.code,
            )
            last: dict[str, Any] = {"error": outcome.error, "code": outcome.code, "run_id": str(context.run_id)}
            if outcome.status == "completed":
                ended = await runs.get(conn, context.run_id)
                assert ended is not None
                cost = ended["cost_usd"]
                last = {
                    "complete": True,
                    "extraction_id": str(context.extraction_id),
                    "cost_usd": None if cost is None else float(cost),
                    "usage": ended["usage"],
                }
            await runs.append_event(conn, context.run_id, last)

    async def _approval(self, conn: Connection, context: ToolContext, call_id: str) -> dict[str, Any]:
        call = await tool_calls.get(conn, context.run_id, call_id)
        if call is None or call["status"] != "pending":
            raise Fenced("The call that the CLI deferred is not one that waits.")
        toolset = AGENTS["extraction"].toolset
        return {
            "approval": {
                "call_id": call_id,
                "tool": call["tool"],
                "input": call["arguments"],
                "message": toolset.says(call["tool"], call["arguments"]),
            },
            "run_id": str(context.run_id),
        }


def _was_killed(error: ClaudeSDKError) -> bool:
    """Whether the CLI did not end by itself or never began: by the system, for want of memory or time, or with whoever
    else kills: who stops a service may tell all of its processes at once."""
    if isinstance(error, ProcessError):
        return error.exit_code in _KILLED
    return isinstance(error, CLIConnectionError) and not isinstance(error, CLINotFoundError)


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
