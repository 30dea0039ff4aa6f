"""/api/tables: the documents of a schema or of a stack as a table. A table is named as its schema or stack."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from fastapi import Depends, Query, Request, Response
from pydantic import AfterValidator, BaseModel, Field, JsonValue

from fieldmark.api.auth import Conn, TheRuntime, TheScope
from fieldmark.api.downloads import attachment_headers
from fieldmark.api.named_items import TableId
from fieldmark.api.request_log import service_address
from fieldmark.api.routing import Routes
from fieldmark.api.shared_types import STORABLE, Filename, FilterText, RequestBody, dataclass_response, json_response
from fieldmark.domain.document_filters import (
    MAX_CONDITIONS,
    MAX_TAGS,
    DocumentFilters,
    FieldCondition,
    FieldPath,
    validate_model,
)
from fieldmark.domain.names import name_problem
from fieldmark.domain.statuses import FieldStatus, RowStatus
from fieldmark.domain.table_query import TableQuery
from fieldmark.domain.values import value_problem
from fieldmark.errors import Invalid
from fieldmark.identity.scope import Scope
from fieldmark.runtime import Runtime
from fieldmark.services import tables
from fieldmark.services.exports.tables import TableFormat, export_table
from fieldmark.services.tables import RowName, TablePage, TableView
from fieldmark.stores import saved_views
from fieldmark.stores.saved_views import SavedView
from fieldmark.stores.tables import TableGroup, TableRow, TableSummary

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
    reading_first: Annotated[
        bool, Query(description="In a stack without `sort`: first the rows that are being read, then those that wait.")
    ] = False,
    by_status: Annotated[
        bool,
        Query(
            description="Sort by the status of the cells, the most urgent first: in the column `sort`, or else by the "
            "most urgent cell of each row. The order is that of the statuses."
        ),
    ] = False,
    group_by: Annotated[
        FieldPath | None,
        Query(description="Rows with the same value in this column follow each other, in the order of `GET …/groups`."),
    ] = None,
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
        reading_first=reading_first,
        group_by=group_by,
    )


Asked = Annotated[TableQuery, Depends(get_query)]
FileFormat = Annotated[TableFormat, Query(alias="format", description="The format of the file.")]


class Tables(BaseModel):
    """The tables of an organisation."""

    items: list[TableSummary]


class SavedViews(BaseModel):
    """The saved views of a table."""

    items: list[SavedView]


ViewName = Annotated[str, Field(min_length=1, max_length=200, pattern=STORABLE, examples=["Unpaid"])]


def _check_settings(settings: dict[str, JsonValue]) -> dict[str, JsonValue]:
    if problem := value_problem(settings):
        raise ValueError(f"The settings cannot be stored. {problem}")
    return settings


ViewSettings = Annotated[
    dict[str, JsonValue],
    Field(max_length=50, description="Filter, order, group and hidden columns of the web UI."),
    AfterValidator(_check_settings),
]


class NewView(RequestBody):
    """A view to save."""

    name: ViewName
    settings: ViewSettings


class ViewChange(RequestBody):
    """A new name, or new settings, of a view. null: unchanged."""

    name: ViewName | None = None
    settings: ViewSettings | None = None


class Groups(BaseModel):
    """The rows of a table by the value of a column."""

    items: list[TableGroup]
    total: int = Field(description="The number of groups, also of those that are not listed.")


class Rows(BaseModel):
    """Rows of a table."""

    items: list[TableRow]


class RowReference(BaseModel):
    """A row of a table."""

    document_id: UUID
    path: FieldPath | None = Field(None, description="The path of the list item. null for a document.")


class ChosenRows(RequestBody):
    """Rows of a table."""

    rows: Annotated[list[RowReference], Field(min_length=1, max_length=500)]


@router.get("")
async def list_tables(scope: TheScope, conn: Conn) -> Tables:
    """List the tables: of each stack, the newest first, and of each schema that belongs to no stack, the largest first;
    at most 200 of each."""
    return Tables(items=list(await tables.list_tables(conn, scope)))


@router.get("/{table_id}/rows", response_model=TablePage)
async def list_rows(
    table_id: TableId,
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


@router.post("/{table_id}/rows", response_model=Rows)
async def list_chosen_rows(table_id: TableId, body: ChosenRows, conn: Conn, list_name: List = None) -> Response:
    """Return these rows of a table as they are now. Those that are no longer in it are left out."""
    only = [RowName(one.document_id, one.path) for one in body.rows]
    return await json_response(Rows, items=list(await tables.list_chosen_rows(conn, table_id, list_name, only)))


@router.get("/{table_id}/groups", response_model=Groups)
async def list_groups(
    table_id: TableId,
    query: Asked,
    group_by: Annotated[FieldPath, Query(description="The column by whose value the rows are grouped.")],
    conn: Conn,
    limit: Annotated[int, Query(ge=1, le=500, description="The most groups to return.")] = 200,
) -> Response:
    """Group the rows that match by the value of a column: their number, how many need a person, and the sums of the
    number columns, by currency. The groups have the order of the column; if it is also `sort`, with its direction."""
    groups, total = await tables.list_groups(conn, table_id, query, limit=limit)
    return await json_response(Groups, items=list(groups), total=total)


@router.get("/{table_id}/views")
async def list_saved_views(table_id: TableId, conn: Conn) -> SavedViews:
    """List the saved views of a table. All members see them."""
    return SavedViews(items=list(await saved_views.list_of_table(conn, table_id)))


@router.post("/{table_id}/views", status_code=201)
async def save_view(table_id: TableId, body: NewView, conn: Conn) -> SavedView:
    """Save a view of a table for all members. 409 (`name_taken`) if the table has one with this name."""
    _check_name(body.name)
    return await saved_views.add(conn, table_id, body.name, body.settings)


@router.patch("/{table_id}/views/{view_id}")
async def change_saved_view(table_id: TableId, view_id: UUID, body: ViewChange, conn: Conn) -> SavedView:
    """Rename a view, or change what it shows."""
    if body.name is not None:
        _check_name(body.name)
    return await saved_views.change(conn, table_id, view_id, body.name, body.settings)


@router.delete("/{table_id}/views/{view_id}", status_code=204)
async def delete_saved_view(table_id: TableId, view_id: UUID, conn: Conn) -> None:
    """Delete a view. The rows stay."""
    await saved_views.remove(conn, table_id, view_id)


def _check_name(name: str) -> None:
    if problem := name_problem(name):
        raise Invalid(problem)


@router.get("/{table_id}/view")
async def define_view(
    table_id: TableId,
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
    table_id: TableId,
    query: Asked,
    scope: TheScope,
    runtime: TheRuntime,
    request: Request,
    file_format: FileFormat = "csv",
) -> Response:
    """Export all rows of a table: as JSON, as CSV, as a workbook whose second sheet has the status, the page and the
    quote of each value, linked to its document, or as Parquet with the columns of the view."""
    return await _export(runtime, scope, table_id, query, file_format, service_address(request))


@router.post("/{table_id}/export", response_class=Response)
async def export_chosen_rows(
    table_id: TableId,
    body: ChosenRows,
    query: Asked,
    scope: TheScope,
    runtime: TheRuntime,
    request: Request,
    file_format: FileFormat = "csv",
) -> Response:
    """Export only these rows of a table, in the formats and the order of `GET …/export`. 404 if one of them is not in
    it."""
    only = [RowName(one.document_id, one.path) for one in body.rows]
    return await _export(runtime, scope, table_id, query, file_format, service_address(request), only)


async def _export(
    runtime: Runtime,
    scope: Scope,
    table_id: TableId,
    query: TableQuery,
    file_format: TableFormat,
    service_url: str,
    only: list[RowName] | None = None,
) -> Response:
    file = await export_table(runtime.database, scope, table_id, query, file_format, service_url, only)
    headers = attachment_headers(file.filename) | {"Cache-Control": "private, no-store"}
    return Response(file.content, media_type=file.media_type, headers=headers)
