"""Electronic invoices: UBL, CII and FatturaPA, alone or attached to a PDF (ZUGFeRD, Factur-X), as lines of `path:
value`."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from pagewords.enclosed import Container, Enclosed
from pagewords.errors import OverLimit, Unreadable, Unsupported
from pagewords.open_xml import etree, parse_xml
from pagewords.pages import MIB, Limits, Page, clean
from pagewords.pagination import Part, paginate
from pagewords.pdf import Pdf
from pagewords.reading_warnings import MAX_EXCERPT, ReadingWarning, WarningCode
from pagewords.sniff import is_einvoice

# Elements that hold a file, as base64. In UBL, an Attachment has elements; in FatturaPA, it is the file.
_FILE_TAGS = frozenset({"EmbeddedDocumentBinaryObject", "AttachmentBinaryObject", "IncludedBinaryObject", "Attachment"})
MAX_CHARACTERS = 4_000_000
MAX_ATTACHMENTS = 100
MAX_INVOICE_BYTES = 5 * MIB
HEADING = "Machine-readable invoice inside the file. Where the printed pages differ from it, the printed pages count."


def read_einvoice(data: bytes) -> Container:
    """Return the lines of an electronic invoice that is a separate file, and the files embedded in it."""
    files: list[Enclosed] = []
    return Container([_read_part(data, files)], files)


def read_attachments(pdf: Pdf, limits: Limits) -> tuple[list[Page], list[ReadingWarning]]:
    """Return the pages of the e-invoice attached to a PDF, and warnings about attachments that were not read.

    The pages follow those of the PDF. The warnings are for its first page.
    """
    pages: list[Page] = []
    warnings: list[ReadingWarning] = []
    unread: list[str] = []
    for name, content in pdf.attachments(MAX_ATTACHMENTS, MAX_INVOICE_BYTES):
        is_first_invoice = not pages and is_einvoice(content)
        pages = embedded_pages(content, pdf.page_count, limits) if is_first_invoice else pages
        if not (is_first_invoice and pages):
            unread.append(name)
    if pdf.is_dynamic_form:
        warnings.append(ReadingWarning(WarningCode.FORM_NOT_READ, 1))
    if unread:
        excerpt = " ".join(unread)[:MAX_EXCERPT]
        warnings.append(ReadingWarning(WarningCode.ATTACHMENTS_NOT_READ, 1, len(unread), excerpt))
    return pages, warnings


def embedded_pages(data: bytes, page_count: int, limits: Limits) -> list[Page]:
    """Return the pages of an e-invoice, numbered after the `page_count` pages of its PDF; empty if it
    cannot be read."""
    try:
        files: list[Enclosed] = []
        part = _read_part(data, files)
        if files:
            names = clean(" ".join(file.name for file in files))[:MAX_EXCERPT]
            part.warnings.append(ReadingWarning(WarningCode.ATTACHMENTS_NOT_READ, None, len(files), names))
        part[:0] = [HEADING, ""]
        pages = paginate([part], "xml", replace(limits, max_pages=max(1, limits.max_pages - page_count)))
    except (etree.XMLSyntaxError, Unreadable):
        return []
    if pages:
        begins = ReadingWarning(WarningCode.MACHINE_READABLE, 1, len(pages))
        pages[0] = replace(pages[0], warnings=(begins, *pages[0].warnings))
    return [page.renumbered(page.number + page_count) for page in pages]


def _read_part(data: bytes, files: list[Enclosed]) -> Part:
    return Part(f"{path}: {value}" for path, value in _checked_leaves(data, files))


def _checked_leaves(data: bytes, files: list[Enclosed]) -> Iterator[tuple[str, str]]:
    if b"<!DOCTYPE" in data or b"<!ENTITY" in data:
        raise Unsupported("The XML declares entities, which invoices never do.")
    characters = 0
    for path, value in _iterate_leaves(parse_xml(data), "", files):
        characters += len(path) + len(value)
        if characters > MAX_CHARACTERS:  # paths grow with the depth, and each leaf repeats its path
            raise OverLimit(f"The XML invoice fills more than {MAX_CHARACTERS:,} characters.")
        yield path, value


def _iterate_leaves(node: Any, path: str, files: list[Enclosed]) -> Iterator[tuple[str, str]]:
    """Yield the path and value of each leaf element. Elements with the same name are counted from 0. Embedded
    files are added to `files` instead."""
    children = [child for child in node if isinstance(child.tag, str)]
    if etree.QName(node).localname in _FILE_TAGS and not children:
        if (node.text or "").strip():
            files.append(Enclosed(_file_name(node), partial(_decode_file, node.text)))
        return
    if not children:
        value = " ".join((node.text or "").split())
        attributes = " ".join(f"{etree.QName(name).localname} {text}" for name, text in node.attrib.items())
        if value:
            yield path, f"{value} ({attributes})" if attributes else value
        return
    total = Counter(child.tag for child in children)
    counted: Counter[str] = Counter()
    for child in children:
        name = str(etree.QName(child).localname)
        index = f"[{counted[child.tag]}]" if total[child.tag] > 1 else ""
        counted[child.tag] += 1
        yield from _iterate_leaves(child, f"{path}.{name}{index}" if path else f"{name}{index}", files)


def _file_name(node: Any) -> str:
    name = node.get("filename") or node.getparent().findtext("{*}NomeAttachment")
    return name or f"attachment.{(node.get('mimeCode') or 'bin').rsplit('/', 1)[-1]}"


def _decode_file(text: str, max_bytes: int) -> bytes:
    if len(text) * 3 // 4 > max_bytes + 3:
        raise OverLimit
    return base64.b64decode(text)
