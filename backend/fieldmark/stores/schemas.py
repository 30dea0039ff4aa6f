"""Schemas in Postgres, and their versions. Each change is one SQL function, which PostgREST offers too."""

from __future__ import annotations

from typing import Any, Final, LiteralString
from uuid import UUID

from psycopg.types.json import Jsonb

from fieldmark.db.pool import Connection
from fieldmark.domain.json_values import JsonObject
from fieldmark.stores.rows import Conditions, Position, SchemaRow, asked, cursor_of, large_rows

_COLUMNS: Final[LiteralString] = """
    s.id, v.id as schema_revid, v.number, v.name, v.schema, s.created_by, s.created_at,
    v.created_by as changed_by, v.created_at as changed_at,
    v.number = (select max(number) from public.schema_versions where schema_id = s.id) as is_latest,
    s.deleted_at is not null as is_deleted, private.is_proposed(s.run_id) as is_proposed"""
_VERSIONS: Final[LiteralString] = "public.schemas as s join public.schema_versions as v on v.schema_id = s.id"


async def add(conn: Connection, org_id: UUID, name: str, schema: JsonObject) -> UUID:
    """The `schema_revid` of a new schema's first version. Raises NotFound, NameTaken, Invalid."""
    cursor = await conn.execute("select public.create_schema(%s, %s, %s) as revid", (org_id, name, Jsonb(schema)))
    return await _revid(cursor)


async def update(
    conn: Connection, schema_id: UUID, *, name: str | None, schema: JsonObject | None, revid: UUID | None
) -> UUID:
    """The `schema_revid` of the version that a schema has now. Raises NotFound, NameTaken, VersionChanged, Invalid."""
    given = None if schema is None else Jsonb(schema)
    cursor = await conn.execute("select public.update_schema(%s, %s, %s, %s) as revid", (schema_id, name, given, revid))
    return await _revid(cursor)


async def remove(conn: Connection, schema_id: UUID) -> tuple[int, int]:
    """Hide a schema. How many prompts and extractions refer to it. Raises NotFound."""
    cursor = await conn.execute("select prompts, extractions from public.delete_schema(%s)", (schema_id,))
    row = await cursor.fetchone()
    assert row is not None
    return row["prompts"], row["extractions"]


async def references(conn: Connection, schema_id: UUID) -> tuple[int, int]:
    """How many prompts and extractions refer to a schema."""
    cursor = await conn.execute("select prompts, extractions from private.references_to_schema(%s)", (schema_id,))
    row = await cursor.fetchone()
    assert row is not None
    return row["prompts"], row["extractions"]


async def get(conn: Connection, schema_id: UUID) -> SchemaRow | None:
    """The latest version of a schema, also of one that is deleted."""
    query: LiteralString = f"select {_COLUMNS} from {_VERSIONS} where s.id = %s order by v.number desc limit 1"
    return await _one(conn, query, (schema_id,))


async def get_version(conn: Connection, revid: UUID) -> SchemaRow | None:
    """One version of a schema."""
    return await _one(conn, f"select {_COLUMNS} from {_VERSIONS} where v.id = %s", (revid,))


async def by_name(conn: Connection, org_id: UUID, name: str) -> SchemaRow | None:
    """The latest version of the schema that has a name, in capitals or not."""
    query: LiteralString = f"""select {_COLUMNS} from {_VERSIONS}
        where s.org_id = %s and lower(s.name) = lower(%s) and s.deleted_at is null order by v.number desc limit 1"""
    return await _one(conn, query, (org_id, name))


async def made_by(conn: Connection, revid: UUID) -> UUID | None:
    """The run that made a schema, with its first version; None where a person did, or there is no such version."""
    cursor = await conn.execute(
        """select made.run_id from public.schema_versions as v join public.schemas as made on made.id = v.schema_id
           where v.id = %s""",
        (revid,),
    )
    row = await cursor.fetchone()
    return None if row is None else row["run_id"]


async def versions(
    conn: Connection, schema_id: UUID, *, limit: int = 1000, before: int | None = None
) -> list[SchemaRow]:
    """The newest `limit` versions of a schema, or those before a number, without their schemas."""
    cursor = await cursor_of(
        conn,
        SchemaRow,
        f"select {_without_text()} from {_VERSIONS} where s.id = %s and v.number < %s order by v.number desc limit %s",
        (schema_id, 2**31 - 1 if before is None else before, limit),
    )
    return await cursor.fetchall()


async def list_schemas(
    conn: Connection, org_id: UUID, *, name: str | None, limit: int, behind: Position | None
) -> list[SchemaRow]:
    """The newest `limit` schemas of an organisation in their latest versions, without their texts, or those that come
    behind a position in that order. `name` is a part of theirs. A schema's place is that of its first version."""
    conditions: Conditions = {"position(lower(%(name)s) in lower(s.name)) > 0": name}
    where: list[LiteralString] = ["s.org_id = %(org)s", "s.deleted_at is null", *asked(conditions)]
    parameters: dict[str, Any] = {"org": org_id, "name": name, "limit": limit}
    if behind is not None:
        where.append("(s.created_at, s.id) < (%(created_at)s, %(id)s)")
        parameters |= behind._asdict()
    cursor = await cursor_of(
        conn,
        SchemaRow,
        f"""select {_without_text()} from public.schemas as s cross join lateral (
              select * from public.schema_versions where schema_id = s.id order by number desc limit 1) as v
            where {" and ".join(where)} order by s.created_at desc, s.id desc limit %(limit)s""",
        parameters,
    )
    return await cursor.fetchall()


def _without_text() -> LiteralString:
    return _COLUMNS.replace("v.schema,", "null::jsonb as schema,")


async def _one(conn: Connection, query: LiteralString, parameters: tuple[object, ...]) -> SchemaRow | None:
    rows = await large_rows(conn, SchemaRow, query, parameters)
    return rows[0] if rows else None


async def _revid(cursor: Any) -> UUID:
    row = await cursor.fetchone()
    assert row is not None
    return row["revid"]
