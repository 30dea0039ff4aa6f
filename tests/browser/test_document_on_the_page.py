"""A document: what needs a person is answered in place, beside its pages."""

from __future__ import annotations

import pytest

from browser.scripts import (
    ITEMS,
    MISREAD_TEXT,
    extraction_script,
    is_items,
    misread_extraction,
    new_extraction,
    proposed_list,
    reads_lines_in_another_order,
)
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


async def is_at(server, document: str, stage: str) -> bool:
    return (await server.get(f"documents/{document}"))["stage"] == stage


def question(page, field: str):
    return page.get_by_role("region", name=label("inbox.question", field=field))


def details(page, field: str):
    return page.get_by_role("region", name=label("fields.details", field=field))


@pytest.mark.story
async def test_what_needs_a_person_comes_first_and_is_answered_in_place(serve, browsing, clone):
    async with serve(extraction_script(**FIELDS)) as server, browsing(server) as window:
        page = window.page
        extraction_id = await uncertain_extraction(server, clone, "a.txt")
        document = (await server.extraction(extraction_id))["document_id"]
        await window.open(f"/documents/{document}")
        needs = page.get_by_role("region", name=label("document.needsYou"))
        await needs.get_by_text(label("document.needsYouCount", count=2)).wait_for()
        await question(page, "VAT").get_by_text(label("fields.why.illegible")).wait_for()
        assert (await question(page, "VAT").bounding_box())["y"] <= 150
        mark = page.get_by_role("button", name=label("document.markReviewed"))
        # The other question is a line with its reason. Of a field that is chosen, its score is shown.
        await needs.get_by_text(label("fields.why.not_found")).wait_for()
        await window.field_row("vat").click()
        await details(page, "VAT").get_by_text("30%").wait_for()
        # J and K go from question to question; the focus is on the first answer.
        await page.keyboard.press("j")
        await playwright.expect(question(page, "Total").get_by_role("button").first).to_be_focused()
        await page.keyboard.press("t")
        await page.keyboard.type("12.5")
        await page.keyboard.press("Enter")
        # The next one opens. Nothing jumps: the answered one stays as a line.
        await playwright.expect(question(page, "VAT").get_by_role("button").first).to_be_focused()
        await needs.get_by_text("12.50", exact=True).wait_for()
        await page.keyboard.press("Enter")
        await window.field_row("vat").get_by_text(label("people.you")).first.wait_for()
        await window.field_row("vat").click()
        await details(page, "VAT").get_by_text(label("people.you")).first.wait_for()
        assert "%" not in await details(page, "VAT").inner_text()
        await playwright.expect(mark).to_be_enabled()
        await page.keyboard.press("Control+Enter")
        await page.get_by_text("Reviewed", exact=True).wait_for()
        assert await is_at(server, document, "reviewed")
        # Who did what, and what it cost.
        await page.get_by_role("tab", name=label("document.activity")).click()
        history = page.get_by_role("region", name=label("history.title"))
        await history.get_by_role("deletion").get_by_text("99.25").wait_for()
        runs = page.get_by_role("region", name=label("document.runs"))
        await runs.get_by_text(label("runs.statuses.completed")).wait_for()


async def test_printed_values_that_fix_a_rule_are_answers(serve, browsing):
    async with serve() as server, browsing(server) as window:
        page = window.page
        made = await misread_extraction(server)
        document = (await server.extraction(made))["document_id"]
        await window.open(f"/documents/{document}")
        # The boxes of the answers are on the page while the answers are beside it.
        answers = page.locator('[data-path^=" answer"]')
        await playwright.expect(answers.first).to_be_attached()
        await page.get_by_role("tab", name=label("document.activity")).click()
        await playwright.expect(answers).to_have_count(0)
        await page.get_by_role("tab", name=label("document.fields")).click()
        await question(page, "Total").get_by_role("button", name="119").first.click()

        async def is_fixed() -> bool:
            now = await server.extraction(made)
            fixed = {"net": 100, "tax": 19, "total": 119}
            return now["extracted_fields"] == fixed and now["valid"] and "total" in now["locks"]

        await until(is_fixed)
        # Every place where it is printed is shown, one after the other.
        await window.field_row("total").click()
        await details(page, "Total").get_by_text("Match 1 of 2").wait_for()
        before = await box_position(page, "total")
        await page.keyboard.press("m")
        await details(page, "Total").get_by_text("Match 2 of 2").wait_for()
        assert await box_position(page, "total") > before
        await page.keyboard.press("m")
        await details(page, "Total").get_by_text("Match 1 of 2").wait_for()
        assert await box_position(page, "total") == before


async def test_value_typed_without_a_connection_is_kept_and_sent_later(serve, browsing, clone):
    async with serve(extraction_script(**FIELDS)) as server, browsing(server) as window:
        page = window.page
        extraction_id = await uncertain_extraction(server, clone, "a.txt")
        document = (await server.extraction(extraction_id))["document_id"]
        await window.open(f"/documents/{document}")
        editor = await window.open_editor("number")
        await page.context.set_offline(True)
        await editor.fill("18")
        await page.keyboard.press("Enter")
        await page.get_by_text(label("shell.unsent", count=1)).wait_for()
        row = window.field_row("number")
        await row.get_by_text("18", exact=True).wait_for()
        await row.get_by_text(label("fields.statuses.saving")).first.wait_for(state="attached")
        await playwright.expect(page.get_by_role("tree", name=label("document.fields"))).to_be_focused()
        await page.context.set_offline(False)
        await row.get_by_text(label("fields.statuses.confirmed")).first.wait_for(state="attached")
        assert (await server.extraction(extraction_id))["extracted_fields"]["number"] == "18"


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
        await page.get_by_text(label("statuses.toCheck", count=2)).nth(1).wait_for()
        await areas.get_by_role("link", name="Inbox 4").wait_for()

        # On the document page: a missing field is a row, another one is added from the page, then it is reviewed.
        await page.get_by_role("link", name="b.txt").click()
        row = window.field_row("vendor")
        await row.get_by_text("missing").first.wait_for()
        # Marked as reviewed, what is missing is named first, and accepted; the review can be withdrawn.
        await page.get_by_role("button", name="Mark as reviewed").click()
        dialog = page.get_by_role("dialog", name=label("document.markOpen", count=2))
        await dialog.get_by_text("Vendor: Missing", exact=True).wait_for()
        await dialog.get_by_role("button", name=label("document.markAnyway")).click()
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

        # In the inbox: one field is typed, the other is not in the document; it can still be marked reviewed.
        await areas.get_by_role("link", name="Inbox 2").click()
        await page.get_by_role("list", name=label("areas.inbox")).get_by_role("button", name="Vendor").click()
        await question(page, "Vendor").get_by_role("button").first.wait_for()
        await page.keyboard.press("t")
        await page.keyboard.type("Acme")
        await page.keyboard.press("Enter")
        await question(page, "Reference").get_by_role("button", name=label("fields.notInDocument")).click()
        await page.get_by_text(label("inbox.incompleteHint")).wait_for()
        await page.keyboard.press("Control+Enter")
        await page.get_by_role("heading", name=label("inbox.done")).wait_for()
        await areas.get_by_role("link", name="Inbox", exact=True).wait_for()
        assert [(await server.get(f"documents/{one}"))["stage"] for one in (first, second)] == ["reviewed"] * 2
        assert (await server.extraction(in_review))["valid"] is False
        await areas.get_by_role("link", name="Documents").click()
        await page.get_by_role("button", name=label("tables.filter"), exact=True).click()
        await page.get_by_role("combobox", name=label("documents.status")).click()
        await page.get_by_role("option", name=label("statuses.to_check")).click()
        await page.get_by_role("heading", name=label("documents.noMatches")).wait_for()


async def box_position(page, path: str) -> float:
    """Return the vertical position of a field's box on its page."""
    box = page.locator(f'rect[class*=chosen][data-path="{path}"]')
    await box.wait_for(state="attached")
    return float(await box.get_attribute("y"))


async def test_boxes_are_drawn_with_the_image_of_the_page(serve, browsing):
    async with serve(extraction_script(**FIELDS)) as server, browsing(server) as window:
        page = window.page
        document, _ = await new_extraction(server, TEXT)
        box = page.locator('rect[data-path="number"]')
        async with delayed_response(page, f"**/api/documents/{document}/pages/1.png"):
            await window.open(f"/documents/{document}")
            await page.locator("[data-page='1'] span", has_text="Net:").wait_for()
            await window.field_row("number").wait_for()
            await playwright.expect(box).to_have_count(0)
        await box.wait_for(state="attached")


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


async def test_proposal_for_a_list_is_decided_on_the_page_of_its_document(serve, browsing):
    async with serve(reads_lines_in_another_order) as server, browsing(server) as window:
        page = window.page
        document, made = await proposed_list(server)
        await window.open(f"/documents/{document}?field=items[1].name")
        # Not marked as reviewed before it is decided.
        mark = page.get_by_role("button", name="Mark as reviewed")
        await playwright.expect(mark).to_be_disabled()
        needs = page.get_by_role("region", name=label("document.needsYou"))
        await needs.get_by_text(label("document.needsYouCount", count=1)).wait_for()
        await needs.get_by_text("Items › 2 › Name: Item B → Item A").wait_for()
        await needs.get_by_role("button", name=label("common.reject")).click()
        await playwright.expect(mark).to_be_enabled()
        assert await is_at(server, document, "extracted")
        assert await is_items(server, made, ITEMS)


PARTS = [
    ("Nut M8", 10, 1.2, 12.0),
    ("Bolt M6", 25, 0.4, 10.0),
    ("Washer", 70, 0.1, 7.0),
    ("Ring", 11, 7.0, 77.0),
    ("Hook", 12, 2.0, 24.0),
]
PART_ROWS = [{"item": item, "quantity": count, "price": price, "total": total} for item, count, price, total in PARTS]


@pytest.mark.story
async def test_extra_row_is_removed_and_missing_row_added_by_one_key_each(serve, browsing):
    lines = [f"{item:<15}{count:<12}{price:>4.2f}{total:>12.2f}" for item, count, price, total in PARTS]
    total = {"item": "Total", "quantity": None, "price": None, "total": 130.0}
    text = "\n".join([*lines, f"{'Total':<31}{130.0:>12.2f}"])
    async with serve(extraction_script(items=[*PART_ROWS, total])) as server, browsing(server) as window:
        page = window.page
        document, made = await new_extraction(server, text, "parts.txt")
        await window.open(f"/documents/{document}")
        asked = question(page, "Items › 6")
        await asked.get_by_text(label("fields.why.subtotal")).wait_for()
        await page.keyboard.press("x")

        async def has(rows: list[dict[str, object]]) -> bool:
            return (await server.extraction(made))["extracted_fields"]["items"] == rows

        await until(lambda: has(PART_ROWS))
        await playwright.expect(asked).to_have_count(0)
        before = (await server.extraction(made))["locks"]
        await page.keyboard.press("ControlOrMeta+z")
        await until(lambda: has([*PART_ROWS, total]))
        await asked.get_by_text(label("fields.why.subtotal")).wait_for()
        assert (await server.extraction(made))["locks"] == before == {}
        await page.keyboard.press("x")
        await until(lambda: has(PART_ROWS))
        # A row that was lost is offered as printed.
        await server.http.delete(f"/api/extractions/{made}/fields", params={"path": "items[1]"})
        missing = page.get_by_role("region", name=label("fields.missingRows.label", list="Items"))
        await missing.get_by_text("Bolt M6 25 0.40 10.00").wait_for()
        others = [row for row in PART_ROWS if row["item"] != "Bolt M6"]
        for key, rows in (("i", [*others, PART_ROWS[1]]), ("ControlOrMeta+z", others), ("i", [*others, PART_ROWS[1]])):
            await page.keyboard.press(key)
            await until(lambda rows=rows: has(rows))
            await playwright.expect(missing).to_have_count(1 if rows == others else 0)
