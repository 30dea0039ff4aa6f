"""The page uses the browser's language, or the one chosen in the account menu."""

from __future__ import annotations

import pytest

from browser.scripts import extraction_script, new_extraction
from browser.window import label, playwright

pytestmark = pytest.mark.anyio

TEXT = "Invoice number: 17\nTotal: 1312.50 EUR\nDue date: 2023-03-20\n"


async def test_language_of_the_browser_is_used_and_another_one_can_be_chosen(serve, browsing):
    model = extraction_script(total=1312.5, due_date="2023-03-20", paid=True)
    async with serve(model) as server, browsing(server, locale="de-AT") as window:
        page = window.page
        document, _ = await new_extraction(server, TEXT)
        await page.goto(window.link(f"/documents/{document}"))
        await page.get_by_role("button", name=label("signIn.submit", "de")).click()
        values = {
            "total": ("1.312,50", "1,312.50"),
            "due_date": ("20.03.2023", "20 Mar 2023"),
            "paid": ("Ja", "Yes"),
        }
        for path, (german, _) in values.items():
            await window.field_row(path).get_by_text(german, exact=True).wait_for()
        await playwright.expect(page.locator("html")).to_have_attribute("lang", "de")
        await window.field_row("due_date").get_by_text("Due date").wait_for()

        await page.get_by_role("button", name="Konto").click()
        await page.get_by_role("menuitem", name="English").click()
        for _ in range(2):
            for path, (_, english) in values.items():
                await window.field_row(path).get_by_text(english, exact=True).wait_for()
            await playwright.expect(page.locator("html")).to_have_attribute("lang", "en")
            await page.reload()
        # An editor shows the stored value.
        await playwright.expect(await window.open_editor("total")).to_have_value("1312.5")
