"""XLSX: the cells of each sheet with their addresses, and the values that were last calculated."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from typing import Any

from openpyxl import load_workbook
from openpyxl.cell.rich_text import CellRichText, TextBlock

from fieldmark.documents.reading.archive import etree, open_archive, parse_xml, picture_files, related_parts
from fieldmark.documents.reading.charts import drawing_lines, paragraphs
from fieldmark.documents.reading.docx_style import SMALLEST_POINTS
from fieldmark.documents.reading.number_format import format_value, is_same, stored_text
from fieldmark.documents.reading.pages import Limits, clean
from fieldmark.documents.reading.pagination import Part, row_lines, superscript
from fieldmark.documents.reading.pictures import Picture, points
from fieldmark.domain.reading_warnings import MAX_EXCERPT, ReadingWarning, WarningCode

_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_DRAWING = "{http://schemas.openxmlformats.org/drawingml/2006/spreadsheetDrawing}"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_S = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"


def xlsx_parts(data: bytes, limits: Limits) -> Sequence[Part]:
    """A part for each visible sheet: its name, then a line a row with `A1: value` for each cell that has a value.

    The value is what the sheet shows, by the cell's number format. What it stores follows in brackets where it differs.
    A formula gives the value that was last calculated; none is evaluated. One that was never calculated is warned of.
    """
    open_archive(data, limits).close()
    book = load_workbook(io.BytesIO(data), read_only=True, data_only=True, keep_links=False, rich_text=True)
    parts: list[Part] = []
    archive = zipfile.ZipFile(io.BytesIO(data))
    hidden: list[str] = []
    for sheet in book.worksheets:
        is_visible = sheet.sheet_state == "visible"
        # The dimensions a file declares make openpyxl pad every row to them.
        sheet.reset_dimensions()  # pyright: ignore
        visibility = _SheetVisibility(archive, sheet)
        lines = [f"Sheet: {sheet.title}"]
        struck: list[str] = []
        drawn, pictures = _drawings(archive, sheet)
        for row in sheet.iter_rows():
            cells: list[tuple[str, str]] = []
            cell: Any
            for cell in row:
                value = visibility.inline_texts.get(cell.coordinate, cell.value) if cell.value is not None else None
                if isinstance(value, CellRichText):
                    value = _plain(value, hidden, struck)
                if value is None or not (stored := stored_text(value)):
                    continue
                shown = " ".join(format_value(value, cell.number_format).split())
                if not is_visible or not shown or not visibility.shows(cell):
                    hidden.extend(clean(stored).split())
                elif cell.font is not None and cell.font.strike:
                    struck.extend(clean(shown).split())
                else:
                    is_whole = isinstance(value, bool) or is_same(shown, value)
                    cells.append((cell.coordinate, shown if is_whole else f"{shown} ({stored})"))
            lines += row_lines(cells)
        if is_visible:
            lines += drawn
            parts.append(Part(lines, hidden, _without_values(visibility.formulas_without_values), pictures, struck))
            hidden = []  # the words of a hidden sheet are reported with the next visible one
    if hidden and parts:
        parts[-1].hidden += hidden
    return parts


def _plain(value: CellRichText, hidden: list[str], struck: list[str]) -> str:
    """Return the text of a cell whose parts have fonts of their own. What is tiny or struck out goes to the lists."""
    text = ""
    for part in value:
        font = part.font if isinstance(part, TextBlock) else None
        piece = str(part)
        if font is not None and font.sz is not None and font.sz < SMALLEST_POINTS:
            hidden.extend(clean(piece).split())
        elif font is not None and font.strike:
            struck.extend(clean(piece).split())
        elif font is not None and font.vertAlign in ("superscript", "subscript"):
            text += superscript(piece, text, is_lowered=font.vertAlign == "subscript")
        else:
            text += piece
    return text


def _drawings(archive: zipfile.ZipFile, sheet: Any) -> tuple[list[str], list[Picture]]:
    """Return the lines of text, of charts too, and the pictures that lie over a sheet's cells."""
    lines: list[str] = []
    pictures: list[Picture] = []
    for part in related_parts(archive, sheet._worksheet_path.lstrip("/"), "drawing"):
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


def _without_values(addresses: Sequence[str]) -> list[ReadingWarning]:
    if not addresses:
        return []
    excerpt = clean(" ".join(addresses[:20]))[:MAX_EXCERPT]
    return [ReadingWarning(WarningCode.FORMULAS_WITHOUT_VALUES, None, len(addresses), excerpt)]


class _SheetVisibility:
    """Which cells of one sheet a person can see."""

    def __init__(self, archive: zipfile.ZipFile, sheet: Any) -> None:
        """`sheet` is one that openpyxl opened read-only. Such a sheet does not know its rows and columns."""
        self._hidden_rows: set[int] = set()
        self._hidden_columns: list[tuple[int, int]] = []
        self.formulas_without_values: list[str] = []
        self.inline_texts: dict[str, Any] = {}  # with fonts of their own, which openpyxl reads from shared strings only
        path = sheet._worksheet_path.lstrip("/")
        hide_all = False
        with archive.open(path) as source:
            number_of_row = 0
            for event, node in etree.iterparse(
                source, events=("start", "end"), resolve_entities=False, no_network=True, huge_tree=False
            ):
                if event == "end":
                    if node.tag == f"{_S}row":
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
                    is_shown = node.get("hidden") in (None, "0", "false") and not _is_zero(node.get("ht"))
                    if not is_shown or (hide_all and node.get("hidden") is None):
                        self._hidden_rows.add(number_of_row)
                elif node.tag == f"{_S}sheetFormatPr":
                    hide_all = node.get("zeroHeight") in ("1", "true")
                elif node.tag == f"{_S}col" and (node.get("hidden") in ("1", "true") or _is_zero(node.get("width"))):
                    self._hidden_columns.append((int(node.get("min")), int(node.get("max"))))

    def shows(self, cell: Any) -> bool:
        """Whether the value of a cell that has one is shown, whatever its colour."""
        if cell.row in self._hidden_rows or any(first <= cell.column <= last for first, last in self._hidden_columns):
            return False
        if not cell.has_style:
            return True
        font = cell.font
        return font is None or font.sz is None or font.sz >= SMALLEST_POINTS


def _formulas_without_values(row: Any) -> list[str]:
    """The addresses of the cells whose formula was never calculated. An empty text is a value."""
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
