"""The table of a schema: sort, filter, edit with the keyboard, copy and paste, and mark rows as reviewed."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import pytest

from browser.window import double_click, label, playwright
from extraction_case import sql, until
from fieldmark.services.extractions import check_changed
from library_rows import LibraryDocument, insert_documents

pytestmark = pytest.mark.anyio

SCHEMA = {
    "type": "object",
    "properties": {
        "vendor": {"type": "string"},
        "total": {"type": "number"},
        "items": {"type": "array", "items": {"type": "object", "properties": {"price": {"type": "number"}}}},
    },
}


async def test_records_are_found_edited_pasted_and_reviewed(serve, browsing, clone):
    async with serve(with_worker=False) as server, browsing(server) as window:
        page = window.page
        # What others change is asked for when this test says so.
        feed = "**/api/extractions?changed_since=*"
        await page.route(feed, lambda route: route.fulfill(json={"items": [], "next": None}))
        await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        schema = (await server.http.post("/api/schemas", json={"name": "Invoice", "schema": SCHEMA})).json()
        rows = [
            {"vendor": "Acme", "total": 10, "items": [{"price": 4}, {"price": 6}]},
            {"vendor": "Beta", "total": 30},
            {"vendor": "Gamma", "total": 20},
        ]
        documents = [
            LibraryDocument(
                fields,
                filename=f"{fields['vendor']}.pdf",
                created_at=datetime(2026, 1, 9 - index, tzinfo=UTC),
                schema_revid=UUID(schema["schema_revid"]),
                unverified=frozenset(("total",) if fields["vendor"] == "Gamma" else ()),
            )
            for index, fields in enumerate(rows)
        ]
        insert_documents(clone.owner_url, server.scope, documents)

        async def stored() -> dict[str, tuple[object, bool]]:
            """Return each vendor's total, and whether the row is reviewed."""
            items = (await server.get(f"tables/{schema['id']}/rows"))["items"]
            return {
                one["cells"]["vendor"]["value"]: (one["cells"]["total"]["value"], one["is_reviewed"]) for one in items
            }

        async def is_stored(expected: dict[str, tuple[object, bool]]) -> None:
            now: dict[str, tuple[object, bool]] = {}

            async def check() -> bool:
                nonlocal now
                now = await stored()
                return now == expected

            await until(check, describe=lambda: f"stored: {now}; expected: {expected}")

        async def names() -> list[str]:
            return await grid.locator("[role=gridcell][aria-colindex='2'] a").all_inner_texts()

        async def shows(*expected: str) -> None:
            async def check() -> bool:
                return await names() == list(expected)

            await until(check)

        await window.open(f"/records/{schema['id']}")  # the address of before
        grid = page.get_by_role("grid", name="Invoice")
        await grid.get_by_role("row").nth(3).wait_for()
        await shows("Acme.pdf", "Beta.pdf", "Gamma.pdf")
        total = grid.get_by_role("columnheader", name="Total")
        need_you = page.get_by_role("button", name=label("tables.needYou", count=1))
        await need_you.wait_for()
        before = await grid.element_handle()
        await grid.get_by_role("columnheader", name=label("tables.status")).click()
        await shows("Gamma.pdf", "Acme.pdf", "Beta.pdf")  # Gamma's total is not on the page
        await total.click()  # anywhere in the head
        await shows("Acme.pdf", "Gamma.pdf", "Beta.pdf")
        assert await before.evaluate("(element) => element.isConnected")  # else its focus would be lost
        await playwright.expect(total).to_have_attribute("aria-sort", "ascending")

        # A filter is part of the address: it survives a reload.
        await page.get_by_role("button", name=label("tables.filter"), exact=True).click()
        await page.get_by_role("combobox", name=label("tables.column")).click()
        await page.get_by_role("option", name="Total", exact=True).click()
        await page.get_by_role("combobox", name=label("tables.operator")).click()
        await page.get_by_role("option", name=label("tables.operators.atLeast"), exact=True).click()
        await page.get_by_label(label("common.value"), exact=True).fill("20")
        await page.keyboard.press("Enter")
        await shows("Gamma.pdf", "Beta.pdf")
        await page.reload()
        await shows("Gamma.pdf", "Beta.pdf")
        await page.get_by_role("button", name="Remove filter").click()
        await shows("Acme.pdf", "Gamma.pdf", "Beta.pdf")

        # Keys: Enter edits, a value that is not a number is refused, Ctrl+Enter confirms and goes to what needs a look.
        columns = await grid.get_by_role("columnheader").all_inner_texts()
        at = columns.index("Total")
        await grid.focus()
        await page.keyboard.press("Control+Home")
        for _ in range(at - 1):
            await page.keyboard.press("ArrowRight")
        editor = page.get_by_label(label("fields.valueOf", field="Total"))
        await page.keyboard.type("x")
        await page.keyboard.press("Enter")
        await playwright.expect(editor).to_have_attribute("aria-invalid", "true")
        await editor.fill("1,100.5")
        await page.keyboard.press("Control+Enter")
        source = page.get_by_role("region", name=label("inbox.question", field="Total"))
        await source.wait_for()
        await playwright.expect(grid).to_have_attribute("aria-activedescendant", f"cell-1-{at}")
        await is_stored({"Acme": (1100.5, False), "Beta": (30, False), "Gamma": (20, False)})
        await page.keyboard.press("Control+Enter")
        await source.wait_for(state="detached")
        row = grid.get_by_role("row", name="Gamma.pdf")
        await row.get_by_text(label("fields.statuses.confirmed")).wait_for(state="attached")
        await need_you.wait_for(state="detached")  # at once: what others change is not asked for

        # Pasted cells are written one by one. What is not written is shown: a value that someone else has changed
        # meanwhile, and a text outside of the table. A change of another field does not matter.
        for number, change in ((2, {"path": "currency", "value": "EUR"}), (1, {"path": "total", "value": 99})):
            path = f"/api/extractions/{documents[number].extraction_id}/fields"
            assert (await server.http.patch(path, json=change)).status_code == 200
        await page.evaluate("() => navigator.clipboard.writeText('21\\n31\\nabove')")
        await page.keyboard.press("Control+v")
        refused = page.get_by_role("dialog", name=label("tables.conflicts", count=1))
        await refused.get_by_text(label("tables.outside", text="above")).wait_for()
        await refused.get_by_role("button", name=label("tables.keepTheirsOf", field="Total", value="99")).wait_for()
        await is_stored({"Acme": (1100.5, False), "Beta": (99, False), "Gamma": (21, False)})
        await page.keyboard.press("Escape")
        await refused.wait_for(state="detached")
        await page.keyboard.press("Shift+ArrowDown")
        await page.keyboard.press("Control+c")
        assert await page.evaluate("() => navigator.clipboard.readText()") == "21\r\n99"

        # Someone else saves the field while its editor is open here: no row moves, both values are shown, nothing is
        # overwritten until the person chooses.
        await page.keyboard.press("Control+Home")
        for _ in range(at - 1):
            await page.keyboard.press("ArrowRight")
        await page.keyboard.type("5")
        for number, change in ((0, {"path": "total", "value": 50}), (2, {"path": "vendor", "value": "Delta"})):
            path = f"/api/extractions/{documents[number].extraction_id}/fields"
            assert (await server.http.patch(path, json=change)).status_code == 200
        await page.evaluate("() => new BroadcastChannel('fieldmark').postMessage('changed')")
        await grid.get_by_text("Delta", exact=True).wait_for()
        await shows("Acme.pdf", "Gamma.pdf", "Beta.pdf")
        await editor.press("Enter")
        conflict = page.get_by_role("dialog", name=label("tables.conflicts", count=1))
        await conflict.get_by_role("button", name=label("tables.keepTheirsOf", field="Total", value="50")).wait_for()
        await conflict.get_by_text(label("people.by", person=label("people.you"))).wait_for()
        assert (await stored())["Acme"] == (50, False)
        await conflict.get_by_role("button", name=label("tables.keepMineOf", field="Total", value="5")).click()
        await conflict.wait_for(state="detached")
        await is_stored({"Acme": (5, False), "Beta": (99, False), "Delta": (21, False)})

        # A range of values is confirmed together, and can be undone together.
        confirmed = grid.get_by_text(label("fields.statuses.confirmed"))
        await playwright.expect(confirmed).to_have_count(4)  # all totals, and the vendor that was set above
        await page.keyboard.press("Control+ArrowUp")
        await page.keyboard.press("Shift+Control+ArrowDown")
        await page.keyboard.press(f"Shift+Arrow{'Right' if columns.index('Vendor') > at else 'Left'}")
        await page.keyboard.press("Control+Enter")
        done = page.get_by_text(label("tables.confirmedCells", count=2))
        await confirmed.nth(5).wait_for(state="attached")
        await done.locator("xpath=..").get_by_role("button", name=label("common.undo")).click()
        await confirmed.nth(4).wait_for(state="detached")

        # A proposal is shown first, then accepted or rejected by keys. The grid keeps the focus.
        propose = """insert into public.extraction_proposals
            (org_id, extraction_id, path, name, old, new, confidence_scores, evidence)
            values (%s, %s, '{total}', 'total', %s, %s, '{}', '{}')"""
        for number, old, new in ((0, "5", "7"), (1, "99", "98")):
            extraction_id = documents[number].extraction_id
            sql(clone.owner_url, propose, server.scope.org_id, extraction_id, old, new)
            again = "update public.extractions as e set review_count = private.store_fields(e, e) where id = %s"
            sql(clone.owner_url, again, extraction_id)
        await page.evaluate("() => new BroadcastChannel('fieldmark').postMessage('changed')")
        proposed = grid.get_by_text(label("fields.why.proposal"))
        await proposed.nth(1).wait_for(state="attached")
        await shows("Acme.pdf", "Gamma.pdf", "Beta.pdf")
        # After the last one comes the first.
        await page.keyboard.press("Control+End")
        await page.keyboard.press("ArrowUp")
        before = await grid.get_attribute("aria-activedescendant")
        await page.keyboard.press("Alt+ArrowDown")
        # Beside the status of the row was the same question.
        await playwright.expect(grid).not_to_have_attribute("aria-activedescendant", before)
        await source.get_by_role("button", name="98", exact=False).first.wait_for()
        before = await grid.get_attribute("aria-activedescendant")
        await page.keyboard.press("Control+Enter")
        await playwright.expect(grid).not_to_have_attribute("aria-activedescendant", before)
        await source.get_by_role("button", name="7", exact=False).first.wait_for()
        await page.keyboard.press("Alt+Enter")
        await is_stored({"Acme": (7, False), "Beta": (99, False), "Delta": (21, False)})
        await proposed.first.wait_for(state="detached")
        await playwright.expect(grid).to_be_focused()
        for one in documents[:2]:
            assert (await server.extraction(str(one.extraction_id)))["proposals"] == []

        # What others change is shown in place, and sorted when a person says so.
        await page.unroute(feed)
        path = f"/api/extractions/{documents[1].extraction_id}/fields"
        assert (await server.http.patch(path, json={"path": "total", "value": 1})).status_code == 200
        await grid.get_by_role("row", name="Beta.pdf").get_by_text("1", exact=True).wait_for()
        await shows("Acme.pdf", "Gamma.pdf", "Beta.pdf")
        again = page.get_by_role("button", name=label("tables.sortAgain", count=3))
        await again.click()
        await shows("Beta.pdf", "Acme.pdf", "Gamma.pdf")
        await again.wait_for(state="detached")
        await playwright.expect(grid).to_be_focused()

        # Groups have headers with sums. They are closed and opened with the keyboard, and stay in the order.
        await grid.get_by_role("columnheader", name="Vendor").click(button="right")
        await page.get_by_role("menuitem", name=label("tables.groupBy")).click()
        grouped = page.get_by_role("treegrid", name="Invoice")
        header = grouped.get_by_role("row", expanded=True).first
        await playwright.expect(header.get_by_role("gridcell")).to_contain_text(["Acme", "7", ""])
        await playwright.expect(grouped.get_by_role("row", expanded=True)).to_have_count(3)
        await playwright.expect(grouped).to_be_focused()
        await page.keyboard.press("Control+Home")
        await page.keyboard.press("ArrowLeft")
        await playwright.expect(grouped.get_by_role("row", expanded=False)).to_contain_text("Acme")
        links = grouped.locator("[aria-colindex='2'] a")
        await playwright.expect(links).to_have_text(["Beta.pdf", "Gamma.pdf"])
        await page.keyboard.press("Enter")
        await playwright.expect(links).to_have_text(["Acme.pdf", "Beta.pdf", "Gamma.pdf"])
        await page.reload()
        await playwright.expect(links).to_have_text(["Acme.pdf", "Beta.pdf", "Gamma.pdf"])
        await page.get_by_role("button", name=label("tables.closeGroups")).click()
        await playwright.expect(links).to_have_count(0)
        await page.get_by_role("button", name="Remove filter").click()
        await shows("Beta.pdf", "Acme.pdf", "Gamma.pdf")

        # On a phone the rows are a list, by keyboard too: a row opens the page beside it, and gets the focus back.
        await page.set_viewport_size({"width": 380, "height": 700})
        row = page.get_by_role("listitem").get_by_role("button", name="Beta")
        await row.get_by_text("1", exact=True).wait_for()
        await row.press("Enter")
        beside = page.get_by_role("complementary", name=label("tables.pane"))
        await beside.get_by_text("Beta").first.wait_for()
        await beside.get_by_role("button", name=label("tables.hidePane")).click()
        await playwright.expect(row).to_be_focused()
        assert await page.evaluate("document.documentElement.scrollWidth") <= 380
        await page.set_viewport_size({"width": 1280, "height": 800})

        # Selected rows are exported, and marked as reviewed.
        for name in ("Gamma.pdf", "Beta.pdf"):
            await grid.get_by_role("checkbox", name=label("tables.selectRow", name=name)).click()
        bar = page.get_by_role("toolbar", name=label("common.selection.title"))
        async with page.expect_download() as download:
            await bar.get_by_role("button", name=label("document.export.button")).click()
            await page.get_by_role("menuitem", name=label("document.export.csv")).click()
        lines = (await (await download.value).path()).read_text("utf-8-sig").splitlines()
        assert [line.split(",")[1] for line in lines] == ["filename", "Beta.pdf", "Gamma.pdf"]
        await page.get_by_role("button", name=label("document.markReviewed")).click()
        await is_stored({"Acme": (7, False), "Beta": (1, True), "Delta": (21, True)})
        await (
            page.get_by_text(label("tables.changedRows", count=2))
            .locator("xpath=..")
            .get_by_role("button", name=label("common.undo"))
            .click()
        )
        await is_stored({"Acme": (7, False), "Beta": (1, False), "Delta": (21, False)})

        # Line items are rows; a double click opens the document at the field.
        await page.get_by_role("tab", name="Items", exact=True).click()
        await shows("Acme.pdf", "Acme.pdf")
        await double_click(grid.get_by_text("6", exact=True), page.get_by_role("tree", name="Fields"))
        assert "field=items%5B1%5D.price" in page.url
        # The way back leads to the same rows.
        await page.get_by_role("link", name=label("tables.toTable")).click()
        await shows("Acme.pdf", "Acme.pdf")


async def test_missing_values_are_seen_and_asked_about_before_a_review(serve, browsing, clone):
    async with serve(with_worker=False) as server, browsing(server) as window:
        page = window.page
        given = {**SCHEMA, "required": ["total"]}
        schema = (await server.http.post("/api/schemas", json={"name": "Receipt", "schema": given})).json()
        documents = [
            LibraryDocument(
                fields,
                filename=f"{fields['vendor']}.pdf",
                schema_revid=UUID(schema["schema_revid"]),
                is_completed=is_completed,
            )
            for fields, is_completed in (
                ({"vendor": "Acme", "total": 10}, True),
                ({"vendor": "Beta"}, True),
                ({"vendor": "Gamma"}, False),
            )
        ]
        insert_documents(clone.owner_url, server.scope, documents)
        await check_changed(server.runtime.database)

        async def reviewed() -> set[str]:
            items = (await server.get(f"tables/{schema['id']}/rows"))["items"]
            return {one["cells"]["vendor"]["value"] for one in items if one["is_reviewed"]}

        await window.open(f"/records/{schema['id']}")  # the address of before
        grid = page.get_by_role("grid", name="Receipt")
        missing = grid.get_by_text(label("fields.reasons.missing"), exact=True).and_(page.locator(".text-need"))
        await playwright.expect(missing).to_have_count(2)
        row = grid.get_by_role("row", name="Gamma.pdf")
        await row.get_by_text(label("statuses.missing", count=1)).wait_for()
        await page.get_by_role("button", name=label("tables.needYou", count=2)).click()
        await playwright.expect(grid.locator("[role=gridcell][aria-colindex='2'] a")).to_have_count(2)

        # Marked together, the missing values are named first. Nothing is marked before the person says so.
        await grid.get_by_role("checkbox", name=label("tables.selectAll")).click()
        mark = page.get_by_role("button", name=label("document.markReviewed"))
        await mark.click()
        question = page.get_by_role("dialog", name=label("tables.markOpen", count=2))
        await question.get_by_text("Total: Missing (2)", exact=True).wait_for()
        await question.get_by_role("button", name=label("common.cancel")).click()
        assert await reviewed() == set()

        # A person says that one is not in the document; the other one is accepted as it is. The focus goes to the
        # question, which has no answers, and to the next one.
        await page.get_by_role("button", name=label("tables.reviewValues", count=2)).click()
        beside = page.get_by_role("complementary", name=label("tables.pane"))
        source = page.get_by_role("region", name=label("inbox.question", field="Total"))
        await playwright.expect(source).to_be_focused()
        asked = await beside.get_by_role("heading").first.inner_text()
        await page.keyboard.press("n")
        await playwright.expect(missing).to_have_count(1)
        await playwright.expect(beside.get_by_role("heading").first).not_to_have_text(asked)
        await playwright.expect(source).to_be_focused()
        await mark.click()
        question = page.get_by_role("dialog", name=label("tables.markOpen", count=1))
        await question.get_by_role("button", name=label("document.markAnyway")).click()

        async def is_done() -> bool:
            return await reviewed() == {"Beta", "Gamma"}

        await until(is_done)
        rows = (await server.get(f"tables/{schema['id']}/rows"))["items"]
        totals = [row["cells"]["total"] for row in rows if row["is_reviewed"]]
        assert {(one["status"], one["reason"]) for one in totals} == {("blank", "person"), ("accepted", "missing")}
        assert {row["status"] for row in rows} == {"done"}
