"""Deltas: if some are lost, the client still has a prefix of the current block."""

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
from fieldmark.runs.message_parts import BlockDelta, BlockStarted
from fieldmark.stores import runs
from fieldmark.stores.channels import EVENTS_CHANNEL, WORK_CHANNEL

anyio = pytest.mark.anyio


def start_block(buffer: DeltaBuffer, *texts: str, kind: str = "text") -> None:
    buffer.on_part(BlockStarted())
    add_text(buffer, *texts, kind=kind)


def add_text(buffer: DeltaBuffer, *texts: str, kind: str = "text") -> None:
    for word in texts:
        buffer.on_part(BlockDelta(kind, word))


def assemble(assembler: DeltaAssembler, pieces: list[str], after: int = 0) -> str:
    """Return the text that a client assembles from chunks sent after event `after`."""
    passed = [assembler.accept(f"run {after} {piece}", after) for piece in pieces]
    return "".join(json.loads(body)["text_delta"] for body in passed if body is not None)


def test_background_blank_or_finished_blocks_send_no_deltas():
    silent = DeltaBuffer(1, is_published=False)
    start_block(silent, "Words.")
    assert silent.take_chunks() == []
    buffer = DeltaBuffer(1)
    start_block(buffer, "\n", " ")
    assert buffer.take_chunks() == []
    start_block(buffer)
    buffer.on_part(BlockDelta("arguments", "{"))
    assert buffer.take_chunks() == []
    add_text(buffer, "\n", "A")
    assert assemble(DeltaAssembler(), buffer.take_chunks()) == "\nA"
    start_block(buffer, "The whole.")
    buffer.finish_block()
    add_text(buffer, " More.")
    assert buffer.take_chunks() == []


@pytest.mark.parametrize("character", ["a", "\0", "\ud800", "\U0001f600"])
def test_chunk_fits_into_a_notification_and_is_read_unchanged(character):
    buffer, assembler = DeltaBuffer(9_999), DeltaAssembler()
    start_block(buffer, character * 2000, "!")
    pieces = buffer.take_chunks()
    assert all(len(f"{'0' * 36} {2**31 - 1} {piece}".encode()) < 7900 and "\0" not in piece for piece in pieces)
    assert assemble(assembler, pieces) == character * 2000 + "!"


def test_deltas_of_child_runs_are_assembled_separately():
    first, second, assembler = DeltaBuffer(1), DeltaBuffer(1), DeltaAssembler()
    heard = {"a": "", "b": ""}
    for n in range(3):
        for part, buffer in (("a", first), ("b", second)):
            start_block(buffer, f"{part}0") if n == 0 else add_text(buffer, f"{part}{n}")
            for piece in buffer.take_chunks():
                if (body := assembler.accept(f"run 0 {part}/{piece}", 0)) is not None:
                    heard[part] += json.loads(body)["text_delta"]
    assert heard == {"a": "a0a1a2", "b": "b0b1b2"}


_STEPS = ["send", "lose", "receive", "event", "another block", "another worker"]


@given(some.lists(some.one_of(some.text("ab \ud800", max_size=700), some.sampled_from(_STEPS)), max_size=40))
@example(["a", "lose", "b", "send", "receive"])
@example(["a", "send", "event", "receive"])
def test_lost_or_late_chunks_leave_the_start_of_the_block(course):
    buffer, assembler = DeltaBuffer(1), DeltaAssembler()
    attempts, after, under_way, gathered, blocks = count(2), 0, [], "", [""]
    start_block(buffer)
    for step in course:
        match step:
            case "send":
                under_way += [f"run {after} {piece}" for piece in buffer.take_chunks()]
            case "lose":
                buffer.take_chunks()
            case "receive":
                passed = [body for piece in under_way if (body := assembler.accept(piece, after))]
                gathered += "".join(json.loads(body)["text_delta"] for body in passed)
                under_way = []
            case "event":
                buffer.finish_block()  # no more deltas of this block
                after, gathered, blocks = after + 1, "", [""]
            case "another block" | "another worker":
                buffer = buffer if step == "another block" else DeltaBuffer(next(attempts))
                start_block(buffer)
                blocks.append("")
            case texts:
                add_text(buffer, texts)
                blocks[-1] += texts
        assert any(block.startswith(gathered) for block in blocks)


@anyio
async def test_deltas_are_sent_between_events_and_never_after_their_own(case):
    context = await case.context()
    buffer = DeltaBuffer(1)
    channels = (EVENTS_CHANNEL, await delta_channel(case))
    async with case.database.listen(*channels, about=str(context.run_id)) as heard, EventWriter(context, buffer) as log:
        start_block(buffer, "I re", "ad")
        assert await next_delta(heard) == '0 1.1 0 6 {"type": "text_delta", "text_delta": "I read"}'
        log.append(TextEvent(text="I read."))
        start_block(buffer, "Then")  # it waits for the event, but may overtake its notification
        piece = '1 1.2 0 4 {"type": "text_delta", "text_delta": "Then"}'
        both = {await asyncio.wait_for(anext(heard), 30) for _ in range(2)}
        assert both == {str(context.run_id), f"{context.run_id} {piece}"}
        add_text(buffer, " I")
        log.append(TextEvent(text="Then I write."))
        assert await anext(heard) == str(context.run_id)
        start_block(buffer, "Done")
        assert (
            await next_delta(heard) == '2 1.3 0 4 {"type": "text_delta", "text_delta": "Done"}'
        )  # no deltas of the second event
    assert case.events(context.run_id) == [
        {"type": "text", "text": "I read."},
        {"type": "text", "text": "Then I write."},
    ]


async def delta_channel(case) -> str:
    async with case.database.as_user(case.scope) as conn:
        return await runs.delta_channel(conn)


async def next_delta(heard) -> str:
    """Return the next received chunk without its run id."""
    return (await asyncio.wait_for(anext(heard), 30)).partition(" ")[2]


@anyio
async def test_only_the_owning_worker_publishes_deltas(case):
    lost = await case.context()
    context = await case.context(lost.run_id)
    async with case.database.listen(await delta_channel(case), about=str(context.run_id)) as heard:
        for attempt in (lost, context):
            buffer = DeltaBuffer(attempt.fencing_token)
            async with EventWriter(attempt, buffer) as log:
                start_block(buffer, "Words.")
                await log.flush_and_publish()
        assert await next_delta(heard) == '0 2.1 0 6 {"type": "text_delta", "text_delta": "Words."}'


@anyio
async def test_database_listener_without_channel_name_receives_no_deltas(case, clone):
    """Postgres needs no privilege for LISTEN: the delta channel has a secret name, and other channels carry ids
    only."""
    context = await case.context()
    async with (
        case.database.listen(EVENTS_CHANNEL, await delta_channel(case)) as here,
        EventWriter(context) as log,
        await psycopg.AsyncConnection.connect(clone.owner_url, autocommit=True) as eavesdropper,
    ):
        for channel in (EVENTS_CHANNEL, WORK_CHANNEL, "delta_channel"):
            await eavesdropper.execute(f"listen {channel}")
        start_block(log._deltas, "Secret words.")
        await log.flush_and_publish()
        assert "Secret words." in await next_delta(here)  # the control
        log.append(TextEvent(text="Secret words."))
        await log.flush()
        assert await next_delta(here) == ""  # of the event
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

    async def send_chunks() -> None:
        async with await psycopg.AsyncConnection.connect(case.owner_url, autocommit=True) as conn:
            for n in count():
                piece = f"{context.run_id} 1 1.1 {n} {n + 1} {{}}"
                await conn.execute("select pg_notify(%s, %s)", [channel, piece])
                await asyncio.sleep(0.02)

    sender = asyncio.create_task(send_chunks())
    try:
        assert await asyncio.wait_for(anext(following), 30) == (EPHEMERAL, "{}")
        case.sql("delete from auth.users where id = %s", case.scope.user_id)
        async with asyncio.timeout(30):
            with pytest.raises(NotFound):
                async for _ in following:
                    pass
    finally:
        sender.cancel()
        await asyncio.wait({sender})


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
    # Events without notifications.
    case.sql("select private.append_event(%s, '{}', false)", context.run_id)
    assert (await asyncio.wait_for(anext(following), 30))[0] == 1
    case.sql("select private.append_event(%s, '{}', false)", context.run_id)
    assembler = asyncio.ensure_future(anext(following))
    piece = f'{context.run_id} 2 1.1 0 1 {{"a": 1}}'
    case.sql("select pg_notify(%s, %s)", await delta_channel(case), piece)
    assert (await asyncio.wait_for(assembler, 30))[0] == 2
    assert await asyncio.wait_for(anext(following), 30) == (EPHEMERAL, '{"a": 1}')
    await following.aclose()
