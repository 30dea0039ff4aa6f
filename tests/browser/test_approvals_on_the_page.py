"""What an agent asks for is decided on the page: as it is, with other values, or not at all; one after the other."""

from __future__ import annotations

import asyncio
import json

import pytest

from acceptance.test_decisions_take_effect import put
from browser.scripts import COMPLETE, IDENTIFIED, ask_before_writes, saves
from desk import tool_results
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio

TEXT = "Invoice number: 17\nTotal: 12.50 EUR\nVAT: 2.00 EUR\n"


async def test_three_calls_in_a_row_one_edited_one_rejected(serve, browsing):
    script = Script([[IDENTIFIED], [saves(number="17")], [saves(total=12.5, vat=2)], [saves(note="x")], [COMPLETE]])
    async with serve(script) as served, browsing(served) as window:
        page = window.page
        document = await served.document(TEXT)
        run_id = await ask_before_writes(served, document, "complete_extraction")
        await window.enter(f"/documents/{document}")
        card = page.get_by_role("region", name="Waits for your decision")

        await card.get_by_text("number", exact=True).wait_for()
        await page.keyboard.press("a")
        await card.get_by_text("total", exact=True).wait_for()
        await card.get_by_role("button", name="Edit").click()
        await card.get_by_label("New value of total").fill("13.5")
        await card.get_by_role("button", name="Approve edited").click()
        await card.get_by_text("note", exact=True).wait_for()
        await page.keyboard.press("r")
        await card.get_by_label("Why").fill("That is not printed.")
        await card.get_by_role("button", name="Reject").click()

        await page.locator("[data-phase=complete]").wait_for()
        (extraction,) = (await served.get("extractions"))["items"]
        fields = (await served.extraction(extraction["id"]))["extracted_fields"]
        assert fields == {"number": "17", "total": 13.5, "vat": 2}
        told = json.dumps([said for said, _ in tool_results(served.model.requests[-1])])
        assert "That is not printed." in told
        assert (await served.get(f"runs/{run_id}"))["status"] == "completed"


async def test_what_moved_since_it_was_shown_is_said(serve, browsing, clone):
    script = Script([[IDENTIFIED], [saves(total=12.5)], [COMPLETE]])
    async with serve(script) as served, browsing(served) as window:
        page = window.page
        await ask_before_writes(served, await served.document(TEXT), "complete_extraction")
        await window.enter("/approvals")
        await page.get_by_role("button", name="Approve", exact=True).wait_for()
        (extraction,) = (await served.get("extractions"))["items"]
        # In a thread: the service, in this one, may hold the row's lock.
        await asyncio.to_thread(put, clone, {"extraction": extraction}, {"total": 99})
        await page.get_by_role("button", name="Approve", exact=True).click()
        await page.get_by_text("is 99 now; nothing was shown").wait_for()
        stored = await served.extraction(extraction["id"])
        assert stored["extracted_fields"] == {"total": 99}


async def test_who_starts_it_on_the_page_is_asked_and_may_approve_this_and_more(serve, browsing):
    script = Script([[IDENTIFIED], [saves(number="17")], [saves(total=12.5)], [saves(vat=2)], [COMPLETE]])
    async with serve(script) as served, browsing(served) as window:
        page = window.page
        document = await served.document(TEXT)
        await window.enter(f"/documents/{document}")
        await page.get_by_role("button", name="Extract").click()
        await page.get_by_role("menuitem", name="ask me before each write").click()
        card = page.get_by_role("region", name="Waits for your decision")
        await card.get_by_role("button", name="Approve", exact=True).click()
        await card.get_by_text("number", exact=True).wait_for()
        await card.get_by_role("button", name="Approve this and more").click()
        await page.get_by_role("menuitem", name="all further “extract_fields”").click()
        await page.get_by_role("heading", name="Completing").wait_for()
        await card.get_by_role("button", name="Approve", exact=True).click()
        await page.locator("[data-phase=complete]").wait_for()
        (extraction,) = (await served.get("extractions"))["items"]
        fields = (await served.extraction(extraction["id"]))["extracted_fields"]
        assert fields == {"number": "17", "total": 12.5, "vat": 2}
