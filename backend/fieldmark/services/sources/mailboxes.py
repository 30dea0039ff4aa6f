"""Reads new mails of a mailbox by IMAP over TLS. Mails are not marked, moved or deleted, and none is ever sent."""

from __future__ import annotations

import asyncio
import hashlib
import imaplib
import re
import socket
import ssl
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, cast
from urllib.parse import urlsplit

from imap_tools.errors import ImapToolsError, MailboxFolderSelectError, MailboxLoginError
from imap_tools.mailbox import BaseMailBox

from fieldmark.public_addresses import IpNetwork, port_of, resolve
from fieldmark.services.sources.failures import SourceFailure

_TIMEOUT_SECONDS: Final = 20.0
_UIDS_AT_ONCE: Final = 5000
_EXTRA_BYTES: Final = 32 << 20
"""What a session may receive besides a mail of the largest size."""


@dataclass(frozen=True, slots=True)
class Mail:
    """A mail in a local file. `path` is None if it is too large. `digest` is the hash of its bytes."""

    uid: int
    size: int
    path: Path | None
    digest: str


@dataclass(frozen=True, slots=True)
class Position:
    """Where reading goes on: after `uid`, in a mailbox whose numbers are valid as long as `validity` stays."""

    validity: int
    uid: int

    @classmethod
    def parse(cls, text: str | None) -> Position:
        found = re.fullmatch(r"(\d+):(\d+)", text or "")
        return cls(int(found[1]), int(found[2])) if found else cls(0, 0)

    def __str__(self) -> str:
        return f"{self.validity}:{self.uid}"


@dataclass(slots=True)
class Batch:
    """New mails, oldest first, and where to go on after them."""

    position: Position
    has_more: bool
    mails: list[Mail] = field(default_factory=list[Mail])


@dataclass(frozen=True, slots=True)
class Mailbox:
    """A folder of the mailbox at `url`, `imaps://host`."""

    url: str
    folder: str
    username: str
    password: str
    allowed: Sequence[IpNetwork]

    async def read(self, position: Position, into: Path, most: int, max_bytes: int) -> Batch:
        """Write up to `most` mails after a position to a folder. Raise SourceFailure, and the errors of connections."""
        parts = urlsplit(self.url)
        address = str(await resolve(parts, self.allowed))
        connection = _Connection(parts.hostname or "", port_of(parts), address, max_bytes + _EXTRA_BYTES)
        try:
            return await asyncio.to_thread(self._read, connection, position, into, most, max_bytes)
        except ssl.SSLError:
            raise
        except imaplib.IMAP4.abort:
            raise SourceFailure("unreachable") from None
        except MailboxLoginError:
            raise SourceFailure("credentials_refused") from None
        except MailboxFolderSelectError:
            raise SourceFailure("not_found") from None
        except (ImapToolsError, imaplib.IMAP4.error, LookupError, ValueError):
            raise SourceFailure("not_understood") from None
        finally:
            connection.disconnect()  # also ends the thread, if this task is cancelled

    def _read(self, connection: _Connection, position: Position, into: Path, most: int, max_bytes: int) -> Batch:
        mailbox = _PinnedMailBox(connection)
        login = mailbox.login if f"{self.username}{self.password}".isascii() else mailbox.login_utf8
        login(self.username, self.password, initial_folder=None)
        mailbox.folder.set(self.folder or "INBOX", readonly=True)  # pyright: ignore[reportUnknownMemberType]
        state = mailbox.folder.status(options=("UIDVALIDITY", "UIDNEXT"))
        if state["UIDVALIDITY"] != position.validity:
            position = Position(state["UIDVALIDITY"], 0)
        last = state["UIDNEXT"] - 1
        batch = Batch(position, has_more=False)
        left = max_bytes + _EXTRA_BYTES // 2
        for uid in _new_uids(mailbox, position.uid, last):
            if len(batch.mails) == most:
                batch.has_more = True
                return batch
            size = _size_of(mailbox, uid)
            if size is not None:  # otherwise it was deleted meanwhile
                if max_bytes >= size > left:
                    batch.has_more = True
                    return batch
                left -= size if size <= max_bytes else 0
                if (mail := _fetch(mailbox, uid, size, into, max_bytes)) is not None:
                    batch.mails.append(mail)
            batch.position = Position(position.validity, uid)
        batch.position = Position(position.validity, max(last, batch.position.uid))
        return batch


def _new_uids(mailbox: BaseMailBox, after: int, last: int) -> Iterator[int]:
    for start in range(after + 1, last + 1, _UIDS_AT_ONCE):
        end = min(start + _UIDS_AT_ONCE - 1, last)
        found = sorted(int(uid) for uid in mailbox.uids(f"UID {start}:{end}"))
        yield from (uid for uid in found if start <= uid <= end)


def _size_of(mailbox: BaseMailBox, uid: int) -> int | None:
    _, answers = mailbox.client.uid("fetch", str(uid), "(RFC822.SIZE)")
    found = [re.search(rb"RFC822\.SIZE (\d+)", one) for one in answers if isinstance(one, bytes)]
    return next((int(one[1]) for one in found if one), None)


def _fetch(mailbox: BaseMailBox, uid: int, size: int, into: Path, max_bytes: int) -> Mail | None:
    if size > max_bytes:
        return Mail(uid, size, None, hashlib.sha256(f"{uid} {size}".encode()).hexdigest())
    _, answers = mailbox.client.uid("fetch", str(uid), "(BODY.PEEK[])")
    found = [cast("tuple[bytes, bytes]", one) for one in answers if isinstance(one, tuple)]
    if not found:  # it was deleted meanwhile
        return None
    content = found[0][1]
    path = into / f"{uid}.eml"
    path.write_bytes(content)
    return Mail(uid, size, path, hashlib.sha256(content).hexdigest())


class _Connection(imaplib.IMAP4_SSL):
    """A connection to an address that was checked, under the certificate of its name, which receives at most
    `max_bytes`. It is opened when it is first used."""

    def __init__(self, host: str, port: int, address: str, max_bytes: int) -> None:
        self._target = (host, port)
        self._address = address
        self._bytes_left = max_bytes
        self._is_closed = False
        self._raw: socket.socket | None = None

    def connect(self) -> None:
        host, port = self._target
        super().__init__(host, port, ssl_context=ssl.create_default_context(), timeout=_TIMEOUT_SECONDS)

    def disconnect(self) -> None:
        self._is_closed = True
        if self._raw is not None:
            with suppress(OSError):
                self._raw.shutdown(socket.SHUT_RDWR)
            self._raw.close()

    def _create_socket(self, timeout: float | None) -> socket.socket:
        if self._is_closed:
            raise self.abort("closed")
        plain = socket.create_connection((self._address, self.port), timeout)
        secured = self.ssl_context.wrap_socket(plain, server_hostname=self.host)
        self._raw = secured
        return secured

    def read(self, size: int) -> bytes:
        self._spend(size)
        return super().read(size)

    def readline(self) -> bytes:
        line = super().readline()
        self._spend(len(line))
        return line

    def _spend(self, size: int) -> None:
        self._bytes_left -= size
        if self._bytes_left < 0:
            raise self.abort("the server sends too much")


class _PinnedMailBox(BaseMailBox):
    def __init__(self, connection: _Connection) -> None:
        self._connection = connection
        super().__init__()

    def _get_mailbox_client(self) -> imaplib.IMAP4:
        self._connection.connect()
        return self._connection
