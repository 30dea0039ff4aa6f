"""Records: for each stored schema a table of the newest completed extractions under it, with totals."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from uuid import UUID

from fieldmark.db.pool import Connection, Database
from fieldmark.domain.columns import Column, list_columns
from fieldmark.domain.document_filters import FieldCondition
from fieldmark.errors import Invalid
from fieldmark.identity.scope import Scope
from fieldmark.stores import records
from fieldmark.stores.library import schemas
from fieldmark.stores.records import ColumnTotal, RecordRow, RecordsQuery

MAX_EXPORTED = 100_000
_BATCH = 500


@dataclass(frozen=True, slots=True)
class RecordsRequest:
    """A table of records. `list_name`: a list of the schema, whose items are the rows; None: a row for each document.
    `sort`: the column to sort by; None: newest document first."""

    schema_id: UUID
    list_name: str | None = None
    conditions: Sequence[FieldCondition] = ()
    sort: str | None = None
    descending: bool = False


@dataclass(frozen=True, slots=True)
class RecordsPage:
    """A part of a table of records. `total` is the number of records that match, on all pages."""

    columns: Sequence[Column]
    items: Sequence[RecordRow]
    total: int
    totals: Sequence[ColumnTotal]


@dataclass(frozen=True, slots=True)
class RecordsTable:
    """A whole table of records, read in batches."""

    schema_name: str
    columns: Sequence[Column]
    batches: AsyncGenerator[Sequence[RecordRow]]


async def list_records(
    conn: Connection, request: RecordsRequest, *, limit: int, offset: int = 0, with_totals: bool = False
) -> RecordsPage:
    """Return records of a schema. Raise NotFound if the schema does not exist, Invalid if it has no such list or
    column, TooLongToAnswer."""
    _, columns, query = await _prepare(conn, request)
    keys, total = await records.find_records(conn, query, limit=limit, offset=offset)
    rows = await records.load_records(conn, query.columns, keys, request.list_name)
    totals = await records.column_totals(conn, query) if with_totals else []
    return RecordsPage(columns, rows, total, totals)


async def read_table(database: Database, scope: Scope, request: RecordsRequest) -> RecordsTable:
    """Return all records of a schema, each batch read in a transaction of its own. Raise like `list_records`, and
    Invalid if there are more than MAX_EXPORTED."""
    async with database.as_user(scope) as conn:
        name, columns, query = await _prepare(conn, request)
        keys, total = await records.find_records(conn, query, limit=MAX_EXPORTED)
    if total > MAX_EXPORTED:
        raise Invalid(f"The table has {total:,} rows; an export has at most {MAX_EXPORTED:,}. Filter the rows.")

    async def batches() -> AsyncGenerator[Sequence[RecordRow]]:
        for start in range(0, len(keys), _BATCH):
            async with database.as_user(scope) as conn:
                rows = await records.load_records(conn, query.columns, keys[start : start + _BATCH], request.list_name)
            yield rows

    return RecordsTable(name, columns, batches())


async def _prepare(conn: Connection, request: RecordsRequest) -> tuple[str, list[Column], RecordsQuery]:
    schema = await schemas.get(conn, request.schema_id)
    columns = list_columns(schema.schema or {}, request.list_name)
    names = [column.path for column in columns]
    list_name, sort = request.list_name, request.sort
    if list_name is not None and not any(name.startswith(f"{list_name}[]") for name in names):
        raise Invalid(f"The schema has no list {list_name[:200]!r}.")
    if sort is not None and sort not in names:
        raise Invalid(f"The table has no column {sort[:200]!r}. Its columns: {', '.join(names)[:1000]}.")
    query = RecordsQuery(request.schema_id, names, list_name, request.conditions, sort, request.descending)
    return schema.name, columns, query
