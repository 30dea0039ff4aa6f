"""The archive, and new files: from a drop to a filled table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from browser.window import label, playwright
from encrypted_files import NEW_PDF, PASSWORD
from extraction_case import until
from fieldmark.agents.registry import answer_offline

pytestmark = pytest.mark.anyio

RECEIPT = "{0} Hardware Ltd\nRECEIPT\nReceipt no: {1}\nDate: 13.09.2026\nTotal: {1}.29\n"
NOTE = "DELIVERY NOTE\nSupplier: Tarn\nNote no.: DN-{0}\nPallets: {0}\nDriver: R. Haas\nOrder no.: PO-{0}\n"


def write_files(folder: Path, **texts: str) -> list[Path]:
    files = [folder / f"{name}.txt" for name in texts]
    for file, text in zip(files, texts.values(), strict=True):
        file.write_text(text)
    return files


async def add(page: Any, files: list[Path]) -> Any:
    """Choose files and return the panel that asks where they belong."""
    await page.get_by_label(label("adding.files")).set_input_files(files)
    panel = page.get_by_role("dialog", name=label("adding.title", count=len(files)))
    await panel.wait_for()
    return panel


async def test_receipts_become_one_table_in_two_clicks(serve, browsing, tmp_path):
    receipts = {f"r{at}": RECEIPT.format(name, at) for at, name in enumerate(("Pennywise", "Corner", "Lark"), 1)}
    files = write_files(tmp_path, **receipts, n1=NOTE.format(1), n2=NOTE.format(2), copy=receipts["r1"])
    (tmp_path / "locked.pdf").write_bytes(NEW_PDF)
    async with serve(answer_offline) as server, browsing(server, viewport={"width": 1440, "height": 900}) as window:
        page = window.page
        await window.open("/home")
        panel = await add(page, [*files, tmp_path / "locked.pdf"])
        group = panel.get_by_role("group", name=label("adding.kinds.receipt", count=3))
        await group.get_by_role("cell", name="Pennywise Hardware Ltd").wait_for()
        await panel.get_by_text(label("adding.sameBytes", names="r1.txt")).wait_for()
        # A column is renamed, another left out.
        await group.get_by_role("button", name="Date").click()
        await page.get_by_label(label("adding.columnName")).fill("bought_on")
        await page.keyboard.press("Enter")
        await group.get_by_role("button", name="Receipt number").click()
        await page.get_by_role("button", name=label("adding.leaveOut")).click()
        # The delivery notes are only stored; the locked file is opened.
        await panel.get_by_role("combobox", name="Delivery note").click()
        await page.get_by_role("option", name=label("adding.onlyStore")).click()
        await panel.get_by_label(label("adding.passwordOf", name="locked.pdf")).fill(PASSWORD)
        await panel.get_by_role("button", name=label("adding.open")).click()
        # It is a group of its own, without a table.
        alone = panel.get_by_role("group", name=label("adding.kinds.document", count=1))
        await alone.get_by_role("combobox").click()
        await page.get_by_role("option", name=label("adding.onlyStore")).click()
        await panel.get_by_role("button", name=label("adding.read", count=3)).click()

        await page.wait_for_url("**/tables/*")
        (stack,) = (await server.get("stacks"))["items"]
        assert stack["name"] == "Receipts"
        assert [one["name"] for one in stack["columns"]] == ["vendor", "bought_on", "total"]
        assert [one["name"] for one in (await server.get("schemas"))["items"]] == ["Receipts"]

        async def is_done() -> bool:
            return (await server.get(f"stacks/{stack['id']}"))["progress"]["done"] == 3

        await until(is_done)
        names = sorted(one["filename"] for one in (await server.get("documents"))["items"])
        assert names == ["locked.pdf", "n1.txt", "n2.txt", "r1.txt", "r2.txt", "r3.txt"]

        # One undo takes back one paste.
        async def has_vendors(*expected: str) -> bool:
            rows = (await server.get(f"tables/{stack['id']}/rows"))["items"]
            return sorted(one["cells"]["vendor"]["value"] for one in rows) == sorted(expected)

        read = ("Pennywise Hardware Ltd", "Corner Hardware Ltd", "Lark Hardware Ltd")
        await until(lambda: has_vendors(*read))
        await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        await page.evaluate("() => navigator.clipboard.writeText('One\\nTwo\\nThree')")
        grid = page.get_by_role("grid", name="Receipts")
        await grid.get_by_role("row").nth(1).get_by_text("Hardware Ltd").click()
        await page.keyboard.press("Control+v")
        await until(lambda: has_vendors("One", "Two", "Three"))
        await page.keyboard.press("Control+z")
        await until(lambda: has_vendors(*read))

        # The next receipt belongs to this table: one click.
        panel = await add(page, write_files(tmp_path, r4=RECEIPT.format("Vela", 4)))
        await panel.get_by_text("Receipts").first.wait_for()
        await (
            panel.get_by_role("button", name=label("adding.readCost", count=1, cost="less than $0.01"))
            .or_(panel.get_by_role("button", name=label("adding.read", count=1)))
            .click()
        )
        await panel.wait_for(state="detached")
        await until(lambda: progress(server, stack["id"], 4))


async def test_a_rule_suggests_where_a_dropped_file_belongs_and_the_person_decides(serve, browsing, tmp_path):
    files = write_files(tmp_path, r1=RECEIPT.format("Corner", 1), n1=NOTE.format(1))
    async with serve(answer_offline) as server, browsing(server) as window:
        page = window.page
        schema = {"type": "object", "properties": {"total": {"type": "number"}}}
        stored = (await server.http.post("/api/schemas", json={"name": "Purchases", "schema": schema})).json()
        rules = {"items": [{"filename": "*", "schema_id": stored["id"]}]}
        path = f"/api/organisations/{server.scope.org_id}/upload_rules"
        (await server.http.put(path, json=rules)).raise_for_status()
        await window.open("/home")
        panel = await add(page, files)
        receipt = panel.get_by_role("group", name=label("adding.kinds.receipt", count=1))
        note = panel.get_by_role("group", name=label("adding.kinds.document", count=1))
        for group in (receipt, note):
            await group.get_by_text(label("adding.byRule", name="Purchases")).wait_for()
            await playwright.expect(group.get_by_role("combobox")).to_have_text("Purchases")
        assert (await server.get("runs"))["items"] == []
        await note.get_by_role("combobox").click()
        await page.get_by_role("option", name=label("adding.onlyStore")).click()
        await panel.get_by_role("button", name=label("adding.read", count=1)).click()
        await panel.wait_for(state="detached")
        (run,) = (await server.get("runs"))["items"]
        assert (await server.extraction(run["extraction_id"]))["schema_revid"] == stored["schema_revid"]
        assert (await server.get(f"documents/{run['document_id']}"))["filename"] == "r1.txt"


async def progress(server: Any, stack_id: str, done: int) -> bool:
    return (await server.get(f"stacks/{stack_id}"))["progress"]["done"] == done


async def test_archive_shows_tables_and_values_and_acts_on_chosen_documents(serve, browsing):
    async with serve(answer_offline) as server, browsing(server) as window:
        page = window.page
        ids = [str(await server.upload_text(RECEIPT.format("Corner", at), f"r{at}.txt")) for at in (1, 2, 3)]
        await server.extract(ids[0])
        await window.open("/documents")
        row = page.get_by_role("row").filter(has_text="r1.txt")
        await row.get_by_role("cell", name="1.29").wait_for()
        # Sorted by name: the address says so, and so does the order.
        await page.get_by_role("button", name=label("documents.sortedBy", order="Newest")).click()
        await page.get_by_role("menuitem", name=label("documents.orders.name")).click()
        await page.wait_for_url("**/documents?sort=name")
        await page.get_by_role("row").nth(1).get_by_text("r1.txt").wait_for()
        # A range by keyboard and mouse; a tag for both.
        await page.get_by_role("checkbox", name=label("documents.choose", name="r2.txt")).press("Space")
        await page.get_by_role("checkbox", name=label("documents.choose", name="r3.txt")).click(modifiers=["Shift"])
        bar = page.get_by_role("toolbar", name=label("common.selection.title"))
        await bar.get_by_text(label("common.selection.count", count=2)).wait_for()
        await bar.get_by_role("button", name=label("documents.tag")).click()
        await page.get_by_label(label("documents.bulk.newTag")).first.fill("paid")
        await page.keyboard.press("Enter")
        await page.get_by_text(label("documents.bulk.tagged", count=2, name="paid")).wait_for()
        tagged = [one for one in (await server.get("documents"))["items"] if one["tags"]]
        assert sorted(one["id"] for one in tagged) == sorted(ids[1:])
        # Deleting can be undone; the chosen documents can be added to a table.
        await page.get_by_role("checkbox", name=label("documents.chooseAll")).click()
        await bar.get_by_role("button", name=label("common.delete")).click()
        await page.get_by_role("heading", name=label("documents.dropHere")).wait_for()
        await page.get_by_role("button", name=label("common.undo")).click()
        await row.wait_for()
        await page.get_by_role("checkbox", name=label("documents.chooseAll")).click()
        await bar.get_by_role("button", name=label("documents.bulk.addToTable")).click()
        panel = page.get_by_role("dialog", name=label("adding.toTable", count=3))
        await panel.get_by_role("group", name=label("adding.kinds.receipt", count=3)).wait_for()
        await page.keyboard.press("Escape")
        await panel.wait_for(state="detached")
        assert len((await server.get("documents"))["items"]) == 3
