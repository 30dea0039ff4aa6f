"""Readers, as the service starts and ends them: processes that each do one job.

Readers are forked from a fork server that has loaded everything they need. There are two fork servers, each started at
first use: one with the OCR models, and one without.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pagewords.errors import ReadersUnavailable

_PACKAGE_ROOT: Final = Path(__file__).parents[1]
# -I ignores the environment, user site-packages and the working directory, so the package's path is passed.
START: Final = "import sys; sys.path.insert(0, sys.argv.pop()); from pagewords import forkserver; forkserver.main()"
# Otherwise libraries start a thread for each core, which takes address space.
_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "LC_ALL": "C.UTF-8"}
# Keep freed memory: returning the models' large tensors to the system each time costs a reader 7 % of its time
# (docs/performance.md). A reader ends after its page, and its memory is limited.
_OCR_ENVIRONMENT = {
    "MALLOC_MMAP_THRESHOLD_": str(32 * 1024 * 1024),
    "MALLOC_TRIM_THRESHOLD_": str(512 * 1024 * 1024),
    "MALLOC_TOP_PAD_": str(64 * 1024 * 1024),
}
_RETRY_SECONDS: Final = 0.05


class ReaderLostError(Exception):
    """The fork server died, and this reader with it. The job can be retried."""


@dataclass(slots=True)
class ReaderExit:
    """How a reader ended: its exit code, or the negative number of a signal, and its processor time."""

    code: int
    cpu_seconds: float


class Reader:
    """A forked process at work on one job."""

    def __init__(
        self,
        answers: asyncio.StreamReader,
        channel: asyncio.StreamWriter,
        status: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        self.answers = answers
        self._writer = channel
        self._status, self._status_writer = status
        self._pid: int | None = None
        self._ended: ReaderExit | None = None

    async def send_line(self, line: bytes) -> None:
        """Send the reader a line. If it has ended, the line is dropped, and reading its answer reports the end."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._writer.write(line + b"\n")
            await self._writer.drain()

    async def wait_for_exit(self) -> ReaderExit:
        """Wait for the end of the reader, and return how it ended. Raise ReaderLostError if that is unknown."""
        while self._ended is None:
            await self._receive_status()
        return self._ended

    async def pid(self) -> int:
        """Return the process id. Raise ReaderLostError if it is unknown."""
        while self._pid is None:
            await self._receive_status()
        return self._pid

    async def _receive_status(self) -> None:
        line = await self._status.readline()
        if not line:
            raise ReaderLostError
        status: dict[str, Any] = json.loads(line)
        if "pid" in status:
            self._pid = status["pid"]
        else:
            self._ended = ReaderExit(status["code"], status["cpu"])

    async def stop(self) -> float:
        """Kill the reader if it is still running. Return the processor time it used."""
        try:
            if self._ended is None:
                self._status_writer.write_eof()  # then its parent kills it
            return (await self.wait_for_exit()).cpu_seconds
        except (ReaderLostError, OSError):
            return 0.0
        finally:
            self.abort()

    def abort(self) -> None:
        """Close the channels without waiting."""
        for writer in (self._writer, self._status_writer):
            writer.transport.abort()


class Forkserver:
    """A process that forks readers. It is started when needed, and again if it has died."""

    def __init__(self, kind: str, start: str = START) -> None:
        self._kind = kind
        self._start = start
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._parent_pid = 0

    @property
    def pid(self) -> int | None:
        """Return the process id if the process is running."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def start(self) -> None:
        """Start the process if it is not running, so that everything is loaded when the first file arrives."""
        with self._lock:
            self._ensure_running()

    def stop(self) -> None:
        """End the process and its readers."""
        with self._lock:
            if self._control is not None:
                self._control.close()
                self._control = None
            if self._process is not None:
                self._process.wait()

    @asynccontextmanager
    async def reader(self, file: int, job: dict[str, Any], max_line: int) -> AsyncGenerator[Reader]:
        """Yield a reader that was given the file and the job. It is killed at the end."""
        channel, reader_channel = socket.socketpair()
        status, reader_status = socket.socketpair()
        with reader_channel, reader_status:
            opened: list[asyncio.StreamWriter] = []
            try:
                answers, writer = await asyncio.open_connection(sock=channel, limit=max_line)
                opened.append(writer)
                status_answers, status_writer = await asyncio.open_connection(sock=status)
                opened.append(status_writer)
                await self._send([file, reader_channel.fileno(), reader_status.fileno()])
            except BaseException:
                for stream in opened:
                    stream.transport.abort()
                channel.close()
                status.close()
                raise
        reader = Reader(answers, writer, (status_answers, status_writer))
        try:
            await reader.send_line(json.dumps(job).encode())
            yield reader
        finally:
            await reader.stop()

    async def _send(self, descriptors: list[int]) -> None:
        """Pass descriptors to the process. If it died before taking them, pass them to a new one."""
        for _ in range(3):
            with self._lock:
                control = self._ensure_running()
            while True:
                try:
                    socket.send_fds(control, [b"r"], descriptors, socket.MSG_DONTWAIT)
                except BlockingIOError:  # still loading, and the queue is full
                    await asyncio.sleep(_RETRY_SECONDS)
                except OSError:
                    self._drop_control(control)
                    break
                else:
                    return
        raise ReadersUnavailable("The process that reads files does not start.")

    def _ensure_running(self) -> socket.socket:
        if self._control is not None and self._parent_pid == os.getpid() and self.pid is not None:
            return self._control
        self._reap()
        control, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-I",
                    "-B",
                    "-X",
                    "utf8",
                    "-c",
                    self._start,
                    self._kind,
                    str(os.getpid()),
                    str(_PACKAGE_ROOT),
                ],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=_ENVIRONMENT | (_OCR_ENVIRONMENT if self._kind == "ocr" else {}),
                cwd="/",
                start_new_session=True,
            )
        if self._control is not None:
            self._control.close()
        self._control, self._parent_pid = control, os.getpid()
        return control

    def _reap(self) -> None:
        if self._process is not None and self._parent_pid == os.getpid():
            self._process.kill()
            self._process.wait()

    def _drop_control(self, control: socket.socket) -> None:
        with self._lock:
            if self._control is control:
                control.close()
                self._control = None


PLAIN: Final = Forkserver("plain")
WITH_OCR: Final = Forkserver("ocr")
