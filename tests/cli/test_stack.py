"""`fieldmark stack`: which files of a folder it uploads, and what a second run does."""

from __future__ import annotations

import json
import zipfile

import pytest

from fieldmark.agents.registry import answer_offline
from fieldmark.cli.process import LOCAL_USER

pytestmark = pytest.mark.anyio

INVOICE = "Invoice number: R-1\nVendor: Firm GmbH\nTotal: 10.50 EUR\n"


async def test_files_that_cannot_be_uploaded_are_reported_and_a_second_run_uploads_nothing_again(commands):
    async with commands(answer_offline, max_file_mb=1) as fieldmark:
        folder = fieldmark.folder / "inbox"
        (folder / "deeper").mkdir(parents=True)
        fieldmark.file("Secret: 1\n", "outside.txt")
        fieldmark.file(INVOICE, "inbox/1.txt")
        # The service changes such a name.
        fieldmark.file(INVOICE.replace("R-1", "R-2"), b"inbox/deeper/\xff\x1b[31m.txt")
        fieldmark.file("Hidden: 1\n", "inbox/.hidden.txt")
        with zipfile.ZipFile(folder / "more.zip", "w") as archive:
            archive.writestr("3.txt", INVOICE.replace("R-1", "R-3"))
            archive.writestr("copy.txt", INVOICE)
        fieldmark.file(b"x" * 2_000_000, "inbox/large.txt")
        (folder / "link.txt").symlink_to(fieldmark.folder / "outside.txt")
        (folder / "linked").symlink_to(fieldmark.folder)
        for columns in ("total:number", "total:number,vendor"):
            done = await fieldmark.run("stack", "inbox", "--columns", columns, "--out", "inbox/table.csv", "--json")
            report = json.loads(done.out)
            assert done.code == 1, done.err
            assert {one["file"] for one in report["not_uploaded"]} == {
                "inbox/large.txt",
                "inbox/link.txt",
                "inbox/linked",
            }
            counts = {name: report["progress"][name] for name in ("documents", "done", "duplicates", "containers")}
            assert counts == {"documents": 5, "done": 3, "duplicates": 1, "containers": 1}, report
            assert "\x1b" not in done.err
            if columns == "total:number":
                described = {"columns": [{"name": "total", "type": "number", "description": "With tax."}]}
                async with fieldmark.server.client(LOCAL_USER) as http:
                    changed = await http.put(f"/api/stacks/{report['id']}/columns", json=described)
                assert changed.status_code == 200, changed.text
        # The table itself is no document, and a column that stays keeps its description.
        assert (folder / "table.csv").read_text("utf-8-sig").count("10.5") == 3
        assert [one["description"] for one in report["columns"]] == ["With tax.", None]


async def test_table_that_is_not_filled_exits_1(commands):
    async with commands(answer_offline) as fieldmark:
        (fieldmark.folder / "inbox").mkdir()
        fieldmark.file("Nothing with a label.\n", "inbox/1.txt")
        done = await fieldmark.run("stack", "inbox", "--yes", "--json")
        assert json.loads(done.out)["progress"]["waiting"] == 1
        assert done.code == 1, done.err
