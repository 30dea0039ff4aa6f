"""NotificationListener what Postgres calls out (LISTEN): one connection, shared by all listeners of this process.

Where there is none to be had, every listener is told once a second to look for itself.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

import structlog
from psycopg import AsyncConnection, Error, sql

log = structlog.get_logger()

_QUEUE_LENGTH: Final = 1000
_HEARING_SECONDS: Final = 2.0
_LOOK_SECONDS: Final = 1.0
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 5.0


class Listener(AsyncIterator["str | None"]):
    """What one reader hears: payloads of its channels, as they were sent, or None for a gap after which it must read
    again."""

    def __init__(self, channels: Sequence[str], about: str | None) -> None:
        self.channels = channels
        self.about = about
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

    def rest(self) -> list[str | None]:
        """What else is there to hear, without waiting."""
        heard = list(self._heard)
        self._heard.clear()
        return heard

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


class NotificationListener:
    """The shared connection: opened for the first listener, opened again when it is lost, closed with the database.

    `url` is None where nothing but a transaction pooler leads to the database.
    """

    def __init__(self, url: str | None, parameters: Mapping[str, Any]) -> None:
        self._url = url
        self._parameters = dict(parameters)
        self._listeners: dict[tuple[str, str | None], set[Listener]] = {}
        self._wanted: set[str] = set()
        self._heard: set[str] = set()  # the channels that the connection listens to right now
        self._changed = asyncio.Event()  # a channel was added, or the socket has something to read
        self._settled = asyncio.Condition()
        self._deaf = url is None
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def hears(self) -> bool:
        """Whether something can be heard just now."""
        return not self._deaf

    async def add(self, listener: Listener) -> None:
        """Returns once the listener hears, or is told to look for itself because nothing can be heard."""
        for channel in listener.channels:
            self._listeners.setdefault((channel, listener.about), set()).add(listener)
        if self._heard.issuperset(listener.channels):
            return
        self._wanted.update(listener.channels)
        self._changed.set()
        if not self._tasks:
            self._tasks.append(asyncio.create_task(self._look(), name="looking"))
            if self._url is not None:
                self._tasks.append(asyncio.create_task(self._run(self._url), name="hearing"))
        try:
            async with asyncio.timeout(_HEARING_SECONDS), self._settled:
                await self._settled.wait_for(lambda: self._deaf or self._heard.issuperset(listener.channels))
        except TimeoutError:
            self._deaf = True  # a host that does not even refuse: the next listener need not wait for it
        except BaseException:
            self.remove(listener)
            raise

    def remove(self, listener: Listener) -> None:
        """Stop telling this listener."""
        for channel in listener.channels:
            listeners = self._listeners.get((channel, listener.about), set())
            listeners.discard(listener)
            if not listeners:
                self._listeners.pop((channel, listener.about), None)

    async def close(self) -> None:
        """Close the connection; every listener's iteration ends."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        for listeners in self._listeners.values():
            for listener in listeners:
                listener.close()

    async def _run(self, url: str) -> None:
        pause = _FIRST_PAUSE
        while True:
            try:
                async with await AsyncConnection.connect(url, autocommit=True, **self._parameters) as connection:
                    connection.add_notify_handler(lambda heard: self._tell(heard.channel, heard.payload))
                    await self._listen(connection)
                    pause = _FIRST_PAUSE
                    while True:
                        await self._wait(connection)
                        self._pass_on(connection)
                        await self._listen(connection)
            except (Error, OSError) as error:
                await self._fall_back_to_polling(error)
            finally:
                self._heard.clear()
            await asyncio.sleep(pause * random.uniform(0.5, 1))  # noqa: S311  many replicas, not one moment
            pause = min(pause * 2, _LONGEST_PAUSE)

    async def _look(self) -> None:
        """Tell whoever listens to a channel that is not heard to look for itself."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            for (channel, _), listeners in self._listeners.items():
                if channel not in self._heard:
                    for listener in listeners:
                        listener.tell(None)

    async def _listen(self, connection: AsyncConnection[Any]) -> None:
        new = self._wanted - self._heard
        if not new:
            return
        for channel in new:
            await connection.execute(sql.SQL("listen {}").format(sql.Identifier(channel)))
        self._heard |= new
        if self._deaf:  # something was called out meanwhile, perhaps
            self._tell_of_gap()
        async with self._settled:
            self._deaf = False
            self._settled.notify_all()

    async def _fall_back_to_polling(self, error: Exception) -> None:
        if not self._deaf:
            reason = str(error).strip().partition("\n")[0]
            log.warning("the database cannot be listened to; it is asked every second instead", reason=reason)
        async with self._settled:
            self._deaf = True
            self._settled.notify_all()

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
        for key in ((channel, payload.partition(" ")[0]), (channel, None)):
            for listener in self._listeners.get(key, ()):
                listener.tell(payload)

    def _tell_of_gap(self) -> None:
        for listeners in self._listeners.values():
            for listener in listeners:
                listener.tell(None)
