"""XLSX: the cells of each sheet with their addresses, and their last calculated values."""

from __future__ import annotations

import re
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from typing import Any

from openpyxl import load_workbook
from openpyxl.cell.rich_text import CellRichText, TextBlock
from openpyxl.chartsheet import Chartsheet
from openpyxl.utils import column_index_from_string, range_boundaries

from pagewords.archive import open_archive, rewritten
from pagewords.charts import drawing_lines, paragraphs
from pagewords.docx_style import MIN_FONT_POINTS
from pagewords.number_format import contains_value, format_value, stored_text
from pagewords.open_xml import (
    CONTENT_TYPES,
    etree,
    main_part,
    parse_xml,
    part_targets,
    picture_files,
    related_parts,
)
from pagewords.pages import Limits, clean
from pagewords.pagination import Part, row_lines, superscript
from pagewords.pictures import Picture, points
from pagewords.reading_warnings import MAX_EXCERPT, ReadingWarning, WarningCode

_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_COMPATIBLE = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_DRAWING = "{http://schemas.openxmlformats.org/drawingml/2006/spreadsheetDrawing}"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_S = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_STYLES = "xl/styles.xml"
_WORKBOOK = "xl/workbook.xml"
_THREADS = "{http://schemas.microsoft.com/office/spreadsheetml/2018/threadedcomments}"
_ADDRESS = re.compile(r"([A-Z]{1,3})([0-9]{1,7})")
# A header consists of codes (font, size, colour, section, field) and text.
_CODES = re.compile(r'(&(?:"[^"]{0,200}"?|\d{1,3}|K(?:\d\d[+-]\d{3}|[\dA-Fa-f]{6})|.|\Z))|([^&]+)', re.S)


def xlsx_parts(data: bytes, limits: Limits) -> Sequence[Part]:
    """Return a part for each visible sheet: its name, then a line per row with `A1: value` for each cell with a value.

    The texts of its drawings, its cell notes, and its printed headers and footers follow. A value is formatted as the
    sheet shows it. If the stored value differs, it follows in square brackets: round brackets would make it a negative
    amount. A formula gives its last calculated value; a formula without one gives a warning. Formulas are never
    evaluated.
    """
    archive = open_archive(data, limits)
    main = main_part(archive) or _WORKBOOK
    archive = _with_one_workbook(archive, main)
    if _STYLES in archive.namelist() and b"AlternateContent" in archive.read(_STYLES):
        archive = _with_few_styles(archive)
    try:
        book = _open_book(archive)
    except (TypeError, ValueError, LookupError, AttributeError):
        archive = _with_few_styles(archive)
        book = _open_book(archive)
    parts: list[Part] = []
    hidden: list[str] = []
    declared = _declared_sheets(archive, main)
    for sheet in book._sheets:
        is_visible = sheet.sheet_state == "visible"
        if isinstance(sheet, Chartsheet):
            part, state = declared.get(sheet.title, ("", ""))
            is_visible = state == "visible"
            drawn, pictures = _drawings(archive, part)
            if is_visible:
                parts.append(Part([f"Sheet: {sheet.title}", *drawn], hidden, [], pictures, []))
                hidden = []
            else:
                hidden.extend(clean(" ".join(drawn)).split())
            continue
        # openpyxl would pad every row to the dimensions that the file declares.
        sheet.reset_dimensions()  # pyright: ignore
        visibility = _SheetVisibility(archive, sheet)
        lines = [f"Sheet: {sheet.title}"]
        struck: list[str] = []
        drawn, pictures = _drawings(archive, sheet._worksheet_path.lstrip("/"))
        for row in sheet.iter_rows():
            cells: list[tuple[str, str]] = []
            cell: Any
            for cell in row:
                value = visibility.inline_texts.get(cell.coordinate, cell.value) if cell.value is not None else None
                if isinstance(value, CellRichText):
                    value = _plain_text(value, hidden, struck)
                if value is None or not (stored := stored_text(value)):
                    continue
                shown = " ".join(format_value(value, cell.number_format).split())
                if not is_visible or not shown or not visibility.shows(cell):
                    hidden.extend(clean(stored).split())
                elif cell.font is not None and cell.font.strike:
                    struck.extend(clean(shown).split())
                else:
                    is_whole = isinstance(value, bool) or contains_value(shown, value)
                    cells.append((cell.coordinate, shown if is_whole else f"{shown} [{stored}]"))
            lines += row_lines(cells)
        notes: list[str] = []
        for address, note in _notes(archive, sheet):
            text = " ".join(_plain_text(note, hidden, struck).split()) if is_visible else str(note)
            if text and is_visible and visibility.is_address_visible(address):
                notes.append(f"Note at {address}: {text}")
            else:
                hidden.extend(clean(text).split())
        if is_visible:
            heads, feet = (
                [f"{label}: {line}" for line in _header_lines(texts, sheet.title, hidden, struck)]
                for label, texts in (("Header", visibility.headers), ("Footer", visibility.footers))
            )
            lines = [*lines[:1], *heads, *lines[1:], *drawn, *notes, *feet]
            parts.append(
                Part(lines, hidden, _missing_values_warnings(visibility.formulas_without_values), pictures, struck)
            )
            hidden = []  # the words of a hidden sheet are reported with the next visible one
    if hidden and parts:
        parts[-1].hidden += hidden
    missing = [name for name in declared if name not in book.sheetnames]
    if missing and parts:
        excerpt = clean(", ".join(missing))[:MAX_EXCERPT]
        parts[-1].warnings.append(ReadingWarning(WarningCode.SHEETS_NOT_READ, None, len(missing), excerpt))
    return parts


def _with_one_workbook(archive: zipfile.ZipFile, main: str) -> zipfile.ZipFile:
    """Return the archive so that openpyxl reads the main part and its styles: it takes the first part with the type of
    a workbook, and the styles with the usual name."""
    styles = related_parts(archive, main, "styles")[:1]
    renamed = {styles[0]: _STYLES} if styles and styles[0] != _STYLES else {}
    types: Any = parse_xml(archive.read(CONTENT_TYPES)) if CONTENT_TYPES in archive.namelist() else []
    declared = [node for node in types if node.get("PartName") and node.get("ContentType", "").endswith("main+xml")]
    others = [node for node in declared if node.get("PartName", "").lstrip("/") != main]
    for node in others[len(others) == len(declared) :]:
        types.remove(node)
    if others and len(others) == len(declared):
        others[0].set("PartName", f"/{main}")
    if not others and not renamed:
        return archive
    content = etree.tostring(types)
    return rewritten(archive, {CONTENT_TYPES: lambda _: content}, renamed)


def _declared_sheets(archive: zipfile.ZipFile, main: str) -> dict[str, tuple[str, str]]:
    """Return the part and the state (`visible`) of each sheet that a workbook names, by its name. A sheet without
    contents has an empty part."""
    if main not in archive.namelist():
        return {}
    targets = part_targets(archive, main)
    sheets = parse_xml(archive.read(main)).iterfind(f"{_S}sheets/{_S}sheet")
    return {
        sheet.get("name", ""): (targets.get(sheet.get(f"{_R}id", ""), ""), sheet.get("state", "visible"))
        for sheet in sheets
    }


def _open_book(archive: zipfile.ZipFile) -> Any:
    source: Any = archive.fp
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about styles, and parts that are not read
        return load_workbook(source, read_only=True, data_only=True, keep_links=False, rich_text=True)


def _with_few_styles(archive: zipfile.ZipFile) -> zipfile.ZipFile:
    """Return a copy of a workbook with only the styles that are needed: number formats and fonts of cells. openpyxl
    refuses styles and attributes that it does not know, which Excel ignores, and miscounts alternative fonts."""

    def with_few_styles(content: bytes) -> bytes:
        root = parse_xml(content)
        for choice in root.findall(f".//{_COMPATIBLE}AlternateContent"):
            for fallback in choice.iterfind(f"{_COMPATIBLE}Fallback/*"):
                choice.addprevious(fallback)
            choice.getparent().remove(choice)
        for part in list(root):
            if etree.QName(part).localname not in ("numFmts", "fonts", "cellXfs"):
                root.remove(part)
        for node in root.iterfind(f"{_S}fonts/{_S}font"):
            for item in list(node):
                if etree.QName(item).localname not in ("strike", "sz", "vertAlign"):
                    node.remove(item)
        for node in root.iterfind(f"{_S}cellXfs/{_S}xf"):
            needed = {name: node.get(name) for name in ("numFmtId", "fontId") if node.get(name)}
            node.clear()
            node.attrib.update(needed)
        return etree.tostring(root)

    return rewritten(archive, {_STYLES: with_few_styles})


def _plain_text(value: CellRichText, hidden: list[str], struck: list[str]) -> str:
    """Return the text of a rich-text cell. Tiny and struck-out text goes to the lists."""
    text = ""
    for part in value:
        font = part.font if isinstance(part, TextBlock) else None
        piece = str(part)
        if font is not None and font.sz is not None and font.sz < MIN_FONT_POINTS:
            hidden.extend(clean(piece).split())
        elif font is not None and font.strike:
            struck.extend(clean(piece).split())
        elif font is not None and font.vertAlign in ("superscript", "subscript"):
            text += superscript(piece, text, is_lowered=font.vertAlign == "subscript")
        else:
            text += piece
    return text


def _notes(archive: zipfile.ZipFile, sheet: Any) -> Iterator[tuple[str, CellRichText]]:
    path = sheet._worksheet_path.lstrip("/")
    threads = [
        (node.get("ref", ""), node.findtext(f"{_THREADS}text") or "")
        for part in related_parts(archive, path, "threadedComment")
        for node in parse_xml(archive.read(part)).iter(f"{_THREADS}threadedComment")
    ]
    # A thread is also stored as an old note, which only asks the reader to update Excel.
    in_threads = {address for address, _ in threads}
    for part in related_parts(archive, path, "comments"):
        for node in parse_xml(archive.read(part)).iter(f"{_S}comment"):
            text = node.find(f"{_S}text")
            if text is not None and node.get("ref", "") not in in_threads:
                yield node.get("ref", ""), CellRichText.from_tree(text)
    for address, text in threads:
        yield address, CellRichText(text)


def _header_lines(texts: Sequence[str], title: str, hidden: list[str], struck: list[str]) -> list[str]:
    """Return the lines of headers or footers. Page number, date and file name are left out: only printing fills them
    in."""
    lines: dict[str, None] = {}
    for text in texts:
        section, size, script, is_struck = "", 10, "", False
        for code, plain in _CODES.findall(text):
            if code in ("&L", "&C", "&R"):
                section, size, script, is_struck = f"{section}\n", 10, "", False
            elif code[1:].isdecimal():
                size = int(code[1:])
            elif code == "&S":
                is_struck = not is_struck
            elif code in ("&X", "&Y"):
                script = "" if script == code else code
            shown = title if code == "&A" else "&" if code == "&&" else plain
            if size < MIN_FONT_POINTS or is_struck:
                (struck if is_struck else hidden).extend(clean(shown).split())
            else:
                section += superscript(shown, section, is_lowered=script == "&Y") if script else shown
        lines.update(dict.fromkeys(" ".join(line.split()) for line in section.splitlines()))
    return [line for line in lines if line]


def _drawings(archive: zipfile.ZipFile, sheet: str) -> tuple[list[str], list[Picture]]:
    """Return the lines of text, including those of charts, and the pictures over the cells of a sheet's part."""
    lines: list[str] = []
    pictures: list[Picture] = []
    for part in related_parts(archive, sheet, "drawing"):
        picture_file = picture_files(archive, part)
        root = parse_xml(archive.read(part))
        lines += paragraphs(root)
        for chart in related_parts(archive, part, "chart"):
            lines += drawing_lines(archive.read(chart))
        for picture in root.iter(f"{_DRAWING}pic"):
            for image in picture.iter(f"{_A}blip"):
                extent = picture.find(f"{_DRAWING}spPr/{_A}xfrm/{_A}ext")
                size = (None, None) if extent is None else (points(extent.get(side), "emu") for side in ("cx", "cy"))
                pictures.append(Picture(*picture_file(image.get(f"{_R}embed") or image.get(f"{_R}link")), *size))
    return lines, pictures


def _missing_values_warnings(addresses: Sequence[str]) -> list[ReadingWarning]:
    if not addresses:
        return []
    excerpt = clean(" ".join(addresses[:20]))[:MAX_EXCERPT]
    return [ReadingWarning(WarningCode.FORMULAS_WITHOUT_VALUES, None, len(addresses), excerpt)]


class _SheetVisibility:
    """Which cells of one sheet a person can see."""

    def __init__(self, archive: zipfile.ZipFile, sheet: Any) -> None:
        """Store which rows, columns and cells are hidden. `sheet` must be opened read-only by openpyxl, which gives it
        no row and column properties."""
        self._hidden_rows: set[int] = set()
        self._hidden_columns: list[tuple[int, int]] = []
        self.formulas_without_values: list[str] = []
        self.inline_texts: dict[str, Any] = {}  # strings with fonts, which openpyxl reads from shared strings only
        path = sheet._worksheet_path.lstrip("/")
        self.headers: list[str] = []
        self.footers: list[str] = []
        merged: list[tuple[int, int, int, int]] = []
        with archive.open(path) as source:
            number_of_row = 0
            for event, node in etree.iterparse(
                source, events=("start", "end"), resolve_entities=False, no_network=True, huge_tree=False
            ):
                if event == "end":
                    if node.tag == f"{_S}headerFooter":
                        self.headers, self.footers = (
                            [node.findtext(f"{_S}{name}{kind}") or "" for name in _printed_page_kinds(node)]
                            for kind in ("Header", "Footer")
                        )
                    elif node.tag == f"{_S}row":
                        if number_of_row not in self._hidden_rows:
                            self.formulas_without_values += _formulas_without_values(node)
                        for text in node.iterfind(f"{_S}c/{_S}is"):
                            if text.find(f"{_S}r") is not None:
                                self.inline_texts[text.getparent().get("r", "")] = CellRichText.from_tree(text)
                        node.clear()
                        while node.getprevious() is not None:
                            del node.getparent()[0]
                    continue
                if node.tag == f"{_S}row":
                    number = node.get("r", "")
                    number_of_row = int(number) if number.isdigit() else number_of_row + 1
                    # `zeroHeight` of the sheet hides only rows that the file does not list.
                    if node.get("hidden") not in (None, "0", "false") or _is_zero(node.get("ht")):
                        self._hidden_rows.add(number_of_row)
                elif node.tag == f"{_S}mergeCell":
                    left, top, right, bottom = range_boundaries(node.get("ref", ""))
                    merged.append((top or 1, left or 1, bottom or 1, right or 1))
                elif node.tag == f"{_S}col" and (node.get("hidden") in ("1", "true") or _is_zero(node.get("width"))):
                    self._hidden_columns.append((int(node.get("min")), int(node.get("max"))))
        self._merged = sorted(merged, reverse=True)
        self._merged_below = self._merged[:]  # the last one comes next
        self._merged_here: list[tuple[int, int, int, int]] = []

    def is_address_visible(self, address: str) -> bool:
        """Return whether a cell is shown. True for content that is not in a cell."""
        if (match := _ADDRESS.fullmatch(address)) is None:
            return True
        row, column = int(match[2]), column_index_from_string(match[1])
        is_covered = any(
            top <= row <= bottom and left <= column <= right and (row, column) != (top, left)
            for top, left, bottom, right in self._merged
        )
        return self._is_position_visible(row, column) and not is_covered

    def _is_position_visible(self, row: int, column: int) -> bool:
        return row not in self._hidden_rows and not any(one <= column <= two for one, two in self._hidden_columns)

    def _is_covered(self, row: int, column: int) -> bool:
        """Return whether a merged cell that starts elsewhere covers this one."""
        while self._merged_below and self._merged_below[-1][0] <= row:
            self._merged_here.append(self._merged_below.pop())
        if any(bottom < row for _, _, bottom, _ in self._merged_here):
            self._merged_here = [area for area in self._merged_here if area[2] >= row]
        return any(
            left <= column <= right and (row, column) != (top, left) for top, left, _, right in self._merged_here
        )

    def shows(self, cell: Any) -> bool:
        """Return whether the value of a cell is shown. Its colour is ignored. Rows must be asked for in order."""
        if not self._is_position_visible(cell.row, cell.column) or self._is_covered(cell.row, cell.column):
            return False
        if not cell.has_style:
            return True
        font = cell.font
        return font is None or font.sz is None or font.sz >= MIN_FONT_POINTS


def _printed_page_kinds(node: Any) -> list[str]:
    flags = (("first", "differentFirst"), ("odd", ""), ("even", "differentOddEven"))
    return [kind for kind, flag in flags if not flag or node.get(flag) in ("1", "true")]


def _formulas_without_values(row: Any) -> list[str]:
    found: list[str] = []
    for cell in row.iterchildren(f"{_S}c"):
        value = cell.find(f"{_S}v")
        is_empty = value is None or (not value.text and cell.get("t") != "str")
        if is_empty and cell.find(f"{_S}f") is not None and cell.find(f"{_S}is") is None:
            found.append(cell.get("r", ""))
    return found


def _is_zero(measure: str | None) -> bool:
    try:
        return measure is not None and float(measure) < 0.5
    except ValueError:
        return False
