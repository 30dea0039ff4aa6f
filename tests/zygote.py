"""Starts `fieldmark` commands by forking them from a process that has imported the product: 0.2 s instead of 2.

Each test process has one such zygote. A command gets what a fresh one has: its own environment, folder, streams,
signals, session and exit code. That the imports work in a fresh interpreter is shown by the commands that a shell
starts, or that a test wants fresh (tests/cli/commands.py).
"""

from __future__ import annotations

import asyncio
import atexit
import gc
import inspect
import io
import os
import pickle
import select
import signal
import socket
import struct
import subprocess
import sys
from asyncio import base_subprocess
from asyncio.subprocess import Process, SubprocessStreamProtocol
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import fieldmark

_CODE = "import zygote; zygote.serve()"
_NUMBER = struct.Struct("i")
_LONGEST = 1 << 18
_LINE_LIMIT = 1 << 16

# What libraries import when they are used.
_IMPORTED_LATER = (
    "anyio._backends._asyncio",
    "procrastinate.builtin_tasks",
    "rich._emoji_codes",
    "rich.markdown",
    "rich.status",
    "typer.completion",
    "typer.main",
    "typer.rich_utils",
    "uvicorn.lifespan.off",
)

Environment = Mapping[str, str]


class Command(subprocess.Popen[Any]):
    """A command that runs, forked: `Command(["runs"], env=…, cwd=…, stdout=PIPE)`, used like any Popen."""

    _status: int = -1

    def _execute_child(self, *given: Any) -> None:
        # Asked of the signature, since the order differs between Pythons.
        named = inspect.signature(subprocess.Popen._execute_child).bind(self, *given).arguments  # pyright: ignore
        streams = [
            stream if stream != -1 else standard
            for standard, stream in enumerate((named["p2cread"], named["c2pwrite"], named["errwrite"]))
        ]
        wanted: dict[str, Any] = {
            "arguments": [os.fsdecode(argument) for argument in named["args"]],
            "environment": dict(named["env"]),
            "folder": os.fspath(named["cwd"]),
            "new_session": named["start_new_session"],
        }
        self.pid, self._status = _zygote().fork(wanted, streams)
        self._child_created = True
        ends = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        self._close_pipe_fds(*(named[end] for end in ends))  # pyright: ignore

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        return self.collect(0)

    def _wait(self, timeout: float | None) -> int:
        if self.collect(timeout) is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        assert self.returncode is not None
        return self.returncode

    def collect(self, timeout: float | None) -> int | None:
        """The exit code; None where the command still runs after so many seconds."""
        if self.returncode is None and select.select([self._status], [], [], timeout)[0]:
            data = os.read(self._status, _NUMBER.size)
            os.close(self._status)
            assert data, "The zygote has died: nobody knows how the command ended."
            self.returncode = os.waitstatus_to_exitcode(_NUMBER.unpack(data)[0])
        return self.returncode

    @property
    def status_pipe(self) -> int:
        """Becomes readable when the command has ended."""
        return self._status


async def start(*arguments: str, env: Environment, cwd: Path, **streams: Any) -> Process:
    """A command as `asyncio.create_subprocess_exec` gives it."""
    loop = asyncio.get_running_loop()
    protocol = SubprocessStreamProtocol(limit=_LINE_LIMIT, loop=loop)
    given: dict[str, Any] = {"stdin": None, "stdout": None, "stderr": None, "bufsize": 0, **streams}
    ready = loop.create_future()
    transport = _Transport(loop, protocol, arguments, False, waiter=ready, env=env, cwd=cwd, **given)
    await ready
    return Process(transport, protocol, loop)


class _Transport(base_subprocess.BaseSubprocessTransport):
    """The event loop's side of a command."""

    def _start(self, args: Any, shell: bool, stdin: Any, stdout: Any, stderr: Any, bufsize: int, **kwargs: Any) -> None:
        loop = asyncio.get_running_loop()
        ours: socket.socket | None = None
        theirs: socket.socket | None = None
        if stdin == subprocess.PIPE:  # the loop can tell of a socket that nobody reads it any more
            theirs, ours = socket.socketpair()
        command = Command(
            args,
            stdin=stdin if theirs is None else theirs.fileno(),
            stdout=stdout,
            stderr=stderr,
            bufsize=bufsize,
            **kwargs,
        )
        if theirs is not None and ours is not None:
            theirs.close()
            command.stdin = os.fdopen(ours.detach(), "wb", bufsize)
        self._proc = command
        pipe = command.status_pipe

        def ended() -> None:
            loop.remove_reader(pipe)
            self._process_exited(command.collect(None))  # type: ignore[attr-defined]  # pyright: ignore

        loop.add_reader(pipe, ended)


class _Zygote:
    """The test process's end of the socket to its zygote."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        path = os.pathsep.join([str(Path(__file__).parent), str(Path(fieldmark.__file__).parents[1])])
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _CODE, str(theirs.fileno())],
                env={"PATH": os.defpath, "PYTHONPATH": path, **_coverage()},
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C is for the tests; it ends with its socket
            )

    def fork(self, wanted: Mapping[str, Any], streams: list[int]) -> tuple[int, int]:
        """The new command's process id, and the pipe that tells its status when it has ended."""
        status, theirs = os.pipe()
        try:
            socket.send_fds(self._socket, [pickle.dumps(wanted)], [*streams, theirs])
        finally:
            os.close(theirs)
        data = self._socket.recv(_NUMBER.size)
        assert data, "The zygote did not start."
        return _NUMBER.unpack(data)[0], status

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


@cache
def _zygote() -> _Zygote:
    begun = _Zygote()
    atexit.register(begun.close)
    return begun


def _coverage() -> dict[str, str]:
    # What coverage needs to go on in child processes, where the tests are measured.
    return {name: value for name, value in os.environ.items() if name.startswith("COVERAGE_")}  # noqa: TID251


# In the zygote --------------------------------------------------------------------------------------------------------


def serve() -> None:
    """Fork a command for each request, and tell how it ended, until the test process is gone."""
    _import_product()
    gc.collect()
    gc.freeze()
    requests = socket.socket(fileno=int(sys.argv[1]))
    wakes, wake = socket.socketpair()
    for end in (wakes, wake):
        end.setblocking(False)
    signal.set_wakeup_fd(wake.fileno())
    signal.signal(signal.SIGCHLD, _wake)
    running: dict[int, int] = {}
    while True:
        readable, _, _ = select.select([requests, wakes], [], [])
        if wakes in readable:
            wakes.recv(4096)
            _tell_ended(running)
        if requests not in readable:
            continue
        content, given, _, _ = socket.recv_fds(requests, _LONGEST, 4)
        if not content:
            return
        *streams, status = given
        assert len([*Path("/proc/self/task").iterdir()]) == 1, "of a process with several threads, a fork has one"
        if (pid := os.fork()) == 0:
            signal.set_wakeup_fd(-1)
            for end in (requests, wakes, wake):
                end.detach()
            _become(pickle.loads(content), streams)
            return
        running[pid] = status
        for stream in streams:
            os.close(stream)
        requests.send(_NUMBER.pack(pid))


def _import_product() -> None:
    # Not the commands themselves: what they find out of the terminal and the environment when they are imported must be
    # the command's own.
    for name in ("api.app", "runtime", "worker.jobs", "evaluation.evaluate"):
        import_module(f"fieldmark.{name}")
    for name in _IMPORTED_LATER:
        import_module(name)


def _wake(*_: object) -> None:
    """Lets a child's end be written to the wakeup socket: without a handler it is not."""


def _tell_ended(running: dict[int, int]) -> None:
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        pipe = running.pop(pid)
        os.write(pipe, _NUMBER.pack(status))
        os.close(pipe)


def _become(wanted: Mapping[str, Any], streams: list[int]) -> None:
    """Run a command in this process, which was just forked."""
    if wanted["new_session"]:
        os.setsid()
    for standard, stream in enumerate(streams):
        os.dup2(stream, standard)
    os.closerange(3, max(int(open_file.name) for open_file in Path("/proc/self/fd").iterdir()) + 1)
    for number, handler in {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGCHLD: signal.SIG_DFL,
        signal.SIGHUP: signal.SIG_DFL,
    }.items():
        signal.signal(number, handler)
    os.environ.clear()  # noqa: TID251  of a process that becomes another
    os.environ.update({"LC_CTYPE": "C.UTF-8", **wanted["environment"]})  # noqa: TID251
    os.chdir(wanted["folder"])
    sys.argv = ["fieldmark", *wanted["arguments"]]
    sys.stdin = sys.__stdin__ = _stream(0, "r", "surrogateescape")
    sys.stdout = sys.__stdout__ = _stream(1, "w", "surrogateescape")
    sys.stderr = sys.__stderr__ = _stream(2, "w", "backslashreplace", by_line=True)
    from fieldmark.cli import main

    main()


def _stream(number: int, mode: Literal["r", "w"], errors: str, *, by_line: bool = False) -> io.TextIOWrapper:
    binary = os.fdopen(number, f"{mode}b")
    return io.TextIOWrapper(binary, "utf-8", errors, line_buffering=by_line or os.isatty(number))
