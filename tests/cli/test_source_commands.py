"""Sources on the command line."""

from __future__ import annotations

import json

import pytest

from fieldmark.cli.process import LOCAL_USER
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio

BUCKET = ("source", "add", "https://a.example/invoices", "--username", "key", "--folder", "2026/", "--extract", "")


async def test_source_is_added_shown_checked_and_removed(commands):
    async with commands(Script([])) as fieldmark:
        assert (await fieldmark.run(*BUCKET)).code == 2  # without a secret
        added = await fieldmark.run(*BUCKET, stdin="only for this test\n")
        assert added.code == 0, added.err
        (row,) = [json.loads(line) for line in (await fieldmark.run("source", "list", "--json")).out.splitlines()]
        shown = (row["kind"], row["username"], row["folder"], row["extract"])
        assert (row["id"], shown) == (added.out.strip(), ("bucket", "key", "2026/", ""))
        for verb in ("status", "check", "remove"):
            assert (await fieldmark.run("source", verb, row["id"])).code == 0
        for verb in ("status", "check", "remove"):
            assert (await fieldmark.run("source", verb, row["id"])).code == 1


async def test_documents_of_a_source_become_rows_of_the_table_it_names(commands):
    async with commands(Script([])) as fieldmark:
        schema = await fieldmark.run("schema", "push", "--template", "invoice", "--json")
        columns = [{"name": "total", "type": "number"}]
        async with fieldmark.server.client(LOCAL_USER) as http:
            stack = (await http.post("/api/stacks", json={"name": "Receipts", "columns": columns})).json()
        for table, stack_id, extract in (
            ("receipts", stack["id"], stack["schema_id"]),
            ("invoice", None, json.loads(schema.out)["id"]),
        ):
            added = await fieldmark.run(*BUCKET[:5], "--table", table, "--json", stdin="only for this test\n")
            assert (row := json.loads(added.out)), added.err
            assert (row["stack_id"], row["extract"]) == (stack_id, extract)
        assert (await fieldmark.run(*BUCKET[:5], "--table", "no such", stdin="only for this test\n")).code == 1
