"""Uncertain values are reviewed by keyboard, one after the other, across documents."""

from __future__ import annotations

import pytest

from browser.scripts import extraction_script, new_extraction
from browser.window import delayed_response, label, playwright
from extraction_case import sql, until
from fieldmark.stores import extractions

pytestmark = pytest.mark.anyio

TEXT = "Invoice number: 17\nTotal: 12.50 EUR\nVAT: 2.00 EUR\nNet: 10.50 EUR\n"
FIELDS = {"number": "17", "total": 99.25, "vat": 2, "net": 10.5}


async def uncertain_extraction(server, clone, name: str) -> str:
    """Create an extraction with a total that no page contains and a VAT with low confidence. Return its id."""
    _, extraction_id = await new_extraction(server, TEXT, name)
    hard = "update extractions set confidences = confidences || '{\"vat\": 0.3}' where id = %s returning id"
    sql(clone.owner_url, hard, extraction_id)
    return extraction_id


async def nothing_to_review(server) -> bool:
    return (await server.get("extractions?to_check=true"))["items"] == []


async def is_at(server, document: str, stage: str) -> bool:
    return (await server.get(f"documents/{document}"))["stage"] == stage


async def test_review_by_keyboard_across_documents(serve, browsing, clone):
    async with serve(extraction_script(**FIELDS)) as server, browsing(server) as window:
        page = window.page
        first, second = (
            await uncertain_extraction(server, clone, "a.txt"),
            await uncertain_extraction(server, clone, "b.txt"),
        )
        documents = {one["filename"]: one["id"] for one in (await server.get("documents"))["items"]}
        await window.open("/review")
        card = page.get_by_role("region", name="Review")
        pressed = 0

        async def press(*keys: str) -> None:
            nonlocal pressed
            for key in keys:
                await page.keyboard.press(key)
                pressed += 1

        for name in ("b.txt", "a.txt"):  # the newest first
            await page.get_by_role("link", name=name).wait_for()
            # The value that no page contains comes first. It is overwritten and saved.
            field = page.get_by_label("Value of total")
            await playwright.expect(field).to_be_focused()
            assert await field.input_value() == "99.25"
            if name == "b.txt":
                await page.keyboard.type("12.5")
            else:  # A click on a word of the page replaces the value.
                box = await window.first_page()
                words = (await server.get(f"documents/{documents[name]}/pages/1"))["words"]
                word = next(one for one in words if one["text"] == "12.50")
                x, y = (word["x0"] + word["x1"]) / 2, (word["y0"] + word["y1"]) / 2
                await page.mouse.click(box["x"] + x * box["width"], box["y"] + y * box["height"])
                await playwright.expect(field).to_have_value("12.50")
            await press("Enter")
            # The value with low confidence is shown next to its picture and confirmed.
            await page.get_by_label("Value of vat").wait_for()
            await card.get_by_role("figure").locator("img").wait_for()
            await press("Enter")
        await page.get_by_role("heading", name=label("review.done")).wait_for()
        assert pressed == 4  # one key per value
        # (The page moves on at once and saves in the background.)
        await until(lambda: nothing_to_review(server))
        for extraction_id in (first, second):
            now = await server.extraction(extraction_id)
            assert now["extracted_fields"] == {**FIELDS, "total": 12.5}
            assert set(now["locks"]) == {"total", "vat"}

        for document in documents.values():
            await until(lambda at=document: is_at(server, at, "reviewed"))

        # Undo, one after the other: a confirmation, a correction, and a decision in the document before.
        await page.keyboard.press("Control+z")
        await page.get_by_label("Value of vat").wait_for()
        now = await server.extraction(first)
        assert (now["extracted_fields"]["total"], set(now["locks"])) == (12.5, {"total"})
        await page.keyboard.press("Control+z")
        await page.get_by_label("Value of total").wait_for()
        now = await server.extraction(first)
        assert (now["extracted_fields"], now["locks"]) == (FIELDS, {})
        await page.keyboard.press("Control+z")
        await (
            page.get_by_role("link", name="b.txt").or_(page.get_by_text(label("review.toGo", count=2))).first.wait_for()
        )
        await page.get_by_role("button", name="Undo").click()
        await page.get_by_role("button", name="Undo").wait_for(state="detached")
        now = await server.extraction(second)
        assert (now["extracted_fields"], now["locks"]) == (FIELDS, {})


async def test_closing_the_window_asks_while_a_decision_is_unsaved(serve, browsing, clone):
    async with serve(extraction_script(**FIELDS)) as server, browsing(server) as window:
        page = window.page
        extraction_id = await uncertain_extraction(server, clone, "a.txt")
        await window.open("/review")
        # A postponed value stays to be reviewed.
        for path in ("total", "vat"):
            await page.get_by_label(f"Value of {path}").wait_for()
            await page.keyboard.press("Escape")
        await page.get_by_role("heading", name=label("review.done")).wait_for()
        await page.reload()
        await page.get_by_label("Value of total").wait_for()
        async with delayed_response(page, "**/fields"):
            await page.keyboard.type("12.5")
            await page.keyboard.press("Enter")
            await page.get_by_label("Value of vat").wait_for()
            async with page.expect_event("dialog") as asked:
                await page.close(run_before_unload=True)
            dialog = await asked.value
            assert dialog.type == "beforeunload"
            await dialog.dismiss()

        async def is_written() -> bool:
            return (await server.extraction(extraction_id))["extracted_fields"]["total"] == 12.5

        await until(is_written)
        await page.get_by_role("button", name="Undo").wait_for()
        # Nothing is unsaved now.
        async with page.expect_event("close"):
            await page.close(run_before_unload=True)
        assert window.faults.pop() == f"a dialog: {dialog.message}"


async def test_failed_decision_is_asked_again(serve, browsing, clone):
    async with serve(extraction_script(**FIELDS)) as server, browsing(server) as window:
        page = window.page
        extraction_id = await uncertain_extraction(server, clone, "a.txt")
        await window.open("/review")
        await page.get_by_label("Value of total").wait_for()
        version = (await server.extraction(extraction_id))["version"]
        changed = await server.http.patch(
            f"/api/extractions/{extraction_id}/fields",
            json={"path": "number", "value": "18"},
            headers={"if-match": f'"{version}"'},
        )
        assert changed.status_code == 200, changed.text
        await page.keyboard.type("0.5")
        await page.keyboard.press("Enter")
        # Rejected because of a concurrent change: nothing was overwritten, and the value is asked for again.
        await page.get_by_text("changed").first.wait_for()
        await page.get_by_label("Value of total").wait_for()
        assert (await server.extraction(extraction_id))["extracted_fields"] == {**FIELDS, "number": "18"}
        await page.keyboard.type("0.5")
        await page.keyboard.press("Enter")
        await page.get_by_label("Value of vat").wait_for()
        await page.keyboard.press("Enter")
        await page.get_by_role("heading", name=label("review.done")).wait_for()
        await until(lambda: nothing_to_review(server))
        assert (await server.extraction(extraction_id))["extracted_fields"]["total"] == 0.5


MISREAD_TEXT = "Net 100.00\nTax 19.00\nTotal 119.00\nCustomer number 191\nTotal 119.00\n"
RULE = {"type": "object", "x-fieldmark": {"rules": [{"sum": ["net", "tax"], "equals": "total"}]}}


async def misread_extraction(server) -> str:
    """Create an extraction whose total appears on the page but is not the total. Return the extraction's id."""
    document = await server.upload_text(MISREAD_TEXT, "misread.txt")
    async with server.runtime.database.as_user(server.scope) as conn:
        given = {**RULE, "properties": {name: {"type": "number"} for name in ("net", "tax", "total")}}
        made = await extractions.add(conn, org_id=server.scope.org_id, document_id=document, schema=given)
    writes = [{"path": path, "value": value} for path, value in {"net": 100, "tax": 19, "total": 191}.items()]
    answer = await server.http.patch(f"/api/extractions/{made}/fields", json=writes)
    assert answer.status_code == 200, answer.text
    freed = await server.http.delete(f"/api/extractions/{made}/locks", params={"path": "total"})
    assert freed.status_code == 200, freed.text
    return str(made)


async def test_failed_rule_offers_fixes(serve, browsing):
    async with serve() as server, browsing(server) as window:
        page = window.page
        made = await misread_extraction(server)
        document = (await server.extraction(made))["document_id"]
        await window.open(f"/documents/{document}")
        await page.get_by_role("link", name=label("document.reviewValues", count=1)).click()
        await page.get_by_label("Value of total").wait_for()
        await page.get_by_role("button", name="Use 119").click()
        await page.get_by_role("button", name="Mark as reviewed").click()
        await page.get_by_role("heading", name=label("review.done")).wait_for()
        fixed_fields = {"net": 100, "tax": 19, "total": 119}

        async def is_fixed() -> bool:
            now = await server.extraction(made)
            return now["extracted_fields"] == fixed_fields and now["valid"] and "total" in now["locks"]

        await until(is_fixed)

        # On the document page, next to every possible value.
        await page.keyboard.press("Control+z")
        await page.get_by_label("Value of total").wait_for()
        await page.get_by_role("link", name="misread.txt").click()
        about = page.get_by_role("region", name=label("fields.details", field="Total"))
        await about.get_by_role("button", name="Use 119").click()
        await about.get_by_text("Match 1 of 2").wait_for()
        before = await box_position(page, "total")
        await page.keyboard.press("p")
        await about.get_by_text("Match 2 of 2").wait_for()
        assert await box_position(page, "total") > before
        await page.keyboard.press("p")
        await about.get_by_text("Match 1 of 2").wait_for()
        assert await box_position(page, "total") == before


INCOMPLETE_SCHEMA = {
    "type": "object",
    "required": ["vendor", "reference"],
    "properties": {"vendor": {"type": "string"}, "reference": {"type": "string"}, "total": {"type": "number"}},
}


async def incomplete_extraction(server, name: str) -> tuple[str, str]:
    """Create an extraction without two fields that its schema requires. Return the document and extraction ids."""
    document = await server.upload_text(MISREAD_TEXT, name)
    async with server.runtime.database.as_user(server.scope) as conn:
        made = await extractions.add(conn, org_id=server.scope.org_id, document_id=document, schema=INCOMPLETE_SCHEMA)
    answer = await server.http.patch(f"/api/extractions/{made}/fields", json=[{"path": "total", "value": 119}])
    assert answer.status_code == 200, answer.text
    return str(document), str(made)


async def test_document_with_missing_fields_can_be_marked_reviewed(serve, browsing):
    async with serve() as server, browsing(server) as window:
        page = window.page
        (first, in_review), (second, by_hand) = (
            await incomplete_extraction(server, "a.txt"),
            await incomplete_extraction(server, "b.txt"),
        )
        areas = page.get_by_role("navigation", name=label("areas.main"))
        await window.open("/documents")
        await page.get_by_text(label("documents.toCheck", count=2)).nth(1).wait_for()
        await areas.get_by_role("link", name="Inbox 2").wait_for()

        # On the document page: a missing field is a row, another one is added from the page, then it is reviewed.
        await page.get_by_role("link", name="b.txt").click()
        row = window.field_row("vendor")
        await row.get_by_text("missing").first.wait_for()
        # Marked as reviewed, what is missing is named first, and accepted; the review can be withdrawn.
        await page.get_by_role("button", name="Mark as reviewed").click()
        question = page.get_by_role("dialog", name=label("document.markOpen", count=2))
        await question.get_by_text("Vendor: Missing", exact=True).wait_for()
        await question.get_by_role("button", name=label("document.markAnyway")).click()
        await row.get_by_text(label("fields.statuses.accepted")).first.wait_for(state="attached")
        await page.get_by_role("button", name=label("common.undo")).click()
        await row.get_by_text("missing").first.wait_for()
        await (await window.open_editor("vendor")).fill("Acme")
        await page.keyboard.press("Enter")
        await (await window.open_editor("reference")).fill("17")
        await page.keyboard.press("Enter")
        await row.get_by_text("Confirmed").first.wait_for(state="attached")
        await page.get_by_role("button", name="Add field").click()
        form = page.get_by_role("form", name="Add field")
        await form.get_by_label("Field").fill("net")
        box = await window.first_page()
        word = next(
            one for one in (await server.get(f"documents/{second}/pages/1"))["words"] if one["text"] == "100.00"
        )
        x, y = (word["x0"] + word["x1"]) / 2, (word["y0"] + word["y1"]) / 2
        await page.mouse.click(box["x"] + x * box["width"], box["y"] + y * box["height"])
        await form.get_by_role("button", name="Add").click()
        await window.field_row("net").wait_for()
        await page.get_by_role("button", name="Mark as reviewed").click()
        await page.get_by_text("Reviewed", exact=True).wait_for()
        marked = page.get_by_text(label("document.markedReviewed")).locator("xpath=..")
        await marked.get_by_role("button", name=label("common.undo")).click()
        await page.get_by_role("button", name="Mark as reviewed").wait_for()
        assert (await server.extraction(by_hand))["status"] == "in_progress"
        await page.get_by_role("button", name="Mark as reviewed").click()
        await page.get_by_text("Reviewed", exact=True).wait_for()
        stored = await server.extraction(by_hand)
        assert stored["extracted_fields"] == {"vendor": "Acme", "reference": "17", "total": 119, "net": 100}
        assert (stored["status"], stored["valid"]) == ("completed", True)

        # In the review: one field is typed, the other is not in the document; it can still be marked reviewed.
        await areas.get_by_role("link", name="Inbox 1").click()
        await page.get_by_label("Value of vendor").or_(page.get_by_label("Value of reference")).wait_for()
        await page.keyboard.type("Acme")
        await page.keyboard.press("Enter")
        await page.get_by_role("button", name=label("fields.notInDocument")).click()
        await page.get_by_role("list", name=label("review.remainingProblems")).wait_for()
        await page.keyboard.press("Enter")
        await page.get_by_role("heading", name=label("review.done")).wait_for()
        await areas.get_by_role("link", name="Inbox", exact=True).wait_for()
        assert [(await server.get(f"documents/{one}"))["stage"] for one in (first, second)] == ["reviewed"] * 2
        assert (await server.extraction(in_review))["valid"] is False
        await areas.get_by_role("link", name="Documents").click()
        await page.get_by_role("button", name=label("tables.filter"), exact=True).click()
        await page.get_by_role("combobox", name=label("documents.status")).click()
        await page.get_by_role("option", name=label("documents.statuses.needs_review")).click()
        await page.get_by_role("heading", name=label("documents.noMatches")).wait_for()


async def box_position(page, path: str) -> float:
    """Return the vertical position of a field's box on its page."""
    box = page.locator(f'rect[class*=chosen][data-path="{path}"]')
    await box.wait_for(state="attached")
    return float(await box.get_attribute("y"))


async def test_drawn_box_fills_the_field(serve, browsing, clone):
    async with serve(extraction_script(**FIELDS)) as server, browsing(server) as window:
        page = window.page
        extraction_id = await uncertain_extraction(server, clone, "a.txt")
        document = (await server.extraction(extraction_id))["document_id"]
        words = {one["text"]: one for one in (await server.get(f"documents/{document}/pages/1"))["words"]}
        await window.open(f"/documents/{document}?field=number")
        field = await window.open_editor("number")
        box = await window.first_page()

        def at(x: float, y: float) -> tuple[float, float]:
            return box["x"] + x * box["width"], box["y"] + y * box["height"]

        first, last = words["Total:"], words["EUR"]
        await page.mouse.move(*at(first["x0"] - 0.01, first["y0"] - 0.003))
        await page.mouse.down()
        await page.mouse.move(*at(last["x1"] + 0.01, first["y1"] + 0.003), steps=5)
        await page.mouse.up()
        await playwright.expect(field).to_have_value("Total: 12.50 EUR")
        number = words["17"]
        await page.keyboard.down("Shift")
        await page.mouse.click(*at((number["x0"] + number["x1"]) / 2, (number["y0"] + number["y1"]) / 2))
        await page.keyboard.up("Shift")
        await playwright.expect(field).to_have_value("Total: 12.50 EUR 17")
        await page.keyboard.press("Enter")

        async def is_written() -> bool:
            return (await server.extraction(extraction_id))["extracted_fields"]["number"] == "Total: 12.50 EUR 17"

        await until(is_written)
        # Without a field being edited, a click on the page selects a field, and text can be selected.
        net = words["10.50"]
        await page.mouse.click(*at((net["x0"] + net["x1"]) / 2, (net["y0"] + net["y1"]) / 2))
        await page.get_by_role("region", name=label("fields.details", field="Net")).wait_for()


async def statuses(server, extraction_id: str) -> dict[str, tuple[str, str | None]]:
    found = (await server.extraction(extraction_id))["statuses"]
    return {path: (one["status"], one["reason"]) for path, one in found.items()}


async def test_rule_that_a_person_breaks_knowingly_is_asked_about_and_kept(serve, browsing):
    async with serve() as server, browsing(server) as window:
        page = window.page
        made = await misread_extraction(server)
        answer = await server.http.patch(f"/api/extractions/{made}/fields", json={"path": "total", "value": 192})
        assert answer.status_code == 200, answer.text
        assert set((await statuses(server, made)).values()) == {("needs_review", "breaks_rule")}
        await window.open("/review")
        await page.get_by_text(label("review.left", count=3)).wait_for()
        for left in (2, 1, 0):
            await page.get_by_role("button", name=label("fields.keep")).click()
            if left > 0:
                await page.get_by_text(label("review.left", count=left)).wait_for()
        await page.get_by_role("button", name="Mark as reviewed").click()
        await page.get_by_role("heading", name=label("review.done")).wait_for()
        assert set((await statuses(server, made)).values()) == {("accepted", "breaks_rule")}


ITEMS = [{"name": "Item A", "price": 10.0}, {"name": "Item B", "price": 20.0}]
ITEMS_TEXT = "Item A 10.00\nItem B 20.00\n"


async def reads_lines_in_another_order(body):
    """A model that reads the items in another order when it is asked again."""
    is_again = "once more" in str(body["messages"])
    return await extraction_script(items=ITEMS[::-1] if is_again else ITEMS)(body)


async def proposed_list(server) -> tuple[str, str]:
    """Create an extraction with a proposal for a list. Return the document and extraction ids."""
    document, made = await new_extraction(server, ITEMS_TEXT)
    confirmed = await server.http.post(f"/api/extractions/{made}/locks", params={"path": "items[0].price"})
    assert confirmed.status_code == 200, confirmed.text
    result = await server.extract(document, extraction_id=made, instructions="Read it once more.")
    assert [one["path"] for one in result["extraction"]["proposals"]] == ["items"]
    return document, made


async def test_proposal_for_a_list_is_one_decision_in_the_review(serve, browsing):
    async with serve(reads_lines_in_another_order) as server, browsing(server) as window:
        page = window.page
        _, made = await proposed_list(server)
        await window.open("/review")
        await page.get_by_text(label("fields.proposedWhole", field="Items")).wait_for()
        await page.get_by_text("Items › 1 › Price: 10 → 20").wait_for()
        await page.keyboard.press("Alt+Enter")
        await page.get_by_role("heading", name=label("review.done")).wait_for()
        await until(lambda: nothing_to_review(server))
        assert await is_items(server, made, ITEMS[::-1])
        await page.keyboard.press("Control+z")
        await until(lambda: is_items(server, made, ITEMS))


async def is_items(server, extraction_id: str, items: list[dict[str, object]]) -> bool:
    return (await server.extraction(extraction_id))["extracted_fields"]["items"] == items


async def test_proposal_for_a_list_is_decided_on_the_page_of_its_document(serve, browsing):
    async with serve(reads_lines_in_another_order) as server, browsing(server) as window:
        page = window.page
        document, made = await proposed_list(server)
        await window.open(f"/documents/{document}?field=items[1].name")
        # Not marked as reviewed before it is decided.
        mark = page.get_by_role("button", name="Mark as reviewed")
        await playwright.expect(mark).to_be_disabled()
        about = page.get_by_role("region", name=label("fields.details", field="Items › 2 › Name"))
        await about.get_by_text("Items › 2 › Name: Item B → Item A").wait_for()
        await about.get_by_role("button", name=label("common.reject")).click()
        await playwright.expect(mark).to_be_enabled()
        assert await is_at(server, document, "extracted")
        assert await is_items(server, made, ITEMS)


async def test_unclear_value_says_why_and_is_confirmed_on_the_page_of_its_document(serve, browsing, clone):
    async with serve(extraction_script(**FIELDS)) as server, browsing(server) as window:
        page = window.page
        extraction_id = await uncertain_extraction(server, clone, "a.txt")
        document = (await server.extraction(extraction_id))["document_id"]
        await window.open(f"/documents/{document}?field=vat")
        about = page.get_by_role("region", name=label("fields.details", field="VAT"))
        await about.get_by_text(label("fields.why.illegible")).wait_for()
        await about.get_by_text("30%").wait_for()
        await about.get_by_role("button", name=label("common.confirm"), exact=True).click()
        await about.get_by_text(label("fields.statuses.confirmed"), exact=True).wait_for()
        assert "%" not in await about.inner_text()
        assert (await statuses(server, extraction_id))["vat"] == ("confirmed", None)
