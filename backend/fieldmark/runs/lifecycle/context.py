"""The context that a run's tools get, whether a worker runs it or a person decides one of its calls."""

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
from fieldmark.tools.ledger import By, ToolCall, ToolOutcome, execute


def run_context(database: Database, scope: Scope, run: RunRow) -> RunContext:
    """The context of a run. Raises Invalid where its input is none of its task's, or nobody here knows its task: the
    database may be another version's."""
    agent = AGENTS.get(run.agent)
    task = None if agent is None else agent.tasks.get(run.task)
    if agent is None or task is None:
        raise Invalid(f"There is no task {run.task!r} of an agent {run.agent!r}.")
    given = task.parse(run)
    message = None if task.message is None else task.message(given)
    return RunContext(database, scope, run, message, start_run=start_child)


def service_calls(context: RunContext) -> CallTool:
    """Calls that the service makes for a run: in the ledger, and reported, like the model's."""
    tools, numbers = AGENTS[context.run.agent].create_tools(context), count(1)

    async def make(tool: str, arguments: dict[str, JsonValue]) -> ToolOutcome:
        call_id = f"fallback_{context.fencing_token}_{next(numbers)}"
        begun = tool_event(tools, tool, call_id, arguments)
        async with context.database.as_user(context.scope) as conn:
            await runs.append_event(conn, context.run_id, begun)
        then = end_reporter(context.run_id, begun)
        return await execute(tools, context, ToolCall(tool, call_id, arguments), by=By.SERVICE, then=then)

    return make
