"""Following a run on the page: values while they are written, reasoning, a reload."""

from __future__ import annotations

import asyncio
import re

import pytest

from browser.scripts import COMPLETE, IDENTIFY, save_fields
from browser.window import label, playwright
from fieldmark.offline_model.messages import text, thinking
from fieldmark.testing.script import Script, pause_midway, stream_in_steps
from two_agent_model import chat_script, extraction_call

pytestmark = pytest.mark.anyio

SAVED = save_fields(number="17", total=12.5)
TEXT = "Invoice number: 17\nTotal: 12.50 EUR\n"


async def test_values_are_shown_while_written_and_after_a_reload(serve, browsing):
    is_followed, may_continue = asyncio.Event(), asyncio.Event()

    async def pause_writing(written: str) -> None:
        if "12.5" in written:  # the first field is complete then
            await may_continue.wait()

    async def save_slowly(_body):
        await is_followed.wait()  # a page that connects later gets nothing of what was written before
        return stream_in_steps(pause_writing, SAVED)

    script = Script([[IDENTIFY], save_slowly, [COMPLETE]])
    async with serve(script) as server, browsing(server) as window:
        page = window.page
        document = await server.upload_text(TEXT)
        await window.open(f"/documents/{document}")
        await page.get_by_role("button", name="Extract").click()
        await page.get_by_role("menuitem", name="Extract all fields").click()
        row = window.field_row("number")
        try:
            await page.locator("[data-phase=working]").wait_for()
            is_followed.set()
            await row.get_by_text("Writing…").first.wait_for(state="attached")
            await playwright.expect(page.get_by_role("button", name="Cancel")).to_be_enabled()
            stored = (await server.get("extractions"))["items"][0]
            whole = await server.extraction(stored["id"])
            assert whole["extracted_fields"] == {}
            await page.reload()
        finally:
            is_followed.set()
            may_continue.set()
        await page.locator("[data-phase=complete]").wait_for()
        await row.get_by_text("17", exact=True).wait_for()
        await page.get_by_text("Writing…").first.wait_for(state="detached")


async def test_reasoning_is_collapsed_with_a_timer_and_child_run_is_shown(serve, browsing):
    is_open, may_continue, extracts_on = asyncio.Event(), asyncio.Event(), asyncio.Event()
    is_child_followed = asyncio.Event()

    async def pause_writing(written: str) -> None:
        if "12.5" in written:
            await extracts_on.wait()

    async def saves_slowly(_body):
        await is_child_followed.wait()
        return stream_in_steps(pause_writing, SAVED)

    reasons = pause_midway(may_continue.wait, thinking("It has no fields yet, so I have it read."), extraction_call())
    talk_model = chat_script(reasons, [text("Done.")], extracts=Script([[IDENTIFY], saves_slowly, [COMPLETE]]))

    async def model(body):
        await is_open.wait()  # a client that connects later gets no events of a started block
        return await talk_model(body)

    async with serve(model) as server, browsing(server) as window:
        page = window.page
        document = await server.upload_text(TEXT)
        talk = (await server.chat(document, "extract", approval="auto", wait=False))["run_id"]
        try:
            await window.open(f"/documents/{document}")
            async with page.expect_response(f"**/api/runs/{talk}/events*"):
                await page.get_by_role("tab", name="Chat").click()
            steps = page.get_by_role("log", name="Conversation")
            await steps.wait_for()
            await steps.get_by_text(label("runs.status.thinking")).wait_for()  # the page is following
            is_open.set()
            reasoning = steps.locator("details").filter(has_text="Reasoning")
            await reasoning.get_by_role("timer").filter(has_text=re.compile(r"[1-9]\d*s")).wait_for()
            await playwright.expect(reasoning).not_to_have_attribute("open", re.compile(""))
            may_continue.set()
            await reasoning.get_by_text("Reasoning", exact=True).wait_for()
            await playwright.expect(reasoning.get_by_role("timer")).to_have_count(0)
            # Values of the child run are shown while it writes them, in the chat and among the fields.
            # The cost is shown already, although no event has reported it.
            cost = steps.get_by_title(label("runs.cost"))
            await cost.wait_for()
            before = float((await cost.inner_text()).removeprefix("$"))
            assert before > 0
            await playwright.expect(steps.get_by_role("group", name=label("runs.subtask"))).to_have_count(0)
            # (A closed element has no role.)
            call_of_the_run = steps.locator("details").filter(has=page.locator("[role=group]"))
            await call_of_the_run.first.locator("summary").first.click()
            await steps.get_by_role("group", name=label("runs.subtask")).wait_for()
            await page.get_by_role("tab", name="Fields").click()
            await page.locator("[data-phase=working]").wait_for()  # the page follows the child run as well
            is_child_followed.set()
            number = window.field_row("number")
            await number.get_by_text("Writing…").first.wait_for(state="attached")
        finally:
            for event in (is_open, may_continue, is_child_followed, extracts_on):
                event.set()
        await page.locator("[data-phase=complete]").wait_for()
        await window.field_row("total").get_by_text("12.5").wait_for()
        total = (await server.get(f"runs/{talk}"))["cost_usd"]
        assert total > before
