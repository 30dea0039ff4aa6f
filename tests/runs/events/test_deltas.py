"""Deltas: whatever is lost of them, a reader gathers the beginning of the block that is being said, or nothing."""

from __future__ import annotations

import asyncio
import json
from itertools import count

import psycopg
import pytest
from hypothesis import example, given
from hypothesis import strategies as some

from fieldmark.domain.events import TextEvent
from fieldmark.errors import NotFound
from fieldmark.runs.events.deltas import DeltaAssembler, DeltaBuffer
from fieldmark.runs.events.follow import EPHEMERAL, follow
from fieldmark.runs.events.writer import EventWriter
from fieldmark.runs.parts import BlockDelta, BlockStarted
from fieldmark.stores import runs
from fieldmark.stores.channels import EVENTS_CHANNEL, WORK_CHANNEL

anyio = pytest.mark.anyio


def begin(draft: DeltaBuffer, *words: str, kind: str = "text") -> None:
    draft.on_part(BlockStarted())
    say(draft, *words, kind=kind)


def say(draft: DeltaBuffer, *words: str, kind: str = "text") -> None:
    for word in words:
        draft.on_part(BlockDelta(kind, word))


def read(reading: DeltaAssembler, pieces: list[str], after: int = 0) -> str:
    """What a reader gathers of pieces that were told behind event `after`."""
    passed = [reading.accept(f"run {after} {piece}", after) for piece in pieces]
    return "".join(json.loads(body)["text_delta"] for body in passed if body is not None)


def test_background_blank_or_finished_blocks_send_no_deltas():
    silent = DeltaBuffer(1, is_published=False)
    begin(silent, "Words.")
    assert silent.take_chunks() == []
    draft = DeltaBuffer(1)
    begin(draft, "\n", " ")
    assert draft.take_chunks() == []
    begin(draft)
    draft.on_part(BlockDelta("arguments", "{"))
    assert draft.take_chunks() == []
    say(draft, "\n", "A")
    assert read(DeltaAssembler(), draft.take_chunks()) == "\nA"
    begin(draft, "The whole.")
    draft.finish_block()
    say(draft, " More.")
    assert draft.take_chunks() == []


@pytest.mark.parametrize("character", ["a", "\0", "\ud800", "\U0001f600"])
def test_chunk_fits_into_a_notification_and_is_read_unchanged(character):
    draft, reading = DeltaBuffer(9_999), DeltaAssembler()
    begin(draft, character * 2000, "!")
    pieces = draft.take_chunks()
    assert all(len(f"{'0' * 36} {2**31 - 1} {piece}".encode()) < 7900 and "\0" not in piece for piece in pieces)
    assert read(reading, pieces) == character * 2000 + "!"


def test_deltas_of_child_runs_are_assembled_separately():
    first, second, reading = DeltaBuffer(1), DeltaBuffer(1), DeltaAssembler()
    heard = {"a": "", "b": ""}
    for n in range(3):
        for part, draft in (("a", first), ("b", second)):
            begin(draft, f"{part}0") if n == 0 else say(draft, f"{part}{n}")
            for piece in draft.take_chunks():
                if (body := reading.accept(f"run 0 {part}/{piece}", 0)) is not None:
                    heard[part] += json.loads(body)["text_delta"]
    assert heard == {"a": "a0a1a2", "b": "b0b1b2"}


_STEPS = ["text_of", "lost", "heard", "event", "another block", "another worker"]


@given(some.lists(some.one_of(some.text("ab \ud800", max_size=700), some.sampled_from(_STEPS)), max_size=40))
@example(["a", "lost", "b", "text_of", "heard"])
@example(["a", "text_of", "event", "heard"])
def test_lost_or_late_chunks_leave_the_start_of_the_block(course):
    draft, reading = DeltaBuffer(1), DeltaAssembler()
    attempts, after, under_way, gathered, blocks = count(2), 0, [], "", [""]
    begin(draft)
    for step in course:
        match step:
            case "text_of":
                under_way += [f"run {after} {piece}" for piece in draft.take_chunks()]
            case "lost":
                draft.take_chunks()
            case "heard":
                passed = [body for piece in under_way if (body := reading.accept(piece, after))]
                gathered += "".join(json.loads(body)["text_delta"] for body in passed)
                under_way = []
            case "event":
                draft.finish_block()  # what is still said of its block is told no more
                after, gathered, blocks = after + 1, "", [""]
            case "another block" | "another worker":
                draft = draft if step == "another block" else DeltaBuffer(next(attempts))
                begin(draft)
                blocks.append("")
            case words:
                say(draft, words)
                blocks[-1] += words
        assert any(block.startswith(gathered) for block in blocks)


@anyio
async def test_deltas_are_sent_between_events_and_never_after_their_own(case):
    context = await case.context()
    draft = DeltaBuffer(1)
    channels = (EVENTS_CHANNEL, await delta_channel(case))
    async with case.database.listen(*channels, about=str(context.run_id)) as heard, EventWriter(context, draft) as log:
        begin(draft, "I re", "ad")
        assert await text_of(heard) == '0 1.1 0 6 {"type": "text_delta", "text_delta": "I read"}'
        log.append(TextEvent(text="I read."))
        begin(draft, "Then")  # at once: it waits for the row all the same, and may overtake the news of it
        piece = '1 1.2 0 4 {"type": "text_delta", "text_delta": "Then"}'
        both = {await asyncio.wait_for(anext(heard), 30) for _ in range(2)}
        assert both == {str(context.run_id), f"{context.run_id} {piece}"}
        say(draft, " I")
        log.append(TextEvent(text="Then I write."))
        assert await anext(heard) == str(context.run_id)
        begin(draft, "Done")
        assert (
            await text_of(heard) == '2 1.3 0 4 {"type": "text_delta", "text_delta": "Done"}'
        )  # and nothing of the second
    assert case.events(context.run_id) == [
        {"type": "text", "text": "I read."},
        {"type": "text", "text": "Then I write."},
    ]


async def delta_channel(case) -> str:
    async with case.database.as_user(case.scope) as conn:
        return await runs.delta_channel(conn)


async def text_of(heard) -> str:
    """The next piece that is heard, without its run."""
    return (await asyncio.wait_for(anext(heard), 30)).partition(" ")[2]


@anyio
async def test_only_the_owning_worker_publishes_deltas(case):
    lost = await case.context()
    context = await case.context(lost.run_id)
    async with case.database.listen(await delta_channel(case), about=str(context.run_id)) as heard:
        for attempt in (lost, context):
            draft = DeltaBuffer(attempt.fencing_token)
            async with EventWriter(attempt, draft) as log:
                begin(draft, "Words.")
                await log.flush_and_publish()
        assert await text_of(heard) == '0 2.1 0 6 {"type": "text_delta", "text_delta": "Words."}'


@anyio
async def test_database_listener_without_channel_name_receives_no_deltas(case, clone):
    """Postgres asks no right for LISTEN: the channel of deltas has a secret name, and the others carry ids alone."""
    context = await case.context()
    async with (
        case.database.listen(EVENTS_CHANNEL, await delta_channel(case)) as here,
        EventWriter(context) as log,
        await psycopg.AsyncConnection.connect(clone.owner_url, autocommit=True) as eavesdropper,
    ):
        for channel in (EVENTS_CHANNEL, WORK_CHANNEL, "delta_channel"):
            await eavesdropper.execute(f"listen {channel}")
        begin(log._deltas, "Secret words.")
        await log.flush_and_publish()
        assert "Secret words." in await text_of(here)  # the control
        log.append(TextEvent(text="Secret words."))
        await log.flush()
        assert await text_of(here) == ""  # of the event
        case.sql("select pg_notify(%s, 'end') from public.runs", WORK_CHANNEL)
        overheard = []
        async for heard in eavesdropper.notifies(timeout=30):
            if heard.payload == "end":
                break
            overheard.append(heard.payload)
        assert set(overheard) == {str(context.run_id)}


@anyio
async def test_reader_that_lost_access_receives_no_more_deltas(case):
    context = await case.context()
    following = follow(case.database, case.scope, context.run_id, deltas=True, poll_seconds=0.5)
    async with EventWriter(context, DeltaBuffer(1)) as log:
        log.append(TextEvent(text="Now."))
    assert (await anext(following))[0] == 1

    channel = await delta_channel(case)

    async def words() -> None:
        async with await psycopg.AsyncConnection.connect(case.owner_url, autocommit=True) as conn:
            for n in count():
                piece = f"{context.run_id} 1 1.1 {n} {n + 1} {{}}"
                await conn.execute("select pg_notify(%s, %s)", [channel, piece])
                await asyncio.sleep(0.02)

    talking = asyncio.create_task(words())
    try:
        assert await asyncio.wait_for(anext(following), 30) == (EPHEMERAL, "{}")
        case.sql("delete from auth.users where id = %s", case.scope.user_id)
        async with asyncio.timeout(30):
            with pytest.raises(NotFound):
                async for _ in following:
                    pass
    finally:
        talking.cancel()
        await asyncio.wait({talking})


@anyio
async def test_slow_reader_receives_nothing_from_after_losing_access(case):
    context = await case.context()
    following = follow(case.database, case.scope, context.run_id, deltas=True, poll_seconds=0.2)
    async with EventWriter(context, DeltaBuffer(1)) as log:
        log.append(TextEvent(text="Now."))
    assert (await anext(following))[0] == 1
    case.sql("delete from auth.users where id = %s", case.scope.user_id)
    case.sql("select pg_notify(%s, %s)", await delta_channel(case), f"{context.run_id} 1 1.1 0 1 {{}}")
    await asyncio.sleep(0.5)
    with pytest.raises(NotFound):
        await anext(following)


@anyio
async def test_delta_that_arrives_before_its_event_is_sent_after_it(case):
    context = await case.context()
    following = follow(case.database, case.scope, context.run_id, deltas=True, poll_seconds=60)
    # The events are there, and nobody is told of them.
    case.sql("select private.append_event(%s, '{}', false)", context.run_id)
    assert (await asyncio.wait_for(anext(following), 30))[0] == 1
    case.sql("select private.append_event(%s, '{}', false)", context.run_id)
    reading = asyncio.ensure_future(anext(following))
    piece = f'{context.run_id} 2 1.1 0 1 {{"a": 1}}'
    case.sql("select pg_notify(%s, %s)", await delta_channel(case), piece)
    assert (await asyncio.wait_for(reading, 30))[0] == 2
    assert await asyncio.wait_for(anext(following), 30) == (EPHEMERAL, '{"a": 1}')
    await following.aclose()
