"""Postgres notifications (LISTEN/NOTIFY) over one connection, shared by all subscriptions of a process.

While that connection is down, every subscription gets a gap once a second, and its reader polls.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import structlog
from psycopg import AsyncConnection, Error, sql

from fieldmark.errors import FieldmarkError

log = structlog.get_logger()

_QUEUE_LENGTH: Final = 1000
_LISTEN_TIMEOUT_SECONDS: Final = 2.0
_POLL_SECONDS: Final = 1.0
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 5.0
_GATHER_SECONDS: Final = 0.005
"""Short, since someone may watch. A burst still costs one commit: Postgres commits notifying transactions in turn."""
_LAST_WORDS_SECONDS: Final = 2.0


class Subscription(AsyncIterator["str | None"]):
    """The notification payloads of one reader, in order.

    None is a gap: notifications may have been missed, so the reader must read the state again.
    """

    def __init__(self, channels: Sequence[str], about: str | None) -> None:
        self.channels = channels
        self.about = about
        self._queue: deque[str | None] = deque()
        self._wake = asyncio.Event()
        self._closed = False

    def push(self, payload: str | None) -> None:
        """Queue a payload. A full queue is replaced by one gap, which bounds its memory."""
        if payload is None or len(self._queue) >= _QUEUE_LENGTH:
            self._queue.clear()
            self._queue.append(None)
        elif not self._queue or self._queue[-1] != payload:  # the same payload twice is one reason to read
            self._queue.append(payload)
        self._wake.set()

    def rest(self) -> list[str | None]:
        """Return and remove all queued notifications, without waiting."""
        queued = list(self._queue)
        self._queue.clear()
        return queued

    def close(self) -> None:
        """End the iteration."""
        self._closed = True
        self._wake.set()

    async def __anext__(self) -> str | None:
        while not self._queue:
            if self._closed:
                raise StopAsyncIteration
            self._wake.clear()
            await self._wake.wait()
        return self._queue.popleft()


class CommitNotifier:
    """Sends notifications of committed transactions: the first at once, those that follow it closely together.

    A lost notification delays a reader by a few seconds only, since readers also poll.
    """

    def __init__(self, send: Callable[[frozenset[tuple[str, str]]], Awaitable[None]]) -> None:
        self._send = send
        self._waiting: frozenset[tuple[str, str]] = frozenset()
        self._task: asyncio.Task[None] | None = None

    def add(self, news: frozenset[tuple[str, str]]) -> None:
        """Queue (channel, payload) pairs to be sent."""
        self._waiting |= news
        if self._waiting and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._run(), name="notifying")

    async def close(self) -> None:
        """Send what is queued, if the database responds."""
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=_LAST_WORDS_SECONDS)
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while self._waiting:
            news, self._waiting = self._waiting, frozenset()
            try:
                await self._send(news)
            except (FieldmarkError, Error) as error:
                log.warning("notifications could not be sent; readers poll instead", reason=str(error))
            await asyncio.sleep(_GATHER_SECONDS)


class NotificationListener:
    """The shared LISTEN connection: opened for the first subscription and reopened when it is lost.

    `url` is None if only a transaction pooler is available: LISTEN does not work there.
    """

    def __init__(self, url: str | None, parameters: Mapping[str, Any]) -> None:
        self._url = url
        self._parameters = dict(parameters)
        self._subscriptions: dict[tuple[str, str | None], set[Subscription]] = {}
        self._wanted: set[str] = set()
        self._channels: set[str] = set()  # that the connection listens to right now
        self._changed = asyncio.Event()  # a channel was added, or the socket has something to read
        self._settled = asyncio.Condition()
        self._is_polling = url is None
        self._tasks: list[asyncio.Task[None]] = []

    async def add(self, subscription: Subscription) -> None:
        """Return once the subscription receives notifications, or once it is known that it must poll."""
        for channel in subscription.channels:
            self._subscriptions.setdefault((channel, subscription.about), set()).add(subscription)
        if self._channels.issuperset(subscription.channels):
            return
        self._wanted.update(subscription.channels)
        self._changed.set()
        if not self._tasks:
            self._tasks.append(asyncio.create_task(self._poll(), name="polling"))
            if self._url is not None:
                self._tasks.append(asyncio.create_task(self._run(self._url), name="listening"))
        try:
            async with asyncio.timeout(_LISTEN_TIMEOUT_SECONDS), self._settled:
                await self._settled.wait_for(
                    lambda: self._is_polling or self._channels.issuperset(subscription.channels)
                )
        except TimeoutError:
            self._is_polling = True  # a host that does not even refuse: the next subscription need not wait for it
        except BaseException:
            self.remove(subscription)
            raise

    def remove(self, subscription: Subscription) -> None:
        """Remove a subscription."""
        for channel in subscription.channels:
            subscriptions = self._subscriptions.get((channel, subscription.about), set())
            subscriptions.discard(subscription)
            if not subscriptions:
                self._subscriptions.pop((channel, subscription.about), None)

    async def close(self) -> None:
        """Close the connection and end the iteration of every subscription."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        for subscriptions in self._subscriptions.values():
            for subscription in subscriptions:
                subscription.close()

    async def _run(self, url: str) -> None:
        pause = _FIRST_PAUSE
        while True:
            try:
                async with await AsyncConnection.connect(url, autocommit=True, **self._parameters) as connection:
                    connection.add_notify_handler(
                        lambda notification: self._push(notification.channel, notification.payload)
                    )
                    await self._listen(connection)
                    pause = _FIRST_PAUSE
                    while True:
                        await self._wait(connection)
                        self._pass_on(connection)
                        await self._listen(connection)
            except (Error, OSError) as error:
                await self._fall_back_to_polling(error)
            finally:
                self._channels.clear()
            await asyncio.sleep(pause * random.uniform(0.5, 1))  # noqa: S311  many replicas, not one moment
            pause = min(pause * 2, _LONGEST_PAUSE)

    async def _poll(self) -> None:
        """Once a second, push a gap to the subscriptions of every channel without LISTEN."""
        while True:
            await asyncio.sleep(_POLL_SECONDS)
            for (channel, _), subscriptions in self._subscriptions.items():
                if channel not in self._channels:
                    for subscription in subscriptions:
                        subscription.push(None)

    async def _listen(self, connection: AsyncConnection[Any]) -> None:
        new = self._wanted - self._channels
        if not new:
            return
        for channel in new:
            await connection.execute(sql.SQL("listen {}").format(sql.Identifier(channel)))
        self._channels |= new
        if self._is_polling:  # something may have been notified meanwhile
            self._push_gap()
        async with self._settled:
            self._is_polling = False
            self._settled.notify_all()

    async def _fall_back_to_polling(self, error: Exception) -> None:
        if not self._is_polling:
            reason = str(error).strip().partition("\n")[0]
            log.warning("LISTEN is not available; polling every second instead", reason=reason)
        async with self._settled:
            self._is_polling = True
            self._settled.notify_all()

    async def _wait(self, connection: AsyncConnection[Any]) -> None:
        """Wait until the socket is readable or a channel was added."""
        loop, socket = asyncio.get_running_loop(), connection.fileno()
        # Only while we wait: during a statement psycopg watches the same socket itself.
        loop.add_reader(socket, self._changed.set)
        try:
            await self._changed.wait()
        finally:
            loop.remove_reader(socket)
            self._changed.clear()

    def _pass_on(self, connection: AsyncConnection[Any]) -> None:
        connection.pgconn.consume_input()
        while notification := connection.pgconn.notifies():
            self._push(notification.relname.decode(), notification.extra.decode())

    def _push(self, channel: str, payload: str) -> None:
        for key in ((channel, payload.partition(" ")[0]), (channel, None)):
            for subscription in self._subscriptions.get(key, ()):
                subscription.push(payload)

    def _push_gap(self) -> None:
        for subscriptions in self._subscriptions.values():
            for subscription in subscriptions:
                subscription.push(None)
