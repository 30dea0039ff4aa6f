"""The processes that a test has started, as one look finds them: any of them may end between two looks."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import psutil

_DYING_SECONDS: Final = 10
# The service, and what its readers are forked from: nobody but root sees their environment.
_CLOSED: Final = ("fieldmark.cli import main", "import zygote", "reading import forkserver")

# What sealed-cli.sh becomes before it becomes the CLI. The command lines of all of them end as the CLI's own.
_LAUNCHERS = {"sh", "dash", "bash", "setpriv", "setsid", "env"}


def is_alive(process: psutil.Process | int) -> bool:
    """Whether it (or the one of this number) goes on: one that has ended and is only not buried yet does not."""
    try:
        process = psutil.Process(process) if isinstance(process, int) else process
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def children(pid: int | None = None) -> list[psutil.Process]:
    """Those that a process, or this one, has started and that go on, and all that these have started."""
    try:
        found = psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return [process for process in found if is_alive(process)]


def command_line(process: psutil.Process) -> str:
    """Its command line; empty once it has ended."""
    return " ".join(_arguments(process))


def _arguments(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


def forkservers(pid: int | None = None) -> list[psutil.Process]:
    """The processes that readers of files are forked from, as a process, or this one, has started them."""
    return [process for process in _of_reading(pid) if not _is_reader(process)]


def readers_of(pid: int | None = None) -> list[psutil.Process]:
    """The readers of files that go on, of a process or of this one."""
    return [process for process in _of_reading(pid) if _is_reader(process)]


def _of_reading(pid: int | None) -> list[psutil.Process]:
    return [process for process in children(pid) if "reading import forkserver" in command_line(process)]


def _is_reader(process: psutil.Process) -> bool:
    try:
        return process.name() == "reader"
    except psutil.NoSuchProcess:
        return False


def clis(pid: int | None = None) -> list[psutil.Process]:
    """The agents' CLIs that a process, or this one, has started and that go on, those that are just starting too."""
    return [
        process
        for process in children(pid)
        if not any(part in command_line(process) for part in _CLOSED)
        and "fieldmark-agent-" in str(environment_of(process))
    ]


def is_launched(cli: psutil.Process) -> bool:
    """Whether it is the CLI itself by now, no more its launcher."""
    arguments = _arguments(cli)
    is_named = any(argument.endswith("fd/9") for argument in arguments)
    launcher = Path(arguments[0]).name if arguments else ""
    return is_named and launcher not in _LAUNCHERS and not launcher.startswith("python")  # that confines it


def started(pid: int | None = None) -> psutil.Process | None:
    """One of them that is the CLI itself by now."""
    return next((cli for cli in clis(pid) if is_launched(cli)), None)


def all_gone(processes: Iterable[psutil.Process], seconds: float = 60) -> bool:
    """Whether all of them have ended, or do in time."""
    _, left = psutil.wait_procs([*processes], timeout=seconds)
    return not any(is_alive(process) for process in left)


def environment_of(process: psutil.Process) -> dict[str, str]:
    """Its environment; empty once it has ended."""
    deadline = time.monotonic() + _DYING_SECONDS
    while True:
        try:
            return process.environ()
        except psutil.NoSuchProcess:
            return {}
        except psutil.AccessDenied:
            # Once a process has given up its memory, what /proc tells of it belongs to root, until it is gone for good:
            # nobody else may read it then. One that is merely closed to us must not pass for one that has ended.
            if not is_alive(process):
                return {}
            if time.monotonic() > deadline:
                raise
            time.sleep(0.001)
