"""Hearing what Postgres calls out (LISTEN): one connection, shared by all listeners of this process."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from psycopg import AsyncConnection, Error, sql

from fieldmark.errors import Unavailable

_QUEUE_LENGTH: Final = 1000
_HEARING_SECONDS: Final = 5.0
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 5.0


class Listener(AsyncIterator["str | None"]):
    """What one reader hears: payloads of a channel, or None for a gap after which it must read again."""

    def __init__(self, channel: str, payload: str | None) -> None:
        self.channel = channel
        self.payload = payload
        self._heard: deque[str | None] = deque()
        self._wake = asyncio.Event()
        self._closed = False

    def tell(self, payload: str | None) -> None:
        """Queue a payload. A reader too slow for them is told of one gap instead: its memory stays bounded."""
        if payload is None or len(self._heard) >= _QUEUE_LENGTH:
            self._heard.clear()
            self._heard.append(None)
        elif not self._heard or self._heard[-1] != payload:  # the same news twice is one reason to read
            self._heard.append(payload)
        self._wake.set()

    def close(self) -> None:
        """Let the iteration end."""
        self._closed = True
        self._wake.set()

    async def __anext__(self) -> str | None:
        while not self._heard:
            if self._closed:
                raise StopAsyncIteration
            self._wake.clear()
            await self._wake.wait()
        return self._heard.popleft()


class Hearing:
    """The shared connection: opened for the first listener, opened again when it is lost, closed with the database."""

    def __init__(self, url: str, parameters: Mapping[str, Any]) -> None:
        self._url = url
        self._parameters = dict(parameters)
        self._listeners: dict[tuple[str, str | None], set[Listener]] = {}
        self._wanted: set[str] = set()
        self._heard: set[str] = set()  # the channels that the connection listens to right now
        self._changed = asyncio.Event()  # a channel was added, or the socket has something to read
        self._hears_all = asyncio.Condition()
        self._failure = "it did not answer."
        self._task: asyncio.Task[None] | None = None

    async def add(self, listener: Listener) -> None:
        """Returns once the listener hears. Raises Unavailable where that takes too long."""
        self._listeners.setdefault((listener.channel, listener.payload), set()).add(listener)
        if listener.channel in self._heard:
            return
        self._wanted.add(listener.channel)
        self._changed.set()
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="hearing")
        try:
            async with asyncio.timeout(_HEARING_SECONDS), self._hears_all:
                await self._hears_all.wait_for(lambda: listener.channel in self._heard)
        except TimeoutError:
            self.remove(listener)
            raise Unavailable(f"The database cannot be listened to: {self._failure}") from None
        except BaseException:
            self.remove(listener)
            raise

    def remove(self, listener: Listener) -> None:
        """Stop telling this listener."""
        key = (listener.channel, listener.payload)
        listeners = self._listeners.get(key, set())
        listeners.discard(listener)
        if not listeners:
            self._listeners.pop(key, None)

    async def close(self) -> None:
        """Close the connection; every listener's iteration ends."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        for listeners in self._listeners.values():
            for listener in listeners:
                listener.close()

    async def _run(self) -> None:
        pause = _FIRST_PAUSE
        connected_before = False
        while True:
            try:
                async with await AsyncConnection.connect(self._url, autocommit=True, **self._parameters) as connection:
                    connection.add_notify_handler(lambda heard: self._tell(heard.channel, heard.payload))
                    await self._listen(connection)
                    if connected_before:
                        self._tell_of_gap()
                    connected_before = True
                    pause = _FIRST_PAUSE
                    while True:
                        await self._wait(connection)
                        self._pass_on(connection)
                        await self._listen(connection)
            except (Error, OSError) as error:
                self._failure = str(error).strip() or self._failure
            finally:
                self._heard.clear()
            await asyncio.sleep(pause * random.uniform(0.5, 1))  # noqa: S311  many replicas, not one moment
            pause = min(pause * 2, _LONGEST_PAUSE)

    async def _listen(self, connection: AsyncConnection[Any]) -> None:
        new = self._wanted - self._heard
        if not new:
            return
        for channel in new:
            await connection.execute(sql.SQL("listen {}").format(sql.Identifier(channel)))
        self._heard |= new
        async with self._hears_all:
            self._hears_all.notify_all()

    async def _wait(self, connection: AsyncConnection[Any]) -> None:
        """Until there is something to read, or a channel to add."""
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
        while heard := connection.pgconn.notifies():
            self._tell(heard.relname.decode(), heard.extra.decode())

    def _tell(self, channel: str, payload: str) -> None:
        for key in ((channel, payload), (channel, None)):
            for listener in self._listeners.get(key, ()):
                listener.tell(payload)

    def _tell_of_gap(self) -> None:
        for listeners in self._listeners.values():
            for listener in listeners:
                listener.tell(None)
