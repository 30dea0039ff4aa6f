"""A run as it is watched on the page: what is being written, a reload in the middle, a decision."""

from __future__ import annotations

import asyncio

import pytest

from fieldmark.offline_model.messages import call, text, thinking
from fieldmark.testing.script import Script, held, paced
from two_agents import run, talking

pytestmark = pytest.mark.anyio

IDENTIFIED = call("identify_document", {"document_type": "invoice", "confidence": 0.9})
SAVED = call(
    "extract_fields", {"fields": {"number": "17", "total": 12.5}, "confidences": {"number": 0.9, "total": 0.9}}
)
COMPLETE = call("complete_extraction", {"summary": "Two fields."})
TEXT = "Invoice number: 17\nTotal: 12.50 EUR\n"


async def test_what_is_being_written_is_shown_and_told_apart_and_a_reload_goes_on(serve, browsing, picture):
    goes_on = asyncio.Event()

    async def pen(written: str) -> None:
        if "12.5" in written:  # the first field is whole by then
            await goes_on.wait()

    script = Script([[IDENTIFIED], paced(pen, SAVED), [COMPLETE]])
    async with serve(script) as served, browsing(served) as window:
        page = window.page
        document = await served.document(TEXT)
        await window.enter(f"/documents/{document}")
        await page.get_by_role("button", name="Extract").click()
        await page.get_by_role("menuitem", name="All fields, without a schema").click()
        row = page.locator('[role=treeitem][data-path="number"]')
        try:
            for _ in range(2):
                await row.get_by_text("being written").first.wait_for(state="attached")
                assert await page.get_by_role("button", name="Cancel").is_enabled()
                await picture(page, "previews")
                stored = (await served.http.get("/api/extractions")).json()["items"][0]
                whole = (await served.http.get(f"/api/extractions/{stored['id']}")).json()
                assert whole["extracted_fields"] == {}
                await page.reload()
        finally:
            goes_on.set()
        await page.locator("[data-phase=complete]").wait_for()
        await row.get_by_text("17", exact=True).wait_for()
        await page.get_by_text("being written").first.wait_for(state="detached")
        assert window.faults == []


async def test_a_call_waits_for_a_person_and_is_done_when_they_approve(serve, browsing, picture):
    async with serve(Script([[IDENTIFIED], [SAVED], [COMPLETE]])) as served, browsing(served) as window:
        page = window.page
        document = await served.document(TEXT)
        await window.enter(f"/documents/{document}")
        await page.get_by_role("button", name="Extract").click()
        await page.get_by_role("menuitem", name="ask me before each write").click()
        approved = 0
        while not await page.locator("[data-phase=complete]").count():
            button = page.get_by_role("button", name="Approve", exact=True)
            await button.or_(page.locator("[data-phase=complete]")).first.wait_for()
            if await button.count() and await button.is_enabled():
                await picture(page, f"approval-{approved}")
                approved += 1
                await button.click()
                await button.wait_for(state="detached")
        assert approved >= 1
        await page.locator('[role=treeitem][data-path="total"]').get_by_text("12.5").wait_for()
        assert window.faults == []


async def test_reasoning_is_closed_and_timed_and_a_run_that_a_call_starts_is_told_there(serve, browsing, picture):
    goes_on, extracts_on = asyncio.Event(), asyncio.Event()

    async def pen(written: str) -> None:
        if "12.5" in written:
            await extracts_on.wait()

    reasons = held(goes_on.wait, thinking("It has no fields yet, so I have it read."), *[run()])
    extracts = Script([[IDENTIFIED], paced(pen, SAVED), [COMPLETE]])
    async with serve(talking(reasons, [text("Done.")], extracts=extracts)) as served, browsing(served) as window:
        page = window.page
        document = await served.document(TEXT)
        body = {"document_id": str(document), "message": "extract", "approval": "auto", "wait": False}
        talk = (await served.http.post("/api/agent/chat", json=body)).json()["run_id"]
        try:
            await window.enter(f"/documents/{document}")
            await page.get_by_role("tab", name="Chat").click()
            steps = page.get_by_role("log", name="Conversation")
            reasoning = steps.locator("details").filter(has_text="Reasoning")
            await reasoning.get_by_role("timer").filter(has_text="1 s").wait_for()
            assert await reasoning.get_attribute("open") is None
            goes_on.set()
            await reasoning.get_by_text("Reasoning", exact=True).wait_for()
            assert await reasoning.get_by_role("timer").count() == 0
            # What the part writes stands on the page while it is being written, and among the fields.
            # It has cost something already, though no event has said so.
            cost = steps.get_by_title("Cost so far")
            await cost.wait_for()
            before = float((await cost.inner_text()).removeprefix("$"))
            assert before > 0
            assert await steps.get_by_role("group", name="A run of its own").count() == 0
            # (Closed: no role is seen.)
            call_of_the_run = steps.locator("details").filter(has=page.locator("[role=group]"))
            await call_of_the_run.first.locator("summary").first.click()
            await steps.get_by_role("group", name="A run of its own").wait_for()
            await picture(page, "run-of-a-call")
            await page.get_by_role("tab", name="Fields").click()
            number = page.locator('[role=treeitem][data-path="number"]')
            await number.get_by_text("being written").first.wait_for(state="attached")
        finally:
            goes_on.set()
            extracts_on.set()
        await page.locator("[data-phase=complete]").wait_for()
        await page.locator('[role=treeitem][data-path="total"]').get_by_text("12.5").wait_for()
        total = (await served.http.get(f"/api/runs/{talk}")).json()["cost_usd"]
        assert total > before
        assert window.faults == []
