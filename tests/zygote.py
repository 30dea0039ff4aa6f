"""Starts `fieldmark` commands by forking a process that has already imported the product: 0.2 s instead of 2.

Each test process has one such zygote. A command has its own environment, folder, streams, signals, session and exit
code. It uses Claude's CLI or the stand-in, as its test does. Commands started by a shell, or as fresh processes
(tests/cli/commands.py), test the imports and use Claude's CLI.
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

from claude_agent_sdk._internal.transport import subprocess_cli

import fieldmark

_ZYGOTE_CODE = "import zygote; zygote.serve()"
_INT = struct.Struct("i")
_MAX_REQUEST_BYTES = 1 << 18
_LINE_LIMIT = 1 << 16

MODELS_AFTER_SECONDS = 24 * 3600
"""When a test's service loads the OCR models in advance, which takes 2 s of CPU time."""

# Modules that libraries import on first use.
_LAZY_IMPORTS = (
    "anyio._backends._asyncio",
    "httpcore",
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
    """A forked command: `Command(["runs"], env=…, cwd=…, stdout=PIPE)`. Used like any Popen."""

    _status: int = -1

    def _execute_child(self, *positional_arguments: Any) -> None:
        # Bound by name: the order differs between Python versions.
        arguments = inspect.signature(subprocess.Popen._execute_child).bind(self, *positional_arguments).arguments  # pyright: ignore
        streams = [
            stream if stream != -1 else standard
            for standard, stream in enumerate((arguments["p2cread"], arguments["c2pwrite"], arguments["errwrite"]))
        ]
        request: dict[str, Any] = {
            "arguments": [os.fsdecode(argument) for argument in arguments["args"]],
            "environment": dict(arguments["env"]),
            "folder": os.fspath(arguments["cwd"]),
            "new_session": arguments["start_new_session"],
            "cli_transport": subprocess_cli.SubprocessCLITransport,  # pickled by name
        }
        self.pid, self._status = _zygote().fork(request, streams)
        self._child_created = True
        pipe_ends = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        self._close_pipe_fds(*(arguments[pipe_end] for pipe_end in pipe_ends))  # pyright: ignore

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        return self.collect(0)

    def _wait(self, timeout: float | None) -> int:
        if self.collect(timeout) is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        assert self.returncode is not None
        return self.returncode

    def collect(self, timeout: float | None) -> int | None:
        """Return the exit code; None if the command still runs after `timeout` seconds."""
        if self.returncode is None and select.select([self._status], [], [], timeout)[0]:
            data = os.read(self._status, _INT.size)
            os.close(self._status)
            assert data, "The zygote died. The exit code of the command is unknown."
            self.returncode = os.waitstatus_to_exitcode(_INT.unpack(data)[0])
        return self.returncode

    @property
    def status_pipe(self) -> int:
        """Becomes readable when the command has ended."""
        return self._status


async def start(*arguments: str, env: Environment, cwd: Path, **streams: Any) -> Process:
    """Start a command and return it as `asyncio.create_subprocess_exec` does."""
    loop = asyncio.get_running_loop()
    protocol = SubprocessStreamProtocol(limit=_LINE_LIMIT, loop=loop)
    stream_arguments: dict[str, Any] = {"stdin": None, "stdout": None, "stderr": None, "bufsize": 0, **streams}
    ready = loop.create_future()
    transport = _Transport(loop, protocol, arguments, False, waiter=ready, env=env, cwd=cwd, **stream_arguments)
    await ready
    return Process(transport, protocol, loop)


class _Transport(base_subprocess.BaseSubprocessTransport):
    """A command's transport in the event loop."""

    def _start(self, args: Any, shell: bool, stdin: Any, stdout: Any, stderr: Any, bufsize: int, **kwargs: Any) -> None:
        loop = asyncio.get_running_loop()
        parent_end: socket.socket | None = None
        child_end: socket.socket | None = None
        if stdin == subprocess.PIPE:  # the loop detects when the other end of a socket is closed
            child_end, parent_end = socket.socketpair()
        command = Command(
            args,
            stdin=stdin if child_end is None else child_end.fileno(),
            stdout=stdout,
            stderr=stderr,
            bufsize=bufsize,
            **kwargs,
        )
        if child_end is not None and parent_end is not None:
            child_end.close()
            command.stdin = os.fdopen(parent_end.detach(), "wb", bufsize)
        self._proc = command
        pipe = command.status_pipe

        def on_end() -> None:
            loop.remove_reader(pipe)
            self._process_exited(command.collect(None))  # type: ignore[attr-defined]  # pyright: ignore

        loop.add_reader(pipe, on_end)


class _Zygote:
    """The test process's connection to its zygote."""

    def __init__(self) -> None:
        self._socket, child_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        path = os.pathsep.join([str(Path(__file__).parent), str(Path(fieldmark.__file__).parents[1])])
        with child_end:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _ZYGOTE_CODE, str(child_end.fileno())],
                env={"PATH": os.defpath, "PYTHONPATH": path, **_coverage_environment()},
                stdin=subprocess.DEVNULL,
                pass_fds=[child_end.fileno()],
                start_new_session=True,  # no Ctrl-C for the zygote: it ends when its socket is closed
            )

    def fork(self, request: Mapping[str, Any], streams: list[int]) -> tuple[int, int]:
        """Return the new command's process id, and the pipe that receives its exit status."""
        read_end, write_end = os.pipe()
        try:
            socket.send_fds(self._socket, [pickle.dumps(request)], [*streams, write_end])
        finally:
            os.close(write_end)
        data = self._socket.recv(_INT.size)
        assert data, "The zygote did not start."
        return _INT.unpack(data)[0], read_end

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


@cache
def _zygote() -> _Zygote:
    zygote = _Zygote()
    atexit.register(zygote.close)
    return zygote


def _coverage_environment() -> dict[str, str]:
    # Coverage continues in child processes if the tests are measured.
    return {name: value for name, value in os.environ.items() if name.startswith("COVERAGE_")}  # noqa: TID251


# In the zygote --------------------------------------------------------------------------------------------------------


def serve() -> None:
    """Fork a command for each request and report its exit status, until the test process has ended."""
    _import_product()
    gc.collect()
    gc.freeze()
    request_socket = socket.socket(fileno=int(sys.argv[1]))
    wakeup_reader, wakeup_writer = socket.socketpair()
    for socket_end in (wakeup_reader, wakeup_writer):
        socket_end.setblocking(False)
    signal.set_wakeup_fd(wakeup_writer.fileno())
    signal.signal(signal.SIGCHLD, _handle_sigchld)
    running: dict[int, int] = {}
    while True:
        readable, _, _ = select.select([request_socket, wakeup_reader], [], [])
        if wakeup_reader in readable:
            wakeup_reader.recv(4096)
            _report_ended(running)
        if request_socket not in readable:
            continue
        request, descriptors, _, _ = socket.recv_fds(request_socket, _MAX_REQUEST_BYTES, 4)
        if not request:
            return
        *streams, status = descriptors
        assert len([*Path("/proc/self/task").iterdir()]) == 1, "fork copies one thread only"
        if (pid := os.fork()) == 0:
            signal.set_wakeup_fd(-1)
            for socket_end in (request_socket, wakeup_reader, wakeup_writer):
                socket_end.detach()
            _run_command(pickle.loads(request), streams)
            return
        running[pid] = status
        for stream in streams:
            os.close(stream)
        request_socket.send(_INT.pack(pid))


def _import_product() -> None:
    from fieldmark.api.app import create_app
    from fieldmark.settings import Settings

    # Not the commands themselves: at import they read the terminal and the environment of their process.
    for name in ("runtime", "telemetry.logs", "worker.jobs", "evaluation.evaluate"):
        import_module(f"fieldmark.{name}")
    for name in ("cli_stand_in", *_LAZY_IMPORTS):
        import_module(name)
    import_module("fieldmark.worker.jobs").MODELS_AFTER_SECONDS = MODELS_AFTER_SECONDS
    # Commands share the routes of this application.
    create_app(Settings(_env_file=None), with_ui=False)


def _handle_sigchld(*_: object) -> None:
    """Do nothing. Python writes to the wakeup socket only for signals with a handler."""


def _report_ended(running: dict[int, int]) -> None:
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        pipe = running.pop(pid)
        os.write(pipe, _INT.pack(status))
        os.close(pipe)


def _run_command(request: Mapping[str, Any], streams: list[int]) -> None:
    """Run a command in this newly forked process."""
    if request["new_session"]:
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
    os.environ.clear()  # noqa: TID251  this process becomes the command
    os.environ.update({"LC_CTYPE": "C.UTF-8", **request["environment"]})  # noqa: TID251
    os.chdir(request["folder"])
    subprocess_cli.SubprocessCLITransport = request["cli_transport"]
    sys.argv = ["fieldmark", *request["arguments"]]
    sys.stdin = sys.__stdin__ = _stream(0, "r", "surrogateescape")
    sys.stdout = sys.__stdout__ = _stream(1, "w", "surrogateescape")
    sys.stderr = sys.__stderr__ = _stream(2, "w", "backslashreplace", by_line=True)
    from fieldmark.cli import main

    main()


def _stream(number: int, mode: Literal["r", "w"], errors: str, *, by_line: bool = False) -> io.TextIOWrapper:
    binary = os.fdopen(number, f"{mode}b")
    return io.TextIOWrapper(binary, "utf-8", errors, line_buffering=by_line or os.isatty(number))
