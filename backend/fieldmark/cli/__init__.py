"""The command line: serve, extract, export, runs, approve, eval, worker, migrate, token.

Exit codes: 0 done (`serve` and `worker`: told to end); 1 a document could not be read, a run failed, what was to be
decided waits no more, an evaluation got worse, or not all could be written; 2 wrong usage; 3 the service cannot work
(settings, database); 4 nothing failed, but a run waits for a person's decision; 130 interrupted.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import gc
import io
import os
import sys
from typing import Final

import typer

from fieldmark.cli.evaluate import evaluate
from fieldmark.cli.export import export
from fieldmark.cli.extract import extract
from fieldmark.cli.process import FAILED
from fieldmark.cli.runs import approve, runs
from fieldmark.cli.service import migrate, serve, token, worker
from fieldmark.cli.terminal import err

_app = typer.Typer(
    help="Fieldmark reads documents and fills databases.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for _name, _command in {
    "extract": extract,
    "export": export,
    "runs": runs,
    "approve": approve,
    "eval": evaluate,
    "serve": serve,
    "worker": worker,
    "migrate": migrate,
    "token": token,
}.items():
    _app.command(_name)(_command)


_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def main() -> None:
    """The entry point of `fieldmark`."""
    # A command is half over when it has imported what it needs, and none of that is garbage: not to look for any in it
    # time and again, and once more at the end, saves a quarter of the processor time.
    gc.set_threshold(50_000)
    atexit.register(gc.freeze)
    _open_what_is_closed()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that cannot show a character is no reason to stop
    try:
        _app()
    except OSError as error:
        if error.errno not in _FULL:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # else what is not written yet is tried again at the end
        err.print(f"[red]Not all could be written: {error.strerror}.[/red]")
        sys.exit(FAILED)


def _open_what_is_closed() -> None:
    """Give a process that was started without a standard stream (`2>&-`) an empty one: what it opens first would take
    the stream's number, and get what is written there."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            with contextlib.suppress(OSError):
                os.fstat(number)
                continue
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
            os.set_inheritable(number, True)
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))
