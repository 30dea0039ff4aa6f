"""Schemas by name: made, changed, listed, deleted. A schema that cannot be used is refused here, whoever brings it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from fieldmark.db.pool import Connection
from fieldmark.domain.json_values import JsonObject
from fieldmark.domain.schema import MOST_TOLD, check_schema, violations
from fieldmark.domain.values import invisible_character, problem_with
from fieldmark.domain.violations import Violation
from fieldmark.errors import InvalidSchema, NotFound
from fieldmark.identity.scope import Scope
from fieldmark.services.paging import Cursor, Page, page_of
from fieldmark.services.turns import in_turn, without_turn
from fieldmark.stores import schemas
from fieldmark.stores.rows import SchemaRow


@dataclass(frozen=True, slots=True)
class SchemaReferences:
    """How much still refers to a schema."""

    prompts: int
    extractions: int


async def check(schema: dict[str, Any]) -> None:
    """Raise InvalidSchema where a schema cannot be used. Called before any transaction, since a hostile one takes a
    while."""
    if problem := problem_with(schema) or invisible_character(schema, "schema"):
        raise InvalidSchema(f"The schema cannot be used. {problem}")
    await without_turn(check_schema, schema)


async def judge(org_id: UUID, schema: JsonObject, fields: JsonObject) -> list[Violation]:
    """Where fields that stand in no extraction break a schema or its rules. Whether a document prints them, nobody
    asks here. Called without a transaction. Raises InvalidSchema, TooManyAtOnce."""
    found = await in_turn(org_id, violations, schema, fields, None, (), MOST_TOLD)
    return [one for one in found if one.code != "grounded"]


async def create(conn: Connection, scope: Scope, name: str, schema: JsonObject) -> SchemaRow:
    """A new schema, of one that was checked. Raises NameTaken, Invalid."""
    return await get_version(conn, await schemas.add(conn, scope.org_id, name, schema))


async def update(
    conn: Connection,
    schema_id: UUID,
    *,
    name: str | None = None,
    schema: JsonObject | None = None,
    revid: UUID | None = None,
) -> SchemaRow:
    """The version that a schema has after a change; None leaves the name or the (checked) schema as it is. `revid` is
    the version that was looked at. Raises NotFound, NameTaken, VersionChanged, Invalid."""
    return await get_version(conn, await schemas.update(conn, schema_id, name=name, schema=schema, revid=revid))


async def get(conn: Connection, schema_id: UUID) -> SchemaRow:
    """The latest version of a schema, also of a deleted one. Raises NotFound."""
    return _found(await schemas.get(conn, schema_id))


async def get_version(conn: Connection, revid: UUID) -> SchemaRow:
    """One version. Raises NotFound."""
    return _found(await schemas.get_version(conn, revid))


async def versions(
    conn: Connection, schema_id: UUID, *, limit: int = 1000, before: int | None = None
) -> list[SchemaRow]:
    """The newest `limit` versions of a schema, or those before a number, without their texts. Raises NotFound."""
    rows = await schemas.versions(conn, schema_id, limit=limit, before=before)
    if not rows:
        await get(conn, schema_id)
    return rows


async def named(conn: Connection, scope: Scope, name: str) -> Page[SchemaRow]:
    """The schema that has a name, in capitals or not, as a list of one in its latest version; else an empty one."""
    row = await schemas.by_name(conn, scope.org_id, name)
    return Page([] if row is None else [row], None)


async def list_page(
    conn: Connection, scope: Scope, *, name: str | None = None, limit: int, before: str | None = None
) -> Page[SchemaRow]:
    """A page of the organisation's schemas, the newest first, without their texts. Raises Invalid for a cursor that is
    none."""
    behind = None if before is None else Cursor.parse(before, "schemas").position
    rows = await schemas.list_schemas(conn, scope.org_id, name=name, limit=limit + 1, behind=behind)
    return page_of(rows, limit, "schemas")


async def remove(conn: Connection, schema_id: UUID) -> SchemaReferences:
    """Hide a schema; what still refers to it keeps it. Raises NotFound."""
    return SchemaReferences(*await schemas.remove(conn, schema_id))


async def references(conn: Connection, schema_id: UUID) -> SchemaReferences:
    """How much refers to a schema."""
    return SchemaReferences(*await schemas.references(conn, schema_id))


def _found(row: SchemaRow | None) -> SchemaRow:
    if row is None:
        raise NotFound("There is no such schema.")
    return row
