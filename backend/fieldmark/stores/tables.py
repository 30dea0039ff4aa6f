"""Tables: the documents read under a schema, or those of a stack, as rows; or the items of one of their lists."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Final, LiteralString
from uuid import UUID

from psycopg.sql import SQL, Composable, Composed
from psycopg.types.json import Jsonb
from pydantic import Field, WithJsonSchema
from typing_extensions import TypedDict  # pydantic needs it before Python 3.12

from fieldmark.db.pool import Connection
from fieldmark.domain import paths
from fieldmark.domain.columns import Column, cell_path
from fieldmark.domain.paths import EACH, Pattern
from fieldmark.domain.statuses import ExtractionStatus, FieldStatus, RowStatus
from fieldmark.domain.table_query import TableQuery
from fieldmark.stores.document_filters import (
    Parameters,
    document_conditions,
    field_condition,
    folded,
    type_conditions,
    values_at,
)
from fieldmark.stores.query_timeout import MAX_SECONDS, query_timeout
from fieldmark.stores.rows import ReasonField, Schema, StatusField, large_rows, page_in, value_of

# A document's current extraction under any version of the schema, complete or not. (Selects as the view
# private.schema_extractions does; through the view, the selection of 10,000 rows took 1.2 times as long.)
_SCHEMA: Final[LiteralString] = """
  select distinct on (e.document_id) e.id, e.document_id, e.document_type, e.status, e.schema_revid, e.review_count,
    d.created_at
  from public.schema_versions as s join public.extractions as e on e.schema_revid = s.id
  join public.documents as d on d.id = e.document_id
  where s.schema_id = {schema_id} and e.precedence < 2
  order by e.document_id, e.precedence, e.created_at desc, e.id desc"""
# The documents of a stack, each with its extraction under the stack's schema, if it has one. Duplicates have none.
_STACK: Final[LiteralString] = """
  select e.id, s.document_id, e.document_type, e.status, e.schema_revid, e.review_count, s.uploaded_at as created_at
  from private.stack_copies as s left join public.stack_tables as t on t.stack_id = s.stack_id
  left join lateral (
    select id, document_type, status, schema_revid, review_count from private.schema_extractions
    where schema_id = t.schema_id and document_id = s.document_id offset 0) as e
    on s.first_copy = s.document_id
  where s.stack_id = {stack_id}"""
_IN_STACK_STATES: Final[LiteralString] = """{row}.document_id = any (array(
  select document_id from public.stack_table_rows where stack_id = {} and state = any ({})))"""
# In the order of `reading_first`.
_BUSY_STATES: Final = ((RowStatus.RUNNING, RowStatus.AWAITING_APPROVAL), (RowStatus.WAITING,))
_SORT_KEYS: Final[tuple[LiteralString, ...]] = ("number", "day", "text")
_ABOUT_STACK_ROW: Final[LiteralString] = """s.state as status, s.error, s.error_code, s.duplicate_of,
  o.filename as duplicate_of_filename"""
_STACK_ROWS: Final[LiteralString] = """
  join public.stack_table_rows as s on s.stack_id = {} and s.document_id = r.document_id
  left join public.documents as o on o.id = s.duplicate_of"""
# The same of a row of a schema's table.
_ABOUT_ROW: Final[LiteralString] = """{status} as status, null as error, null as error_code, null as duplicate_of,
  null as duplicate_of_filename"""
_ROW_STATUS: Final[LiteralString] = """case when {row}.status <> 'completed' then 'incomplete'
  when {row}.schema_revid = any ({unchanged}) then 'done' else 'stale' end"""

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
# How many fields a person has to look at in a row, if the items of a list are the rows.
_ITEM_REVIEW_COUNT: Final[LiteralString] = """case when {extraction}.review_count > 0 then (
  select coalesce(sum(fields), 0)::integer from private.review_counts({extraction}.id, {list})
  where indexes in ('{{}}', {row}.indexes)) else 0 end"""
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
class Table:
    """A set of documents and columns: the documents that were read under a schema, or those of a stack, also without an
    extraction. `schema`: None for a stack without columns. `columns`: by path. `lists`: the lists of the schema whose
    items can be the rows. `rows`: the list whose items are the rows; None: a row for each document. `unchanged`: the
    versions of the schema whose rows are not stale. `stale`: for each version the columns that have changed since; all
    columns have changed since a version that is not listed."""

    name: str
    schema: Schema | None
    columns: Mapping[str, Column]
    rows: str | None = None
    stack_id: UUID | None = None
    lists: Sequence[str] = ()
    has_more_columns: bool = False
    unchanged: Sequence[UUID] = ()
    stale: Mapping[UUID, Sequence[str]] = field(default_factory=dict[UUID, Sequence[str]])

    @property
    def row_pattern(self) -> Pattern:
        """The steps to a row: empty for documents, `items[]` for the items of a list."""
        return () if self.rows is None else (*paths.parse_pattern(self.rows), EACH)

    @property
    def measures(self) -> list[str]:
        """The columns with a unit, whose numbers have no currency."""
        return [column.path for column in self.columns.values() if column.unit is not None]


@dataclass(frozen=True, slots=True)
class RowKey:
    """Identifies a row: its document, its extraction (None: a document of a stack without one), and the indexes of its
    list item (empty for a document)."""

    document_id: UUID
    extraction_id: UUID | None
    indexes: Sequence[int]


class TableCell(TypedDict):
    """A row in a column: its value, or where the value would be."""

    path: Annotated[str, Field(description="The field's path in the extraction, such as `items[2].price`.")]
    status: StatusField
    reason: ReasonField
    value: Annotated[Any, WithJsonSchema({"type": ["number", "boolean", "string", "null"]})]
    kind: Annotated[str | None, Field(description="number, day, text or boolean. null without a value.")]
    currency: Annotated[str | None, Field(description="The currency of a number, from the fields beside it.")]
    state: Annotated[str | None, Field(description="The state of its evidence: `found`, `not_found`, …")]
    confidence: float | None
    is_verified: Annotated[bool, Field(description="Found on a page, or set by a person.")]
    page: int | None
    quote: str | None


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row: a document, or an item of a list."""

    extraction_id: Annotated[UUID | None, Field(description="null: a document of a stack that has not been read yet.")]
    document_id: UUID
    filename: str
    external_id: Annotated[str | None, Field(description="The caller's own key of the document.")]
    metadata: Annotated[dict[str, Any], Field(description="The caller's own data about the document.")]
    created_at: Annotated[datetime, Field(description="When the document was uploaded.")]
    status: Annotated[
        RowStatus,
        Field(
            description="`stale`: it follows an older version of the columns. In a stack also `waiting`, `running`, "
            "`awaiting_approval`, `failed`, `duplicate` (a document that is longer in the stack has the same bytes), "
            "and `container` (an archive, whose files have rows). `incomplete`: it is not completed. Otherwise `done`."
        ),
    ]
    error: Annotated[str | None, Field(description="Why the row of a stack failed.")]
    error_code: str | None
    duplicate_of: Annotated[UUID | None, Field(description="The document with the same bytes that has the row.")]
    duplicate_of_filename: str | None
    version: Annotated[
        int | None, Field(description="The extraction's version. Send it as If-Match when you change a value.")
    ]
    is_reviewed: Annotated[
        bool, Field(description="The document was reviewed, and no field of the row needs a person.")
    ]
    extraction_status: ExtractionStatus | None
    review_count: Annotated[
        int,
        Field(
            description="The number of fields of the row that a person has to look at, also outside the columns. If "
            "the items of a list are the rows: those of the item, and those of the document outside of the list."
        ),
    ]
    document_review_count: Annotated[
        int, Field(description="The same number for the document, with all items of its lists.")
    ]
    path: Annotated[
        str | None, Field(description="The path of the list item, such as `items[2]`. null for a document.")
    ]
    cells: Annotated[Mapping[str, TableCell], Field(description="By column.")]


@dataclass(frozen=True, slots=True)
class ColumnTotal:
    """The sum of a column's numbers in one currency; None: without a currency."""

    column: str
    currency: str | None
    sum: Decimal
    count: int


@dataclass(frozen=True, slots=True)
class TableGroup:
    """The rows with the same value in a column."""

    value: Annotated[str | None, Field(description="As text; a number and a day as in JSON. null: no value.")]
    kind: Annotated[str | None, Field(description="number, day, text or boolean. null without a value.")]
    rows: int
    to_review: Annotated[int, Field(description="The number of rows with a field that needs a person.")]
    totals: Sequence[ColumnTotal]


@dataclass(frozen=True, slots=True)
class TableSummary:
    """The table of a stack, or of a schema."""

    id: UUID
    stack_id: UUID | None
    schema_id: Annotated[UUID | None, Field(description="null: a stack without columns.")]
    name: str
    records: Annotated[int, Field(description="The number of its documents.")]
    to_review: Annotated[int, Field(description="The number of its documents that need a person.")]
    values_to_review: Annotated[int, Field(description="The number of their values that need a person.")]
    changed_at: Annotated[datetime, Field(description="When its columns or a value in it last changed.")]


async def table_summaries(conn: Connection, org_id: UUID) -> list[TableSummary]:
    """Return the tables of an organisation's stacks, the newest first, and those of the schemas that belong to none,
    the largest first; at most 200 of each."""
    return await large_rows(
        conn,
        TableSummary,
        """with schema_sizes as (
             select i.id, i.name, i.created_at, count(distinct e.document_id) as records
             from public.schemas as i left join public.schema_versions as s on s.schema_id = i.id
             left join public.extractions as e on e.schema_revid = s.id and e.precedence < 2
             where i.org_id = %(org)s and i.deleted_at is null and not private.is_proposed(i.run_id)
               and not exists (select from public.stack_tables as t where t.schema_id = i.id)
             group by i.id order by records desc, lower(i.name), i.id limit 200
           ), tables as (
             (select s.id, s.id as stack_id, t.schema_id, s.name, s.created_at, row_number() over newest as place, (
                select count(*) from public.stack_documents as d where d.stack_id = s.id) as records
              from public.stacks as s left join public.stack_tables as t on t.stack_id = s.id
              where s.org_id = %(org)s window newest as (order by s.created_at desc, s.id desc)
              order by place limit 200)
             union all
             select id, null, id, name, created_at, 1000 + row_number() over (order by records desc, lower(name), id),
               records
             from schema_sizes
           )
           select t.id, t.stack_id, t.schema_id, t.name, t.records, open.to_review, open.values_to_review,
             greatest(t.created_at, last.changed_at) as changed_at
           from tables as t cross join lateral (
             select count(*) as to_review, coalesce(sum(e.review_count), 0) as values_to_review
             from public.schema_versions as v join public.extractions as e on e.schema_revid = v.id
             where v.schema_id = t.schema_id and e.review_count > 0
               and e.id in (select id from private.current_by_schema where id = e.id)
               and (t.stack_id is null or exists (
                 select from public.stack_documents as d
                 where d.stack_id = t.stack_id and d.document_id = e.document_id))
           ) as open cross join lateral (
             select max(greatest(v.created_at, newest.updated_at)) as changed_at
             from public.schema_versions as v left join lateral (
               select e.updated_at from public.extractions as e where e.schema_revid = v.id and e.precedence < 2
               order by e.updated_at desc limit 1) as newest on true
             where v.schema_id = t.schema_id
           ) as last
           order by t.place""",
        {"org": org_id},
    )


async def required_columns(conn: Connection, schema_id: UUID, columns: Sequence[str]) -> list[str]:
    """Return those of the columns in which each row should have a value."""
    query = """select array(select unnest(required_fields) intersect select unnest(%s::text[]))
               from public.schemas where id = %s"""
    found: list[str] | None = await value_of(conn, query, (list(columns), schema_id))
    return sorted(found or (), key=list(columns).index)


async def find_rows(
    conn: Connection, table: Table, query: TableQuery, *, limit: int, offset: int = 0, seconds: float = MAX_SECONDS
) -> tuple[list[RowKey], int]:
    """Return the keys of rows in order, starting at `offset`, and the number of all that match. Raise
    TooLongToAnswer."""
    parameters = Parameters()
    statement = SQL(
        """with matching as materialized ({rows})
           select r.document_id, r.id, r.indexes, count(*) over () as total
           from matching as r {group} {sort} order by {order} limit {limit} offset {offset}"""
    ).format(
        rows=matching_rows(table, query, parameters),
        group=SQL("") if query.group_by is None else _group_key(table, query.group_by, parameters),
        order=_order(table, query, parameters),
        sort=_sort_value(table, query, parameters),
        limit=parameters.add(limit, "bigint"),
        offset=parameters.add(offset, "bigint"),
    )
    async with query_timeout(conn, seconds):
        rows = await (await conn.execute(statement, parameters.values)).fetchall()
    if offset and not rows:  # past the end, where no row has the number
        return [], (await find_rows(conn, table, query, limit=1, seconds=seconds))[1]
    return [RowKey(row["document_id"], row["id"], row["indexes"]) for row in rows], rows[0]["total"] if rows else 0


async def load_rows(
    conn: Connection,
    table: Table,
    keys: Sequence[RowKey],
    *,
    as_text: bool = False,
    seconds: float = MAX_SECONDS,
) -> list[TableRow]:
    """Return these rows in this order. Those of deleted documents are left out. `as_text`: the values are texts, in
    which numbers have all their digits. Raise TooLongToAnswer."""
    parameters = Parameters()
    if table.stack_id is None:
        about_row = SQL(_ABOUT_ROW).format(status=_row_status(table, "r", parameters))
        stack_rows = SQL("and r.id is not null")
    else:
        about_row, stack_rows = SQL(_ABOUT_STACK_ROW), SQL(_STACK_ROWS).format(parameters.add(table.stack_id, "uuid"))
    statement = SQL(
        """select r.id as extraction_id, d.id as document_id, d.filename, d.external_id, d.metadata, d.created_at,
             r.version,
             r.reviewed_by is not null and open.review_count = 0 as is_reviewed, r.indexes,
             coalesce(cells.cells, '{{}}') as cells, r.status as extraction_status, open.review_count,
             coalesce(r.review_count, 0) as document_review_count, {about_row}
           from (
             -- (The evidence is decompressed once, instead of twice for each value of each row.)
             select k.ordinality, k.document_id, k.indexes::integer[], e.id, e.schema_revid, e.version, e.status,
               e.review_count, e.reviewed_by, jsonb_path_query_first(e.evidence, '$') as evidence
             from unnest({documents}, {ids}, {indexes}) with ordinality as k (document_id, id, indexes, ordinality)
             left join public.extractions as e on e.id = k.id offset 0) as r
           join public.documents as d on d.id = r.document_id {stack_rows}
           cross join lateral (select {review_count} as review_count offset 0) as open
           cross join lateral (
             select json_object_agg(c.name, json_build_object(
               'path', v.path, 'status', cell.status, 'reason', case when cell.status <> 'stale' then {reason} end,
               'value', case when {as_text} or v.text is null then to_json(v.text)
                 when v.kind = 'number' then to_json(v.number) when v.kind = 'boolean' then to_json(v.text::boolean)
                 else to_json(v.text) end,
               'kind', nullif(v.kind, 'blank'), 'currency', case when c.name <> all ({measures}) then v.currency end,
               'state', v.state, 'confidence', v.confidence,
               'is_verified', coalesce(v.is_verified, false),
               'page', {page},
               'quote', left(r.evidence -> v.path ->> 'quote', 500))) as cells
             from {cells} cross join lateral (select {status} as status offset 0) as cell
             where r.id is not null) as cells
           order by r.ordinality"""
    ).format(
        documents=parameters.add([key.document_id for key in keys], "uuid[]"),
        review_count=row_review_count(table, "r", "r", lambda one: parameters.add(one, "text")),
        about_row=about_row,
        page=SQL(page_in("r.evidence -> v.path")),
        stack_rows=stack_rows,
        ids=parameters.add([key.extraction_id for key in keys], "uuid[]"),
        indexes=parameters.add([f"{{{','.join(map(str, key.indexes))}}}" for key in keys], "text[]"),
        as_text=parameters.add(as_text, "boolean"),
        measures=parameters.add(table.measures, "text[]"),
        cells=_cells(table, list(table.columns), "r", parameters),
        status=SQL(_STATUS),
        reason=SQL(_REASON),
    )

    def row(indexes: Sequence[int], cells: dict[str, Any], **others: Any) -> TableRow:
        for column, cell in cells.items():
            cell["path"] = cell["path"] or cell_path(column, indexes)  # that which a value would have
        path = cell_path(f"{table.rows}[]", indexes) if table.rows is not None and indexes else None
        # In the order of the columns, which `jsonb` loses.
        return TableRow(path=path, cells={name: cells[name] for name in table.columns if name in cells}, **others)

    async with query_timeout(conn, seconds, few_rows=True):
        return await large_rows(conn, row, statement, parameters.values)


async def column_totals(
    conn: Connection, table: Table, query: TableQuery, seconds: float = MAX_SECONDS
) -> list[ColumnTotal]:
    """Return the totals of the number columns over all rows that match, by currency. A field outside the list of the
    rows is summed once per document. Raise TooLongToAnswer."""
    parameters = Parameters()
    statement = SQL(
        """with matching as materialized ({rows}), value as (
             select v.pattern, case when v.pattern <> all ({measures}) then v.currency end as currency, v.number
             from {values} as v)
           select pattern as column, currency, sum(number) as sum, count(*) as count
           from value group by 1, 2 order by 1, 2"""
    ).format(
        rows=matching_rows(table, query, parameters),
        values=values_of_rows(table, SQL("kind = 'number'"), parameters),
        measures=parameters.add(table.measures, "text[]"),
    )
    async with query_timeout(conn, seconds):
        return await large_rows(conn, ColumnTotal, statement, parameters.values)


async def find_groups(
    conn: Connection, table: Table, query: TableQuery, *, limit: int, seconds: float = MAX_SECONDS
) -> tuple[list[TableGroup], int]:
    """Return the first groups of the rows that match, by the first value in `query.group_by`, in the order of the rows,
    with the totals of the number columns; and the number of all groups. Raise TooLongToAnswer."""
    assert query.group_by is not None
    parameters = Parameters()
    # A field outside the list of the rows would count once for each of its items.
    summed = [column for column in table.columns if column.count("[]") == table.row_pattern.count(EACH)]
    statement = SQL(
        """with matching as materialized ({rows}), counted as materialized (
             select x.id, c.indexes from (select distinct id from matching where {has_items} and review_count > 0) as x
             cross join lateral private.review_counts(x.id, {list}) as c
           ), keyed as materialized (
             select r.id, r.indexes, r.document_id, case when {has_items} then coalesce(own.id, shared.id) is not null
               else coalesce(r.review_count > 0, false) end as is_open, g.*
             from matching as r left join counted as own on own.id = r.id and own.indexes = r.indexes
             left join counted as shared on shared.id = r.id and shared.indexes = '{{}}' {key}
           ), grouped as (
             select text, kind, min(number) as number, min(day) as day, min(folded) as folded, count(*) as rows,
               count(*) filter (where is_open) as to_review, count(*) over () as total
             from keyed group by text, kind
           ), listed as (select * from grouped as g order by {order} limit {limit}
           ), sums as (
             select k.text, k.kind, v.pattern as column,
               case when v.pattern <> all ({measures}) then v.currency end as currency,
               sum(v.number) as sum, count(*) as count
             from keyed as k join listed as g
               on k.text is not distinct from g.text and k.kind is not distinct from g.kind
             cross join lateral {fields} as v
             group by 1, 2, 3, 4)
           select g.text as value, g.kind, g.rows, g.to_review, g.total, coalesce((
             select jsonb_agg(jsonb_build_object('column', s.column, 'currency', s.currency, 'sum', s.sum::text,
               'count', s.count) order by s.count desc, s.column) from sums as s
             where s.text is not distinct from g.text and s.kind is not distinct from g.kind), '[]') as totals
           from listed as g order by {order}"""
    ).format(
        rows=matching_rows(table, query, parameters),
        has_items=parameters.add(table.rows is not None, "boolean"),
        list=parameters.add(paths.name(table.row_pattern), "text"),
        key=_group_key(table, query.group_by, parameters),
        order=_group_order(query),
        fields=_fields_of_row(
            SQL("k.id"),
            SQL("k.indexes"),
            SQL("kind = 'number' and pattern = any ({})").format(parameters.add(summed, "text[]")),
        ),
        measures=parameters.add(table.measures, "text[]"),
        limit=parameters.add(limit, "bigint"),
    )

    def group(total: int, totals: Sequence[dict[str, Any]], **others: Any) -> tuple[TableGroup, int]:
        sums = [ColumnTotal(one["column"], one["currency"], Decimal(one["sum"]), one["count"]) for one in totals]
        return TableGroup(totals=sums, **others), total

    async with query_timeout(conn, seconds):
        found = await large_rows(conn, group, statement, parameters.values)
    return [one for one, _ in found], found[0][1] if found else 0


def matching_rows(table: Table, query: TableQuery, parameters: Parameters) -> Composed:
    """Select the matching rows: `id, document_id, document_type, created_at, indexes`, and what `_CELLS` needs."""
    extractions = selected_extractions(table, lambda one: parameters.add(one, "uuid"))
    if table.rows is None:
        source = SQL("(select *, '{{}}'::integer[] as indexes from ({}) as x) as e").format(extractions)
    else:
        source = SQL(
            # (`coalesce` counts as a function that leaks: under row policies, no index is used with it.)
            """(select e.*, case when v.indexes is null then '{{}}' else v.indexes end as indexes
               from ({}) as e {} join lateral (select * from {} as v where v.kind = 'container') as v on true) as e"""
        ).format(
            extractions,
            # A document of a stack has a row even if its list is empty.
            SQL("inner" if table.stack_id is None else "left"),
            values_at(table.row_pattern, parameters),
        )
    conditions: list[Composable] = [
        field_condition(one, _values_of_row(table, one.pattern, "e", parameters), parameters)
        for one in query.where.fields
    ]
    conditions += type_conditions(query.where, parameters)
    if documents := document_conditions(query.where, parameters):
        of_documents = SQL(" and ").join(documents)
        conditions.append(
            SQL("e.document_id in (select d.id from public.documents as d where {})").format(of_documents)
        )
    if query.row_statuses:
        statuses = parameters.add(list(query.row_statuses), "text[]")
        conditions.append(
            SQL("{} = any ({})").format(_row_status(table, "e", parameters), statuses)
            if table.stack_id is None
            else SQL(_IN_STACK_STATES).format(parameters.add(table.stack_id, "uuid"), statuses, row=SQL("e"))
        )
    if query.cell_statuses:
        conditions.append(_has_cell(table, query, parameters))
    where = SQL(" where {}").format(SQL(" and ").join(conditions)) if conditions else SQL("")
    return SQL("select e.* from {}{}").format(source, where)


def selected_extractions(table: Table, parameter: Callable[[UUID], Composable]) -> Composed:
    """Select the documents of a table, each with its extraction."""
    if table.stack_id is not None:
        return SQL(_STACK).format(stack_id=parameter(table.stack_id))
    assert table.schema is not None
    return SQL(_SCHEMA).format(schema_id=parameter(table.schema.id))


def row_review_count(
    table: Table, extraction: LiteralString, row: LiteralString, parameter: Callable[[str], Composable]
) -> Composed:
    """Return the number of fields of a row that a person has to look at: of the aliases of its extraction and row."""
    if table.rows is None:
        return SQL("coalesce({}.review_count, 0)").format(SQL(extraction))
    pattern = parameter(paths.name(table.row_pattern))
    return SQL(_ITEM_REVIEW_COUNT).format(extraction=SQL(extraction), row=SQL(row), list=pattern)


def _row_status(table: Table, row: LiteralString, parameters: Parameters) -> Composed:
    unchanged = parameters.add(list(table.unchanged), "uuid[]")
    return SQL(_ROW_STATUS).format(row=SQL(row), unchanged=unchanged)


def _values_of_row(table: Table, pattern: Pattern, row: LiteralString, parameters: Parameters) -> Composed:
    """Return the values `v` at a pattern in the row of the alias `row`. If it has at most one, it is looked up by the
    row: all values at the pattern, for each row, would be the square of a long list."""
    levels = paths.shared_lists(table.row_pattern, pattern)
    shared = parameters.add(levels, "integer")
    if table.rows is None or levels < sum(not isinstance(step, str) for step in pattern):
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


def _fields_around_row(table: Table, row: LiteralString, condition: Composable) -> Composed:
    """Return the fields of a row, and those of the document and the list items around it."""
    if table.rows is None:
        return _fields_of_row(SQL(f"{row}.id"), SQL("'{}'::integer[]"), condition)
    return SQL(
        f"""(select v.* from generate_series(0, cardinality({row}.indexes)) as level cross join lateral {{}} as v)"""
    ).format(_fields_of_row(SQL(f"{row}.id"), SQL(f"{row}.indexes[:level]"), condition))


def values_of_rows(table: Table, condition: Composable, parameters: Parameters) -> Composed:
    """Return the fields of the rows `matching` that meet a condition, in the columns of the table. One outside the
    list of the rows is returned once per document."""
    condition = SQL("{} and pattern = any ({})").format(condition, parameters.add(list(table.columns), "text[]"))
    if table.rows is None:
        return SQL("(select v.* from matching as r cross join lateral {} as v)").format(
            _fields_around_row(table, "r", condition)
        )
    return SQL(
        """(select v.* from (
             select distinct r.id, r.indexes[:level] as at
             from matching as r cross join lateral generate_series(0, cardinality(r.indexes)) as level) as r
           cross join lateral {} as v)"""
    ).format(_fields_of_row(SQL("r.id"), SQL("r.at"), condition))


def _has_cell(table: Table, query: TableQuery, parameters: Parameters) -> Composed:
    """Return a condition on a row: it has a cell of one of the statuses."""
    columns = list(table.columns) if query.cell_column is None else [query.cell_column]
    # (Most extractions have no field for a person. Their cells need not be read to know that.)
    counted = SQL("e.review_count > 0" if all(one.needs_person for one in query.cell_statuses) else "e.id is not null")
    return SQL("case when {} then exists (select from {} where {} = any ({})) end").format(
        counted,
        _cells(table, columns, "e", parameters),
        SQL(_STATUS),
        parameters.add(list(query.cell_statuses), "text[]"),
    )


def _cells(table: Table, columns: Sequence[str], row: LiteralString, parameters: Parameters) -> Composed:
    return SQL(_CELLS).format(
        stale=parameters.add(_stale(table), "jsonb"),
        all=parameters.add(Jsonb(list(table.columns)), "jsonb"),
        columns=parameters.add(list(columns), "text[]"),
        fields=_fields_around_row(table, row, SQL("kind <> 'container'")),
        row=SQL(row),
    )


def _stale(table: Table) -> Jsonb:
    return Jsonb({str(revid): list(names) for revid, names in table.stale.items()})


def _sort_value(table: Table, query: TableQuery, parameters: Parameters) -> Composed:
    if query.by_status:
        columns = list(table.columns) if query.sort is None else [query.sort]
        return SQL(
            """cross join lateral (
                 select min(array_position({}, {})) as urgency from {} where r.id is not null) as s"""
        ).format(
            parameters.add(list(FieldStatus), "text[]"),
            SQL(_STATUS),
            _cells(table, columns, "r", parameters),
        )
    if query.sort is None:
        return Composed([])
    pattern = paths.parse_pattern(query.sort)
    return SQL(
        f"""left join lateral (
             select v.number, v.day, {folded("left(v.text, 200)")} as text from {{}}
             order by v.indexes limit 1) as s on true"""
    ).format(_values_of_row(table, pattern, "r", parameters))


def _group_key(table: Table, column: str, parameters: Parameters) -> Composed:
    """Return a join with `g`: the value by which the row `r` is grouped."""
    return SQL(
        f"""left join lateral (
             select v.text, v.kind, v.number, v.day, {folded("left(v.text, 200)")} as folded from {{}}
             and v.text is not null order by v.indexes limit 1) as g on true"""
    ).format(_values_of_row(table, paths.parse_pattern(column), "r", parameters))


def _group_order(query: TableQuery) -> Composed:
    """The order of groups: that of the sorted column; without a value last. (Equal numbers may have several texts.)"""
    direction: LiteralString = "desc" if query.sort == query.group_by and query.descending else ""
    return SQL(", ").join(SQL(f"g.{key} {direction} nulls last") for key in ("number", "day", "folded", "text", "kind"))


def _order(table: Table, query: TableQuery, parameters: Parameters) -> Composable:
    order = _order_of_rows(table, query, parameters)
    return order if query.group_by is None else SQL("{}, {}").format(_group_order(query), order)


def _order_of_rows(table: Table, query: TableQuery, parameters: Parameters) -> Composable:
    """Sort by number, then day, then text; rows without a value come last."""
    newest = SQL("r.created_at desc, r.document_id, r.indexes")
    if query.by_status:
        return SQL("s.urgency {} nulls last, {}").format(SQL("desc" if query.descending else ""), newest)
    if query.sort is not None:
        direction = SQL("desc" if query.descending else "")
        keys = SQL(", ").join(SQL(f"s.{key} {{}} nulls last").format(direction) for key in _SORT_KEYS)
        return SQL("{}, {}").format(keys, newest)
    if query.reading_first and table.stack_id is not None:
        stack = parameters.add(table.stack_id, "uuid")
        busy = [
            SQL(f"({_IN_STACK_STATES}) desc").format(stack, parameters.add(list(states), "text[]"), row=SQL("r"))
            for states in _BUSY_STATES
        ]
        return SQL(", ").join([*busy, newest])
    return newest
