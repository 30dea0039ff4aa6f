"""/api/records and /api/schemas/{id}/records: the extractions under each schema as a table."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Literal
from uuid import UUID

from fastapi import Depends, Query, Request, Response
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from fieldmark.api.auth import Conn, TheRuntime, TheScope
from fieldmark.api.downloads import attachment_headers
from fieldmark.api.extractions import FieldStatusOf
from fieldmark.api.routing import Routes
from fieldmark.api.shared_types import FilterText, RequestBody, ResponseModel, json_response
from fieldmark.db.pool import Connection
from fieldmark.domain.columns import Column
from fieldmark.domain.document_filters import MAX_CONDITIONS, FieldCondition, FieldPath
from fieldmark.domain.statuses import FieldStatus
from fieldmark.identity.scope import Scope
from fieldmark.runtime import Runtime
from fieldmark.services import records
from fieldmark.services.exports.records import RecordsFormat, export_records
from fieldmark.services.records import RecordName, RecordsRequest
from fieldmark.stores.records import ColumnTotal
from fieldmark.stores.stacks import RowState

router = Routes(prefix="/api", tags=["schemas"])

List = Annotated[
    FieldPath | None,
    Query(
        alias="list", description="A list of the schema, such as `items`: its items are the rows, not the documents."
    ),
]
Filter = Annotated[
    list[FilterText] | None,
    Query(
        max_length=MAX_CONDITIONS,
        description='A condition on a field: `total > 1000`, `vendor.name = "Acme"`. Repeat it to add conditions.',
    ),
]
FieldStatusIs = Annotated[
    list[FieldStatus] | None,
    Query(description="Only rows with a cell of one of these statuses, in the column `column` if given."),
]
CellColumn = Annotated[FieldPath | None, Query(alias="column", description="The column that `cell_status` is about.")]
Sort = Annotated[FieldPath | None, Query(description="The column to sort by. Default: newest document first.")]
Descending = Annotated[bool, Query(description="Sort from the highest value to the lowest.")]
ByStatus = Annotated[
    bool,
    Query(
        description="Sort by the status of the cells, the most urgent first: in the column `sort`, or else by the most "
        "urgent cell of each row. The order is that of the statuses."
    ),
]


class RecordCell(FieldStatusOf):
    """A record in a column: its value, or where the value would be."""

    path: str = Field(description="The field's path in the extraction, such as `items[2].price`.")
    value: float | int | bool | str | None
    kind: str | None = Field(description="number, day, text or boolean. null without a value.")
    currency: str | None = Field(description="The currency of a number, from the fields beside it.")
    state: str | None = Field(description="The state of its evidence: `found`, `not_found`, …")
    confidence: float | None
    is_verified: bool = Field(description="Found on a page, or set by a person.")
    page: int | None
    quote: str | None


class Record(ResponseModel):
    """A row: a document, or an item of a list."""

    extraction_id: UUID | None = Field(description="null: a document of a stack that has not been read yet.")
    document_id: UUID
    filename: str
    created_at: AwareDatetime = Field(description="When the document was uploaded.")
    status: RowState = Field(
        description="`stale`: it follows an older version of the columns. In a stack also `waiting`, `running`, "
        "`awaiting_approval`, `failed`, `duplicate` (a document that is longer in the stack has the same bytes), "
        "and `container` (an archive, whose files have rows). `incomplete`: it is not completed. Otherwise `done`."
    )
    error: str | None = Field(description="Why the row of a stack failed.")
    error_code: str | None
    duplicate_of: UUID | None = Field(description="The document with the same bytes that has the row.")
    duplicate_of_filename: str | None
    version: int | None = Field(description="The extraction's version. Send it as If-Match when you change a value.")
    is_reviewed: bool
    review_count: int = Field(
        description="The number of fields of the document's extraction that a person has to look at, also outside the "
        "columns."
    )
    path: str | None = Field(description="The path of the list item, such as `items[2]`. null for a document.")
    cells: dict[str, RecordCell] = Field(description="By column.")


class MarkedDocument(ResponseModel):
    """The document that a row duplicates."""

    document_id: UUID
    filename: str


class _Mark(BaseModel):
    model_config = ConfigDict(from_attributes=True)


class DuplicateMark(_Mark):
    """A row that agrees with that of an earlier document in at least three of vendor, number, date and total."""

    extraction_id: UUID
    path: None
    code: Literal["duplicate"]
    of: MarkedDocument
    columns: list[str] = Field(description="The columns that agree.")


class OutlierMark(_Mark):
    """A value far outside the usual range of its column, among values of the same currency."""

    extraction_id: UUID
    path: str = Field(description="The path of the value.")
    code: Literal["outlier"]
    low: float | date
    high: float | date
    currency: str | None


class RecordsPage(ResponseModel):
    """A part of a table of records."""

    columns: list[Column]
    has_more_columns: bool = Field(description="Whether the schema describes more fields than a table has columns.")
    required: list[str] = Field(
        description="Columns in which a row without a value needs review: the schema names them in its "
        "`x-fieldmark.required`, or at least 80 % of the rows have a value, of 5 or more."
    )
    lists: list[str] = Field(description="The lists of the schema whose items can be the rows: values for `list`.")
    items: list[Record]
    total: int = Field(description="The number of records that match.")
    totals: list[ColumnTotal] = Field(description="Only with `totals`: sums of the number columns over all records.")
    marks: list[Annotated[DuplicateMark | OutlierMark, Field(discriminator="code")]] = Field(
        description="Only with `marks`: likely duplicates and outliers among the records of this page."
    )


class RecordReference(BaseModel):
    """A row of a table."""

    document_id: UUID
    path: FieldPath | None = Field(None, description="The path of the list item. null for a document.")


class RecordsToExport(RequestBody):
    """The rows to export."""

    rows: Annotated[list[RecordReference], Field(min_length=1, max_length=500)]


class RecordsTable(ResponseModel):
    """The table of a schema."""

    schema_id: UUID
    name: str = Field(description="The schema's name.")
    records: int = Field(description="The number of its documents.")


class RecordsTables(ResponseModel):
    """The tables of the organisation."""

    items: list[RecordsTable]


class RecordsView(ResponseModel):
    """A SQL view of a table of records."""

    name: str
    sql: str = Field(description="The statements that create the view. The service does not run them.")


class RecordsOptions:
    """The query parameters of a table."""

    def __init__(
        self,
        schema_id: UUID,
        list_name: List = None,
        filter: Filter = None,
        cell_status: FieldStatusIs = None,
        cell_column: CellColumn = None,
        sort: Sort = None,
        descending: Descending = False,
        by_status: ByStatus = False,
    ) -> None:
        conditions = [FieldCondition.parse(text) for text in filter or ()]
        self.request = RecordsRequest(
            schema_id, list_name, conditions, cell_status or (), cell_column, sort, descending, by_status
        )


Totals = Annotated[bool, Query(description="Also return the totals of the number columns.")]
Marks = Annotated[bool, Query(description="Also return likely duplicates and outliers among these records.")]
MostRecords = Annotated[int, Query(ge=1, le=500, description="The most records to return.")]
SkippedRecords = Annotated[int, Query(ge=0, le=1_000_000, description="The number of records to skip.")]
ViewName = Annotated[
    str | None,
    Query(pattern="^[a-z_][a-z0-9_]{0,62}$", description="The view's name. Default: `records_` and the schema's name."),
]
FileFormat = Annotated[RecordsFormat, Query(alias="format", description="The format of the file.")]


@router.get("/records")
async def list_tables(scope: TheScope, conn: Conn) -> RecordsTables:
    """List the tables of the organisation: its schemas with their numbers of records, the largest first; at most
    200."""
    return RecordsTables(items=[RecordsTable.of(one) for one in await records.list_tables(conn, scope)])


@router.get("/schemas/{schema_id}/records", response_model=RecordsPage)
async def list_records(
    options: Annotated[RecordsOptions, Depends()],
    conn: Conn,
    totals: Totals = False,
    marks: Marks = False,
    limit: MostRecords = 100,
    offset: SkippedRecords = 0,
) -> Response:
    """List the table of a schema: a row for each document with its newest completed extraction under the schema, or for
    each item of a list."""
    return await records_response(conn, options.request, limit, offset, with_totals=totals, with_marks=marks)


@router.get("/schemas/{schema_id}/view", response_model=RecordsView)
async def define_view(
    schema_id: UUID, conn: Conn, list_name: List = None, name: ViewName = None
) -> records.RecordsView:
    """Return the SQL of a view of the table with typed columns, to run in a migration. Row policies apply to its
    readers."""
    return await records.define_view(conn, schema_id, list_name, name)


@router.get("/schemas/{schema_id}/records/export", response_class=Response)
async def export_table(
    options: Annotated[RecordsOptions, Depends()],
    scope: TheScope,
    runtime: TheRuntime,
    request: Request,
    file_format: FileFormat = "csv",
) -> Response:
    """Export all records of a schema: as JSON, as CSV, as a workbook whose second sheet has the status, the page and
    the quote of each value, linked to its document, or as Parquet with the columns of the view."""
    return await export_response(runtime, scope, options.request, file_format, str(request.base_url))


@router.post("/schemas/{schema_id}/records/export", response_class=Response)
async def export_chosen_records(
    body: RecordsToExport,
    options: Annotated[RecordsOptions, Depends()],
    scope: TheScope,
    runtime: TheRuntime,
    request: Request,
    file_format: FileFormat = "csv",
) -> Response:
    """Export only these records of a schema, in the formats and the order of `GET …/records/export`. 404 if one of them
    is not among the records."""
    return await export_response(runtime, scope, options.request, file_format, str(request.base_url), body)


async def records_response(
    conn: Connection, wanted: RecordsRequest, limit: int, offset: int, *, with_totals: bool, with_marks: bool
) -> Response:
    page = await records.list_records(
        conn, wanted, limit=limit, offset=offset, with_totals=with_totals, with_marks=with_marks
    )
    return await json_response(RecordsPage.of, page)


async def export_response(
    runtime: Runtime,
    scope: Scope,
    wanted: RecordsRequest,
    file_format: RecordsFormat,
    service_url: str,
    chosen: RecordsToExport | None = None,
) -> Response:
    only = None if chosen is None else [RecordName(one.document_id, one.path) for one in chosen.rows]
    file = await export_records(runtime.database, scope, wanted, file_format, service_url, only)
    headers = attachment_headers(file.filename) | {"Cache-Control": "private, no-store"}
    return Response(file.content, media_type=file.media_type, headers=headers)
