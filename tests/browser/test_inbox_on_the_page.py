"""The inbox: what waits for a person is answered there, by keyboard alone."""

from __future__ import annotations

import pytest

from browser.scripts import COMPLETE, IDENTIFY, extract_until_approval, save_fields
from browser.window import label, playwright
from extraction_case import until
from fieldmark.offline_model.messages import call, text
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio

RECEIPT = """PENNYWISE HARDWARE
Receipt 20832
Date 03/11/2026
Padlock 50 mm  8.25
Wall plugs  3.90
Masking tape  3.40
TO PAY  15.55
Cash  20.00
"""
SCHEMA = {
    "type": "object",
    "required": ["total"],
    "properties": {
        "vendor": {"type": "string"},
        "date": {"type": "string", "format": "date"},
        "total": {"type": "number"},
        "items": {"type": "array", "items": {"type": "object", "properties": {"amount": {"type": "number"}}}},
    },
}
FIELDS = {
    "vendor": "Pennywise Hardware",
    "date": "2026-11-03",
    "items": [{"amount": 8.25}, {"amount": 3.9}, {"amount": 3.4}],
}


@pytest.mark.story
async def test_questions_are_answered_by_keyboard_alone(serve, browsing):
    # Without the total, the agent cannot complete the extraction.
    script = Script([[call("extract_fields", {"fields": FIELDS})], [text("No total is printed.")]])
    async with serve(script) as server, browsing(server) as window:
        page = window.page
        await page.set_viewport_size({"width": 1440, "height": 900})
        broken = await server.http.post("/api/documents", files={"file": ("broken.pdf", b"%PDF-1.7 x")})
        await server.wait_until_read(broken.json()["id"])
        document = await server.upload_text(RECEIPT, "pennywise.txt")
        extraction = (await server.extract(document, schema=SCHEMA))["extraction"]["id"]

        async def is_checked() -> bool:
            return (await server.get(f"documents/{document}"))["to_review"] == 2

        await until(is_checked)
        await window.open("/review")
        await page.get_by_role("link", name=label("review.tryInbox")).click()

        # What is missing comes first, with the printed values that may be it. Focus is on the first answer.
        question = page.get_by_role("region", name=label("review.label", field="Total"))
        await question.wait_for()
        first = question.get_by_role("button", name="15.55")
        await playwright.expect(first).to_be_focused()
        await page.locator("[data-page='1'] img").wait_for()
        await page.keyboard.press("Enter")

        # The answered question leaves; the next one opens. Its second answer is the key 2.
        await page.get_by_role("region", name=label("review.label", field="Date")).wait_for()
        await playwright.expect(page.get_by_role("button", name="day first")).to_be_focused()
        await page.keyboard.press("2")

        # All is answered: a person completes the extraction. The failed file is left.
        await page.get_by_text(label("inbox.incompleteHint")).wait_for()
        await page.keyboard.press("Control+Enter")

        async def is_reviewed() -> bool:
            return (await server.get(f"documents/{document}"))["stage"] == "reviewed"

        await until(is_reviewed)
        stored = await server.extraction(extraction)
        assert (stored["extracted_fields"]["total"], stored["extracted_fields"]["date"]) == (15.55, "2026-03-11")
        assert stored["evidence"]["total"]["state"] == "found"
        await page.get_by_role("link", name="broken.pdf").wait_for()
        await page.get_by_role("heading", name=label("document.unreadable")).wait_for()
        assert window.faults == []


@pytest.mark.story
async def test_approval_of_eleven_values_is_possible_once_all_were_in_view(serve, browsing):
    names = [f"field_{n}" for n in range(1, 11)]
    invoice = "Invoice\n" + "".join(f"{name}: {n}01.50 EUR\n" for n, name in enumerate(names, 1))
    fields = {name: n * 100 + 1.5 for n, name in enumerate(names, 1)} | {"order": "Not printed"}
    async with serve(Script([[IDENTIFY], [save_fields(**fields)], [COMPLETE]])) as server, browsing(server) as window:
        page = window.page
        await page.set_viewport_size({"width": 1440, "height": 600})
        document = await server.upload_text(invoice, "oakline.txt")
        run = await extract_until_approval(server, document, "complete_extraction")
        await window.open("/inbox")
        panel = page.get_by_role("region", name=label("approvals.card"))
        await panel.get_by_text("Look at these, 1").wait_for()
        # The value that is on no page is first.
        first = panel.get_by_role("listitem").first
        assert "Not printed" in await first.inner_text()
        approve = page.get_by_role("button", name="Approve 11")
        await playwright.expect(approve).to_be_disabled()
        for row in await panel.get_by_role("listitem").all():
            await row.scroll_into_view_if_needed()
        await playwright.expect(approve).to_be_enabled()
        # One value is left out; the others are approved by key.
        await first.get_by_role("button", name=label("inbox.leaveOut", field="Order")).click()
        await page.get_by_role("button", name="Approve 10").wait_for()
        await page.keyboard.press("a")

        async def has_ended() -> bool:
            return (await server.get(f"runs/{run}"))["status"] == "completed"

        await until(has_ended)
        (extraction,) = (await server.get("extractions"))["items"]
        stored = (await server.extraction(extraction["id"]))["extracted_fields"]
        assert stored == {name: value for name, value in fields.items() if name != "order"}
        assert window.faults == []
