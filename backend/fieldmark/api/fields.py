"""/api/fields: which fields there are, one field over many documents, and exact counts and sums over them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any
from uuid import UUID

from fastapi import Depends, Query, Response
from pydantic import BaseModel, Field

from fieldmark.api.auth import Conn, TheScope
from fieldmark.api.extractions import Evidence, FieldPath, Lock
from fieldmark.api.routing import Routes
from fieldmark.api.shapes import Before, ListPage, Text, json_of
from fieldmark.domain import paths
from fieldmark.domain.document_filters import MAX_TAGS, DocumentFilters, validate_model
from fieldmark.domain.field_query import FieldAnswer, FieldQuery, KnownFields
from fieldmark.services import field_queries
from fieldmark.stores import field_values, known_fields
from fieldmark.stores.field_values import FieldValueRow
from fieldmark.stores.paging import Page

router = Routes(prefix="/api/fields", tags=["fields"])


async def filters_of(
    document_type: Annotated[Text | None, Query(description="Only of this type, as the extraction says.")] = None,
    tag: Annotated[
        list[Text] | None, Query(max_length=MAX_TAGS, description="Only with the tags of all these names.")
    ] = None,
) -> DocumentFilters:
    """Return which documents a query asks about."""
    asked: dict[str, Any] = {"document_type": document_type, "tags": tag}
    return validate_model(DocumentFilters, {name: value for name, value in asked.items() if value})


Filters = Annotated[DocumentFilters, Depends(filters_of)]


@router.get("")
async def list_fields(scope: TheScope, conn: Conn, where: Filters) -> KnownFields:
    """The paths that can be asked for, of each type of document, in so many of the newest ones."""
    return await known_fields.run(conn, scope.org_id, where)


class ValueOfDocument(BaseModel):
    """The value of one field in one document."""

    document_id: UUID
    filename: str
    extraction_id: UUID
    version: int = Field(description="Of the extraction: for If-Match, where you change the value.")
    value: str | float | int | bool
    confidence: float | None = Field(description="As in `confidence_scores` of the extraction.")
    evidence: Evidence
    lock: Lock | None = Field(description="A person has set it.")
    proposed: bool = Field(description="What an agent would have written here waits for you.")


@router.get("/values", response_model=ListPage[ValueOfDocument])
async def list_field_values(
    scope: TheScope,
    conn: Conn,
    path: FieldPath,
    where: Filters,
    limit: Annotated[int, Query(ge=1, le=200, description="How many at most; fewer where values are large.")] = 50,
    before: Before = None,
) -> Response:
    """One field over many documents: its value in the current extraction of each, with where it stands. Blanks, objects
    and lists are left out."""
    steps = paths.parse(path)
    page = await field_values.list_values(conn, scope.org_id, steps, where, limit=limit, before=before)
    return await json_of(_values, page)


def _values(page: Page[FieldValueRow]) -> ListPage[ValueOfDocument]:
    items = [
        ValueOfDocument.model_construct(**asdict(row), document_id=row.id, proposed=row.is_proposed)
        for row in page.items
    ]
    return ListPage[ValueOfDocument].model_construct(items=items, next=page.next)


@router.post("/query")
async def query_fields(scope: TheScope, conn: Conn, body: FieldQuery) -> FieldAnswer:
    """How many documents, what their fields come to, by group: each figure exact, with the first values that it is made
    of, and what it leaves out. It changes nothing."""
    return await field_queries.query(conn, scope, body)
