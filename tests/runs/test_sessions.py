"""Conversations in Postgres: the SDK's own contracts, and what is ours, the tenant's bound."""

from __future__ import annotations

import pytest
from claude_agent_sdk.testing import run_session_store_conformance

from fieldmark.runs.sessions import Sessions
from fieldmark.scope import Scope

pytestmark = pytest.mark.anyio

KEY = {"project_key": "shared", "session_id": "s"}


async def test_the_sdks_own_contracts_hold(database, make_user):
    async def fresh() -> Sessions:
        return Sessions(database, await make_user(), project=None)  # a tenant of its own: nothing is there yet

    await run_session_store_conformance(fresh)


async def test_a_tenant_finds_its_own_conversation_and_no_other(database, make_user):
    ours, theirs = await make_user(), await make_user()
    await Sessions(database, ours).append(KEY, [{"type": "user", "uuid": "1", "text": "ours"}])
    assert await Sessions(database, theirs).load(KEY) is None
    # Nor does an organisation's id help whoever is no member of it.
    assert await Sessions(database, Scope(theirs.user_id, ours.org_id)).load(KEY) is None
    assert await Sessions(database, ours).load({**KEY, "project_key": "elsewhere"}) == [
        {"type": "user", "uuid": "1", "text": "ours"}
    ]


async def test_what_jsonb_would_refuse_is_kept(database, make_user):
    store = Sessions(database, await make_user())
    entry = {"type": "user", "uuid": "1", "text": "NUL \0 and half \ud800 a pair"}
    await store.append(KEY, [entry])
    assert await store.load(KEY) == [entry]


async def test_a_batch_that_comes_again_adds_nothing(database, make_user):
    store = Sessions(database, await make_user())
    batch = [{"type": "user", "uuid": "1"}, {"type": "assistant", "uuid": "2"}]
    await store.append(KEY, batch)
    await store.append(KEY, [*batch, {"type": "user", "uuid": "3"}])
    assert [entry["uuid"] for entry in await store.load(KEY)] == ["1", "2", "3"]
