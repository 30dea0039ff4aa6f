"""Records: for each stored schema a table of the newest completed extractions under it, for each stack one of its
documents, with totals."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from fieldmark.db.pool import Connection, Database
from fieldmark.domain import paths
from fieldmark.domain.columns import Column, TableShape, describe_table
from fieldmark.domain.document_filters import FieldCondition
from fieldmark.domain.paths import EACH
from fieldmark.domain.schema_changes import compare_schemas
from fieldmark.domain.schema_walk import unknown_fields
from fieldmark.domain.statuses import FieldStatus
from fieldmark.errors import Invalid, NotFound, TooLongToAnswer
from fieldmark.identity.scope import Scope
from fieldmark.services.fair_share import run_unqueued
from fieldmark.services.field_queries import unknown_field
from fieldmark.services.record_marks import Mark, list_marks
from fieldmark.stores import records, schema_changes, stacks
from fieldmark.stores.library import schemas
from fieldmark.stores.record_views import view_name, view_statement
from fieldmark.stores.records import ColumnTotal, RecordRow, RecordsQuery, TableSize
from fieldmark.stores.rows import SchemaRow
from fieldmark.stores.stacks import RowState

MAX_EXPORTED = 100_000
MAX_EXPORT_SECONDS = 300
_BATCH = 500
_MAX_VERSIONS = 50
"""Older versions that are compared: the newest that extractions use. All columns of the others count as changed."""


@dataclass(frozen=True, slots=True)
class RecordsRequest:
    """A table of records: of a schema, or of a stack (`states`: only its rows in these states). `list_name`: a list of
    the schema, whose items are the rows; None: a row for each document. A stack has its own. `cell_statuses`:
    only records with such a cell, in the column `cell_column` if given. `sort`: the column to sort by; None: newest
    document first. `by_status`: sort by the status of the cells in `sort`, or by the most urgent status of each
    record."""

    schema_id: UUID | None
    list_name: str | None = None
    conditions: Sequence[FieldCondition] = ()
    cell_statuses: Sequence[FieldStatus] = ()
    cell_column: str | None = None
    sort: str | None = None
    descending: bool = False
    by_status: bool = False
    stack_id: UUID | None = None
    states: Sequence[RowState] = ()


@dataclass(frozen=True, slots=True)
class RecordName:
    """A record by its document and, if the items of a list are the rows, the item's path such as `items[2]`."""

    document_id: UUID
    path: str | None = None


@dataclass(frozen=True, slots=True)
class RecordsPage:
    """A part of a table of records. `total` is the number of records that match, on all pages. `lists`: the lists of
    the schema whose items can be the rows. `marks`: marks of `items`. `has_more_columns`: as in `TableShape`.
    `required`: columns in which a row without a value needs review."""

    columns: Sequence[Column]
    has_more_columns: bool
    required: Sequence[str]
    lists: Sequence[str]
    items: Sequence[RecordRow]
    total: int
    totals: Sequence[ColumnTotal]
    marks: Sequence[Mark]


@dataclass(frozen=True, slots=True)
class RecordsTable:
    """A whole table of records, read in batches. `name` is that of the schema or the stack."""

    name: str
    columns: Sequence[Column]
    batches: AsyncGenerator[Sequence[RecordRow]]


async def list_tables(conn: Connection, scope: Scope) -> Sequence[TableSize]:
    """Return the tables of an organisation: its schemas with their numbers of records, the largest first."""
    return await records.table_sizes(conn, scope.org_id)


async def list_records(
    conn: Connection,
    request: RecordsRequest,
    *,
    limit: int,
    offset: int = 0,
    with_totals: bool = False,
    with_marks: bool = False,
) -> RecordsPage:
    """Return records of a schema. Raise NotFound if the schema does not exist, Invalid if it has no such list or
    column, TooLongToAnswer."""
    schema, shape, query = await _prepare(conn, request)
    required = [] if schema is None else await records.required_columns(conn, schema.id, list(query.columns))
    keys, total = await records.find_records(conn, query, limit=limit, offset=offset)
    rows = await records.load_records(conn, query, keys)
    totals = await records.column_totals(conn, query) if with_totals else []
    marks = await list_marks(conn, query, shape.columns, rows) if with_marks else []
    return RecordsPage(shape.columns, shape.has_more, required, shape.lists, rows, total, totals, marks)


async def read_table(
    database: Database,
    scope: Scope,
    request: RecordsRequest,
    *,
    only: Sequence[RecordName] | None = None,
    as_text: bool = False,
) -> RecordsTable:
    """Return all records of a schema, or those that `only` names, each batch read in a transaction of its own.
    `as_text`: the values are texts. Raise like `list_records`, Invalid if there are more than MAX_EXPORTED, and
    NotFound if one of `only` is not among the records. The batches raise TooLongToAnswer."""
    async with database.as_user(scope) as conn:
        schema, shape, query = await _prepare(conn, request)
        if only is not None:
            query = replace(query, document_ids=list({one.document_id for one in only}))
        keys, total = await records.find_records(conn, query, limit=MAX_EXPORTED)
    if total > MAX_EXPORTED:
        raise Invalid(f"The table has {total:,} rows; an export has at most {MAX_EXPORTED:,}. Filter the rows.")
    if only is not None:
        chosen = {(one.document_id, _indexes(one.path)) for one in only}
        keys = [key for key in keys if (key.document_id, tuple(key.indexes)) in chosen]
        if missing := len(chosen) - len(keys):
            raise NotFound(
                f"{missing} of the {len(chosen)} rows are not in the table: they were deleted, or do not match the "
                "filter. Load the table again and choose the rows."
            )

    async def batches() -> AsyncGenerator[Sequence[RecordRow]]:
        end = time.monotonic() + MAX_EXPORT_SECONDS
        for start in range(0, len(keys), _BATCH):
            if time.monotonic() > end:
                raise TooLongToAnswer(
                    f"The export took longer than {MAX_EXPORT_SECONDS} seconds. Filter the rows, and export fewer."
                )
            async with database.as_user(scope) as conn:
                rows = await records.load_records(conn, query, keys[start : start + _BATCH], as_text=as_text)
            yield rows

    return RecordsTable("table" if schema is None else schema.name, shape.columns, batches())


def _indexes(path: str | None) -> tuple[int, ...]:
    return () if path is None else tuple(step for step in paths.parse_pattern(path) if isinstance(step, int))


@dataclass(frozen=True, slots=True)
class RecordsView:
    """A SQL view of a table of records. `sql` creates it."""

    name: str
    sql: str


async def define_view(conn: Connection, schema_id: UUID, list_name: str | None, name: str | None) -> RecordsView:
    """Return a SQL view of the records of a schema. It is not created. `name`: that of the view; None: one made from
    the schema's name. Raise like `list_records`."""
    schema, shape, _ = await _prepare(conn, RecordsRequest(schema_id, list_name))
    assert schema is not None
    name = name or view_name(schema.name, list_name)
    return RecordsView(name, view_statement(name, schema_id, shape.columns, list_name))


async def _prepare(conn: Connection, request: RecordsRequest) -> tuple[SchemaRow | None, TableShape, RecordsQuery]:
    """Return the schema of a table (None: a stack without columns), its shape, and the query of its rows."""
    list_name = request.list_name
    if request.stack_id is None:
        assert request.schema_id is not None
        schema = await schemas.get(conn, request.schema_id)
    else:
        stack = await stacks.get(conn, request.stack_id)
        schema, list_name = stack.schema, stack.row_path
    shape = await run_unqueued(describe_table, (schema and schema.schema) or {}, list_name)
    columns = shape.columns
    names = [column.path for column in columns]
    if list_name is not None and not any(name.startswith(f"{list_name}[]") for name in names):
        raise Invalid(f"The schema has no list {list_name[:200]!r}.")
    if request.cell_column is not None and not request.cell_statuses:
        raise Invalid("`column` is the column that `cell_status` is about. Also set `cell_status`.")
    filtered = [tuple(0 if step is EACH else step for step in one.pattern) for one in request.conditions]
    unknown = await run_unqueued(list, unknown_fields((schema and schema.schema) or {}, filtered))
    wanted = [name for name in (request.sort, request.cell_column) if name is not None and name not in names]
    for name in (*wanted, *map(paths.name, unknown)):
        raise unknown_field(name, names, "column")
    query = RecordsQuery(
        None if schema is None else schema.id,
        {column.path: column for column in columns},
        rows=None if schema is None else list_name,
        stale={} if schema is None else await stale_columns(conn, schema, names),
        conditions=request.conditions,
        cell_statuses=request.cell_statuses,
        cell_column=request.cell_column,
        sort=request.sort,
        descending=request.descending,
        by_status=request.by_status,
        stack_id=request.stack_id,
        states=request.states,
    )
    return schema, shape, query


async def stale_columns(conn: Connection, schema: SchemaRow, columns: Sequence[str]) -> Mapping[UUID, Sequence[str]]:
    """Return, for each version of a schema that extractions use, the columns that differ in the latest version."""
    stale: dict[UUID, Sequence[str]] = {schema.schema_revid: []}
    older = await schema_changes.followed_versions(
        conn, schema.id, schema.schema_revid, limit=_MAX_VERSIONS, max_counted=1
    )
    for version in older:
        difference = await run_unqueued(compare_schemas, version.schema, schema.schema or {})
        stale[version.schema_revid] = [name for name in columns if difference.affects(paths.parse_pattern(name))]
    return stale
