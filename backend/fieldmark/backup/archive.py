"""The tar stream of a backup, and its encryption."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, BinaryIO, Final, cast

from fieldmark.errors import Misconfigured

FORMAT: Final = 1
HEADER, END = "backup.json", "end.json"
DATABASE, DATABASE_SUM = "database/", "database.sha256"
KEYS, ORIGINALS, ORIGINAL_SUMS = "keys/", "originals/", "originals.sha256"
_AGE: Final = b"age-encryption.org/"
_INCOMPLETE: Final = "The backup is damaged or incomplete: {}."


@dataclass(frozen=True, slots=True)
class Header:
    """What a backup is."""

    format: int
    fieldmark: str
    created_at: str
    postgres_major: int
    documents: int
    documents_sha256: str


@dataclass(frozen=True, slots=True)
class End:
    """How many originals a backup has, and what it lacks: documents that were deleted meanwhile, and originals that the
    storage did not have."""

    originals: int
    original_bytes: int
    deleted_documents: list[str] = field(default_factory=list[str])
    lost_originals: list[str] = field(default_factory=list[str])


class Writer:
    """Adds members to a backup."""

    def __init__(self, archive: tarfile.TarFile) -> None:
        self._archive = archive

    def add_bytes(self, name: str, content: bytes) -> None:
        self._archive.addfile(_info(name, len(content)), io.BytesIO(content))

    def add_json(self, name: str, value: Header | End) -> None:
        self.add_bytes(name, json.dumps(asdict(value), indent=1).encode())

    def add_file(self, name: str, source: BinaryIO) -> tuple[str, int]:
        """Add an open file and return its SHA-256 and size."""
        size = os.fstat(source.fileno()).st_size
        summed = _Summed(source)
        self._archive.addfile(_info(name, size), cast("IO[bytes]", summed))
        return summed.sha256.hexdigest(), size


class _Summed:
    def __init__(self, source: IO[bytes]) -> None:
        self._source = source
        self.sha256 = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        read = self._source.read(size)
        self.sha256.update(read)
        return read


@contextmanager
def writing(target: BinaryIO, recipients: Sequence[str]) -> Generator[Writer]:
    """Write a backup to `target`, which need not be seekable; encrypted if there are recipients (age's public keys).

    Raise Misconfigured if a recipient is not one.
    """
    if recipients:
        age = _age()
        try:
            keys = [
                age.ssh.Recipient.from_str(text) if text.startswith("ssh-") else age.x25519.Recipient.from_str(text)
                for text in recipients
            ]
        except age.RecipientError as error:
            raise Misconfigured(f"This is no public key of age or SSH: {error}") from None
        with (
            _through(lambda source: age.encrypt_io(source, target, keys)) as stream,
            tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as archive,
        ):
            yield Writer(archive)
    else:
        with tarfile.open(fileobj=target, mode="w|", format=tarfile.PAX_FORMAT) as archive:
            yield Writer(archive)


class Reader:
    """Reads the members of a backup in their order. Raises Misconfigured if it is damaged or not complete."""

    def __init__(self, archive: tarfile.TarFile) -> None:
        self._archive = archive
        self._next = self._read_member()
        self.header = self._header()

    def database(self) -> Iterator[bytes]:
        """Yield the parts of the dump. The last comes only once all are known to be whole."""
        sha256 = hashlib.sha256()
        held: bytes | None = None
        for _, content in self._members(DATABASE):
            part = content.read()
            sha256.update(part)
            if held is not None:
                yield held
            held = part
        if held is None or self._single(DATABASE_SUM) != sha256.hexdigest().encode():
            raise _damaged("the dump of the database does not match its SHA-256")
        yield held

    def signing_keys(self) -> Iterator[tuple[str, bytes]]:
        """Yield the name and content of each key."""
        for name, content in self._members(KEYS):
            yield name, content.read(1 << 20)

    def originals(self) -> Iterator[tuple[str, IO[bytes]]]:
        """Yield the stored path and content of each original, which must be read before the next."""
        yield from self._members(ORIGINALS)

    def sums(self) -> Iterator[tuple[str, str]]:
        """Yield the SHA-256 and stored path of each original."""
        name, content = self._taken()
        if name != ORIGINAL_SUMS:
            raise _damaged(f"it has {name} where {ORIGINAL_SUMS} should be")
        for line in content:
            sha256, _, path = line.decode().rstrip("\n").partition("  ")
            yield sha256, path.removeprefix(ORIGINALS)
        self._next = self._read_member()

    def end(self) -> End:
        """Return the last member."""
        return End(**self._json(END))

    def _header(self) -> Header:
        content = self._json(HEADER)
        if content.get("format") != FORMAT:
            raise Misconfigured(
                f"This backup was made by Fieldmark {content.get('fieldmark')} in a format that this version does not "
                "know. Restore it with that version, or a newer one."
            )
        return Header(**content)

    def _json(self, name: str) -> dict[str, Any]:
        try:
            return json.loads(self._single(name))
        except ValueError:
            raise _damaged(f"{name} is no JSON") from None

    def _members(self, prefix: str) -> Iterator[tuple[str, IO[bytes]]]:
        while self._next is not None and self._next[0].startswith(prefix):
            name, content = self._next
            yield name.removeprefix(prefix), content
            self._next = self._read_member()

    def _single(self, name: str) -> bytes:
        found, content = self._taken()
        if found != name:
            raise _damaged(f"it has {found} where {name} should be")
        read = content.read()
        self._next = self._read_member()
        return read

    def _taken(self) -> tuple[str, IO[bytes]]:
        if self._next is None:
            raise _damaged("it ends too early")
        return self._next

    def _read_member(self) -> tuple[str, IO[bytes]] | None:
        info = self._archive.next()
        if info is None:
            return None
        content = self._archive.extractfile(info)
        if content is None or not info.isreg():
            raise _damaged(f"{info.name} is no file")
        return info.name, content


@contextmanager
def reading(source: io.BufferedReader, identity: Path | None) -> Generator[Reader]:
    """Read a backup from `source`, which need not be seekable, decrypted with the private keys in the file `identity`.

    Raise Misconfigured if it is no backup, damaged, or encrypted for another key.
    """
    if not source.peek(len(_AGE)).startswith(_AGE):
        with _opened(source) as reader:
            yield reader
        return
    if identity is None:
        raise Misconfigured("The backup is encrypted. Pass the file with the private key: --identity FILE.")
    age = _age()
    try:
        text = identity.read_text("utf-8")
        if "BEGIN OPENSSH PRIVATE KEY" in text:
            keys = [age.ssh.Identity.from_buffer(text.encode())]
        else:
            lines = (line.strip() for line in text.splitlines())
            keys = [age.x25519.Identity.from_str(line) for line in lines if line and not line.startswith("#")]
    except (OSError, UnicodeError, age.IdentityError) as error:
        raise Misconfigured(f"{identity} cannot be used as a private key: {error}") from None
    with (
        _through(lambda target: age.decrypt_io(source, target, keys), writes=True) as stream,
        _opened(stream) as reader,
    ):
        yield reader


@contextmanager
def _opened(stream: IO[bytes]) -> Generator[Reader]:
    try:
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            yield Reader(archive)
    except (tarfile.TarError, EOFError, UnicodeError) as error:
        raise _damaged(str(error)) from None


@contextmanager
def _through(work: Callable[[Any], None], *, writes: bool = False) -> Generator[IO[bytes]]:
    """Run `work` in a thread at one end of a pipe, and yield the other end. What `work` raises is raised here, rather
    than what it does to the pipe."""
    read, write = os.pipe()
    theirs = os.fdopen(write, "wb") if writes else os.fdopen(read, "rb")
    ours = os.fdopen(read, "rb") if writes else os.fdopen(write, "wb")

    def run() -> None:
        with theirs:
            work(theirs)

    with ThreadPoolExecutor(1, "age") as executor:
        done = executor.submit(run)
        failed: BaseException | None = None
        try:
            yield ours
        except BaseException as error:  # noqa: BLE001 - raised below
            failed = error
        with suppress(BrokenPipeError):
            ours.close()
        _raise_failure(done, failed)


def _raise_failure(done: Future[None], failed: BaseException | None) -> None:
    error = done.exception()
    if isinstance(error, BrokenPipeError):  # this end was closed first
        error = None
    if isinstance(error, OSError) and error.errno is not None:
        raise error
    if error is not None and (failed is None or isinstance(failed, BrokenPipeError | Misconfigured)):
        raise Misconfigured(f"The backup cannot be encrypted or decrypted: {error}.") from None
    if failed is not None:
        raise failed


def _age() -> Any:
    try:
        import pyrage  # pyright: ignore[reportMissingTypeStubs] - an optional package
    except ImportError:
        raise Misconfigured(
            "Encryption needs the package pyrage: pip install 'fieldmark[encryption]'. Or pipe the backup through age."
        ) from None
    return pyrage


def _info(name: str, size: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size = size
    info.mode = 0o600
    info.mtime = int(datetime.now(UTC).timestamp())
    return info


def _damaged(how: str) -> Misconfigured:
    return Misconfigured(_INCOMPLETE.format(how))
