"""Ctrl-C: what a command has started does not go on behind the person's back."""

from __future__ import annotations

import asyncio
import signal
from dataclasses import replace

import pytest
from at_work import ended

from desk import until
from fieldmark.offline_model.messages import call, text
from fieldmark.testing.script import Script, stall
from standing import PATIENCE

pytestmark = pytest.mark.anyio

TOTAL = {"path": "total", "value": 10, "confidence": 0.9}


async def test_an_interrupted_extract_cancels_its_runs(commands):
    interrupted = asyncio.Event()
    silent = Script([[call("update_field", TOTAL)], stall(3600)])

    async def answer(body):
        return [text("Done.")] if interrupted.is_set() else await silent(body)

    async with commands(answer) as fieldmark:
        process = await fieldmark.start("extract", fieldmark.file(), fieldmark.file(name="b.txt"))
        await until(lambda: len(fieldmark.model.requests) >= 3, PATIENCE)  # both are at work
        process.send_signal(signal.SIGINT)
        _, err = await ended(process)
        assert process.returncode == 130 and "Interrupted" in err
        assert [row["status"] for row in fieldmark.sql("select status from public.runs")] == ["cancelled"] * 2

        # Whoever works next takes jobs in their order, and so comes to its own when nothing is left of those.
        interrupted.set()
        asked = len(fieldmark.model.requests)
        one_by_one = replace(fieldmark, settings={"FIELDMARK_MAX_LIVE_AGENTS": "1"})
        assert (await one_by_one.run("extract", fieldmark.file(name="c.txt"))).code == 4
        rows = fieldmark.sql("select status from public.runs order by created_at")
        assert [row["status"] for row in rows] == ["cancelled", "cancelled", "completed"]
        assert len(fieldmark.model.requests) == asked + 1


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
