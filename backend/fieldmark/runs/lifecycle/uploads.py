"""Uploads a document and starts to extract it, in one transaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from fieldmark.db.pool import Connection, Database
from fieldmark.identity.scope import Scope
from fieldmark.runs.billing.prices import Prices
from fieldmark.runs.lifecycle import launch
from fieldmark.services.documents import DocumentService
from fieldmark.services.upload_targets import UploadTarget
from fieldmark.stores.rows import DocumentRow
from fieldmark.stores.runs import RunOptions
from fieldmark.stores.webhooks import Callback
from pagewords.sniff import may_be_archive


@dataclass(frozen=True, slots=True)
class Upload:
    """A file to upload, with what its uploader says about it. `stack_id`: also add it to this stack, unless the target
    has one. `background`: part of a batch, which never delays a user."""

    file: Path
    filename: str
    target: UploadTarget = field(default_factory=UploadTarget)
    password: str | None = None
    auto_create: bool | None = None
    stack_id: UUID | None = None
    external_id: str | None = None
    metadata: Mapping[str, Any] | None = None
    idempotency_key: str | None = None
    callback: Callback | None = None
    background: bool = False


@dataclass(frozen=True, slots=True)
class Uploaded:
    """A document with the run that extracts it. None: no extraction was requested, or it starts when the document is
    read, for each file in it."""

    document: DocumentRow
    run_id: UUID | None


async def upload(
    database: Database, documents: DocumentService, scope: Scope, given: Upload, *, prices: Prices
) -> Uploaded:
    """Upload a file. Raise the exceptions of `DocumentService.upload` and `launch.start`; then nothing is stored."""
    options = RunOptions(idempotency_key=given.idempotency_key, background=given.background)
    target, started = given.target, list[UUID]()
    # Whether it is an archive is known when it is read; a database trigger then starts the runs.
    is_started_now = target.extraction is not None and not may_be_archive(given.file, given.filename)

    async def start(conn: Connection, document_id: UUID) -> None:
        request = launch.parse_request("extract", {"document_id": document_id, "schema": target.schema})
        run_id = await launch.start_in_transaction(
            conn, scope, "extract", request, prices=prices, options=options, callback=given.callback
        )
        started.append(run_id)

    document = await documents.upload(
        scope,
        given.file,
        given.filename,
        given.password,
        auto_create=given.auto_create,
        stack_id=target.stack_id or given.stack_id,
        extraction=target.extraction,
        external_id=given.external_id,
        metadata=given.metadata,
        idempotency_key=given.idempotency_key,
        then=start if is_started_now else None,
    )
    if is_started_now and not started:  # an earlier request with the key uploaded it
        async with database.as_user(scope) as conn:
            await start(conn, document.id)
    return Uploaded(document, started[0] if started else None)
