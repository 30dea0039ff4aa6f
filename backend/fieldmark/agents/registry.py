"""All agents, by name."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Any

from fieldmark.agents.document.agent import DOCUMENT
from fieldmark.agents.extraction.agent import EXTRACTION
from fieldmark.agents.library.agent import LIBRARY
from fieldmark.agents.offline_rules import NOTE
from fieldmark.agents.second_reading.agent import SECOND_READING
from fieldmark.agents.spec import AgentSpec, Task
from fieldmark.agents.stack.agent import STACK
from fieldmark.db.migrate import AgentRow, AgentTaskRow
from fieldmark.errors import Invalid
from fieldmark.offline_model.messages import OFFLINE, Body, Turn, text

AGENTS: dict[str, AgentSpec] = {agent.name: agent for agent in (EXTRACTION, DOCUMENT, LIBRARY, STACK, SECOND_READING)}


def find_task(name: str) -> tuple[AgentSpec, Task[Any, Any]]:
    """Return the task with a name, and its agent. Raise KeyError if there is none."""
    for agent in AGENTS.values():
        if name in agent.tasks:
            return agent, agent.tasks[name]
    raise KeyError(name)


def check_tools_to_approve(names: Iterable[str]) -> None:
    """Raise Invalid if one of the names is not a tool that can need approval, of any agent."""
    known = {tool.name for agent in AGENTS.values() for tool in agent.toolset.tools.values() if tool.asks}
    for name in set(names) - known:
        raise Invalid(
            f"auto_approved_tools names {name[:100]!r}, which is not a tool that writes. Remove it. "
            f"The tools are: {', '.join(sorted(known))}."
        )


def agent_rows(agents: Iterable[AgentSpec] | None = None) -> list[AgentRow]:
    """Return the rows that `migrate` writes into the database: one per agent, by default of all agents."""
    return [
        AgentRow(
            agent.name,
            agent.approval,
            [
                AgentTaskRow(
                    task.name,
                    task.needs,
                    [key for key, field in task.input.model_fields.items() if field.is_required()],
                    list(task.input.model_fields),
                    task.message is not None,
                    task.approval,
                    task.when_read,
                )
                for task in agent.tasks.values()
            ],
        )
        for agent in (AGENTS.values() if agents is None else agents)
    ]


@contextmanager
def registered(agent: AgentSpec) -> Generator[None]:
    """Register an agent while the block runs, replacing one with the same name. For tests and custom agents."""
    before = AGENTS.get(agent.name)
    AGENTS[agent.name] = agent
    try:
        yield
    finally:
        if before is None:
            del AGENTS[agent.name]
        else:
            AGENTS[agent.name] = before


def answer_offline(body: Body) -> Turn:
    """Return the offline model's reply: that of the first agent whose tools the request offers. The reply always names
    the offline model, whichever model was requested."""
    for agent in AGENTS.values():
        if agent.offline is not None and (said := agent.offline(body)) is not None:
            return Turn(said, model=OFFLINE)
    return Turn([text(f"{NOTE} It has none for this request.")], model=OFFLINE)
