"""Creates the context for a run's tools, for a worker and for a person's decision."""

from __future__ import annotations

from itertools import count

from pydantic import JsonValue

from fieldmark.agents.registry import AGENTS
from fieldmark.agents.spec import CallTool
from fieldmark.db.pool import Database
from fieldmark.errors import Invalid
from fieldmark.identity.scope import Scope
from fieldmark.runs.events.mapper import end_reporter, tool_event
from fieldmark.runs.lifecycle.launch import start_child
from fieldmark.stores import runs
from fieldmark.stores.runs import RunRow
from fieldmark.tools.context import RunContext
from fieldmark.tools.ledger import StartedBy, ToolCall, ToolOutcome, execute


def run_context(database: Database, scope: Scope, run: RunRow) -> RunContext:
    """Return the context of a run. Raise Invalid if its input does not fit its task, or if this version of Fieldmark
    has no such task."""
    agent = AGENTS.get(run.agent)
    task = None if agent is None else agent.tasks.get(run.task)
    if agent is None or task is None:
        raise Invalid(f"This version of Fieldmark has no task {run.task!r} of agent {run.agent!r}.")
    task_input = task.parse(run)
    message = None if task.message is None else task.message(task_input)
    return RunContext(database, scope, run, message, start_run=start_child)


def service_calls(context: RunContext) -> CallTool:
    """Return a function that calls a tool on behalf of the service. The call is recorded in the ledger and reported in
    events, like a call of the model."""
    tools, numbers = AGENTS[context.run.agent].create_tools(context), count(1)

    async def call_tool(tool: str, arguments: dict[str, JsonValue]) -> ToolOutcome:
        call_id = f"service_{context.fencing_token}_{next(numbers)}"
        started = tool_event(tools, tool, call_id, arguments)
        async with context.database.as_user(context.scope) as conn:
            await runs.append_event(conn, context.run_id, started)
        report_end = end_reporter(context.run_id, started)
        return await execute(
            tools, context, ToolCall(tool, call_id, arguments), started_by=StartedBy.SERVICE, then=report_end
        )

    return call_tool
