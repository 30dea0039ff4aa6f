"""Documents: taken in (the original kept, the row inserted, the reading queued), read, looked at, removed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

import structlog

from fieldmark.db.aside import aside
from fieldmark.db.pool import Connection, Database
from fieldmark.documents.reading.pages import Limits
from fieldmark.documents.reading.pages import Page as ReadPage
from fieldmark.documents.reading.sandbox import read_file
from fieldmark.domain.ids import new_id
from fieldmark.domain.reading_warnings import ReadingWarning
from fieldmark.domain.statuses import DocumentStatus
from fieldmark.errors import Conflict, DocumentFailed, NotFound, TooLarge, Unavailable, Unreadable
from fieldmark.files import Files, parse_stored_path, safe_name, stored_path
from fieldmark.identity.scope import Scope
from fieldmark.services import einvoices
from fieldmark.services.paging import Cursor, Page, page_of
from fieldmark.services.turns import in_turn
from fieldmark.stores import documents
from fieldmark.stores.rows import DocumentRow, NewPage, PageRow, PageText

log = structlog.get_logger()

PAGES_A_STATEMENT = 50
FILES_A_BATCH = 100


class DocumentService:
    """What needs the files beside the database: upload, adopt, read, remove."""

    def __init__(self, database: Database, files: Files, limits: Limits) -> None:
        self._database = database
        self._files = files
        self._limits = limits

    async def upload(self, scope: Scope, source: Path, filename: str) -> DocumentRow:
        """Keep a copy of `source` and queue its reading; the document's row comes back. Raises TooLarge."""
        size = (await asyncio.to_thread(source.stat)).st_size
        self._check_size(size)
        name = safe_name(filename.replace("\\", "/").rsplit("/", 1)[-1])
        document_id = new_id()
        path = str(stored_path(scope.org_id, document_id, name))
        await self._files.put(path, source)
        try:
            async with self._database.as_user(scope) as conn:
                document = await documents.add(
                    conn, document_id=document_id, org_id=scope.org_id, filename=name, storage_path=path, byte_size=size
                )
                assert document is not None  # its id is new
                return document
        except BaseException:
            await self._files.remove(path)
            raise

    async def adopt(self, scope: Scope, storage_path: str) -> DocumentRow:
        """Queue the reading of an object that a front end has put into the bucket already, at
        `<org_id>/<document_id>/<name>`. Raises Invalid, NotFound, Conflict or TooLarge."""
        stored = parse_stored_path(storage_path)
        if stored.org_id != scope.org_id:
            raise NotFound("There is no such object in the bucket.")
        size = await self._files.size(storage_path)
        if size is None:
            raise NotFound("There is no such object in the bucket.")
        self._check_size(size)
        async with self._database.as_user(scope) as conn:
            document = await documents.add(
                conn,
                document_id=stored.document_id,
                org_id=scope.org_id,
                filename=stored.name,
                storage_path=storage_path,
                byte_size=size,
            )
            if document is None and await documents.get(conn, stored.document_id):
                raise Conflict("This object is a document already.")
            if document is None:  # the id is somebody else's document, which is none of this caller's business
                raise NotFound("There is no such object in the bucket.")
            return document

    async def read(self, document_id: UUID) -> None:
        """Read a document that waits for it: pages into rows, then `ready`, or `failed` with the reason. Does nothing
        for one that was read already or is gone."""
        async with self._database.as_service() as conn:
            scope = await documents.scope_of(conn, document_id)
        if scope is None:
            return
        async with self._database.as_user(scope) as conn:
            document = await documents.get(conn, document_id)
        if document is None or document.status is not DocumentStatus.READING:
            return
        try:
            async with self._files.local(document.storage_path) as path:
                reading = await read_file(path, document.filename, self._limits)
        except (Unreadable, NotFound, TooLarge) as error:
            # Not its sentence, which may name the file's ending.
            log.info("document cannot be read", document_id=str(document_id), org_id=str(scope.org_id), code=error.code)
            async with self._database.as_user(scope) as conn:
                await documents.fail_reading(conn, document_id, str(error), error.code)
            return
        disagreements = await in_turn(scope.org_id, einvoices.disagreements, reading.pages)
        async with self._database.as_user(scope) as conn:
            if await documents.begin_reading(conn, document_id) is None:
                return  # another worker was faster, or it was deleted meanwhile
            rows = await aside(_rows, reading.pages)
            for start in range(0, len(rows), PAGES_A_STATEMENT):
                await documents.add_pages(conn, document_id, scope.org_id, rows[start : start + PAGES_A_STATEMENT])
            await documents.finish_reading(
                conn,
                document_id,
                media_type=reading.media_type,
                page_count=len(reading.pages),
                warnings=[*reading.warnings, *disagreements],
            )

    async def remove(self, scope: Scope, document_id: UUID) -> None:
        """Delete a document with its pages, extractions, runs and original. Raises NotFound."""
        async with self._database.as_user(scope) as conn:
            path = await documents.remove(conn, document_id)
        try:
            await self._files.remove(path)
        except Unavailable as error:  # it is queued: `delete_originals` comes back to it
            log.warning("an original waits to be deleted", document_id=str(document_id), error=str(error))

    async def delete_originals(self) -> None:
        """Delete the originals whose documents are gone, whoever deleted these. Raises Unavailable where the store does
        not answer; what is left then stays queued."""
        while True:
            async with self._database.as_service() as conn:
                paths = await documents.files_to_delete(conn, FILES_A_BATCH)
            for path in paths:
                await self._files.remove(path)
            async with self._database.as_service() as conn:
                await documents.files_deleted(conn, paths)
            if len(paths) < FILES_A_BATCH:
                return

    def _check_size(self, size: int) -> None:
        if size > self._limits.max_bytes:
            raise TooLarge(
                f"The file has {size:,} bytes; at most {self._limits.max_bytes:,} are taken (FIELDMARK_MAX_FILE_MB)."
            )


async def get(conn: Connection, document_id: UUID) -> DocumentRow:
    """One document. Raises NotFound."""
    row = await documents.get(conn, document_id)
    if row is None:
        raise NotFound("There is no such document.")
    return row


async def get_read(conn: Connection, document_id: UUID) -> DocumentRow:
    """One document that was read. Raises NotFound, DocumentFailed with the reason, or Conflict while it is being
    read."""
    row = await get(conn, document_id)
    if row.status is DocumentStatus.FAILED:
        raise DocumentFailed(row.error or "The document could not be read.")
    if row.status is not DocumentStatus.READY:
        raise Conflict("The document is still being read.")
    return row


async def get_texts(conn: Connection, document_id: UUID, first: int = 1, last: int | None = None) -> list[PageText]:
    """The texts of pages `first` to `last` of a document that was read. Raises as `get_read`."""
    await get_read(conn, document_id)
    return await documents.pages(conn, document_id, first, last)


async def get_page(conn: Connection, document_id: UUID, number: int) -> PageRow:
    """One page of a document that was read. Raises as `get_read`, and NotFound where there is no such page."""
    await get_read(conn, document_id)
    row = await documents.page(conn, document_id, number)
    if row is None:
        raise NotFound("There is no such page.")
    return row


async def list_page(conn: Connection, scope: Scope, *, limit: int, before: str | None) -> Page[DocumentRow]:
    """A page of the organisation's documents, newest first. Raises Invalid for a cursor that is none."""
    behind = None if before is None else Cursor.parse(before, "documents").position
    rows = await documents.list_documents(conn, scope.org_id, limit=limit + 1, behind=behind)
    return page_of(rows, limit, "documents")


async def warnings(conn: Connection, document_id: UUID) -> list[ReadingWarning]:
    """What of a document was not read, or not read well, in the order of its pages."""
    return await documents.warnings(conn, document_id)


def _rows(pages: Sequence[ReadPage]) -> list[NewPage]:
    return [_row(page) for page in pages]


def _row(page: ReadPage) -> NewPage:
    return NewPage(
        number=page.number,
        width=page.width,
        height=page.height,
        text=page.text,
        engine=page.engine,
        words=[
            [
                w.text,
                *(round(v, 5) for v in (w.x0, w.y0, w.x1, w.y1)),
                *([] if w.confidence is None else [w.confidence]),
            ]
            for w in page.words
        ],
    )
