"""ZIP: the list of its files as text, and the files, which become documents of their own."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import PurePosixPath

from fieldmark.documents.reading.archive import MAX_MEMBERS
from fieldmark.documents.reading.enclosed import Container, Enclosed
from fieldmark.documents.reading.pages import MIB, clean
from fieldmark.documents.reading.pagination import Part, align
from fieldmark.errors import NoText, OverLimit, PasswordProtected

MAX_RATIO = 200
"""A file that unpacks to more times its packed size, and to more than a MiB, is there to fill a disk."""

_CHUNK = 1 << 16
_OF_THE_SYSTEM = frozenset({".DS_Store", "Thumbs.db", "desktop.ini"})


def read_zip(data: bytes) -> Container:
    """The archive. Raises Unreadable where it holds no file, too many, or all are protected."""
    archive = zipfile.ZipFile(io.BytesIO(data))
    members = [member for member in archive.infolist() if _is_of_somebody(member)]
    if not members:
        raise NoText("The ZIP archive holds no files.")
    if len(members) > MAX_MEMBERS:
        raise OverLimit(f"The ZIP archive holds {len(members):,} files; the limit is {MAX_MEMBERS:,}.")
    if all(_is_protected(member) for member in members):
        raise PasswordProtected(
            "The ZIP archive is protected with a password: unpack it, and upload the files in it one by one."
        )
    rows = [(_line(member.filename), f"{member.file_size:,} bytes") for member in members]
    noun = "1 file" if len(members) == 1 else f"{len(members):,} files"
    return Container([Part([f"ZIP archive with {noun}:", "", *align(rows)])], _files(archive, members))


def _files(archive: zipfile.ZipFile, members: list[zipfile.ZipInfo]) -> Iterator[Enclosed]:
    for member in members:
        yield Enclosed(member.filename, partial(_unpack, archive, member))


def _unpack(archive: zipfile.ZipFile, member: zipfile.ZipInfo, most: int) -> bytes:
    if _is_protected(member):
        raise PasswordProtected
    # What is counted is what comes out. What the archive says of its size is its own word.
    most = min(most, max(MIB, MAX_RATIO * member.compress_size))
    content = bytearray()
    with archive.open(member) as packed:
        while chunk := packed.read(_CHUNK):
            content += chunk
            if len(content) > most:
                raise OverLimit
    return bytes(content)


def _is_protected(member: zipfile.ZipInfo) -> bool:
    return bool(member.flag_bits & 1)


def _is_of_somebody(member: zipfile.ZipInfo) -> bool:
    """Whether it is a file that a person packed: no folder, and nothing that the system left."""
    path = PurePosixPath(member.filename)
    return not member.is_dir() and path.name not in _OF_THE_SYSTEM and path.parts[:1] != ("__MACOSX",)


def _line(name: str) -> str:
    return " ".join(clean(name).split())
