"""Find the child processes of a test: CLIs, readers, forkservers. Any of them may end at any time."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import psutil

_DYING_SECONDS: Final = 10
# Command lines of the server and its forkservers, whose environment only root can read.
_UNREADABLE: Final = ("fieldmark.cli import main", "import zygote", "pagewords import forkserver")

# Programs that sealed-cli.sh runs before the CLI itself. Their command lines end like the CLI's.
_LAUNCHERS = {"sh", "dash", "bash", "setpriv", "setsid", "env"}


def is_alive(process: psutil.Process | int) -> bool:
    """Return whether a process (or process id) runs. A zombie does not."""
    try:
        process = psutil.Process(process) if isinstance(process, int) else process
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def children(pid: int | None = None) -> list[psutil.Process]:
    """Return the running descendants of a process; of this process if `pid` is None."""
    try:
        found = psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return [process for process in found if is_alive(process)]


def command_line(process: psutil.Process) -> str:
    """Return the command line; empty if the process has ended."""
    return " ".join(_arguments(process))


def _arguments(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


def forkservers(pid: int | None = None) -> list[psutil.Process]:
    """Return the forkserver processes that file readers are forked from."""
    return [process for process in _of_reading(pid) if not _is_reader(process)]


def reader_processes(pid: int | None = None) -> list[psutil.Process]:
    """Return the running file reader processes."""
    return [process for process in _of_reading(pid) if _is_reader(process)]


def _of_reading(pid: int | None) -> list[psutil.Process]:
    return [process for process in children(pid) if "pagewords import forkserver" in command_line(process)]


def _is_reader(process: psutil.Process) -> bool:
    try:
        return process.name() == "reader"
    except psutil.NoSuchProcess:
        return False


def cli_processes(pid: int | None = None) -> list[psutil.Process]:
    """Return the running CLI processes, including those still in their launcher."""
    return [
        process
        for process in children(pid)
        if not any(part in command_line(process) for part in _UNREADABLE)
        and "fieldmark-agent-" in str(environment(process))
    ]


def is_cli_itself(cli: psutil.Process) -> bool:
    """Return whether the launcher has been replaced by the CLI itself."""
    arguments = _arguments(cli)
    is_named = any(argument.endswith("fd/9") for argument in arguments)
    launcher = Path(arguments[0]).name if arguments else ""
    return is_named and launcher not in _LAUNCHERS and not launcher.startswith("python")  # sets limits


def started_cli(pid: int | None = None) -> psutil.Process | None:
    """Return a CLI process that has left its launcher, or None."""
    return next((cli for cli in cli_processes(pid) if is_cli_itself(cli)), None)


def wait_all_ended(processes: Iterable[psutil.Process], seconds: float = 60) -> bool:
    """Wait for processes to end; return whether all did within `seconds`."""
    _, left = psutil.wait_procs([*processes], timeout=seconds)
    return not any(is_alive(process) for process in left)


def environment(process: psutil.Process) -> dict[str, str]:
    """Return the environment; empty if the process has ended."""
    deadline = time.monotonic() + _DYING_SECONDS
    while True:
        try:
            return process.environ()
        except psutil.NoSuchProcess:
            return {}
        except psutil.AccessDenied:
            # A process that is exiting has released its memory; until it is gone, only root can read its /proc files.
            # A process that is merely not readable must not count as ended.
            if not is_alive(process):
                return {}
            if time.monotonic() > deadline:
                raise
            time.sleep(0.001)
