"""Records: the documents read under a schema as rows of a table, or the items of one of its lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, Final, LiteralString
from uuid import UUID

from psycopg.sql import SQL, Composable, Composed
from psycopg.types.json import Jsonb

from fieldmark.db.pool import Connection
from fieldmark.domain import paths
from fieldmark.domain.columns import Column, cell_path
from fieldmark.domain.document_filters import FieldCondition, FilterOp
from fieldmark.domain.paths import EACH, Pattern
from fieldmark.domain.statuses import ExtractionStatus, FieldStatus
from fieldmark.stores.document_filters import FieldComparison, Parameters, folded, values_at
from fieldmark.stores.query_timeout import MAX_SECONDS, query_timeout
from fieldmark.stores.rows import large_rows, value_of

# A document's extraction under any version of the schema, complete or not. A suggested extraction counts once it is
# accepted.
NEWEST_EXTRACTIONS: Final[LiteralString] = """
  select distinct on (e.document_id) e.id, e.document_id, e.status, e.schema_revid, e.review_count, d.created_at
  from public.schema_versions as s join public.extractions as e on e.schema_revid = s.id
  join public.documents as d on d.id = e.document_id
  where s.schema_id = {schema_id} and e.status <> 'failed' and not exists (
    select from public.auto_creations as a where a.run_id = e.run_id and a.status in ('running', 'proposed'))
  order by e.document_id, e.precedence, e.created_at desc, e.id desc"""

# The documents of a stack, each with its extraction under the stack's schema, if it has one. Duplicates have none: of
# documents with the same bytes the one that was added first has the row, as in the view `stack_table_rows`.
_STACK: Final[LiteralString] = """
  select e.id, s.document_id, e.schema_revid, e.review_count, s.uploaded_at as created_at
  from (
    select s.stack_id, s.document_id, d.created_at as uploaded_at, row_number() over (
      partition by coalesce(d.content_sha256, d.id::text) order by s.created_at, d.created_at, d.id) as copy
    from public.stack_documents as s join public.documents as d on d.id = s.document_id
    where s.stack_id = {stack_id}) as s
  left join public.stack_tables as t on t.stack_id = s.stack_id
  left join lateral (
    select id, schema_revid, review_count from private.stack_extractions
    where of_stack = s.stack_id and of_document = s.document_id) as e
    on s.copy = 1
  where true"""
_STATES: Final[LiteralString] = """
    and s.document_id = any (array(
      select document_id from public.stack_table_rows where stack_id = {stack_id} and state = any ({states})))"""

# The cells of a row: a column `c (name)` with its field `v`, if there is one. The row has the `id`, `schema_revid` and
# `review_count` of its extraction, and its `indexes`. `above`: the reasons of fields that need review and may be around
# a cell, such as a missing list, or in its place, such as an object instead of a text.
_CELLS: Final[LiteralString] = """
  (select coalesce({stale} -> {row}.schema_revid::text, {all}) as stale,
     case when {row}.review_count > 0 then (select jsonb_object_agg(pattern, reason) from public.fields
       where extraction_id = {row}.id and status = 'needs_review'
         and indexes = {row}.indexes[:cardinality(indexes)]) end as above
   offset 0) as x
  cross join unnest({columns}) as c (name)
  left join {fields} as v on v.pattern = c.name"""
_REASON: Final[LiteralString] = """case when v.path is not null then v.reason else (
  select value from jsonb_each_text(x.above)
  where key = c.name or starts_with(c.name, key || '.') or starts_with(c.name, key || '[')
  order by char_length(key) desc limit 1) end"""
# The stored status of the field, unless the column has changed since and nothing else is asked about it.
_STATUS: Final[LiteralString] = f"""case
  when x.stale ? c.name and coalesce(v.status, '') not in ('accepted', 'confirmed')
    and coalesce(v.reason, '') not in ('proposal', 'person') then 'stale'
  when v.path is null then case when {_REASON} is null then 'not_written' else 'needs_review' end
  else v.status end"""


@dataclass(frozen=True, slots=True)
class RecordsQuery:
    """Which records, in which order. `stack_id`: the documents of a stack, with or without an extraction; `states`:
    only rows of the stack in these states. None: all extractions under the schema. `document_ids`: only records of
    these documents. `columns`: the fields to return, by path; the numbers of those with a unit have no currency.
    `rows`: the list whose items are the rows; None: a row for each document. `stale`: for each version of the schema
    the columns that have changed since; all columns have changed since a version that is not listed. `cell_statuses`:
    only records with such a cell, in the column `cell_column` if given. `sort`: the field to sort by; None: newest
    document first. `by_status`: sort by the status of the cells in `sort`, or by the most urgent status of each
    record."""

    schema_id: UUID | None
    columns: Mapping[str, Column]
    rows: str | None = None
    stale: Mapping[UUID, Sequence[str]] = field(default_factory=dict[UUID, Sequence[str]])
    conditions: Sequence[FieldCondition] = ()
    cell_statuses: Sequence[FieldStatus] = ()
    cell_column: str | None = None
    sort: str | None = None
    descending: bool = False
    by_status: bool = False
    stack_id: UUID | None = None
    states: Sequence[str] = ()
    document_ids: Sequence[UUID] | None = None

    @property
    def row_pattern(self) -> Pattern:
        """The steps to a row: empty for documents, `items[]` for the items of a list."""
        return () if self.rows is None else (*paths.parse_pattern(self.rows), EACH)


@dataclass(frozen=True, slots=True)
class RecordKey:
    """Identifies a record: its document, its extraction (None: a document of a stack without one), and the indexes of
    its list item (empty for a document)."""

    document_id: UUID
    extraction_id: UUID | None
    indexes: Sequence[int]


@dataclass(frozen=True, slots=True)
class RecordRow:
    """A record. `path` is that of the list item, such as `items[2]`; None for a document. `cells` holds a
    {path, status, reason, value, kind, currency, state, confidence, is_verified, page, quote} for each column.
    `status` is that of a row of a stack (RowState); other records are `done`, `incomplete` or `stale`. `review_count`:
    fields of the document's extraction that a person has to look at, also outside the columns."""

    extraction_id: UUID | None
    document_id: UUID
    filename: str
    created_at: datetime
    status: str
    error: str | None
    error_code: str | None
    duplicate_of: UUID | None
    duplicate_of_filename: str | None
    version: int | None
    is_reviewed: bool
    extraction_status: ExtractionStatus | None
    review_count: int
    path: str | None
    cells: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ColumnTotal:
    """The sum of a column's numbers in one currency; None: without a currency."""

    column: str
    currency: str | None
    sum: Decimal
    count: int


@dataclass(frozen=True, slots=True)
class TableSize:
    """A schema with the number of documents in its table."""

    schema_id: UUID
    name: str
    records: int


async def table_sizes(conn: Connection, org_id: UUID) -> list[TableSize]:
    """Return an organisation's schemas with the sizes of their tables, the largest first; at most 200."""
    return await large_rows(
        conn,
        TableSize,
        """select i.id as schema_id, i.name, count(distinct e.document_id) as records
           from public.schemas as i left join public.schema_versions as s on s.schema_id = i.id
           left join public.extractions as e on e.schema_revid = s.id and e.status <> 'failed' and not exists (
             select from public.auto_creations as a where a.run_id = e.run_id and a.status in ('running', 'proposed'))
           where i.org_id = %s and i.deleted_at is null and not private.is_proposed(i.run_id)
           group by i.id order by records desc, lower(i.name), i.id limit 200""",
        (org_id,),
    )


async def required_columns(conn: Connection, schema_id: UUID, columns: Sequence[str]) -> list[str]:
    """Return those of the columns in which each row should have a value."""
    query = """select array(select unnest(required_fields) intersect select unnest(%s::text[]))
               from public.schemas where id = %s"""
    found: list[str] | None = await value_of(conn, query, (list(columns), schema_id))
    return sorted(found or (), key=list(columns).index)


async def find_records(
    conn: Connection, query: RecordsQuery, *, limit: int, offset: int = 0, seconds: float = MAX_SECONDS
) -> tuple[list[RecordKey], int]:
    """Return the keys of records in order, starting at `offset`, and the number of all that match. Raise
    TooLongToAnswer."""
    parameters = Parameters()
    statement = SQL(
        """with record as materialized ({records})
           select r.document_id, r.id, r.indexes, count(*) over () as total
           from record as r {sort} order by {order} limit {limit} offset {offset}"""
    ).format(
        records=matching_records(query, parameters),
        order=_order(query),
        sort=_sort_value(query, parameters),
        limit=parameters.add(limit, "bigint"),
        offset=parameters.add(offset, "bigint"),
    )
    async with query_timeout(conn, seconds):
        rows = await (await conn.execute(statement, parameters.values)).fetchall()
    if offset and not rows:  # past the end, where no row has the number
        return [], (await find_records(conn, query, limit=1, seconds=seconds))[1]
    return [RecordKey(row["document_id"], row["id"], row["indexes"]) for row in rows], rows[0]["total"] if rows else 0


async def load_records(
    conn: Connection,
    query: RecordsQuery,
    keys: Sequence[RecordKey],
    *,
    as_text: bool = False,
    seconds: float = MAX_SECONDS,
) -> list[RecordRow]:
    """Return these records in this order. Deleted ones are left out. `as_text`: the values are texts, in which numbers
    have all their digits. Raise TooLongToAnswer."""
    parameters = Parameters()
    statement = SQL(
        """select r.id as extraction_id, d.id as document_id, d.filename, d.created_at, r.version,
             r.reviewed_by is not null as is_reviewed, r.indexes, coalesce(cells.cells, '{{}}') as cells,
             coalesce(s.state, case when r.status <> 'completed' then 'incomplete'
               when {stale} -> r.schema_revid::text = '[]' then 'done' else 'stale' end) as status,
             r.status as extraction_status, coalesce(r.review_count, 0) as review_count,
             s.error, s.error_code, s.duplicate_of, o.filename as duplicate_of_filename
           from (
             -- (The evidence is decompressed once, instead of twice for each value of each row.)
             select k.ordinality, k.document_id, k.indexes::integer[], e.id, e.schema_revid, e.version, e.status,
               e.review_count, e.reviewed_by, jsonb_path_query_first(e.evidence, '$') as evidence
             from unnest({documents}, {ids}, {indexes}) with ordinality as k (document_id, id, indexes, ordinality)
             left join public.extractions as e on e.id = k.id offset 0) as r
           join public.documents as d on d.id = r.document_id
           left join public.stack_table_rows as s on s.stack_id = {stack} and s.document_id = r.document_id
           left join public.documents as o on o.id = s.duplicate_of
           cross join lateral (
             select json_object_agg(c.name, json_build_object(
               'path', v.path, 'status', cell.status, 'reason', case when cell.status <> 'stale' then {reason} end,
               'value', case when {as_text} or v.text is null then to_json(v.text)
                 when v.kind = 'number' then to_json(v.number) when v.kind = 'boolean' then to_json(v.text::boolean)
                 else to_json(v.text) end,
               'kind', nullif(v.kind, 'blank'), 'currency', case when c.name <> all ({measures}) then v.currency end,
               'state', v.state, 'confidence', v.confidence,
               'is_verified', coalesce(v.is_verified, false),
               'page', substring(r.evidence -> v.path ->> 'page' from '^[1-9][0-9]{{0,8}}$')::integer,
               'quote', left(r.evidence -> v.path ->> 'quote', 500))) as cells
             from {cells} cross join lateral (select {status} as status offset 0) as cell
             where r.id is not null) as cells
           where r.id is not null or s.document_id is not null
           order by r.ordinality"""
    ).format(
        documents=parameters.add([key.document_id for key in keys], "uuid[]"),
        stack=parameters.add(query.stack_id, "uuid"),
        stale=parameters.add(_stale(query), "jsonb"),
        ids=parameters.add([key.extraction_id for key in keys], "uuid[]"),
        indexes=parameters.add([f"{{{','.join(map(str, key.indexes))}}}" for key in keys], "text[]"),
        as_text=parameters.add(as_text, "boolean"),
        measures=parameters.add(_measures(query), "text[]"),
        cells=_cells(query, list(query.columns), "r", parameters),
        status=SQL(_STATUS),
        reason=SQL(_REASON),
    )

    def record(indexes: Sequence[int], cells: dict[str, dict[str, Any]], **others: Any) -> RecordRow:
        for column, cell in cells.items():
            cell["path"] = cell["path"] or cell_path(column, indexes)  # that which a value would have
        path = cell_path(f"{query.rows}[]", indexes) if query.rows is not None and indexes else None
        return RecordRow(path=path, cells=cells, **others)

    async with query_timeout(conn, seconds, few_rows=True):
        return await large_rows(conn, record, statement, parameters.values)


async def column_totals(conn: Connection, query: RecordsQuery, seconds: float = MAX_SECONDS) -> list[ColumnTotal]:
    """Return the totals of the number columns over all records that match, by currency. A field outside the list of
    the rows is summed once per document. Raise TooLongToAnswer."""
    parameters = Parameters()
    statement = SQL(
        """with record as materialized ({records}), value as (
             select v.pattern, case when v.pattern <> all ({measures}) then v.currency end as currency, v.number
             from {values} as v)
           select pattern as column, currency, sum(number) as sum, count(*) as count
           from value group by 1, 2 order by 1, 2"""
    ).format(
        records=matching_records(query, parameters),
        values=values_of_records(query, SQL("kind = 'number'"), parameters),
        measures=parameters.add(_measures(query), "text[]"),
    )
    async with query_timeout(conn, seconds):
        return await large_rows(conn, ColumnTotal, statement, parameters.values)


def matching_records(query: RecordsQuery, parameters: Parameters) -> Composed:
    """Select the matching records: `id, document_id, created_at, indexes`, and what `_CELLS` needs."""
    if query.stack_id is None:
        extractions = SQL(NEWEST_EXTRACTIONS).format(schema_id=parameters.add(query.schema_id, "uuid"))
    else:
        stack_id = parameters.add(query.stack_id, "uuid")
        extractions = SQL(_STACK).format(stack_id=stack_id)
        if query.states:
            states = parameters.add(list(query.states), "text[]")
            extractions += SQL(_STATES).format(stack_id=stack_id, states=states)
    if query.rows is None:
        source = SQL("(select *, '{{}}'::integer[] as indexes from ({}) as x) as e").format(extractions)
    else:
        source = SQL(
            # (`coalesce` counts as a function that leaks: under row policies, no index is used with it.)
            """(select e.*, case when v.indexes is null then '{{}}' else v.indexes end as indexes
               from ({}) as e {} join lateral (select * from {} as v where v.kind = 'container') as v on true) as e"""
        ).format(
            extractions,
            # A document of a stack has a row even if its list is empty.
            SQL("inner" if query.stack_id is None else "left"),
            values_at(query.row_pattern, parameters),
        )
    conditions: list[Composable] = [_condition(query, condition, parameters) for condition in query.conditions]
    if query.document_ids is not None:
        ids = parameters.add(list(query.document_ids), "uuid[]")
        conditions.append(SQL("e.document_id = any ({})").format(ids))
    if query.cell_statuses:
        conditions.append(_has_cell(query, parameters))
    where = SQL(" where {}").format(SQL(" and ").join(conditions)) if conditions else SQL("")
    return SQL("select e.* from {}{}").format(source, where)


def _condition(query: RecordsQuery, condition: FieldCondition, parameters: Parameters) -> Composed:
    """Return a condition on a record. Of a list that the rows are in, only the values of the record's item count."""
    comparison = FieldComparison(condition, parameters)
    values = _values_of_row(query, condition.pattern, "e", parameters)
    if condition.op is FilterOp.MISSING:
        return SQL("not exists (select from {})").format(values)
    if condition.op is FilterOp.NE:
        return SQL(
            "exists (select from {values} and {usable}) and not exists (select from {values} and {usable} and {equal})"
        ).format(values=values, usable=comparison.is_comparable, equal=comparison.holds)
    return SQL("exists (select from {} and {} and {})").format(values, comparison.is_comparable, comparison.holds)


def _values_of_row(query: RecordsQuery, pattern: Pattern, row: LiteralString, parameters: Parameters) -> Composed:
    """Return the values `v` at a pattern in the row of the alias `row`. If it has at most one, it is looked up by the
    row: all values at the pattern, for each row, would be the square of a long list."""
    levels = _shared_levels(query.row_pattern, pattern)
    shared = parameters.add(levels, "integer")
    if query.rows is None or levels < sum(not isinstance(step, str) for step in pattern):
        return SQL(f"{{}} as v where v.indexes[:{{}}] = {row}.indexes[:{{}}]").format(
            values_at(pattern, parameters, f"{row}.id"), *[shared] * 2
        )
    at = SQL(f"{row}.indexes[:{{}}]").format(shared)
    condition = SQL("pattern = {} and kind <> 'blank'").format(parameters.add(paths.name(pattern), "text"))
    return SQL("{} as v where true").format(_fields_of_row(SQL(f"{row}.id"), at, condition))


def _fields_of_row(extraction_id: Composable, indexes: Composable, condition: Composable) -> Composed:
    """Return the fields of a row that meet a condition, found by its key."""
    # `uuid_cmp`: an index on extraction_id would be used instead of that on row_key, and read all fields of a long list
    # for each of its rows. `offset 0`: without it the planner may scan all fields, for a join.
    return SQL(
        """(select * from public.fields
            where row_key = uuid_hash_extended({id}, hash_array_extended({indexes}, 0))
              and uuid_cmp(extraction_id, {id}) = 0 and indexes = {indexes} and {condition} offset 0)"""
    ).format(id=extraction_id, indexes=indexes, condition=condition)


def _fields_around_row(query: RecordsQuery, row: LiteralString, condition: Composable) -> Composed:
    """Return the fields of a row, and those of the document and the list items around it."""
    if query.rows is None:
        return _fields_of_row(SQL(f"{row}.id"), SQL("'{{}}'::integer[]"), condition)
    return SQL(
        f"""(select v.* from generate_series(0, cardinality({row}.indexes)) as level cross join lateral {{}} as v)"""
    ).format(_fields_of_row(SQL(f"{row}.id"), SQL(f"{row}.indexes[:level]"), condition))


def values_of_records(query: RecordsQuery, condition: Composable, parameters: Parameters) -> Composed:
    """Return the fields in the columns of `record` that meet a condition, one outside the list of the rows once per
    document."""
    condition = SQL("{} and pattern = any ({})").format(condition, parameters.add(list(query.columns), "text[]"))
    if query.rows is None:
        return SQL("(select v.* from record as r cross join lateral {} as v)").format(
            _fields_around_row(query, "r", condition)
        )
    return SQL(
        """(select v.* from (
             select distinct r.id, r.indexes[:level] as at
             from record as r cross join lateral generate_series(0, cardinality(r.indexes)) as level) as r
           cross join lateral {} as v)"""
    ).format(_fields_of_row(SQL("r.id"), SQL("r.at"), condition))


def _has_cell(query: RecordsQuery, parameters: Parameters) -> Composed:
    """Return a condition on a record: it has a cell of one of the statuses."""
    columns = list(query.columns) if query.cell_column is None else [query.cell_column]
    # (Most extractions have no field for a person. Their cells need not be read to know that.)
    counted = SQL("e.review_count > 0" if all(one.needs_person for one in query.cell_statuses) else "e.id is not null")
    return SQL("case when {} then exists (select from {} where {} = any ({})) end").format(
        counted,
        _cells(query, columns, "e", parameters),
        SQL(_STATUS),
        parameters.add(list(query.cell_statuses), "text[]"),
    )


def _measures(query: RecordsQuery) -> list[str]:
    return [column.path for column in query.columns.values() if column.unit is not None]


def _cells(query: RecordsQuery, columns: Sequence[str], row: LiteralString, parameters: Parameters) -> Composed:
    return SQL(_CELLS).format(
        stale=parameters.add(_stale(query), "jsonb"),
        all=parameters.add(Jsonb(list(query.columns)), "jsonb"),
        columns=parameters.add(list(columns), "text[]"),
        fields=_fields_around_row(query, row, SQL("kind <> 'container'")),
        row=SQL(row),
    )


def _stale(query: RecordsQuery) -> Jsonb:
    return Jsonb({str(revid): list(names) for revid, names in query.stale.items()})


def _shared_levels(row: Pattern, other: Pattern) -> int:
    shared = 0
    for step, other_step in zip(row, other, strict=False):
        if step != other_step:
            break
        shared += not isinstance(step, str)
    return shared


def _sort_value(query: RecordsQuery, parameters: Parameters) -> Composed:
    if query.by_status:
        columns = list(query.columns) if query.sort is None else [query.sort]
        return SQL(
            """cross join lateral (
                 select min(array_position({}, {})) as urgency from {} where r.id is not null) as s"""
        ).format(
            parameters.add(list(FieldStatus), "text[]"),
            SQL(_STATUS),
            _cells(query, columns, "r", parameters),
        )
    if query.sort is None:
        return Composed([])
    pattern = paths.parse_pattern(query.sort)
    return SQL(
        f"""left join lateral (
             select v.number, v.day, {folded("left(v.text, 200)")} as text from {{}}
             order by v.indexes limit 1) as s on true"""
    ).format(_values_of_row(query, pattern, "r", parameters))


def _order(query: RecordsQuery) -> SQL:
    """Sort by number, then day, then text; records without a value come last."""
    newest = "r.created_at desc, r.document_id, r.indexes"
    if query.by_status:
        return SQL(f"s.urgency {'desc ' if query.descending else ''}nulls last, {newest}")
    if query.sort is None:
        return SQL(newest)
    if query.descending:
        return SQL(f"s.number desc nulls last, s.day desc nulls last, s.text desc nulls last, {newest}")
    return SQL(f"s.number nulls last, s.day nulls last, s.text nulls last, {newest}")
