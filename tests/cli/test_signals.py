"""A command as a process: signals close its resources, and closed streams are replaced."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys

import pytest
import typer

from fieldmark.cli import process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize(("endless", "code"), [(False, 130), (True, 0)])
def test_terminated_command_closes_its_resources(number: signal.Signals, endless: bool, code: int):
    closed = []

    async def work() -> None:
        try:
            os.kill(os.getpid(), number)
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0)
            closed.append(number)

    before = signal.signal(number, signal.SIG_DFL)
    try:
        with pytest.raises(typer.Exit) as ended:
            process.run(work(), endless=endless)
    finally:
        signal.signal(number, before)
    assert (ended.value.exit_code, closed) == (code, [number])


def test_command_under_nohup_survives_its_terminal():
    async def work() -> str:
        os.kill(os.getpid(), signal.SIGHUP)
        await asyncio.sleep(0)
        return "done"

    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert process.run(work()) == "done"
    finally:
        signal.signal(signal.SIGHUP, before)


def test_no_file_gets_the_number_of_a_stream_that_the_caller_closed():
    code = (
        "import os, sys; from fieldmark.cli.process import standard_streams\n"
        "with standard_streams(): print('lost'); sys.stdout.buffer.flush(); sys.exit(os.open(os.devnull, os.O_RDONLY))"
    )
    done = subprocess.run(["sh", "-c", 'exec "$0" -c "$1" <&- >&-', sys.executable, code], stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (3, b"")
