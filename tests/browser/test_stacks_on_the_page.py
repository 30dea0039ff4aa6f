"""A stack: created, its columns suggested, approved and changed, its table filled, a failed row shown, and rows that a
second person approves."""

from __future__ import annotations

import pytest

from browser.window import label, playwright
from extraction_case import add_member, sql, until
from fieldmark.agents.registry import answer_offline
from valuegrounding.measures import UNITS

pytestmark = [pytest.mark.anyio, pytest.mark.long]


def invoice(number: int) -> bytes:
    return f"Invoice number: R-{number}\nVendor: Firm {number} GmbH\nTotal: {number}0.50 EUR\n".encode()


async def test_stack_is_created_filled_and_changed(serve, browsing, clone):
    async with serve(answer_offline) as server, browsing(server) as window:
        page = window.page
        await server.upload_text(invoice(1).decode(), "1.txt")
        await window.open("/stacks")
        await page.get_by_role("button", name=label("stacks.new")).click()
        await page.get_by_label(label("stacks.name"), exact=True).fill("Invoices")
        await page.get_by_role("button", name=label("stacks.chooseDocuments")).click()
        await page.get_by_role("checkbox", name="1.txt").check()
        await page.get_by_label(label("documents.files")).set_input_files(
            [
                {"name": "2.txt", "mimeType": "text/plain", "buffer": invoice(2)},
                {"name": "note.txt", "mimeType": "text/plain", "buffer": b"Nothing with a label.\n"},
                {"name": "broken.pdf", "mimeType": "application/pdf", "buffer": b"%PDF-1.7 broken"},
            ]
        )
        await page.get_by_role("button", name=label("stacks.create")).click()
        grid = page.get_by_role("grid", name="Invoices")
        failed = label("statuses.failed")
        await grid.get_by_role("row", name="broken.pdf").get_by_text(failed).wait_for()
        await grid.get_by_role("row", name="2.txt").get_by_text(label("statuses.waiting")).wait_for()
        stack = (await server.get("stacks"))["items"][0]
        assert stack["progress"]["documents"] == 4

        await page.get_by_text(label("stacks.noColumnsHint")).wait_for()

        # Why a row failed is in the row, and complete at its status, by keys too.
        why = (await server.get(f"tables/{stack['id']}/rows?row_status=failed"))["items"][0]["error"]
        await grid.get_by_role("row", name="broken.pdf").get_by_text(why).wait_for()
        await grid.get_by_role("row", name="broken.pdf").get_by_text(failed).click()
        beside = page.get_by_role("complementary", name=label("tables.pane"))
        await beside.get_by_text(why).wait_for()
        for key, state in (("Enter", "detached"), ("Space", "visible"), ("Escape", "detached"), ("Enter", "visible")):
            await page.keyboard.press(key)
            await beside.wait_for(state=state)

        # The run asks for the columns, then for reading the rest.
        await page.get_by_role("button", name=label("stacks.fill")).first.click()

        rows = page.get_by_role("list", name="Invoices").locator("..")

        async def is_high() -> bool:
            return (await rows.bounding_box())["height"] > 150

        for tool in ("define_columns", "extract_row"):
            card = page.get_by_role("region", name=label("approvals.card")).filter(has_text=label(f"tools.{tool}"))
            await card.wait_for()
            # On a phone there is room for the table beside it: the page scrolls.
            await page.set_viewport_size({"width": 380, "height": 480})
            await until(is_high)
            await page.set_viewport_size({"width": 1280, "height": 800})
            await card.get_by_role("button", name=label("approvals.approve"), exact=True).click()
        await grid.get_by_role("row", name="2.txt").get_by_text("20.5", exact=False).wait_for()
        await grid.get_by_role("row", name="broken.pdf").get_by_text(why).wait_for()

        # A row to which nothing was written says so, and is read again: by its status, and with others.
        note = grid.get_by_role("row", name="note.txt")
        await note.get_by_text(label("fields.statuses.not_written"), exact=True).first.wait_for(state="attached")
        await page.get_by_role("button", name=label("stacks.fillRest", count=1)).wait_for()
        incomplete = label("statuses.incomplete")
        again = label("tables.readAgain")
        for readings in (2, 3):
            await note.get_by_text(incomplete).wait_for()
            if readings == 2:
                # Rows that end meanwhile change their order: the click may come to another one.
                while not await beside.get_by_text("note.txt").first.is_visible():
                    await note.get_by_text(incomplete).click()
                    await page.wait_for_timeout(500)
                await beside.get_by_role("button", name=again).click()
            else:
                await note.get_by_role("checkbox").check()
                await page.get_by_role("toolbar").get_by_role("button", name=again).click()
            await page.get_by_text(label("tables.rowsReadAgain", count=1)).wait_for()
            await until(lambda count=2 + readings: ended_readings(clone, count))
        assert len(sql(clone.owner_url, "select id from public.extractions")) == 3

        await note.get_by_text(incomplete).wait_for()
        # A row in a state is found by it.
        await page.get_by_role("button", name=f"1 {failed}", exact=True).click()
        await until(lambda: names_are(grid, ["broken.pdf"]))
        await page.get_by_role("button", name=f"1 {failed}", exact=True).click()
        await until(lambda: names_are(grid, ["broken.pdf", "note.txt", "1.txt", "2.txt"]))

        # A change of the columns shows what it means before it is made.
        await page.get_by_role("button", name=label("stacks.actions")).click()
        await page.get_by_role("menuitem", name=label("stacks.columns")).click()
        await page.get_by_role("button", name=label("stacks.addColumn")).click()
        names = page.get_by_label(label("stacks.columnName"))
        await playwright.expect(names.last).to_be_focused()
        first = await names.first.input_value()
        await names.last.fill(f"{first.upper()}.")
        save = page.get_by_role("button", name=label("stacks.saveColumns"))
        await page.get_by_text(label("stacks.sameColumns", one=first, other=f"{first.upper()}.")).wait_for()
        invalid = [await one.get_attribute("aria-invalid") for one in await names.all()]
        assert (invalid[0], invalid[-1], invalid.count("true")) == ("true", "true", 2)
        await playwright.expect(save).to_be_disabled()
        await names.last.fill("iban")
        await page.locator("[aria-invalid=true]").wait_for(state="detached")
        # Numbers can have a unit: those of the API.
        unit = page.get_by_label(label("stacks.columnUnit"))
        texts = await unit.count()
        await page.get_by_label(label("stacks.columnType")).last.select_option("number")
        options = await unit.last.locator("option").all()
        assert [await one.get_attribute("value") for one in options] == ["", *UNITS]
        await unit.last.select_option("kg")
        await page.get_by_label(label("stacks.columnType")).last.select_option("text")
        await playwright.expect(unit).to_have_count(texts)
        await save.click()
        await page.get_by_text(label("stacks.rowsOutdated", count=3)).wait_for()
        assert not [one for one in await columns(server, stack["id"]) if one == "iban"]
        await page.get_by_role("button", name=label("stacks.applyColumns")).click()
        await page.get_by_role("button", name=f"3 {label('statuses.stale')}").wait_for()
        assert "iban" in await columns(server, stack["id"])
        await grid.get_by_role("columnheader", name="IBAN").wait_for()

        # The values that a run replaced are confirmed or restored, and the dialog shows which it was.
        message = {"stack_id": stack["id"], "message": "set total of 2.txt to 21", "approval": "auto"}
        assert (await server.http.post("/api/agent/stack_correct", json=message)).json()["status"] == "completed"
        (change,) = (await server.get(f"stacks/{stack['id']}/changes"))["items"]
        lock = f"/api/extractions/{change['extraction_id']}/locks"
        assert (await server.http.delete(lock, params={"path": change["path"]})).status_code == 200
        await page.get_by_role("button", name=label("stacks.actions")).click()
        await page.get_by_role("menuitem", name=label("stacks.changes")).click()
        row = page.get_by_role("dialog", name=label("stacks.changes")).get_by_role("row", name="2.txt")
        await row.wait_for()
        await playwright.expect(row.locator("del")).to_have_text(["20.5"])
        await row.get_by_role("button", name=label("stacks.keepNew"), exact=False).click()
        await row.get_by_text(label("stacks.changeStates.confirmed")).wait_for()
        await row.get_by_role("button", name=label("stacks.restoreOld"), exact=False).click()
        await row.get_by_text(label("stacks.changeStates.restored")).wait_for()
        await playwright.expect(row.locator("del")).to_have_text(["21"])
        await page.keyboard.press("Escape")

        # A colleague starts the next run. If a second person must approve, the rows wait, and are approved together.
        colleague = add_member(clone.owner_url, server.scope.org_id)
        changed = await server.http.patch(f"/api/organisations/{server.scope.org_id}", json={"second_person": True})
        assert changed.status_code == 200, changed.text
        async with server.client(colleague) as other:
            other.headers["X-Org-Id"] = str(server.scope.org_id)
            started = await other.post("/api/agent/stack", json={"stack_id": stack["id"], "wait": False})
            assert started.status_code == 202, started.text
        await page.reload()
        card = page.get_by_role("region", name=label("approvals.card")).filter(has_text=label("tools.extract_row"))
        await card.get_by_role("button", name=label("approvals.approve"), exact=True).wait_for()
        await playwright.expect(card.get_by_role("button", name=label("common.edit"), exact=True)).to_have_count(0)
        await card.get_by_role("button", name=label("approvals.approve"), exact=True).click()
        await page.get_by_text(label("stacks.rowsWait", count=2)).wait_for()
        await page.get_by_role("button", name=label("stacks.lookAtRows")).click()
        dialog = page.get_by_role("dialog", name=label("stacks.rowsToApprove", count=2))
        await dialog.get_by_role("link", name="2.txt").wait_for()
        await dialog.get_by_role("button", name=label("stacks.approveRows", count=2)).click()
        await dialog.wait_for(state="detached")

        # Questions about the stack: it stays in the address, also of the answer.
        await page.get_by_role("button", name=label("stacks.actions")).click()
        await page.get_by_role("menuitem", name=label("stacks.ask")).click()
        await page.get_by_role("combobox", name=f"{label('ask.about')}: Invoices").wait_for()
        await page.get_by_label(label("ask.question")).fill("How many invoices are there?")
        await page.keyboard.press("Enter")
        await page.wait_for_url(f"**/ask?*stack={stack['id']}&thread=*")
        asked = "select input -> 'filters' ->> 'stack_id' as id from public.runs where agent = 'library'"
        assert sql(clone.owner_url, asked) == [{"id": stack["id"]}]


async def ended_readings(clone, count: int) -> bool:
    """Return whether this many runs that read a row were started, and all ended."""
    runs = sql(clone.owner_url, "select status from public.runs where task = 'extract'")
    return [one["status"] for one in runs] == ["completed"] * count


async def names_are(grid, expected: list[str]) -> bool:
    shown = await grid.locator("[role=gridcell][aria-colindex='2'] a").all_inner_texts()
    return sorted(shown) == sorted(expected)


async def columns(server, stack_id: str) -> list[str]:
    return [one["name"] for one in (await server.get(f"stacks/{stack_id}"))["columns"]]
