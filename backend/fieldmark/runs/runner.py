"""One run, from taken up to ended: drives the Agent SDK and records what happens."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import structlog
from claude_agent_sdk import AssistantMessage, ClaudeAgentOptions, ClaudeSDKError, ResultMessage

from fieldmark.agents.registry import AGENTS
from fieldmark.agents.spec import AgentSpec
from fieldmark.db.pool import Database
from fieldmark.errors import Fenced, FieldmarkError
from fieldmark.runs import clients
from fieldmark.runs.events import EventLog, Narrator
from fieldmark.runs.gate import Calls, Gate
from fieldmark.runs.options import ModelService, agent_options
from fieldmark.runs.outcome import KEY_REFUSED, KeyRefused, Outcome, check_key, outcome_of
from fieldmark.runs.seal import Unsealed
from fieldmark.runs.tool_server import tool_server
from fieldmark.scope import Scope
from fieldmark.stores import documents, extractions, runs
from fieldmark.tools.toolkit import ToolContext

log = structlog.get_logger()

MAX_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Limits:
    """How long and how far a run may go where it does not say so itself."""

    model: str
    max_turns: int
    seconds: int


class Runner:
    """Executes runs. One instance serves a whole worker."""

    def __init__(self, database: Database, service: ModelService, limits: Limits) -> None:
        self._database = database
        self._service = service
        self._limits = limits

    async def execute(self, run_id: UUID) -> None:
        """Take a run up and bring it to its end. Does nothing for a run that has ended or is gone."""
        async with self._database.as_service() as conn:
            scope = await runs.scope_of(conn, run_id)
        if scope is None:
            return
        run = await self._take(scope, run_id)
        if run is None:
            return
        context = ToolContext(self._database, scope, run_id, run["attempt"], run["document_id"], run["extraction_id"])
        with structlog.contextvars.bound_contextvars(run_id=str(run_id), org_id=str(scope.org_id)):
            try:
                outcome = await self._attempt(context, run)
                await self._finish(context, outcome)
            except Fenced:
                log.warning("lost the run to another worker or to its end")
                await self._give_up_if_out_of_sight(context)

    async def _take(self, scope: Scope, run_id: UUID) -> dict[str, Any] | None:
        async with self._database.as_user(scope) as conn:
            run = await runs.take(conn, run_id)
            if run is not None and run["attempt"] <= MAX_ATTEMPTS:
                await runs.append_event(
                    conn, run_id, {"run_id": str(run_id), "extraction_id": str(run["extraction_id"])}
                )
                return run
        # Out of sight for its own user (who left the organisation), or taken up again and again: nobody works on it.
        await self._give_up(run_id)
        return None

    async def _give_up_if_out_of_sight(self, context: ToolContext) -> None:
        async with self._database.as_user(context.scope) as conn:
            run = await runs.get(conn, context.run_id)
        if run is None:
            await self._give_up(context.run_id)

    async def _give_up(self, run_id: UUID) -> None:
        async with self._database.as_service() as conn:
            await runs.fail(conn, run_id, "The run could not be brought to its end.", "abandoned")

    async def _attempt(self, context: ToolContext, run: dict[str, Any]) -> Outcome:
        try:
            async with asyncio.timeout(self._limits.seconds):
                return await self._converse(context, run)
        except TimeoutError:
            return Outcome("failed", error=f"The run took longer than {self._limits.seconds} seconds.", code="deadline")
        except KeyRefused:
            return KEY_REFUSED
        except asyncio.CancelledError:
            # The worker stops. The cancellation is spent on saying so: the run has ended for whoever watches it.
            return Outcome("failed", error="The service stopped while this run was at work.", code="interrupted")
        except Unsealed as error:
            return Outcome("failed", error=str(error), code="unsealed")
        except ClaudeSDKError as error:
            log.warning("the agent's process failed", error=str(error)[:500])
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

    async def _converse(self, context: ToolContext, run: dict[str, Any]) -> Outcome:
        spec = AGENTS[run["agent"]]
        gate = Gate(spec.toolkit, context)
        narrator = Narrator(spec.toolkit)
        prompt = await self._first_message(spec, context, run)
        result: ResultMessage | None = None
        api_error: str | None = None
        async with EventLog(context) as events:
            calls = Calls(gate, spec.toolkit, context, before=events.flush)

            def options_in(folder: Path) -> ClaudeAgentOptions:
                return agent_options(
                    spec,
                    model=run["model"] or self._limits.model,
                    service=self._service,
                    folder=folder,
                    server=tool_server(spec.toolkit, calls),
                    gate=gate,
                    max_turns=self._limits.max_turns,
                    max_cost_usd=None if run["max_cost_usd"] is None else float(run["max_cost_usd"]),
                    cpu_seconds=self._limits.seconds,
                    on_stderr=lambda line: log.debug("cli", line=line[:500]),
                )

            async with clients.conversation(options_in, calls, prompt) as messages:
                async for message in messages:
                    check_key(message)
                    for said in narrator.objects(message):
                        events.say(said)
                    if isinstance(message, AssistantMessage):
                        api_error = message.error
                    elif isinstance(message, ResultMessage):
                        result = message
        if result is None:
            return Outcome("failed", error="The agent's process ended without a result.", code="agent_process")
        return outcome_of(result, api_error, offline=self._service.offline)

    async def _first_message(self, spec: AgentSpec, context: ToolContext, run: dict[str, Any]) -> str:
        async with self._database.as_user(context.scope) as conn:
            document = await documents.get(conn, context.document_id)
            schema = await extractions.schema_of(conn, context.extraction_id)
        if document is None:
            raise Fenced("The document is gone.")
        instructions = (run["instructions"] or "").strip()
        if run["task"] == "extract" and instructions:
            instructions = f"\n<instructions>\n{instructions}\n</instructions>\n"
        return spec.first_message(
            run["task"],
            resumed=run["attempt"] > 1,
            # A file's name is foreign text: as a JSON string it stays one word of the sentence.
            filename=json.dumps(document["filename"], ensure_ascii=False),
            media_type=document["media_type"],
            page_count=document["page_count"],
            schema=f"\n<schema>\n{json.dumps(schema, ensure_ascii=False)}\n</schema>\n" if schema else "",
            instructions=instructions,
        )

    async def _finish(self, context: ToolContext, outcome: Outcome) -> None:
        last: dict[str, Any]
        if outcome.status == "completed":
            cost = None if outcome.cost_usd is None else float(outcome.cost_usd)
            last = {
                "complete": True,
                "extraction_id": str(context.extraction_id),
                "cost_usd": cost,
                "usage": outcome.usage,
            }
        else:
            last = {"error": outcome.error, "code": outcome.code, "run_id": str(context.run_id)}
        # The status and the event that tells of it are one transaction: whoever sees the one sees the other.
        async with self._database.as_user(context.scope) as conn:
            await runs.fence(conn, context.run_id, context.attempt)
            await runs.finish(
                conn,
                context.run_id,
                outcome.status,
                answer=outcome.answer,
                error=outcome.error,
                error_code=outcome.code,
                cost_usd=outcome.cost_usd,
                usage=outcome.usage,
            )
            await runs.append_event(conn, context.run_id, last)
