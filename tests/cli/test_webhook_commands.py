"""Changes and webhooks on the command line."""

from __future__ import annotations

import json
import re

import pytest

from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio


async def test_webhook_is_created_tested_and_deleted(commands):
    async with commands(Script([])) as fieldmark:
        made = await fieldmark.run("webhook", "create", "https://a.example/x", "--type", "document.ready, run.failed")
        assert made.code == 0 and re.fullmatch(r"whsec_[A-Za-z0-9+/]{43}=", made.out.strip()), made.err
        (row,) = [json.loads(line) for line in (await fieldmark.run("webhook", "list", "--json")).out.splitlines()]
        assert (row["url"], row["types"]) == ("https://a.example/x", ["document.ready", "run.failed"])
        replaced = await fieldmark.run("webhook", "secret", row["id"])
        assert replaced.out.strip() not in ("", made.out.strip())
        for verb in ("test", "enable", "deliveries", "delete"):
            assert (await fieldmark.run("webhook", verb, row["id"])).code == 0
        (change,) = [json.loads(line) for line in (await fieldmark.run("changes", "--json")).out.splitlines()]
        assert (change["number"], change["type"], change["data"]) == (1, "webhook.test", {"webhook_id": row["id"]})
        later = await fieldmark.run("changes", "--after", "1")
        assert (later.code, later.out) == (0, "")
        assert (await fieldmark.run("webhook", "delete", row["id"])).code == 1
        assert (await fieldmark.run("changes", "--type", "nothing")).code == 2
