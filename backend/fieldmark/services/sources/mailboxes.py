"""Reads new mails of a mailbox by IMAP over TLS. Mails are not marked, moved or deleted, and none is ever sent."""

from __future__ import annotations

import asyncio
import hashlib
import imaplib
import re
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar, cast
from urllib.parse import urlsplit

from imap_tools.errors import ImapToolsError, MailboxFolderSelectError, MailboxLoginError
from imap_tools.mailbox import BaseMailBox

from fieldmark.public_addresses import IpNetwork, port_of, resolve
from fieldmark.services.sources.failures import SourceFailure
from fieldmark.services.sources.oauth import TokenRequest

Result = TypeVar("Result")

_TIMEOUT_SECONDS: Final = 20.0
_UIDS_AT_ONCE: Final = 5000
_EXTRA_BYTES: Final = 32 << 20
"""What an action may receive besides a mail of the largest size."""


@dataclass(frozen=True, slots=True)
class Mail:
    """A mail in a local file. `path` is None if it is too large. `digest` is the hash of its bytes."""

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


@dataclass(frozen=True, slots=True)
class Mailbox:
    """A folder of the mailbox at `url`, `imaps://host`. `secret` is a password or a token request."""

    url: str
    folder: str
    username: str
    secret: str
    allowed: Sequence[IpNetwork]

    @asynccontextmanager
    async def open(self, position: Position, into: Path, max_bytes: int) -> AsyncGenerator[Session]:
        """Connect, to go on after a position. Raise SourceFailure, and the errors of connections."""
        session = Session(self, into, max_bytes)
        try:
            await session.start(position)
            yield session
        finally:
            session.disconnect()


class Session:
    """A session that reads mails one by one. It connects again after an action that failed. The methods raise
    SourceFailure, and the errors of connections."""

    position = Position(0, 0)
    """Where reading goes on: as given, or from the start if the mailbox was numbered again."""

    end = Position(0, 0)
    """The last mail when the session began."""

    def __init__(self, mailbox: Mailbox, into: Path, max_bytes: int) -> None:
        self._mailbox = mailbox
        self._into = into
        self._max_bytes = max_bytes
        self._connection: _Connection | None = None
        self._opened: BaseMailBox | None = None

    async def start(self, position: Position) -> None:
        self.end = await self._run(_last_position)
        self.position = position if position.validity == self.end.validity else Position(self.end.validity, 0)

    async def new_mails(self) -> AsyncIterator[Position]:
        """Yield the positions of the mails after `position`, oldest first."""
        for start in range(self.position.uid + 1, self.end.uid + 1, _UIDS_AT_ONCE):
            last = min(start + _UIDS_AT_ONCE - 1, self.end.uid)
            query = f"UID {start}:{last}"
            found = await self._run(lambda mailbox, query=query: sorted(int(uid) for uid in mailbox.uids(query)))
            for uid in found:
                if start <= uid <= last:
                    yield Position(self.end.validity, uid)

    async def fetch(self, position: Position) -> Mail | None:
        """Write a mail to a file. Return None if it was deleted."""
        if position.validity != self.end.validity:
            return None
        return await self._run(lambda mailbox: _fetch(mailbox, position.uid, self._into, self._max_bytes))

    def disconnect(self) -> None:
        """Disconnect, which also ends the thread of a cancelled action."""
        if self._connection is not None:
            self._connection.disconnect()
        self._connection = self._opened = None

    async def _run(self, action: Callable[[BaseMailBox], Result]) -> Result:
        is_done = False
        try:
            mailbox = self._opened or await self._open()
            assert self._connection is not None
            self._connection.bytes_left = self._max_bytes + _EXTRA_BYTES
            result = await asyncio.to_thread(action, mailbox)
            is_done = True
            return result
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
            if not is_done:
                self.disconnect()

    async def _open(self) -> BaseMailBox:
        parts = urlsplit(self._mailbox.url)
        request = TokenRequest.parse(self._mailbox.secret, self._mailbox.allowed)
        token = None if request is None else await request.send()
        address = str(await resolve(parts, self._mailbox.allowed))
        self._connection = _Connection(parts.hostname or "", port_of(parts), address, _EXTRA_BYTES)
        self._opened = await asyncio.to_thread(self._log_in, self._connection, token)
        return self._opened

    def _log_in(self, connection: _Connection, token: str | None) -> BaseMailBox:
        opened, at = _PinnedMailBox(connection), self._mailbox
        if token is not None:
            opened.xoauth2(at.username, token, initial_folder=None)
        else:
            login = opened.login if f"{at.username}{at.secret}".isascii() else opened.login_utf8
            login(at.username, at.secret, initial_folder=None)
        opened.folder.set(at.folder or "INBOX", readonly=True)  # pyright: ignore[reportUnknownMemberType]
        if self.end.validity not in (0, _last_position(opened).validity):  # numbered again meanwhile
            raise connection.abort("another UIDVALIDITY")
        return opened


def _last_position(mailbox: BaseMailBox) -> Position:
    state = mailbox.folder.status(options=("UIDVALIDITY", "UIDNEXT"))
    return Position(state["UIDVALIDITY"], state["UIDNEXT"] - 1)


def _answers(mailbox: BaseMailBox, uid: int, parts: str) -> list[bytes | tuple[bytes, bytes] | None]:
    """Return what the server answers about a mail: nothing of use if it was deleted."""
    status, answers = mailbox.client.uid("fetch", str(uid), parts)
    if status != "OK":
        raise SourceFailure("not_understood")
    return cast("list[bytes | tuple[bytes, bytes] | None]", answers)


def _fetch(mailbox: BaseMailBox, uid: int, into: Path, max_bytes: int) -> Mail | None:
    answers = _answers(mailbox, uid, "(RFC822.SIZE)")
    sizes = [re.search(rb"RFC822\.SIZE (\d+)", one) for one in answers if isinstance(one, bytes)]
    size = next((int(one[1]) for one in sizes if one), None)
    if size is None:
        return None
    if size > max_bytes:
        return Mail(None, hashlib.sha256(f"{uid} {size}".encode()).hexdigest())
    content = next((one[1] for one in _answers(mailbox, uid, "(BODY.PEEK[])") if isinstance(one, tuple)), None)
    if content is None:
        return None
    path = into / f"{uid}.eml"
    path.write_bytes(content)
    return Mail(path, hashlib.sha256(content).hexdigest())


class _Connection(imaplib.IMAP4_SSL):
    """A connection to an address that was checked, under the certificate of its name, which receives at most
    `bytes_left`. It is opened when it is first used."""

    def __init__(self, host: str, port: int, address: str, max_bytes: int) -> None:
        self._target = (host, port)
        self._address = address
        self.bytes_left = max_bytes
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
        self.bytes_left -= size
        if self.bytes_left < 0:
            raise self.abort("the server sends too much")


class _PinnedMailBox(BaseMailBox):
    def __init__(self, connection: _Connection) -> None:
        self._connection = connection
        super().__init__()

    def _get_mailbox_client(self) -> imaplib.IMAP4:
        self._connection.connect()
        return self._connection
