"""Events: in the order said, numbered without a gap, in pairs, and nothing after the last."""

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
from fieldmark.runs.parts import (
    AssistantBlocks,
    BlockDelta,
    BlockStarted,
    ConversationResult,
    MessageDelta,
    MessageStarted,
    MessageStopped,
    Part,
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


def stored_events(*parts: Part, **known) -> list[dict]:
    said = []
    mapper = EventMapper(EXTRACTION.toolset, said.append, **known)
    for part in parts:
        mapper.on_part(part)
    return [event.flat() for event in said]


def began(tool: str, given, call_id: str = "c") -> AssistantBlocks:
    return AssistantBlocks((ToolUseBlock(call_id, tool, given),))


def ended(text: str, call_id: str = "c", is_error: bool = False) -> ToolReturned:
    return ToolReturned(call_id, text, is_error)


def test_text_and_reasoning_become_events_unless_blank():
    thought, said = stored_events(
        AssistantBlocks((ThinkingBlock("Hm."), ThinkingBlock(" "), TextBlock("Yes."), TextBlock("\n")))
    )
    assert (thought, said) == ({"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "Yes."})


BEGUN = [MessageStarted("m", "model"), BlockStarted(), BlockDelta("text", "Do")]
WHOLE = [*BEGUN, MessageDelta("end_turn"), MessageStopped()]
BROKEN = [*BEGUN, MessageStopped()]
RETRY = ServiceRetry(0.5, 529)
DONE = AssistantBlocks((TextBlock("Done."),))


@pytest.mark.parametrize(
    ("messages", "retries"),
    [
        ([*WHOLE, DONE, *WHOLE], []),
        ([*BROKEN, DONE], [0.0]),  # as the CLI does when an answer falls silent: the next is not streamed
        ([*BROKEN, *WHOLE, DONE], [0.0]),
        ([*BROKEN, RETRY, *WHOLE, DONE], [0.5]),  # as it does when the connection breaks
        ([RETRY, *BROKEN, RETRY, *BROKEN, DONE], [0.5, 0.5, 0.0]),
        ([*BROKEN, AssistantBlocks((TextBlock("API error"),), error="unknown")], []),  # it gave up
    ],
)
def test_interrupted_and_retried_answer_is_reported_once(messages, retries):
    assert [said["wait_s"] for said in stored_events(*messages) if "retry" in said] == retries


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("PreToolUse:mcp__fieldmark__update_field hook error: Mend\nit.", "Mend\nit."),
        ("<tool_use_error>mcp__fieldmark__update_field got no JSON</tool_use_error>", "update_field got no JSON"),
    ],
)
def test_refusal_is_reported_without_the_clis_wrapping(text, shown):
    _, end = stored_events(began("update_field", {}), ended(text, is_error=True))
    assert (end["status"], end["error"], end["code"]) == ("error", shown, "invalid") and "output" not in end
    # The CLI names a tool that there is not with its prefix.
    text = "<tool_use_error>No such tool available: mcp__fieldmark__find</tool_use_error>"
    _, unknown = stored_events(began("find", {}), ended(text, is_error=True))
    assert unknown["code"] == "unknown_tool" and "mcp__" not in unknown["error"] and "'find'" in unknown["error"]


def test_end_of_a_call_is_reported_from_its_outcome():
    wrapped = "<tool_use_error>x</tool_use_error>"
    known = {"c": ToolOutcome("Stored.", "stored"), "d": ToolOutcome(wrapped, "invalid", is_error=True)}
    _, stored, _, refused, _, unknown = stored_events(
        began("update_field", {}),
        ended("PreToolUse:x hook error: what the CLI repeats", is_error=True),
        began("update_field", {}, "d"),
        ended("what the CLI repeats", "d"),
        began("update_field", {}, "e"),
        ended("what the CLI repeats", "e"),
        outcome_of=known.get,
    )
    assert (stored["status"], stored["output"], stored["code"]) == ("complete", "Stored.", "stored")
    assert (refused["status"], refused["error"]) == ("error", wrapped) and "error" not in stored
    assert (unknown["status"], unknown["output"]) == ("complete", "what the CLI repeats")


def test_call_that_ended_with_its_decision_is_reported_once():
    decided: set[str] = set()
    said = []
    mapper = EventMapper(EXTRACTION.toolset, said.append, ended=decided)
    for part in (began("update_field", {}), began("update_field", {}, "d")):
        mapper.on_part(part)
    decided.add("c")  # by a person, while the CLI waits for it
    for part in (ended("Done."), ended("Done.", "d")):
        mapper.on_part(part)
    assert [(event.call_id, event.status) for event in said] == [("c", "running"), ("d", "running"), ("d", "complete")]


def test_long_output_is_cut_and_unknown_tool_is_reported():
    _, end = stored_events(began("get_document_text", {}), ended("x" * 10_000))
    assert end["output"] == "x" * MAX_SHOWN_CHARACTERS + " […]"
    assert stored_events(ended("?", call_id="never begun"))[0]["tool_result"] == "unknown"


@pytest.mark.parametrize("given", [[1, 2], {"value": "x" * 300_000}, {"value": "a\0"}])
def test_unstorable_input_is_left_out_of_the_event(given):
    (begin,) = stored_events(began("update_field", given))
    assert begin["input"] == {} and begin["message"] == "Calling update_field"


def test_service_retry_is_reported_without_the_clis_text():
    busy, silent = stored_events(ServiceRetry(1.234, 529), ServiceRetry(1.0, None))
    assert (busy["type"], busy["code"], busy["wait_s"], silent["code"]) == ("retry", "busy", 1.2, "no_response")
    assert (
        stored_events(AssistantBlocks((TextBlock("API Error: 500"),), error="server_error"), ConversationResult()) == []
    )


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
    said = [tuple(map(int, event["text"].split())) for event in events]
    for worker in range(5):
        assert [n for one, n in said if one == worker] == list(range(10))


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
    """Here a failure that nobody waits for fails the test."""
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
    begun = {event["call_id"]: event for event in events if event.get("status") == "running"}
    over = {event["call_id"]: event for event in events if event.get("status") in ("complete", "error")}
    assert list(begun) == list(over) == [read.id, write.id, bad.id]
    assert all(0 <= event["duration_ms"] < 60_000 for event in over.values())
    assert over[bad.id]["message"] == begun[bad.id]["message"] and all(event["message"] for event in over.values())
    ((changed,),) = [event["changed"] for event in events if event.get("version") == 1]
    assert (changed["path"], changed["value"], changed["evidence"]["quote"]) == ("total", 10, "10.00")
    last = events[-1]
    assert (last["complete"], last["extraction_id"]) == (True, str(case.extraction_id))
    assert last["cost"] > 0 and last["usage"]["turns"] == 4
    # Flat objects, each of them one of the union; tool names bare, nothing of the SDK's.
    assert [EVENT.validate_python(event).flat() for event in events] == events and "mcp__" not in json.dumps(events)


async def heard_by(listener, payload: str) -> list[str]:
    """What is heard up to a payload."""
    heard: list[str] = []
    async for stored_events in listener.notifies(timeout=30):
        heard.append(stored_events.payload)
        if stored_events.payload == payload:
            break
    return heard


async def test_readers_are_notified_after_the_commit(case):
    """A transaction that notifies holds a lock of the whole database until it is on the disk."""
    context = await case.context()
    async with await psycopg.AsyncConnection.connect(case.owner_url, autocommit=True) as listener:
        await listener.execute("listen fieldmark_run_events")
        async with case.database.as_user(case.scope) as conn:
            await runs.append_event(conn, context.run_id, TextEvent(text="Told."))
        assert await heard_by(listener, str(context.run_id)) == [str(context.run_id)]
        with pytest.raises(ZeroDivisionError):
            async with case.database.as_user(case.scope) as conn:
                await runs.append_event(conn, context.run_id, TextEvent(text="Never."))
                raise ZeroDivisionError
        # Whoever tells of it is dead: nothing is heard, and a reader gets each event once all the same, in order.
        case.sql("revoke execute on function private.notify(text[], text[]) from fieldmark_app")
        following = follow(case.database, case.scope, context.run_id, poll_seconds=0.1)
        stored_events = [await anext(following)]
        async with EventWriter(context) as log:
            for n in range(3):
                log.append(TextEvent(text=str(n)))
                await log.flush()
                stored_events.append(await found(following))
        case.sql("select pg_notify('fieldmark_run_events', 'end')")
        assert await heard_by(listener, "end") == ["end"]
        assert [number for number, _ in stored_events] == [1, 2, 3, 4]
        await following.aclose()


async def found(following) -> tuple[int, str]:
    """The next event, past the signs of life."""
    while (event := await asyncio.wait_for(anext(following), 30)) is None:
        pass
    return event
