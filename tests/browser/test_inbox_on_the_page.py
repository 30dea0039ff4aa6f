"""The inbox: what waits for a person is answered there, by keyboard alone."""

from __future__ import annotations

import re

import pytest

from browser.scripts import (
    COMPLETE,
    IDENTIFY,
    ITEMS,
    extract_until_approval,
    extraction_script,
    is_items,
    misread_extraction,
    new_extraction,
    proposed_list,
    reads_lines_in_another_order,
    save_fields,
)
from browser.window import delayed_response, label, playwright
from extraction_case import sql, until
from fieldmark.offline_model.messages import call, text
from fieldmark.offline_model.server import OfflineModel
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio

RECEIPT = """PENNYWISE HARDWARE
Receipt 20832
Date 03/11/2026
Padlock 50 mm  8.25
Wall plugs  3.90
Masking tape  3.40
TO PAY  15.55
Cash  20.00
"""
SCHEMA = {
    "type": "object",
    "required": ["total"],
    "properties": {
        "vendor": {"type": "string"},
        "date": {"type": "string", "format": "date"},
        "total": {"type": "number"},
        "items": {"type": "array", "items": {"type": "object", "properties": {"amount": {"type": "number"}}}},
    },
}
FIELDS = {
    "vendor": "Pennywise Hardware",
    "date": "2026-11-03",
    "items": [{"amount": 8.25}, {"amount": 3.9}, {"amount": 3.4}],
}


@pytest.mark.story
async def test_questions_are_answered_by_keyboard_alone(serve, browsing):
    # Without the total, the agent cannot complete the extraction.
    script = Script([[call("extract_fields", {"fields": FIELDS})], [text("No total is printed.")]])
    async with serve(script) as server, browsing(server) as window:
        page = window.page
        await page.set_viewport_size({"width": 1440, "height": 900})
        broken = await server.http.post("/api/documents", files={"file": ("broken.pdf", b"%PDF-1.7 x")})
        await server.wait_until_read(broken.json()["id"])
        document = await server.upload_text(RECEIPT, "pennywise.txt")
        extraction = (await server.extract(document, schema=SCHEMA))["extraction"]["id"]

        async def is_checked() -> bool:
            return (await server.get(f"documents/{document}"))["to_review"] == 2

        await until(is_checked)
        await window.open("/inbox")

        # What is missing comes first, with the printed values that may be it. Focus is on the first answer.
        first = question(page, "Total").get_by_role("button", name="15.55")
        await playwright.expect(first).to_be_focused()
        await page.locator("[data-page='1'] img").wait_for()
        await page.keyboard.press("Enter")

        # The answered question leaves; the next one opens. Its second answer is the key 2.
        await question(page, "Date").wait_for()
        await playwright.expect(page.get_by_role("button", name="day first")).to_be_focused()
        await page.keyboard.press("2")

        # All is answered: a person completes the extraction. The failed file is left.
        await page.get_by_text(label("inbox.incompleteHint")).wait_for()
        await page.keyboard.press("Control+Enter")

        async def is_reviewed() -> bool:
            return (await server.get(f"documents/{document}"))["stage"] == "reviewed"

        await until(is_reviewed)
        stored = await server.extraction(extraction)
        assert (stored["extracted_fields"]["total"], stored["extracted_fields"]["date"]) == (15.55, "2026-03-11")
        assert stored["evidence"]["total"]["state"] == "found"
        await page.get_by_role("link", name="broken.pdf").wait_for()
        await page.get_by_role("heading", name=label("document.unreadable")).wait_for()
        assert window.faults == []


@pytest.mark.story
async def test_enter_takes_no_value_that_only_happens_to_be_printed(serve, browsing):
    script = Script([[call("extract_fields", {"fields": {"vendor": "Pennywise"}})], [text("No total is printed.")]])
    async with serve(script) as server, browsing(server) as window:
        page = window.page
        document = await server.upload_text("Pennywise\nCash 20.00\n")
        extraction = (await server.extract(document, schema=SCHEMA))["extraction"]["id"]
        await window.open("/inbox")
        await question(page, "Total").get_by_role("button", name="20.00").wait_for()
        await playwright.expect(question(page, "Total")).to_be_focused()
        await page.keyboard.press("Enter")
        assert "total" not in (await server.extraction(extraction))["extracted_fields"]
        await page.keyboard.press("1")

        async def is_saved() -> bool:
            return (await server.extraction(extraction))["extracted_fields"].get("total") == 20

        await until(is_saved)


async def test_approval_of_eleven_values_is_possible_once_all_were_in_view(serve, browsing):
    names = [f"field_{n}" for n in range(1, 11)]
    invoice = "Invoice\n" + "".join(f"{name}: {n}01.50 EUR\n" for n, name in enumerate(names, 1))
    fields = {name: n * 100 + 1.5 for n, name in enumerate(names, 1)} | {"order": "Not printed"}
    async with serve(Script([[IDENTIFY], [save_fields(**fields)], [COMPLETE]])) as server, browsing(server) as window:
        page = window.page
        await page.set_viewport_size({"width": 1440, "height": 600})
        document = await server.upload_text(invoice, "oakline.txt")
        run = await extract_until_approval(server, document, "complete_extraction")
        await window.open("/inbox")
        panel = page.get_by_role("region", name=label("approvals.card"))
        await panel.get_by_text("Look at these, 1").wait_for()
        # The whole width of the page is in view, though the panel beside it is wide.
        viewer = page.get_by_role("region", name=label("document.viewer.label"))
        await viewer.get_by_role("region", name=label("common.page", page=1)).wait_for()
        await playwright.expect(page.get_by_role("toolbar").get_by_role("status")).to_have_text("100%")
        assert await viewer.evaluate("one => one.scrollWidth <= one.clientWidth")
        # The value that is on no page is first.
        first = panel.get_by_role("listitem").first
        await playwright.expect(first).to_contain_text("Not printed")
        approve = page.get_by_role("button", name="Approve 11")
        await playwright.expect(approve).to_be_disabled()
        for row in await panel.get_by_role("listitem").all():
            await row.scroll_into_view_if_needed()
        await playwright.expect(approve).to_be_enabled()
        # One value is left out; the others are approved by key.
        await first.get_by_role("button", name=label("inbox.leaveOut", field="Order")).click()
        await page.get_by_role("button", name="Approve 10").wait_for()
        await page.keyboard.press("a")

        async def has_ended() -> bool:
            return (await server.get(f"runs/{run}"))["status"] == "completed"

        await until(has_ended)
        (extraction,) = (await server.get("extractions"))["items"]
        stored = (await server.extraction(extraction["id"]))["extracted_fields"]
        assert stored == {name: value for name, value in fields.items() if name != "order"}
        # Nothing is left: no empty list, no counts of zero.
        await page.get_by_role("heading", name=label("inbox.done")).wait_for()
        await playwright.expect(page.get_by_role("list", name=label("areas.inbox"))).to_be_hidden()
        assert window.faults == []


TEXT = "Invoice number: 17\nTotal: 12.50 EUR\nVAT: 2.00 EUR\nNet: 10.50 EUR\n"
UNCLEAR = {"number": "17", "total": 99.25, "vat": 2, "net": 10.5}


async def unclear_extraction(server, clone, name: str = "a.txt") -> str:
    """Create an extraction with a total that no page contains and a VAT with low confidence. Return its id."""
    _, extraction_id = await new_extraction(server, TEXT, name)
    hard = "update extractions set confidences = confidences || '{\"vat\": 0.3}' where id = %s returning id"
    sql(clone.owner_url, hard, extraction_id)
    return extraction_id


async def test_phone_shows_the_list_first_and_no_keys(serve, browsing, clone):
    phone = {"viewport": {"width": 390, "height": 844}, "has_touch": True}
    async with serve(extraction_script(**UNCLEAR)) as server, browsing(server, **phone) as window:
        await unclear_extraction(server, clone)
        page = window.page
        await window.open("/inbox")
        listed = page.get_by_role("list", name=label("areas.inbox")).get_by_role("button")
        back = page.get_by_role("button", name=label("inbox.list"))
        await listed.first.wait_for()
        await playwright.expect(back).to_be_hidden()
        await listed.first.tap()
        await page.get_by_role("region", name=re.compile(label("inbox.question", field=""))).wait_for()
        await playwright.expect(page.locator("kbd:visible")).to_have_count(0)
        await back.tap()
        await listed.first.wait_for()
        assert window.faults == []


def question(page, field: str):
    return page.get_by_role("region", name=label("inbox.question", field=field))


async def type_answer(page, field: str, text: str) -> None:
    """Answer the question that is open by typing: T, the value, Enter."""
    await playwright.expect(question(page, field).get_by_role("button").first).to_be_focused()
    await page.keyboard.press("t")
    await playwright.expect(question(page, field).get_by_label(label("fields.valueOf", field=field))).to_be_focused()
    await page.keyboard.type(text)
    await page.keyboard.press("Enter")


async def click_word(window, server, document: str, text: str) -> None:
    box = await window.first_page()
    words = (await server.get(f"documents/{document}/pages/1"))["words"]
    word = next(one for one in words if one["text"] == text)
    x, y = (word["x0"] + word["x1"]) / 2, (word["y0"] + word["y1"]) / 2
    await window.page.mouse.click(box["x"] + x * box["width"], box["y"] + y * box["height"])


async def is_at(server, document: str, stage: str) -> bool:
    return (await server.get(f"documents/{document}"))["stage"] == stage


async def test_answers_across_documents_are_undone_one_after_the_other(serve, browsing, clone):
    async with serve(extraction_script(**UNCLEAR)) as server, browsing(server) as window:
        page = window.page
        first, second = (
            await unclear_extraction(server, clone, "a.txt"),
            await unclear_extraction(server, clone, "b.txt"),
        )
        documents = {one["filename"]: one["id"] for one in (await server.get("documents"))["items"]}
        await window.open("/inbox")
        for name in ("b.txt", "a.txt"):  # the newest first
            await page.get_by_role("main").get_by_role("link", name=name).wait_for()
            if name == "b.txt":
                await type_answer(page, "Total", "12.5")
            else:  # A click on a word of the page answers.
                await question(page, "Total").get_by_role("button").first.wait_for()
                await page.keyboard.press("p")
                await question(page, "Total").get_by_text(label("inbox.pickHint")).wait_for()
                await click_word(window, server, documents[name], "12.50")
            # The value with low confidence is shown next to its picture and kept with one key.
            keep = question(page, "VAT").get_by_role("button").first
            await playwright.expect(keep).to_be_focused()
            await page.keyboard.press("Enter")
        await page.get_by_role("heading", name=label("inbox.done")).wait_for()
        # Once the last value of a document is saved, the document is reviewed.
        for document in documents.values():
            await until(lambda at=document: is_at(server, at, "reviewed"))
        for extraction_id in (first, second):
            now = await server.extraction(extraction_id)
            assert now["extracted_fields"] == {**UNCLEAR, "total": 12.5}
            assert set(now["locks"]) == {"total", "vat"}

        await page.keyboard.press("Control+z")
        await question(page, "VAT").wait_for()
        now = await server.extraction(first)
        assert (now["extracted_fields"]["total"], set(now["locks"])) == (12.5, {"total"})
        await page.keyboard.press("Control+z")
        await question(page, "Total").wait_for()
        now = await server.extraction(first)
        assert (now["extracted_fields"], now["locks"]) == (UNCLEAR, {})
        await page.get_by_role("button", name=label("common.undo")).click()
        await page.get_by_role("main").get_by_role("link", name="b.txt").wait_for()
        assert set((await server.extraction(second))["locks"]) == {"total"}


async def test_closing_the_window_asks_while_an_answer_is_unsaved(serve, browsing, clone):
    async with serve(extraction_script(**UNCLEAR)) as server, browsing(server) as window:
        page = window.page
        extraction_id = await unclear_extraction(server, clone)
        await window.open("/inbox")
        async with delayed_response(page, "**/fields"):
            await type_answer(page, "Total", "12.5")
            await question(page, "VAT").wait_for()
            async with page.expect_event("dialog") as asked:
                await page.close(run_before_unload=True)
            dialog = await asked.value
            assert dialog.type == "beforeunload"
            await dialog.dismiss()

        async def is_written() -> bool:
            return (await server.extraction(extraction_id))["extracted_fields"]["total"] == 12.5

        await until(is_written)
        await page.get_by_role("button", name=label("common.undo")).wait_for()
        # Nothing is unsaved once the page has read the response. Until then it asks again.
        page.on("dialog", lambda again: again.dismiss())

        async def is_closed() -> bool:
            if not page.is_closed():
                await page.close(run_before_unload=True)
            return page.is_closed()

        await until(is_closed)
        assert set(window.faults) == {f"a dialog: {dialog.message}"}
        window.faults.clear()


async def update_field(server, extraction_id: str, path: str, value: object) -> None:
    changed = await server.http.patch(f"/api/extractions/{extraction_id}/fields", json={"path": path, "value": value})
    assert changed.status_code == 200, changed.text


async def test_answer_does_not_overwrite_what_someone_else_wrote_meanwhile(serve, browsing, clone):
    async with serve(extraction_script(**UNCLEAR)) as server, browsing(server) as window:
        page = window.page
        extraction_id = await unclear_extraction(server, clone)
        await window.open("/inbox")
        # Another field: the answer is saved.
        await question(page, "Total").get_by_role("button").first.wait_for()
        await update_field(server, extraction_id, "net", 11)
        await type_answer(page, "Total", "0.5")
        await playwright.expect(question(page, "VAT").get_by_role("button").first).to_be_focused()
        # The same field: what is typed stays; both values are shown, and one click saves the typed one.
        await page.keyboard.press("t")
        await page.keyboard.type("4")
        await update_field(server, extraction_id, "vat", 3)
        await question(page, "VAT").get_by_text(label("inbox.someoneChanged", value="3")).wait_for()
        await page.keyboard.press("Enter")
        await page.get_by_text(label("fields.changedBySomeone", field="VAT", value="3")).first.wait_for()
        assert (await server.extraction(extraction_id))["extracted_fields"]["vat"] == 3
        await page.get_by_role("button", name=label("fields.useInstead", value="4")).click()

        async def is_written() -> bool:
            return (await server.extraction(extraction_id))["extracted_fields"] == {
                **UNCLEAR,
                "net": 11,
                "total": 0.5,
                "vat": 4,
            }

        await until(is_written)


async def test_answer_typed_without_a_connection_is_said_to_be_unsent_and_sent_later(serve, browsing, clone):
    async with serve(extraction_script(**UNCLEAR)) as server, browsing(server) as window:
        page = window.page
        extraction_id = await unclear_extraction(server, clone)
        await window.open("/inbox")
        await question(page, "Total").get_by_role("button").first.wait_for()
        await page.context.set_offline(True)
        await type_answer(page, "Total", "12.5")
        await page.get_by_text(label("shell.unsent", count=1)).wait_for()
        assert (await server.extraction(extraction_id))["extracted_fields"]["total"] == 99.25
        await page.context.set_offline(False)

        async def is_written() -> bool:
            return (await server.extraction(extraction_id))["extracted_fields"]["total"] == 12.5

        await until(is_written)
        await page.get_by_text(label("shell.unsent", count=1)).wait_for(state="detached")


async def test_one_field_is_reviewed_in_all_documents(serve, browsing, clone):
    async with serve(extraction_script(**UNCLEAR)) as server, browsing(server) as window:
        page = window.page
        for name in ("a.txt", "b.txt"):
            await unclear_extraction(server, clone, name)
        # Addresses of the screens before lead to the same.
        await window.open("/review/by-field?path=vat")
        items = page.get_by_role("list", name=label("areas.inbox")).get_by_role("listitem")
        await items.nth(1).wait_for()
        await playwright.expect(page.get_by_role("heading", name=label("areas.inbox"))).to_contain_text("2")
        await playwright.expect(items).to_have_count(2)
        for name in ("b.txt", "a.txt"):
            await page.get_by_role("main").get_by_role("link", name=name).wait_for()
            await playwright.expect(question(page, "VAT").get_by_role("button").first).to_be_focused()
            await page.keyboard.press("Enter")
        await page.get_by_role("heading", name=label("inbox.done")).wait_for()
        await page.get_by_role("button", name=label("inbox.filters")).click()
        await page.get_by_role("combobox", name=label("common.field")).click()
        await page.get_by_role("option", name=label("inbox.anyField")).click()
        await page.keyboard.press("Escape")
        await question(page, "Total").wait_for()
        await playwright.expect(items).to_have_count(2)


async def test_rule_that_a_person_breaks_knowingly_is_kept(serve, browsing):
    async with serve() as server, browsing(server) as window:
        page = window.page
        made = await misread_extraction(server)
        await update_field(server, made, "total", 192)
        await window.open("/inbox")
        for field, value in (("Net", "100"), ("Tax", "19"), ("Total", "192")):
            await question(page, field).get_by_role("button", name=re.compile(rf"^{value}\b")).click()
        await page.get_by_text(label("inbox.incompleteHint")).wait_for()
        await page.keyboard.press("Control+Enter")
        await page.get_by_role("heading", name=label("inbox.done")).wait_for()
        found = (await server.extraction(made))["statuses"].values()
        assert {(one["status"], one["reason"]) for one in found} == {("accepted", "breaks_rule")}


async def test_proposal_for_a_list_is_one_question(serve, browsing):
    async with serve(reads_lines_in_another_order) as server, browsing(server) as window:
        page = window.page
        _, made = await proposed_list(server)
        await window.open("/inbox")
        await page.get_by_text(label("fields.proposedWhole", field="Items")).wait_for()
        await page.get_by_text("Items › 1 › Price: 10 → 20").wait_for()
        await page.keyboard.press("Enter")
        await page.get_by_role("heading", name=label("inbox.done")).wait_for()
        await until(lambda: is_items(server, made, ITEMS[::-1]))
        await page.keyboard.press("Control+z")
        await until(lambda: is_items(server, made, ITEMS))


async def test_approval_leaves_the_other_window_once_it_is_decided(serve, browsing):
    script = Script([[IDENTIFY], [save_fields(total=12.5)], [COMPLETE]])
    async with serve(script) as server, browsing(server) as window, browsing(server) as other:
        await extract_until_approval(server, await server.upload_text(TEXT), "complete_extraction")
        card = label("approvals.card")
        approve = {
            one: one.page.get_by_role("region", name=card).get_by_role("button", name="Approve 1")
            for one in (window, other)
        }
        for one in (window, other):
            await one.open("/approvals")
            await approve[one].wait_for()
        await approve[window].click()
        await approve[other].wait_for(state="detached")
        await other.page.get_by_role("heading", name=label("inbox.done")).wait_for()


@pytest.mark.story
async def test_values_of_two_models_are_answers_with_their_boxes(serve, browsing):
    printed = "Invoice 17\nTotal: 12.50\nAmount due: 21.50\n"
    schema = {"type": "object", "properties": {"total": {"type": "number"}}}
    first = Script([[call("extract_fields", {"fields": {"total": 12.5}, "summary": "Done."})]])

    async def second(body):
        return [call("submit_reading", {"fields": {"total": 21.5}})]

    async with OfflineModel(second) as other:
        settings = {"second_model": "gpt-6", "second_base_url": other.base_url, "second_auth_token": "token"}
        async with serve(first, **settings) as server, browsing(server) as window:
            page = window.page
            organisation = f"/api/organisations/{server.scope.org_id}"
            assert (await server.http.patch(organisation, json={"second_reading": "all"})).status_code == 200
            read = [
                (await server.extract(await server.upload_text(printed, name), schema=schema))["extraction"]["id"]
                for name in ("a.txt", "b.txt")
            ]
            await window.open("/inbox")
            # The key 2 takes the value of the second model, the key 1 keeps the first.
            for key in ("2", "1"):
                asked = question(page, "Total")
                await asked.get_by_text(label("fields.why.second_reading")).wait_for()
                await asked.get_by_role("button", name="12.50").wait_for()
                await asked.get_by_role("button", name="21.50").wait_for()
                for number in ("1", "2"):
                    await page.locator(f"[data-page='1'] [data-path=' answer {number}']").wait_for(state="attached")
                await page.keyboard.press(key)

                async def is_answered(left: int = int(key) - 1) -> bool:
                    return len((await server.get("inbox?kind=value"))["items"]) == left

                await until(is_answered)
            totals = sorted([(await server.extraction(one))["extracted_fields"]["total"] for one in read])
            assert totals == [12.5, 21.5]
