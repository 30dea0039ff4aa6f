"""Tables: of each stored schema, with the newest extractions under it; and of each stack, with its documents."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Annotated
from uuid import UUID

from pydantic import Field

from fieldmark.db.pool import Connection, Database
from fieldmark.domain import paths
from fieldmark.domain.columns import Column, describe_table
from fieldmark.domain.paths import EACH
from fieldmark.domain.schema_changes import stale_columns
from fieldmark.domain.schema_walk import unknown_fields
from fieldmark.domain.table_query import TableQuery
from fieldmark.errors import Invalid, NotFound, TooLongToAnswer
from fieldmark.identity.scope import Scope
from fieldmark.services.fair_share import run_unqueued
from fieldmark.services.field_queries import unknown_field
from fieldmark.services.table_marks import Mark, list_marks
from fieldmark.stores import schema_changes, stacks, tables
from fieldmark.stores.library import schemas
from fieldmark.stores.table_views import view_name, view_statement
from fieldmark.stores.tables import ColumnTotal, RowKey, Table, TableGroup, TableRow, TableSummary

MAX_EXPORTED = 100_000
MAX_EXPORT_SECONDS = 300
_BATCH = 500


@dataclass(frozen=True, slots=True)
class RowName:
    """A row by its document and, if the items of a list are the rows, the item's path such as `items[2]`."""

    document_id: UUID
    path: str | None = None


@dataclass(frozen=True, slots=True)
class TablePage:
    """A part of a table."""

    columns: Sequence[Column]
    has_more_columns: Annotated[
        bool, Field(description="Whether the schema describes more fields than a table has columns.")
    ]
    required: Annotated[
        Sequence[str],
        Field(
            description="Columns in which a row without a value needs review: the schema names them in its "
            "`x-fieldmark.required`, or at least 80 % of the rows have a value, of 5 or more."
        ),
    ]
    lists: Annotated[
        Sequence[str],
        Field(description="The lists of the schema whose items can be the rows: values for `list`."),
    ]
    items: Sequence[TableRow]
    total: Annotated[int, Field(description="The number of rows that match.")]
    totals: Annotated[
        Sequence[ColumnTotal], Field(description="Only with `totals`: sums of the number columns over all rows.")
    ]
    marks: Annotated[
        Sequence[Mark],
        Field(description="Only with `marks`: likely duplicates and outliers among the rows of this page."),
    ]


@dataclass(frozen=True, slots=True)
class TableExport:
    """A whole table, read in batches."""

    name: str
    columns: Sequence[Column]
    batches: AsyncGenerator[Sequence[TableRow]]


@dataclass(frozen=True, slots=True)
class TableView:
    """A SQL view of a table."""

    name: str
    sql: Annotated[str, Field(description="The statements that create the view. The service does not run them.")]


async def list_tables(conn: Connection, scope: Scope) -> Sequence[TableSummary]:
    """Return the tables of an organisation: those of stacks, then those of schemas that belong to no stack."""
    return await tables.table_summaries(conn, scope.org_id)


async def list_groups(
    conn: Connection, table_id: UUID, query: TableQuery, *, limit: int
) -> tuple[Sequence[TableGroup], int]:
    """Return the first groups of the rows by the value of `query.group_by`, and the number of all groups. Raise like
    `list_rows`."""
    table = await _open_table(conn, table_id, query)
    return await tables.find_groups(conn, table, query, limit=limit)


async def list_chosen_rows(
    conn: Connection, table_id: UUID, list_name: str | None, only: Sequence[RowName]
) -> Sequence[TableRow]:
    """Return these rows of a table, whatever their order. Those that are no longer in it are left out. Raise like
    `list_rows`."""
    table = await _open_table(conn, table_id, TableQuery(rows=list_name))
    keys, _ = await _chosen_keys(conn, table, TableQuery(rows=list_name), only)
    return await tables.load_rows(conn, table, keys)


async def list_rows(
    conn: Connection,
    table_id: UUID,
    query: TableQuery,
    *,
    limit: int,
    offset: int = 0,
    with_totals: bool = False,
    with_marks: bool = False,
) -> TablePage:
    """Return rows of a table. Raise NotFound if there is no schema and no stack with this id, Invalid if it has no such
    list or column, TooLongToAnswer."""
    table = await _open_table(conn, table_id, query)
    columns = list(table.columns)
    required = [] if table.schema is None else await tables.required_columns(conn, table.schema.id, columns)
    keys, total = await tables.find_rows(conn, table, query, limit=limit, offset=offset)
    rows = await tables.load_rows(conn, table, keys)
    totals = await tables.column_totals(conn, table, query) if with_totals else []
    marks = await list_marks(conn, table, rows) if with_marks else []
    return TablePage(
        list(table.columns.values()), table.has_more_columns, required, table.lists, rows, total, totals, marks
    )


async def read_table(
    database: Database,
    scope: Scope,
    table_id: UUID,
    query: TableQuery,
    *,
    only: Sequence[RowName] | None = None,
    as_text: bool = False,
) -> TableExport:
    """Return all rows of a table, or those that `only` names, each batch read in a transaction of its own. `as_text`:
    the values are texts. Raise like `list_rows`, Invalid if there are more than MAX_EXPORTED, and NotFound if one of
    `only` is not among the rows. The batches raise TooLongToAnswer."""
    async with database.as_user(scope) as conn:
        table = await _open_table(conn, table_id, query)
        if only is None:
            keys, total = await tables.find_rows(conn, table, query, limit=MAX_EXPORTED)
            if total > MAX_EXPORTED:
                raise Invalid(f"The table has {total:,} rows; an export has at most {MAX_EXPORTED:,}. Filter the rows.")
        else:
            keys, missing = await _chosen_keys(conn, table, query, only)
            if missing:
                raise NotFound(
                    f"{missing} of the rows are not in the table: they were deleted, or do not match the filter. Load "
                    "the table again and choose the rows."
                )

    async def batches() -> AsyncGenerator[Sequence[TableRow]]:
        end = time.monotonic() + MAX_EXPORT_SECONDS
        for start in range(0, len(keys), _BATCH):
            if time.monotonic() > end:
                raise TooLongToAnswer(
                    f"The export took longer than {MAX_EXPORT_SECONDS} seconds. Filter the rows, and export fewer."
                )
            async with database.as_user(scope) as conn:
                rows = await tables.load_rows(conn, table, keys[start : start + _BATCH], as_text=as_text)
            yield rows

    return TableExport(table.name, list(table.columns.values()), batches())


async def _chosen_keys(
    conn: Connection, table: Table, query: TableQuery, only: Sequence[RowName]
) -> tuple[list[RowKey], int]:
    """Return those of the rows that are in a table, and the number of the others."""
    ids = tuple({one.document_id for one in only})
    of_documents = query.model_copy(update={"where": query.where.model_copy(update={"document_ids": ids})})
    found, _ = await tables.find_rows(conn, table, of_documents, limit=MAX_EXPORTED)
    chosen = {(one.document_id, _indexes(one.path)) for one in only}
    keys = [key for key in found if (key.document_id, tuple(key.indexes)) in chosen]
    return keys, len(chosen) - len(keys)


def _indexes(path: str | None) -> tuple[int, ...]:
    return () if path is None else tuple(step for step in paths.parse_pattern(path) if isinstance(step, int))


async def define_view(conn: Connection, table_id: UUID, list_name: str | None, name: str | None) -> TableView:
    """Return a SQL view of a table. It is not created. `name`: that of the view; None: one made from the table's name.
    Raise like `list_rows`."""
    table = await _open_table(conn, table_id, TableQuery(rows=list_name))
    name = name or view_name(table)
    return TableView(name, view_statement(name, table))


async def _open_table(conn: Connection, table_id: UUID, query: TableQuery) -> Table:
    """Return the table of a schema or a stack. Raise NotFound, and Invalid if it lacks what the query names."""
    stack = await stacks.find(conn, table_id)
    schema = await schemas.find(conn, table_id) if stack is None else stack.schema
    if stack is None and schema is None:
        raise NotFound("There is no such table: no schema and no stack with this id.")
    rows = query.rows if stack is None else stack.row_path
    if stack is not None and query.rows not in (None, rows):
        raise Invalid("The columns of a stack say what its rows are. Leave out `list`.")
    described = (schema and schema.schema) or {}
    shape = await run_unqueued(describe_table, described, rows)
    columns = {column.path: column for column in shape.columns}
    if rows is not None and not any(name.startswith(f"{rows}[]") for name in columns):
        raise Invalid(f"The schema has no list {rows[:200]!r}.")
    if query.cell_column is not None and not query.cell_statuses:
        raise Invalid("`column` is the column that `cell_status` is about. Also set `cell_status`.")
    filtered = [tuple(0 if step is EACH else step for step in one.pattern) for one in query.where.fields]
    unknown = await run_unqueued(list, unknown_fields(described, filtered))
    named = (query.sort, query.cell_column, query.group_by)
    wanted = [name for name in named if name is not None and name not in columns]
    for name in (*wanted, *map(paths.name, unknown)):
        raise unknown_field(name, list(columns), "column")
    differences = {} if schema is None else await schema_changes.differences(conn, schema.id)
    latest = () if schema is None else (schema.schema_revid,)
    return Table(
        stack.name if stack is not None else schema.name if schema is not None else "",
        schema,
        columns,
        rows=rows if schema is not None else None,
        stack_id=None if stack is None else stack.id,
        lists=shape.lists,
        has_more_columns=shape.has_more,
        unchanged=[*latest, *(revid for revid, difference in differences.items() if not difference)],
        stale={revid: stale_columns(columns, difference) for revid, difference in differences.items()}
        | dict.fromkeys(latest, ()),
    )
