"""Runs that lose their worker, user, document or database connection write nothing more and end."""

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

CLAIM_BY_ANOTHER_WORKER = "update public.runs set fencing_token = fencing_token + 1 where id = %s"


def interrupted_script(case, query: str, *parameters):
    """Script a write, then a change of the run by this statement, then another write."""

    async def interrupt(body):
        # In a thread: it may wait for a transaction of this event loop.
        await asyncio.to_thread(case.sql, query, *parameters)
        return [update_call("second")]

    return Script([[update_call("first")], interrupt, [text("Done.")]])


async def test_both_writes_happen_without_a_fault(case):
    conversation = "select entry from public.agent_sessions"

    async def done(body):
        await until(lambda: "'second'" in str(case.sql(conversation)))
        return [text("Done.")]

    finished = await case.execute_run(Script([[update_call("first")], [update_call("second")], done]))
    assert finished.state["status"] == "completed" and case.extraction()["version"] == 2
    assert case.sql(conversation) == []  # deleted at the end


async def test_worker_that_lost_the_run_writes_nothing(case):
    run_id = await case.queue_run()
    finished = await case.execute_run(interrupted_script(case, CLAIM_BY_ANOTHER_WORKER, run_id), run_id=run_id)
    assert case.extraction()["extracted_fields"] == {"first": 1}
    assert finished.state["status"] == "running"  # the other worker ends it
    assert not [event for event in finished.events if event["type"] in ("complete", "error")]
    assert [entry["status"] for entry in finished.ledger] == ["done"]
    assert "'second'" not in str(case.sql("select entry from public.agent_sessions"))


@pytest.mark.parametrize(
    "next_turn", [repeat_forever([call("get_document_text")]), []], ids=["during the run", "at its end"]
)
async def test_worker_that_lost_the_run_stops_and_does_not_end_it(case, next_turn):
    run_id = await case.queue_run()

    async def lose(body):
        await asyncio.to_thread(case.sql, CLAIM_BY_ANOTHER_WORKER, run_id)
        return [call("get_document_text")] if next_turn else []  # no text, so no event

    finished = await case.execute_run(Script([lose, next_turn]), run_id=run_id, max_turns=40)
    assert len(finished.requests) < 10 and finished.state["status"] == "running"
    assert not [event for event in finished.events if "complete" in event or "code" in event]


async def test_run_ended_during_its_execution_keeps_its_status(case):
    run_id = await case.queue_run()
    finished = await case.execute_run(
        interrupted_script(case, "update public.runs set status = 'cancelled' where id = %s", run_id), run_id=run_id
    )
    assert case.extraction()["extracted_fields"] == {"first": 1} and finished.state["status"] == "cancelled"


@pytest.mark.parametrize("table", ["extractions", "documents"])
async def test_deleting_the_subject_ends_the_run(case, table):
    subject_id = case.extraction_id if table == "extractions" else case.document_id
    run_id = await case.queue_run()
    await case.execute_run(
        interrupted_script(case, f"delete from public.{table} where id = %s", subject_id), run_id=run_id
    )
    for remaining_table in ("runs", "run_events", "tool_calls", "agent_sessions", "extractions", "extraction_journal"):
        assert case.sql(f"select 1 from public.{remaining_table}") == []


@pytest.mark.parametrize(
    "query",
    ["delete from auth.users where id = %s", "update public.memberships set role = 'viewer' where user_id = %s"],
    ids=["user deleted", "user made a viewer"],
)
async def test_run_ends_if_its_user_loses_write_access(case, query):
    case.add_member("owner")
    next_run = await case.queue_run(background=True)
    finished = await (await case.another_extraction()).execute_run(interrupted_script(case, query, case.scope.user_id))
    fields = "select extracted_fields as fields from public.extractions where extracted_fields <> '{}'"
    assert case.sql(fields) == [{"fields": {"first": 1}}]
    # The end is visible to other members, and the next run does not start.
    assert (finished.state["status"], finished.events[-1]["code"]) == ("cancelled", "cancelled")
    next_finished = await case.execute_run(Script([[text("Done.")]]), run_id=next_run)
    assert next_finished.requests == [] and next_finished.state["error_code"] == "cancelled"


async def test_job_of_a_deleted_or_ended_run_does_nothing(case):
    ended = await case.execute_run(Script([[text("Done.")]]))
    before = ended.events
    for run_id, events in ((uuid4(), []), (ended.run_id, before)):
        finished = await case.execute_run(Script([[text("Repeated.")]]), run_id=run_id)
        assert finished.requests == [] and finished.events == events


async def test_second_attempt_is_informed_and_repeats_nothing(case):
    run_id = await case.queue_run()
    await case.context(run_id)  # a first worker claimed it and died
    finished = await case.execute_run(Script([[update_call("first")], [text("Done.")]]), run_id=run_id)
    assert finished.state["fencing_token"] == 2 and finished.state["status"] == "completed"
    assert "started before" in str(finished.requests[0]["messages"])


async def test_run_interrupted_before_the_first_answer_starts_over(case):
    run_id, is_requested = await case.queue_run(), asyncio.Event()

    async def never_answer(body):
        is_requested.set()
        await asyncio.sleep(600)

    task = asyncio.create_task(case.execute_run(never_answer, run_id))
    await is_requested.wait()
    task.cancel()
    await task
    finished = await case.execute_run(Script([repeat_forever([text("Done.")])]), run_id=run_id)
    assert (finished.state["status"], finished.state["fencing_token"]) == ("completed", 2)
    assert "started before" in str(finished.requests[0]["messages"])


async def test_run_fails_after_too_many_claims(case):
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

    async def terminate_connections(body):
        sql(postgres.owner_url, "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", name)
        return [update_call("second")]

    run_id = await case.queue_run()
    try:
        finished = await case.execute_run(
            Script([[update_call("first")], terminate_connections, [text("Done.")]]), run_id=run_id
        )
    except Unavailable:  # lost within a transaction: the queue repeats the job

        def continue_conversation(body):  # the stored part of the conversation varies
            return [text("Done.")] if "second" in case.extraction()["extracted_fields"] else [update_call("second")]

        finished = await case.execute_run(continue_conversation, run_id=run_id)
    assert finished.state["status"] == "completed"
    assert case.extraction()["extracted_fields"] == {"first": 1, "second": 1}
