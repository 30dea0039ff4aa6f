"""Takes new objects of sources: each becomes a document once, whatever dies meanwhile, and none holds up others.

A document's idempotency key is made of its source and its object. So a repeated upload returns the same document, and
recording the object afterwards is what ends the repetitions.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path, PurePosixPath
from typing import Final, TypeAlias
from uuid import UUID

import structlog

from fieldmark.db.pool import Database
from fieldmark.domain.statuses import SourceKind
from fieldmark.errors import (
    FieldmarkError,
    Forbidden,
    Invalid,
    NotFound,
    OAuthNeeded,
    OutOfCredit,
    QueueClosed,
    QueueFull,
    QuotaExceeded,
    TooLarge,
    TooMany,
    Unavailable,
    is_disk_full,
)
from fieldmark.identity.scope import Scope
from fieldmark.public_addresses import IpNetwork, check_url, error_code_of
from fieldmark.services.documents import DocumentService
from fieldmark.services.sources.buckets import Bucket, BucketObject
from fieldmark.services.sources.failures import SourceFailure
from fieldmark.services.sources.mailboxes import Mail, Mailbox, Position, Session
from fieldmark.services.sources.oauth import TokenRequest
from fieldmark.services.upload_targets import find_target
from fieldmark.stores import sources
from fieldmark.stores.documents import RequestedExtraction
from fieldmark.stores.sources import DueSource, FailedObject, SeenObject
from pagewords import Limits, Unreadable
from pagewords.sandbox import split_mail
from pagewords.sniff import SUFFIXES

PAUSE: Final = timedelta(minutes=1)
"""From the end of what there was to the next look. A bucket is listed again each time."""

_BUCKET_PAUSE: Final = timedelta(minutes=5)
_PAUSES: Final = (*(PAUSE * 2**n for n in range(6)), timedelta(hours=1))
"""After a failed look, by the number of failed ones before it."""
_AT_ONCE: Final = 2
_MOST_TAKEN: Final = 50
_OBJECTS_AT_ONCE: Final = 4
"""Downloads mostly wait for the storage. The pool of connections is shared with requests."""

_SECONDS: Final = 30.0
"""After this time no further object is started: the next look goes on."""
_RETRY_SECONDS: Final = 10.0
"""How much longer failed objects are tried again."""
_MAX_SECONDS: Final = 150.0
_LEASE: Final = timedelta(seconds=180)
_RETRY_PAUSE: Final = timedelta(minutes=5)
_MAX_RETRY_PAUSE: Final = timedelta(hours=12)
_MAX_ATTEMPTS: Final = 10
"""After so many attempts, 33 hours, an object is abandoned."""
_ALL_FAILED: Final = 5
"""If so many objects failed in a look and none was taken, the source is reported as failing."""

_WITHOUT_PASSWORDS: Final = ("outlook.office365.com", "outlook.office.com", "imap-mail.outlook.com")
"""Microsoft's IMAP servers, which refuse each password."""

_NOT_OF_ONE_OBJECT: Final = (
    Unavailable, QueueFull, QueueClosed, QuotaExceeded, OutOfCredit, TooMany, Forbidden, NotFound
)  # fmt: skip
"""Refusals that concern all objects of a source alike."""

_log = structlog.get_logger(__name__)


def check_address(kind: SourceKind, address: str, secret: str, allowed: Sequence[IpNetwork]) -> None:
    """Raise Invalid for an address or a secret that cannot be the one of a source."""
    if kind is SourceKind.MAILBOX:
        request = TokenRequest.parse(secret, allowed)
        parts = check_url(address, allowed, ("imaps",))
        if parts.path.strip("/") or parts.query:
            raise Invalid("Write the address of a mailbox as imaps://host, and its folder apart from it.")
        if request is None and parts.hostname in _WITHOUT_PASSWORDS:
            raise OAuthNeeded(f"{parts.hostname} accepts no password. Give a token request as the secret.")
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
    position: str | None
    left: int = _MOST_TAKEN
    is_any_taken: bool = False
    error_codes: list[str] = field(default_factory=list[str])

    def may_go_on(self) -> bool:
        return self.left > 0 and time.monotonic() < self.until


class _SourceDeleted(Exception):
    pass


class _AllFailed(SourceFailure):
    """All objects of a look failed. The next look goes on after them soon, in case that the next ones do not."""


_Take: TypeAlias = Callable[[str, str], Awaitable[SeenObject | None]]
"""Takes an object of a name and version, or skips it for a reason. Returns None if it is gone."""


class Intake:
    """Looks at the sources that are due: two at once, and one of an organisation."""

    def __init__(
        self,
        database: Database,
        documents: DocumentService,
        allowed: Sequence[IpNetwork],
        limits: Limits,
        object_seconds: float = 100,
    ) -> None:
        """`object_seconds`: the time limit of one object."""
        self._object_seconds = object_seconds
        self._database = database
        self._documents = documents
        self._allowed = tuple(allowed)
        self._limits = limits
        self._max_bytes = limits.max_bytes
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
        pause = _PAUSES[min(source.attempts, len(_PAUSES) - 1)]
        try:
            async with asyncio.timeout(_MAX_SECONDS):
                is_complete = await self._take(source)
        except _SourceDeleted:
            return
        except _AllFailed as failure:
            error_code, pause = failure.code, PAUSE
        except (SourceFailure, FieldmarkError) as failure:
            error_code = failure.code
        except Exception as failure:  # noqa: BLE001 - recorded, so that the source is looked at again later
            error_code = self._code_of(failure, source)
        if error_code is None:
            of_kind = _BUCKET_PAUSE if source.kind is SourceKind.BUCKET else PAUSE
            pause = of_kind if is_complete else timedelta(0)
        try:
            async with self._database.as_service() as conn:
                await sources.finish(conn, source, error_code=error_code, pause=pause, is_complete=is_complete)
        except FieldmarkError as failure:  # the lease ends, and it is looked at again
            _log.warning("a source was not recorded", source_id=str(source.id), reason=type(failure).__name__)

    async def _take(self, source: DueSource) -> bool:
        """Return whether all that there is was looked at."""
        if not source.is_owner_there:
            raise SourceFailure("owner_left")
        check_address(source.kind, source.address, source.secret, self._allowed)
        scope = Scope(source.created_by, source.org_id)
        try:
            async with self._database.as_user(scope) as conn:
                target = await find_target(conn, scope, schema=source.extract, table=None)
        except NotFound:
            raise SourceFailure("schema_not_found") from None
        look = _Look(source, scope, time.monotonic() + _SECONDS, target.extraction, source.position)
        with tempfile.TemporaryDirectory(prefix="fieldmark-source-") as folder:
            take = self._take_from_bucket if source.kind is SourceKind.BUCKET else self._take_from_mailbox
            is_complete = await take(look, Path(folder))
        if len(look.error_codes) >= _ALL_FAILED and not look.is_any_taken:
            raise _AllFailed(look.error_codes[-1])
        return is_complete

    async def _take_from_bucket(self, look: _Look, folder: Path) -> bool:
        source = look.source
        bucket = Bucket(source.address, source.username, source.secret, self._allowed)

        async def take(name: str, etag: str) -> SeenObject | None:
            filename, file = PurePosixPath(name).name, folder / secrets.token_hex(8)
            try:
                if not await bucket.download(name, etag, file, self._max_bytes):
                    return None
                await self._upload(look, file, filename, f"{name} {etag}", {"object": name})
            finally:
                file.unlink(missing_ok=True)
            return SeenObject(name, etag, None, filename)

        is_complete = await self._take_new_objects(look, bucket, take)
        await self._retry(look, take)
        return is_complete

    async def _take_new_objects(self, look: _Look, bucket: Bucket, take: _Take) -> bool:
        source = look.source
        position, has_more = source.position or "", True
        while has_more:
            if not look.may_go_on():
                return False
            page, has_more = await bucket.list_objects(source.folder, position)
            wanted: list[FailedObject] = []
            skipped: list[SeenObject] = []
            for found in await self._new_objects(source, page):
                if (reason := self._skip_reason(found)) is not None:
                    skipped.append(SeenObject(found.name, found.etag, reason))
                else:
                    wanted.append(FailedObject(found.name, found.etag))
            if skipped:
                await self._record(look, skipped, position)
            while wanted:
                if not look.may_go_on():
                    return False
                several = wanted[: min(_OBJECTS_AT_ONCE, look.left)]
                del wanted[: len(several)]
                await self._try_several(look, several, take)
                position = several[-1].name
            if page:
                position = page[-1].name
            # (Also after an empty page: the next listing starts from the first name.)
            await self._record(look, [], position if has_more else None)
        return True

    async def _try_several(self, look: _Look, several: Sequence[FailedObject], take: _Take) -> None:
        """Take objects at once, and record them. A refusal that concerns them all is raised afterwards."""
        results = await asyncio.gather(*(self._try(look, one, take) for one in several), return_exceptions=True)
        seen = [one for result in results if isinstance(result, list) for one in result]
        refusal = next((one for one in results if isinstance(one, BaseException)), None)
        await self._record(look, seen, several[-1].name if refusal is None else look.position)
        if refusal is not None:
            raise refusal

    async def _try(self, look: _Look, found: FailedObject, take: _Take) -> list[SeenObject] | None:
        """Take an object. Return what is to be recorded: nothing if it is gone, None if that failed, which is recorded,
        so that one object never holds up others."""
        try:
            async with asyncio.timeout(self._object_seconds):
                seen = await take(found.name, found.version)
        except _NOT_OF_ONE_OBJECT:
            raise
        except (SourceFailure, FieldmarkError) as failure:
            error_code = failure.code
        except Exception as failure:  # recorded, too
            if is_disk_full(failure):
                raise
            error_code = self._code_of(failure, look.source)
        else:
            look.is_any_taken |= seen is not None
            return [] if seen is None else [seen]
        look.left -= 1
        look.error_codes.append(error_code)
        attempts = found.attempts + 1
        pause = min(_RETRY_PAUSE * 2**found.attempts, _MAX_RETRY_PAUSE) if attempts < _MAX_ATTEMPTS else None
        async with self._database.as_service() as conn:
            await sources.record_failure(conn, look.source.id, found, error_code=error_code, retry_after=pause)
        return None

    async def _retry(self, look: _Look, take: _Take) -> None:
        """Try again the objects that are due. One whose attempts take long leaves the time of the next look to others,
        since new objects come first."""
        while time.monotonic() < look.until + _RETRY_SECONDS:
            async with self._database.as_service() as conn:
                failed = await sources.due_failure(conn, look.source.id)
            if failed is None:
                return
            seen = await self._try(look, failed, take)
            if seen is not None:
                await self._record(look, seen, look.position)
                async with self._database.as_service() as conn:
                    await sources.record_failure(conn, look.source.id, failed, error_code=None, retry_after=None)

    def _code_of(self, failure: Exception, source: DueSource) -> str:
        code = error_code_of(failure)
        if code is None:
            _log.error("a source or one of its objects failed", source_id=str(source.id), exc_info=failure)
        return code or "internal"

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
        async with mailbox.open(Position.parse(source.position), folder, self._max_bytes) as session:

            async def take(name: str, _: str) -> SeenObject | None:
                mail = await session.fetch(Position.parse(name))
                if mail is None:
                    return None
                if mail.path is None:
                    return SeenObject(mail.digest, "", "too_large")
                try:
                    if not await self._new_objects(source, [BucketObject(mail.digest, "", 0)]):
                        return SeenObject(mail.digest, "", "repeated")
                    return await self._take_mail(look, mail, mail.path)
                finally:
                    mail.path.unlink()

            is_complete = await self._take_new_mails(look, session, take)
            await self._retry(look, take)
            return is_complete

    async def _take_new_mails(self, look: _Look, session: Session, take: _Take) -> bool:
        async for position in session.new_mails():
            if not look.may_go_on():
                return False
            seen = await self._try(look, FailedObject(str(position), ""), take) or []
            await self._record(look, seen, str(position))
        await self._record(look, [], str(session.end))
        return True

    async def _take_mail(self, look: _Look, mail: Mail, path: Path) -> SeenObject:
        """Upload a mail. If the source says what its documents become, upload the attachments instead, since the text
        around them is no such document. A mail that cannot be read becomes a document that says why."""
        has_target = look.extraction is not None or look.source.stack_id is not None
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            try:
                parts, attachments = await split_mail(path, self._limits, Path(folder))
            except Unreadable:
                await self._upload(look, path, "mail.eml", f"{mail.digest} 0", {})
                return SeenObject(mail.digest, "", None, "mail")
            kind = parts.auto_submitted or "no"
            if kind.startswith("auto-re") or kind == "auto-notified" or (kind != "no" and not attachments):
                return SeenObject(mail.digest, "", "auto_reply")
            subject = parts.subject or "mail"
            about = {"from": parts.sender, "subject": subject}
            if not has_target or not attachments:
                attachments = []
                await self._upload(look, path, f"{subject}.eml", f"{mail.digest} 0", about)
            for number, attachment in enumerate(attachments, 1):
                await self._upload(look, attachment.path, attachment.name, f"{mail.digest} {number}", about)
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

    async def _record(self, look: _Look, seen: Sequence[SeenObject], position: str | None) -> None:
        async with self._database.as_service() as conn:
            if not await sources.record_objects(conn, look.source.id, seen, position):
                raise _SourceDeleted
        look.position = position


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text[:400])
