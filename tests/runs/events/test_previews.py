"""Previews: what the model is writing, found on the pages already, for whoever watches, and void once it is refused."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from extraction_case import until
from fieldmark.agents.extraction.agent import EXTRACTION
from fieldmark.agents.extraction.tools import EXTRACT_FIELDS, UPDATE_FIELD
from fieldmark.domain.events import EVENT, PreviewEvent, PreviewWithdrawnEvent, TextEvent, ToolEvent, ToolResultEvent
from fieldmark.domain.statuses import RunError
from fieldmark.errors import NotFound
from fieldmark.runs.events.deltas import MAX_PREVIEWS, PREVIEW_BYTES, DeltaAssembler, DeltaBuffer
from fieldmark.runs.events.follow import EPHEMERAL, follow
from fieldmark.runs.events.previews import CallPreviews
from fieldmark.runs.events.writer import EventWriter
from fieldmark.runs.parts import BlockDelta, BlockStarted, MessageStarted, ToolReturned
from fieldmark.stores import runs
from fieldmark.tools.toolset import Toolset

anyio = pytest.mark.anyio

MESSAGE = MessageStarted("m", "model")


def field(call_id: str = "c", path: str = "total", value: Any = 1) -> PreviewEvent:
    return PreviewEvent(call_id=call_id, path=path, value=value)


def begun(call_id: str = "c") -> ToolEvent:
    return ToolEvent(
        tool="update_field", call_id=call_id, input={}, message="Updating total", action_type="writing", timestamp=1
    )


def ended(status: Any, call_id: str = "c") -> ToolResultEvent:
    step = {"message": "Updating total", "action_type": "writing", "timestamp": 2, "duration_ms": 1000}
    return ToolResultEvent(tool_result="update_field", call_id=call_id, status=status, code="", **step)


def begin(draft: DeltaBuffer, *call_ids: str) -> None:
    for call_id in call_ids or ("c",):
        draft.on_part(BlockStarted(call_id, "update_field"))


def heard(pieces: list[str], reading: DeltaAssembler | None = None, at: int = 3, after: int = 3) -> list[Any]:
    """What a reader that is behind event `after` is told of pieces that were told behind event `at`."""
    reading = reading or DeltaAssembler()
    return [json.loads(body) for body in reading.accept_all([f"run {at} {piece}" for piece in pieces], after)]


def withdrawn(call_id: str | None = "c") -> dict[str, Any]:
    return PreviewWithdrawnEvent(call_id=call_id).flat()


# Telling --------------------------------------------------------------------------------------------------------------


def test_preview_is_sent_once_and_not_after_the_event_of_its_call():
    draft, reading = DeltaBuffer(1), DeltaAssembler()
    draft.preview(field())  # of a call that there is not
    begin(draft)
    draft.preview(field())
    (told,) = heard(draft.take_chunks(), reading)
    assert EVENT.validate_python(told) == field() and draft.take_chunks() == []
    draft.preview(field(path="net"))
    assert heard(draft.take_chunks(), reading) == [field(path="net").flat()]
    draft.preview(field(path="gross"))
    draft.finish_block(begun())
    draft.preview(field(path="late"))
    assert draft.take_chunks() == []


def test_previews_of_a_refused_call_are_withdrawn_others_stay():
    draft = DeltaBuffer(1)
    begin(draft, "c", "d")
    for call_id in "cd":
        draft.preview(field(call_id))
    assert len(heard(draft.take_chunks())) == 2
    draft.finish_block(begun())
    draft.finish_block(begun("d"))
    assert draft.take_chunks() == []
    draft.finish_block(ended("complete", "d"))
    draft.on_part(ToolReturned("d", "Stored.", False))
    draft.finish_block(ended("error"))
    draft.on_part(ToolReturned("c", "No.", True))
    assert heard(draft.take_chunks()) == [withdrawn()]
    draft.on_part(MESSAGE)
    assert draft.take_chunks() == []


def test_interrupted_message_withdraws_the_previews_of_all_its_calls():
    draft = DeltaBuffer(1)
    begin(draft, "whole", "half", "unseen")
    draft.preview(field("whole"))
    draft.preview(field("half"))
    draft.take_chunks()
    draft.finish_block(begun("whole"))
    draft.on_part(MESSAGE)
    assert {one["call_id"] for one in heard(draft.take_chunks())} == {"whole", "half"}


def test_next_worker_withdraws_previews_of_earlier_attempts():
    reading, lost, draft = DeltaAssembler(), DeltaBuffer(1), DeltaBuffer(2)
    begin(lost)
    lost.preview(field())
    assert heard(lost.take_chunks(), reading) == [field().flat()]
    draft.withdraw_all()
    begin(draft, "d")
    draft.preview(field("d"))
    assert heard(draft.take_chunks(), reading) == [{"type": "preview_withdrawn"}, field("d").flat()]
    of_a_batch = DeltaBuffer(2, is_published=False)
    of_a_batch.withdraw_all()
    begin(of_a_batch)
    of_a_batch.preview(field())
    of_a_batch.on_part(MESSAGE)
    assert of_a_batch.take_chunks() == []


def test_reader_at_another_event_gets_withdrawals_only():
    draft, reading = DeltaBuffer(1), DeltaAssembler()
    begin(draft)
    draft.preview(field())
    assert heard(draft.take_chunks(), reading, at=3, after=4) == []
    draft.finish_block(ended("error"))
    assert heard(draft.take_chunks(), reading, at=3, after=4) == [withdrawn()]


def test_preview_larger_than_a_notification_is_not_sent():
    draft = DeltaBuffer(9_999)
    begin(draft)
    for length in range(0, 2_000, 50):
        draft.preview(field(value="\U0001f600" * length))
    pieces = draft.take_chunks()
    assert pieces and max(len(f"{'0' * 36} {2**31 - 1} {piece}") for piece in pieces) < 7_900
    assert max(len(piece) for piece in pieces) > PREVIEW_BYTES - 1_000


def test_previews_per_call_are_limited():
    draft = DeltaBuffer(1)
    begin(draft)
    for number in range(MAX_PREVIEWS * 2):
        draft.preview(field(path=f"f{number}"))
    assert len(draft.take_chunks()) == MAX_PREVIEWS


# Finding --------------------------------------------------------------------------------------------------------------


class Recorded(DeltaBuffer):
    """A draft that tells a test what it was given."""

    def __init__(self, *, is_published: bool = True) -> None:
        super().__init__(1, is_published=is_published)
        self.given: list[PreviewEvent] = []

    def preview(self, event: PreviewEvent) -> None:
        self.given.append(event)

    @property
    def paths(self) -> dict[str, Any]:
        return {event.path: event.value for event in self.given}


def write(finder: CallPreviews, tool: str, *pieces: str, call_id: str = "c") -> None:
    finder.on_part(BlockStarted(call_id, tool))
    go_on(finder, *pieces)


def go_on(finder: CallPreviews, *pieces: str) -> None:
    for piece in pieces:
        finder.on_part(BlockDelta("arguments", piece))


@anyio
async def test_field_is_previewed_once_complete_and_not_stored(case):
    context, draft = await case.context(), Recorded()
    finder = CallPreviews(EXTRACTION.toolset, draft)
    write(finder, "extract_fields", '{"fields": {"vendor": {"name": "Acme Gm')
    go_on(finder, 'bH"}, "total": 10.0')
    await until(lambda: draft.given)
    assert draft.paths == {"vendor.name": "Acme GmbH"}  # the number may go on
    go_on(finder, '0, "number": "7000"}, "confidences": {"vendor.name": 0.9}}')
    await until(lambda: len(draft.given) == 3)
    assert draft.paths == {"vendor.name": "Acme GmbH", "total": 10.0, "number": "7000"}
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
    draft = Recorded()
    finder = CallPreviews(EXTRACTION.toolset, draft)
    for hostile in HOSTILE.values():
        write(finder, "extract_fields", hostile)
        await asyncio.sleep(0.15)
    write(finder, "complete_extraction", '{"fields": {"a": "10.00", "b": 1, ')  # which writes no fields
    await asyncio.sleep(0.15)
    assert not draft.given
    write(finder, "extract_fields", '{"fields": {"a": "10.00", ', call_id="d")
    await until(lambda: draft.given)
    assert [(event.call_id, event.path) for event in draft.given] == [("d", "a")]


@anyio
async def test_failing_preview_does_not_end_the_run():
    def fails(leaves: Any) -> Any:
        raise ValueError("10.00")

    draft = Recorded()
    finder = CallPreviews(Toolset(replace(EXTRACT_FIELDS, partial_write=fails), UPDATE_FIELD), draft)
    write(finder, "extract_fields", '{"fields": {"a": "10.00", ')
    await asyncio.sleep(0.2)
    assert not draft.given
    write(finder, "update_field", '{"path": "a", "value": 1,')
    await until(lambda: draft.given)


# Travelling -----------------------------------------------------------------------------------------------------------


@anyio
async def test_previews_reach_only_subscribers_of_the_organisation_in_order(case, make_user):
    context, stranger = await case.context(), await make_user()
    draft = DeltaBuffer(context.fencing_token)

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
    finder = CallPreviews(EXTRACTION.toolset, draft)
    async with EventWriter(context, draft) as log:
        log.append(TextEvent(text="I begin."))
        await until(lambda: whole and kept)
        for observer in (draft, finder):
            observer.on_part(MESSAGE)
            observer.on_part(BlockStarted("c", "update_field"))
        go_on(finder, '{"path": "total", "value": 10.0, ')
        await until(lambda: draft._calls["c"].sent)
        log.append(begun())
        log.append(ended("error"))
        log.append(TextEvent(text="I stop."))
        await until(lambda: [n for n, _ in whole].count(EPHEMERAL) == 2)
    async with case.database.as_service() as conn:
        await runs.fail(conn, context.run_id, "It stops.", RunError.INTERNAL)
    await asyncio.wait_for(asyncio.gather(*readers), 60)
    assert [event for event in whole if event[0] != EPHEMERAL] == kept
    assert [event["type"] for _, event in kept] == ["text", "tool", "tool_result", "text", "error"]
    (first, preview), (last, taken_back) = [(at, event) for at, (n, event) in enumerate(whole) if n == EPHEMERAL]
    assert (first, preview["type"], preview["call_id"], preview["path"]) == (1, "preview", "c", "total")
    assert (preview["value"], taken_back) == (10.0, withdrawn()) and last >= 4
    assert [event for event in case.events(context.run_id) if "preview" in event["type"]] == []
