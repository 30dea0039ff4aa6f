"""/api/fields: known field paths, and exact counts and sums."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Query

from fieldmark.api.auth import Conn, TheScope
from fieldmark.api.routing import Routes
from fieldmark.api.shared_types import FilterText, StackId
from fieldmark.domain.document_filters import MAX_TAGS, DocumentFilters, validate_model
from fieldmark.domain.field_query import FieldAnswer, FieldQuery, KnownFields
from fieldmark.services import field_queries
from fieldmark.stores import known_fields

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


@router.post("/query")
async def query_fields(scope: TheScope, conn: Conn, body: FieldQuery) -> FieldAnswer:
    """Count documents and aggregate their fields, by group. Each figure is exact, and comes with the first values that
    it was computed from and the number of documents without a value. Changes nothing."""
    return await field_queries.query(conn, scope, body)
