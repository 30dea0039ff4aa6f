"""What a change of a schema would do, on the command line."""

from __future__ import annotations

import json
from uuid import uuid4

import pytest
from psycopg.types.json import Jsonb

from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio

TEXT = {"type": "string"}
OLD = {"type": "object", "properties": {"number": TEXT, "total": TEXT}}
NEW = {"type": "object", "properties": {"number": TEXT, "total": {"type": "number"}, "due": TEXT}}


async def kept(fieldmark, schema=OLD):
    """The id of a schema of the local user's, which an extraction follows."""
    (file := fieldmark.folder / "a.txt").write_text("Number: 1\nTotal: x\n")
    read = await fieldmark.run("extract", str(file), "--json")
    (row,) = fieldmark.sql("select id, org_id, created_by from public.extractions")
    assert read.code == 4, read.err  # the agent completes nothing
    schema_id, revid, org = uuid4(), uuid4(), row["org_id"]
    fieldmark.sql("insert into public.schemas (id, org_id, name) values (%s, %s, 'Invoices')", schema_id, org)
    fieldmark.sql(
        "insert into public.schema_versions (id, org_id, schema_id, number, name, schema) "
        "values (%s, %s, %s, 1, 'Invoices', %s)",
        *(revid, org, schema_id, Jsonb(schema)),
    )
    fieldmark.sql("update public.extractions set schema = %s, schema_revid = %s", Jsonb(schema), revid)
    fields = Jsonb({"number": "1", "total": "x"})
    fieldmark.sql("select public.save_extraction_fields(%s, %s)", row["id"], fields)
    return schema_id, revid


async def test_what_a_schema_would_do_is_shown(commands):
    async with commands(Script([[]])) as fieldmark:
        schema_id, revid = await kept(fieldmark)
        (file := fieldmark.folder / "invoices.json").write_text(json.dumps(NEW))
        shown = await fieldmark.run("schema", "diff", str(schema_id), str(file))
        assert shown.code == 0, shown.err
        assert [line.split() for line in shown.out.splitlines()] == [
            ["since", "version", "1", "1", "extractions"],
            ["+", "due"],
            ["~", "total"],
        ]
        assert "To be read again: 1 (" in shown.err
        found = json.loads((await fieldmark.run("schema", "diff", str(schema_id), str(file), "--json")).out)
        assert (found["extractions"], found["read_again"]) == (1, 1)
        (row,) = fieldmark.sql("select schema_revid, version from public.extractions")
        assert row["schema_revid"] == revid
        # By its name, and one that nobody has.
        assert (await fieldmark.run("schema", "diff", "INVOICES", str(file))).out == shown.out
        unknown = await fieldmark.run("schema", "diff", "Receipts", str(file))
        assert unknown.code == 1 and "Receipts" in unknown.err
        none = await fieldmark.run("schema", "diff", str(uuid4()), str(file))
        assert none.code == 1 and "[not_found]" in none.err


async def test_extractions_are_brought_to_the_latest_version_and_keep_their_values(commands):
    async with commands(Script([[]])) as fieldmark:
        schema_id, _ = await kept(fieldmark)
        newer = uuid4()
        without = {"type": "object", "properties": {"number": TEXT}, "additionalProperties": False}
        fieldmark.sql(
            "insert into public.schema_versions (id, org_id, schema_id, number, name, schema) "
            "select %s, org_id, id, 2, name, %s from public.schemas",
            *(newer, Jsonb(without)),
        )
        done = await fieldmark.run("schema", "apply", str(schema_id), "--json")
        assert done.code == 0, done.err
        assert json.loads(done.out) == {"followed": 1, "runs": [], "skipped": [], "next": None, "stopped": None}
        (row,) = fieldmark.sql("select schema_revid, extracted_fields from public.extractions")
        assert row == {"schema_revid": newer, "extracted_fields": {"number": "1", "total": "x"}}
        # Nothing is left to be done.
        assert json.loads((await fieldmark.run("schema", "apply", "invoices", "--json")).out)["followed"] == 0
        unknown = await fieldmark.run("schema", "apply", "Receipts")
        assert unknown.code == 1 and "Receipts" in unknown.err
