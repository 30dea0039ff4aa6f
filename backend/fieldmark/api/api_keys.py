"""/api/keys: API keys."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Annotated
from uuid import UUID

from pydantic import AwareDatetime, Field

from fieldmark.api.auth import Conn, ThePerson, TheScope
from fieldmark.api.routing import Routes
from fieldmark.api.shared_types import Before, Limit, ListPage, RequestBody, ResponseModel
from fieldmark.domain.permissions import Permission
from fieldmark.errors import NotFound
from fieldmark.stores import api_keys

router = Routes(prefix="/api/keys", tags=["keys"])


class NewKey(RequestBody):
    """An API key to create."""

    name: Annotated[str, Field(min_length=1, max_length=200)]
    scopes: Annotated[list[Permission], Field(min_length=1, max_length=50)] = Field(
        description="What the key may do. Limited to the rights of the person who created it."
    )
    expires_at: AwareDatetime | None = Field(None, description="Default: never; the key works until it is revoked.")


class Key(ResponseModel):
    """An API key, without its secret."""

    id: UUID = Field(description="Recorded as the author of what the key writes.")
    name: str
    prefix: str = Field(description="The first characters of the key.", examples=["fm_0a1b2c3d"])
    scopes: list[Permission]
    created_by: UUID = Field(description="The person who created it. The key stops working if they leave.")
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None = Field(description="Accurate to the minute.")
    revoked_at: datetime | None


class CreatedKey(Key):
    """A new API key with its secret."""

    key: str = Field(description="The secret. It is returned only once.", examples=["fm_0a1b2c3d_…"])


@router.get("")
async def list_keys(
    scope: TheScope,
    conn: Conn,
    limit: Limit = 50,
    before: Before = None,
) -> ListPage[Key]:
    """List your keys in the organisation, including revoked ones. An owner sees all keys of the organisation."""
    return ListPage[Key].of(await api_keys.list_keys(conn, scope.org_id, limit=limit, before=before))


@router.post("", status_code=201)
async def create_key(body: NewKey, _: ThePerson, scope: TheScope, conn: Conn) -> CreatedKey:
    """Create a key. Only a person can. Save `key` from the response: it is returned only once."""
    made = await api_keys.add(conn, scope.org_id, name=body.name, scopes=list(body.scopes), expires_at=body.expires_at)
    row = await api_keys.find(conn, made.id)
    assert row is not None  # its creator sees it
    return CreatedKey(key=made.key, **Key.of(row).model_dump())


@router.delete("/{key_id}")
async def revoke_key(key_id: UUID, conn: Conn) -> Key:
    """Revoke a key of yours; an owner can revoke any key. Every server refuses the key at once, and its unfinished runs
    are cancelled."""
    row = await api_keys.find(conn, key_id)  # first, since a key that revokes itself can read nothing afterwards
    revoked_at = await api_keys.revoke(conn, key_id)
    if row is None:
        raise NotFound("There is no such key, or you may not revoke it.")
    return Key.of(replace(row, revoked_at=revoked_at))
