"""What evidence does not settle is decided with the keyboard alone, one value after the other, across documents."""

from __future__ import annotations

import pytest
from browsing import browsing

from fieldmark.offline_model.messages import call
from fieldmark.testing.script import Script

pytestmark = [pytest.mark.anyio, pytest.mark.xdist_group("page"), pytest.mark.usefixtures("built_page")]

TEXT = "Invoice number: 17\nTotal: 12.50 EUR\nVAT: 2.00 EUR\nNet: 10.50 EUR\n"
FIELDS = {"number": "17", "total": 99.25, "vat": 2, "net": 10.5}
SURE = {"number": 0.95, "total": 0.9, "vat": 0.3, "net": 0.95}


def reading():
    identified = call("identify_document", {"document_type": "invoice", "confidence": 0.9})
    saved = call("extract_fields", {"fields": FIELDS, "confidences": SURE})
    return Script([[identified], [saved], [call("complete_extraction", {"summary": "Four fields."})]])


async def extracted(served, name: str) -> str:
    document = await served.document(TEXT, name)
    answer = await served.http.post("/api/agent/extract", json={"document_id": str(document)})
    assert answer.json()["status"] == "completed", answer.text
    return answer.json()["extraction"]["id"]


async def stored(served, extraction_id: str) -> dict:
    return (await served.http.get(f"/api/extractions/{extraction_id}")).json()


async def test_two_documents_are_settled_by_the_keyboard_alone(serve, picture):
    async with serve(reading()) as served, browsing(served) as window:
        page = window.page
        first, second = await extracted(served, "a.txt"), await extracted(served, "b.txt")
        await window.enter("/review")
        card = page.get_by_role("region", name="To check")
        pressed = 0

        async def press(*keys: str) -> None:
            nonlocal pressed
            for key in keys:
                await page.keyboard.press(key)
                pressed += 1

        for name in ("b.txt", "a.txt"):  # the newest first
            await page.get_by_role("link", name=name).wait_for()
            # What no page prints is corrected: written over, and kept.
            field = page.get_by_label("Value of total")
            await field.wait_for()
            assert (
                await field.evaluate("one => document.activeElement === one") and await field.input_value() == "99.25"
            )
            await picture(page, f"review-{name}")
            await page.keyboard.type("12.5")
            await press("Enter")
            # What is unsure is seen beside its picture, and confirmed.
            field = page.get_by_label("Value of vat")
            await field.wait_for()
            await card.get_by_role("figure").locator("img").wait_for()
            await press("Enter")
        await page.get_by_role("heading", name="Nothing to check").wait_for()
        assert pressed == 4  # one key for each
        for extraction_id in (first, second):
            now = await stored(served, extraction_id)
            assert now["extracted_fields"] == {**FIELDS, "total": 12.5}
            assert set(now["locks"]) == {"total", "vat"}
        assert (await served.http.get("/api/extractions?to_check=true")).json()["items"] == []

        # Taken back, one after the other.
        await page.keyboard.press("Control+z")
        await page.get_by_label("Value of vat").wait_for()
        assert set((await stored(served, first))["locks"]) == {"total"}
        await page.get_by_role("button", name="Undo").click()
        await page.get_by_label("Value of total").wait_for()
        now = await stored(served, first)
        assert (now["extracted_fields"], now["locks"]) == (FIELDS, {})
        assert window.faults == []


async def test_what_is_left_for_later_stays_to_be_checked(serve):
    async with serve(reading()) as served, browsing(served) as window:
        page = window.page
        extraction_id = await extracted(served, "a.txt")
        await window.enter("/review")
        await page.get_by_label("Value of total").wait_for()
        await page.keyboard.press("Escape")
        await page.get_by_label("Value of vat").wait_for()
        await page.keyboard.press("Escape")
        await page.get_by_role("heading", name="Nothing to check").wait_for()
        now = await stored(served, extraction_id)
        assert (now["extracted_fields"], now["locks"]) == (FIELDS, {})
        await page.reload()
        await page.get_by_label("Value of total").wait_for()
        assert window.faults == []


async def test_what_cannot_be_written_comes_again(serve):
    async with serve(reading()) as served, browsing(served) as window:
        page = window.page
        extraction_id = await extracted(served, "a.txt")
        await window.enter("/review")
        await page.get_by_label("Value of total").wait_for()
        version = (await stored(served, extraction_id))["version"]
        changed = await served.http.patch(
            f"/api/extractions/{extraction_id}/fields",
            json={"path": "number", "value": "18"},
            headers={"if-match": f'"{version}"'},
        )
        assert changed.status_code == 200, changed.text
        await page.keyboard.type("12.5")
        await page.keyboard.press("Enter")
        # Refused, since somebody was there meanwhile; it is asked for again, and nothing was overwritten.
        await page.get_by_label("Value of vat").wait_for()
        await page.get_by_label("Value of total").wait_for()
        assert (await stored(served, extraction_id))["extracted_fields"] == {**FIELDS, "number": "18"}
        await page.keyboard.type("12.5")
        await page.keyboard.press("Enter")
        await page.get_by_label("Value of vat").wait_for()
        await page.keyboard.press("Enter")
        await page.get_by_role("heading", name="Nothing to check").wait_for()
        assert (await stored(served, extraction_id))["extracted_fields"]["total"] == 12.5
        assert window.faults == []
