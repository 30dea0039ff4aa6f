"""The fork server: the process from which readers are forked. It has loaded everything they need, and never sees a
document.

Its standard input is its control socket. Each byte on it requests one reader and brings two descriptors:

- the work: the file and the channel of one job, which become the reader's standard input and output; - the status: the
server writes `{"pid"}` and, at the end, `{"code", "cpu"}`. When its other end is closed, the server kills the reader.

The job itself comes through the channel, so this process never holds a file name, a password or a text: every reader
has a copy of its memory. When the control socket is closed, the server ends with its readers. On Linux it also ends
with the service while it is still loading, which takes seconds.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import selectors
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from processisolation.lockdown import confine_early, die_with_parent, name_process

Work = Callable[[int], None]
"""What a reader does, given the id of the process that it was forked from: descriptor 0 is its file, 1 its channel."""

DESCRIPTORS = 3


def main() -> NoReturn:
    """Load what readers need (with `ocr` as the first argument, also the OCR models) and fork them until the service
    ends.

    The second argument is the service's process id: this process ends with the service, and process listings show which
    service it belongs to.
    """
    # Linux also sends the signal when only the parent's thread ends. Then a new server is started when needed.
    die_with_parent(int(sys.argv[2]))
    confine_early()
    name_process("forkserver")
    from pagewords import child

    child.load(ocr=sys.argv[1] == "ocr")
    serve(child.main)


def serve(work: Work) -> NoReturn:
    """Fork a reader for each request on standard input."""
    # Freeze loaded objects, so that garbage collection doesn't copy the shared memory pages.
    gc.collect()
    gc.freeze()
    _Server(socket.socket(fileno=os.dup(0)), work).serve()


@dataclass(slots=True)
class _Reader:
    pid: int
    status: socket.socket


class _Server:
    def __init__(self, control: socket.socket, work: Work) -> None:
        self._control = control
        self._work = work
        self._readers: dict[int, _Reader] = {}
        self._selector = selectors.DefaultSelector()
        self._wakeup, writer = socket.socketpair()
        self._wakeup.setblocking(False)
        writer.setblocking(False)
        signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _ignore)
        self._wakeup_writer = writer
        self._selector.register(control, selectors.EVENT_READ, self._on_request)
        self._selector.register(self._wakeup, selectors.EVENT_READ, self._reap_readers)

    def serve(self) -> NoReturn:
        while True:
            for key, _ in self._selector.select():
                key.data()

    def _on_request(self) -> None:
        request, descriptors, _, _ = socket.recv_fds(self._control, 1, DESCRIPTORS)
        if not request:
            os._exit(0)  # the kernel then kills the readers: see `die_with_parent`
        file, channel, status = descriptors
        parent = os.getpid()
        try:
            pid = os.fork()
            if pid == 0:
                self._become_reader(file, channel, parent)
        except OSError:  # no more processes: the service sees that no reader started
            os.close(status)
            return
        finally:
            os.close(file)
            os.close(channel)
        reader = _Reader(pid, socket.socket(fileno=status))
        self._readers[pid] = reader
        self._selector.register(reader.status, selectors.EVENT_READ, lambda: self._kill(reader))
        _send(reader.status, {"pid": pid})

    def _become_reader(self, file: int, channel: int, parent: int) -> NoReturn:
        code = 1
        try:
            die_with_parent(parent)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.setsid()
            os.dup2(file, 0)
            os.dup2(channel, 1)
            # The other descriptors include channels of other readers, and the control socket.
            os.closerange(3, _highest_descriptor() + 1)
            name_process("reader")
            confine_early()
            self._work(parent)
            code = 0
        finally:
            # Skip the server's cleanup: its frames and buffers belong to the parent.
            os._exit(code)

    def _kill(self, reader: _Reader) -> None:
        """Kill a reader whose status channel was closed by the service."""
        if self._readers.get(reader.pid) is reader:  # else it has already ended
            self._selector.unregister(reader.status)
            os.kill(reader.pid, signal.SIGKILL)  # not reaped yet, so its process id is not reused

    def _reap_readers(self) -> None:
        while True:
            try:
                self._wakeup.recv(4096)
            except BlockingIOError:
                break
        for reader in list(self._readers.values()):
            pid, status, used = os.wait4(reader.pid, os.WNOHANG)
            if pid:
                del self._readers[pid]
                if reader.status.fileno() in self._selector.get_map():
                    self._selector.unregister(reader.status)
                code = os.waitstatus_to_exitcode(status)
                _send(reader.status, {"code": code, "cpu": used.ru_utime + used.ru_stime})
                reader.status.close()


def _highest_descriptor() -> int:
    folder = Path("/proc/self/fd" if sys.platform == "linux" else "/dev/fd")
    return max(int(path.name) for path in folder.iterdir())


def _ignore(number: int, frame: object) -> None:
    """Do nothing: the signal only wakes the loop. With SIG_IGN, children could not be waited for."""


def _send(status: socket.socket, message: dict[str, float]) -> None:
    with contextlib.suppress(OSError):  # the service may have closed its end
        status.send(json.dumps(message).encode() + b"\n", socket.MSG_DONTWAIT)
