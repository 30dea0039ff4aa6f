"""/api/fields: exact counts and sums over the fields of many documents."""

from __future__ import annotations

from fastapi import APIRouter

from fieldmark.api.auth import TheRuntime, TheScope
from fieldmark.api.problems import responses
from fieldmark.domain.field_query import FieldAnswer, FieldQuery
from fieldmark.services import field_queries

router = APIRouter(prefix="/api/fields", tags=["fields"])


@router.post("/query", responses=responses(401, 404, 422))
async def query_fields(scope: TheScope, runtime: TheRuntime, body: FieldQuery) -> FieldAnswer:
    """How many documents, what their fields come to, by group: each figure exact, with the first values that it is made
    of, and what it leaves out. It changes nothing."""
    async with runtime.database.as_user(scope) as conn:
        return await field_queries.query(conn, scope, body)
