"""A command as a process: streams, settings, the embedded service, signals and exit codes."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import errno
import gc
import io
import os
import signal
import sys
from collections.abc import AsyncGenerator, Coroutine, Generator
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar
from uuid import UUID

import typer

from fieldmark.cli.terminal import err, plain, steps
from fieldmark.errors import FieldmarkError
from fieldmark.settings import Settings, SettingsError
from fieldmark.settings import read_settings as of_environment

if TYPE_CHECKING:  # what takes long to import is imported where it is needed
    from fieldmark.identity.scope import Scope
    from fieldmark.runtime import Runtime

# The default user of this machine. Not a secret, and the same everywhere.
LOCAL_USER: Final = UUID("00000000-0000-4000-8000-000000000001")

FAILED, MISUSED, CANNOT_WORK, WAITS, INTERRUPTED = 1, 2, 3, 4, 130

_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

Result = TypeVar("Result")


@contextlib.contextmanager
def standard_streams() -> Generator[None]:
    """Handle closed pipes and narrow encodings of the standard streams in the context, which lasts for the whole
    command."""
    # A command is half over when it has imported what it needs, and none of that is garbage: not to look for any in it
    # time and again, and once more at the end, saves a quarter of the processor time. (`open_runtime` sets it again.)
    gc.set_threshold(50_000)
    atexit.register(gc.freeze)
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that cannot show a character is no reason to stop
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # else what is not written yet is tried again at the end
        err.print(f"[red]Not all could be written: {error.strerror}.[/red]")
        sys.exit(FAILED)


def _open_closed_streams() -> None:
    """Open streams that the caller closed (`>&-`) on the null device: a file would get their numbers."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            if null != number:
                os.dup2(null, number)
                os.close(null)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))


def read_settings(log_level: str | None = None) -> Settings:
    """Load the settings. `log_level` is the default log level of the process."""
    try:
        settings = of_environment()
    except SettingsError as error:
        exit_with(str(error), CANNOT_WORK)
    from fieldmark.telemetry.logs import set_up_logs  # imported here: `--help` logs nothing

    set_up_logs(log_level if log_level and settings.log_level == "info" else settings.log_level)
    return settings


@contextlib.asynccontextmanager
async def open_service(
    settings: Settings, user: UUID, org: UUID | None = None
) -> AsyncGenerator[tuple[Runtime, Scope]]:
    """Open the service and the user's scope: in `org`, or in the personal organisation."""
    from fieldmark.runtime import open_runtime
    from fieldmark.services.organisations import scope_of_user

    async with open_runtime(settings) as runtime:
        yield runtime, await scope_of_user(runtime.database, user, org)


def print_offline_notice(settings: Settings) -> None:
    """Print a notice if there is no language model."""
    if settings.offline:
        steps().print(
            "[yellow]No ANTHROPIC_API_KEY: the offline model answers, by fixed rules. It is no language model.[/yellow]"
        )


def run(work: Coroutine[Any, Any, Result], *, endless: bool = False) -> Result:
    """Run until the end, Ctrl-C, SIGTERM or a hang-up, and close all resources in order. `endless`: a signal is the
    normal end."""

    async def until_signal() -> Result:
        task = asyncio.current_task()
        assert task is not None
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) != signal.SIG_IGN:  # as under nohup
                asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        return await work

    with exit_on_error():
        try:
            return asyncio.run(until_signal())
        except (KeyboardInterrupt, asyncio.CancelledError):
            err.print("Ended." if endless else "Interrupted.")
            raise typer.Exit(0 if endless else INTERRUPTED) from None


@contextlib.contextmanager
def exit_on_error() -> Generator[None]:
    """End the command with a message instead of a traceback on expected errors."""
    try:
        yield
    except FieldmarkError as error:
        exit_with(str(error), CANNOT_WORK)


def exit_with(sentence: str, code: int) -> NoReturn:
    """Print the reason and end the command."""
    err.print(f"[red]{plain(sentence)}[/red]")
    raise typer.Exit(code)
