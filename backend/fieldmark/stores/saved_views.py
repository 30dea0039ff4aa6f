"""Saved views of tables in Postgres. All raise NotFound for a table or view that the caller cannot see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final, LiteralString
from uuid import UUID

from psycopg import errors
from psycopg.types.json import Jsonb
from pydantic import Field, JsonValue

from fieldmark.db.pool import Connection, savepoint
from fieldmark.errors import Invalid, NameTaken, NotFound
from fieldmark.stores.rows import fetch_all, fetch_one, value_of

_COLUMNS: Final[LiteralString] = "id, name, settings, created_by"
_OF_TABLE: Final[LiteralString] = "coalesce(stack_id, schema_id) = %(table)s"
_TABLE: Final[LiteralString] = """
  select org_id, null::uuid as schema_id, id as stack_id from public.stacks where id = %(table)s
  union all select org_id, id, null from public.schemas where id = %(table)s and deleted_at is null"""
_NOT_FOUND: Final = "There is no such table, or it has no such view."
_NAME_TAKEN: Final = "The table has a view with this name. Choose another name."


@dataclass(frozen=True, slots=True)
class SavedView:
    """What a table shows, with a name, for all members of the organisation."""

    id: UUID
    name: str
    settings: Annotated[
        dict[str, JsonValue], Field(description="Filter, order, group and hidden columns of the web UI.")
    ]
    created_by: UUID | None


async def list_of_table(conn: Connection, table_id: UUID) -> Sequence[SavedView]:
    """Return the views of a table in the order in which they were saved."""
    query: LiteralString = f"select {_COLUMNS} from public.saved_views where {_OF_TABLE} order by created_at, id"
    rows = await fetch_all(conn, SavedView, query, {"table": table_id})
    if not rows and not await value_of(conn, f"select exists ({_TABLE})", {"table": table_id}):
        raise NotFound(_NOT_FOUND)
    return rows


async def add(conn: Connection, table_id: UUID, name: str, settings: dict[str, JsonValue]) -> SavedView:
    """Save a view. Raise NameTaken, TooMany, and Invalid for large settings."""
    return await _write(
        conn,
        f"""insert into public.saved_views (org_id, schema_id, stack_id, name, settings)
            select t.org_id, t.schema_id, t.stack_id, %(name)s, %(settings)s from ({_TABLE}) as t
            returning {_COLUMNS}""",
        {"table": table_id, "name": name, "settings": Jsonb(settings)},
    )


async def change(
    conn: Connection, table_id: UUID, view_id: UUID, name: str | None, settings: dict[str, JsonValue] | None
) -> SavedView:
    """Change what is not None. Raise NameTaken, and Invalid for large settings."""
    return await _write(
        conn,
        f"""update public.saved_views set name = coalesce(%(name)s, name), settings = coalesce(%(settings)s, settings)
            where id = %(view)s and {_OF_TABLE} returning {_COLUMNS}""",
        {"table": table_id, "view": view_id, "name": name, "settings": None if settings is None else Jsonb(settings)},
    )


async def remove(conn: Connection, table_id: UUID, view_id: UUID) -> None:
    query: LiteralString = f"""select public.delete_saved_view(id) from public.saved_views
        where id = %(view)s and {_OF_TABLE}"""
    if not (await conn.execute(query, {"table": table_id, "view": view_id})).rowcount:
        raise NotFound(_NOT_FOUND)


async def _write(conn: Connection, statement: LiteralString, parameters: dict[str, object]) -> SavedView:
    try:
        async with savepoint(conn):
            row = await fetch_one(conn, SavedView, statement, parameters)
    except errors.UniqueViolation:
        raise NameTaken(_NAME_TAKEN) from None
    except errors.CheckViolation:  # (the API has checked the name)
        raise Invalid("The settings of a view have more than 20,000 bytes of JSON. Save fewer.") from None
    if row is None:
        raise NotFound(_NOT_FOUND)
    return row
