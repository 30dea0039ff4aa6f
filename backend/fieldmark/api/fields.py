"""/api/fields: which fields there are, one field over many documents, and exact counts and sums over them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

from fieldmark.api.auth import TheRuntime, TheScope
from fieldmark.api.extractions import AnyEvidence, FieldPath, Lock
from fieldmark.api.problems import responses
from fieldmark.api.shapes import Before, Text, json_of
from fieldmark.domain import paths
from fieldmark.domain.document_filters import MAX_TAGS, DocumentFilters, parsed
from fieldmark.domain.field_query import FieldAnswer, FieldQuery, KnownFields
from fieldmark.services import field_queries
from fieldmark.services.paging import Page
from fieldmark.stores.field_values import FieldValueRow

router = APIRouter(prefix="/api/fields", tags=["fields"])


@router.get("", responses=responses(401, 422))
async def list_fields(
    scope: TheScope,
    runtime: TheRuntime,
    document_type: Annotated[Text | None, Query(description="Only of this type, as the extraction says.")] = None,
    tag: Annotated[
        list[Text] | None, Query(max_length=MAX_TAGS, description="Only with the tags of all these names.")
    ] = None,
) -> KnownFields:
    """The paths that can be asked for, of each type of document, in so many of the newest ones."""
    asked: dict[str, Any] = {"document_type": document_type, "tags": tag}
    where = parsed(DocumentFilters, {name: value for name, value in asked.items() if value})
    async with runtime.database.as_user(scope) as conn:
        return await field_queries.known(conn, scope, where)


class ValueOfDocument(BaseModel):
    """The value of one field in one document."""

    document_id: UUID
    filename: str
    extraction_id: UUID
    version: int = Field(description="Of the extraction: for If-Match, where you change the value.")
    value: str | float | int | bool
    confidence: float | None = Field(description="As in `confidence_scores` of the extraction.")
    evidence: AnyEvidence
    lock: Lock | None = Field(description="A person has set it.")
    proposed: bool = Field(description="What an agent would have written here waits for you.")


class FieldValues(BaseModel):
    """The values of one field, the newest document first."""

    items: list[ValueOfDocument]
    next: str | None = Field(description="Give it as `before` to get those that follow. null at the end.")


@router.get("/values", response_model=FieldValues, responses=responses(401, 404, 422))
async def list_field_values(
    scope: TheScope,
    runtime: TheRuntime,
    path: FieldPath,
    document_type: Annotated[Text | None, Query(description="Only of this type, as the extraction says.")] = None,
    tag: Annotated[
        list[Text] | None, Query(max_length=MAX_TAGS, description="Only with the tags of all these names.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=200, description="How many at most; fewer where values are large.")] = 50,
    before: Before = None,
) -> Response:
    """One field over many documents: its value in the current extraction of each, with where it stands. Blanks, objects
    and lists are left out."""
    asked: dict[str, Any] = {"document_type": document_type, "tags": tag}
    where = parsed(DocumentFilters, {name: value for name, value in asked.items() if value})
    steps = paths.parse(path)
    async with runtime.database.as_user(scope) as conn:
        page = await field_queries.values(conn, scope, steps, where, limit=limit, before=before)
    return await json_of(_values, page)


def _values(page: Page[FieldValueRow]) -> FieldValues:
    items = [
        ValueOfDocument.model_validate({**asdict(row), "document_id": row.id, "proposed": row.is_proposed})
        for row in page.items
    ]
    return FieldValues(items=items, next=page.next)


@router.post("/query", responses=responses(401, 404, 422))
async def query_fields(scope: TheScope, runtime: TheRuntime, body: FieldQuery) -> FieldAnswer:
    """How many documents, what their fields come to, by group: each figure exact, with the first values that it is made
    of, and what it leaves out. It changes nothing."""
    async with runtime.database.as_user(scope) as conn:
        return await field_queries.query(conn, scope, body)
