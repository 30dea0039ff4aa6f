"""A run whose worker, user, document or database is lost in the middle: nothing more is written, and it ends."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import pytest

from extraction_case import sql, until, update_call
from fieldmark.errors import Unavailable
from fieldmark.offline_model.messages import call, text
from fieldmark.runs.claim import MAX_CLAIMS, MAX_CONSECUTIVE_FAILURES
from fieldmark.testing.script import Script, repeat_forever

pytestmark = pytest.mark.anyio

TAKEN_AWAY = "update public.runs set fencing_token = fencing_token + 1 where id = %s"


def script(case, query: str, *parameters):
    """A write, then something happens to the run, then another write."""

    async def in_between(body):
        # In a thread, because it may wait for a transaction that this loop has open.
        await asyncio.to_thread(case.sql, query, *parameters)
        return [update_call("second")]

    return Script([[update_call("first")], in_between, [text("Done.")]])


async def test_both_writes_happen_without_a_fault(case):
    conversation = "select entry from public.agent_sessions"

    async def done(body):
        await until(lambda: "'second'" in str(case.sql(conversation)))
        return [text("Done.")]

    finished = await case.execute_run(Script([[update_call("first")], [update_call("second")], done]))
    assert finished.state["status"] == "completed" and case.extraction()["version"] == 2
    assert case.sql(conversation) == []  # nobody goes on with it


async def test_worker_that_lost_the_run_writes_nothing(case):
    run_id = await case.queue_run()
    finished = await case.execute_run(script(case, TAKEN_AWAY, run_id), run_id=run_id)
    assert case.extraction()["extracted_fields"] == {"first": 1}
    assert finished.state["status"] == "running"  # the other worker's to end
    assert not [event for event in finished.events if event["type"] in ("complete", "error")]
    assert [entry["status"] for entry in finished.ledger] == ["done"]
    assert "'second'" not in str(case.sql("select entry from public.agent_sessions"))


@pytest.mark.parametrize(
    "then", [repeat_forever([call("get_document_text")]), []], ids=["in the middle", "at its very end"]
)
async def test_worker_that_lost_the_run_stops_and_does_not_end_it(case, then):
    run_id = await case.queue_run()

    async def lose(body):
        await asyncio.to_thread(case.sql, TAKEN_AWAY, run_id)
        return [call("get_document_text")] if then else []  # no word that an event would tell of

    finished = await case.execute_run(Script([lose, then]), run_id=run_id, max_turns=40)
    assert len(finished.requests) < 10 and finished.state["status"] == "running"
    assert not [event for event in finished.events if "complete" in event or "code" in event]


async def test_run_ended_during_its_execution_keeps_its_status(case):
    run_id = await case.queue_run()
    finished = await case.execute_run(
        script(case, "update public.runs set status = 'cancelled' where id = %s", run_id), run_id=run_id
    )
    assert case.extraction()["extracted_fields"] == {"first": 1} and finished.state["status"] == "cancelled"


@pytest.mark.parametrize("table", ["extractions", "documents"])
async def test_deleting_the_subject_ends_the_run(case, table):
    row = case.extraction_id if table == "extractions" else case.document_id
    run_id = await case.queue_run()
    await case.execute_run(script(case, f"delete from public.{table} where id = %s", row), run_id=run_id)
    for left in ("runs", "run_events", "tool_calls", "agent_sessions", "extractions", "extraction_journal"):
        assert case.sql(f"select 1 from public.{left}") == []


@pytest.mark.parametrize(
    "leaves",
    ["delete from auth.users where id = %s", "update public.memberships set role = 'viewer' where user_id = %s"],
    ids=["leaves", "only reads"],
)
async def test_run_ends_if_its_user_loses_write_access(case, leaves):
    other, next_run = uuid4(), await case.queue_run(background=True)
    case.sql("insert into auth.users (id) values (%s)", other)
    owns = "insert into public.memberships (org_id, user_id, role) values (%s, %s, 'owner')"
    case.sql(owns, case.scope.org_id, other)
    finished = await (await case.another_extraction()).execute_run(script(case, leaves, case.scope.user_id))
    fields = "select extracted_fields as fields from public.extractions where extracted_fields <> '{}'"
    assert case.sql(fields) == [{"fields": {"first": 1}}]
    # Those who stay see it end, and the next one never begins.
    assert (finished.state["status"], finished.events[-1]["code"]) == ("cancelled", "cancelled")
    waiting = await case.execute_run(Script([[text("Done.")]]), run_id=next_run)
    assert waiting.requests == [] and waiting.state["error_code"] == "cancelled"


async def test_job_of_a_deleted_or_ended_run_does_nothing(case):
    ended = await case.execute_run(Script([[text("Done.")]]))
    before = ended.events
    for run_id, events in ((uuid4(), []), (ended.run_id, before)):
        finished = await case.execute_run(Script([[text("Again.")]]), run_id=run_id)
        assert finished.requests == [] and finished.events == events


async def test_second_attempt_is_informed_and_repeats_nothing(case):
    run_id = await case.queue_run()
    await case.context(run_id)  # a first worker took it up and died
    finished = await case.execute_run(Script([[update_call("first")], [text("Done.")]]), run_id=run_id)
    assert finished.state["fencing_token"] == 2 and finished.state["status"] == "completed"
    assert "started before" in str(finished.requests[0]["messages"])


async def test_run_interrupted_before_the_first_answer_starts_over(case):
    run_id, asked = await case.queue_run(), asyncio.Event()

    async def silent(body):
        asked.set()
        await asyncio.sleep(600)

    task = asyncio.create_task(case.execute_run(silent, run_id))
    await asked.wait()
    task.cancel()
    await task
    finished = await case.execute_run(Script([repeat_forever([text("Done.")])]), run_id=run_id)
    assert (finished.state["status"], finished.state["fencing_token"]) == ("completed", 2)
    assert "started before" in str(finished.requests[0]["messages"])


async def test_run_fails_after_too_many_claims(case):
    """Whether it gets nothing done in between, or something each time for ever."""
    first, second = await case.queue_run(), await (await case.another_extraction()).queue_run()
    for _ in range(MAX_CONSECUTIVE_FAILURES):
        await case.context(first)
    case.sql("update public.runs set fencing_token = %s where id = %s returning 1", MAX_CLAIMS, second)
    for run_id in (first, second):
        finished = await case.execute_run(Script([[text("Done.")]]), run_id=run_id)
        assert finished.requests == []
        assert (finished.state["status"], finished.state["error_code"]) == ("failed", "abandoned")


async def test_run_with_progress_in_each_attempt_continues(case):
    run_id = await case.queue_run()
    for number in range(MAX_CONSECUTIVE_FAILURES + 1):
        context = await case.context(run_id)
        await case.call(context, "update_field", path=f"items[{number}]", value=number, confidence=1.0)
    finished = await case.execute_run(Script([[text("Done.")]]), run_id=run_id)
    assert (finished.state["status"], finished.state["fencing_token"]) == ("completed", MAX_CONSECUTIVE_FAILURES + 2)


async def test_lost_connections_cost_at_most_one_attempt(case, postgres):
    name = case.owner_url.rsplit("/", 1)[1]

    async def cut(body):
        sql(postgres.owner_url, "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", name)
        return [update_call("second")]

    run_id = await case.queue_run()
    try:
        finished = await case.execute_run(Script([[update_call("first")], cut, [text("Done.")]]), run_id=run_id)
    except Unavailable:  # it hit the middle of a transaction: for the queue to try again

        def go_on(body):  # how far the conversation was kept differs
            return [text("Done.")] if "second" in case.extraction()["extracted_fields"] else [update_call("second")]

        finished = await case.execute_run(go_on, run_id=run_id)
    assert finished.state["status"] == "completed"
    assert case.extraction()["extracted_fields"] == {"first": 1, "second": 1}
