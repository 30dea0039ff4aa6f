"""The agents that the database knows are those of the code."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg

from fieldmark.agents.registry import AGENTS
from fieldmark.db.migrate import migrate


def test_the_database_knows_every_agent_and_whether_it_asks(clone: Any) -> None:
    asyncio.run(migrate(clone.owner_url))
    with psycopg.connect(clone.owner_url) as owner:
        known = owner.execute("select name, approval from private.agents").fetchall()
        asking = owner.execute("select task, approval from private.agent_tasks").fetchall()
        without_tasks = owner.execute(
            "select name from private.agents where name not in (select agent from private.agent_tasks)"
        ).fetchall()
    assert dict(known) == {name: spec.approval for name, spec in AGENTS.items()}
    assert without_tasks == []
    assert dict(asking) == {name: task.approval for spec in AGENTS.values() for name, task in spec.tasks.items()}
