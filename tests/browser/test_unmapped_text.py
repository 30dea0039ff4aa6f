"""Numbers and dates that the model missed are listed, and added as fields by keyboard."""

from __future__ import annotations

import pytest

from browser.boxes import shown_box, surrounds
from browser.scripts import extraction_script, new_extraction
from browser.window import label, playwright
from extraction_case import until

pytestmark = pytest.mark.anyio

TEXT = """Invoice number: 17
Due on 12 March 2024
Total: 1.312,50 EUR
Deposit 250.00
Receipt KW-204
Total again 1312.50
"""
FIELDS = {"number": "17", "total": 1312.5}
MISSED = ["12 March 2024", "250.00", "KW-204"]


async def unmapped_items(server, extraction_id: str) -> list[dict]:
    return (await server.get(f"extractions/{extraction_id}/unmapped"))["items"]


async def test_unmapped_values_are_added_by_keyboard(serve, browsing):
    async with serve(extraction_script(**FIELDS)) as server, browsing(server) as window:
        page = window.page
        document_id, extraction_id = await new_extraction(server, TEXT)
        await window.open(f"/documents/{document_id}")
        await window.field_row("total").wait_for()
        await playwright.expect(page.locator("rect[data-unmapped]")).to_have_count(0)
        await page.keyboard.press("u")
        tree = page.get_by_role("tree", name=label("document.unmapped"))
        rows = tree.locator("[role=treeitem][aria-level='2']")
        await rows.nth(2).wait_for()
        assert [text.splitlines()[0] for text in await rows.all_inner_texts()] == MISSED
        assert label("unmapped.values", count=3) in await tree.locator("[aria-level='1']").inner_text()
        await page.get_by_role("tab", name="Unmapped 3").wait_for()

        # Each has a dashed box on the page at its location.
        page_items = await unmapped_items(server, extraction_id)
        boxes = page.locator("rect[data-unmapped]")
        await boxes.nth(2).wait_for(state="attached")
        drawn = [(await shown_box(one))[1] for one in await boxes.all()]
        words = [one["boxes"][0] for one in page_items]
        assert all(surrounds(box, word) for box, word in zip(drawn, words, strict=True)), (drawn, words)
        assert await boxes.first.evaluate("one => getComputedStyle(one).strokeDasharray") != "none"

        # The date is added with a new field name.
        await page.keyboard.press("Enter")
        await page.get_by_label("Field", exact=True).wait_for()
        await page.keyboard.type("due_date")
        await playwright.expect(page.get_by_label("Value")).to_have_value("2024-03-12")
        await page.keyboard.press("Enter")
        await rows.nth(2).wait_for(state="detached")
        # The next item has the focus. The arrow key moves to the one after it and skips page rows.
        await tree.locator("[aria-selected=true]", has_text="250.00").wait_for()
        await page.keyboard.press("ArrowDown")
        await tree.locator("[aria-selected=true]", has_text="KW-204").wait_for()
        await page.keyboard.press("t")
        await page.get_by_label("Field", exact=True).wait_for()
        await page.keyboard.type("receipt.code")
        # The next one is typed before the first is saved. A number is stored as a number.
        await page.keyboard.press("Enter")
        await page.keyboard.press("Enter")
        await page.keyboard.type("deposit")
        await page.keyboard.press("Enter")
        await page.get_by_role("heading", name=label("unmapped.none")).wait_for()
        await until(lambda: has_unmapped_count(server, extraction_id, 0))
        now = await server.extraction(extraction_id)
        taken = {"due_date": "2024-03-12", "receipt": {"code": "KW-204"}, "deposit": 250}
        assert now["extracted_fields"] == {**FIELDS, **taken}
        assert now["evidence"]["receipt.code"]["state"] == "found" and "receipt.code" in now["locks"]

        # Undo.
        await page.keyboard.press("Control+z")
        await rows.first.wait_for()
        now = await server.extraction(extraction_id)
        assert "deposit" not in now["extracted_fields"] and "deposit" not in now["locks"]
        assert set(now["locks"]) == {"due_date", "receipt.code"}


async def has_unmapped_count(server, extraction_id: str, count: int) -> bool:
    return len(await unmapped_items(server, extraction_id)) == count
