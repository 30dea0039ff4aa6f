"""A run whose worker, user, document or database is lost in the middle: nothing more is written, and it ends."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import pytest

from desk import sql, until, update
from fieldmark.errors import Unavailable
from fieldmark.offline_model.messages import call, text
from fieldmark.runs.claim import MAX_CLAIMS, MAX_CONSECUTIVE_FAILURES
from fieldmark.testing.script import Script, endless

pytestmark = pytest.mark.anyio

TAKEN_AWAY = "update public.runs set fencing_token = fencing_token + 1 where id = %s"


def script(desk, query: str, *parameters):
    """A write, then something happens to the run, then another write."""

    async def in_between(body):
        # In a thread, because it may wait for a transaction that this loop has open.
        await asyncio.to_thread(desk.sql, query, *parameters)
        return [update("second")]

    return Script([[update("first")], in_between, [text("Done.")]])


async def test_undisturbed_both_writes_happen(desk):
    conversation = "select entry from public.agent_sessions"

    async def done(body):
        await until(lambda: "'second'" in str(desk.sql(conversation)))
        return [text("Done.")]

    worked = await desk.work(Script([[update("first")], [update("second")], done]))
    assert worked.state["status"] == "completed" and desk.extraction()["version"] == 2
    assert desk.sql(conversation) == []  # nobody goes on with it


async def test_a_worker_that_lost_the_run_writes_nothing_more_and_is_quiet(desk):
    run_id = await desk.run()
    worked = await desk.work(script(desk, TAKEN_AWAY, run_id), run_id=run_id)
    assert desk.extraction()["extracted_fields"] == {"first": 1}
    assert worked.state["status"] == "running"  # the other worker's to end
    assert not [event for event in worked.events if event["type"] in ("complete", "error")]
    assert [entry["status"] for entry in worked.ledger] == ["done"]
    assert "'second'" not in str(desk.sql("select entry from public.agent_sessions"))


@pytest.mark.parametrize("then", [endless([call("get_document_text")]), []], ids=["in the middle", "at its very end"])
async def test_a_worker_that_lost_the_run_asks_no_more_and_does_not_end_it(desk, then):
    run_id = await desk.run()

    async def lose(body):
        await asyncio.to_thread(desk.sql, TAKEN_AWAY, run_id)
        return [call("get_document_text")] if then else []  # no word that an event would tell of

    worked = await desk.work(Script([lose, then]), run_id=run_id, max_turns=40)
    assert len(worked.requests) < 10 and worked.state["status"] == "running"
    assert not [event for event in worked.events if "complete" in event or "code" in event]


async def test_a_run_that_was_ended_meanwhile_stays_as_it_is(desk):
    run_id = await desk.run()
    worked = await desk.work(
        script(desk, "update public.runs set status = 'cancelled' where id = %s", run_id), run_id=run_id
    )
    assert desk.extraction()["extracted_fields"] == {"first": 1} and worked.state["status"] == "cancelled"


@pytest.mark.parametrize("table", ["extractions", "documents"])
async def test_what_is_deleted_meanwhile_takes_its_run_along(desk, table):
    row = desk.extraction_id if table == "extractions" else desk.document_id
    run_id = await desk.run()
    await desk.work(script(desk, f"delete from public.{table} where id = %s", row), run_id=run_id)
    for left in ("runs", "run_events", "tool_calls", "agent_sessions", "extractions", "extraction_journal"):
        assert desk.sql(f"select 1 from public.{left}") == []


@pytest.mark.parametrize(
    "leaves",
    ["delete from auth.users where id = %s", "update public.memberships set role = 'viewer' where user_id = %s"],
    ids=["leaves", "only reads"],
)
async def test_a_user_who_may_not_write_any_more_changes_nothing_and_the_run_ends(desk, leaves):
    other, next_run = uuid4(), await desk.run(background=True)
    desk.sql("insert into auth.users (id) values (%s)", other)
    owns = "insert into public.memberships (org_id, user_id, role) values (%s, %s, 'owner')"
    desk.sql(owns, desk.scope.org_id, other)
    worked = await (await desk.beside()).work(script(desk, leaves, desk.scope.user_id))
    fields = "select extracted_fields as fields from public.extractions where extracted_fields <> '{}'"
    assert desk.sql(fields) == [{"fields": {"first": 1}}]
    # Those who stay see it end, and the next one never begins.
    assert (worked.state["status"], worked.events[-1]["code"]) == ("cancelled", "cancelled")
    waiting = await desk.work(Script([[text("Done.")]]), run_id=next_run)
    assert waiting.requests == [] and waiting.state["error_code"] == "cancelled"


async def test_a_run_that_is_gone_or_has_ended_is_nothing_to_do(desk):
    ended = await desk.work(Script([[text("Done.")]]))
    before = ended.events
    for run_id, events in ((uuid4(), []), (ended.run_id, before)):
        worked = await desk.work(Script([[text("Again.")]]), run_id=run_id)
        assert worked.requests == [] and worked.events == events


async def test_a_second_attempt_is_told_so_and_repeats_nothing_by_itself(desk):
    run_id = await desk.run()
    await desk.context(run_id)  # a first worker took it up and died
    worked = await desk.work(Script([[update("first")], [text("Done.")]]), run_id=run_id)
    assert worked.state["fencing_token"] == 2 and worked.state["status"] == "completed"
    assert "begun before" in str(worked.requests[0]["messages"])


async def test_a_run_that_is_broken_off_before_the_model_answers_begins_anew(desk):
    run_id, asked = await desk.run(), asyncio.Event()

    async def silent(body):
        asked.set()
        await asyncio.sleep(600)

    task = asyncio.create_task(desk.work(silent, run_id))
    await asked.wait()
    task.cancel()
    await task
    worked = await desk.work(Script([endless([text("Done.")])]), run_id=run_id)
    assert (worked.state["status"], worked.state["fencing_token"]) == ("completed", 2)
    assert "begun before" in str(worked.requests[0]["messages"])


async def test_a_run_that_is_taken_up_again_and_again_is_given_up(desk):
    """Whether it gets nothing done in between, or something each time for ever."""
    first, second = await desk.run(), await (await desk.beside()).run()
    for _ in range(MAX_CONSECUTIVE_FAILURES):
        await desk.context(first)
    desk.sql("update public.runs set fencing_token = %s where id = %s returning 1", MAX_CLAIMS, second)
    for run_id in (first, second):
        worked = await desk.work(Script([[text("Done.")]]), run_id=run_id)
        assert worked.requests == []
        assert (worked.state["status"], worked.state["error_code"]) == ("failed", "abandoned")


async def test_a_run_that_gets_something_done_each_time_is_not_given_up(desk):
    run_id = await desk.run()
    for number in range(MAX_CONSECUTIVE_FAILURES + 1):
        context = await desk.context(run_id)
        await desk.call(context, "update_field", path=f"items[{number}]", value=number, confidence=1.0)
    worked = await desk.work(Script([[text("Done.")]]), run_id=run_id)
    assert (worked.state["status"], worked.state["fencing_token"]) == ("completed", MAX_CONSECUTIVE_FAILURES + 2)


async def test_connections_that_are_lost_in_the_middle_cost_an_attempt_at_most(desk, postgres):
    name = desk.owner_url.rsplit("/", 1)[1]

    async def cut(body):
        sql(postgres.owner_url, "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", name)
        return [update("second")]

    run_id = await desk.run()
    try:
        worked = await desk.work(Script([[update("first")], cut, [text("Done.")]]), run_id=run_id)
    except Unavailable:  # it hit the middle of a transaction: for the queue to try again

        def go_on(body):  # how far the conversation was kept differs
            return [text("Done.")] if "second" in desk.extraction()["extracted_fields"] else [update("second")]

        worked = await desk.work(go_on, run_id=run_id)
    assert worked.state["status"] == "completed"
    assert desk.extraction()["extracted_fields"] == {"first": 1, "second": 1}
