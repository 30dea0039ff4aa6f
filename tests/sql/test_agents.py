"""`fieldmark migrate` writes the agents of the code to the database."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import psycopg

from fieldmark.agents.registry import agent_rows
from fieldmark.db.migrate import migrate


def test_migrate_writes_and_updates_agents(clone: Any) -> None:
    rows = agent_rows()
    for expected in (rows, [replace(rows[0], approval="ask"), *rows[1:]]):
        asyncio.run(migrate(clone.owner_url, agents=expected))
        with psycopg.connect(clone.owner_url) as owner:
            agents = owner.execute("select name, approval from private.agents").fetchall()
            tasks = owner.execute(
                "select agent, task, needs, is_message, approval, when_read from private.agent_tasks"
            ).fetchall()
        assert dict(agents) == {agent.name: agent.approval for agent in expected}
        assert sorted(tasks, key=str) == sorted(
            (
                (agent.name, task.task, [*task.needs], task.is_message, task.approval, task.when_read)
                for agent in expected
                for task in agent.tasks
            ),
            key=str,
        )
