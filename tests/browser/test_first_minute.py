"""The first minute of a new user: sign in with the link, upload an invoice, see the source of each value, edit one,
export."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from browser import scripts
from browser.boxes import shown_box, surrounds
from browser.window import SAMPLES, Window, delayed_response, label, playwright
from extraction_case import until
from generated_files import make_pdf, text_at

pytestmark = pytest.mark.anyio

PHONE = {"width": 390, "height": 740}
INVOICE = SAMPLES / "i2d_AzureInterior.pdf"


async def upload(window: Window, path: Path = INVOICE) -> None:
    await window.page.set_input_files("input[type=file]", path)
    await window.page.get_by_role("link", name=path.name).click()
    await window.page.get_by_role("region", name="Document").wait_for()


async def extract_all(window: Window) -> dict[str, Any]:
    """Extract all fields and return the extraction as the API shows it."""
    page = window.page
    await page.get_by_role("button", name="Extract").click()
    await page.get_by_role("menuitem", name="Extract all fields").click()
    await page.locator("[data-phase=complete]").wait_for()
    (listed,) = (await window.server.get("extractions"))["items"]
    extraction = await window.server.extraction(listed["id"])
    await page.get_by_role("treeitem").nth(len(extraction["extracted_fields"]) - 1).wait_for()
    return extraction


async def field_order(page: Any) -> list[str]:
    rows = await page.get_by_role("treeitem").evaluate_all(
        "rows => rows.map((one) => [one.getBoundingClientRect().y, one.dataset.path])"
    )
    return [path for _, path in sorted(rows)]


async def test_from_the_link_to_the_export(serve, browsing):
    async with serve() as server, browsing(server) as window:
        page = window.page
        await window.open("/documents")
        assert "#" not in page.url and "token" not in page.url
        await upload(window)
        # The page text can be selected. It covers the printed word and the space after it.
        words = page.locator("[data-page='1'] span", has_text=re.compile(r"^INV/2023/03/0008 $"))
        await words.first.dblclick()
        marked = await until(lambda: page.evaluate("getSelection().toString().trim()"))
        assert marked in "INV/2023/03/0008"
        document = (await server.get("documents"))["items"][0]
        page_words = (await server.get(f"documents/{document['id']}/pages/1"))["words"]
        word = next(one for one in page_words if one["text"] == "INV/2023/03/0008")
        number, (x0, y0, x1, _) = await shown_box(words.first)
        assert number == 1 and abs(x0 - word["x0"]) < 0.005 and abs(y0 - word["y0"]) < 0.005
        assert 0 < (x1 - x0) - (word["x1"] - word["x0"]) < 0.03

        extraction = await extract_all(window)

        # Selecting a field shows its box at the location from the API.
        found = {path: one for path, one in extraction["evidence"].items() if one["state"] == "found"}
        assert len(found) >= 6
        for path in list(found)[:6]:
            await window.field_row(path).click()
            number, box = await shown_box(page.locator(f'rect[class*=chosen][data-path="{path}"]').first)
            assert number == found[path]["page"] and surrounds(box, found[path]["boxes"][0]), path
            await playwright.expect(page.locator("rect[class*=chosen]")).to_have_count(len(found[path]["boxes"]))

        # Clicking a box selects its field.
        there = found["invoice_number"]["boxes"][0]
        sheet = page.locator("[data-page='1']")
        await sheet.scroll_into_view_if_needed()
        size = await sheet.bounding_box()
        at = {"x": (there[0] + there[2]) / 2 * size["width"], "y": (there[1] + there[3]) / 2 * size["height"]}
        await sheet.click(position=at)
        await page.locator('[role=treeitem][data-path="invoice_number"][aria-selected=true]').wait_for()

        # A value the user enters is kept and marked as entered by the user.
        rows = await field_order(page)
        await page.get_by_role("tree", name="Fields").press("Enter")
        await page.get_by_label("Value of Invoice number").fill("INV-7")
        await page.keyboard.press("Enter")
        await page.get_by_role("button", name="Unlock").wait_for()
        stored = await server.get(f"extractions/{extraction['id']}")
        assert stored["extracted_fields"]["invoice_number"] == "INV-7" and "invoice_number" in stored["locks"]
        assert stored["version"] == extraction["version"] + 1

        # After a reload the value is shown for the field in the address, in the same row, although no page
        # prints it.
        await page.wait_for_url("**field=invoice_number")
        assert await field_order(page) == rows
        await page.reload()
        row = page.locator('[role=treeitem][data-path="invoice_number"][aria-selected=true]')
        await row.get_by_text("INV-7").wait_for()
        assert await field_order(page) == rows

        await page.get_by_role("button", name="Export").click()
        async with page.expect_download() as download:
            await page.get_by_role("menuitem", name="CSV").click()
        saved = await (await download.value).path()
        assert "INV-7" in Path(saved).read_text(encoding="utf-8-sig")


async def test_deletion_can_be_undone(serve, browsing):
    async with serve() as server, browsing(server) as window:
        page = window.page
        kept, gone = await server.upload_text(name="kept.txt"), await server.upload_text(name="gone.txt")
        await window.open("/documents")
        for name in ("kept.txt", "gone.txt"):
            await page.get_by_role("checkbox", name=label("documents.choose", name=name)).click()
            await page.get_by_role("toolbar").get_by_role("button", name="Delete").click()
            await page.get_by_role("link", name=name).wait_for(state="detached")
            if name == "kept.txt":
                await page.get_by_role("button", name="Undo").click()
                await page.get_by_role("link", name=name).wait_for()
        # Leaving the page confirms the deletion.
        await page.goto("about:blank")

        async def is_gone() -> bool:
            return (await server.http.get(f"/api/documents/{gone}")).status_code == 404

        await until(is_gone)
        assert (await server.http.get(f"/api/documents/{kept}")).status_code == 200


async def is_visible_in(page: Any, box: Any) -> bool:
    room, seen = await page.get_by_role("region", name="Document").bounding_box(), await box.bounding_box()
    return (
        seen is not None
        and room["y"] < seen["y"]
        and seen["y"] + seen["height"] < room["y"] + room["height"]
        and room["x"] < seen["x"]
    )


def wide_pages() -> bytes:
    """Return a PDF with eight landscape pages, whose size the UI does not know before they load."""
    lines = [f"Line {number}" for number in range(8)]
    lines[5] = "Total: 12.50 EUR"
    return make_pdf([text_at(line, 72, 200) for line in lines], media_box="[0 0 842 421]")


async def test_link_to_a_field_scrolls_to_its_box(serve, browsing):
    """Also on a page far down, and if page pictures load last."""
    async with serve() as server, browsing(server, viewport={"width": 1000, "height": 500}) as window:
        page = window.page
        document = await server.upload("wide.pdf", wide_pages())
        extraction = (await server.extract(document))["extraction"]
        assert extraction["extracted_fields"]["total"] == 12.5, extraction
        number = extraction["evidence"]["total"]["page"]
        box = page.locator('rect[class*=chosen][data-path="total"]')
        async with delayed_response(page, f"**/api/documents/{document}/pages/{number}"):
            await window.open(f"/documents/{document}?field=total")
            await page.wait_for_timeout(500)  # all other responses have arrived
        await box.wait_for(state="attached")
        await until(lambda: is_visible_in(page, box))
        # After scrolling away, the position is kept.
        await page.get_by_role("region", name="Document").hover()
        await page.mouse.wheel(0, -10_000)
        await until(lambda: is_at_the_top(page))
        await page.wait_for_timeout(300)
        assert await is_at_the_top(page)


async def is_at_the_top(page: Any) -> bool:
    return await page.get_by_role("region", name="Document").evaluate("one => one.scrollTop") == 0


async def test_small_window_shows_every_area_and_the_way_back_keeps_the_list(serve, browsing):
    async with (
        serve(scripts.extraction_script(number="17", total=12.5)) as server,
        browsing(server, viewport=PHONE) as window,
    ):
        page = window.page
        for name in ("a.txt", "b.txt", "c.txt"):
            await scripts.new_extraction(server, "Invoice number: 17\nTotal: 12.50 EUR\n", name)
        # Unknown parts of an address are removed.
        await window.open("/documents?status=bogus&tag=&name=.txt")
        await page.get_by_role("link", name="c.txt").wait_for()
        await playwright.expect(page).to_have_url(f"{server.base_url}/documents?name=.txt")
        for link in await page.get_by_role("navigation", name=label("areas.main")).get_by_role("link").all():
            box = await link.bounding_box()
            assert box["x"] >= 0 and box["x"] + box["width"] <= PHONE["width"], await link.inner_text()
        async with delayed_response(page, re.compile(r"/api/documents/[0-9a-f-]{36}$")):
            await page.get_by_role("link", name="c.txt").click()
            await page.get_by_role("status", name="Loading").first.wait_for()
        # All of the fields can be seen: the panel scrolls.
        last = window.field_row("total")
        await last.scroll_into_view_if_needed()
        assert (await last.bounding_box())["y"] < PHONE["height"]
        await page.get_by_role("button", name=label("document.next"), exact=True).click()
        await page.get_by_role("heading", name="b.txt").wait_for()
        await page.get_by_role("button", name=label("document.previous"), exact=True).click()
        await page.get_by_role("heading", name="c.txt").wait_for()
        await page.get_by_role("link", name=label("document.all")).click()
        await page.get_by_role("link", name="a.txt").wait_for()
        await playwright.expect(page).to_have_url(f"{server.base_url}/documents?name=.txt")

        await page.goto(f"{server.base_url}/nowhere/at/all")
        await page.get_by_role("heading", name=label("shell.notFound")).wait_for()
        async with server.client() as plain:
            assert (await plain.get("/nowhere")).status_code == 404
