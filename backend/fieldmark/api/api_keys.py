"""/api/keys: keys for machines."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from fieldmark.api.auth import ThePerson, TheRuntime, TheScope
from fieldmark.api.problems import responses
from fieldmark.domain.permissions import Permission
from fieldmark.errors import NotFound
from fieldmark.services.paging import Cursor, page_of
from fieldmark.stores import api_keys

router = APIRouter(prefix="/api/keys", tags=["keys"])


class NewKey(BaseModel):
    """A key to make."""

    model_config = ConfigDict(extra="forbid")

    name: Annotated[str, Field(min_length=1, max_length=200)] = Field(description="What it is for.")
    scopes: Annotated[list[Permission], Field(min_length=1, max_length=50)] = Field(
        description="What it may do. It never comes to more than its maker may."
    )
    expires_at: AwareDatetime | None = Field(None, description="Left out: when it is revoked.")


class Key(BaseModel):
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


class KeyList(BaseModel):
    """Keys, newest first."""

    items: list[Key]
    next: str | None = Field(description="Give it as `before` to get those that follow. null at the end.")


@router.get("", responses=responses(401, 403, 404, 422))
async def list_keys(
    scope: TheScope,
    runtime: TheRuntime,
    limit: Annotated[int, Query(ge=1, le=200, description="How many at the most.")] = 50,
    before: Annotated[str | None, Query(description="The `next` of the last answer: those that follow.")] = None,
) -> KeyList:
    """Your keys in the organisation; an owner sees all of its keys. Those that were revoked, too."""
    after = None if before is None else Cursor.parse(before, "keys").position
    async with runtime.database.as_user(scope) as conn:
        page = page_of(await api_keys.list_keys(conn, scope.org_id, limit=limit + 1, after=after), limit, "keys")
    return KeyList(items=list(map(_key, page.items)), next=page.next)


@router.post("", status_code=201, responses=responses(401, 403, 404, 409, 422))
async def create_key(body: NewKey, _: ThePerson, scope: TheScope, runtime: TheRuntime) -> KeyMade:
    """Make a key of the organisation, as a person. Keep the answer's `key`: it is shown this once."""
    async with runtime.database.as_user(scope) as conn:
        made = await api_keys.add(
            conn, scope.org_id, name=body.name, scopes=list(body.scopes), expires_at=body.expires_at
        )
        row = await api_keys.get(conn, made.id)
    assert row is not None  # its maker sees it
    return KeyMade(key=made.key, **_key(row).model_dump())


@router.delete("/{key_id}", responses=responses(401, 403, 404, 422))
async def revoke_key(key_id: UUID, scope: TheScope, runtime: TheRuntime) -> Key:
    """Revoke a key of yours, or as an owner any key. It is refused at once, on every server, and its open runs are
    cancelled."""
    async with runtime.database.as_user(scope) as conn:
        row = await api_keys.get(conn, key_id)  # before: a key that ends itself sees nothing afterwards
        revoked_at = await api_keys.revoke(conn, key_id)
    if row is None:
        raise NotFound("There is no such key that you may revoke.")
    return _key(replace(row, revoked_at=revoked_at))


def _key(row: api_keys.ApiKeyRow) -> Key:
    return Key.model_validate(row, from_attributes=True)
