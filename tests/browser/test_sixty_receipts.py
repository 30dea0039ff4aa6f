"""Sixty receipts, from a drop to a spreadsheet: how many clicks it takes, and whether each doubtful or missing value is
asked about."""

from __future__ import annotations

import re
from datetime import date
from io import BytesIO
from pathlib import Path

import openpyxl
import pytest

from browser.window import label, playwright
from extraction_case import until
from fieldmark.agents.registry import answer_offline

pytestmark = [pytest.mark.anyio, pytest.mark.full, pytest.mark.long]

RECEIPT = "{shop}\nRECEIPT\nSold by: {shop}\nReceipt no: {number}\nDate: {day}\n{total}\n"
UNCLEAR_DAY = {8, 24, 52}
WITHOUT_TOTAL = {13, 41}

# The user's clicks, also after the page is loaded again.
COUNT_CLICKS = """
addEventListener('click', (event) => {
  if (event.isTrusted) sessionStorage.setItem('clicks', Number(sessionStorage.getItem('clicks')) + 1);
}, true);
"""


def write_receipts(folder: Path) -> list[Path]:
    files = [folder / f"receipt-{at:02d}.txt" for at in range(1, 61)]
    for at, file in enumerate(files, 1):
        day = "04/05/2026" if at in UNCLEAR_DAY else f"{at % 28 + 1} November 2026"
        total = "(torn off)" if at in WITHOUT_TOTAL else f"Total: {at}.90"
        file.write_text(RECEIPT.format(shop=f"Shop {at} Ltd", number=1000 + at, day=day, total=total))
    return files


async def test_sixty_receipts_are_exported_in_four_clicks_and_five_answers(serve, browsing, tmp_path):
    async with serve(answer_offline) as server, browsing(server, viewport={"width": 1440, "height": 900}) as window:
        page = window.page
        await page.add_init_script(COUNT_CLICKS)
        await window.open("/")
        await page.evaluate("sessionStorage.setItem('clicks', 0)")
        await page.get_by_label(label("adding.files")).set_input_files(write_receipts(tmp_path))
        panel = page.get_by_role("dialog", name=label("adding.title", count=60))
        await panel.get_by_role("button", name=label("adding.read", count=60)).click()
        await page.wait_for_url("**/tables/*")
        (stack,) = (await server.get("stacks"))["items"]

        async def is_done() -> bool:
            return (await server.get(f"stacks/{stack['id']}"))["progress"]["done"] == 60

        await until(is_done, 200)
        await page.get_by_role("button", name=label("tables.reviewValues", count=5)).click()

        asked: list[tuple[str, str]] = []
        pane = page.get_by_role("complementary", name=label("tables.pane"))
        question = page.get_by_role("region", name=re.compile(label("inbox.question", field="(Date|Total)")))
        # After an answer the next question is shown; after the last one, none.
        while True:
            await playwright.expect(question).to_have_count(1)
            field = (await question.get_by_role("heading").inner_text()).split("\n")[0]
            name = await pane.get_by_text(re.compile(r"receipt-\d\d\.txt")).inner_text()
            asked.append((name, field))
            await page.keyboard.press("1" if field == "Date" else "n")
            if len(asked) == 5:
                break
            await playwright.expect(pane.get_by_text(name)).to_have_count(0)
        await playwright.expect(question).to_have_count(0)
        numbers = {"Date": UNCLEAR_DAY, "Total": WITHOUT_TOTAL}
        assert sorted(asked) == sorted((f"receipt-{at:02d}.txt", field) for field in numbers for at in numbers[field])

        await page.get_by_role("button", name=label("document.export.button")).click()
        async with page.expect_download() as download:
            await page.get_by_role("menuitem", name=label("document.export.xlsx")).click()
        sheet = openpyxl.load_workbook(BytesIO((await (await download.value).path()).read_bytes())).worksheets[0]
        assert int(await page.evaluate("sessionStorage.getItem('clicks')")) == 4
        head, *rows = sheet.iter_rows(values_only=True)
        table = {cells[0]: dict(zip(head, cells, strict=True)) for cells in rows}
        assert set(table) == {f"receipt-{at:02d}.txt" for at in range(1, 61)}
        for at in range(1, 61):
            row = table[f"receipt-{at:02d}.txt"]
            day = date(2026, 5, 4) if at in UNCLEAR_DAY else date(2026, 11, at % 28 + 1)
            total = None if at in WITHOUT_TOTAL else at + 0.9
            assert (row["vendor"], row["date"].date(), row["total"]) == (f"Shop {at} Ltd", day, total)
