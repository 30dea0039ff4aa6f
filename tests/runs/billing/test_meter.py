"""Every message of the model is charged once while the run goes on, and a run stops where its money does."""

from __future__ import annotations

import asyncio
from decimal import Decimal

import psycopg
import pytest

from desk import at_work, until, update
from fieldmark.offline_model.messages import Turn, call, text
from fieldmark.offline_model.server import OfflineModel
from fieldmark.runs.billing.meter import Meter
from fieldmark.runs.billing.prices import Prices
from fieldmark.runs.lifecycle.decisions import Decision, cancel, decide
from fieldmark.runs.outcome import RunEnded
from fieldmark.runs.parts import (
    AssistantSaid,
    BlockDelta,
    BlockStarted,
    MessageChanged,
    MessageStarted,
    MessageStopped,
    Part,
    TokenCounts,
    ToolCall,
    ToolReturned,
)
from fieldmark.testing.script import Script, endless, stall
from living import clis

pytestmark = pytest.mark.anyio


def used(input_tokens: int = 0, output_tokens: int = 0, **more) -> dict:
    return {"input_tokens": input_tokens, "output_tokens": output_tokens, **more}


CACHES = {
    "cache_creation_input_tokens": 13_000,
    "cache_read_input_tokens": 50_000,
    "cache_creation": {"ephemeral_5m_input_tokens": 10_000, "ephemeral_1h_input_tokens": 3_000},
}


def limit(desk, max_usd: str | None = None, runs: int | None = None) -> None:
    """What whoever runs the database allows the organisation."""
    desk.sql(
        """insert into public.credit_limits (org_id, max_usd, max_concurrent_runs) values (%s, %s, %s)
           on conflict (org_id) do update
           set max_usd = excluded.max_usd, max_concurrent_runs = excluded.max_concurrent_runs""",
        desk.scope.org_id,
        max_usd,
        runs,
    )


def rows(desk, run_id) -> list[dict]:
    return desk.sql("select * from public.usage where run_id = %s order by created_at", run_id)


def spent(desk, run_id) -> Decimal | None:
    return desk.sql("select private.cost_of_run(%s) as cost", run_id)[0]["cost"]


WAITS = """select 1 from pg_locks where relation = 'usage'::regclass and not granted
           and database = (select oid from pg_database where datname = current_database())"""


async def test_each_message_is_one_row_and_the_run_s_cost_is_their_sum(desk):
    worked = await desk.work(
        Script([Turn([update("a")], usage=used(1_000, 100, **CACHES)), Turn([text("Done.")], usage=used(500, 10))])
    )
    first, second = rows(desk, worked.run_id)
    assert (first["input_tokens"], first["output_tokens"], first["cache_read_tokens"]) == (1_000, 100, 50_000)
    assert (first["cache_write_5m_tokens"], first["cache_write_1h_tokens"]) == (10_000, 3_000)
    assert (first["cost_usd"], second["cost_usd"]) == (Decimal("0.05"), Decimal("0.0011"))
    assert (first["agent"], first["model"], first["org_id"]) == ("extraction", "claude-sonnet-5", desk.scope.org_id)
    assert first["created_by"] == desk.scope.user_id
    complete = worked.events[-1]
    assert complete["cost_usd"] == 0.0511
    assert complete["usage"] == {
        "turns": 2,
        "input_tokens": 1_500,
        "output_tokens": 110,
        "cache_creation_input_tokens": 13_000,
        "cache_read_input_tokens": 50_000,
    }


async def test_a_call_is_not_done_before_its_message_is_charged(desk):
    """So that a crash loses the message in flight at the most."""
    with psycopg.connect(desk.owner_url) as other:

        def answer(body):
            other.execute("lock table public.usage in share mode")
            return [update("a")]

        work = asyncio.create_task(desk.work(Script([answer, [text("Done.")]])))
        await until(lambda: desk.sql(WAITS) and desk.sql("select 1 from public.tool_calls where status = 'admitted'"))
        await asyncio.sleep(0.3)
        assert desk.extraction()["version"] == 0
        other.rollback()
        assert (await work).state["status"] == "completed" and desk.extraction()["version"] == 1


def begun(message_id: str | None, **counts: int) -> MessageStarted:
    return MessageStarted(message_id, "claude-sonnet-5", TokenCounts(**counts))


def changed(stop_reason: str | None = None, **counts: int) -> MessageChanged:
    return MessageChanged(stop_reason, TokenCounts(**counts))


def whole(message_id: str | None, model: str = "claude-sonnet-5", **counts: int) -> AssistantSaid:
    block = ToolCall(f"call-{message_id}", "get_document_text", {})
    return AssistantSaid((block,), message_id, model, TokenCounts(**counts), "tool_use")


STOPPED = MessageStopped()


async def metered(desk, *parts: Part, turns=50, **columns) -> list[tuple]:
    """What is charged for these messages: (message, input tokens, output tokens)."""
    context = await desk.context(await desk.run(**columns))
    async with Meter(context, "extraction", Prices(), "claude-sonnet-5", turns) as meter:
        for part in parts:
            await meter.on_part(part)
    return [
        (row["message_id"].partition(" ")[2], row["input_tokens"], row["output_tokens"])
        for row in rows(desk, context.run_id)
    ]


@pytest.mark.parametrize("name", ["a", None])
async def test_a_message_is_charged_once_however_often_its_blocks_are_told(desk, name):
    streamed = [begun(name, input=5), changed(output=7), STOPPED]
    early, late = whole(name, input=5, output=1), whole(name, input=99)
    told = [*streamed[:1], early, early, *streamed[1:], late, ToolReturned("c", "", False), late]
    assert [figures for _, *figures in await metered(desk, *told)] == [[5, 7]]


async def test_every_message_is_charged_though_the_service_repeats_its_ids(desk):
    streamed = [begun("a", input=5), changed("tool_use", output=7), STOPPED, ToolReturned("c", "", False)]
    assert await metered(desk, *streamed, *streamed, *streamed) == [("a", 5, 7)] * 3
    with pytest.raises(RunEnded) as spent:
        await metered(desk, *streamed, *streamed, begun("a"), turns=2)
    assert spent.value.outcome.code == "max_turns"
    # The same without pieces: several blocks of one answer, then another answer.
    told = [whole("b", input=5, output=2), whole("b", input=5, output=2), ToolReturned("call-b", "", False)]
    assert await metered(desk, *told, *told) == [("b", 5, 2)] * 2


async def test_every_attempt_at_a_run_charges_its_own_messages(desk):
    run_id = await desk.run()
    for attempt in (1, 2):
        context = await desk.context(run_id)
        assert context.fencing_token == attempt
        async with Meter(context, "extraction", Prices(), "claude-sonnet-5", 50) as meter:
            await meter.on_part(whole("a", input=5, output=2))
    assert len(rows(desk, run_id)) == 2


async def test_an_answer_that_waited_for_a_person_is_charged_in_the_attempt_that_heard_it(desk):
    script = Script([Turn([update("a")], usage=used(5, 5)), Turn([text("Done.")], usage=used(7, 7))])
    waiting = await desk.work(script, approval="ask")
    call_id = waiting.state["waiting_call"]
    await decide(desk.database, desk.scope, waiting.run_id, Decision(call_id, approved=True))
    worked = await desk.work(script, run_id=waiting.run_id)
    assert worked.state["status"] == "completed"
    charged = [(row["message_id"].split(".")[0], row["input_tokens"]) for row in rows(desk, waiting.run_id)]
    assert charged == [("1", 5), ("2", 7)]


async def test_an_answer_that_was_not_streamed_is_charged_and_the_cli_s_own_words_are_not(desk):
    told = [whole("a", input=5, output=2), whole("b", "<synthetic>", input=9)]
    assert await metered(desk, *told) == [("a", 5, 2)]


@pytest.mark.parametrize("name", ["x" * 200, "a\0", ""])
async def test_a_message_whose_id_cannot_be_kept_is_charged_under_another(desk, name):
    ((kept, *figures),) = await metered(desk, whole(name, input=5, output=2))
    assert kept.startswith("unnamed-") and figures == [5, 2]


async def test_the_prompt_may_be_counted_at_the_beginning_or_at_the_end(desk):
    for first, last in [({"input": 5}, {}), ({}, {"input": 5}), ({"input": 5}, {"input": 0})]:
        told = [begun("a", **first), changed(**last, output=1), STOPPED]
        assert await metered(desk, *told) == [("a", 5, 1)]


async def test_turns_are_counted_here_and_not_by_a_cli_that_may_have_had_other_runs(desk):
    def turn(name: str, stop_reason: str | None = "tool_use") -> list[Part]:
        return [begun(name, input=5), changed(stop_reason, output=1), STOPPED]

    # A message that breaks off is asked for again, which is no new turn.
    told = [*turn("a"), *turn("b", None), *turn("c")]
    assert [name for name, _, _ in await metered(desk, *told, turns=2)] == ["a", "b", "c"]
    with pytest.raises(RunEnded) as spent:
        await metered(await desk.beside(), *told, begun("d", input=6), turns=2)
    assert spent.value.outcome.code == "max_turns"
    charged = desk.sql("select count(*) as n from public.usage where message_id like '%% d' and input_tokens = 6")
    assert charged == [{"n": 1}]  # what was asked for is paid for all the same


async def test_what_is_in_flight_when_the_next_begins_or_the_run_ends_is_charged(desk):
    said = BlockDelta("text", "x" * 40)
    assert await metered(desk, begun("a", input=5), said, begun("b", input=6)) == [
        ("a", 5, 10),
        ("b", 6, 0),
    ]


async def test_a_call_waits_until_its_message_is_charged(desk):
    context = await desk.context()
    meter = Meter(context, "extraction", Prices(), "claude-sonnet-5", 50, paid="earlier")
    await meter.charged("earlier")
    waiting = asyncio.create_task(meter.charged("now"))
    await meter.on_part(begun("a"))
    await meter.on_part(BlockStarted("now"))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    await meter.on_part(STOPPED)
    await asyncio.wait_for(waiting, 60)
    assert len(rows(desk, context.run_id)) == 1


async def test_a_call_of_a_message_that_cannot_be_paid_for_goes_on_waiting(desk):
    context = await desk.context(await desk.run(max_cost_usd=Decimal("0.000001")))
    meter = Meter(context, "extraction", Prices(), "claude-sonnet-5", 50)
    waiting = asyncio.create_task(meter.charged("call-a"))
    with pytest.raises(RunEnded) as spent:
        await meter.on_part(whole("a", input=5))
    assert spent.value.outcome.code == "max_cost"
    await asyncio.sleep(0.05)
    assert not waiting.done()
    waiting.cancel()


async def test_a_message_that_broke_off_is_charged_as_far_as_it_came(desk):
    # A stream that drops is asked for again by the CLI, and paid for twice.
    worked = await desk.work(Script([stall(0.3, text("x" * 4_000)), [text("Done.")]]))
    broken, whole = rows(desk, worked.run_id)
    assert broken["input_tokens"] == whole["input_tokens"] > 100
    assert 100 < broken["output_tokens"] <= 1_000 and worked.state["status"] == "completed"


async def test_a_run_that_is_broken_off_is_charged_for_the_message_in_flight(desk):
    run_id = await desk.run()
    silent = Script([stall(600, text("I begin."), text("x" * 400))])
    work = asyncio.create_task(desk.work(silent, run_id))
    await until(lambda: {"type": "text", "text": "I begin."} in desk.events(run_id))
    await cancel(desk.database, desk.scope, run_id)
    assert (await work).state["status"] == "cancelled"
    (row,) = rows(desk, run_id)
    assert row["input_tokens"] > 100 and row["output_tokens"] > 10


async def test_a_run_that_was_never_answered_has_cost_nothing(desk):
    async with at_work(desk) as (task, _):
        run_id = desk.sql("select id from public.runs")[0]["id"]
        task.cancel()
        await asyncio.wait({task})
        assert rows(desk, run_id) == [] and spent(desk, run_id) == 0


async def test_another_model_s_answer_is_priced_as_its_own(desk):
    answer = Turn([text("Done.")], usage=used(1_000_000, 0), model="claude-haiku-4-5-20251001")
    worked = await desk.work(Script([answer]))
    assert spent(desk, worked.run_id) == 1 and rows(desk, worked.run_id)[0]["model"] == "claude-haiku-4-5-20251001"


@pytest.mark.parametrize(
    "usage",
    [
        {"input_tokens": -5},
        {"input_tokens": None},
        {"cache_creation": "?"},
        {"output_tokens": 10**30},
    ],
)
async def test_figures_that_cannot_be_meant_do_not_stop_a_run(desk, usage):
    worked = await desk.work(Script([Turn([text("Done.")], usage=usage, model="m" * 300)]))
    assert worked.state["status"] == "completed"
    (row,) = rows(desk, worked.run_id)
    assert row["input_tokens"] >= 0 and row["cost_usd"] is not None


@pytest.mark.parametrize("limited", ["run", "organisation", "neither"])
async def test_a_model_without_a_price_does_not_run_under_a_limit(desk, limited):
    if limited == "organisation":
        limit(desk, "1000")
    columns = {"max_cost_usd": 1000} if limited == "run" else {}
    worked = await desk.work(Script([[text("Done.")]]), model="unheard-of", **columns)
    if limited == "neither":
        assert worked.events[-1]["complete"] and worked.events[-1]["cost_usd"] is None
    else:
        assert (worked.state["status"], worked.state["error_code"]) == ("failed", "model_unpriced")
        assert worked.requests == [] and "FIELDMARK_MODEL_PRICE" in worked.events[-1]["error"]


DEAR = used(50_000, 0)  # 0.10 a message


@pytest.mark.parametrize("code", ["max_cost", "out_of_credit"])
async def test_a_run_stops_at_its_limit_and_keeps_what_it_wrote(desk, code):
    if code == "out_of_credit":
        limit(desk, "0.2")
    script = Script([Turn([update("a")], usage=DEAR), Turn([update("b")], usage=DEAR), endless([update("c")])])
    worked = await desk.work(script, **({"max_cost_usd": Decimal("0.2")} if code == "max_cost" else {}))
    assert (worked.state["status"], worked.state["error_code"], worked.events[-1]["code"]) == ("failed", code, code)
    # The second message came to the limit: what it asked for is not done.
    assert desk.extraction()["extracted_fields"] == {"a": 1}
    assert len(worked.requests) == 2 and spent(desk, worked.run_id) == Decimal("0.2") and clis() == []


async def test_a_run_that_is_done_is_done_whatever_its_last_words_cost(desk):
    script = Script([Turn([update("a")], usage=DEAR), Turn([text("Done.")], usage=used(10_000_000))])
    worked = await desk.work(script, max_cost_usd=Decimal("0.2"))
    assert worked.state["status"] == "completed" and spent(desk, worked.run_id) == Decimal("20.1")


async def test_with_enough_credit_it_goes_on(desk):
    limit(desk, "0.5")
    worked = await desk.work(
        Script([Turn([update("a")], usage=DEAR), Turn([update("b")], usage=DEAR), [text("Done.")]])
    )
    assert worked.state["status"] == "completed" and desk.extraction()["version"] == 2


async def test_without_credit_the_model_is_not_asked(desk):
    limit(desk, "0")
    worked = await desk.work(Script([[text("Done.")]]))
    assert worked.requests == [] and (worked.state["status"], worked.state["error_code"]) == ("failed", "out_of_credit")


async def test_what_was_spent_in_another_month_does_not_count(desk):
    limit(desk, "0.1")
    earlier = await desk.work(Script([Turn([text("Done.")], usage=DEAR)]))
    assert (await desk.work(Script([[text("Done.")]]))).state["error_code"] == "out_of_credit"
    desk.sql("update public.usage_by_day set day = date_trunc('month', now() at time zone 'utc')::date - 1")
    assert (await desk.work(Script([[text("Done.")]]))).state["status"] == "completed"
    assert spent(desk, earlier.run_id) == Decimal("0.1")


async def test_what_was_spent_stays_spent_when_the_document_goes(desk):
    worked = await desk.work(Script([Turn([text("Done.")], usage=DEAR)]))
    desk.sql("delete from public.documents")
    assert spent(desk, worked.run_id) == Decimal("0.1") and desk.sql("select * from public.runs") == []


async def test_turns_are_those_of_the_whole_run_and_never_more_than_the_service_allows(desk):
    read = endless([call("get_document_text")])
    worked = await desk.work(Script([read]), max_turns=5)
    assert len(worked.requests) == 5 and worked.state["error_code"] == "max_turns"
    run_id = await desk.run(max_turns=2)
    worked = await desk.work(Script([read]), run_id=run_id, max_turns=5)
    assert len(worked.requests) == 2 and worked.state["error_code"] == "max_turns"
    # Taken up again, it has what the first attempt left.
    run_id = await desk.run(max_turns=3)
    context = await desk.context(run_id)
    desk.sql(
        "insert into public.usage select %s, 'm' || n, %s, 'extraction', 'm', 0, 0, 0, 0, 0, 0 "
        "from generate_series(1, 2) as n",
        run_id,
        desk.scope.org_id,
    )
    worked = await desk.work(Script([read]), run_id=context.run_id, max_turns=5)
    assert len(worked.requests) == 1 and worked.state["error_code"] == "max_turns"


async def test_a_run_for_which_there_is_no_room_waits_in_the_queue_without_being_tried(desk):
    limit(desk, runs=1)
    first, second = await desk.run(), await desk.run()
    await desk.context(first)
    async with OfflineModel(Script([[text("Done.")]])) as model:
        await desk.runner(model).execute(second)
        assert model.requests == []
    state = desk.state(second)
    assert (state["status"], state["fencing_token"], state["consecutive_failures"]) == ("queued", 0, 0)
    assert state["held_at"] is not None
    assert desk.events(second) == []
    desk.sql("update public.runs set status = 'completed' where id = %s", first)
    jobs = desk.sql("select args from queue.procrastinate_jobs where args ->> 'run_id' = %s", str(second))
    assert desk.state(second)["held_at"] is None and len(jobs) == 2  # its first, which is spent, and a new one
    worked = await desk.work(Script([[text("Done.")]]), run_id=second)
    assert worked.state["status"] == "completed"
