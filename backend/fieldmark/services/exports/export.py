"""Exports an extraction as a file, for the API and the command line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args
from uuid import UUID

from fieldmark.db.pool import Database
from fieldmark.domain.paths import name
from fieldmark.errors import Invalid, NotFound, TooLarge
from fieldmark.files import Files
from fieldmark.identity.scope import Scope
from fieldmark.services.exports.page import Sheet, as_html
from fieldmark.services.exports.shape import leaves_of
from fieldmark.services.exports.sheet import as_csv, as_xlsx
from fieldmark.services.extractions import problems, read_checked
from fieldmark.services.fair_share import PAGE_RENDERING, run_queued
from fieldmark.stores import documents, extractions
from fieldmark.stores.rows import DocumentRow
from pagewords.errors import PagewordsError
from pagewords.jobs import DrawJob
from pagewords.pages import MIB, Limits
from pagewords.sandbox import draw_pages

Format = Literal["json", "csv", "xlsx", "html"]
FORMATS: tuple[Format, ...] = get_args(Format)
MEDIA_TYPES: Mapping[Format, str] = {
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "html": "text/html; charset=utf-8",
}

# Limits of an HTML export: browsers are slow with files of hundreds of pages.
MAX_PAGES = 20
MAX_IMAGE_BYTES = 24 * MIB
DPI, LONGEST_SIDE = 110, 1800


@dataclass(frozen=True, slots=True)
class ExportedFile:
    """An exported file. Its name is the document's with another extension."""

    content: bytes
    media_type: str
    filename: str


async def export(
    database: Database,
    files: Files,
    limits: Limits,
    scope: Scope,
    extraction_id: UUID,
    file_format: Format,
    list_name: str | None = None,
) -> ExportedFile:
    """Return an extraction as a file. `list_name` exports the rows of one list of objects, only as CSV. Raise NotFound
    if there is no such extraction or list, Invalid for a list in another format."""
    if list_name is not None and file_format != "csv":
        raise Invalid("A single list can only be exported as CSV. The other formats contain all lists.")
    async with database.as_user(scope) as conn:
        row = await extractions.find(conn, extraction_id)
        document = row and await documents.find(conn, row.document_id)
    if row is None or document is None:
        raise NotFound("There is no such extraction.")
    found = await problems(scope.org_id, row)
    row, statuses = await read_checked(database, scope, row)
    extraction = row.shown() | {
        "statuses": statuses,
        "problems": [{"path": name(one.path), "code": one.code, "message": one.message} for one in found],
    }
    with_schema = extraction | {"schema": row.schema}
    if file_format == "json":
        content = await run_queued(scope.org_id, _as_json, extraction, document)
    elif file_format == "csv":
        content = await run_queued(scope.org_id, as_csv, with_schema, list_name)
    elif file_format == "xlsx":
        content = await run_queued(scope.org_id, as_xlsx, with_schema)
    else:
        sheets = await _sheets(database, files, limits, scope, extraction, document)
        content = await run_queued(scope.org_id, as_html, with_schema, asdict(document), sheets)
    stem = document.filename.rsplit(".", 1)[0] or "extraction"
    return ExportedFile(content, MEDIA_TYPES[file_format], f"{stem}.{file_format}")


def _as_json(extraction: Mapping[str, Any], document: DocumentRow) -> bytes:
    about = {
        name: getattr(document, name)
        for name in ("id", "filename", "external_id", "metadata", "media_type", "page_count")
    }
    whole = {**extraction, "document": about}
    text = json.dumps(whole, ensure_ascii=False, indent=2, default=_plain)
    return (text + "\n").encode("utf-8", "replace")


def _plain(value: Any) -> str:
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


async def _sheets(
    database: Database,
    files: Files,
    limits: Limits,
    scope: Scope,
    extraction: Mapping[str, Any],
    document: DocumentRow,
) -> list[Sheet]:
    """Return the first page and the pages with values, at most MAX_PAGES. A page that cannot be rendered is blank."""
    with_values = {leaf.page for leaf in leaves_of(extraction) if leaf.page and leaf.boxes}
    numbers = sorted(number for number in with_values | {1} if number <= (document.page_count or 0))[:MAX_PAGES]
    async with database.as_user(scope) as conn:
        sizes = await documents.page_sizes(conn, document.id, numbers)
    images: list[bytes] = []
    if sizes:
        try:
            async with PAGE_RENDERING.slot(scope.org_id), files.local(document.readable_path) as path:
                numbers = [number for number, *_ in sizes]
                job = DrawJob(document.media_type or "", numbers, DPI, LONGEST_SIDE, MAX_IMAGE_BYTES)
                images = await draw_pages(path, job, limits)
        except (NotFound, TooLarge, PagewordsError):
            images = []
    drawn: list[bytes | None] = [*images, *[None] * (len(sizes) - len(images))]
    return [Sheet(*size, png) for size, png in zip(sizes, drawn, strict=True)]
