"""/api/fields: known field paths, the values of one field in many documents, and exact counts and sums."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any
from uuid import UUID

from fastapi import Depends, Query, Response
from pydantic import Field

from fieldmark.api.auth import Conn, TheScope
from fieldmark.api.extractions import Evidence, FieldPath, FieldStatusOf, Lock
from fieldmark.api.routing import Routes
from fieldmark.api.shared_types import Before, FilterText, ListPage, StackId, json_response
from fieldmark.domain import paths
from fieldmark.domain.document_filters import MAX_TAGS, DocumentFilters, validate_model
from fieldmark.domain.field_query import FieldAnswer, FieldQuery, KnownFields
from fieldmark.services import field_queries
from fieldmark.stores import field_values, known_fields
from fieldmark.stores.field_values import FieldValueRow
from fieldmark.stores.paging import RowPage

router = Routes(prefix="/api/fields", tags=["fields"])


async def get_filters(
    stack_id: StackId = None,
    document_type: Annotated[FilterText | None, Query(description="Only documents of this type.")] = None,
    tag: Annotated[
        list[FilterText] | None,
        Query(max_length=MAX_TAGS, description="Only documents with all of these tags, by name."),
    ] = None,
) -> DocumentFilters:
    conditions: dict[str, Any] = {"stack_id": stack_id, "document_type": document_type, "tags": tag}
    return validate_model(DocumentFilters, {name: value for name, value in conditions.items() if value})


Filters = Annotated[DocumentFilters, Depends(get_filters)]


@router.get("")
async def list_fields(scope: TheScope, conn: Conn, where: Filters) -> KnownFields:
    """List the field paths in the newest documents, by document type."""
    return await known_fields.list_known_fields(conn, scope.org_id, where)


class DocumentFieldValue(FieldStatusOf):
    """The value of a field in one document."""

    document_id: UUID
    filename: str
    extraction_id: UUID
    version: int = Field(description="The extraction's version. Send it as If-Match when you change the value.")
    value: str | float | int | bool | None = Field(description="Null: the field has no value.")
    confidence: float | None = Field(description="As in `confidence_scores` of the extraction.")
    evidence: Evidence | None
    lock: Lock | None = Field(description="Set if a person set or confirmed the value.")


@router.get("/values", response_model=ListPage[DocumentFieldValue])
async def list_field_values(
    scope: TheScope,
    conn: Conn,
    path: FieldPath,
    where: Filters,
    limit: Annotated[int, Query(ge=1, le=200, description="The most items to return; fewer if they are large.")] = 50,
    before: Before = None,
) -> Response:
    """List the values of one field in the current extractions of the documents, with their locations. Fields
    without a value have an item too, objects and lists have none."""
    steps = paths.parse(path)
    page = await field_values.list_values(conn, scope.org_id, steps, where, limit=limit, before=before)
    return await json_response(_values, page)


def _values(page: RowPage[FieldValueRow]) -> ListPage[DocumentFieldValue]:
    items = [DocumentFieldValue.model_construct(**asdict(row), document_id=row.id) for row in page.items]
    return ListPage[DocumentFieldValue].model_construct(items=items, next=page.next)


@router.post("/query")
async def query_fields(scope: TheScope, conn: Conn, body: FieldQuery) -> FieldAnswer:
    """Count documents and aggregate their fields, by group. Each figure is exact, and comes with the first values that
    it was computed from and the number of documents without a value. Changes nothing."""
    return await field_queries.query(conn, scope, body)
