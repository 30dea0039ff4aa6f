"""The agents that the database knows are those of the code: `migrate` writes them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import psycopg

from fieldmark.agents.registry import agent_rows
from fieldmark.db.migrate import migrate


def test_migrate_writes_and_updates_agents(clone: Any) -> None:
    rows = agent_rows()
    for wanted in (rows, [replace(rows[0], approval="ask"), *rows[1:]]):
        asyncio.run(migrate(clone.owner_url, agents=wanted))
        with psycopg.connect(clone.owner_url) as owner:
            agents = owner.execute("select name, approval from private.agents").fetchall()
            tasks = owner.execute(
                "select agent, task, needs, speaks, approval, when_read from private.agent_tasks"
            ).fetchall()
        assert dict(agents) == {one.name: one.approval for one in wanted}
        assert sorted(tasks, key=str) == sorted(
            (
                (one.name, task.task, [*task.needs], task.speaks, task.approval, task.when_read)
                for one in wanted
                for task in one.tasks
            ),
            key=str,
        )
