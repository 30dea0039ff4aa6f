"""Which cells of a sheet a person can see (rows, columns, formats, sizes, colours), and which lack a value."""

from __future__ import annotations

import re
import zipfile
from typing import Any

import lxml.etree  # pyright: ignore[reportMissingTypeStubs]
from openpyxl.utils import range_boundaries

from fieldmark.documents.reading.colour import BLACK, WHITE, Colour, from_hex, is_distinct

etree: Any = lxml.etree  # pyright: ignore

SMALLEST_POINTS = 1.5

_S = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"

Range = tuple[int, int, int, int]
"""Cells: first column, first row, last column, last row."""


def table_ranges(archive: zipfile.ZipFile) -> list[Range]:
    """The ranges of a workbook's tables. The styles of tables paint their cells."""
    found: list[Range] = []
    for name in archive.namelist():
        if re.fullmatch(r"xl/tables/[^/]+\.xml", name):
            root = etree.fromstring(archive.read(name), etree.XMLParser(resolve_entities=False, no_network=True))
            found += _ranges(root.get("ref"))
    return found


def _ranges(text: str | None) -> list[Range]:
    found: list[Range] = []
    for part in (text or "").split():
        try:
            bounds = range_boundaries(part)
        except ValueError:
            continue
        if all(isinstance(bound, int) for bound in bounds):
            found.append(bounds)  # pyright: ignore
    return found


class SheetVisibility:
    """Which cells of one sheet a person can see."""

    def __init__(self, archive: zipfile.ZipFile, sheet: Any, painted: list[Range]) -> None:
        """`sheet` is one that openpyxl opened read-only. Such a sheet does not know its rows and columns."""
        self._hidden_rows: set[int] = set()
        self._hidden_columns: list[tuple[int, int]] = []
        self._painted = list(painted)
        self._by_style: dict[Any, bool | None] = {}
        self.formulas_without_values: list[str] = []
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
                elif node.tag == f"{_S}col":
                    if node.get("hidden") in ("1", "true") or _is_zero(node.get("width")):
                        self._hidden_columns.append((int(node.get("min")), int(node.get("max"))))
                elif node.tag == f"{_S}conditionalFormatting":
                    self._painted += _ranges(node.get("sqref"))

    def shows(self, cell: Any) -> bool:
        """Whether a person can see the value of a cell that has one."""
        if cell.row in self._hidden_rows or any(first <= cell.column <= last for first, last in self._hidden_columns):
            return False
        if not cell.has_style:
            return True
        style = cell.style_array if hasattr(cell, "style_array") else cell._style_id
        section = _section(cell.value)
        key = (str(style), section)
        if key not in self._by_style:
            self._by_style[key] = _style_shows(cell, section)
        shown = self._by_style[key]
        if shown is None:
            # As white as the sheet, if nothing else paints the cell.
            return any(
                left <= cell.column <= right and top <= cell.row <= bottom for left, top, right, bottom in self._painted
            )
        return shown


def _formulas_without_values(row: Any) -> list[str]:
    """The addresses of the cells whose formula was never calculated. An empty text is a value."""
    found: list[str] = []
    for cell in row.iterchildren(f"{_S}c"):
        value = cell.find(f"{_S}v")
        is_empty = value is None or (not value.text and cell.get("t") != "str")
        if is_empty and cell.find(f"{_S}f") is not None and cell.find(f"{_S}is") is None:
            found.append(cell.get("r", ""))
    return found


def _style_shows(cell: Any, section: int | None) -> bool | None:
    """Whether the cell's style lets a person see its text. None where the text is as white as an unpainted sheet."""
    sections = cell.number_format.split(";")
    if section is not None and len(sections) > max(section, 1) and not sections[section].strip():
        return False
    font, fill = cell.font, cell.fill
    if font is not None and font.sz is not None and font.sz < SMALLEST_POINTS:
        return False
    colour = _cell_colour(font.color) if font is not None and font.color is not None else BLACK
    if fill is not None and fill.fill_type == "solid":
        return is_distinct(colour, _cell_colour(fill.fgColor))
    if fill is not None and fill.fill_type:
        return True
    return None if not is_distinct(colour, WHITE) else True


def _section(value: object) -> int | None:
    """The section of a number format ("positive;negative;zero;text") that shows a value. None: any of them does."""
    if isinstance(value, str):
        return 3
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return 0 if value > 0 else 1 if value < 0 else 2
    return 0


def _is_zero(measure: str | None) -> bool:
    """Whether a height or width is given and as good as zero."""
    try:
        return measure is not None and float(measure) < 0.5
    except ValueError:
        return False


def _cell_colour(colour: Any) -> Colour | None:
    if colour is None:
        return None
    if colour.type == "rgb":
        return from_hex(colour.rgb)
    if colour.type == "indexed":
        return {0: BLACK, 8: BLACK, 64: BLACK, 1: WHITE, 9: WHITE, 65: WHITE}.get(colour.indexed)
    # The first colours of a theme are, in every theme that Office brings, the sheet's white and the ink's black.
    return {0: WHITE, 1: BLACK}.get(colour.theme) if not colour.tint else None
