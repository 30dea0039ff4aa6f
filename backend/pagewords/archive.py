"""ZIP archives: list their files, and safely open Office files, which are ZIP archives of XML."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import PurePosixPath

from pagewords.enclosed import Container, Enclosed
from pagewords.errors import NoText, OverLimit, PasswordProtected, Unsupported
from pagewords.pages import MIB, Limits, clean
from pagewords.pagination import Part, align

MAX_MEMBERS = 10_000

_CHUNK = 1 << 16
_SYSTEM_FILES = frozenset({".DS_Store", "Thumbs.db", "desktop.ini"})

_DECLARATIONS = ["<!ENTITY".encode(encoding) for encoding in ("utf-8", "utf-16-le", "utf-16-be")]
_STRICT_NAMESPACE = re.compile(rb"http://purl\.oclc\.org/ooxml/(\w{1,40})/(\w{1,40})")


def open_archive(data: bytes, limits: Limits) -> zipfile.ZipFile:
    """Open an Office file, with the namespaces of its strict form as in its usual form. Raise Unreadable if it exceeds
    the limits unpacked, or if an XML file in it declares entities."""
    archive = zipfile.ZipFile(io.BytesIO(data))
    members = archive.infolist()
    if len(members) > MAX_MEMBERS:
        raise OverLimit(f"The document's archive holds {len(members):,} parts; the limit is {MAX_MEMBERS:,}.")
    if any(map(_is_protected, members)):
        raise PasswordProtected("The document's archive is protected with a password; save it without one.")
    # Python unpacks at most the declared size of a member, so declared sizes can be trusted.
    total = sum(member.file_size for member in members)
    if total > limits.max_decoded_bytes:
        raise OverLimit(
            f"The document unpacks to {total / MIB:,.0f} MiB; the limit is {limits.max_decoded_bytes / MIB:,.0f} MiB."
        )
    is_strict = False
    for member in members:
        if member.filename.endswith((".xml", ".rels", ".vml")):
            content = archive.read(member)
            is_strict = is_strict or _STRICT_NAMESPACE.search(content) is not None
            if any(mark in content for mark in _DECLARATIONS):
                raise Unsupported(
                    "The document's XML declares entities, which is not allowed. Save it again as DOCX or XLSX."
                )
    if not is_strict:
        return archive
    usual = partial(_STRICT_NAMESPACE.sub, rb"http://schemas.openxmlformats.org/\1/2006/\2")
    return rewritten(archive, {one.filename: usual for one in members if one.filename.endswith((".xml", ".rels"))})


def rewritten(
    archive: zipfile.ZipFile, changes: Mapping[str, Callable[[bytes], bytes]], renamed: Mapping[str, str] | None = None
) -> zipfile.ZipFile:
    """Return a copy of an archive with the contents of these parts changed, and parts renamed. A part that has the new
    name of another one is left out."""
    names = renamed or {}
    copy = io.BytesIO()
    with zipfile.ZipFile(copy, "w") as written:
        for member in archive.infolist():
            if member.filename in names.values():
                continue
            content = archive.read(member)
            change = changes.get(member.filename)
            name = names.get(member.filename, member.filename)
            written.writestr(name, content if change is None else change(content))
    return zipfile.ZipFile(copy)


def read_zip(data: bytes) -> Container:
    """Return the archive's list of files as text, and the files. Raise Unreadable if none can be unpacked."""
    archive = zipfile.ZipFile(io.BytesIO(data))
    members = [member for member in archive.infolist() if _is_user_file(member)]
    if not members:
        raise NoText("The ZIP archive holds no files.")
    if len(members) > MAX_MEMBERS:
        raise OverLimit(f"The ZIP archive holds {len(members):,} files; the limit is {MAX_MEMBERS:,}.")
    if all(_is_protected(member) for member in members):
        raise PasswordProtected(
            "The ZIP archive is protected with a password: unpack it, and upload the files in it one by one."
        )
    rows = [(" ".join(clean(member.filename).split()), f"{member.file_size:,} bytes") for member in members]
    noun = "1 file" if len(members) == 1 else f"{len(members):,} files"
    return Container([Part([f"ZIP archive with {noun}:", "", *align(rows)])], _files(archive, members))


def _files(archive: zipfile.ZipFile, members: list[zipfile.ZipInfo]) -> Iterator[Enclosed]:
    for member in members:
        yield Enclosed(member.filename, partial(_unpack, archive, member))


def _unpack(archive: zipfile.ZipFile, member: zipfile.ZipInfo, max_bytes: int) -> bytes:
    if _is_protected(member):
        raise PasswordProtected
    # The unpacked bytes are counted, because the size that the archive declares may be false.
    content = bytearray()
    with archive.open(member) as packed:
        while chunk := packed.read(_CHUNK):
            content += chunk
            if len(content) > max_bytes:
                raise OverLimit
    return bytes(content)


def _is_protected(member: zipfile.ZipInfo) -> bool:
    return bool(member.flag_bits & 1)


def _is_user_file(member: zipfile.ZipInfo) -> bool:
    """Return whether a person packed this file: not a folder or a system file."""
    path = PurePosixPath(member.filename)
    return not member.is_dir() and path.name not in _SYSTEM_FILES and path.parts[:1] != ("__MACOSX",)
