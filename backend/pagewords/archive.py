"""ZIP archives: list their files, and safely open Office files, which are ZIP archives of XML."""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import PurePosixPath
from typing import Any, TypeAlias

import lxml.etree  # pyright: ignore[reportMissingTypeStubs]

from pagewords.enclosed import Container, Enclosed
from pagewords.errors import NoText, OverLimit, PasswordProtected, Unsupported
from pagewords.pages import MIB, Limits, clean
from pagewords.pagination import Part, align

etree: Any = lxml.etree  # pyright: ignore

PictureFile: TypeAlias = tuple[str, Callable[[], bytes] | None]
"""The key of a picture's file, and a function that reads it; None if it is not in the document."""

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


def rewritten(archive: zipfile.ZipFile, changes: Mapping[str, Callable[[bytes], bytes]]) -> zipfile.ZipFile:
    """Return a copy of an archive with the contents of these parts changed."""
    copy = io.BytesIO()
    with zipfile.ZipFile(copy, "w") as written:
        for member in archive.infolist():
            content = archive.read(member)
            change = changes.get(member.filename)
            written.writestr(member.filename, content if change is None else change(content))
    return zipfile.ZipFile(copy)


def parse_xml(data: bytes) -> Any:
    """Return the root element. Entities are not expanded, and external files are not loaded."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    return etree.fromstring(data, parser)


def related_parts(archive: zipfile.ZipFile, part: str, kind: str) -> list[str]:
    """Return the names of the parts that a part of an Office file refers to, of a kind such as `drawing`."""
    return [target for target, ending, is_inside in _relations(archive, part).values() if is_inside and ending == kind]


def part_targets(archive: zipfile.ZipFile, part: str) -> dict[str, str]:
    """Return the parts that a part of an Office file refers to, by the ids of the relations."""
    return {key: target for key, (target, _, is_inside) in _relations(archive, part).items() if is_inside}


def picture_files(archive: zipfile.ZipFile, part: str) -> Callable[[str | None], PictureFile]:
    """Return a function that returns the picture file for an id in a part of an Office file."""
    relations = _relations(archive, part)

    def find_picture(identifier: str | None) -> PictureFile:
        target, _, is_inside = relations.get(identifier or "", ("", "", False))
        return target, partial(archive.read, target) if is_inside else None

    return find_picture


def _relations(archive: zipfile.ZipFile, part: str) -> dict[str, tuple[str, str, bool]]:
    """Return the relations of a part of an Office file by id: (target, kind, whether the target is in the file)."""
    folder, name = posixpath.split(part)
    names = set(archive.namelist())
    if (path := f"{folder}/_rels/{name}.rels") not in names:
        return {}
    found: dict[str, tuple[str, str, bool]] = {}
    for node in parse_xml(archive.read(path)):
        target = node.get("Target", "")
        is_inside = node.get("TargetMode") != "External"
        if is_inside:
            target = posixpath.normpath(posixpath.join(f"/{folder}", target)).lstrip("/")
        kind = node.get("Type", "").rsplit("/", 1)[-1]
        found[node.get("Id", "")] = target, kind, is_inside and target in names
    return found


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
