"""Sources on the command line."""

from __future__ import annotations

import json

import pytest

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
