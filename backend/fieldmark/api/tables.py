"""/api/tables: the documents of a schema or of a stack as a table. The id of a table is that of its schema or stack."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from fastapi import Depends, Query, Request, Response
from pydantic import BaseModel, Field

from fieldmark.api.auth import Conn, TheRuntime, TheScope
from fieldmark.api.downloads import attachment_headers
from fieldmark.api.routing import Routes
from fieldmark.api.shared_types import Filename, FilterText, RequestBody, dataclass_response
from fieldmark.domain.document_filters import (
    MAX_CONDITIONS,
    MAX_TAGS,
    DocumentFilters,
    FieldCondition,
    FieldPath,
    validate_model,
)
from fieldmark.domain.statuses import FieldStatus, RowStatus
from fieldmark.domain.table_query import TableQuery
from fieldmark.identity.scope import Scope
from fieldmark.runtime import Runtime
from fieldmark.services import tables
from fieldmark.services.exports.tables import TableFormat, export_table
from fieldmark.services.tables import RowName, TablePage, TableView
from fieldmark.stores.tables import TableSize

router = Routes(prefix="/api/tables", tags=["tables"])

List = Annotated[
    FieldPath | None,
    Query(
        alias="list",
        description="A list of the schema, such as `items`: its items are the rows, not the documents. A stack has its "
        "own rows.",
    ),
]


def get_query(
    list_name: List = None,
    filter: Annotated[
        list[FilterText] | None,
        Query(
            max_length=MAX_CONDITIONS,
            description='A condition on a field: `total > 1000`, `vendor.name = "Acme"`. Repeat it to add conditions.',
        ),
    ] = None,
    tag: Annotated[
        list[FilterText] | None,
        Query(max_length=MAX_TAGS, description="Only documents with all of these tags, by name."),
    ] = None,
    filename: Filename = None,
    row_status: Annotated[list[RowStatus] | None, Query(description="Only rows of one of these statuses.")] = None,
    cell_status: Annotated[
        list[FieldStatus] | None,
        Query(description="Only rows with a cell of one of these statuses, in the column `column` if given."),
    ] = None,
    column: Annotated[FieldPath | None, Query(description="The column that `cell_status` is about.")] = None,
    sort: Annotated[
        FieldPath | None, Query(description="The column to sort by. Default: newest document first.")
    ] = None,
    descending: Annotated[bool, Query(description="Sort from the highest value to the lowest.")] = False,
    by_status: Annotated[
        bool,
        Query(
            description="Sort by the status of the cells, the most urgent first: in the column `sort`, or else by the "
            "most urgent cell of each row. The order is that of the statuses."
        ),
    ] = False,
) -> TableQuery:
    where: dict[str, Any] = {"tags": tag or (), "filename": filename}
    where["fields"] = [FieldCondition.parse(text) for text in filter or ()]
    return TableQuery(
        rows=list_name,
        where=validate_model(DocumentFilters, where),
        row_statuses=tuple(row_status or ()),
        cell_statuses=tuple(cell_status or ()),
        cell_column=column,
        sort=sort,
        descending=descending,
        by_status=by_status,
    )


Asked = Annotated[TableQuery, Depends(get_query)]
FileFormat = Annotated[TableFormat, Query(alias="format", description="The format of the file.")]


class Tables(BaseModel):
    """The tables of the organisation's schemas."""

    items: list[TableSize]


class RowReference(BaseModel):
    """A row of a table."""

    document_id: UUID
    path: FieldPath | None = Field(None, description="The path of the list item. null for a document.")


class RowsToExport(RequestBody):
    """The rows to export."""

    rows: Annotated[list[RowReference], Field(min_length=1, max_length=500)]


@router.get("")
async def list_tables(scope: TheScope, conn: Conn) -> Tables:
    """List the tables of the organisation's schemas with their numbers of documents, the largest first; at most 200."""
    return Tables(items=list(await tables.list_tables(conn, scope)))


@router.get("/{table_id}/rows", response_model=TablePage)
async def list_rows(
    table_id: UUID,
    query: Asked,
    conn: Conn,
    totals: Annotated[bool, Query(description="Also return the totals of the number columns.")] = False,
    marks: Annotated[bool, Query(description="Also return likely duplicates and outliers among these rows.")] = False,
    limit: Annotated[int, Query(ge=1, le=500, description="The most rows to return.")] = 100,
    offset: Annotated[int, Query(ge=0, le=1_000_000, description="The number of rows to skip.")] = 0,
) -> Response:
    """List the table of a schema or a stack. A schema's has a row for each document that was read under it, or for each
    item of a list; a stack's for each of its documents, or for each item of its list. A document of a stack that has
    not been read yet has a row without cells."""
    page = await tables.list_rows(
        conn, table_id, query, limit=limit, offset=offset, with_totals=totals, with_marks=marks
    )
    return await dataclass_response(TablePage, page)


@router.get("/{table_id}/view")
async def define_view(
    table_id: UUID,
    conn: Conn,
    list_name: List = None,
    name: Annotated[
        str | None,
        Query(
            pattern="^[a-z_][a-z0-9_]{0,62}$", description="The view's name. Default: `records_` and the table's name."
        ),
    ] = None,
) -> TableView:
    """Return the SQL of a view of the table with typed columns, to run in a migration. Row policies apply to its
    readers."""
    return await tables.define_view(conn, table_id, list_name, name)


@router.get("/{table_id}/export", response_class=Response)
async def export_rows(
    table_id: UUID,
    query: Asked,
    scope: TheScope,
    runtime: TheRuntime,
    request: Request,
    file_format: FileFormat = "csv",
) -> Response:
    """Export all rows of a table: as JSON, as CSV, as a workbook whose second sheet has the status, the page and the
    quote of each value, linked to its document, or as Parquet with the columns of the view."""
    return await _export(runtime, scope, table_id, query, file_format, str(request.base_url))


@router.post("/{table_id}/export", response_class=Response)
async def export_chosen_rows(
    table_id: UUID,
    body: RowsToExport,
    query: Asked,
    scope: TheScope,
    runtime: TheRuntime,
    request: Request,
    file_format: FileFormat = "csv",
) -> Response:
    """Export only these rows of a table, in the formats and the order of `GET …/export`. 404 if one of them is not in
    it."""
    only = [RowName(one.document_id, one.path) for one in body.rows]
    return await _export(runtime, scope, table_id, query, file_format, str(request.base_url), only)


async def _export(
    runtime: Runtime,
    scope: Scope,
    table_id: UUID,
    query: TableQuery,
    file_format: TableFormat,
    service_url: str,
    only: list[RowName] | None = None,
) -> Response:
    file = await export_table(runtime.database, scope, table_id, query, file_format, service_url, only)
    headers = attachment_headers(file.filename) | {"Cache-Control": "private, no-store"}
    return Response(file.content, media_type=file.media_type, headers=headers)
