"""Ctrl-C: what a command has started does not go on behind the person's back."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest
import typer

from fieldmark.cli import process
from fieldmark.offline_model.messages import call, text
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio

TOTAL = {"path": "total", "value": 10, "confidence": 0.9}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize(("endless", "code"), [(False, 130), (True, 0)])
def test_a_command_told_to_end_closes_what_it_opened(number: signal.Signals, endless: bool, code: int):
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


def test_a_command_under_nohup_outlives_its_terminal():
    async def work() -> str:
        os.kill(os.getpid(), signal.SIGHUP)
        await asyncio.sleep(0)
        return "done"

    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert process.run(work()) == "done"
    finally:
        signal.signal(signal.SIGHUP, before)


async def test_an_interrupt_at_the_question_cancels_too(local_commands):
    async with local_commands(Script([[call("update_field", TOTAL)], [text("Done.")]])) as fieldmark:
        async with fieldmark.at_terminal("extract", "--ask", fieldmark.file()) as terminal:
            await terminal.sees("(a/r/e/l)")
            terminal.process.send_signal(signal.SIGINT)
        assert terminal.process.returncode == 130, terminal.shown
        assert fieldmark.only_run()["status"] == "cancelled" and fieldmark.fields() == {}


async def test_who_leaves_it_for_later_has_not_interrupted_it(local_commands):
    async with local_commands(Script([[call("update_field", TOTAL)], [text("Done.")]])) as fieldmark:
        async with fieldmark.at_terminal("extract", "--ask", fieldmark.file()) as terminal:
            await terminal.sees("(a/r/e/l)")
            terminal.types("\x04")  # Ctrl-D, the end of input
        assert terminal.process.returncode == 4, terminal.shown
        assert fieldmark.only_run()["status"] == "awaiting_approval"
