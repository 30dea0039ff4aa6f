"""Schemas, prompts and tags on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fieldmark.offline_model.messages import text
from fieldmark.testing.script import Script, endless

pytestmark = pytest.mark.anyio

SCHEMA = {"type": "object", "properties": {"total": {"type": "number"}}}
LONGER = {"type": "object", "properties": {"total": {"type": "number"}, "number": {"type": "string"}}}


def file_of(folder: Path, name: str, content: Any) -> str:
    file = folder / name
    file.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return str(file)


async def test_a_schema_is_pushed_listed_and_shown_in_each_version(commands, tmp_path: Path):
    async with commands(Script([])) as fieldmark:
        file = file_of(tmp_path, "Invoice.schema.json", SCHEMA)
        first = await fieldmark.run("schema", "push", file)
        assert first.code == 0, first.err
        again = await fieldmark.run("schema", "push", file)
        assert again.out == first.out
        longer = file_of(tmp_path, "longer.json", LONGER)
        second = await fieldmark.run("schema", "push", longer, "--name", "invoice")
        assert second.out != first.out
        rows = fieldmark.sql("select id::text, number, schema from public.schema_versions order by number")
        assert [row["id"] for row in rows] == [first.out.strip(), second.out.strip()]
        assert [row["schema"] for row in rows] == [SCHEMA, LONGER]
        listed = await fieldmark.run("schema", "list")
        assert "version 2" in listed.out and "Invoice" in listed.out
        assert (await fieldmark.run("schema", "list", "--name", "receipt", "--json")).out == ""
        # What is shown can be edited, and pushed again.
        assert json.loads((await fieldmark.run("schema", "show", "INVOICE")).out) == LONGER
        shown = await fieldmark.run("schema", "show", "Invoice", "--version", "1")
        assert json.loads(shown.out) == SCHEMA and "version 1" in shown.err
        whole = json.loads((await fieldmark.run("schema", "show", "Invoice", "--json")).out)
        assert (whole["number"], whole["schema"]) == (2, LONGER)
        for arguments, said in (
            (("show", "Receipt"), "Receipt"),
            (("show", "Invoice", "--version", "3"), "version 3"),
            (("push", longer, "--name", "two\nlines"), "[invalid]"),
        ):
            refused = await fieldmark.run("schema", *arguments)
            assert refused.code == 1 and said in refused.err, refused.err
        # Names reach the terminal as letters.
        assert (await fieldmark.run("schema", "push", file, "--name", "[bold red]<b>x")).code == 0
        assert "[bold red]<b>x" in (await fieldmark.run("schema", "list")).out
        assert "[bold red]<b>x" in (await fieldmark.run("schema", "show", "[bold red]<b>x")).err


async def test_extract_takes_what_is_kept_by_name_and_a_file_before_it(commands, tmp_path: Path):
    async with commands(Script([endless([text("Done.")])])) as fieldmark:
        document = file_of(tmp_path, "a.txt", "Total: 10.00 EUR\n")
        file = file_of(tmp_path, "Invoice.json", SCHEMA)
        revid = (await fieldmark.run("schema", "push", file)).out.strip()
        (version,) = fieldmark.sql("select org_id, schema_id from public.schema_versions")
        fieldmark.sql("insert into public.prompts (org_id, name) values (%s, 'Bills')", version["org_id"])
        fieldmark.sql(
            """insert into public.prompt_versions (org_id, prompt_id, number, name, content, schema_id)
               select org_id, id, 1, name, 'Read the total.', %s from public.prompts""",
            version["schema_id"],
        )

        async def extracted(*options: str) -> dict[str, Any]:
            done = await fieldmark.run("extract", document, "--json", *options)
            assert done.out, done.err
            return json.loads(done.out)

        named = await extracted("--schema", "invoice")
        assert (named["schema_revid"], named["prompt_revid"]) == (revid, None)
        of_file = await extracted("--schema", file)
        assert of_file["schema_revid"] is None
        prompted = await extracted("--prompt", "bills")
        assert prompted["schema_revid"] == revid and prompted["prompt_revid"] is not None
        (run,) = fieldmark.sql(
            "select r.input from public.runs as r join public.extractions as e on e.id = r.extraction_id "
            "where e.prompt_revid is not null"
        )
        assert run["input"]["instructions"] == "Read the total."
        for kind in ("schema", "prompt"):
            refused = await fieldmark.run("extract", document, f"--{kind}", "Receipt")
            assert refused.code == 1 and "Receipt" in refused.err
        # Nothing was taken in for what was refused.
        assert len(fieldmark.sql("select id from public.documents")) == 3


async def test_documents_are_listed_by_tag(commands, tmp_path: Path):
    async with commands(Script([endless([text("Done.")])])) as fieldmark:
        for name in ("a.txt", "b.txt"):
            await fieldmark.run("extract", file_of(tmp_path, name, "Total: 1\n"))
        fieldmark.sql("insert into public.tags (org_id, name) select org_id, 'Paid' from public.documents limit 1")
        fieldmark.sql(
            """insert into public.document_tags (org_id, document_id, tag_id, document_created_at)
               select d.org_id, d.id, t.id, d.created_at from public.documents as d, public.tags as t
               where d.filename = 'a.txt'"""
        )
        listed = (await fieldmark.run("documents", "--tag", "paid")).out
        assert "a.txt" in listed and "Paid" in listed and "b.txt" not in listed
        assert "b.txt" in (await fieldmark.run("documents")).out
        nobody_s = await fieldmark.run("documents", "--tag", "late")
        assert nobody_s.code == 1 and "late" in nobody_s.err
