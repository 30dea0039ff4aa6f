"""Uploads, reads and deletes documents: everything that needs files in addition to the database."""

from __future__ import annotations

import asyncio
import hashlib
import math
import secrets
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID, uuid5

import structlog

from fieldmark.db.pool import Connection, Database, savepoint
from fieldmark.domain.ids import new_id
from fieldmark.domain.statuses import DocumentStatus
from fieldmark.errors import (
    Conflict,
    IdempotencyKeyReused,
    Invalid,
    NotFound,
    QueueFull,
    QuotaExceeded,
    TooLarge,
    Unavailable,
)
from fieldmark.files import Files, StoredPath, parse_stored_path, safe_name, stored_path
from fieldmark.identity.scope import Scope
from fieldmark.services import einvoices, upload_targets
from fieldmark.services.fair_share import run_queued
from fieldmark.stores import documents, stacks, upload_rules, usage
from fieldmark.stores.documents import RequestedExtraction
from fieldmark.stores.rows import DocumentRow, NewChildDocument
from fieldmark.stores.upload_rules import UploadRule
from pagewords.enclosed import MAX_DEPTH, MAX_PAGES, max_enclosed_bytes
from pagewords.errors import OverLimit, PasswordProtected, Unreadable
from pagewords.pages import DocumentContent, EnclosedFile, Limits
from pagewords.reading_warnings import MAX_ENCLOSED, ReadingWarning, WarningCode, skipped_files_warning
from pagewords.sandbox import file_size, read_file, unlock_file

log = structlog.get_logger()

PAGES_PER_STATEMENT = 50
FILES_PER_BATCH = 100
PROGRESS_SECONDS = 0.5

_unlock_slots = asyncio.Semaphore(2)  # each runs a process while a request waits


class _ProgressReporter:
    """Records how many pages of a document are read: the first page, then at most every `PROGRESS_SECONDS`."""

    def __init__(self, database: Database, scope: Scope, document_id: UUID) -> None:
        self._database = database
        self._scope = scope
        self._document_id = document_id
        self._next = -math.inf

    async def __call__(self, pages_read: int, page_count: int) -> None:
        now = time.monotonic()
        if page_count == 1 or (now < self._next and pages_read < page_count):
            return
        self._next = now + PROGRESS_SECONDS
        async with self._database.as_user(self._scope) as conn:
            await documents.record_reading(conn, self._document_id, pages_read, page_count)


class DocumentService:
    """Uploads, registers (from a storage bucket), reads and deletes documents."""

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
        stack_id: UUID | None = None,
        extraction: RequestedExtraction | None = None,
        external_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
        then: Callable[[Connection, UUID], Awaitable[None]] | None = None,
    ) -> DocumentRow:
        """Store a copy of `source` and queue its reading. Return the document. `stack_id`: also add it to this stack.
        `extraction`: also extract it once it is read, and the files inside it. `then` is called in the transaction
        that creates the document. Raise TooLarge, QuotaExceeded, QueueFull, NotFound for the stack.

        `auto_create`: whether an agent suggests a schema when the document is read. None: by the organisation's rules
        and its setting.

        If a `password` unlocks the file, an unprotected copy is stored next to the original; the password is not
        stored. With a wrong password the reading fails with the code `password`; `queue_reading_with_password` retries.

        A repeated `idempotency_key` of the same caller returns the same document; raise IdempotencyKeyReused for
        another file. `external_id` and `metadata` are the caller's own; raise ExternalIdTaken.
        """
        size = (await asyncio.to_thread(source.stat)).st_size
        self._check_size(size)
        content_sha256 = await asyncio.to_thread(_sha256, source)
        name = safe_name(filename.replace("\\", "/").rsplit("/", 1)[-1])
        document_id = new_id()
        stored_name = name
        if idempotency_key is not None:
            # The key decides the id, so that concurrent requests meet in the database. Each has a file of its own.
            document_id = uuid5(scope.org_id, f"{scope.user_id} {idempotency_key}")
            stored_name = f"{secrets.token_hex(8)}-{name.encode()[-200:].decode(errors='ignore')}"
            async with self._database.as_user(scope) as conn:
                if (earlier := await documents.find(conn, document_id)) is not None:
                    return _same_upload(earlier, content_sha256)
        path = str(stored_path(scope.org_id, document_id, stored_name))
        async with self._unlocked(source, password, ignore_errors=True) as copy:
            unlocked_path = None if copy is None else _unlocked_copy_path(scope, document_id)
            files = {path: source} if copy is None or unlocked_path is None else {path: source, unlocked_path: copy}
            await self._register_pending_files(*files)
            for target, file in files.items():
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
                    external_id=external_id,
                    metadata=metadata,
                    extraction=extraction,
                )
                if document is None:
                    if (earlier := await documents.find(conn, document_id)) is not None:
                        raise _AlreadyUploaded(_same_upload(earlier, content_sha256))
                    await documents.check_external_id(conn, scope.org_id, external_id)
                    raise Unavailable("The document was not stored. Try again.")  # the other one is deleted already
                if stack_id is not None:
                    await stacks.get(conn, stack_id)
                    await stacks.add_documents(conn, scope, stack_id, [document_id])
                if then is not None:
                    await then(conn, document_id)
                return document
        except BaseException as error:
            for target in files:
                await self._files.remove(target)
            if isinstance(error, _AlreadyUploaded):
                return error.document
            if isinstance(error, QuotaExceeded):
                async with self._database.as_user(scope) as conn:
                    await usage.report_full_quota(conn, scope.org_id)
            raise

    async def queue_reading_with_password(self, scope: Scope, document_id: UUID, password: str) -> DocumentRow:
        """Queue another reading of a document that needs a password. Return the document. Raise NotFound, Conflict if
        it needs no password, PasswordProtected if the password is wrong, and QueueFull."""
        async with self._database.as_user(scope) as conn:
            document = await documents.get(conn, document_id)
        if document.error_code != PasswordProtected.code:
            raise Conflict("The document does not need a password: its reading did not fail for that reason.")
        async with (
            self._files.local(document.storage_path) as original,
            self._unlocked(original, password) as copy,
        ):
            if copy is None:
                raise Conflict("The document does not need a password: the file is not protected.")
            path = _unlocked_copy_path(scope, document_id)
            await self._register_pending_files(path)
            await self._files.put(path, copy)
        try:
            async with self._database.as_user(scope) as conn:
                if not await documents.queue_unlocked_copy(conn, document_id, path):
                    raise Conflict("The document does not need a password any more: it is being read already.")
                return await documents.get(conn, document_id)
        except BaseException:
            await self._files.remove(path)
            raise

    @asynccontextmanager
    async def _unlocked(
        self, source: Path, password: str | None, *, ignore_errors: bool = False
    ) -> AsyncGenerator[Path | None]:
        """Yield an unprotected copy of a file, deleted with the context; None if the file is not protected.

        Raise Unreadable if it cannot be unlocked; yield None instead with `ignore_errors`.
        """
        if password is None:
            yield None
            return
        with tempfile.TemporaryDirectory(prefix="fieldmark-unlocked-") as folder:
            copy: Path | None = Path(folder) / "copy"
            try:
                async with _unlock_slots:
                    is_locked = await unlock_file(source, password, self._limits, copy)
            except Unreadable:
                if not ignore_errors:
                    raise
                is_locked = False
            yield copy if is_locked else None

    async def adopt(self, scope: Scope, storage_path: str, *, auto_create: bool | None = None) -> DocumentRow:
        """Create a document from an object that a front end has put into the bucket at
        `<org_id>/<document_id>/<name>`, and queue its reading. `auto_create` is as in `upload`. Raise Invalid,
        NotFound, Conflict or TooLarge."""
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
            if document is None and await documents.find(conn, stored.document_id):
                raise Conflict("This object already is a document. Read it with GET /api/documents/{id}.")
            if document is None:  # the id is a document of another organisation, which must not be revealed
                raise NotFound("There is no such object in the bucket.")
            return document

    async def read(self, document_id: UUID) -> None:
        """Read a queued document: store its pages, create documents from the files inside it, and set its status to
        `ready`, or to `failed` with the reason. Do nothing if it is read already or deleted."""
        scope = await self._database.once(lambda conn: documents.scope_of(conn, document_id))
        if scope is None:
            return
        async with self._database.as_user(scope) as conn:
            document = await documents.find(conn, document_id)
            if document is None or document.status is not DocumentStatus.READING:
                return
            containers = await _containers(conn, document)
            root_id = containers[-1] if containers else document_id
            root_bytes = document.byte_size if not containers else (await documents.get(conn, root_id)).byte_size
            count, size, page_count = await documents.count_enclosed(conn, root_id)
        limits = replace(self._limits, max_pages=min(self._limits.max_pages, MAX_PAGES - page_count))
        content_sha256: str | None = None
        with tempfile.TemporaryDirectory(prefix="fieldmark-unpacked-") as folder:
            unpack_to = Path(folder) if len(containers) < MAX_DEPTH else None
            try:
                if limits.max_pages < 1:
                    raise OverLimit(
                        f"The files of this upload have more than {MAX_PAGES:,} pages. Upload this one by itself."
                    )
                async with self._files.local(document.readable_path) as path:
                    size_of_file = await asyncio.to_thread(file_size, path)
                    if root_bytes is None or not containers:
                        root_bytes = size_of_file
                    if document.unlocked_path is None:  # otherwise this is not the original file
                        content_sha256 = await asyncio.to_thread(_sha256, path)
                        if document.byte_size != size_of_file:  # a front end stored it, and may say anything
                            async with self._database.as_user(scope) as conn:
                                await documents.record_size(conn, document_id, size_of_file)
                    report = _ProgressReporter(self._database, scope, document_id)
                    reading = await read_file(
                        path,
                        document.filename,
                        limits,
                        report,
                        unpack_to=unpack_to,
                        max_files=max(0, MAX_ENCLOSED - count),
                        max_bytes=max(0, max_enclosed_bytes(root_bytes, self._limits) - size),
                    )
            except (Unreadable, NotFound, TooLarge, QuotaExceeded) as error:
                # Without the error's message, which may quote the file's name.
                log.info(
                    "document cannot be read", document_id=str(document_id), org_id=str(scope.org_id), code=error.code
                )
                async with self._database.as_user(scope) as conn:
                    await documents.fail_reading(conn, document_id, str(error), error.code)
                return
            children = await self._store_enclosed(scope, reading.enclosed)
        mismatches = await run_queued(scope.org_id, einvoices.find_mismatches, reading.pages)
        rule = await self._find_rule(scope, document, reading)
        async with self._database.as_user(scope) as conn:
            # The outermost document is locked first, as a deletion does.
            if not await documents.lock(conn, root_id) or await documents.start_reading(conn, document_id) is None:
                return  # another worker has read it, or it was deleted meanwhile
            pages = reading.pages
            for start in range(0, len(pages), PAGES_PER_STATEMENT):
                await documents.add_pages(conn, document_id, scope.org_id, pages[start : start + PAGES_PER_STATEMENT])
            if rule is not None:
                await upload_targets.apply_rule(conn, scope, document_id, rule)
            await documents.finish_reading(
                conn,
                document_id,
                media_type=reading.media_type,
                page_count=len(reading.pages),
                content_sha256=content_sha256,
                warnings=[*reading.warnings, *mismatches],
            )
            if children:
                warnings = await self._add_children(
                    conn, scope, root_id, document_id, children, max_enclosed_bytes(root_bytes, self._limits)
                )
                await documents.replace_warnings(conn, document_id, [*warnings, *reading.warnings])

    async def _find_rule(self, scope: Scope, document: DocumentRow, reading: DocumentContent) -> UploadRule | None:
        """Return the rule of the organisation for a document whose uploader has not said what it becomes."""
        async with self._database.as_user(scope) as conn:
            rules = await upload_rules.of_organisation(conn, scope.org_id)
            if not rules or await documents.has_target(conn, document.id):
                return None
            stored = (await documents.first_pages(conn, [document.id])).get(document.id)
        return await run_queued(
            scope.org_id,
            upload_targets.find_rule,
            rules,
            filename=document.filename,
            media_type=reading.media_type,
            text=reading.pages[0].text if reading.pages else "",
            outer_text=stored.outer_text if stored else "",
        )

    async def _store_enclosed(self, scope: Scope, enclosed: Sequence[EnclosedFile]) -> list[NewChildDocument]:
        """Store the files inside a document. If the worker dies before their documents are created,
        `delete_originals` deletes them."""
        children: list[NewChildDocument] = []
        for file in enclosed:
            child_id, name = new_id(), safe_name(file.name)
            path = str(stored_path(scope.org_id, child_id, name))
            content_sha256 = await asyncio.to_thread(_sha256, file.path)
            children.append(NewChildDocument(child_id, name, path, file.byte_size, content_sha256))
        if children:
            await self._register_pending_files(*(child.storage_path for child in children))
        for child, file in zip(children, enclosed, strict=True):
            await self._files.put(child.storage_path, file.path)
        return children

    async def _add_children(
        self,
        conn: Connection,
        scope: Scope,
        root_id: UUID,
        document_id: UUID,
        children: list[NewChildDocument],
        max_bytes: int,
    ) -> list[ReadingWarning]:
        """Create documents from the files inside one, up to the limits of the outermost document, which is locked.
        Return warnings that say what happened to each file."""
        count, size, _ = await documents.count_enclosed(conn, root_id)
        accepted: list[NewChildDocument] = []
        too_many: list[str] = []
        too_large: list[str] = []
        for child in children:
            if count == MAX_ENCLOSED:
                too_many.append(child.filename)
            elif size + child.byte_size > max_bytes:
                too_large.append(child.filename)
            else:
                accepted.append(child)
                count, size = count + 1, size + child.byte_size
        not_queued: list[str] = []
        over_quota: list[str] = []
        try:
            async with savepoint(conn):
                await documents.add_children(conn, document_id, scope.org_id, accepted)
        except QueueFull:
            accepted, not_queued = [], [child.filename for child in accepted]
        except QuotaExceeded:
            accepted, over_quota = [], [child.filename for child in accepted]
            await usage.report_full_quota(conn, scope.org_id)
        names_by_code = {
            WarningCode.ENCLOSED_APART: [child.filename for child in accepted],
            WarningCode.ENCLOSED_TOO_MANY: too_many,
            WarningCode.ENCLOSED_TOO_LARGE: too_large,
            WarningCode.ENCLOSED_NOT_QUEUED: not_queued,
            WarningCode.ENCLOSED_OVER_QUOTA: over_quota,
        }
        return [skipped_files_warning(code, names) for code, names in names_by_code.items() if names]

    async def _register_pending_files(self, *paths: str) -> None:
        await self._database.once(lambda conn: documents.register_pending_files(conn, paths))

    async def remove(self, scope: Scope, document_id: UUID) -> None:
        """Delete a document with its pages, extractions, runs and original. Raise NotFound."""
        async with self._database.as_user(scope) as conn:
            path = await documents.remove(conn, document_id)
        try:
            await self._files.remove(path)
        except Unavailable as error:  # `delete_originals` retries
            log.warning("original not deleted yet", document_id=str(document_id), error=str(error))

    async def delete_originals(self) -> None:
        """Delete the files of deleted documents. Raise Unavailable if the file store cannot be reached; the remaining
        files stay queued."""
        while True:
            paths = await self._database.once(lambda conn: documents.files_to_delete(conn, FILES_PER_BATCH))
            for path in paths:
                try:
                    await self._files.remove(path)
                except Invalid:  # skipped, so that one organisation's path cannot block those of others
                    log.warning("stored path is invalid", code=Invalid.code)
            async with self._database.as_service() as conn:
                await documents.unregister_deleted_files(conn, paths)
            if len(paths) < FILES_PER_BATCH:
                return

    def _check_size(self, size: int) -> None:
        if size > self._limits.max_bytes:
            raise TooLarge(
                f"The file has {size:,} bytes; the limit is {self._limits.max_bytes:,}. Upload a smaller file, or "
                f"raise "
                "FIELDMARK_MAX_FILE_MB."
            )


class _AlreadyUploaded(Exception):
    """A concurrent request with the same idempotency key stored the document."""

    def __init__(self, document: DocumentRow) -> None:
        self.document = document


def _same_upload(earlier: DocumentRow, content_sha256: str) -> DocumentRow:
    """Return the document of an earlier request with the same key. Raise IdempotencyKeyReused for another file."""
    if earlier.content_sha256 != content_sha256:
        raise IdempotencyKeyReused("This Idempotency-Key was used for another file. Use a new key for each upload.")
    return earlier


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _unlocked_copy_path(scope: Scope, document_id: UUID) -> str:
    # A random name, so that no client can have put an object there before.
    return str(StoredPath(scope.org_id, document_id, f"unlocked-{secrets.token_hex(16)}"))


async def _containers(conn: Connection, document: DocumentRow) -> list[UUID]:
    """Return the ids of the documents that contain a document, innermost first, at most MAX_DEPTH."""
    containers: list[UUID] = []
    while document.parent_document_id is not None and len(containers) < MAX_DEPTH:
        containers.append(document.parent_document_id)
        parent = await documents.find(conn, document.parent_document_id)
        if parent is None:  # deleted meanwhile
            break
        document = parent
    return containers
