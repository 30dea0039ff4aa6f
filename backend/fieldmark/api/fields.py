"""/api/fields: which fields there are, and exact counts and sums over the fields of many documents."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from fieldmark.api.auth import TheRuntime, TheScope
from fieldmark.api.problems import responses
from fieldmark.api.shapes import Text
from fieldmark.domain.document_filters import MAX_TAGS, DocumentFilters, parsed
from fieldmark.domain.field_query import FieldAnswer, FieldQuery, KnownFields
from fieldmark.services import field_queries

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


@router.post("/query", responses=responses(401, 404, 422))
async def query_fields(scope: TheScope, runtime: TheRuntime, body: FieldQuery) -> FieldAnswer:
    """How many documents, what their fields come to, by group: each figure exact, with the first values that it is made
    of, and what it leaves out. It changes nothing."""
    async with runtime.database.as_user(scope) as conn:
        return await field_queries.query(conn, scope, body)
