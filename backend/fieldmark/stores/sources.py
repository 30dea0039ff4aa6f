"""Sources in Postgres. The functions at the end need a connection as the service."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, Final, LiteralString, TypeAlias
from uuid import UUID

from psycopg import sql
from psycopg.types.json import Jsonb
from pydantic import Field
from typing_extensions import TypedDict  # pydantic needs it before Python 3.12

from fieldmark.db.pool import Connection
from fieldmark.domain.statuses import SourceKind
from fieldmark.errors import NotFound
from fieldmark.stores.rows import fetch_all, fetch_one, value_of

_Time: TypeAlias = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
"""A time in a column of JSON."""


class SourceFailureRow(TypedDict):
    """An object or mail that could not be taken."""

    name: Annotated[str, Field(description="The object's name. Of a mail: `UIDVALIDITY:UID`.")]
    error_code: Annotated[str, Field(description="Why the last attempt failed. See docs/sources.md.")]
    attempts: Annotated[int, Field(description="The number of attempts since a person changed or checked the source.")]
    attempted_at: _Time
    due_at: Annotated[_Time | None, Field(description="When it is tried again. null: it was abandoned.")]


@dataclass(frozen=True, slots=True)
class DocumentSource:
    """A bucket or mailbox, and what was taken from it."""

    id: UUID
    kind: SourceKind
    address: str
    folder: str
    username: str
    extract: str | None
    stack_id: UUID | None
    is_paused: bool
    error_code: Annotated[str | None, Field(description="Why it could not be read last time. See docs/sources.md.")]
    failing_since: datetime | None
    due_at: Annotated[datetime, Field(description="When the service looks next.")]
    checked_at: Annotated[datetime | None, Field(description="When all that was there had been looked at.")]
    last_object: Annotated[
        str | None, Field(description="The name of the last object, or the subject of the last mail.")
    ]
    last_object_at: datetime | None
    taken: Annotated[int, Field(description="The number of objects or mails that became documents.")]
    skipped: Annotated[
        dict[str, int],
        Field(
            description="The number of others, by reason: `not_a_document`, `empty`, `too_large`, `folder`, "
            "`bad_name`, `auto_reply`, `repeated`."
        ),
    ]
    retrying: Annotated[int, Field(description="The number of those that could not be taken and are tried again.")]
    failed: Annotated[int, Field(description="The number of those that were abandoned after ten attempts.")]
    failures: Annotated[list[SourceFailureRow], Field(description="Up to 20 of both, the last attempts first.")]
    created_by: Annotated[UUID, Field(description="Whose the documents are.")]
    created_at: datetime


@dataclass(frozen=True, slots=True)
class DueSource:
    """A source that this process looks at until `leased_until`. `is_owner_there`: whether its creator may add
    documents."""

    id: UUID
    org_id: UUID
    created_by: UUID
    kind: SourceKind
    address: str
    folder: str
    username: str
    secret: str
    extract: str | None
    stack_id: UUID | None
    position: str | None
    attempts: int
    leased_until: datetime
    is_owner_there: bool


@dataclass(frozen=True, slots=True)
class FailedObject:
    """An object that could not be taken before, after so many attempts."""

    name: str
    version: str
    attempts: int = 0


@dataclass(frozen=True, slots=True)
class SeenObject:
    """An object that was taken, or skipped for a reason. `label` is shown for the last one."""

    name: str
    version: str
    reason: str | None
    label: str | None = None


_COLUMNS: Final[LiteralString] = (
    "id, kind, address, folder, username, extract, stack_id, is_paused, error_code, failing_since, due_at, checked_at, "
    "last_object, last_object_at, taken, skipped, created_by, created_at, "
    "(select count(*) from public.source_failures where source_id = s.id and due_at is not null) as retrying, "
    "(select count(*) from public.source_failures where source_id = s.id and due_at is null) as failed, "
    "coalesce((select jsonb_agg(to_jsonb(f)) from (select name, error_code, attempts, attempted_at, due_at "
    "from public.source_failures where source_id = s.id order by attempted_at desc, name limit 20) as f), '[]') "
    "as failures"
)
_MISSING: Final = "There is no such source, or another person added it."


async def add(conn: Connection, org_id: UUID, **values: Any) -> DocumentSource:
    """Add a source of the caller, with its secret. Raise OwnerNeeded, TooMany."""
    await conn.execute("select private.check_owner(%s)", (org_id,))
    values = {"org_id": org_id, **values}
    query = sql.SQL("insert into public.sources ({}) values ({}) returning id").format(
        sql.SQL(", ").join(map(sql.Identifier, values)), sql.SQL(", ").join(map(sql.Placeholder, values))
    )
    return await get(conn, await value_of(conn, query, values))


async def list_sources(conn: Connection, org_id: UUID) -> list[DocumentSource]:
    """Return the sources of an organisation, newest first. Raise OwnerNeeded."""
    await conn.execute("select private.check_owner(%s)", (org_id,))
    query = f"select {_COLUMNS} from public.sources as s where org_id = %s order by created_at desc, id desc"
    return await fetch_all(conn, DocumentSource, query, (org_id,))


async def get(conn: Connection, source_id: UUID) -> DocumentSource:
    """Return a source. Raise NotFound."""
    query = f"select {_COLUMNS} from public.sources as s where id = %s"
    row = await fetch_one(conn, DocumentSource, query, (source_id,))
    if row is None:
        raise NotFound(_MISSING)
    return row


async def change(conn: Connection, source_id: UUID, values: dict[str, Any]) -> None:
    """Change a source of the caller. The service looks again at once, also at what failed. Raise NotFound."""
    values = {"is_paused": sql.SQL("is_paused"), **values}
    changes = [sql.SQL("{} = {}").format(sql.Identifier(name), value) for name, value in values.items()]
    query = sql.SQL("update public.sources set {} where id = {}").format(sql.SQL(", ").join(changes), source_id)
    if not (await conn.execute(query)).rowcount:
        raise NotFound(_MISSING)


async def delete(conn: Connection, source_id: UUID) -> None:
    """Delete a source. Its documents stay. Raise NotFound."""
    await conn.execute("select public.delete_source(%s)", (source_id,))


async def lease_due(conn: Connection, limit: int, busy: Sequence[UUID], lease: timedelta) -> list[DueSource]:
    """Return sources that are due, with their secrets, none of the organisations `busy`. Another process may look at
    them after `lease`."""
    return await fetch_all(
        conn, DueSource, "select * from private.lease_sources(%s, %s, %s)", (limit, list(busy), lease)
    )


async def new_objects(conn: Connection, source_id: UUID, found: Sequence[tuple[str, str]]) -> list[int]:
    """Return the numbers, from 1, of the objects (name, version) that were not recorded yet."""
    query = "select private.new_objects(%s, %s, %s)"
    parameters = (source_id, [name for name, _ in found], [version for _, version in found])
    cursor = await conn.execute(query, parameters)
    return [number for row in await cursor.fetchall() for number in row.values()]


async def record_objects(conn: Connection, source_id: UUID, seen: Sequence[SeenObject], position: str | None) -> bool:
    """Record objects, each once, and where to go on. Return False if the source was deleted."""
    query = "select private.record_objects(%s, %s, %s)"
    return await value_of(conn, query, (source_id, Jsonb([asdict(one) for one in seen]), position))


async def record_failure(
    conn: Connection, source_id: UUID, failed: FailedObject, *, error_code: str | None, retry_after: timedelta | None
) -> None:
    """Record that an object could not be taken. `retry_after`: when to try again, None: never. Without an error code:
    that it was taken, or is gone."""
    query = "select private.record_source_failure(%s, %s, %s, %s, %s)"
    await conn.execute(query, (source_id, failed.name, failed.version, error_code, retry_after))


async def due_failure(conn: Connection, source_id: UUID) -> FailedObject | None:
    """Return the failed object that has been due longest."""
    return await fetch_one(conn, FailedObject, "select * from private.due_source_failure(%s)", (source_id,))


async def finish(
    conn: Connection, source: DueSource, *, error_code: str | None, pause: timedelta, is_complete: bool
) -> None:
    """Record how a look ended and when to look again, unless a person changed the source meanwhile."""
    query = "select private.finish_source(%s, %s, %s, %s, %s)"
    await conn.execute(query, (source.id, source.leased_until, error_code, pause, is_complete))
