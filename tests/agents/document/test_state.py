"""What a conversation works on is kept by its tools, whoever of those who see it has admitted their calls."""

from __future__ import annotations

from contextlib import suppress
from uuid import uuid4

import pytest

from fieldmark.errors import NotFound
from fieldmark.identity.scope import Scope
from fieldmark.services.organisations import enter
from fieldmark.stores import threads

pytestmark = pytest.mark.anyio


async def member(talk, role: str) -> Scope:
    """Another user of the organisation."""
    user_id = uuid4()
    await enter(talk.desk.database, user_id)
    query = "insert into public.memberships (org_id, user_id, role) values (%s, %s, %s)"
    talk.desk.sql(query, talk.scope.org_id, user_id, role)
    return Scope(user_id, talk.scope.org_id)


async def kept_by(talk, scope: Scope) -> bool:
    """Whether this user's call is remembered."""
    wanted = {"schema_revid": str(uuid4())}
    with suppress(NotFound):
        async with talk.desk.database.as_user(scope) as conn:
            await threads.remember(conn, talk.thread_id, wanted)
    return talk.state == wanted


async def test_whoever_decides_a_call_of_a_shared_conversation_keeps_its_state(talk, stranger_talk):
    colleague, viewer = await member(talk, "member"), await member(talk, "viewer")
    assert await kept_by(talk, talk.scope)
    assert not await kept_by(talk, colleague)
    talk.desk.sql("update public.threads set shared = true")
    assert await kept_by(talk, colleague)
    assert not await kept_by(talk, viewer)
    assert not await kept_by(talk, stranger_talk.scope)
