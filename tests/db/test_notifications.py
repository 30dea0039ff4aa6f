"""Each subscription gets the notifications of its channels, and a gap after notifications may have been lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import psycopg
import pytest

from extraction_case import until
from fieldmark.db.notifications import CommitNotifier
from fieldmark.db.pool import Database
from running_server import Clone

pytestmark = pytest.mark.anyio


async def _next(notifications: AsyncIterator[str | None]) -> str | None:
    return await asyncio.wait_for(anext(notifications), 60)


async def _silent(notifications: AsyncIterator[str | None]) -> bool:
    try:
        await asyncio.wait_for(anext(notifications), 0.1)
    except TimeoutError:
        return True
    return False


async def _notify(clone: Clone, *notes: tuple[str, str]) -> None:
    async with await psycopg.AsyncConnection.connect(clone.app_url) as connection:
        for channel, payload in notes:
            await connection.execute("select pg_notify(%s, %s)", [channel, payload])


async def _listening(clone: Clone) -> list[int]:
    """Return the server processes of this clone whose last statement was LISTEN."""
    async with await psycopg.AsyncConnection.connect(clone.owner_url) as connection:
        cursor = await connection.execute(
            "select pid from pg_stat_activity where datname = current_database() and query like 'listen %%'"
        )
        return [pid for (pid,) in await cursor.fetchall()]


async def test_each_subscription_gets_its_channel_in_order_and_nothing_else(clone: Clone, database: Database) -> None:
    async with database.listen("a") as a, database.listen("b") as b, database.listen("a", about="2") as only:
        await _notify(clone, ("a", "1"), ("c", "0"), ("a", "2"), ("b", "3"))
        assert [await _next(a), await _next(a)] == ["1", "2"]
        assert await _next(b) == "3"
        assert await _next(only) == "2"
        assert await _silent(a) and await _silent(b) and await _silent(only)


async def test_hundred_subscriptions_share_one_connection_outside_the_pool(clone: Clone) -> None:
    async with Database(clone.app_url, size=2) as database:
        contexts = [database.listen("a", about=str(number)) for number in range(100)]
        notifications = [await context.__aenter__() for context in contexts]
        assert len(await _listening(clone)) == 1
        async with database.as_service(), database.as_service():  # the whole pool is still there to be had
            await _notify(clone, *(("a", str(number)) for number in range(100)))
            assert [await _next(each) for each in notifications] == [str(number) for number in range(100)]
        for context in contexts:
            await context.__aexit__(None, None, None)


async def test_lost_connection_is_a_gap_before_notifications_resume(clone: Clone, database: Database) -> None:
    async with database.listen("a") as a, database.listen("b", about="x") as b:
        (pid,) = await _listening(clone)
        async with await psycopg.AsyncConnection.connect(clone.owner_url, autocommit=True) as owner:
            await owner.execute("select pg_terminate_backend(%s, 5000)", [pid])
        assert (await _next(a), await _next(b)) == (None, None)
        # Until it is connected again there may be one more gap, and no notification.
        for notifications, note in ((a, ("a", "1")), (b, ("b", "x"))):
            payload = None
            while payload is None:
                await _notify(clone, note)
                payload = await _next(notifications)
            assert payload == note[1]


async def test_slow_reader_gets_a_gap(clone: Clone, database: Database) -> None:
    async with database.listen("a") as slow, database.listen("b") as end:
        async with await psycopg.AsyncConnection.connect(clone.app_url) as connection:
            await connection.execute("select pg_notify('a', n::text) from generate_series(1, 5000) as n")
        await _notify(clone, ("b", "all sent"))
        assert await _next(end) == "all sent"
        assert await _next(slow) is None
        rest = [await _next(slow)]
        while rest[-1] != "5000":
            rest.append(await _next(slow))
        assert len(rest) < 1000


async def test_closing_the_database_ends_every_subscription(clone: Clone) -> None:
    database = Database(clone.app_url)
    await database.__aenter__()
    async with database.listen("a") as notifications:
        await _notify(clone, ("a", "last"))
        assert await _next(notifications) == "last"
        waiting = asyncio.create_task(_collect(notifications))
        await asyncio.sleep(0)  # it begins to wait
        await database.__aexit__(None, None, None)
        assert await asyncio.wait_for(waiting, 60) == []
    await until(partial(_no_listener, clone))


async def _collect(notifications: AsyncIterator[str | None]) -> list[str | None]:
    return [payload async for payload in notifications]


async def _no_listener(clone: Clone) -> bool:
    return await _listening(clone) == []


async def test_channel_name_is_quoted(clone: Clone, database: Database) -> None:
    name = 'a"; drop table public.documents; --'
    async with database.listen(name) as notifications:
        await _notify(clone, (name, "1"))
        assert await _next(notifications) == "1"


async def test_transaction_pooler_gives_a_gap_each_second(clone: Clone) -> None:
    async with Database(f"{clone.app_url}&pgbouncer=true") as database:
        async with database.listen("a") as notifications:
            await _notify(clone, ("a", "1"))
            assert [await _next(notifications), await _next(notifications)] == [None, None]
        assert await _listening(clone) == []


async def test_first_commit_is_notified_alone_and_the_burst_behind_it_together() -> None:
    sent: list[frozenset[tuple[str, str]]] = []

    async def send(news: frozenset[tuple[str, str]]) -> None:
        sent.append(news)

    notifier = CommitNotifier(send)
    first, burst = frozenset({("a", "0")}), frozenset(("a", str(number)) for number in range(1, 100))
    notifier.add(first)
    while not sent:
        await asyncio.sleep(0)
    for news in burst:
        notifier.add(frozenset({news}))
    await notifier.close()
    assert sent == [first, burst]
