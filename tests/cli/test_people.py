"""Keys and members on the command line."""

from __future__ import annotations

import hashlib
import re
from uuid import uuid4

import pytest

from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio


async def test_a_key_is_made_listed_and_revoked(commands):
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
        assert (await fieldmark.run("key", "revoke", str(row["id"]))).code == 0
        assert "revoked" in (await fieldmark.run("key", "list")).out
        nobody_s = await fieldmark.run("key", "revoke", str(uuid4()))
        assert nobody_s.code == 1 and "no such key" in nobody_s.err


async def test_members_are_invited_changed_and_removed(commands):
    async with commands(Script([])) as fieldmark:
        invited = await fieldmark.run("members", "invite", "--role", "viewer")
        assert invited.code == 0 and re.fullmatch(r"fmi_[0-9a-f]{64}\n", invited.out), invited.err
        user = uuid4()
        fieldmark.sql("insert into auth.users (id, email) values (%s, 'v@example.org')", user)
        fieldmark.sql(
            "insert into public.memberships (org_id, user_id, role) select org_id, %s, role from public.invitations",
            user,
        )
        (org,) = fieldmark.sql("select org_id from public.invitations")
        listed = (await fieldmark.run("members", "list")).out
        assert f"{user}  viewer  v@example.org" in listed and "owner" in listed
        viewer, their_org = fieldmark.by(user), ("--org", str(org["org_id"]))
        refused = await viewer.run("members", "invite", *their_org)
        assert refused.code == 1 and "[read_only]" in refused.err
        refused = await viewer.run("members", "role", str(user), "owner", *their_org)
        assert refused.code == 1 and "[read_only]" in refused.err
        assert (await fieldmark.run("members", "role", str(user), "member")).code == 0
        assert (await fieldmark.run("members", "remove", str(user))).code == 0
        assert str(user) not in (await fieldmark.run("members", "list")).out
