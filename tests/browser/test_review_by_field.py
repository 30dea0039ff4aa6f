"""Reviewing one field across documents: Enter confirms and continues, typing edits, undo reverts."""

from __future__ import annotations

import pytest

from browser.scripts import extraction_script, new_extraction
from browser.window import label, playwright
from extraction_case import until

pytestmark = pytest.mark.anyio

TEXT = "Invoice number: 17\nTotal: 12.50 EUR\n"
FIELDS = {"number": "17", "total": 12.5}


async def stored_total(server, extraction_id: str) -> tuple[object, bool]:
    """Return the stored total and whether a user set it."""
    now = await server.extraction(extraction_id)
    return now["extracted_fields"]["total"], "total" in now["locks"]


async def test_review_by_field_with_the_keyboard(serve, browsing):
    async with serve(extraction_script(**FIELDS)) as server, browsing(server) as window:
        page = window.page
        third, second, first = [(await new_extraction(server, TEXT, name))[1] for name in ("c.txt", "b.txt", "a.txt")]

        async def wait_stored(extraction_id: str, total: object, is_set: bool) -> None:
            await until(lambda: is_stored(server, extraction_id, (total, is_set)))

        await window.open("/review/by-field")
        await page.get_by_role("heading", name=label("byField.start")).wait_for()
        await page.get_by_label("Field", exact=True).select_option(label="Total")
        rows = page.get_by_role("list", name="Values of total").get_by_role("listitem")
        await rows.nth(2).wait_for()
        names = [await row.get_by_role("link").inner_text() for row in await rows.all()]
        assert names == ["a.txt", "b.txt", "c.txt"]  # the newest first
        field = page.get_by_label("Value in a.txt")
        await playwright.expect(field).to_be_focused()
        assert await field.input_value() == "12.5"
        # The crop is the part of the page around the value.
        crop = rows.nth(1).get_by_role("figure")
        await crop.locator("img").wait_for()

        # Enter confirms and moves on; typing a character starts editing; the arrow key moves on without confirming.
        await page.keyboard.press("Enter")
        await page.get_by_label("Value in b.txt").wait_for()
        await page.keyboard.type("13")
        await page.keyboard.press("Enter")
        await page.get_by_label("Value in c.txt").wait_for()
        await page.keyboard.press("ArrowUp")
        await page.keyboard.press("ArrowDown")
        await wait_stored(first, 12.5, True)
        await wait_stored(second, 13, True)
        await wait_stored(third, 12.5, False)
        await rows.nth(1).get_by_text("Confirmed").wait_for()
        await rows.nth(1).get_by_text("13", exact=True).wait_for()
        await page.get_by_role("status").filter(has_text="2 reviewed").wait_for()

        # Undo reverts the edit first, then the confirmation. Each reverted field gets the focus.
        await page.keyboard.press("Control+z")
        await page.get_by_label("Value in b.txt").wait_for()
        await wait_stored(second, 12.5, False)
        await rows.nth(1).get_by_text("Matched").first.wait_for()
        await page.keyboard.press("Control+z")
        await page.get_by_label("Value in a.txt").wait_for()
        await wait_stored(first, 12.5, False)


async def is_stored(server, extraction_id: str, wanted: tuple[object, bool]) -> bool:
    return await stored_total(server, extraction_id) == wanted


async def test_concurrent_change_is_not_overwritten(serve, browsing):
    async with serve(extraction_script(**FIELDS)) as server, browsing(server) as window:
        page = window.page
        extraction_id = (await new_extraction(server, TEXT, "a.txt"))[1]
        await window.open("/review/by-field?path=total&document_type=invoice")
        field = page.get_by_label("Value in a.txt")
        await field.wait_for()
        changed = await server.http.patch(
            f"/api/extractions/{extraction_id}/fields", json={"path": "total", "value": 99}
        )
        assert changed.status_code == 200, changed.text
        await page.keyboard.press("Enter")
        await page.get_by_text(label("byField.notSaved")).wait_for()
        # The current value is shown and can be confirmed.
        await page.wait_for_function("() => document.querySelector('li input').value === '99'")
        await page.keyboard.type("14")
        await page.keyboard.press("Enter")
        await until(lambda: is_stored(server, extraction_id, (14, True)))
        await page.get_by_text(label("byField.notSaved")).wait_for(state="detached")


async def test_moving_away_saves_the_value(serve, browsing):
    async with serve(extraction_script(**FIELDS)) as server, browsing(server) as window:
        page = window.page
        second, first = (
            (await new_extraction(server, TEXT, "b.txt"))[1],
            (await new_extraction(server, TEXT, "a.txt"))[1],
        )
        await window.open("/review/by-field?path=total&document_type=invoice")
        await page.get_by_label("Value in a.txt").wait_for()
        await page.keyboard.type("14")
        await page.keyboard.press("Escape")
        await page.keyboard.press("ArrowDown")
        await page.get_by_label("Value in b.txt").wait_for()
        await page.keyboard.type("15")
        await page.get_by_role("list", name="Values of total").get_by_role("listitem").first.click()
        await page.get_by_label("Value in a.txt").wait_for()
        await until(lambda: is_stored(server, second, (15, True)))
        await page.keyboard.type("16")
        await page.keyboard.press("ArrowDown")
        await until(lambda: is_stored(server, first, (16, True)))
        assert await page.get_by_label("Value in b.txt").input_value() == "15"
        # Each value was written once.
        for extraction_id in (first, second):
            history = (await server.get(f"extractions/{extraction_id}/history?path=total"))["items"]
            assert [one["actor"] for one in history] == ["user", "agent"]
