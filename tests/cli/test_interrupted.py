"""Ctrl-C: what a command has started does not go on behind the person's back."""

from __future__ import annotations

import asyncio
import signal

import pytest

from desk import until
from fieldmark.offline_model.messages import call, text
from fieldmark.offline_model.script import Script, stall

pytestmark = pytest.mark.anyio

TOTAL = {"path": "total", "value": 10, "confidence": 0.9}


async def test_an_interrupted_extract_cancels_its_runs(commands):
    async with commands(Script([[call("update_field", TOTAL)], stall(60)])) as fieldmark:
        process = await fieldmark.start("extract", fieldmark.file(), fieldmark.file(name="b.txt"))
        await until(lambda: len(fieldmark.model.requests) >= 3, 30)  # both are at work
        process.send_signal(signal.SIGINT)
        async with asyncio.timeout(20):
            _, err = await process.communicate()
        assert process.returncode == 130 and b"Interrupted" in err
        assert [row["status"] for row in fieldmark.sql("select status from public.runs")] == ["cancelled"] * 2
        asked = len(fieldmark.model.requests)

        # Whoever works next finds nothing left of them.
        worker = await fieldmark.start("worker")
        await asyncio.sleep(4)
        worker.send_signal(signal.SIGTERM)
        await worker.communicate()
        assert worker.returncode == 0 and len(fieldmark.model.requests) == asked


async def test_an_interrupt_at_the_question_cancels_too(commands):
    async with commands(Script([[call("update_field", TOTAL)], [text("Done.")]])) as fieldmark:
        async with fieldmark.at_terminal("extract", "--ask", fieldmark.file()) as terminal:
            await terminal.sees("(a/r/e/l)")
            terminal.process.send_signal(signal.SIGINT)
        assert terminal.process.returncode == 130, terminal.shown
        assert fieldmark.only_run()["status"] == "cancelled" and fieldmark.fields() == {}


async def test_who_leaves_it_for_later_has_not_interrupted_it(commands):
    async with commands(Script([[call("update_field", TOTAL)], [text("Done.")]])) as fieldmark:
        async with fieldmark.at_terminal("extract", "--ask", fieldmark.file()) as terminal:
            await terminal.sees("(a/r/e/l)")
            terminal.types("\x04")  # Ctrl-D, the end of input
        assert terminal.process.returncode == 4, terminal.shown
        assert fieldmark.only_run()["status"] == "awaiting_approval"
