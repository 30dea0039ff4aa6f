"""The tags of a document, set by two at once."""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest

from desk import sql, until
from fieldmark.domain.ids import new_id
from fieldmark.files import stored_path
from fieldmark.stores import documents
from fieldmark.stores.library import tags

pytestmark = pytest.mark.anyio


async def test_of_two_who_set_a_document_s_tags_the_last_has_set_them(database, make_user, clone):
    scope = await make_user()
    document = new_id()
    path = str(stored_path(scope.org_id, document, "a.txt"))
    async with database.as_user(scope) as conn:
        await documents.add(
            conn, document_id=document, org_id=scope.org_id, filename="a.txt", storage_path=path, byte_size=1
        )
        one, other = [(await tags.create(conn, scope.org_id, name)).id for name in ("one", "other")]

    async def sets(tag: UUID) -> None:
        async with database.as_user(scope) as conn:
            await tags.set_of_document(conn, document, [tag])

    async def waits() -> bool:
        return bool(sql(clone.owner_url, "select pid from pg_stat_activity where wait_event_type = 'Lock'"))

    async with database.as_user(scope) as conn:
        await tags.set_of_document(conn, document, [one])
        second = asyncio.create_task(sets(other))
        await until(waits)
    await second
    async with database.as_user(scope) as conn:
        assert [tag.name for tag in (await tags.of_documents(conn, [document]))[document]] == ["other"]
