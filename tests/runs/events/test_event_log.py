"""Run events: in order, numbered without gaps, with an end for each start, and nothing after the last event."""

from __future__ import annotations

import asyncio
import json

import psycopg
import pytest

from extraction_case import until
from fieldmark.agents.extraction.agent import EXTRACTION
from fieldmark.domain.events import EVENT, TextEvent
from fieldmark.errors import Fenced
from fieldmark.offline_model.messages import call, text, thinking
from fieldmark.runs.events.follow import follow
from fieldmark.runs.events.mapper import MAX_SHOWN_CHARACTERS, EventMapper
from fieldmark.runs.events.writer import EventWriter
from fieldmark.runs.message_parts import (
    AssistantBlocks,
    BlockDelta,
    BlockStarted,
    ConversationResult,
    MessageDelta,
    MessagePart,
    MessageStarted,
    MessageStopped,
    ServiceRetry,
    TextBlock,
    ThinkingBlock,
    ToolReturned,
    ToolUseBlock,
)
from fieldmark.stores import runs
from fieldmark.testing.script import Script
from fieldmark.tools.ledger import ToolOutcome

anyio = pytest.mark.anyio


def map_parts(*parts: MessagePart, **known) -> list[dict]:
    events = []
    mapper = EventMapper(EXTRACTION.toolset, events.append, **known)
    for part in parts:
        mapper.on_part(part)
    return [event.flat() for event in events]


def call_start(tool: str, given, call_id: str = "c") -> AssistantBlocks:
    return AssistantBlocks((ToolUseBlock(call_id, tool, given),))


def call_end(text: str, call_id: str = "c", is_error: bool = False) -> ToolReturned:
    return ToolReturned(call_id, text, is_error)


def test_text_and_reasoning_become_events_unless_blank():
    thought, events = map_parts(
        AssistantBlocks((ThinkingBlock("Hm."), ThinkingBlock(" "), TextBlock("Yes."), TextBlock("\n")))
    )
    assert (thought, events) == ({"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "Yes."})


STARTED = [MessageStarted("m", "model"), BlockStarted(), BlockDelta("text", "Do")]
COMPLETE = [*STARTED, MessageDelta("end_turn"), MessageStopped()]
INTERRUPTED = [*STARTED, MessageStopped()]
RETRY = ServiceRetry(0.5, 529)
DONE = AssistantBlocks((TextBlock("Done."),))


@pytest.mark.parametrize(
    ("messages", "retries"),
    [
        ([*COMPLETE, DONE, *COMPLETE], []),
        ([*INTERRUPTED, DONE], [0.0]),  # the CLI after a stalled answer: the next one is not streamed
        ([*INTERRUPTED, *COMPLETE, DONE], [0.0]),
        ([*INTERRUPTED, RETRY, *COMPLETE, DONE], [0.5]),  # the CLI after a lost connection
        ([RETRY, *INTERRUPTED, RETRY, *INTERRUPTED, DONE], [0.5, 0.5, 0.0]),
        ([*INTERRUPTED, AssistantBlocks((TextBlock("API error"),), error="unknown")], []),  # the CLI gave up
    ],
)
def test_interrupted_and_retried_answer_is_reported_once(messages, retries):
    assert [events["wait_s"] for events in map_parts(*messages) if "retry" in events] == retries


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("PreToolUse:mcp__fieldmark__update_field hook error: Fix\nit.", "Fix\nit."),
        ("<tool_use_error>mcp__fieldmark__update_field got no JSON</tool_use_error>", "update_field got no JSON"),
    ],
)
def test_refusal_is_reported_without_the_clis_wrapping(text, shown):
    _, end = map_parts(call_start("update_field", {}), call_end(text, is_error=True))
    assert (end["status"], end["error"], end["code"]) == ("error", shown, "invalid") and "output" not in end
    # The CLI names an unknown tool with its prefix.
    text = "<tool_use_error>No such tool available: mcp__fieldmark__find</tool_use_error>"
    _, unknown = map_parts(call_start("find", {}), call_end(text, is_error=True))
    assert unknown["code"] == "unknown_tool" and "mcp__" not in unknown["error"] and "'find'" in unknown["error"]


def test_end_of_a_call_is_reported_from_its_outcome():
    wrapped = "<tool_use_error>x</tool_use_error>"
    known = {"c": ToolOutcome("Stored.", "stored"), "d": ToolOutcome(wrapped, "invalid", is_error=True)}
    _, stored, _, refused, _, unknown = map_parts(
        call_start("update_field", {}),
        call_end("PreToolUse:x hook error: what the CLI repeats", is_error=True),
        call_start("update_field", {}, "d"),
        call_end("what the CLI repeats", "d"),
        call_start("update_field", {}, "e"),
        call_end("what the CLI repeats", "e"),
        outcome_of=known.get,
    )
    assert (stored["status"], stored["output"], stored["code"]) == ("complete", "Stored.", "stored")
    assert (refused["status"], refused["error"]) == ("error", wrapped) and "error" not in stored
    assert (unknown["status"], unknown["output"]) == ("complete", "what the CLI repeats")


def test_call_that_ended_with_its_decision_is_reported_once():
    decided: set[str] = set()
    events = []
    mapper = EventMapper(EXTRACTION.toolset, events.append, reported_call_ids=decided)
    for part in (call_start("update_field", {}), call_start("update_field", {}, "d")):
        mapper.on_part(part)
    decided.add("c")  # decided while the CLI waits
    for part in (call_end("Done."), call_end("Done.", "d")):
        mapper.on_part(part)
    assert [(event.call_id, event.status) for event in events] == [
        ("c", "running"),
        ("d", "running"),
        ("d", "complete"),
    ]


def test_long_output_is_cut_and_unknown_tool_is_reported():
    _, end = map_parts(call_start("get_document_text", {}), call_end("x" * 10_000))
    assert end["output"] == "x" * MAX_SHOWN_CHARACTERS + " […]"
    assert map_parts(call_end("?", call_id="unknown"))[0]["tool_result"] == "unknown"


@pytest.mark.parametrize("given", [[1, 2], {"value": "x" * 300_000}, {"value": "a\0"}])
def test_unstorable_input_is_left_out_of_the_event(given):
    (begin,) = map_parts(call_start("update_field", given))
    assert begin["input"] == {} and begin["message"] == "Calling update_field"


def test_service_retry_is_reported_without_the_clis_text():
    busy, silent = map_parts(ServiceRetry(1.234, 529), ServiceRetry(1.0, None))
    assert (busy["type"], busy["code"], busy["wait_s"], silent["code"]) == ("retry", "busy", 1.2, "no_response")
    assert map_parts(AssistantBlocks((TextBlock("API Error: 500"),), error="server_error"), ConversationResult()) == []


@anyio
async def test_event_numbers_have_no_gap_with_concurrent_writers(case):
    context = await case.context()

    async def add(worker: int) -> None:
        for n in range(10):
            async with case.database.as_user(case.scope) as conn:
                await runs.append_event(conn, context.run_id, TextEvent(text=f"{worker} {n}"))
                if n % 5 == 4:
                    await conn.execute("select pg_sleep(0.005)")

    async def break_off() -> None:
        for _ in range(5):
            with pytest.raises(RuntimeError):
                async with case.database.as_user(case.scope) as conn:
                    await runs.append_event(conn, context.run_id, TextEvent(text="never"))
                    raise RuntimeError

    await asyncio.gather(*[add(worker) for worker in range(5)], break_off())
    events = case.events(context.run_id)  # asserts 1..n
    assert len(events) == 50
    events = [tuple(map(int, event["text"].split())) for event in events]
    for worker in range(5):
        assert [n for one, n in events if one == worker] == list(range(10))


@anyio
async def test_events_are_written_in_order_even_if_the_block_fails(case):
    context = await case.context()
    with pytest.raises(KeyError):
        async with EventWriter(context) as log:
            for n in range(100):
                log.append(TextEvent(text=str(n)))
                if n % 50 == 0:
                    await asyncio.sleep(0.01)
            await log.flush()
            assert len(case.events(context.run_id)) == 100
            log.append(TextEvent(text="100"))
            raise KeyError
    assert [event["text"] for event in case.events(context.run_id)] == [str(n) for n in range(101)]


@anyio
async def test_losing_the_run_raises_at_the_next_event(case):
    context = await case.context()
    with pytest.raises(Fenced):
        async with EventWriter(context) as log:
            await case.context(context.run_id)
            for n in range(100):
                log.append(TextEvent(text=str(n)))
                await asyncio.sleep(0.02)
    assert case.events(context.run_id) == []


@anyio
async def test_losing_the_run_during_the_last_write_raises_once(case):
    context = await case.context()
    waits = "select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
    with pytest.raises(Fenced), psycopg.connect(case.owner_url) as other:
        other.execute("update public.runs set fencing_token = fencing_token + 1 where id = %s", [context.run_id])
        async with EventWriter(context) as log:
            log.append(TextEvent(text="Late."))
            await until(lambda: case.sql(waits))
            asyncio.get_running_loop().call_later(0.1, other.commit)
    assert case.events(context.run_id) == []


@anyio
async def test_event_log_of_a_whole_run(case):
    read, write = call("get_document_text"), call("update_field", {"path": "total", "value": 10, "confidence": 0.9})
    bad = call("update_field", {"path": "total.net", "value": 1, "confidence": 0.9})
    script = Script([[thinking("Hm."), read], [text("I write."), write], [bad], [text("Done.")]])
    finished = await case.execute_run(script)
    events = finished.events
    assert events[0] == {
        "type": "run",
        "run_id": str(finished.run_id),
        "extraction_id": str(case.extraction_id),
    }
    kinds = [
        f"{event.get('tool', event.get('tool_result'))} {event['status']}" if "call_id" in event else event["type"]
        for event in events[1:]
    ]
    assert kinds == [
        "thinking", "get_document_text running", "get_document_text complete",
        "text", "update_field running", "changed", "update_field complete",
        "update_field running", "update_field error",
        "text", "complete",
    ]  # fmt: skip
    started = {event["call_id"]: event for event in events if event.get("status") == "running"}
    results = {event["call_id"]: event for event in events if event.get("status") in ("complete", "error")}
    assert list(started) == list(results) == [read.id, write.id, bad.id]
    assert all(0 <= event["duration_ms"] < 60_000 for event in results.values())
    assert results[bad.id]["message"] == started[bad.id]["message"] and all(
        event["message"] for event in results.values()
    )
    ((changed,),) = [event["changed"] for event in events if event.get("version") == 1]
    assert (changed["path"], changed["value"], changed["evidence"]["quote"]) == ("total", 10, "10.00")
    last = events[-1]
    assert (last["complete"], last["extraction_id"]) == (True, str(case.extraction_id))
    assert last["cost"] > 0 and last["usage"]["turns"] == 4
    # Events are flat and valid, with tool names without the SDK's prefix.
    assert [EVENT.validate_python(event).flat() for event in events] == events and "mcp__" not in json.dumps(events)


async def payloads_until(listener, payload: str) -> list[str]:
    """Return the received payloads up to this one."""
    heard: list[str] = []
    async for notification in listener.notifies(timeout=30):
        heard.append(notification.payload)
        if notification.payload == payload:
            break
    return heard


async def test_readers_are_notified_after_the_commit(case):
    """A notifying transaction locks the whole database until its commit."""
    context = await case.context()
    async with await psycopg.AsyncConnection.connect(case.owner_url, autocommit=True) as listener:
        await listener.execute("listen fieldmark_run_events")
        async with case.database.as_user(case.scope) as conn:
            await runs.append_event(conn, context.run_id, TextEvent(text="Sent."))
        assert await payloads_until(listener, str(context.run_id)) == [str(context.run_id)]
        with pytest.raises(ZeroDivisionError):
            async with case.database.as_user(case.scope) as conn:
                await runs.append_event(conn, context.run_id, TextEvent(text="Never."))
                raise ZeroDivisionError
        # Without notifications a reader still gets each event once, in order.
        case.sql("revoke execute on function private.notify(text[], text[]) from fieldmark_app")
        following = follow(case.database, case.scope, context.run_id, poll_seconds=0.1)
        received = [await anext(following)]
        async with EventWriter(context) as log:
            for n in range(3):
                log.append(TextEvent(text=str(n)))
                await log.flush()
                received.append(await next_event(following))
        case.sql("select pg_notify('fieldmark_run_events', 'end')")
        assert await payloads_until(listener, "end") == ["end"]
        assert [number for number, _ in received] == [1, 2, 3, 4]
        await following.aclose()


async def next_event(following) -> tuple[int, str]:
    """Return the next event, skipping heartbeats."""
    while (event := await asyncio.wait_for(anext(following), 30)) is None:
        pass
    return event
