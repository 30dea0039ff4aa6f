"""Records: the newest completed extractions under a schema as rows of a table, or the items of one of its lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Final, LiteralString
from uuid import UUID

from psycopg.sql import SQL, Composable, Composed

from fieldmark.db.pool import Connection
from fieldmark.domain import paths
from fieldmark.domain.document_filters import FieldCondition, FilterOp
from fieldmark.domain.paths import EACH, Pattern
from fieldmark.stores.document_filters import FieldComparison, Parameters, values_at
from fieldmark.stores.query_timeout import MAX_SECONDS, query_timeout
from fieldmark.stores.rows import large_rows

# A document's newest completed extraction under any version of the schema. A suggested extraction counts once it is
# accepted.
_EXTRACTIONS: Final[LiteralString] = """
  select distinct on (e.document_id) e.id, e.document_id, d.created_at
  from public.schema_versions as s join public.extractions as e on e.schema_revid = s.id
  join public.documents as d on d.id = e.document_id
  where s.schema_id = {schema_id} and e.status = 'completed' and not exists (
    select from public.auto_creations as a where a.run_id = e.run_id and a.status in ('running', 'proposed'))
  order by e.document_id, e.created_at desc, e.id desc"""


@dataclass(frozen=True, slots=True)
class RecordsQuery:
    """Which records, in which order. `columns`: the paths of the fields to return. `rows`: the list whose items are the
    rows; None: a row for each document. `sort`: the field to sort by; None: newest document first."""

    schema_id: UUID
    columns: Sequence[str]
    rows: str | None = None
    conditions: Sequence[FieldCondition] = ()
    sort: str | None = None
    descending: bool = False

    @property
    def row_pattern(self) -> Pattern:
        """The steps to a row: empty for documents, `items[]` for the items of a list."""
        return () if self.rows is None else (*paths.parse_pattern(self.rows), EACH)


@dataclass(frozen=True, slots=True)
class RecordKey:
    """Identifies a record: its extraction, and the indexes of its list item (empty for a document)."""

    extraction_id: UUID
    indexes: Sequence[int]


@dataclass(frozen=True, slots=True)
class RecordRow:
    """A record. `path` is that of the list item, such as `items[2]`; None for a document. `cells` holds a
    {path, value, kind, currency, state, confidence, is_verified, page, quote} for each field with a value."""

    extraction_id: UUID
    document_id: UUID
    filename: str
    created_at: datetime
    version: int
    is_reviewed: bool
    path: str | None
    cells: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ColumnTotal:
    """The sum of a column's numbers in one currency; None: without a currency."""

    column: str
    currency: str | None
    sum: Decimal
    count: int


async def find_records(
    conn: Connection, query: RecordsQuery, *, limit: int, offset: int = 0, seconds: float = MAX_SECONDS
) -> tuple[list[RecordKey], int]:
    """Return the keys of records in order, starting at `offset`, and the number of all that match. The number is 0 if
    `offset` is past the end. Raise TooLongToAnswer."""
    parameters = Parameters()
    statement = SQL(
        """with record as materialized ({records})
           select r.id, r.indexes, count(*) over () as total
           from record as r {sort} order by {order} limit {limit} offset {offset}"""
    ).format(
        records=_records(query, parameters),
        order=_order(query),
        sort=_sort_value(query, parameters),
        limit=parameters.add(limit, "bigint"),
        offset=parameters.add(offset, "bigint"),
    )
    async with query_timeout(conn, seconds):
        rows = await (await conn.execute(statement, parameters.values)).fetchall()
    return [RecordKey(row["id"], row["indexes"]) for row in rows], rows[0]["total"] if rows else 0


async def load_records(
    conn: Connection, columns: Sequence[str], keys: Sequence[RecordKey], list_name: str | None
) -> list[RecordRow]:
    """Return these records in this order, with the cells of these columns. Deleted ones are left out."""
    statement = SQL(
        """select e.id as extraction_id, e.document_id, d.filename, d.created_at, e.version,
             e.reviewed_by is not null as is_reviewed, r.path, coalesce(cells.cells, '{}') as cells
           from (
             select ordinality, id, indexes::integer[], list_path as path
             from unnest(%(ids)s::uuid[], %(indexes)s::text[]) with ordinality as k (id, indexes, ordinality)
             left join lateral (
               select path as list_path from public.field_values
               where extraction_id = k.id and pattern = %(row)s and indexes = k.indexes::integer[]) as l on true) as r
           join public.extractions as e on e.id = r.id
           join public.documents as d on d.id = e.document_id
           cross join lateral (
             select jsonb_object_agg(v.pattern, jsonb_build_object(
               'path', v.path,
               'value', case v.kind when 'number' then to_jsonb(v.number) when 'boolean' then to_jsonb(v.text::boolean)
                 else to_jsonb(v.text) end,
               'kind', v.kind, 'currency', v.currency, 'state', v.state, 'confidence', v.confidence,
               'is_verified', v.is_verified,
               'page', substring(e.evidence -> v.path ->> 'page' from '^[1-9][0-9]{0,8}$')::integer,
               'quote', left(e.evidence -> v.path ->> 'quote', 500))) as cells
             from public.field_values as v
             where v.extraction_id = e.id and v.kind <> 'container' and v.pattern = any (%(columns)s)
               and v.indexes = r.indexes[:cardinality(v.indexes)]) as cells
           order by r.ordinality"""
    )
    parameters = {
        "ids": [key.extraction_id for key in keys],
        "indexes": [f"{{{','.join(map(str, key.indexes))}}}" for key in keys],
        "row": f"{list_name}[]",
        "columns": list(columns),
    }
    return await large_rows(conn, RecordRow, statement, parameters)


async def column_totals(conn: Connection, query: RecordsQuery, seconds: float = MAX_SECONDS) -> list[ColumnTotal]:
    """Return the totals of the number columns over all records that match, by currency. A field outside the list of
    the rows is summed once per document. Raise TooLongToAnswer."""
    parameters = Parameters()
    statement = SQL(
        """with record as materialized ({records}), value as (
             select {once} v.pattern, v.currency, v.number
             from record as r cross join lateral (
               select * from public.field_values where extraction_id = r.id and kind = 'number' offset 0) as v
             where v.pattern = any ({columns}) and v.indexes = r.indexes[:cardinality(v.indexes)])
           select pattern as column, currency, sum(number) as sum, count(*) as count
           from value group by 1, 2 order by 1, 2"""
    ).format(
        records=_records(query, parameters),
        once=SQL("" if query.rows is None else "distinct on (v.id)"),  # a document's field is repeated in each item
        columns=parameters.add(list(query.columns), "text[]"),
    )
    async with query_timeout(conn, seconds):
        return await large_rows(conn, ColumnTotal, statement, parameters.values)


def _records(query: RecordsQuery, parameters: Parameters) -> Composed:
    """Select the matching records: `id, document_id, created_at, indexes`."""
    extractions = SQL(_EXTRACTIONS).format(schema_id=parameters.add(query.schema_id, "uuid"))
    if query.rows is None:
        source = SQL("(select *, '{{}}'::integer[] as indexes from ({}) as x) as e").format(extractions)
    else:
        source = SQL(
            """(select e.*, v.indexes from ({}) as e cross join lateral {} as v
               where v.kind = 'container') as e"""
        ).format(extractions, values_at(query.row_pattern, parameters))
    conditions: list[Composable] = [_condition(query, condition, parameters) for condition in query.conditions]
    where = SQL(" where {}").format(SQL(" and ").join(conditions)) if conditions else SQL("")
    return SQL("select e.* from {}{}").format(source, where)


def _condition(query: RecordsQuery, condition: FieldCondition, parameters: Parameters) -> Composed:
    """Return a condition on a record. Of a list that the rows are in, only the values of the record's item count."""
    comparison = FieldComparison(condition, parameters)
    values = SQL("{} as v where v.indexes[:{}] = e.indexes[:{}]").format(
        values_at(condition.pattern, parameters),
        *[parameters.add(_shared_levels(query.row_pattern, condition.pattern), "integer")] * 2,
    )
    if condition.op is FilterOp.MISSING:
        return SQL("not exists (select from {})").format(values)
    if condition.op is FilterOp.NE:
        return SQL(
            "exists (select from {values} and {usable}) and not exists (select from {values} and {usable} and {equal})"
        ).format(values=values, usable=comparison.is_comparable, equal=comparison.holds)
    return SQL("exists (select from {} and {} and {})").format(values, comparison.is_comparable, comparison.holds)


def _shared_levels(row: Pattern, other: Pattern) -> int:
    shared = 0
    for step, other_step in zip(row, other, strict=False):
        if step != other_step:
            break
        shared += not isinstance(step, str)
    return shared


def _sort_value(query: RecordsQuery, parameters: Parameters) -> Composed:
    if query.sort is None:
        return Composed([])
    pattern = paths.parse_pattern(query.sort)
    return SQL(
        """left join lateral (
             select v.number, v.day, private.folded(left(v.text, 200)) as text from {} as v
             where v.indexes[:{}] = r.indexes[:{}] order by v.indexes limit 1) as s on true"""
    ).format(
        values_at(pattern, parameters, "r.id"),
        *[parameters.add(_shared_levels(query.row_pattern, pattern), "integer")] * 2,
    )


def _order(query: RecordsQuery) -> SQL:
    """Sort by number, then day, then text; records without a value come last."""
    newest = "r.created_at desc, r.document_id, r.indexes"
    if query.sort is None:
        return SQL(newest)
    if query.descending:
        return SQL(f"s.number desc nulls last, s.day desc nulls last, s.text desc nulls last, {newest}")
    return SQL(f"s.number nulls last, s.day nulls last, s.text nulls last, {newest}")
