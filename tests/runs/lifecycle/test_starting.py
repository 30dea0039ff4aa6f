"""Input of runs. Front ends insert rows too: an invalid row fails its run with a code."""

from __future__ import annotations

from uuid import uuid4

import pytest

from fieldmark.errors import Invalid
from fieldmark.offline_model.messages import text
from fieldmark.runs.billing.prices import Prices
from fieldmark.runs.lifecycle import launch
from fieldmark.stores import runs
from fieldmark.stores.runs import Subject
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio

DONE = Script([[text("Done.")]])
PRICES = Prices("claude-sonnet-5", None, offline=False)


async def add_run(case, *, agent="extraction", task="extract", task_input=None, subject=None):
    subject = subject or Subject(case.document_id, case.extraction_id)
    async with case.database.as_user(case.scope) as conn:
        return await runs.add(
            conn, case.scope, id=uuid4(), agent=agent, task=task, task_input=task_input or {}, subject=subject
        )


@pytest.mark.parametrize(("task", "task_input"), [("extract", {"instructions": 1}), ("correct", {"message": 1})])
async def test_run_with_invalid_input_fails_with_a_code(case, task, task_input):
    run_id = await add_run(case, task=task, task_input=task_input)
    finished = await case.execute_run(DONE, run_id=run_id)
    assert finished.requests == [] and case.extraction()["version"] == 0
    assert (finished.state["status"], finished.state["error_code"]) == ("failed", "invalid_input")
    assert finished.state["finished_at"] is not None
    assert [event["type"] for event in finished.events] == ["run", "error"]
    assert (finished.events[-1]["code"], finished.events[-1]["error"]) == ("invalid_input", finished.state["error"])


async def test_run_of_an_unknown_agent_fails_with_a_code(case):
    case.sql("insert into private.agents (name, approval) values ('ghost', 'auto') returning 1")
    case.sql("insert into private.agent_tasks (agent, task, needs) values ('ghost', 'haunt', '{}') returning 1")
    case.sql("insert into private.agent_tasks (agent, task, needs) values ('extraction', 'haunt', '{}') returning 1")
    for agent in ("ghost", "extraction"):
        run_id = await add_run(case, agent=agent, task="haunt", subject=Subject())
        finished = await case.execute_run(DONE, run_id=run_id)
        assert finished.requests == []
        assert (finished.state["status"], finished.state["error_code"]) == ("failed", "invalid_input")
        assert finished.events[-1]["code"] == "invalid_input"


async def test_request_is_validated_by_its_task(case):
    extract = {"document_id": str(case.document_id)}
    with pytest.raises(KeyError):
        launch.parse_request("haunt", extract)
    for task_input in ({}, extract | {"bogus": 1}, {"document_id": 7}):
        with pytest.raises(Invalid):
            launch.parse_request("extract", task_input)
    request = launch.parse_request("extract", extract)
    assert await launch.start(case.database, case.scope, "extract", request, prices=PRICES)
