"""The field paths that occur in extractions."""

from __future__ import annotations

import json
from uuid import UUID

from psycopg.sql import SQL

from fieldmark.db.pool import Connection
from fieldmark.domain.document_filters import DocumentFilters
from fieldmark.domain.field_query import MAX_SAMPLED_DOCUMENTS, KnownField, KnownFields, ValueKind
from fieldmark.domain.paths import Pattern
from fieldmark.stores.document_filters import Parameters, document_conditions, source_of, type_conditions
from fieldmark.stores.query_timeout import MAX_SECONDS, query_timeout
from fieldmark.stores.rows import value_of


async def list_known_fields(
    conn: Connection, org_id: UUID, where: DocumentFilters, seconds: float = MAX_SECONDS
) -> KnownFields:
    """Return the field paths in the current extractions of the newest documents. Conditions on fields are ignored.
    Raise TooLongToAnswer."""
    parameters = Parameters()
    conditions = [
        SQL("e.id is not null"),
        *document_conditions(where, parameters, org_id),
        *type_conditions(where, parameters),
    ]
    statement = SQL(
        """with newest as materialized (
          select e.id, e.document_type from {source} where {where} order by d.created_at desc, d.id limit {most}
        )
        select (select count(*) from newest) as looked_at, f.document_type, f.pattern, f.documents,
          f.distinct_values, f.kinds
        from (select) as one left join (
          select e.document_type, v.pattern, count(distinct e.id) as documents,
            count(distinct lower(v.text)) as distinct_values, array_agg(distinct v.kind) as kinds
          from newest as e
          cross join lateral (select * from public.fields where extraction_id = e.id offset 0) as v
          where v.kind not in ('container', 'blank') group by 1, 2
        ) as f on true"""
    ).format(
        source=source_of(where, parameters),
        where=SQL(" and ").join(conditions),
        most=parameters.add(MAX_SAMPLED_DOCUMENTS, "bigint"),
    )
    async with query_timeout(conn, seconds):
        cursor = await conn.execute(statement, parameters.values)
        rows = await cursor.fetchall()
    found = [
        KnownField(
            row["document_type"],
            row["pattern"],
            row["documents"],
            row["distinct_values"],
            [ValueKind(kind) for kind in row["kinds"]],
        )
        for row in rows
        if row["pattern"] is not None
    ]
    found.sort(key=lambda one: (one.document_type or "", -one.documents, one.path))
    return KnownFields(found, rows[0]["looked_at"])


async def is_in_use(conn: Connection, org_id: UUID, pattern: Pattern, seconds: float = MAX_SECONDS) -> bool:
    """Return whether an extraction has a field at a pattern, also a blank one. An index means any item. Raise
    TooLongToAnswer."""
    steps = (
        f"?(exists(@.{key})).{key}"
        if isinstance(step, str) and (key := json.dumps(step, ensure_ascii=False))
        else '?(@.type() == "array")[*]'
        for step in pattern
    )
    query = "select exists (select from public.extractions where org_id = %s and extracted_fields @? %s::jsonpath)"
    async with query_timeout(conn, seconds):
        return await value_of(conn, query, (org_id, f"strict $ {' '.join(steps)}"))
