"""The value of one field in many documents."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from psycopg.sql import SQL, Composable
from pydantic import JsonValue

from fieldmark.db.pool import Connection
from fieldmark.domain.document_filters import DocumentFilters
from fieldmark.domain.paths import Path, name
from fieldmark.stores.document_filters import Parameters, document_conditions, fields_at, source_of, type_conditions
from fieldmark.stores.paging import Cursor, RowPage, position_of
from fieldmark.stores.query_timeout import MAX_SECONDS, query_timeout
from fieldmark.stores.rows import Position, large_rows

MAX_STORED_BYTES: Final = 1024 * 1024
"""Size limit in bytes, as stored, of a page of values and their evidence: a single text may have megabytes."""

_KIND: Final = "field values"


@dataclass(frozen=True, slots=True)
class FieldValueRow:
    """A value of one document. `id` and `created_at` are the document's. `fetched` is the number of rows found,
    including those left out because the page would be too large."""

    id: UUID
    created_at: datetime
    filename: str
    extraction_id: UUID
    version: int
    value: JsonValue
    confidence: JsonValue
    evidence: JsonValue
    lock: JsonValue
    status: str
    reason: str | None
    fetched: int


async def list_values(
    conn: Connection,
    org_id: UUID,
    path: Path,
    where: DocumentFilters,
    *,
    limit: int,
    before: str | None = None,
    seconds: float = MAX_SECONDS,
) -> RowPage[FieldValueRow]:
    """Return a page of the values at a path in current extractions, newest document first.

    Fields without a value are returned too, if the extraction has or needs them; lists and objects are not. Conditions
    on fields are ignored. A page of large values has fewer than
    `limit`, but at least one. Raise Invalid for an invalid cursor, TooLongToAnswer."""
    cursor = position_of(before, _KIND)
    parameters = Parameters()
    conditions: list[Composable] = [
        *document_conditions(where, parameters, org_id),
        *type_conditions(where, parameters),
    ]
    if cursor is not None:
        position = (parameters.add(cursor.created_at, "timestamptz"), parameters.add(cursor.id, "uuid"))
        conditions.append(SQL("(d.created_at, d.id) < ({}, {})").format(*position))
    at = parameters.add(name(path), "text")
    statement = SQL(
        """with found as (
             select d.id, d.created_at, d.filename, e.id as extraction_id, e.version,
               case v.kind when 'number' then to_jsonb(v.number) when 'boolean' then to_jsonb(v.text::boolean)
                 else to_jsonb(v.text) end as value,
               v.confidence, e.evidence -> {at} as evidence, e.locks -> {at} as lock, v.status, v.reason
             from {source} cross join lateral ({values}) as v
             where {where} and v.kind <> 'container'
             order by d.created_at desc, d.id desc limit {limit}
           ), sized as (
             select found.*, count(*) over () as fetched, row_number() over newest as nth,
               sum(coalesce(pg_column_size(value), 0) + coalesce(pg_column_size(evidence), 0)) over newest as stored
             from found window newest as (order by created_at desc, id desc)
           )
           select id, created_at, filename, extraction_id, version, value, confidence, evidence, lock, status, reason,
             fetched
           from sized where nth = 1 or stored <= {most} order by created_at desc, id desc"""
    ).format(
        at=at,
        source=source_of(where, parameters),
        values=fields_at(path, parameters),
        where=SQL(" and ").join(conditions),
        limit=parameters.add(limit + 1, "bigint"),
        most=parameters.add(MAX_STORED_BYTES, "bigint"),
    )
    values: dict[str, Any] = parameters.values
    async with query_timeout(conn, seconds):
        rows = await large_rows(conn, FieldValueRow, statement, values)
    shown = rows[:limit]
    if not shown or shown[0].fetched == len(shown):
        return RowPage(shown, None)
    return RowPage(shown, str(Cursor(_KIND, Position(shown[-1].created_at, shown[-1].id))))
