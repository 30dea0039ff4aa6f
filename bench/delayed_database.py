"""A proxy on loopback that delays each message between Fieldmark and Postgres, like a database in another data centre,
and counts what Fieldmark sends. It ends with the benchmark."""

from __future__ import annotations

import asyncio
import contextlib
import struct
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

_SSL_REQUEST, _GSS_REQUEST = 80877103, 80877104


class DelayedDatabase:
    """`statements`: those executed. `trips`: how often Fieldmark waited for an answer."""

    def __init__(self, port: int, seconds: float) -> None:
        self.port, self.statements, self.trips = 0, 0, 0
        self._target, self._delay = port, seconds

    async def serve(self, ready: threading.Event, ended: asyncio.Event) -> None:
        server = await asyncio.start_server(self._relay, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        async with server:
            await ended.wait()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        database_reader, database_writer = await asyncio.open_connection("127.0.0.1", self._target)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            async with asyncio.TaskGroup() as group:
                group.create_task(self._forward(self._count(reader), database_writer))
                group.create_task(self._forward(_chunks(database_reader), writer))
        writer.close()
        database_writer.close()

    async def _forward(self, chunks: AsyncIterator[bytes], writer: asyncio.StreamWriter) -> None:
        waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def send() -> None:
            while True:
                due, chunk = await waiting.get()
                await asyncio.sleep(due - time.monotonic())
                writer.write(chunk)
                await writer.drain()

        sending = asyncio.create_task(send())
        try:
            async for chunk in chunks:
                waiting.put_nowait((time.monotonic() + self._delay, chunk))
        finally:
            await asyncio.sleep(2 * self._delay)
            sending.cancel()
            writer.close()

    async def _count(self, reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
        """Yield what the client sends, and count by type of message."""
        rest, is_started = b"", False
        async for chunk in _chunks(reader):
            yield chunk
            rest += chunk
            while len(rest) >= 8 and not is_started:  # messages before the login have no type
                length, code = struct.unpack("!II", rest[:8])
                if len(rest) < length:
                    break
                is_started, rest = code not in (_SSL_REQUEST, _GSS_REQUEST), rest[length:]
            counts = Counter[bytes]()
            while is_started and len(rest) >= 5 and len(rest) > (length := struct.unpack("!I", rest[1:5])[0]):
                counts[rest[:1]] += 1
                rest = rest[1 + length :]
            self.statements += counts[b"Q"] + counts[b"E"]
            self.trips += counts[b"Q"] + counts[b"S"]


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while chunk := await reader.read(65536):
        yield chunk


@contextmanager
def delayed_database(port: int, seconds: float) -> Iterator[DelayedDatabase]:
    """Relay to the database at `port`, with a delay of `seconds` in each direction."""
    database, ready, ended = DelayedDatabase(port, seconds), threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_until_complete, args=(database.serve(ready, ended),), daemon=True)
    thread.start()
    ready.wait()
    try:
        yield database
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join(5)
