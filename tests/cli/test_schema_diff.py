"""`fieldmark schema diff` and `apply`."""

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


async def test_schema_change_is_previewed_and_applied(commands):
    async with commands(Script([[]])) as fieldmark:
        pushed = await fieldmark.run("schema", "push", fieldmark.file(json.dumps(OLD), "Invoices.json"))
        read = await fieldmark.run("extract", fieldmark.file(), "--schema", "Invoices")
        assert read.code == 4, read.err  # the agent does not complete the extraction
        (row,) = fieldmark.sql("select id from public.extractions")
        fields = {"number": "1", "total": "x"}
        fieldmark.sql("select public.save_extraction_fields(%s, %s)", row["id"], Jsonb(fields))

        file = fieldmark.file(json.dumps(NEW), "new.json")
        shown = await fieldmark.run("schema", "diff", "INVOICES", file)
        assert shown.code == 0, shown.err
        assert [line.split() for line in shown.out.splitlines()] == [
            ["since", "version", "1", "1", "extractions"],
            ["+", "due"],
            ["~", "total"],
        ]
        assert "To be read again: 1 (" in shown.err
        (row,) = fieldmark.sql("select schema_revid::text, version from public.extractions")
        assert row["schema_revid"] == pushed.out.strip()  # nothing was changed
        for command in (("diff", str(uuid4()), file), ("apply", "Receipts")):
            assert (await fieldmark.run("schema", *command)).code == 1

        without = {"type": "object", "properties": {"number": TEXT}, "additionalProperties": False}
        file = fieldmark.file(json.dumps(without), "new.json")
        newer = (await fieldmark.run("schema", "push", file, "--name", "Invoices")).out.strip()
        done = await fieldmark.run("schema", "apply", "invoices", "--json")
        assert done.code == 0, done.err
        assert json.loads(done.out) == {"followed": 1, "runs": [], "skipped": [], "next": None, "stopped": None}
        (row,) = fieldmark.sql("select schema_revid::text, extracted_fields from public.extractions")
        assert row == {"schema_revid": newer, "extracted_fields": fields}
