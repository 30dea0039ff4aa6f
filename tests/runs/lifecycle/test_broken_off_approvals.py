"""A run that is broken off where it waits for a person, or right after what that person decided: the call is made once,
as decided, and the agent hears of it."""

from __future__ import annotations

import asyncio
import json
import signal
import time

import psycopg
import pytest

from child_processes import cli_processes
from extraction_case import until
from fieldmark.domain.statuses import RunStatus
from fieldmark.errors import Conflict, Unavailable
from fieldmark.offline_model.messages import call, text
from fieldmark.offline_model.server import OfflineModel
from fieldmark.runs.engine.options import ModelService
from fieldmark.runs.engine.pool import CliPool
from fieldmark.runs.lifecycle import decisions
from fieldmark.runs.lifecycle.decisions import ApprovalDecision
from fieldmark.runs.monitor import RunMonitor
from fieldmark.runs.run import Runner
from fieldmark.stores import runs
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio

TOLD = "select 1 from public.agent_sessions where entry::text like '%%tool_result%%' and entry::text like %s"
TOTAL = {"path": "total", "value": 10, "confidence": 0.9}


async def proposed(case) -> tuple:
    """A run that waits for a person, and the call that it waits for."""
    finished = await case.execute_run(Script([[call("update_field", TOTAL)]]), approval="ask")
    assert (finished.state["status"], finished.state["attached"]) == ("awaiting_approval", False)
    return finished.run_id, finished.state["waiting_call"]


async def decide(case, run_id, approved: bool) -> None:
    (entry,) = case.ledger(run_id)
    await decisions.decide(case.database, case.scope, run_id, ApprovalDecision(entry["id"], approved))


def patient(case, model, *, max_active: int = 1, seconds: int = 300) -> Runner:
    """A worker whose CLIs stay for a decision: nobody else waits for their places."""
    case.sql("set search_path = queue; update procrastinate_jobs set status = 'doing'")
    service = ModelService(model.base_url, "test-key", None)
    pool = CliPool(service, seconds=300, max_active=max_active)
    limits = {"max_turns": 50, "seconds": seconds, "approval_wait_seconds": 300}
    return Runner(case.database, pool, model="claude-sonnet-5", **limits)


def once(case, run_id, approved: bool) -> bool:
    """Whether the call was made once, as decided, and its end told once."""
    (entry,) = case.ledger(run_id)
    ends = [event["status"] for event in case.events(run_id) if event.get("status") in ("complete", "error")]
    assert (entry["status"], ends) == (("done", ["complete"]) if approved else ("refused", ["error"]))
    return case.extraction()["extracted_fields"] == ({"total": 10} if approved else {})


async def test_run_requeued_before_the_decision_waits_for_the_same_call(case):
    run_id, call_id = await proposed(case)
    case.sql("update public.runs set status = 'running' where id = %s", run_id)
    finished = await case.execute_run(Script([]), run_id=run_id)
    assert (finished.state["status"], finished.state["waiting_call"]) == ("awaiting_approval", call_id)
    assert finished.requests == [] and not finished.state["attached"]
    await decide(case, run_id, approved=True)  # which is done before anybody works on
    assert case.state(run_id)["status"] == "queued" and once(case, run_id, approved=True)
    last = await case.execute_run(Script([[], [text("Done.")]]), run_id=run_id)
    assert (last.state["status"], last.state["answer"]) == ("completed", "Done.")
    assert once(case, run_id, approved=True) and case.extraction()["version"] == 1


@pytest.mark.parametrize("approved", [True, False])
async def test_waiting_run_survives_its_dead_worker(case, approved):
    run_id = await case.queue_run(approval="ask")
    async with OfflineModel(Script([[call("update_field", TOTAL)]])) as model:
        task = asyncio.create_task(patient(case, model).execute(run_id))
        await until(lambda: case.state(run_id)["attached"] or task.done())
        before = case.state(run_id)
        assert before["status"] == "awaiting_approval"
        # The database as a worker leaves it that dies here: whatever this one says of its end is undone.
        kept = case.sql("select number from public.agent_sessions")
        task.cancel()
        await asyncio.wait({task})
    case.sql("delete from public.agent_sessions where number <> all(%s)", [one["number"] for one in kept])
    case.sql(
        "update public.runs set status = 'awaiting_approval', attached = true, waiting_call = %s where id = %s",
        before["waiting_call"],
        run_id,
    )
    again = await case.execute_run(Script([]), run_id=run_id)  # its job comes again
    assert again.requests == [] and (again.state["status"], again.state["attached"]) == ("awaiting_approval", False)
    assert again.state["fencing_token"] > before["fencing_token"]
    await decide(case, run_id, approved)
    assert case.state(run_id)["status"] == "queued" and once(case, run_id, approved)
    finished = await case.execute_run(lambda body: [text("Done.")], run_id=run_id)
    assert (finished.state["status"], finished.state["answer"]) == ("completed", "Done.")
    assert f"({'done' if approved else 'refused'}): " in json.dumps(finished.requests[0]["messages"])
    assert once(case, run_id, approved)


async def test_decision_time_does_not_count_towards_the_deadline(case):
    context = await case.context(await case.queue_run(approval="ask"))
    service = ModelService("http://127.0.0.1:9", "test-key", None)
    monitor = RunMonitor(context, 1, CliPool(service, seconds=60))
    case.sql("update public.runs set status = 'awaiting_approval', attached = true, waiting_call = 'call'")
    with pytest.raises(TimeoutError):
        async with monitor.deadline(0.5):
            assert not await monitor.wait_for_decision()
            before = time.monotonic()
            await asyncio.sleep(60)
    assert 0.2 < time.monotonic() - before < 30  # what was left of its time it has


async def test_deadline_does_not_end_a_run_that_awaits_approval(case):
    run_id = await case.queue_run(approval="ask")
    async with OfflineModel(Script([[call("update_field", TOTAL)]])) as model:
        # No room for it to wait, so the worker asks whether others wait, which it is kept from.
        runner = patient(case, model, max_active=0, seconds=4)
        with psycopg.connect(case.owner_url) as held:
            held.execute("lock table queue.procrastinate_jobs in access exclusive mode")
            task = asyncio.create_task(runner.execute(run_id))
            await until(lambda: case.state(run_id)["attached"] or task.done())
            await until(lambda: not runner.pool._active or task.done())
        await asyncio.wait_for(task, 60)
    assert (case.state(run_id)["status"], case.state(run_id)["attached"]) == ("awaiting_approval", False)
    await decide(case, run_id, approved=True)
    finished = await case.execute_run(lambda body: [text("Done.")], run_id=run_id)
    assert finished.state["status"] == "completed" and once(case, run_id, approved=True)


@pytest.mark.real_cli("it crashes")
@pytest.mark.parametrize("approved", [True, False])
async def test_cli_crash_during_a_decision_does_not_end_the_run(case, approved):
    run_id = await case.queue_run(approval="ask")
    async with OfflineModel(Script([[call("update_field", TOTAL)]])) as model:
        task = asyncio.create_task(patient(case, model).execute(run_id))
        await until(lambda: case.state(run_id)["attached"] or task.done())
        for cli in cli_processes():
            cli.send_signal(signal.SIGABRT)
        await asyncio.wait_for(task, 60)
    assert (case.state(run_id)["status"], case.state(run_id)["attached"]) == ("awaiting_approval", False)
    await decide(case, run_id, approved)
    finished = await case.execute_run(lambda body: [text("Done.")], run_id=run_id)
    assert finished.state["status"] == "completed" and once(case, run_id, approved)


async def test_failed_run_refuses_its_pending_call(case):
    run_id, _ = await proposed(case)
    async with case.database.as_user(case.scope) as conn:
        await runs.finish(conn, run_id, RunStatus.FAILED, error="It is not sealed.", error_code="unsealed")
    assert [entry["status"] for entry in case.ledger(run_id)] == ["refused"]
    with pytest.raises(Conflict):
        await decide(case, run_id, approved=True)


async def test_decision_while_the_cli_waits_continues_at_once(case):
    run_id = await case.queue_run(approval="ask")
    async with OfflineModel(Script([[call("update_field", TOTAL)], [text("Done.")]])) as model:
        task = asyncio.create_task(patient(case, model).execute(run_id))
        await until(lambda: case.state(run_id)["attached"] or task.done())
        await decide(case, run_id, approved=True)
        with pytest.raises(Conflict):  # it waits no more
            await decide(case, run_id, approved=True)
        await asyncio.wait_for(task, 120)
    state = case.state(run_id)
    assert (state["status"], state["answer"], state["fencing_token"]) == ("completed", "Done.", 1)
    assert len(model.requests) == 2 and once(case, run_id, approved=True)


@pytest.mark.real_cli("it is killed")
async def test_run_killed_right_after_a_decision_continues(case):
    run_id, call_id = await proposed(case)
    await decide(case, run_id, approved=True)

    async def killed(body):
        await until(lambda: case.sql(TOLD, f"%{call_id}%"))  # what was decided is in the conversation
        for cli in cli_processes():
            cli.kill()
        return []

    with pytest.raises(Unavailable):
        await case.execute_run(Script([[], killed]), run_id=run_id)
    finished = await case.execute_run(lambda body: [text("Done.")], run_id=run_id, seconds=60)
    assert (finished.state["status"], finished.state["answer"]) == ("completed", "Done.")
    # After a crash the agent is told of every call that was decided, whether or not it has heard of it.
    said = json.dumps(finished.requests[0]["messages"])
    assert "started before" in said and "(done): " in said and once(case, run_id, approved=True)
