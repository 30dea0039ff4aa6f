"""Schemas: edited as rows, tried, published as a version, renamed and merged."""

from __future__ import annotations

import pytest

from browser.window import label, playwright
from extraction_case import until
from fieldmark.agents.registry import answer_offline

pytestmark = pytest.mark.anyio

SCHEMA = {
    "type": "object",
    "properties": {"vendor": {"type": "string"}, "total": {"type": "number"}, "note": {"type": "string"}},
    "required": ["vendor"],
}


async def test_draft_is_tried_published_and_merged(serve, browsing):
    async with serve(answer_offline) as server, browsing(server, viewport={"width": 1440, "height": 900}) as window:
        page, http = window.page, server.http
        made = (await http.post("/api/schemas", json={"name": "Bill", "schema": SCHEMA})).json()
        (await http.post("/api/schemas", json={"name": "Account", "schema": SCHEMA})).raise_for_status()  # unused
        other = (await http.post("/api/schemas", json={"name": "Invoice", "schema": SCHEMA})).json()
        document = await server.upload_text("Vendor: Acme\nTotal: 12.50\nOrder no.: 7\n", "a.txt")
        await server.extract(document, schema_id=made["id"])
        await window.open("/schemas")
        # The most used schema is open.
        await page.get_by_role("heading", name="Bill").wait_for()
        # A field is moved by keyboard, one is required now, one is new.
        handle = page.get_by_role("button", name=label("schemas.move", name="Total"))
        await handle.press("ArrowUp")
        await page.get_by_text(label("schemas.changes.moved", field="Total", before="Vendor")).wait_for()
        await playwright.expect(handle).to_be_focused()
        await page.get_by_role("switch", name=label("schemas.requiredOf", name="Note")).press("Space")
        draft = page.get_by_role("complementary", name=label("schemas.draft"))
        await draft.get_by_text(label("schemas.wouldMiss", count=1, field="Note")).wait_for()
        await page.get_by_label(label("schemas.newField")).fill("Order number")
        await page.keyboard.press("Enter")
        await draft.get_by_text(f"{label('schemas.kinds.added')}, {label('schemas.changes.optional')}").wait_for()
        # The draft stays after a reload; a trial changes nothing that is stored.
        await page.reload()
        await draft.get_by_role("button", name=label("schemas.start"), exact=True).click()
        await draft.get_by_role("button", name=label("schemas.again"), exact=True).wait_for()
        await draft.get_by_text("a.txt").wait_for()
        assert len((await server.get("extractions"))["items"]) == 1
        await draft.get_by_role("button", name=label("schemas.publish", number=2)).click()
        await page.get_by_text(label("schemas.published", number=2)).wait_for()
        stored = await server.get(f"schemas/{made['id']}")
        assert list(stored["schema"]["properties"]) == ["total", "vendor", "note", "order_number"]
        assert stored["schema"]["required"] == ["vendor", "note"] and stored["number"] == 2

        async def follows() -> bool:
            (one,) = (await server.get("extractions"))["items"]
            return one["schema_revid"] == stored["schema_revid"]

        await until(follows)
        await page.get_by_role("button", name=label("schemas.rename")).click()
        await page.get_by_label(label("schemas.name"), exact=True).fill("Invoice")
        await page.keyboard.press("Enter")
        # The name is taken: these are to be one schema.
        await page.get_by_role("dialog").get_by_role("alert").wait_for()
        await page.keyboard.press("Escape")
        await page.get_by_role("button", name=label("common.actions")).click()
        await page.get_by_role("menuitem", name=label("schemas.merge")).click()
        await page.get_by_role("combobox", name=label("schemas.into")).click()
        await page.get_by_role("option", name="Invoice").click()
        await page.get_by_role("dialog").get_by_role("button", name=label("schemas.merge")).click()
        await page.wait_for_url(f"**/schemas/{other['id']}")
        assert sorted(one["name"] for one in (await server.get("schemas"))["items"]) == ["Account", "Invoice"]
        # A new one starts from a template.
        await page.get_by_role("button", name=label("schemas.create")).click()
        await page.get_by_role("combobox", name=label("schemas.template")).click()
        await page.get_by_role("option", name=label("schemas.templates.payslip")).click()
        await page.get_by_role("dialog").get_by_role("button", name=label("schemas.create")).click()
        await page.get_by_role("heading", name=label("schemas.templates.payslip")).wait_for()
        await page.get_by_role("list", name=label("schemas.tabs.fields")).get_by_role("listitem").first.wait_for()
