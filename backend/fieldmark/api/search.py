"""/api/search: what of the organisation's documents answers a question."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from fastapi import Query
from pydantic import Field

from fieldmark.api.auth import TheCaller, TheRuntime, TheScope
from fieldmark.api.routing import Routes
from fieldmark.api.shapes import STORABLE, Filename, Since, Text, Until
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

router = Routes(prefix="/api/search", tags=["search"])

# Told to clients: some of what is one. What is wrong with another is said by its own sentence.
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
            description="Words. Any of them may do, rare ones say most. There are no operators.",
        ),
    ],
    limit: Annotated[int, Query(ge=1, le=search.MAX_HITS, description="How many at most.")] = 10,
    filter: Annotated[
        list[Text] | None,
        Query(
            max_length=MAX_CONDITIONS,
            description='What a field must be like: `total > 1000`, `vendor.name = "Acme"`. Named again: also that.',
        ),
    ] = None,
    document_id: Annotated[list[UUID] | None, Query(max_length=MAX_IDS, description="Only in these.")] = None,
    tag: Annotated[
        list[Text] | None, Query(max_length=MAX_TAGS, description="Only with the tags of all these names.")
    ] = None,
    document_type: Annotated[Text | None, Query(description="Only of this type, as the extraction says.")] = None,
    filename: Filename = None,
    since: Since = None,
    until: Until = None,
) -> search.SearchResult:
    """What of the documents answers a question best: a page of each, and the words that were asked for."""
    asked: dict[str, Any] = {
        "document_ids": document_id,
        "tags": tag,
        "document_type": document_type,
        "uploaded_after": since,
        "uploaded_before": until,
        "filename": filename,
        "fields": [FieldCondition.parse(text) for text in filter or ()],
    }
    if filter or document_type:  # else a key could find out values by narrowing down to them
        require_scope(caller, Permission.EXTRACTIONS_READ, "filters on fields need")
    filters = validate_model(DocumentFilters, {name: value for name, value in asked.items() if value})
    meaning = await search.meaning_of(runtime.embedder, q)
    async with runtime.database.as_user(scope) as conn:
        return await search.search(
            conn,
            scope,
            q,
            filters=filters,
            limit=limit,
            meaning=meaning,
            with_fields=has_scope(caller, Permission.EXTRACTIONS_READ),
        )
