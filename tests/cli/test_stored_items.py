"""Schemas, prompts and tags on the command line."""

from __future__ import annotations

import json
import zipfile

import pytest

from fieldmark.offline_model.messages import call, text
from fieldmark.services.schema_templates import schema_templates
from fieldmark.testing.script import Script, repeat_forever

pytestmark = pytest.mark.anyio

SCHEMA = {"type": "object", "properties": {"total": {"type": "number"}}}
EXTENDED_SCHEMA = {"type": "object", "properties": {"total": {"type": "number"}, "number": {"type": "string"}}}
SOME_ID = "00000000-0000-4000-8000-000000000000"
HOSTILE = "[bold red]<b>x"


async def test_a_schema_is_made_from_a_template(commands):
    async with commands(Script([])) as fieldmark:
        made = await fieldmark.run("schema", "push", "--template", "purchase order")
        assert made.code == 0, made.err
        shown = await fieldmark.run("schema", "show", "purchase order", "--json")
        templates = {one.name: one.schema for one in schema_templates()}
        assert json.loads(shown.out)["schema"] == templates["purchase_order"]
        named = await fieldmark.run("schema", "push", "--template", "invoice", "--name", "Bills")
        assert named.code == 0 and (await fieldmark.run("schema", "show", "Bills")).code == 0
        assert (await fieldmark.run("schema", "push", "--template", "nothing")).code == 1
        file = fieldmark.file("{}", "a.json")
        for wrong in ((), (file, "--template", "invoice")):
            assert (await fieldmark.run("schema", "push", *wrong)).code == 2


async def test_schema_is_pushed_listed_and_shown_by_version(commands):
    async with commands(Script([])) as fieldmark:
        file = fieldmark.file(json.dumps(SCHEMA), "Invoice.schema.json")
        first = await fieldmark.run("schema", "push", file)
        assert first.code == 0, first.err
        assert (await fieldmark.run("schema", "push", file)).out == first.out
        extended = fieldmark.file(json.dumps(EXTENDED_SCHEMA), "longer.json")
        second = await fieldmark.run("schema", "push", extended, "--name", "invoice")
        rows = fieldmark.sql("select id::text, number, schema from public.schema_versions order by number")
        assert [row["id"] for row in rows] == [first.out.strip(), second.out.strip()]
        assert [row["schema"] for row in rows] == [SCHEMA, EXTENDED_SCHEMA]
        # The output can be edited and pushed again.
        assert json.loads((await fieldmark.run("schema", "show", "INVOICE")).out) == EXTENDED_SCHEMA
        shown = await fieldmark.run("schema", "show", "Invoice", "--version", "1")
        assert json.loads(shown.out) == SCHEMA and "version 1" in shown.err
        item = fieldmark.sql("select id::text from public.schemas")[0]["id"]
        for some_id, expected in ((item, EXTENDED_SCHEMA), (first.out.strip(), SCHEMA)):
            assert json.loads((await fieldmark.run("schema", "show", some_id)).out) == expected
        for arguments, said in (
            (("show", "Receipt"), "Receipt"),
            (("show", SOME_ID), SOME_ID),
            (("show", "Invoice", "--version", "3"), "version 3"),
            (("push", extended, "--name", "two\nlines"), "[invalid]"),
        ):
            refused = await fieldmark.run("schema", *arguments)
            assert refused.code == 1 and said in refused.err, refused.err
        # Control characters in names are escaped.
        assert (await fieldmark.run("schema", "push", file, "--name", HOSTILE)).code == 0
        listed = (await fieldmark.run("schema", "list")).out
        assert HOSTILE in listed and "version 2" in listed
        listed = (await fieldmark.run("schema", "list", "--name", "VOI")).out
        assert item in listed and len(listed.splitlines()) == 1
        assert HOSTILE in (await fieldmark.run("schema", "show", HOSTILE)).err


async def test_table_of_a_schema_is_printed_and_written_to_a_file(commands, tmp_path):
    values = [call("extract_fields", {"fields": {"total": 10.0}}), call("complete_extraction", {"summary": "Read."})]
    async with commands(Script([values, [text("Done.")]])) as fieldmark:
        assert (await fieldmark.run("schema", "push", fieldmark.file(json.dumps(SCHEMA), "Invoice.json"))).code == 0
        empty = await fieldmark.run("table", "Invoice")
        assert (empty.code, empty.out) == (0, "")
        assert (await fieldmark.run("extract", fieldmark.file(), "--schema", "Invoice")).code == 0
        printed = await fieldmark.run("table", "invoice", "--where", "total > 5")
        assert [line.split() for line in printed.out.splitlines()] == [
            ["document", "to", "review", "total"],
            ["a.txt", "10"],
        ]
        (record,) = map(json.loads, (await fieldmark.run("table", "Invoice", "--json")).out.splitlines())
        assert (record["filename"], record["cells"]["total"]["value"]) == ("a.txt", 10)
        for status, number in (("needs_review", 0), ("found", 1)):
            filtered = await fieldmark.run("table", "Invoice", "--status", status, "--column", "total", "--json")
            assert (status, len(filtered.out.splitlines())) == (status, number)
        marked = json.loads((await fieldmark.run("table", "Invoice", "--marks", "--json")).out)
        assert marked["marks"] == []
        assert (await fieldmark.run("table", "Invoice", "--marks")).out.split()[-3:] == ["marks", "a.txt", "10"]
        assert "security_invoker" in (await fieldmark.run("view", "Invoice")).out
        file = tmp_path / "all.csv"
        assert (await fieldmark.run("table", "Invoice", "--out", str(file))).code == 0
        written = file.read_text("utf-8-sig").splitlines()[1].split(",")
        assert written[1:] == ["a.txt", "", "done", "false", "0", "", "", "", "10"]
        for arguments, code in (
            (("Receipt",), 1),
            (("Invoice", "--sort", "vendor"), 1),
            (("Invoice", "--out", "a.pdf"), 2),
        ):
            assert (await fieldmark.run("table", *arguments)).code == code


async def test_quality_of_a_table_is_printed_with_the_values_behind_each_number(commands):
    values = [call("extract_fields", {"fields": {"total": 10.0}}), call("complete_extraction", {"summary": "Read."})]
    async with commands(Script([values, [text("Done.")]])) as fieldmark:
        assert (await fieldmark.run("schema", "push", fieldmark.file(json.dumps(SCHEMA), "Invoice.json"))).code == 0
        read = await fieldmark.run("extract", fieldmark.file(), "--schema", "Invoice", "--json")
        assert read.code == 0, read.err
        printed = await fieldmark.run("quality", "invoice")
        header, total, claim = printed.out.splitlines()
        assert (header.split()[:2], total.split()) == (["column", "filled"], ["total", "100%", "0", "0", "0"])
        found = json.loads((await fieldmark.run("quality", "Invoice", "--json")).out)
        assert (found["documents"], found["filled"]) == (1, 1)
        assert claim.startswith(f"{found['review']['claim']['values']} values")
        assert (await fieldmark.run("quality", "Invoice", "--show", "filled")).out.split() == ["a.txt", "total", "10"]
        (value,) = (await fieldmark.run("quality", "Invoice", "--show", "filled", "--json")).out.splitlines()
        assert json.loads(value)["path"] == "total"
        assert (await fieldmark.run("quality", "Invoice", "--show", "corrected")).out == ""
        assert [(await fieldmark.run("quality", *one)).code for one in (("Receipt",), ("Invoice", "--show", "x"))] == [
            1,
            2,
        ]


async def test_extract_uses_stored_items_by_name(commands):
    async with commands(Script([repeat_forever([text("Done.")])])) as fieldmark:
        document = fieldmark.file()
        revid = (await fieldmark.run("schema", "push", fieldmark.file(json.dumps(SCHEMA), "Invoice.json"))).out.strip()
        (version,) = fieldmark.sql("select org_id, schema_id from public.schema_versions")
        fieldmark.sql("insert into public.prompts (org_id, name) values (%s, 'Bills')", version["org_id"])
        fieldmark.sql(
            """insert into public.prompt_versions (org_id, prompt_id, number, name, content, schema_id)
               select org_id, id, 1, name, 'Read the total.', %s from public.prompts""",
            version["schema_id"],
        )
        for kind in ("schema", "prompt"):
            refused = await fieldmark.run("extract", document, f"--{kind}", "Receipt")
            assert refused.code == 1 and "Receipt" in refused.err
        # Rejected commands uploaded nothing.
        assert fieldmark.sql("select id from public.documents") == []
        named = json.loads((await fieldmark.run("extract", document, "--json", "--schema", "invoice")).out)
        assert (named["schema_revid"], named["prompt_revid"]) == (revid, None)
        prompted = json.loads((await fieldmark.run("extract", document, "--json", "--prompt", "bills")).out)
        assert prompted["schema_revid"] == revid and prompted["prompt_revid"] is not None

        fieldmark.sql("insert into public.tags (org_id, name) select org_id, 'Paid' from public.documents limit 1")
        fieldmark.sql(
            """insert into public.document_tags (org_id, document_id, tag_id, document_created_at)
               select d.org_id, d.id, t.id, d.created_at from public.documents as d, public.tags as t
               where d.id = %s""",
            named["document_id"],
        )
        listed = (await fieldmark.run("documents", "--tag", "paid")).out
        assert listed.startswith(named["document_id"]) and "Paid" in listed and len(listed.splitlines()) == 1
        assert (await fieldmark.run("schema", "push", fieldmark.file(json.dumps(SCHEMA), "Bill.json"))).code == 0
        for name in ("one", "two"):
            assert (await fieldmark.run("key", "create", name, "--scopes", "documents:read")).code == 0
        for command in (("documents",), ("runs",), ("schema", "list"), ("key", "list")):
            for limit, is_more in (("1", True), ("50", False)):
                listed = await fieldmark.run(*command, "--limit", limit)
                assert (listed.code, "--limit" in listed.err) == (0, is_more), (command, listed.err)
        unknown = await fieldmark.run("documents", "--tag", "late")
        assert unknown.code == 1 and "late" in unknown.err


async def test_an_organisation_is_exported_and_deleted_by_its_name(commands, tmp_path):
    async with commands(Script([])) as fieldmark:
        org = json.loads((await fieldmark.run("organisation", "--json")).out)
        out = tmp_path / "all.zip"
        assert (await fieldmark.run("organisation", "--export", str(out))).code == 0
        with zipfile.ZipFile(out) as archive:
            assert json.loads(archive.read("rows/organisations.jsonl"))["id"] == org["id"]
        assert [path.name for path in tmp_path.iterdir()] == ["all.zip"]
        refused = await fieldmark.run("delete", "organisation", org["id"], stdin="something else\n")
        assert refused.code == 1 and json.loads((await fieldmark.run("organisation", "--json")).out)["id"] == org["id"]
        deleted = await fieldmark.run("delete", "organisation", org["id"], "--json", stdin=f"{org['name']}\n")
        assert deleted.code == 0, deleted.err
        report = json.loads(deleted.out)
        assert report["rows_left"] == {} and report["rows_found"]["public.organisations"] == 1
        again = await fieldmark.run("delete", "organisation", org["id"], "--json")
        assert (again.code, json.loads(again.out)) == (0, report)
        me = json.loads((await fieldmark.run("organisation", "--json")).out)
        assert me["id"] != org["id"]  # a new personal organisation
