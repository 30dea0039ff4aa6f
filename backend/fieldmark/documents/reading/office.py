"""DOCX and XLSX: paragraphs and tables in order, and cells with their addresses. Archives are checked before use."""

from __future__ import annotations

import datetime
import importlib
import io
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import lxml.etree  # pyright: ignore[reportMissingTypeStubs]

from fieldmark.documents.reading.grid import Part, align, expand_tabs
from fieldmark.documents.reading.office_look import SheetShape, WordLook, WordStyles, table_ranges
from fieldmark.documents.reading.pages import MIB, Limits, clean
from fieldmark.documents.reading.sniff import DOCX
from fieldmark.errors import Unreadable

MAX_MEMBERS = 10_000
MAX_ROW = 160  # characters; a wider row of a sheet goes on in the next line

etree: Any = lxml.etree  # pyright: ignore

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_DECLARATIONS = [
    mark.encode(encoding) for mark in ("<!DOCTYPE", "<!ENTITY") for encoding in ("utf-8", "utf-16-le", "utf-16-be")
]


def open_archive(data: bytes, limits: Limits) -> zipfile.ZipFile:
    """The archive, if it unpacks within the limits and no XML in it declares entities. Raises Unreadable."""
    archive = zipfile.ZipFile(io.BytesIO(data))
    members = archive.infolist()
    if len(members) > MAX_MEMBERS:
        raise Unreadable(f"The document's archive holds {len(members):,} parts; the limit is {MAX_MEMBERS:,}.")
    if any(member.flag_bits & 1 for member in members):
        raise Unreadable("The document's archive is protected with a password.")
    # Python unpacks no more of a member than the size it declares, so the declared sizes can be relied on.
    total = sum(member.file_size for member in members)
    if total > limits.max_decoded_bytes:
        raise Unreadable(
            f"The document unpacks to {total / MIB:,.0f} MiB; the limit is {limits.max_decoded_bytes / MIB:,.0f} MiB."
        )
    for member in members:
        if member.filename.endswith((".xml", ".rels", ".vml")):
            content = archive.read(member)
            if any(mark in content for mark in _DECLARATIONS):
                raise Unreadable("The document's XML declares entities, which Office documents never do.")
    return archive


def prepared(media_type: str) -> Callable[[bytes, Limits], Sequence[Sequence[str]]]:
    """The reader of the format, with everything imported that it needs; openpyxl is slow to import."""
    if media_type == DOCX:
        return docx_parts
    importlib.import_module("openpyxl")
    return xlsx_parts


def docx_parts(data: bytes, limits: Limits) -> list[Sequence[str]]:
    """The document's lines: headers, then the body in order, then footnotes, endnotes and footers.

    A page break, or the place where Word last broke the page, starts a new part.
    """
    archive = open_archive(data, limits)
    names = set(archive.namelist())
    styles = WordStyles(_xml(archive, "word/styles.xml") if "word/styles.xml" in names else None)
    hidden: list[str] = []
    if "word/document.xml" not in names:
        raise Unreadable("The file is not a Word document: its main part is missing.")

    def around(kind: str) -> list[str]:
        # Variants for first and even pages mostly repeat each other.
        lines: dict[str, None] = {}
        for name in sorted(names):
            if re.fullmatch(rf"word/{kind}\d*\.xml", name):
                lines.update(
                    dict.fromkeys(
                        line for part in _Body(_xml(archive, name), styles, hidden).parts for line in part if line
                    )
                )
        return list(lines)

    parts = _Body(_xml(archive, "word/document.xml"), styles, hidden).parts
    parts[0] = [*around("header"), *parts[0]]
    parts[-1] = [*parts[-1], *around("footnotes"), *around("endnotes"), *around("footer")]
    return [Part(parts[0], hidden), *parts[1:]]


def _xml(archive: zipfile.ZipFile, name: str) -> Any:
    parser: Any = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    return etree.fromstring(archive.read(name), parser)


class _Body:
    """The lines of one part of a Word document, in `parts` that start on a new page."""

    def __init__(self, root: Any, styles: WordStyles, hidden: list[str], look: WordLook | None = None) -> None:
        self.parts: list[Sequence[str]] = []
        self._lines: list[str] = []
        self._styles = styles
        self._hidden = hidden
        self._blocks(root, look or styles.outermost)
        self.parts.append(self._lines)

    def _blocks(self, parent: Any, look: WordLook) -> None:
        for node in parent:
            if node.tag == f"{_W}p":
                self._paragraph(node, self._styles.of_paragraph(node, look))
            elif node.tag == f"{_W}tbl":
                inside = self._styles.of_table(node, look)
                self._lines.extend(align([self._cells(row, inside) for row in _within(node, "tr")]))
                self._lines.append("")
            else:  # body, content controls, custom XML, notes: what holds blocks in turn
                self._blocks(node, look)

    def _cells(self, row: Any, look: WordLook) -> list[str]:
        look = self._styles.of_row(row, look)
        cells = [
            _Body(cell, self._styles, self._hidden, self._styles.of_cell(cell, look)).parts
            for cell in _within(row, "tc")
        ]
        return [" ".join(line for part in parts for line in part if line.strip()) for parts in cells]

    def _paragraph(self, paragraph: Any, look: WordLook) -> None:
        open_line = ""
        boxes: list[Any] = []
        for kind, value, seen in self._inline(paragraph, look):
            if not seen:
                if kind == "text":
                    self._hidden.extend(clean(value).split())
            elif kind == "text":
                open_line += value
            elif kind == "box":
                boxes.append(value)
            elif kind == "line":
                self._lines.append(expand_tabs(open_line))
                open_line = ""
            else:
                if open_line.strip():
                    self._lines.append(expand_tabs(open_line))
                    open_line = ""
                self.parts.append(self._lines)
                self._lines = []
        self._lines.append(expand_tabs(open_line))
        for box in boxes:
            self._blocks(box, look.on_unknown())

    def _inline(self, node: Any, look: WordLook) -> Iterator[tuple[str, Any, bool]]:
        """What a paragraph holds, and whether it is seen: ("text", str), ("line", None), ("page", None) and
        ("box", element) for a text box."""
        for child in node:
            tag = child.tag
            if tag == f"{_W}t":
                yield "text", child.text or "", look.seen
            elif tag == f"{_W}tab":
                yield "text", "\t", look.seen
            elif tag == f"{_W}noBreakHyphen":
                yield "text", "-", look.seen
            elif tag in (f"{_W}br", f"{_W}cr"):
                yield ("page" if child.get(f"{_W}type") == "page" else "line"), None, look.seen
            elif tag == f"{_W}lastRenderedPageBreak":
                yield "page", None, True
            elif tag == f"{_W}txbxContent":
                yield "box", child, True
            # pPr holds tab stops, Fallback repeats the text box for old versions, del and moveFrom are gone from the
            # page.
            elif tag in (f"{_W}pPr", f"{_W}del", f"{_W}moveFrom", _FALLBACK):
                continue
            else:
                yield from self._inline(child, self._styles.of_run(child, look) if tag == f"{_W}r" else look)


def _within(parent: Any, name: str) -> Iterator[Any]:
    """The rows of a table or the cells of a row, also those inside content controls, but not those of inner tables."""
    for node in parent:
        if node.tag == f"{_W}{name}":
            yield node
        elif node.tag in (f"{_W}sdt", f"{_W}sdtContent", f"{_W}ins"):
            yield from _within(node, name)


def xlsx_parts(data: bytes, limits: Limits) -> Sequence[Part]:
    """A part for each visible sheet: its name, then a line a row with `A1: value` for each cell that has one.

    Formulas give the value that was last calculated; none is evaluated.
    """
    from openpyxl import load_workbook

    open_archive(data, limits).close()
    book = load_workbook(io.BytesIO(data), read_only=True, data_only=True, keep_links=False)
    parts: list[Part] = []
    archive = zipfile.ZipFile(io.BytesIO(data))
    painted = table_ranges(archive)
    hidden: list[str] = []
    for sheet in book.worksheets:
        visible = sheet.sheet_state == "visible"
        # The dimensions a file declares make openpyxl pad every row to them.
        sheet.reset_dimensions()  # pyright: ignore
        shape = SheetShape(archive, sheet, painted)
        lines = [f"Sheet: {sheet.title}"]
        for row in sheet.iter_rows():
            line = ""
            for cell in row:
                value = _value(cell.value)
                if not value:
                    continue
                if not visible or not shape.shows(cell):
                    hidden.extend(clean(value).split())
                    continue
                item = f"{cell.coordinate}: {value}"
                if line and len(line) + len(item) > MAX_ROW:
                    lines.append(line)
                    line = ""
                line += f"   {item}" if line else item
            if line:
                lines.append(line)
        if visible:
            parts.append(Part(lines, hidden))
            hidden = []  # that of a hidden sheet is told of the next one that is shown
    if hidden and parts:
        parts[-1].hidden += hidden
    return parts


def _value(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float):
        # As a spreadsheet shows it: 15 digits, not the 17 that tell doubles apart.
        return f"{value:.15g}"
    if isinstance(value, datetime.datetime):
        return value.date().isoformat() if value.time() == datetime.time() else value.isoformat(" ", "seconds")
    return " ".join(str(value).split())
