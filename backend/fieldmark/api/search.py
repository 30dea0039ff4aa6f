"""/api/search: search in the organisation's documents."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from fastapi import Query
from pydantic import Field

from fieldmark.api.auth import TheCaller, TheRuntime, TheScope
from fieldmark.api.routing import Routes
from fieldmark.api.shared_types import STORABLE, Filename, FilterText, Since, StackId, Until
from fieldmark.domain.document_filters import (
    MAX_CONDITIONS,
    MAX_IDS,
    MAX_TAGS,
    DocumentFilters,
    FieldCondition,
    validate_model,
)
from fieldmark.domain.permissions import Permission
from fieldmark.services import search
from fieldmark.services.api_keys import has_scope, require_scope
from fieldmark.services.field_queries import check_fields

router = Routes(prefix="/api/search", tags=["search"])

# Only for clients, and only some valid conditions. `FieldCondition.parse` checks conditions.
Condition = Annotated[
    str, Field(json_schema_extra={"pattern": r"^[a-z]{1,20} (exists|missing|(=|!=|<|<=|>|>=) [1-9][0-9]{0,8})$"})
]


@router.get("")
async def search_documents(
    caller: TheCaller,
    scope: TheScope,
    runtime: TheRuntime,
    q: Annotated[
        str,
        Query(
            min_length=1,
            max_length=search.MAX_QUERY,
            pattern=STORABLE,
            description="Words to search for. Any of them matches; rare words rank higher. There are no operators.",
        ),
    ],
    limit: Annotated[int, Query(ge=1, le=search.MAX_HITS, description="The most hits to return.")] = 10,
    filter: Annotated[
        list[FilterText] | None,
        Query(
            max_length=MAX_CONDITIONS,
            description='A condition on a field: `total > 1000`, `vendor.name = "Acme"`. Repeat it to add conditions.',
        ),
    ] = None,
    document_id: Annotated[list[UUID] | None, Query(max_length=MAX_IDS, description="Only these documents.")] = None,
    tag: Annotated[
        list[FilterText] | None,
        Query(max_length=MAX_TAGS, description="Only documents with all of these tags, by name."),
    ] = None,
    stack_id: StackId = None,
    document_type: Annotated[FilterText | None, Query(description="Only documents of this type.")] = None,
    filename: Filename = None,
    since: Since = None,
    until: Until = None,
) -> search.SearchResult:
    """Search the documents. Each hit is a chunk of a page, with the matching words marked."""
    conditions: dict[str, Any] = {
        "document_ids": document_id,
        "stack_id": stack_id,
        "tags": tag,
        "document_type": document_type,
        "uploaded_after": since,
        "uploaded_before": until,
        "filename": filename,
        "fields": [FieldCondition.parse(text) for text in filter or ()],
    }
    if filter or document_type or stack_id:  # otherwise a key could find out values by filtering on guesses
        require_scope(caller, Permission.EXTRACTIONS_READ, "a filter on fields, types or stacks")
    filters = validate_model(DocumentFilters, {name: value for name, value in conditions.items() if value})
    embedding = await search.embed_query(runtime.embedder, q)
    async with runtime.database.as_user(scope) as conn:
        await check_fields(conn, scope, filters)
        return await search.search(
            conn,
            scope,
            q,
            filters=filters,
            limit=limit,
            embedding=embedding,
            with_fields=has_scope(caller, Permission.EXTRACTIONS_READ),
        )
