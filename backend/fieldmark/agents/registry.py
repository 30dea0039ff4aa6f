"""All agents, by name."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Any

from fieldmark.agents.document.agent import DOCUMENT
from fieldmark.agents.extraction.agent import EXTRACTION
from fieldmark.agents.library.agent import LIBRARY
from fieldmark.agents.offline_rules import NOTE
from fieldmark.agents.spec import AgentSpec, Task
from fieldmark.db.migrate import AgentRow, AgentTaskRow
from fieldmark.offline_model.messages import OFFLINE, Body, Turn, text

AGENTS: dict[str, AgentSpec] = {agent.name: agent for agent in (EXTRACTION, DOCUMENT, LIBRARY)}


def find_task(name: str) -> tuple[AgentSpec, Task[Any, Any]]:
    """The task of a name, and the agent that does it. Raises KeyError."""
    for agent in AGENTS.values():
        if name in agent.tasks:
            return agent, agent.tasks[name]
    raise KeyError(name)


def agent_rows(agents: Iterable[AgentSpec] | None = None) -> list[AgentRow]:
    """Return what the database is to know of agents, of all that are registered by default. `migrate` writes it."""
    return [
        AgentRow(
            agent.name,
            agent.approval,
            [
                AgentTaskRow(task.name, task.needs, task.message is not None, task.approval, task.when_read)
                for task in agent.tasks.values()
            ],
        )
        for agent in (AGENTS.values() if agents is None else agents)
    ]


@contextmanager
def registered(agent: AgentSpec) -> Generator[None]:
    """One agent more while the block lasts, or another in the place of one: for tests, and for whoever brings an agent
    of their own."""
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
    """What the offline model says, in its own name whichever model was asked for: the agent that knows the request by
    its tools answers it."""
    for agent in AGENTS.values():
        if agent.offline is not None and (said := agent.offline(body)) is not None:
            return Turn(said, model=OFFLINE)
    return Turn([text(f"{NOTE} It has none for this request.")], model=OFFLINE)
