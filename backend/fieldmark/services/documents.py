"""Documents: taken in (the original kept, the row inserted, the reading queued), read, looked at, removed."""

from __future__ import annotations

import asyncio
import hashlib
import math
import secrets
import tempfile
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID

import structlog

from fieldmark.db.pool import Connection, Database, savepoint
from fieldmark.db.worker_thread import run_in_thread
from fieldmark.documents.reading.enclosed import MAX_DEPTH
from fieldmark.documents.reading.pages import EnclosedFile, Limits
from fieldmark.documents.reading.pages import Page as ReadPage
from fieldmark.documents.reading.sandbox import read_file, unlock_file
from fieldmark.domain.ids import new_id
from fieldmark.domain.reading_warnings import MAX_ENCLOSED, ReadingWarning, WarningCode, skipped_files_warning
from fieldmark.domain.statuses import DocumentStatus
from fieldmark.errors import (
    Conflict,
    Invalid,
    NotFound,
    PasswordProtected,
    QueueFull,
    TooLarge,
    Unavailable,
    Unreadable,
)
from fieldmark.files import Files, StoredPath, parse_stored_path, safe_name, stored_path
from fieldmark.identity.scope import Scope
from fieldmark.services import einvoices
from fieldmark.services.turns import in_turn
from fieldmark.stores import documents
from fieldmark.stores.rows import DocumentRow, NewChild, PageRow

log = structlog.get_logger()

PAGES_A_STATEMENT = 50
FILES_A_BATCH = 100
TELL_SECONDS = 0.5

_unlocking = asyncio.Semaphore(2)  # a process each, while a request waits


class _Telling:
    """Tells how far a document is read: at its first page, then as often as somebody may want to see it."""

    def __init__(self, database: Database, scope: Scope, document_id: UUID) -> None:
        self._database = database
        self._scope = scope
        self._document_id = document_id
        self._next = -math.inf

    async def __call__(self, pages_read: int, page_count: int) -> None:
        now = time.monotonic()
        if page_count == 1 or (now < self._next and pages_read < page_count):
            return
        self._next = now + TELL_SECONDS
        async with self._database.as_user(self._scope) as conn:
            await documents.record_reading(conn, self._document_id, pages_read, page_count)


class DocumentService:
    """What needs the files beside the database: upload, adopt, read, remove."""

    def __init__(self, database: Database, files: Files, limits: Limits) -> None:
        self._database = database
        self._files = files
        self._limits = limits

    async def upload(
        self,
        scope: Scope,
        source: Path,
        filename: str,
        password: str | None = None,
        *,
        auto_create: bool | None = None,
    ) -> DocumentRow:
        """Keep a copy of `source` and queue its reading; the document's row comes back. Raises TooLarge.

        `auto_create`: whether an agent proposes a schema for it when it is read; None as the organisation says.

        With the `password` of a protected file a copy without it is kept beside the original. The password itself is
        kept nowhere. If it is not the right one, the reading ends for want of it (`read_with` takes another).
        """
        size = (await asyncio.to_thread(source.stat)).st_size
        self._check_size(size)
        content_sha256 = await asyncio.to_thread(_sha256, source)
        name = safe_name(filename.replace("\\", "/").rsplit("/", 1)[-1])
        document_id = new_id()
        path = str(stored_path(scope.org_id, document_id, name))
        async with self._unlocked(source, password, unless_wrong=True) as copy:
            unlocked_path = None if copy is None else _path_beside(scope, document_id)
            kept = {path: source} if copy is None or unlocked_path is None else {path: source, unlocked_path: copy}
            await self._expect(*kept)
            for target, file in kept.items():
                await self._files.put(target, file)
        try:
            async with self._database.as_user(scope) as conn:
                document = await documents.add(
                    conn,
                    document_id=document_id,
                    org_id=scope.org_id,
                    filename=name,
                    storage_path=path,
                    byte_size=size,
                    unlocked_path=unlocked_path,
                    content_sha256=content_sha256,
                    auto_create=auto_create,
                )
                assert document is not None  # its id is new
                return document
        except BaseException:
            for target in kept:
                await self._files.remove(target)
            raise

    async def read_with(self, scope: Scope, document_id: UUID, password: str) -> DocumentRow:
        """Read a document once more that could not be for want of its password; its row comes back. Raises NotFound,
        Conflict where it does not wait for one, PasswordProtected where this is not it, QueueFull."""
        async with self._database.as_user(scope) as conn:
            document = await documents.find(conn, document_id)
        if document.error_code != PasswordProtected.code:
            raise Conflict("The document does not wait for a password.")
        async with (
            self._files.local(document.storage_path) as original,
            self._unlocked(original, password) as copy,
        ):
            if copy is None:
                raise Conflict("The document does not wait for a password.")
            path = _path_beside(scope, document_id)
            await self._expect(path)
            await self._files.put(path, copy)
        try:
            async with self._database.as_user(scope) as conn:
                if not await documents.read_unlocked(conn, document_id, path):
                    raise Conflict("The document does not wait for a password any more.")
                return await documents.find(conn, document_id)
        except BaseException:
            await self._files.remove(path)
            raise

    @asynccontextmanager
    async def _unlocked(
        self, source: Path, password: str | None, *, unless_wrong: bool = False
    ) -> AsyncGenerator[Path | None]:
        """A copy of a protected file without its password, as long as the context; None if it needs none.

        Raises Unreadable where there can be none; with `unless_wrong` the copy is then None, too.
        """
        if password is None:
            yield None
            return
        with tempfile.TemporaryDirectory(prefix="fieldmark-unlocked-") as folder:
            copy: Path | None = Path(folder) / "copy"
            try:
                async with _unlocking:
                    is_locked = await unlock_file(source, password, self._limits, copy)
            except Unreadable:
                if not unless_wrong:
                    raise
                is_locked = False
            yield copy if is_locked else None

    async def adopt(self, scope: Scope, storage_path: str, *, auto_create: bool | None = None) -> DocumentRow:
        """Queue the reading of an object that a front end has put into the bucket already, at
        `<org_id>/<document_id>/<name>`. `auto_create` as of an upload. Raises Invalid, NotFound, Conflict or
        TooLarge."""
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
                auto_create=auto_create,
            )
            if document is None and await documents.get(conn, stored.document_id):
                raise Conflict("This object is a document already.")
            if document is None:  # the id is somebody else's document, which is none of this caller's business
                raise NotFound("There is no such object in the bucket.")
            return document

    async def read(self, document_id: UUID) -> None:
        """Read a document that waits for it: pages into rows, files inside it into documents of their own, then
        `ready`, or `failed` with the reason. Does nothing for one that was read already or is gone."""
        async with self._database.as_service() as conn:
            scope = await documents.scope_of(conn, document_id)
        if scope is None:
            return
        async with self._database.as_user(scope) as conn:
            document = await documents.get(conn, document_id)
            if document is None or document.status is not DocumentStatus.READING:
                return
            above = await _containers(conn, document)
        content_sha256: str | None = None
        with tempfile.TemporaryDirectory(prefix="fieldmark-unpacked-") as folder:
            unpack_to = Path(folder) if len(above) < MAX_DEPTH else None
            try:
                async with self._files.local(document.readable_path) as path:
                    if document.unlocked_path is None:  # else this is not the file as it came
                        content_sha256 = await asyncio.to_thread(_sha256, path)
                    tell = _Telling(self._database, scope, document_id)
                    reading = await read_file(path, document.filename, self._limits, tell, unpack_to=unpack_to)
            except (Unreadable, NotFound, TooLarge) as error:
                # Not its sentence, which may name the file's ending.
                log.info(
                    "document cannot be read", document_id=str(document_id), org_id=str(scope.org_id), code=error.code
                )
                async with self._database.as_user(scope) as conn:
                    await documents.fail_reading(conn, document_id, str(error), error.code)
                return
            children = await self._keep_enclosed(scope, reading.enclosed)
        disagreements = await in_turn(scope.org_id, einvoices.disagreements, reading.pages)
        root_id = above[-1] if above else document_id
        async with self._database.as_user(scope) as conn:
            # The outermost first: whoever deletes it locks in that order, too.
            if not await documents.lock(conn, root_id) or await documents.begin_reading(conn, document_id) is None:
                return  # another worker was faster, or it was deleted meanwhile
            rows = await run_in_thread(_rows, reading.pages)
            for start in range(0, len(rows), PAGES_A_STATEMENT):
                await documents.add_pages(conn, document_id, scope.org_id, rows[start : start + PAGES_A_STATEMENT])
            await documents.finish_reading(
                conn,
                document_id,
                media_type=reading.media_type,
                page_count=len(reading.pages),
                content_sha256=content_sha256,
                warnings=[*reading.warnings, *disagreements],
            )
            if children:
                told = await self._add_children(conn, scope, root_id, document_id, children)
                await documents.warn(conn, document_id, [*told, *reading.warnings])

    async def _keep_enclosed(self, scope: Scope, enclosed: Sequence[EnclosedFile]) -> list[NewChild]:
        """Store the files that were inside a document. They are nobody's until their documents stand: a worker that
        dies before that leaves them to `delete_originals`."""
        children: list[NewChild] = []
        for file in enclosed:
            child_id, name = new_id(), safe_name(file.name)
            path = str(stored_path(scope.org_id, child_id, name))
            children.append(NewChild(child_id, name, path, file.byte_size))
        if children:
            await self._expect(*(child.storage_path for child in children))
        for child, file in zip(children, enclosed, strict=True):
            await self._files.put(child.storage_path, file.path)
        return children

    async def _add_children(
        self, conn: Connection, scope: Scope, root_id: UUID, document_id: UUID, children: list[NewChild]
    ) -> list[ReadingWarning]:
        """Make documents of the files that were inside one, as far as there is room in the outermost, which is locked.
        The warnings say what became of them."""
        count, size = await documents.count_enclosed(conn, root_id)
        taken: list[NewChild] = []
        too_many: list[str] = []
        too_large: list[str] = []
        for child in children:
            if count == MAX_ENCLOSED:
                too_many.append(child.filename)
            elif size + child.byte_size > self._limits.max_decoded_bytes:
                too_large.append(child.filename)
            else:
                taken.append(child)
                count, size = count + 1, size + child.byte_size
        not_queued: list[str] = []
        try:
            async with savepoint(conn):
                await documents.add_children(conn, document_id, scope.org_id, taken)
        except QueueFull:
            taken, not_queued = [], [child.filename for child in taken]
        told = {
            WarningCode.ENCLOSED_APART: [child.filename for child in taken],
            WarningCode.ENCLOSED_TOO_MANY: too_many,
            WarningCode.ENCLOSED_TOO_LARGE: too_large,
            WarningCode.ENCLOSED_NOT_QUEUED: not_queued,
        }
        return [skipped_files_warning(code, names) for code, names in told.items() if names]

    async def _expect(self, *paths: str) -> None:
        async with self._database.as_service() as conn:
            await documents.expect_files(conn, paths)

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
                try:
                    await self._files.remove(path)
                except Invalid:  # nothing lies there; and no path of one organisation holds up those of others
                    log.warning("a stored path is none", code=Invalid.code)
            async with self._database.as_service() as conn:
                await documents.files_deleted(conn, paths)
            if len(paths) < FILES_A_BATCH:
                return

    def _check_size(self, size: int) -> None:
        if size > self._limits.max_bytes:
            raise TooLarge(
                f"The file has {size:,} bytes; at most {self._limits.max_bytes:,} are taken (FIELDMARK_MAX_FILE_MB)."
            )


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _rows(pages: Sequence[ReadPage]) -> list[PageRow]:
    return [_row(page) for page in pages]


def _path_beside(scope: Scope, document_id: UUID) -> str:
    """Where a copy of the original goes: by a name that nobody can have put there before."""
    return str(StoredPath(scope.org_id, document_id, f"unlocked-{secrets.token_hex(16)}"))


async def _containers(conn: Connection, document: DocumentRow) -> list[UUID]:
    """The documents that it was inside of, the innermost first; no further than is looked into."""
    above: list[UUID] = []
    while document.parent_document_id is not None and len(above) < MAX_DEPTH:
        above.append(document.parent_document_id)
        parent = await documents.get(conn, document.parent_document_id)
        if parent is None:  # deleted meanwhile, and this one with it
            break
        document = parent
    return above


def _row(page: ReadPage) -> PageRow:
    return PageRow(
        number=page.number,
        width=page.width,
        height=page.height,
        text=page.text,
        engine=page.engine,
        words=[list(word[:5] if word.confidence is None else word) for word in page.words],
    )
