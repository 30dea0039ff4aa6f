"""Every message of the model is charged once during the run, and cost limits stop the run."""

from __future__ import annotations

import asyncio
from decimal import Decimal

import psycopg
import pytest

from extraction_case import until, update_call
from fieldmark.offline_model.messages import Turn, call, text
from fieldmark.runs.billing.meter import Meter
from fieldmark.runs.billing.prices import Prices
from fieldmark.runs.engine.message_calls import MessageCalls
from fieldmark.runs.lifecycle.decisions import cancel
from fieldmark.runs.message_parts import (
    AssistantBlocks,
    BlockDelta,
    MessageDelta,
    MessagePart,
    MessageStarted,
    MessageStopped,
    TokenCounts,
    ToolReturned,
    ToolUseBlock,
)
from fieldmark.runs.outcome import RunEnded
from fieldmark.stores import runs, usage
from fieldmark.testing.script import Script, repeat_forever, stall_connection

pytestmark = pytest.mark.anyio


def token_usage(input_tokens: int = 0, output_tokens: int = 0, **more) -> dict:
    return {"input_tokens": input_tokens, "output_tokens": output_tokens, **more}


CACHES = {
    "cache_creation_input_tokens": 13_000,
    "cache_read_input_tokens": 50_000,
    "cache_creation": {"ephemeral_5m_input_tokens": 10_000, "ephemeral_1h_input_tokens": 3_000},
}


def set_credit_limit(case, max_usd: str) -> None:
    case.sql("insert into public.credit_limits (org_id, max_usd) values (%s, %s)", case.scope.org_id, max_usd)


def usage_rows(case, run_id) -> list[dict]:
    return case.sql("select * from public.usage where run_id = %s order by created_at", run_id)


def cost_of_run(case, run_id) -> Decimal | None:
    return case.sql("select private.cost_of_run(%s) as cost", run_id)[0]["cost"]


WAITING_LOCKS = """select 1 from pg_locks where relation = 'usage'::regclass and not granted
           and database = (select oid from pg_database where datname = current_database())"""


async def test_run_cost_is_the_sum_of_its_messages(case):
    finished = await case.execute_run(
        Script(
            [
                Turn([update_call("a")], usage=token_usage(1_000, 100, **CACHES)),
                Turn([text("Done.")], usage=token_usage(500, 10)),
            ]
        )
    )
    first, second = usage_rows(case, finished.run_id)
    assert (first["input_tokens"], first["output_tokens"], first["cache_read_tokens"]) == (1_000, 100, 50_000)
    assert (first["cache_write_5m_tokens"], first["cache_write_1h_tokens"]) == (10_000, 3_000)
    assert (first["cost_usd"], second["cost_usd"]) == (Decimal("0.05"), Decimal("0.0011"))
    assert (first["agent"], first["model"], first["org_id"]) == ("extraction", "claude-sonnet-5", case.scope.org_id)
    assert first["created_by"] == case.scope.user_id
    complete = finished.events[-1]
    assert complete["cost"] == 0.0511
    assert complete["usage"] == {
        "turns": 2,
        "input_tokens": 1_500,
        "output_tokens": 110,
        "cache_creation_input_tokens": 13_000,
        "cache_read_input_tokens": 50_000,
    }


async def test_call_waits_until_its_message_is_charged(case):
    with psycopg.connect(case.owner_url) as other:

        def answer(body):
            other.execute("lock table public.usage in share mode")
            return [update_call("a")]

        work = asyncio.create_task(case.execute_run(Script([answer, [text("Done.")]])))
        await until(
            lambda: case.sql(WAITING_LOCKS) and case.sql("select 1 from public.tool_calls where status = 'approved'")
        )
        await asyncio.sleep(0.3)
        assert case.extraction()["version"] == 0
        other.rollback()
        assert (await work).state["status"] == "completed" and case.extraction()["version"] == 1


def message_start(message_id: str | None, **counts: int) -> MessageStarted:
    return MessageStarted(message_id, "claude-sonnet-5", TokenCounts(**counts))


def message_delta(stop_reason: str | None = None, **counts: int) -> MessageDelta:
    return MessageDelta(stop_reason, TokenCounts(**counts))


def complete_message(message_id: str | None, model: str = "claude-sonnet-5", **counts: int) -> AssistantBlocks:
    block = ToolUseBlock(f"call-{message_id}", "get_document_text", {})
    return AssistantBlocks((block,), message_id, model, TokenCounts(**counts), "tool_use")


STOPPED = MessageStopped()


async def charge(case, *parts: MessagePart, turns=50, **columns) -> list[tuple]:
    """Meter these parts and return (message id, input tokens, output tokens) of each charged message."""
    context = await case.context(await case.queue_run(**columns))
    async with Meter(context, "extraction", Prices(), "claude-sonnet-5", turns) as meter:
        for part in parts:
            await meter.on_part(part)
    return [
        (row["message_id"].partition(" ")[2], row["input_tokens"], row["output_tokens"])
        for row in usage_rows(case, context.run_id)
    ]


@pytest.mark.parametrize("name", ["a", None])
async def test_message_with_repeated_blocks_is_charged_once(case, name):
    streamed = [message_start(name, input=5), message_delta(output=7), STOPPED]
    early, late = complete_message(name, input=5, output=1), complete_message(name, input=99)
    stream = [*streamed[:1], early, early, *streamed[1:], late, ToolReturned("c", "", False), late]
    assert [figures for _, *figures in await charge(case, *stream)] == [[5, 7]]


async def test_messages_with_repeated_ids_are_all_charged(case):
    streamed = [message_start("a", input=5), message_delta("tool_use", output=7), STOPPED, ToolReturned("c", "", False)]
    assert await charge(case, *streamed, *streamed, *streamed) == [("a", 5, 7)] * 3
    with pytest.raises(RunEnded) as ended:
        await charge(case, *streamed, *streamed, message_start("a"), turns=2)
    assert ended.value.outcome.code == "max_turns"
    # The same without streaming: several blocks of one message, then another message.
    stream = [
        complete_message("b", input=5, output=2),
        complete_message("b", input=5, output=2),
        ToolReturned("call-b", "", False),
    ]
    assert await charge(case, *stream, *stream) == [("b", 5, 2)] * 2


async def test_each_attempt_charges_its_own_messages(case):
    run_id = await case.queue_run()
    for attempt in (1, 2):
        context = await case.context(run_id)
        assert context.fencing_token == attempt
        async with Meter(context, "extraction", Prices(), "claude-sonnet-5", 50) as meter:
            await meter.on_part(complete_message("a", input=5, output=2))
    assert len(usage_rows(case, run_id)) == 2


async def test_unstreamed_answer_is_charged_the_clis_own_text_is_not(case):
    stream = [complete_message("a", input=5, output=2), complete_message("b", "<synthetic>", input=9)]
    assert await charge(case, *stream) == [("a", 5, 2)]


async def test_message_with_unstorable_id_is_charged_under_a_generated_id(case):
    ((kept, *figures),) = await charge(case, complete_message("a\0", input=5, output=2))
    assert kept.startswith("unnamed-") and figures == [5, 2]


async def test_prompt_tokens_are_taken_from_the_start_or_the_end(case):
    for first, last in [({"input": 5}, {}), ({}, {"input": 5}), ({"input": 5}, {"input": 0})]:
        stream = [message_start("a", **first), message_delta(**last, output=1), STOPPED]
        assert await charge(case, *stream) == [("a", 5, 1)]


async def test_turn_limit_holds_without_the_cli(case):
    def turn(name: str, stop_reason: str | None = "tool_use") -> list[MessagePart]:
        return [message_start(name, input=5), message_delta(stop_reason, output=1), STOPPED]

    # A repeated request after an interrupted message is not a new turn.
    stream = [*turn("a"), *turn("b", None), *turn("c")]
    assert [name for name, _, _ in await charge(case, *stream, turns=2)] == ["a", "b", "c"]
    async with case.database.as_user(case.scope) as conn:
        (run,) = (await runs.list_runs(conn, case.scope, status=None, limit=1)).items
        (model,) = await usage.by_model(conn, run.id)
    calls = MessageCalls()
    for part in stream:
        calls.on_part(part)
    assert run.turns == model["turns"] == calls.messages == 2  # all counters agree
    with pytest.raises(RunEnded) as ended:
        await charge(await case.another_extraction(), *stream, message_start("d", input=6), turns=2)
    assert ended.value.outcome.code == "max_turns"
    charged = case.sql("select count(*) as n from public.usage where message_id like '%% d' and input_tokens = 6")
    assert charged == [{"n": 1}]  # the last request is charged too


async def test_interrupted_message_is_charged(case):
    said = BlockDelta("text", "x" * 40)
    assert await charge(case, message_start("a", input=5), said, message_start("b", input=6)) == [
        ("a", 5, 10),
        ("b", 6, 0),
    ]


async def test_cancelled_run_is_charged_for_its_current_message(case):
    run_id = await case.queue_run()
    silent = Script([stall_connection(600, text("Start."), text("x" * 400))])
    work = asyncio.create_task(case.execute_run(silent, run_id))
    await until(lambda: {"type": "text", "text": "Start."} in case.events(run_id))
    await cancel(case.database, case.scope, run_id)
    assert (await work).state["status"] == "cancelled"
    (row,) = usage_rows(case, run_id)
    assert row["input_tokens"] > 100 and row["output_tokens"] > 10


EXPENSIVE = token_usage(50_000, 0)  # 0.10 USD per message


@pytest.mark.parametrize("code", ["max_cost", "out_of_credit"])
async def test_run_stops_at_its_cost_limit_and_keeps_its_writes(case, code):
    if code == "out_of_credit":
        set_credit_limit(case, "0.2")
    script = Script(
        [
            Turn([update_call("a")], usage=EXPENSIVE),
            Turn([update_call("b")], usage=EXPENSIVE),
            repeat_forever([update_call("c")]),
        ]
    )
    finished = await case.execute_run(script, **({"max_cost_usd": Decimal("0.2")} if code == "max_cost" else {}))
    assert (finished.state["status"], finished.state["error_code"], finished.events[-1]["code"]) == (
        "failed",
        code,
        code,
    )
    # The second message reaches the limit: its call is not executed.
    assert case.extraction()["extracted_fields"] == {"a": 1}
    assert len(finished.requests) == 2 and cost_of_run(case, finished.run_id) == Decimal("0.2")


async def test_unpriced_model_is_refused_with_a_cost_limit(case):
    finished = await case.execute_run(Script([[text("Done.")]]), model="unheard-of", max_cost_usd=1000)
    assert (finished.state["status"], finished.state["error_code"]) == ("failed", "model_unpriced")
    assert finished.requests == []


async def test_last_message_over_the_limit_does_not_fail_the_run(case):
    script = Script([Turn([update_call("a")], usage=EXPENSIVE), Turn([text("Done.")], usage=token_usage(10_000_000))])
    finished = await case.execute_run(script, max_cost_usd=Decimal("0.2"))
    assert finished.state["status"] == "completed" and cost_of_run(case, finished.run_id) == Decimal("20.1")


async def test_cost_of_other_months_does_not_count(case):
    set_credit_limit(case, "0.1")
    earlier = await case.execute_run(Script([Turn([text("Done.")], usage=EXPENSIVE)]))
    refused = await case.execute_run(Script([[text("Done.")]]))
    assert refused.requests == [] and refused.state["error_code"] == "out_of_credit"
    case.sql("update public.usage_by_day set day = date_trunc('month', now() at time zone 'utc')::date - 1")
    assert (await case.execute_run(Script([[text("Done.")]]))).state["status"] == "completed"
    assert cost_of_run(case, earlier.run_id) == Decimal("0.1")


async def test_turns_count_over_attempts_up_to_the_service_limit(case):
    read = repeat_forever([call("get_document_text")])
    finished = await case.execute_run(Script([read]), max_turns=5)
    assert len(finished.requests) == 5 and finished.state["error_code"] == "max_turns"
    run_id = await case.queue_run(max_turns=2)
    finished = await case.execute_run(Script([read]), run_id=run_id, max_turns=5)
    assert len(finished.requests) == 2 and finished.state["error_code"] == "max_turns"
    # A second attempt has the remaining turns.
    run_id = await case.queue_run(max_turns=3)
    context = await case.context(run_id)
    case.sql(
        "insert into public.usage (run_id, message_id, org_id, agent, model, input_tokens, output_tokens, "
        "cache_write_5m_tokens, cache_write_1h_tokens, cache_read_tokens, cost_usd) "
        "select %s, 'm' || n, %s, 'extraction', 'm', 0, 0, 0, 0, 0, 0 from generate_series(1, 2) as n",
        run_id,
        case.scope.org_id,
    )
    finished = await case.execute_run(Script([read]), run_id=context.run_id, max_turns=5)
    assert len(finished.requests) == 1 and finished.state["error_code"] == "max_turns"
