"""/api/extractions: the typed fields read from a document."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from fastapi import APIRouter
from pydantic import BaseModel, Field

from fieldmark.errors import NotFound
from fieldmark.routes.auth import TheScope, TheService
from fieldmark.routes.problems import responses
from fieldmark.stores import extractions

router = APIRouter(prefix="/api/extractions", tags=["extractions"])


class Extraction(BaseModel):
    """The typed fields of one document."""

    id: UUID
    document_id: UUID
    document_type: str | None
    status: Literal["in_progress", "completed"]
    extracted_fields: dict[str, Any] = Field(description="Nested as the document is.")
    confidence_scores: dict[str, float] = Field(description='0..1 by path: {"vendor.name": 0.95}.')
    evidence: dict[str, Any] = Field(description="Where a value was read, by path: {quote, page, match}.")
    version: int = Field(description="Rises with each change of the fields.")
    created_at: datetime
    updated_at: datetime


@router.get("/{extraction_id}", responses=responses(401, 404, 422))
async def get_extraction(extraction_id: UUID, scope: TheScope, service: TheService) -> Extraction:
    """One extraction as it stands now."""
    async with service.database.as_user(scope) as conn:
        row = await extractions.get(conn, extraction_id)
    if row is None:
        raise NotFound("There is no such extraction.")
    return Extraction.model_validate(row)
