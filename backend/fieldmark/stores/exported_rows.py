"""All rows of an organisation that the caller may read, as JSON, for an export. The catalogue lists the tables, so a
new table is exported too."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from psycopg import sql

from fieldmark.db.pool import Connection
from fieldmark.stores.rows import fetch_all

_MOST_TIME: Final = "1h"
"""Time limit of copying a table, instead of that of a request."""


@dataclass(frozen=True, slots=True)
class ReadableTable:
    """A table, and those of its columns that the caller may read. `org_column` has the organisation's id."""

    name: str
    columns: list[str]
    uuid_columns: list[str]
    org_column: str


async def readable_tables(conn: Connection) -> list[ReadableTable]:
    query = """
        select c.relname as name, array_agg(a.attname::text order by a.attnum) as columns,
            array_agg(a.attname::text) filter (where a.atttypid = 'uuid'::regtype) as uuid_columns,
            case c.relname when 'organisations' then 'id' else 'org_id' end as org_column
        from pg_class as c join pg_attribute as a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
        where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
          and has_column_privilege(c.oid, a.attnum, 'select')
        group by c.relname
        having bool_or(a.attname = case c.relname when 'organisations' then 'id' else 'org_id' end)
        order by c.relname"""
    return await fetch_all(conn, ReadableTable, query)


async def json_rows(
    conn: Connection, table: ReadableTable, org_id: UUID, people: Sequence[UUID] = ()
) -> AsyncIterator[str]:
    """Yield an organisation's rows of a table as JSON objects. `people`: only rows that name one of these ids."""
    condition = sql.SQL("{} = {}").format(sql.Identifier(table.org_column), org_id)
    if people:
        names = sql.SQL(", ").join(map(sql.Identifier, table.uuid_columns))
        condition += sql.SQL(" and array[{}] && {}").format(names, list(people))
    query = sql.SQL(
        "copy (select row_to_json(t)::text from (select {} from public.{} where {}) as t) to stdout"
    ).format(sql.SQL(", ").join(map(sql.Identifier, table.columns)), sql.Identifier(table.name), condition)
    await conn.execute("select set_config('statement_timeout', %s, true)", (_MOST_TIME,))
    async with conn.cursor().copy(query) as copy:
        async for row in copy.rows():
            yield str(row[0])


async def stored_paths(conn: Connection, after: UUID, org_id: UUID, limit: int) -> list[tuple[UUID, list[str]]]:
    """Return the paths of the originals of the documents after an id, by document."""
    cursor = await conn.execute(
        """select id, array_remove(array[storage_path, unlocked_path], null) as paths from public.documents
           where org_id = %s and id > %s order by id limit %s""",
        (org_id, after, limit),
    )
    return [(row["id"], row["paths"]) for row in await cursor.fetchall()]


async def own_ids(conn: Connection, user_id: UUID) -> list[UUID]:
    """Return the ids under which a person acts in the organisation: their own, and those of their keys."""
    cursor = await conn.execute("select id from public.api_keys where created_by = %s", (user_id,))
    return [user_id, *(row["id"] for row in await cursor.fetchall())]
