"""API keys on the command line."""

from __future__ import annotations

import hashlib
import re
from uuid import uuid4

import pytest

from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio


async def test_key_is_created_listed_and_revoked(commands):
    async with commands(Script([])) as fieldmark:
        made = await fieldmark.run("key", "create", "robot", "--scopes", "documents:read, runs:write", "--days", "30")
        assert made.code == 0, made.err
        key = made.out.strip()
        assert re.fullmatch(r"fm_[0-9a-f]{8}_[0-9a-f]{64}", key)
        (row,) = fieldmark.sql("select * from public.api_keys")
        assert bytes(row["hash"]) == hashlib.sha256(key.encode()).digest()
        assert (row["scopes"], row["expires_at"] is not None) == (["documents:read", "runs:write"], True)
        listed = await fieldmark.run("key", "list")
        assert key[:11] in listed.out and "robot" in listed.out and key not in listed.out
        # By the database's clock.
        fieldmark.sql("update public.api_keys set expires_at = now() returning id")
        assert "expired" in (await fieldmark.run("key", "list")).out
        assert (await fieldmark.run("key", "revoke", str(row["id"]))).code == 0
        assert "revoked" in (await fieldmark.run("key", "list")).out
        unknown = await fieldmark.run("key", "revoke", str(uuid4()))
        assert unknown.code == 1 and "no such key" in unknown.err
