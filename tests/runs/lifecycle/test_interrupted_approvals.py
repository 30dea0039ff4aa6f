"""Runs interrupted while they wait for a decision, or right after it: the call is executed once, as decided, and the
agent receives its result."""

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

STORED_RESULT = "select 1 from public.agent_sessions where entry::text like '%%tool_result%%' and entry::text like %s"
TOTAL = {"path": "total", "value": 10, "confidence": 0.9}


async def run_until_approval(case) -> tuple:
    finished = await case.execute_run(Script([[call("update_field", TOTAL)]]), approval="ask")
    assert (finished.state["status"], finished.state["attached"]) == ("awaiting_approval", False)
    return finished.run_id, finished.state["waiting_call"]


async def decide(case, run_id, approved: bool) -> None:
    (entry,) = case.ledger(run_id)
    await decisions.decide(case.database, case.scope, run_id, ApprovalDecision(entry["id"], approved))


def waiting_runner(case, model, *, max_active: int = 1, seconds: int = 300) -> Runner:
    """Return a worker whose CLIs wait for a decision. No other job waits for their slots."""
    case.sql("set local search_path = queue; update procrastinate_jobs set status = 'doing'")
    service = ModelService(model.base_url, "test-key", None)
    pool = CliPool(service, seconds=300, max_active=max_active)
    limits = {"max_turns": 50, "seconds": seconds, "approval_wait_seconds": 300}
    return Runner(case.database, pool, model="claude-sonnet-5", **limits)


def is_executed_once(case, run_id, approved: bool) -> bool:
    """Return whether the extraction has the decided value, after checking that the call ended once."""
    (entry,) = case.ledger(run_id)
    ends = [event["status"] for event in case.events(run_id) if event.get("status") in ("complete", "error")]
    assert (entry["status"], ends) == (("done", ["complete"]) if approved else ("refused", ["error"]))
    return case.extraction()["extracted_fields"] == ({"total": 10} if approved else {})


async def test_run_requeued_before_the_decision_waits_for_the_same_call(case):
    run_id, call_id = await run_until_approval(case)
    case.sql("update public.runs set status = 'running' where id = %s", run_id)
    finished = await case.execute_run(Script([]), run_id=run_id)
    assert (finished.state["status"], finished.state["waiting_call"]) == ("awaiting_approval", call_id)
    assert finished.requests == [] and not finished.state["attached"]
    await decide(case, run_id, approved=True)  # executed before a worker continues
    assert case.state(run_id)["status"] == "queued" and is_executed_once(case, run_id, approved=True)
    last = await case.execute_run(Script([[], [text("Done.")]]), run_id=run_id)
    assert (last.state["status"], last.state["answer"]) == ("completed", "Done.")
    assert is_executed_once(case, run_id, approved=True) and case.extraction()["version"] == 1


@pytest.mark.parametrize("approved", [True, False])
async def test_waiting_run_survives_its_dead_worker(case, approved):
    run_id = await case.queue_run(approval="ask")
    async with OfflineModel(Script([[call("update_field", TOTAL)]])) as model:
        task = asyncio.create_task(waiting_runner(case, model).execute(run_id))
        await until(lambda: case.state(run_id)["attached"] or task.done())
        before = case.state(run_id)
        assert before["status"] == "awaiting_approval"
        # Restore the database as a worker would leave it that dies here.
        kept = case.sql("select number from public.agent_sessions")
        task.cancel()
        await asyncio.wait({task})
    case.sql("delete from public.agent_sessions where number <> all(%s)", [one["number"] for one in kept])
    case.sql(
        "update public.runs set status = 'awaiting_approval', attached = true, waiting_call = %s where id = %s",
        before["waiting_call"],
        run_id,
    )
    again = await case.execute_run(Script([]), run_id=run_id)  # the job is repeated
    assert again.requests == [] and (again.state["status"], again.state["attached"]) == ("awaiting_approval", False)
    assert again.state["fencing_token"] > before["fencing_token"]
    await decide(case, run_id, approved)
    assert case.state(run_id)["status"] == "queued" and is_executed_once(case, run_id, approved)
    finished = await case.execute_run(lambda body: [text("Done.")], run_id=run_id)
    assert (finished.state["status"], finished.state["answer"]) == ("completed", "Done.")
    assert f"({'done' if approved else 'refused'}): " in json.dumps(finished.requests[0]["messages"])
    assert is_executed_once(case, run_id, approved)


async def test_decision_time_does_not_count_towards_the_deadline(case):
    context = await case.context(await case.queue_run(approval="ask"))
    service = ModelService("http://127.0.0.1:9", "test-key", None)
    monitor = RunMonitor(context, 3, CliPool(service, seconds=60))
    case.sql("update public.runs set status = 'awaiting_approval', attached = true, waiting_call = 'call'")
    with pytest.raises(TimeoutError):
        async with monitor.deadline(2):
            assert not await monitor.wait_for_decision()
            before = time.monotonic()
            await asyncio.sleep(60)
    assert 0.1 < time.monotonic() - before < 30  # the rest of its time


async def test_deadline_does_not_end_a_run_that_awaits_approval(case):
    run_id = await case.queue_run(approval="ask")
    async with OfflineModel(Script([[call("update_field", TOTAL)]])) as model:
        # Without free slots the worker queries whether other jobs wait; the lock blocks that.
        runner = waiting_runner(case, model, max_active=0, seconds=8)
        with psycopg.connect(case.owner_url) as connection:
            connection.execute("lock table queue.procrastinate_jobs in access exclusive mode")
            task = asyncio.create_task(runner.execute(run_id))
            await until(lambda: case.state(run_id)["attached"] or task.done())
            await until(lambda: not runner.pool._active or task.done())
        await asyncio.wait_for(task, 60)
    assert (case.state(run_id)["status"], case.state(run_id)["attached"]) == ("awaiting_approval", False)
    await decide(case, run_id, approved=True)
    finished = await case.execute_run(lambda body: [text("Done.")], run_id=run_id)
    assert finished.state["status"] == "completed" and is_executed_once(case, run_id, approved=True)


@pytest.mark.real_cli("crashes")
async def test_cli_crash_during_a_decision_does_not_end_the_run(case):
    run_id = await case.queue_run(approval="ask")
    async with OfflineModel(Script([[call("update_field", TOTAL)]])) as model:
        task = asyncio.create_task(waiting_runner(case, model).execute(run_id))
        await until(lambda: case.state(run_id)["attached"] or task.done())
        for cli in cli_processes():
            cli.send_signal(signal.SIGABRT)
        await asyncio.wait_for(task, 60)
    assert (case.state(run_id)["status"], case.state(run_id)["attached"]) == ("awaiting_approval", False)
    await decide(case, run_id, approved=True)
    finished = await case.execute_run(lambda body: [text("Done.")], run_id=run_id)
    assert finished.state["status"] == "completed" and is_executed_once(case, run_id, approved=True)


async def test_failed_run_refuses_its_pending_call(case):
    run_id, _ = await run_until_approval(case)
    async with case.database.as_user(case.scope) as conn:
        await runs.finish(conn, run_id, RunStatus.FAILED, error="Failed.", error_code="unsealed")
    assert [entry["status"] for entry in case.ledger(run_id)] == ["refused"]
    with pytest.raises(Conflict):
        await decide(case, run_id, approved=True)


async def test_decision_while_the_cli_waits_continues_at_once(case):
    run_id = await case.queue_run(approval="ask")
    async with OfflineModel(Script([[call("update_field", TOTAL)], [text("Done.")]])) as model:
        task = asyncio.create_task(waiting_runner(case, model).execute(run_id))
        await until(lambda: case.state(run_id)["attached"] or task.done())
        await decide(case, run_id, approved=True)
        with pytest.raises(Conflict):  # already decided
            await decide(case, run_id, approved=True)
        await asyncio.wait_for(task, 120)
    state = case.state(run_id)
    assert (state["status"], state["answer"], state["fencing_token"]) == ("completed", "Done.", 1)
    assert len(model.requests) == 2 and is_executed_once(case, run_id, approved=True)


@pytest.mark.real_cli("kills")
async def test_run_killed_right_after_a_decision_continues(case):
    run_id, call_id = await run_until_approval(case)
    await decide(case, run_id, approved=True)

    async def killed(body):
        await until(lambda: case.sql(STORED_RESULT, f"%{call_id}%"))  # the result is in the conversation
        for cli in cli_processes():
            cli.kill()
        return []

    with pytest.raises(Unavailable):
        await case.execute_run(Script([[], killed]), run_id=run_id)
    finished = await case.execute_run(lambda body: [text("Done.")], run_id=run_id, seconds=60)
    assert (finished.state["status"], finished.state["answer"]) == ("completed", "Done.")
    # After a crash the agent receives the results of all decided calls again.
    messages = json.dumps(finished.requests[0]["messages"])
    assert "started before" in messages and "(done): " in messages and is_executed_once(case, run_id, approved=True)
