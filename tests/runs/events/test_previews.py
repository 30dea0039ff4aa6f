"""Previews: what the model is writing, found on the pages already, for whoever watches, and void once it is refused."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from desk import until
from fieldmark.agents.extraction.agent import EXTRACTION
from fieldmark.agents.extraction.tools import EXTRACT_FIELDS, UPDATE_FIELD
from fieldmark.domain.events import EVENT, PreviewEvent, PreviewWithdrawnEvent, TextEvent, ToolEvent
from fieldmark.domain.statuses import RunError
from fieldmark.errors import NotFound
from fieldmark.offline_model.messages import text
from fieldmark.runs.events import previews
from fieldmark.runs.events.deltas import MOST_PREVIEWS, PREVIEW_BYTES, DeltaAssembler, DeltaBuffer
from fieldmark.runs.events.follow import DELTA, follow
from fieldmark.runs.events.previews import CallPreviews
from fieldmark.runs.events.writer import EventWriter
from fieldmark.runs.parts import BlockDelta, BlockStarted, MessageStarted, MessageStopped, ToolReturned
from fieldmark.stores import runs
from fieldmark.testing.script import Script
from fieldmark.tools.toolset import Toolset

anyio = pytest.mark.anyio

MESSAGE = MessageStarted("m", "model")


def field(call_id: str = "c", path: str = "total", value: Any = 1) -> PreviewEvent:
    return PreviewEvent(call_id=call_id, path=path, value=value)


def ended(status: Any, call_id: str = "c") -> ToolEvent:
    return ToolEvent(tool="update_field", call_id=call_id, status=status, message="Updating total")


def begin(draft: DeltaBuffer, *call_ids: str) -> None:
    for call_id in call_ids or ("c",):
        draft.on_part(BlockStarted(call_id, "update_field"))


def heard(pieces: list[str], reading: DeltaAssembler | None = None, at: int = 3, after: int = 3) -> list[Any]:
    """What a reader that is behind event `after` is told of pieces that were told behind event `at`."""
    reading = reading or DeltaAssembler()
    return [json.loads(body) for body in reading.passing([f"run {at} {piece}" for piece in pieces], after)]


def withdrawn(call_id: str | None = "c") -> dict[str, Any]:
    return PreviewWithdrawnEvent(call_id=call_id).flat()


# Telling --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("event", [field(), field(value=None), PreviewWithdrawnEvent()])
def test_a_preview_is_an_event_of_the_union(event):
    assert EVENT.validate_python(json.loads(json.dumps(event.flat()))) == event


def test_a_preview_is_told_once():
    draft, reading = DeltaBuffer(1), DeltaAssembler()
    draft.preview(field())  # of a call that there is not
    begin(draft)
    draft.preview(field())
    assert heard(draft.take(), reading) == [field().flat()] and draft.take() == []
    draft.preview(field(path="net"))
    assert heard(draft.take(), reading) == [field(path="net").flat()]


@pytest.mark.parametrize("status", ["running", "complete", "error"])
def test_once_the_event_of_its_call_is_said_no_preview_is_told_any_more(status):
    draft = DeltaBuffer(1)
    begin(draft)
    draft.preview(field())
    draft.pass_over(ended(status))
    draft.preview(field(path="late"))
    assert draft.take() == []  # it was shown to nobody, so there is nothing to take back


def test_a_refused_call_takes_its_previews_back_and_another_s_stay():
    draft = DeltaBuffer(1)
    begin(draft, "c", "d")
    for call_id in "cd":
        draft.preview(field(call_id))
    assert len(heard(draft.take())) == 2
    draft.pass_over(ended("running"))
    draft.pass_over(ended("running", "d"))
    assert draft.take() == []
    draft.pass_over(ended("complete", "d"))
    draft.on_part(ToolReturned("d", "Stored.", False))
    draft.pass_over(ended("error"))
    draft.on_part(ToolReturned("c", "No.", True))
    assert heard(draft.take()) == [withdrawn()]
    draft.on_part(MESSAGE)
    assert draft.take() == []


def test_an_answer_that_broke_off_takes_back_what_its_calls_foresaw_whole_ones_too():
    draft = DeltaBuffer(1)
    begin(draft, "whole", "half", "unseen")
    draft.preview(field("whole"))
    draft.preview(field("half"))
    draft.take()
    draft.pass_over(ended("running", "whole"))
    draft.on_part(MESSAGE)
    assert {one["call_id"] for one in heard(draft.take())} == {"whole", "half"}


def test_a_call_that_a_person_refused_was_told_by_them():
    draft = DeltaBuffer(1)
    begin(draft)
    draft.preview(field())
    draft.take()
    draft.on_part(ToolReturned("c", "No.", True))  # without an event of its end: the decision had it
    draft.on_part(MESSAGE)
    assert draft.take() == []


def test_another_worker_takes_back_what_the_one_before_may_have_foreseen():
    reading, lost, draft = DeltaAssembler(), DeltaBuffer(1), DeltaBuffer(2)
    begin(lost)
    lost.preview(field())
    assert heard(lost.take(), reading) == [field().flat()]
    draft.withdraw_all()
    begin(draft, "d")
    draft.preview(field("d"))
    assert heard(draft.take(), reading) == [{"type": "preview_withdrawn"}, field("d").flat()]
    of_a_batch = DeltaBuffer(2, is_told=False)
    of_a_batch.withdraw_all()
    begin(of_a_batch)
    of_a_batch.preview(field())
    of_a_batch.on_part(MESSAGE)
    assert of_a_batch.take() == []


def test_a_reader_that_is_behind_another_event_is_told_no_preview_but_what_is_void():
    draft, reading = DeltaBuffer(1), DeltaAssembler()
    begin(draft)
    draft.preview(field())
    assert heard(draft.take(), reading, at=3, after=4) == []
    draft.pass_over(ended("error"))
    assert heard(draft.take(), reading, at=3, after=4) == [withdrawn()]


def test_previews_and_words_do_not_disturb_each_other():
    draft, reading = DeltaBuffer(1), DeltaAssembler()
    begin(draft)
    draft.preview(field())
    draft.on_part(BlockStarted())
    draft.on_part(BlockDelta("text", "I re"))
    assert [one["type"] for one in heard(draft.take(), reading)] == ["preview", "text_delta"]
    draft.preview(field(path="net"))
    draft.on_part(BlockDelta("text", "ad."))
    assert [one.get("text_delta") for one in heard(draft.take(), reading)] == [None, "ad."]


@pytest.mark.parametrize("value", ["x", "ü", "\U0001f600"])
def test_a_preview_fits_into_a_notification_or_there_is_none(value):
    draft = DeltaBuffer(9_999)
    begin(draft)
    for length in range(0, 8_000, 50):
        draft.preview(field(value=value * length))
    pieces = draft.take()
    assert pieces and max(len(f"{'0' * 36} {2**31 - 1} {piece}") for piece in pieces) < 7_900
    assert max(len(piece) for piece in pieces) > PREVIEW_BYTES - 1_000


def test_a_call_has_so_many_previews_and_no_more():
    draft = DeltaBuffer(1)
    begin(draft)
    for number in range(MOST_PREVIEWS * 2):
        draft.preview(field(path=f"f{number}"))
    assert len(draft.take()) == MOST_PREVIEWS


# Finding --------------------------------------------------------------------------------------------------------------


class Recorded(DeltaBuffer):
    """A draft that tells a test what it was given."""

    def __init__(self, *, is_told: bool = True) -> None:
        super().__init__(1, is_told=is_told)
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
async def test_a_field_is_shown_as_soon_as_it_is_whole_and_nothing_is_stored(desk):
    context, draft = await desk.context(), Recorded()
    finder = CallPreviews(EXTRACTION.toolset, draft)
    write(finder, "extract_fields", '{"fields": {"vendor": {"name": "Acme Gm')
    go_on(finder, 'bH"}, "total": 10.0')
    await until(lambda: draft.given)
    assert draft.paths == {"vendor.name": "Acme GmbH"}  # the number may go on
    go_on(finder, '0, "number": "7000"}, "confidences": {"vendor.name": 0.9}}')
    await until(lambda: len(draft.given) == 3)
    assert draft.paths == {"vendor.name": "Acme GmbH", "total": 10.0, "number": "7000"}
    assert not desk.ledger(context.run_id) and not desk.journal() and not desk.events(context.run_id)


@anyio
async def test_one_field_and_its_path():
    draft = Recorded()
    finder = CallPreviews(EXTRACTION.toolset, draft)
    write(finder, "update_field", '{"path": "vendors[0]", "value": {"name": "Acme GmbH", "id": 1}, "confid')
    await until(lambda: len(draft.given) == 2)
    for unusable in ('{"path": "a..b", "value": 1,', '{"path": [], "value": 1,', '{"value": 1, "confidence": 1,'):
        write(finder, "update_field", unusable)
        await asyncio.sleep(0.15)
    write(finder, "update_field", '{"value": "Acme GmbH", ')
    await asyncio.sleep(0.15)
    go_on(finder, '"path": "late", ')
    await until(lambda: "late" in draft.paths)
    write(finder, "update_field", '{"path": "last", "value": 1,')
    await until(lambda: "last" in draft.paths)
    assert draft.paths == {"vendors[0].name": "Acme GmbH", "vendors[0].id": 1, "late": "Acme GmbH", "last": 1}


@anyio
async def test_of_a_run_of_a_batch_nothing_is_parsed():
    draft = Recorded(is_told=False)
    finder = CallPreviews(EXTRACTION.toolset, draft)
    write(finder, "extract_fields", '{"fields": {"vendor": "Acme GmbH", "total": 10.0, ')
    await asyncio.sleep(0.2)
    assert not draft.given


HOSTILE = {
    "an invisible character": '{"fields": {"a": "10\\u200b.00", ',
    "NUL": '{"fields": {"a": "\\u0000", ',
    "half a surrogate": '{"fields": {"a": "\\ud800", ',
    "a long key": '{"fields": {"%s": 1, ' % ("k" * 201),
    "too many digits": '{"fields": {"a": 1%s, ' % ("0" * 41),
    "no finite number": '{"fields": {"a": 1e999, ',
    "33 levels": '{"fields": %s1, ' % ('{"a":' * 33),
    "another argument": '{"org_id": "10.00", ',
    "a list": '["10.00", ',
}


@anyio
@pytest.mark.parametrize("what", HOSTILE)
async def test_of_what_would_be_refused_there_is_no_preview(what):
    draft = Recorded()
    finder = CallPreviews(EXTRACTION.toolset, draft)
    write(finder, "extract_fields", HOSTILE[what])
    await asyncio.sleep(0.2)
    assert not draft.given
    write(finder, "extract_fields", '{"fields": {"a": "10.00", ', call_id="d")  # the next call is none the worse
    await until(lambda: draft.given)
    assert [(event.call_id, event.path) for event in draft.given] == [("d", "a")]


@anyio
@pytest.mark.parametrize("tool", ["complete_extraction", None])
async def test_calls_that_write_no_fields_have_none(tool):
    draft = Recorded()
    finder = CallPreviews(EXTRACTION.toolset, draft)
    finder.on_part(BlockStarted("c", tool))
    go_on(finder, '{"fields": {"a": "10.00", "b": 1, ')
    finder.on_part(MessageStopped())
    go_on(finder, '"c": 1, ')
    await asyncio.sleep(0.2)
    assert not draft.given


@anyio
async def test_what_fails_costs_previews_and_nothing_else():
    def fails(leaves: Any) -> Any:
        raise ValueError("10.00")

    draft = Recorded()
    finder = CallPreviews(Toolset(replace(EXTRACT_FIELDS, partial_write=fails), UPDATE_FIELD), draft)
    write(finder, "extract_fields", '{"fields": {"a": "10.00", ')
    await asyncio.sleep(0.2)
    assert not draft.given
    write(finder, "update_field", '{"path": "a", "value": 1,')
    await until(lambda: draft.given)


@anyio
async def test_arguments_without_end_are_kept_no_longer_than_a_call_may_be():
    finder = CallPreviews(EXTRACTION.toolset, Recorded(is_told=False))
    write(finder, "extract_fields", '{"fields": {"a": "')
    for _ in range(40):
        go_on(finder, "x" * 10_000)
        assert finder._call is None or sum(map(len, finder._call.pieces)) <= previews.MAX_CHARACTERS
    assert finder._call is None


# Travelling -----------------------------------------------------------------------------------------------------------


@anyio
async def test_previews_go_to_who_asked_behind_the_events_before_them_and_to_no_other_organisation(desk, make_user):
    context, stranger = await desk.context(), await make_user()
    draft = DeltaBuffer(context.fencing_token)

    async def read(scope: Any, into: list[tuple[int, Any]], **asked: Any) -> None:
        async for event in follow(desk.database, scope, context.run_id, **asked):
            into += [] if event is None else [(event[0], json.loads(event[1]))]

    with pytest.raises(NotFound):
        await read(stranger, [], deltas=True)
    whole: list[tuple[int, Any]] = []
    kept: list[tuple[int, Any]] = []
    readers = [
        asyncio.create_task(read(desk.scope, into, deltas=deltas)) for into, deltas in ((whole, True), (kept, False))
    ]
    finder = CallPreviews(EXTRACTION.toolset, draft)
    async with EventWriter(context, draft) as log:
        log.say(TextEvent(text="I begin."))
        await until(lambda: whole and kept)
        for observer in (draft, finder):
            observer.on_part(MESSAGE)
            observer.on_part(BlockStarted("c", "update_field"))
        go_on(finder, '{"path": "total", "value": 10.0, ')
        await until(lambda: draft._calls["c"].told)
        log.say(ended("running"))
        log.say(ended("error"))
        log.say(TextEvent(text="I stop."))
        await until(lambda: not draft._withdrawn)
    async with desk.database.as_service() as conn:
        await runs.fail(conn, context.run_id, "It stops.", RunError.INTERNAL)
    await asyncio.wait_for(asyncio.gather(*readers), 60)
    assert [event for event in whole if event[0] != DELTA] == kept
    assert [event["type"] for _, event in kept] == ["text", "tool", "tool", "text", "error"]
    (first, preview), (last, taken_back) = [(at, event) for at, (n, event) in enumerate(whole) if n == DELTA]
    assert (first, preview["type"], preview["call_id"], preview["path"]) == (1, "preview", "c", "total")
    assert (preview["value"], taken_back) == (10.0, withdrawn()) and last >= 4
    assert [event for event in desk.events(context.run_id) if "preview" in event["type"]] == []


@anyio
async def test_a_run_that_is_taken_over_takes_back_what_was_foreseen_before(desk):
    context = await desk.context()
    async with desk.database.as_user(desk.scope) as conn:
        channel = await runs.delta_channel(conn)
        await runs.release(conn, context.run_id)
    async with desk.database.listen(channel, about=str(context.run_id)) as news:
        await desk.work(Script([[text("Done.")]]), context.run_id)
        piece = await asyncio.wait_for(anext(news), 60)
    assert DeltaAssembler().passes(str(piece), 10) == json.dumps(withdrawn(None))
