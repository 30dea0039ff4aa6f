"""What a run may be begun with. A front end inserts rows too: what is wrong is refused, or ends the run and says so."""

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


async def add(desk, *, agent="extraction", task="extract", given=None, subject=None):
    subject = subject or Subject(desk.document_id, desk.extraction_id)
    async with desk.database.as_user(desk.scope) as conn:
        return await runs.add(
            conn, desk.scope, id=uuid4(), agent=agent, task=task, task_input=given or {}, subject=subject
        )


@pytest.mark.parametrize(("task", "given"), [("extract", {"bogus": 1}), ("correct", {})])
async def test_a_run_whose_input_is_none_of_its_task_s_fails_and_says_so(desk, task, given):
    run_id = await add(desk, task=task, given=given)
    worked = await desk.work(DONE, run_id=run_id)
    assert worked.requests == [] and desk.extraction()["version"] == 0
    assert (worked.state["status"], worked.state["error_code"]) == ("failed", "invalid_input")
    assert worked.state["finished_at"] is not None
    assert [event["type"] for event in worked.events] == ["run", "error"]
    assert (worked.events[-1]["code"], worked.events[-1]["error"]) == ("invalid_input", worked.state["error"])


async def test_a_run_of_an_agent_that_this_worker_has_not_fails_and_says_so(desk):
    """The database may be a version ahead of a worker, or behind it."""
    desk.sql("insert into private.agents (name, approval) values ('ghost', 'auto') returning 1")
    desk.sql("insert into private.agent_tasks (agent, task, needs) values ('ghost', 'haunt', '{}') returning 1")
    desk.sql("insert into private.agent_tasks (agent, task, needs) values ('extraction', 'haunt', '{}') returning 1")
    for agent in ("ghost", "extraction"):
        run_id = await add(desk, agent=agent, task="haunt", subject=Subject())
        worked = await desk.work(DONE, run_id=run_id)
        assert worked.requests == []
        assert (worked.state["status"], worked.state["error_code"]) == ("failed", "invalid_input")
        assert worked.events[-1]["code"] == "invalid_input"


async def test_a_task_is_asked_for_by_name_with_what_it_takes(desk):
    extract = {"document_id": str(desk.document_id)}
    with pytest.raises(KeyError):
        launch.request_of("haunt", extract)
    for given in ({}, extract | {"bogus": 1}, {"document_id": 7}):
        with pytest.raises(Invalid):
            launch.request_of("extract", given)
    request = launch.request_of("extract", extract)
    assert await launch.start(desk.database, desk.scope, "extract", request, prices=PRICES)
