"""Electronic invoices: UBL and CII, alone or inside a PDF (ZUGFeRD, Factur-X), as lines of `path: value`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from fieldmark.documents.reading.archive import etree, parse_xml
from fieldmark.documents.reading.pages import Limits, Page, clean
from fieldmark.documents.reading.pagination import Part, paginate
from fieldmark.domain.reading_warnings import MAX_EXCERPT, ReadingWarning, WarningCode
from fieldmark.errors import OverLimit, Unreadable, Unsupported

# Elements that hold a file, as base64.
_FILES = frozenset({"EmbeddedDocumentBinaryObject", "AttachmentBinaryObject", "IncludedBinaryObject"})
MAX_CHARACTERS = 4_000_000
HEADING = "Machine-readable invoice inside the file. Where the printed pages differ from it, the printed pages count."


def einvoice_parts(data: bytes) -> list[Part]:
    """The lines of an electronic invoice that is a file of its own."""
    return [_part(data)]


def embedded_pages(data: bytes, page_count: int, limits: Limits) -> list[Page]:
    """The pages of an invoice inside a PDF, behind its `page_count` own. Raises Unreadable if it cannot be read."""
    try:
        part = _part(data)
    except etree.XMLSyntaxError as error:
        raise Unreadable("The invoice inside the PDF is damaged.") from error
    part[:0] = [HEADING, ""]
    pages = paginate([part], "xml", replace(limits, max_pages=max(1, limits.max_pages - page_count)))
    if pages:
        told = ReadingWarning(WarningCode.MACHINE_READABLE, 1, len(pages))
        pages[0] = replace(pages[0], warnings=(told, *pages[0].warnings))
    return [_behind(page, page_count) for page in pages]


def _behind(page: Page, page_count: int) -> Page:
    number = page.number + page_count
    return replace(page, number=number, warnings=tuple(replace(one, page=number) for one in page.warnings))


def _part(data: bytes) -> Part:
    """The invoice's lines. Files inside it are left out, and told."""
    files: list[str] = []
    lines = [f"{path}: {value}" for path, value in _leaves(data, files)]
    if not files:
        return Part(lines)
    names = clean(" ".join(files))[:MAX_EXCERPT]
    return Part(lines, (), [ReadingWarning(WarningCode.ATTACHMENTS_NOT_READ, None, len(files), names)])


def _leaves(data: bytes, files: list[str]) -> Iterator[tuple[str, str]]:
    if b"<!DOCTYPE" in data or b"<!ENTITY" in data:
        raise Unsupported("The XML declares entities, which invoices never do.")
    characters = 0
    for path, value in _below(parse_xml(data), "", files):
        characters += len(path) + len(value)
        if characters > MAX_CHARACTERS:  # paths grow with the depth, and each leaf repeats its own
            raise OverLimit(f"The XML invoice fills more than {MAX_CHARACTERS:,} characters.")
        yield path, value


def _below(node: Any, path: str, files: list[str]) -> Iterator[tuple[str, str]]:
    """The path and value of each element without elements. Elements of one name are counted from 0. What holds a file
    is only named, in `files`."""
    if etree.QName(node).localname in _FILES:
        files.append(next((node.get(name) for name in ("filename", "mimeCode") if node.get(name)), "without a name"))
        return
    children = [child for child in node if isinstance(child.tag, str)]
    if not children:
        value = " ".join((node.text or "").split())
        said = " ".join(f"{etree.QName(name).localname} {given}" for name, given in node.attrib.items())
        if value:
            yield path, f"{value} ({said})" if said else value
        return
    times = Counter(child.tag for child in children)
    seen: Counter[str] = Counter()
    for child in children:
        name = str(etree.QName(child).localname)
        index = f"[{seen[child.tag]}]" if times[child.tag] > 1 else ""
        seen[child.tag] += 1
        yield from _below(child, f"{path}.{name}{index}" if path else f"{name}{index}", files)
