"""/api/keys: keys for machines."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Annotated
from uuid import UUID

from pydantic import AwareDatetime, Field

from fieldmark.api.auth import Conn, ThePerson, TheScope
from fieldmark.api.routing import Routes
from fieldmark.api.shapes import Before, Body, Limit, ListPage, Shown
from fieldmark.domain.permissions import Permission
from fieldmark.errors import NotFound
from fieldmark.stores import api_keys

router = Routes(prefix="/api/keys", tags=["keys"])


class NewKey(Body):
    """A key to make."""

    name: Annotated[str, Field(min_length=1, max_length=200)] = Field(description="What it is for.")
    scopes: Annotated[list[Permission], Field(min_length=1, max_length=50)] = Field(
        description="What it may do. It never comes to more than its maker may."
    )
    expires_at: AwareDatetime | None = Field(None, description="Left out: when it is revoked.")


class Key(Shown):
    """A key for a machine."""

    id: UUID = Field(description="Under which it writes.")
    name: str
    prefix: str = Field(description="How it begins.", examples=["fm_0a1b2c3d"])
    scopes: list[Permission]
    created_by: UUID = Field(description="The person who made it: it ends with their membership.")
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None = Field(description="To the minute.")
    revoked_at: datetime | None


class KeyMade(Key):
    """A key with what it is known by, which nothing shows again."""

    key: str = Field(examples=["fm_0a1b2c3d_…"])


@router.get("")
async def list_keys(
    scope: TheScope,
    conn: Conn,
    limit: Limit = 50,
    before: Before = None,
) -> ListPage[Key]:
    """Your keys in the organisation; an owner sees all of its keys. Those that were revoked, too."""
    return ListPage[Key].of(await api_keys.list_keys(conn, scope.org_id, limit=limit, before=before))


@router.post("", status_code=201)
async def create_key(body: NewKey, _: ThePerson, scope: TheScope, conn: Conn) -> KeyMade:
    """Make a key of the organisation, as a person. Keep the answer's `key`: it is shown this once."""
    made = await api_keys.add(conn, scope.org_id, name=body.name, scopes=list(body.scopes), expires_at=body.expires_at)
    row = await api_keys.get(conn, made.id)
    assert row is not None  # its maker sees it
    return KeyMade(key=made.key, **Key.of(row).model_dump())


@router.delete("/{key_id}")
async def revoke_key(key_id: UUID, conn: Conn) -> Key:
    """Revoke a key of yours, or as an owner any key. It is refused at once, on every server, and its open runs are
    cancelled."""
    row = await api_keys.get(conn, key_id)  # before: a key that ends itself sees nothing afterwards
    revoked_at = await api_keys.revoke(conn, key_id)
    if row is None:
        raise NotFound("There is no such key that you may revoke.")
    return Key.of(replace(row, revoked_at=revoked_at))
