"""API keys in Postgres."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Final, LiteralString
from uuid import UUID

from pydantic import Field

from fieldmark.db.pool import Connection
from fieldmark.domain.permissions import Permission
from fieldmark.stores.paging import ListPage, PageRequest
from fieldmark.stores.rows import fetch_all, fetch_one, value_of


@dataclass(frozen=True, slots=True)
class ApiKey:
    """An API key, without its secret."""

    id: Annotated[UUID, Field(description="Recorded as the author of what the key writes.")]
    name: str
    prefix: Annotated[str, Field(description="The first characters of the key.", examples=["fm_0a1b2c3d"])]
    scopes: list[Permission]
    created_by: Annotated[UUID, Field(description="The person who created it. The key stops working if they leave.")]
    created_at: datetime
    expires_at: datetime | None
    is_expired: Annotated[bool, Field(description="By the database's clock.")]
    last_used_at: Annotated[datetime | None, Field(description="Accurate to the minute.")]
    revoked_at: datetime | None


@dataclass(frozen=True, slots=True)
class CreatedKey(ApiKey):
    """A new API key with its secret."""

    key: Annotated[str, Field(description="The secret. It is returned only once.", examples=["fm_0a1b2c3d_…"])]


@dataclass(frozen=True, slots=True)
class KeyInUse:
    """The current rights of an API key. `seconds_left` is by the database's clock, None if it never expires. `refusal`
    is the reason if the key is not valid, `needs_recording` whether its last recorded use is older than a minute."""

    id: UUID
    org_id: UUID
    name: str
    prefix: str
    scopes: list[str]
    role: str | None
    seconds_left: float | None
    refusal: str | None
    needs_recording: bool


@dataclass(frozen=True, slots=True)
class KeySecret:
    """The id and the secret of a new API key. The secret is stored only as a hash."""

    id: UUID
    key: str


_COLUMNS: Final[LiteralString] = (
    "id, name, prefix, scopes, created_by, created_at, expires_at, coalesce(expires_at <= now(), false) as is_expired, "
    "last_used_at, revoked_at"
)


async def find_by_hash(conn: Connection, digest: bytes) -> KeyInUse | None:
    """Return the API key with this SHA-256 hash, or None. Needs a connection as the service."""
    query = """
        select id, org_id, name, prefix, scopes, role, refusal, needs_recording,
          (extract(epoch from expires_at) - extract(epoch from now()))::float as seconds_left
        from private.use_api_key(%s)"""
    return await fetch_one(conn, KeyInUse, query, (digest,))


async def record_use(conn: Connection, key_id: UUID) -> None:
    """Record that a key was used, at most once per minute. Needs a connection as the service."""
    await conn.execute("select private.record_api_key_use(%s)", (key_id,))


async def add(
    conn: Connection,
    org_id: UUID,
    *,
    name: str,
    scopes: list[str],
    expires_at: datetime | None,
    expires_in_seconds: int | None,
) -> KeySecret:
    """Create an API key. `expires_in_seconds` counts by the database's clock. Raise ReadOnly,
    ScopeMissing, Invalid, TooMany."""
    query = """
        select public.create_api_key(%s, %s, %s, coalesce(%s, now() + make_interval(secs => %s::float))) as made"""
    row = await (await conn.execute(query, (org_id, name, scopes, expires_at, expires_in_seconds))).fetchone()
    assert row is not None
    return KeySecret(UUID(row["made"]["id"]), row["made"]["key"])


async def find(conn: Connection, key_id: UUID) -> ApiKey | None:
    return await fetch_one(conn, ApiKey, f"select {_COLUMNS} from public.api_keys where id = %s", (key_id,))


async def list_keys(conn: Connection, org_id: UUID, *, limit: int, before: str | None = None) -> ListPage[ApiKey]:
    """Return a page of an organisation's keys, newest first. Owners see all keys, members their own."""
    request = PageRequest("keys", limit, before)
    query = f"""
        select {_COLUMNS} from public.api_keys
        where {" and ".join(["org_id = %(org)s", *request.conditions()])}
        order by created_at desc, id desc limit %(limit)s"""
    return request.page(await fetch_all(conn, ApiKey, query, {"org": org_id, **request.parameters()}))


async def revoke(conn: Connection, key_id: UUID) -> datetime:
    """Revoke a key and return when it was revoked. Raise NotFound."""
    return await value_of(conn, "select public.revoke_api_key(%s) as at", (key_id,))
