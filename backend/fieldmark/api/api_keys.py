"""/api/keys: API keys."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Annotated, Self
from uuid import UUID

from pydantic import AwareDatetime, Field, model_validator

from fieldmark.api.auth import Conn, ThePerson, TheScope
from fieldmark.api.routing import Routes
from fieldmark.api.shared_types import Before, Limit, RequestBody
from fieldmark.domain.permissions import Permission
from fieldmark.errors import NotFound
from fieldmark.stores import api_keys
from fieldmark.stores.api_keys import ApiKey, CreatedKey
from fieldmark.stores.paging import ListPage

router = Routes(prefix="/api/keys", tags=["keys"])


class NewKey(RequestBody):
    """An API key to create."""

    name: Annotated[str, Field(min_length=1, max_length=200)]
    scopes: Annotated[list[Permission], Field(min_length=1, max_length=50)] = Field(
        description="What the key may do. Limited to the rights of the person who created it."
    )
    expires_at: AwareDatetime | None = Field(None, description="Default: never; the key works until it is revoked.")
    expires_in_seconds: int | None = Field(
        None, ge=1, le=4_000_000_000, description="Instead of `expires_at`: seconds from now, by the database's clock."
    )

    @model_validator(mode="after")
    def _one_expiry(self) -> Self:
        if self.expires_at is not None and self.expires_in_seconds is not None:
            raise ValueError("Give `expires_at` or `expires_in_seconds`, not both.")
        return self


@router.get("")
async def list_keys(
    scope: TheScope,
    conn: Conn,
    limit: Limit = 50,
    before: Before = None,
) -> ListPage[ApiKey]:
    """List your keys in the organisation, including revoked ones. An owner sees all keys of the organisation."""
    return await api_keys.list_keys(conn, scope.org_id, limit=limit, before=before)


@router.post("", status_code=201)
async def create_key(body: NewKey, _: ThePerson, scope: TheScope, conn: Conn) -> CreatedKey:
    """Create a key. Only a person can. Save `key` from the response: it is returned only once."""
    made = await api_keys.add(
        conn,
        scope.org_id,
        name=body.name,
        scopes=list(body.scopes),
        expires_at=body.expires_at,
        expires_in_seconds=body.expires_in_seconds,
    )
    row = await api_keys.find(conn, made.id)
    assert row is not None  # its creator sees it
    return CreatedKey(**asdict(row), key=made.key)


@router.delete("/{key_id}")
async def revoke_key(key_id: UUID, conn: Conn) -> ApiKey:
    """Revoke a key of yours; an owner can revoke any key. Every server refuses the key at once, and its unfinished runs
    are cancelled."""
    row = await api_keys.find(conn, key_id)  # first, since a key that revokes itself can read nothing afterwards
    revoked_at = await api_keys.revoke(conn, key_id)
    if row is None:
        raise NotFound("There is no such key, or you may not revoke it.")
    return replace(row, revoked_at=revoked_at)
