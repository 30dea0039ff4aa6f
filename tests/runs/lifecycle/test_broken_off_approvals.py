"""A run that is broken off where it waits for a person, or right after what that person decided: the call is made once,
as decided, and the agent hears of it."""

from __future__ import annotations

import asyncio
import json
import signal
import time

import psycopg
import pytest

from desk import until
from fieldmark.domain.statuses import RunStatus
from fieldmark.errors import Conflict, Unavailable
from fieldmark.offline_model.messages import call, text
from fieldmark.offline_model.server import OfflineModel
from fieldmark.runs.engine.options import ModelService
from fieldmark.runs.engine.pool import CliPool
from fieldmark.runs.lifecycle import decisions
from fieldmark.runs.lifecycle.decisions import Decision
from fieldmark.runs.monitor import RunMonitor
from fieldmark.runs.run import Runner
from fieldmark.stores import runs
from fieldmark.testing.script import Script
from living import clis

pytestmark = pytest.mark.anyio

TOLD = "select 1 from public.agent_sessions where entry::text like '%%tool_result%%' and entry::text like %s"
TOTAL = {"path": "total", "value": 10, "confidence": 0.9}


async def proposed(desk) -> tuple:
    """A run that waits for a person, and the call that it waits for."""
    worked = await desk.work(Script([[call("update_field", TOTAL)]]), approval="ask")
    assert (worked.state["status"], worked.state["attached"]) == ("awaiting_approval", False)
    return worked.run_id, worked.state["waiting_call"]


async def decide(desk, run_id, approved: bool) -> None:
    (entry,) = desk.ledger(run_id)
    await decisions.decide(desk.database, desk.scope, run_id, Decision(entry["id"], approved))


def patient(desk, model, *, most_at_work: int = 1, seconds: int = 300) -> Runner:
    """A worker whose CLIs stay for a decision: nobody else waits for their places."""
    desk.sql("set search_path = queue; update procrastinate_jobs set status = 'doing'")
    service = ModelService(model.base_url, "test-key", None)
    pool = CliPool(service, seconds=300, most_at_work=most_at_work)
    limits = {"max_turns": 50, "seconds": seconds, "approval_wait_seconds": 300}
    return Runner(desk.database, pool, model="claude-sonnet-5", **limits)


def once(desk, run_id, approved: bool) -> bool:
    """Whether the call was made once, as decided, and its end told once."""
    (entry,) = desk.ledger(run_id)
    ends = [event["status"] for event in desk.events(run_id) if event.get("status") in ("complete", "error")]
    assert (entry["status"], ends) == (("done", ["complete"]) if approved else ("refused", ["error"]))
    return desk.extraction()["extracted_fields"] == ({"total": 10} if approved else {})


async def test_put_to_work_before_it_is_decided_it_waits_for_the_same_call(desk):
    run_id, call_id = await proposed(desk)
    desk.sql("update public.runs set status = 'running' where id = %s", run_id)
    worked = await desk.work(Script([]), run_id=run_id)
    assert (worked.state["status"], worked.state["waiting_call"]) == ("awaiting_approval", call_id)
    assert worked.requests == [] and not worked.state["attached"]
    await decide(desk, run_id, approved=True)  # which is done before anybody works on
    assert desk.state(run_id)["status"] == "queued" and once(desk, run_id, approved=True)
    last = await desk.work(Script([[], [text("Done.")]]), run_id=run_id)
    assert (last.state["status"], last.state["answer"]) == ("completed", "Done.")
    assert once(desk, run_id, approved=True) and desk.extraction()["version"] == 1


@pytest.mark.parametrize("approved", [True, False])
async def test_whose_worker_died_beside_its_cli_waits_on_and_the_agent_is_told_what_was_decided(desk, approved):
    run_id = await desk.run(approval="ask")
    async with OfflineModel(Script([[call("update_field", TOTAL)]])) as model:
        task = asyncio.create_task(patient(desk, model).execute(run_id))
        await until(lambda: desk.state(run_id)["attached"] or task.done())
        before = desk.state(run_id)
        assert before["status"] == "awaiting_approval"
        # The database as a worker leaves it that dies here: whatever this one says of its end is undone.
        kept = desk.sql("select number from public.agent_sessions")
        task.cancel()
        await asyncio.wait({task})
    desk.sql("delete from public.agent_sessions where number <> all(%s)", [one["number"] for one in kept])
    desk.sql(
        "update public.runs set status = 'awaiting_approval', attached = true, waiting_call = %s where id = %s",
        before["waiting_call"],
        run_id,
    )
    again = await desk.work(Script([]), run_id=run_id)  # its job comes again
    assert again.requests == [] and (again.state["status"], again.state["attached"]) == ("awaiting_approval", False)
    assert again.state["fencing_token"] > before["fencing_token"]
    await decide(desk, run_id, approved)
    assert desk.state(run_id)["status"] == "queued" and once(desk, run_id, approved)
    worked = await desk.work(lambda body: [text("Done.")], run_id=run_id)
    assert (worked.state["status"], worked.state["answer"]) == ("completed", "Done.")
    assert f"({'done' if approved else 'refused'}): " in json.dumps(worked.requests[0]["messages"])
    assert once(desk, run_id, approved)


async def test_time_in_which_a_person_decides_does_not_count_as_the_run_s(desk):
    context = await desk.context(await desk.run(approval="ask"))
    service = ModelService("http://127.0.0.1:9", "test-key", None)
    monitor = RunMonitor(context, 1, CliPool(service, seconds=60))
    desk.sql("update public.runs set status = 'awaiting_approval', attached = true, waiting_call = 'call'")
    with pytest.raises(TimeoutError):
        async with monitor.deadline(0.5):
            assert not await monitor.wait_for_decision()
            before = time.monotonic()
            await asyncio.sleep(60)
    assert 0.2 < time.monotonic() - before < 30  # what was left of its time it has


async def test_a_deadline_does_not_end_a_run_that_has_just_asked_a_person(desk):
    run_id = await desk.run(approval="ask")
    async with OfflineModel(Script([[call("update_field", TOTAL)]])) as model:
        # No room for it to wait, so the worker asks whether others wait, which it is kept from.
        runner = patient(desk, model, most_at_work=0, seconds=4)
        with psycopg.connect(desk.owner_url) as held:
            held.execute("lock table queue.procrastinate_jobs in access exclusive mode")
            task = asyncio.create_task(runner.execute(run_id))
            await until(lambda: desk.state(run_id)["attached"] or task.done())
            await until(lambda: not runner.pool._at_work or task.done())
        await asyncio.wait_for(task, 60)
    assert (desk.state(run_id)["status"], desk.state(run_id)["attached"]) == ("awaiting_approval", False)
    await decide(desk, run_id, approved=True)
    worked = await desk.work(lambda body: [text("Done.")], run_id=run_id)
    assert worked.state["status"] == "completed" and once(desk, run_id, approved=True)


@pytest.mark.real_cli("it crashes")
@pytest.mark.parametrize("approved", [True, False])
async def test_a_cli_that_crashes_while_a_person_decides_does_not_end_its_run(desk, approved):
    run_id = await desk.run(approval="ask")
    async with OfflineModel(Script([[call("update_field", TOTAL)]])) as model:
        task = asyncio.create_task(patient(desk, model).execute(run_id))
        await until(lambda: desk.state(run_id)["attached"] or task.done())
        for cli in clis():
            cli.send_signal(signal.SIGABRT)
        await asyncio.wait_for(task, 60)
    assert (desk.state(run_id)["status"], desk.state(run_id)["attached"]) == ("awaiting_approval", False)
    await decide(desk, run_id, approved)
    worked = await desk.work(lambda body: [text("Done.")], run_id=run_id)
    assert worked.state["status"] == "completed" and once(desk, run_id, approved)


async def test_a_run_that_fails_refuses_the_call_that_no_one_has_decided(desk):
    run_id, _ = await proposed(desk)
    async with desk.database.as_user(desk.scope) as conn:
        await runs.finish(conn, run_id, RunStatus.FAILED, error="It is not sealed.", error_code="unsealed")
    assert [entry["status"] for entry in desk.ledger(run_id)] == ["refused"]
    with pytest.raises(Conflict):
        await decide(desk, run_id, approved=True)


async def test_decided_beside_its_cli_it_goes_on_at_once(desk):
    run_id = await desk.run(approval="ask")
    async with OfflineModel(Script([[call("update_field", TOTAL)], [text("Done.")]])) as model:
        task = asyncio.create_task(patient(desk, model).execute(run_id))
        await until(lambda: desk.state(run_id)["attached"] or task.done())
        await decide(desk, run_id, approved=True)
        with pytest.raises(Conflict):  # it waits no more
            await decide(desk, run_id, approved=True)
        await asyncio.wait_for(task, 120)
    state = desk.state(run_id)
    assert (state["status"], state["answer"], state["fencing_token"]) == ("completed", "Done.", 1)
    assert len(model.requests) == 2 and once(desk, run_id, approved=True)


@pytest.mark.real_cli("it is killed")
async def test_killed_before_it_is_known_that_a_decision_was_told_it_goes_on(desk):
    run_id, call_id = await proposed(desk)
    await decide(desk, run_id, approved=True)

    async def killed(body):
        await until(lambda: desk.sql(TOLD, f"%{call_id}%"))  # what was decided is in the conversation
        for cli in clis():
            cli.kill()
        return []

    with pytest.raises(Unavailable):
        await desk.work(Script([[], killed]), run_id=run_id)
    worked = await desk.work(lambda body: [text("Done.")], run_id=run_id, seconds=60)
    assert (worked.state["status"], worked.state["answer"]) == ("completed", "Done.")
    # After a crash the agent is told of every call that was decided, whether or not it has heard of it.
    said = json.dumps(worked.requests[0]["messages"])
    assert "begun before" in said and "(done): " in said and once(desk, run_id, approved=True)
