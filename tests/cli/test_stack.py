"""`fieldmark stack`: which files of a folder it uploads, and what a second run does."""

from __future__ import annotations

import json
import re
import zipfile
from typing import Any

import pytest

from fieldmark.agents.registry import answer_offline
from fieldmark.cli.process import LOCAL_USER
from fieldmark.offline_model.messages import Turn, call

pytestmark = pytest.mark.anyio

COUNTED = ("documents", "done", "incomplete", "failed", "unreadable", "duplicates", "containers")
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
        fieldmark.file("Nothing with a label.\n", "inbox/4.txt")
        fieldmark.file(b"%PDF-1.7 broken", "inbox/broken.pdf")
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
            counts = {name: report["progress"][name] for name in COUNTED}
            assert counts == dict.fromkeys(COUNTED, 1) | {"documents": 7, "done": 3}, report
            assert [one["duplicate_of_filename"] for one in report["duplicates"]] == ["1.txt"]
            # The bars of both steps end, and the last line says how many.
            ended = [re.findall(r"\d+", line)[:2] for line in done.err.splitlines() if "█" * 20 in line]
            assert all(read == total for read, total in ended) and ended[-1] == ["5", "5"], done.err
            assert len(ended) == (2 if columns == "total:number" else 1), done.err
            assert "\x1b" not in done.err
            if columns == "total:number":
                described = {"columns": [{"name": "total", "type": "number", "description": "With tax."}]}
                async with fieldmark.server.client(LOCAL_USER) as http:
                    changed = await http.put(f"/api/stacks/{report['id']}/columns", json=described)
                assert changed.status_code == 200, changed.text
        shown = (await fieldmark.run("stack", "inbox", "--out", "inbox/table.csv")).err
        (summary,) = [line for line in shown.splitlines() if line.startswith("inbox: ")]
        # The documents; those read, incomplete, failed, duplicate and archive; files outside of the stack.
        numbers = [int(number) for number in re.findall(r"\b\d+\b", summary.split("$")[0])]
        assert numbers == [7, 3, 1, 1, 1, 1, 3], shown
        assert numbers[0] == sum(numbers[1:6])
        assert [one["filename"] for one in report["incomplete"]] == ["4.txt"]
        assert "copy.txt: a copy of 1.txt" in shown and shown.count("damaged") == 1
        asked = await fieldmark.run("ask", "--stack", "inbox", "how many documents are there?")
        assert asked.code == 0 and "stack inbox" in asked.out, asked.err
        # The table itself is no document, and a column that stays keeps its description.
        assert (folder / "table.csv").read_text("utf-8-sig").count("10.5") == 3
        assert [one["description"] for one in report["columns"]] == ["With tax.", None]


async def test_empty_folder_and_empty_name_are_refused_before_a_stack_is_created(commands):
    async with commands(answer_offline) as fieldmark:
        (fieldmark.folder / "inbox").mkdir()
        fieldmark.file("Hidden: 1\n", "inbox/.hidden.txt")
        empty = await fieldmark.run("stack", "inbox")
        assert empty.code == 2 and "inbox" in empty.err, empty.err
        fieldmark.file(INVOICE, "inbox/1.txt")
        for name in ("", " "):
            assert (await fieldmark.run("stack", "inbox", "--name", name)).code == 2
        assert fieldmark.sql("select from public.stacks") == []


@pytest.mark.parametrize("options", [[], ["--yes"]])
async def test_command_with_columns_reads_without_asking_but_asks_before_the_agent_changes_columns(commands, options):
    other = call("define_columns", {"columns": [{"name": "other"}]})

    def answer(body: Any) -> Turn:
        turn = answer_offline(body)
        completes = any(getattr(one, "name", "") == "complete_table" for one in turn.blocks)
        return Turn([other]) if completes and other.name not in json.dumps(body["messages"]) else turn

    async with commands(answer) as fieldmark:
        (fieldmark.folder / "inbox").mkdir()
        fieldmark.file(INVOICE, "inbox/1.txt")
        done = await fieldmark.run("stack", "inbox", "--columns", "total:number", "--json", *options)
        report = json.loads(done.out)
        (names,) = {tuple(one["name"] for one in report["columns"])}
        assert names == (("other",) if options else ("total",)), done.err
        calls = fieldmark.sql("select tool, status from public.tool_calls where tool ~ '^(define|extract_row)'")
        expected = {"extract_row": "done", "define_columns": "done" if options else "pending"}
        assert {one["tool"]: one["status"] for one in calls} == expected
        assert done.code == (1 if options else 4), done.err


async def test_columns_that_would_remove_others_are_set_only_with_a_yes(commands):
    async with commands(answer_offline) as fieldmark:
        (fieldmark.folder / "inbox").mkdir()
        fieldmark.file(INVOICE, "inbox/1.txt")

        async def set_columns(columns: str, *options: str, typed: str = "") -> tuple[int | None, bool, bool]:
            """Return the exit code, whether the removal was announced, and whether `total` is a column afterwards."""
            done = await fieldmark.run("stack", "inbox", "--columns", columns, *options, stdin=typed)
            (names,) = fieldmark.sql(_COLUMNS)
            return done.code, "removes total " in done.err, "total" in names["keys"]

        assert await set_columns("total:number") == (0, False, True)
        assert await set_columns("total:number,invoice_number") == (0, False, True)
        assert await set_columns("invoice_number") == (1, True, True)
        assert await set_columns("invoice_number", typed="y\n") == (0, True, False)
        assert await set_columns("total:number,invoice_number") == (0, False, True)
        assert await set_columns("invoice_number", "--yes") == (0, False, False)


_COLUMNS = """select array(select json_object_keys(schema -> 'properties')) as keys
    from public.schema_versions order by number desc limit 1"""


async def test_table_that_is_not_filled_exits_1(commands):
    async with commands(answer_offline) as fieldmark:
        (fieldmark.folder / "inbox").mkdir()
        fieldmark.file("Nothing with a label.\n", "inbox/1.txt")
        done = await fieldmark.run("stack", "inbox", "--yes", "--json")
        assert json.loads(done.out)["progress"]["waiting"] == 1
        assert done.code == 1, done.err
