"""Previews: fields that the model is writing are located on the pages and sent to clients, and withdrawn if the call
is refused."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from extraction_case import until
from fieldmark.agents.extraction.agent import EXTRACTION
from fieldmark.agents.extraction.tools import ExtractionTools
from fieldmark.domain.events import EVENT, PreviewEvent, PreviewWithdrawnEvent, TextEvent, ToolEvent, ToolResultEvent
from fieldmark.domain.statuses import RunError
from fieldmark.errors import NotFound
from fieldmark.runs.events.deltas import MAX_PREVIEWS, PREVIEW_BYTES, DeltaAssembler, DeltaBuffer
from fieldmark.runs.events.follow import EPHEMERAL, follow
from fieldmark.runs.events.previews import CallPreviews
from fieldmark.runs.events.writer import EventWriter
from fieldmark.runs.message_parts import BlockDelta, BlockStarted, MessageStarted, ToolReturned
from fieldmark.stores import runs
from fieldmark.tools.toolset import Toolset

anyio = pytest.mark.anyio

MESSAGE = MessageStarted("m", "model")


def preview(call_id: str = "c", path: str = "total", value: Any = 1) -> PreviewEvent:
    return PreviewEvent(call_id=call_id, path=path, value=value)


def tool_event(call_id: str = "c") -> ToolEvent:
    return ToolEvent(
        tool="update_field", call_id=call_id, input={}, message="Updating total", action_type="writing", timestamp=1
    )


def tool_result(status: Any, call_id: str = "c") -> ToolResultEvent:
    step = {"message": "Updating total", "action_type": "writing", "timestamp": 2, "duration_ms": 1000}
    return ToolResultEvent(tool_result="update_field", call_id=call_id, status=status, code="", **step)


def start_calls(buffer: DeltaBuffer, *call_ids: str) -> None:
    for call_id in call_ids or ("c",):
        buffer.on_part(BlockStarted(call_id, "update_field"))


def receive(pieces: list[str], assembler: DeltaAssembler | None = None, at: int = 3, after: int = 3) -> list[Any]:
    """Return what a client at event `after` receives of chunks sent at event `at`."""
    assembler = assembler or DeltaAssembler()
    return [json.loads(body) for body in assembler.accept_all([f"run {at} {piece}" for piece in pieces], after)]


def withdrawal(call_id: str | None = "c") -> dict[str, Any]:
    return PreviewWithdrawnEvent(call_id=call_id).flat()


# Sending --------------------------------------------------------------------------------------------------------------


def test_preview_is_sent_once_and_not_after_the_event_of_its_call():
    buffer, assembler = DeltaBuffer(1), DeltaAssembler()
    buffer.preview(preview())  # an unknown call
    start_calls(buffer)
    buffer.preview(preview())
    (event,) = receive(buffer.take_chunks(), assembler)
    assert EVENT.validate_python(event) == preview() and buffer.take_chunks() == []
    buffer.preview(preview(path="net"))
    assert receive(buffer.take_chunks(), assembler) == [preview(path="net").flat()]
    buffer.preview(preview(path="gross"))
    buffer.finish_block(tool_event())
    buffer.preview(preview(path="late"))
    assert buffer.take_chunks() == []


def test_previews_of_a_refused_call_are_withdrawn_others_stay():
    buffer = DeltaBuffer(1)
    start_calls(buffer, "c", "d")
    for call_id in "cd":
        buffer.preview(preview(call_id))
    assert len(receive(buffer.take_chunks())) == 2
    buffer.finish_block(tool_event())
    buffer.finish_block(tool_event("d"))
    assert buffer.take_chunks() == []
    buffer.finish_block(tool_result("complete", "d"))
    buffer.on_part(ToolReturned("d", "Stored.", False))
    buffer.finish_block(tool_result("error"))
    buffer.on_part(ToolReturned("c", "No.", True))
    assert receive(buffer.take_chunks()) == [withdrawal()]
    buffer.on_part(MESSAGE)
    assert buffer.take_chunks() == []


def test_interrupted_message_withdraws_the_previews_of_all_its_calls():
    buffer = DeltaBuffer(1)
    start_calls(buffer, "whole", "half", "unseen")
    buffer.preview(preview("whole"))
    buffer.preview(preview("half"))
    buffer.take_chunks()
    buffer.finish_block(tool_event("whole"))
    buffer.on_part(MESSAGE)
    assert {one["call_id"] for one in receive(buffer.take_chunks())} == {"whole", "half"}


def test_next_worker_withdraws_previews_of_earlier_attempts():
    assembler, lost, buffer = DeltaAssembler(), DeltaBuffer(1), DeltaBuffer(2)
    start_calls(lost)
    lost.preview(preview())
    assert receive(lost.take_chunks(), assembler) == [preview().flat()]
    buffer.withdraw_all()
    start_calls(buffer, "d")
    buffer.preview(preview("d"))
    assert receive(buffer.take_chunks(), assembler) == [{"type": "preview_withdrawn"}, preview("d").flat()]
    of_a_batch = DeltaBuffer(2, is_published=False)
    of_a_batch.withdraw_all()
    start_calls(of_a_batch)
    of_a_batch.preview(preview())
    of_a_batch.on_part(MESSAGE)
    assert of_a_batch.take_chunks() == []


def test_reader_at_another_event_gets_withdrawals_only():
    buffer, assembler = DeltaBuffer(1), DeltaAssembler()
    start_calls(buffer)
    buffer.preview(preview())
    assert receive(buffer.take_chunks(), assembler, at=3, after=4) == []
    buffer.finish_block(tool_result("error"))
    assert receive(buffer.take_chunks(), assembler, at=3, after=4) == [withdrawal()]


def test_preview_larger_than_a_notification_is_not_sent():
    buffer = DeltaBuffer(9_999)
    start_calls(buffer)
    for length in range(0, 2_000, 50):
        buffer.preview(preview(value="\U0001f600" * length))
    pieces = buffer.take_chunks()
    assert pieces and max(len(f"{'0' * 36} {2**31 - 1} {piece}") for piece in pieces) < 7_900
    assert max(len(piece) for piece in pieces) > PREVIEW_BYTES - 1_000


def test_previews_per_call_are_limited():
    buffer = DeltaBuffer(1)
    start_calls(buffer)
    for number in range(MAX_PREVIEWS * 2):
        buffer.preview(preview(path=f"f{number}"))
    assert len(buffer.take_chunks()) == MAX_PREVIEWS


# Locating -------------------------------------------------------------------------------------------------------------


class RecordingBuffer(DeltaBuffer):
    def __init__(self, *, is_published: bool = True) -> None:
        super().__init__(1, is_published=is_published)
        self.recorded: list[PreviewEvent] = []

    def preview(self, event: PreviewEvent) -> None:
        self.recorded.append(event)

    @property
    def paths(self) -> dict[str, Any]:
        return {event.path: event.value for event in self.recorded}


def start_call(finder: CallPreviews, tool: str, *pieces: str, call_id: str = "c") -> None:
    finder.on_part(BlockStarted(call_id, tool))
    add_arguments(finder, *pieces)


def add_arguments(finder: CallPreviews, *pieces: str) -> None:
    for piece in pieces:
        finder.on_part(BlockDelta("arguments", piece))


@anyio
async def test_field_is_previewed_once_complete_and_not_stored(case):
    context, buffer = await case.context(), RecordingBuffer()
    finder = CallPreviews(EXTRACTION.toolset, buffer)
    start_call(finder, "extract_fields", '{"fields": {"vendor": {"name": "Acme Gm')
    add_arguments(finder, 'bH"}, "total": 10.0')
    await until(lambda: buffer.recorded)
    assert buffer.paths == {"vendor.name": "Acme GmbH"}  # the number may continue
    add_arguments(finder, '0, "number": "7000"}, "confidences": {"vendor.name": 0.9}}')
    await until(lambda: len(buffer.recorded) == 3)
    assert buffer.paths == {"vendor.name": "Acme GmbH", "total": 10.0, "number": "7000"}
    assert not case.ledger(context.run_id) and not case.journal() and not case.events(context.run_id)


HOSTILE = {
    "NUL": '{"fields": {"a": "\\u0000", ',
    "too many digits": '{"fields": {"a": 1%s, ' % ("0" * 41),
    "33 levels": '{"fields": %s1, ' % ('{"a":' * 33),
    "another argument": '{"org_id": "10.00", ',
    "a list": '["10.00", ',
}


@anyio
async def test_refused_field_has_no_preview_and_the_next_call_has():
    buffer = RecordingBuffer()
    finder = CallPreviews(EXTRACTION.toolset, buffer)
    for hostile in HOSTILE.values():
        start_call(finder, "extract_fields", hostile)
        await asyncio.sleep(0.15)
    start_call(finder, "complete_extraction", '{"fields": {"a": "10.00", "b": 1, ')  # writes no fields
    await asyncio.sleep(0.15)
    assert not buffer.recorded
    start_call(finder, "extract_fields", '{"fields": {"a": "10.00", ', call_id="d")
    await until(lambda: buffer.recorded)
    assert [(event.call_id, event.path) for event in buffer.recorded] == [("d", "a")]


@anyio
async def test_failing_preview_does_not_end_the_run():
    def fails(leaves: Any) -> Any:
        raise ValueError("10.00")

    buffer = RecordingBuffer()
    toolset = Toolset(ExtractionTools)
    toolset.tools = {**toolset.tools, "extract_fields": replace(toolset.tools["extract_fields"], partial_write=fails)}
    finder = CallPreviews(toolset, buffer)
    start_call(finder, "extract_fields", '{"fields": {"a": "10.00", ')
    await asyncio.sleep(0.2)
    assert not buffer.recorded
    start_call(finder, "update_field", '{"path": "a", "value": 1,')
    await until(lambda: buffer.recorded)


# Delivery -------------------------------------------------------------------------------------------------------------


@anyio
async def test_previews_reach_only_subscribers_of_the_organisation_in_order(case, make_user):
    context, stranger = await case.context(), await make_user()
    buffer = DeltaBuffer(context.fencing_token)

    async def read(scope: Any, into: list[tuple[int, Any]], **asked: Any) -> None:
        async for event in follow(case.database, scope, context.run_id, **asked):
            into += [] if event is None else [(event[0], json.loads(event[1]))]

    with pytest.raises(NotFound):
        await read(stranger, [], deltas=True)
    whole: list[tuple[int, Any]] = []
    kept: list[tuple[int, Any]] = []
    readers = [
        asyncio.create_task(read(case.scope, into, deltas=deltas)) for into, deltas in ((whole, True), (kept, False))
    ]
    finder = CallPreviews(EXTRACTION.toolset, buffer)
    async with EventWriter(context, buffer) as log:
        log.append(TextEvent(text="I begin."))
        await until(lambda: whole and kept)
        for observer in (buffer, finder):
            observer.on_part(MESSAGE)
            observer.on_part(BlockStarted("c", "update_field"))
        add_arguments(finder, '{"path": "total", "value": 10.0, ')
        await until(lambda: buffer._calls["c"].sent)
        log.append(tool_event())
        log.append(tool_result("error"))
        log.append(TextEvent(text="I stop."))
        await until(lambda: [n for n, _ in whole].count(EPHEMERAL) == 2)
    async with case.database.as_service() as conn:
        await runs.fail(conn, context.run_id, "It stops.", RunError.INTERNAL)
    await asyncio.wait_for(asyncio.gather(*readers), 60)
    assert [event for event in whole if event[0] != EPHEMERAL] == kept
    assert [event["type"] for _, event in kept] == ["text", "tool", "tool_result", "text", "error"]
    (first, preview), (last, taken_back) = [(at, event) for at, (n, event) in enumerate(whole) if n == EPHEMERAL]
    assert (first, preview["type"], preview["call_id"], preview["path"]) == (1, "preview", "c", "total")
    assert (preview["value"], taken_back) == (10.0, withdrawal()) and last >= 4
    assert [event for event in case.events(context.run_id) if "preview" in event["type"]] == []
