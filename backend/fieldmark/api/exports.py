"""/api/extractions/{id}/export: an extraction as a file."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import Query, Response

from fieldmark.api.auth import TheRuntime, TheScope
from fieldmark.api.downloads import attachment_headers
from fieldmark.api.routing import Routes
from fieldmark.services.exports.export import MEDIA_TYPES, Format, export

router = Routes(prefix="/api/extractions", tags=["extractions"])

_CONTENT: dict[str, dict[str, dict[str, str]]] = {
    media_type: {"schema": {"type": "string"} if media_type.startswith("text/") else {}}
    for media_type in MEDIA_TYPES.values()
}


@router.get(
    "/{extraction_id}/export",
    response_class=Response,
    responses={200: {"description": "The file", "content": _CONTENT}},
)
async def export_extraction(
    extraction_id: UUID,
    scope: TheScope,
    runtime: TheRuntime,
    file_format: Annotated[Format, Query(alias="format", description="The format of the file.")] = "json",
    list_name: Annotated[
        str | None,
        Query(
            alias="list",
            min_length=1,
            max_length=1000,
            description="Only with csv: export the rows of this list of objects, such as items or items[].taxes.",
        ),
    ] = None,
) -> Response:
    """Export the fields with their locations: as JSON, as CSV with one row per value, as a workbook with one sheet per
    list, or as an HTML file that shows the pages with a box for each value."""
    file = await export(
        runtime.database, runtime.files, runtime.reading_limits, scope, extraction_id, file_format, list_name
    )
    headers = attachment_headers(file.filename) | {"Cache-Control": "private, no-store"}
    return Response(file.content, media_type=file.media_type, headers=headers)
