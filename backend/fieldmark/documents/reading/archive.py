"""Safe opening of ZIP archives of XML, which Office files are, and of XML."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import lxml.etree  # pyright: ignore[reportMissingTypeStubs]

from fieldmark.documents.reading.pages import MIB, Limits
from fieldmark.errors import OverLimit, PasswordProtected, Unsupported

etree: Any = lxml.etree  # pyright: ignore

MAX_MEMBERS = 10_000

_DECLARATIONS = [
    mark.encode(encoding) for mark in ("<!DOCTYPE", "<!ENTITY") for encoding in ("utf-8", "utf-16-le", "utf-16-be")
]


def open_archive(data: bytes, limits: Limits) -> zipfile.ZipFile:
    """The archive, if it unpacks within the limits and no XML in it declares entities. Raises Unreadable."""
    archive = zipfile.ZipFile(io.BytesIO(data))
    members = archive.infolist()
    if len(members) > MAX_MEMBERS:
        raise OverLimit(f"The document's archive holds {len(members):,} parts; the limit is {MAX_MEMBERS:,}.")
    if any(member.flag_bits & 1 for member in members):
        raise PasswordProtected("The document's archive is protected with a password; save it without one.")
    # Python unpacks no more of a member than the size it declares, so the declared sizes can be relied on.
    total = sum(member.file_size for member in members)
    if total > limits.max_decoded_bytes:
        raise OverLimit(
            f"The document unpacks to {total / MIB:,.0f} MiB; the limit is {limits.max_decoded_bytes / MIB:,.0f} MiB."
        )
    for member in members:
        if member.filename.endswith((".xml", ".rels", ".vml")):
            content = archive.read(member)
            if any(mark in content for mark in _DECLARATIONS):
                raise Unsupported("The document's XML declares entities, which Office documents never do.")
    return archive


def parse_xml(data: bytes) -> Any:
    """Return the root element. No entity is expanded and nothing is loaded."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    return etree.fromstring(data, parser)
