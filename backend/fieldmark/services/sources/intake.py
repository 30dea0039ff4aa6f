"""Takes new objects of sources: each becomes a document once, whatever dies meanwhile.

A document's idempotency key is made of its source and its object. So a repeated upload returns the same document, and
recording the object afterwards is what ends the repetitions.
"""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path, PurePosixPath
from typing import Final
from uuid import UUID

import structlog
from imap_tools.message import MailAttachment, MailMessage

from fieldmark.db.pool import Database
from fieldmark.domain.statuses import SourceKind
from fieldmark.errors import FieldmarkError, Invalid, NotFound, TooLarge
from fieldmark.identity.scope import Scope
from fieldmark.public_addresses import IpNetwork, check_url, error_code_of
from fieldmark.services.documents import DocumentService
from fieldmark.services.sources.buckets import Bucket, BucketObject
from fieldmark.services.sources.failures import SourceFailure
from fieldmark.services.sources.mailboxes import Mail, Mailbox, Position
from fieldmark.services.upload_targets import find_target
from fieldmark.stores import sources
from fieldmark.stores.documents import RequestedExtraction
from fieldmark.stores.sources import DueSource, SeenObject
from pagewords.sniff import SUFFIXES

PAUSE: Final = timedelta(minutes=1)
"""From the end of what there was to the next look. A bucket is listed again each time."""

_BUCKET_PAUSE: Final = timedelta(minutes=5)
_MAX_PAUSE: Final = timedelta(hours=1)
_AT_ONCE: Final = 2
_MOST_TAKEN: Final = 50
_MAX_ATTACHMENTS: Final = 100
_SECONDS: Final = 30.0
"""After this time no further object is started: the next look goes on."""
_MAX_SECONDS: Final = 150.0
_LEASE: Final = timedelta(seconds=180)

_log = structlog.get_logger(__name__)


def check_address(kind: SourceKind, address: str, allowed: Sequence[IpNetwork]) -> None:
    """Raise Invalid for an address that cannot be the one of a source."""
    if kind is SourceKind.MAILBOX:
        parts = check_url(address, allowed, ("imaps",))
        if parts.path.strip("/") or parts.query:
            raise Invalid("Write the address of a mailbox as imaps://host, and its folder apart from it.")
        return
    parts = check_url(address, allowed)
    if parts.query or len(parts.path.strip("/").split("/")) != 1 or not parts.path.strip("/"):
        raise Invalid("Write the address of a bucket as https://host/bucket, and a folder in it apart from it.")


@dataclass(slots=True)
class _Look:
    """One look at a source: what it may still take."""

    source: DueSource
    scope: Scope
    until: float
    extraction: RequestedExtraction | None
    left: int = _MOST_TAKEN

    def may_go_on(self) -> bool:
        return self.left > 0 and time.monotonic() < self.until


class _SourceDeleted(Exception):
    pass


class Intake:
    """Looks at the sources that are due: two at once, and one of an organisation."""

    def __init__(
        self,
        database: Database,
        documents: DocumentService,
        allowed: Sequence[IpNetwork],
        max_bytes: int,
    ) -> None:
        self._database = database
        self._documents = documents
        self._allowed = tuple(allowed)
        self._max_bytes = max_bytes
        self._looking: dict[asyncio.Task[None], UUID] = {}

    async def look_at_due(self) -> None:
        """Start to look at sources that are due. Does not wait for them."""
        free = _AT_ONCE - len(self._looking)
        if not free:
            return
        async with self._database.as_service() as conn:
            due = await sources.lease_due(conn, free, list(self._looking.values()), _LEASE)
        for source in due:
            task = asyncio.create_task(self.look_at(source), name="source")
            self._looking[task] = source.org_id
            task.add_done_callback(lambda ended: self._looking.pop(ended, None))

    async def aclose(self) -> None:
        """Stop. What was not recorded is looked at again when its lease ends."""
        tasks = list(self._looking)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def look_at(self, source: DueSource) -> None:
        """Take what is new in a source, up to the limits of one look, and record how it ended."""
        error_code: str | None = None
        is_complete = False
        try:
            async with asyncio.timeout(_MAX_SECONDS):
                is_complete = await self._take(source)
        except _SourceDeleted:
            return
        except SourceFailure as failure:
            error_code = failure.code
        except FieldmarkError as failure:
            error_code = failure.code
        except Exception as failure:  # noqa: BLE001 - recorded, so that the source is looked at again later
            error_code = error_code_of(failure)
            if error_code is None:
                error_code = "internal"
                _log.exception("a source failed", source_id=str(source.id))
        pause = timedelta(0)
        if error_code is not None:
            pause = min(PAUSE * 2**source.attempts, _MAX_PAUSE)
        elif is_complete:
            pause = _BUCKET_PAUSE if source.kind is SourceKind.BUCKET else PAUSE
        try:
            async with self._database.as_service() as conn:
                await sources.finish(conn, source, error_code=error_code, pause=pause, is_complete=is_complete)
        except FieldmarkError as failure:  # the lease ends, and it is looked at again
            _log.warning("a source was not recorded", source_id=str(source.id), reason=type(failure).__name__)

    async def _take(self, source: DueSource) -> bool:
        """Return whether all that there is was looked at."""
        if not source.is_owner_there:
            raise SourceFailure("owner_left")
        check_address(source.kind, source.address, self._allowed)
        scope = Scope(source.created_by, source.org_id)
        try:
            async with self._database.as_user(scope) as conn:
                target = await find_target(conn, scope, schema=source.extract, table=None)
        except NotFound:
            raise SourceFailure("schema_not_found") from None
        look = _Look(source, scope, time.monotonic() + _SECONDS, target.extraction)
        with tempfile.TemporaryDirectory(prefix="fieldmark-source-") as folder:
            if source.kind is SourceKind.BUCKET:
                return await self._take_from_bucket(look, Path(folder))
            return await self._take_from_mailbox(look, Path(folder))

    async def _take_from_bucket(self, look: _Look, folder: Path) -> bool:
        source = look.source
        bucket = Bucket(source.address, source.username, source.secret, self._allowed)
        position, has_more = source.position or "", True
        while has_more:
            if not look.may_go_on():
                return False
            page, has_more = await bucket.list_objects(source.folder, position)
            fresh = await self._new_objects(source, page)
            skipped: list[SeenObject] = []
            for found in fresh:
                if (reason := self._skip_reason(found)) is not None:
                    skipped.append(SeenObject(found.name, found.etag, reason))
                    continue
                if not look.may_go_on():
                    await self._record(source, skipped, position)
                    return False
                target = folder / "object"
                if await bucket.download(found, target, self._max_bytes):
                    name = PurePosixPath(found.name).name
                    key = f"{found.name} {found.etag}"
                    await self._upload(look, target, name, key, {"object": found.name})
                    skipped.append(SeenObject(found.name, found.etag, None, name))
                    position = found.name
                    await self._record(source, skipped, position)
                    skipped = []
            if page:
                position = page[-1].name
            # (Also after an empty page: the next listing starts from the first name.)
            await self._record(source, skipped, position if has_more else None)
        return True

    def _skip_reason(self, found: BucketObject) -> str | None:
        parts = found.name.split("/")
        if found.name.endswith("/"):
            return "folder"
        # (A client removes dots from an address.)
        if {".", ".."} & set(parts):
            return "bad_name"
        if PurePosixPath(found.name).suffix.lower() not in SUFFIXES:
            return "not_a_document"
        if found.size == 0:
            return "empty"
        return "too_large" if found.size > self._max_bytes else None

    async def _take_from_mailbox(self, look: _Look, folder: Path) -> bool:
        source = look.source
        mailbox = Mailbox(source.address, source.folder, source.username, source.secret, self._allowed)
        batch = await mailbox.read(Position.parse(source.position), folder, look.left, self._max_bytes)
        for mail in batch.mails:
            if not look.may_go_on():
                return False
            known = not await self._new_objects(source, [BucketObject(mail.digest, "", mail.size)])
            position = str(Position(batch.position.validity, mail.uid))
            if mail.path is None:
                seen = SeenObject(mail.digest, "", "too_large")
            elif known:
                seen = SeenObject(mail.digest, "", "repeated")
            else:
                seen = await self._take_mail(look, mail, mail.path)
            await self._record(source, [seen], position)
        await self._record(source, [], str(batch.position))
        return not batch.has_more

    async def _take_mail(self, look: _Look, mail: Mail, path: Path) -> SeenObject:
        """Upload a mail. If the source says what its documents become, upload the attachments instead, since the text
        around them is no such document."""
        has_target = look.extraction is not None or look.source.stack_id is not None
        message = await asyncio.to_thread(lambda: MailMessage.from_bytes(path.read_bytes()))
        subject = " ".join(message.subject.split())[:200] or "mail"
        attachments = [
            one
            for one in message.attachments
            if PurePosixPath(one.filename).suffix.lower() in SUFFIXES and not _is_decoration(one)
        ]
        kind = str(message.obj.get("Auto-Submitted", "no")).partition(";")[0].strip().lower()
        if kind.startswith("auto-re") or kind == "auto-notified" or (kind != "no" and not attachments):
            return SeenObject(mail.digest, "", "auto_reply")
        about = {"from": message.from_[:300], "subject": subject}
        if not has_target or not 0 < len(attachments) <= _MAX_ATTACHMENTS:
            attachments = []
            await self._upload(look, path, f"{subject}.eml", f"{mail.digest} 0", about)
        for number, attachment in enumerate(attachments, 1):
            target = path.with_suffix(f".{number}")
            await asyncio.to_thread(_write_payload, attachment, target)
            await self._upload(look, target, attachment.filename, f"{mail.digest} {number}", about)
            target.unlink()
        return SeenObject(mail.digest, "", None, subject)

    async def _upload(self, look: _Look, file: Path, name: str, key: str, about: dict[str, str]) -> None:
        source = look.source
        look.left -= 1
        key = hashlib.sha256(f"{source.id} {key}".encode()).hexdigest()
        try:
            await self._documents.upload(
                look.scope,
                file,
                name,
                stack_id=source.stack_id,
                metadata={"source_id": str(source.id)} | {label: _printable(text) for label, text in about.items()},
                extraction=look.extraction,
                idempotency_key=key,
            )
        except TooLarge:  # an attachment, whose mail is not
            _log.info("an attachment is too large", source_id=str(source.id))

    async def _new_objects(self, source: DueSource, found: Sequence[BucketObject]) -> list[BucketObject]:
        async with self._database.as_service() as conn:
            numbers = await sources.new_objects(conn, source.id, [(one.name, one.etag) for one in found])
        return [found[number - 1] for number in sorted(numbers)]

    async def _record(self, source: DueSource, seen: Sequence[SeenObject], position: str | None) -> None:
        async with self._database.as_service() as conn:
            if not await sources.record_objects(conn, source.id, seen, position):
                raise _SourceDeleted


def _is_decoration(attachment: MailAttachment) -> bool:
    """Return whether an attachment is an image inside the mail's text, such as a logo."""
    is_inside = attachment.content_disposition == "inline" or attachment.content_id
    return bool(is_inside) and attachment.content_type.startswith("image/")


def _write_payload(attachment: MailAttachment, target: Path) -> None:
    target.write_bytes(attachment.payload)  # pyright: ignore[reportUnknownMemberType]


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text[:400])
