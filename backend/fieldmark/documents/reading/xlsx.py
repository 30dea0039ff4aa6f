"""XLSX: the cells of each sheet with their addresses, and the values that were last calculated."""

from __future__ import annotations

import datetime
import io
import zipfile
from collections.abc import Sequence

from openpyxl import load_workbook

from fieldmark.documents.reading.archive import open_archive
from fieldmark.documents.reading.pages import Limits, clean
from fieldmark.documents.reading.pagination import Part, row_lines
from fieldmark.documents.reading.xlsx_visibility import SheetVisibility
from fieldmark.domain.reading_warnings import MAX_EXCERPT, ReadingWarning, WarningCode


def xlsx_parts(data: bytes, limits: Limits) -> Sequence[Part]:
    """A part for each visible sheet: its name, then a line a row with `A1: value` for each cell that has a value.

    A formula gives the value that was last calculated; none is evaluated. One that was never calculated is warned of.
    """
    open_archive(data, limits).close()
    book = load_workbook(io.BytesIO(data), read_only=True, data_only=True, keep_links=False)
    parts: list[Part] = []
    archive = zipfile.ZipFile(io.BytesIO(data))
    hidden: list[str] = []
    for sheet in book.worksheets:
        is_visible = sheet.sheet_state == "visible"
        # The dimensions a file declares make openpyxl pad every row to them.
        sheet.reset_dimensions()  # pyright: ignore
        visibility = SheetVisibility(archive, sheet)
        lines = [f"Sheet: {sheet.title}"]
        for row in sheet.iter_rows():
            cells: list[tuple[str, str]] = []
            for cell in row:
                value = _shown(cell.value)
                if not value:
                    continue
                if not is_visible or not visibility.shows(cell):
                    hidden.extend(clean(value).split())
                    continue
                cells.append((cell.coordinate, value))
            lines += row_lines(cells)
        if is_visible:
            parts.append(Part(lines, hidden, _without_values(visibility.formulas_without_values)))
            hidden = []  # the words of a hidden sheet are reported with the next visible one
    if hidden and parts:
        parts[-1].hidden += hidden
    return parts


def _without_values(addresses: Sequence[str]) -> list[ReadingWarning]:
    if not addresses:
        return []
    excerpt = clean(" ".join(addresses[:20]))[:MAX_EXCERPT]
    return [ReadingWarning(WarningCode.FORMULAS_WITHOUT_VALUES, None, len(addresses), excerpt)]


def _shown(value: object) -> str:
    """A value as a spreadsheet shows it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float):
        # 15 digits, not the 17 that tell doubles apart.
        return f"{value:.15g}"
    if isinstance(value, datetime.datetime):
        return value.date().isoformat() if value.time() == datetime.time() else value.isoformat(" ", "seconds")
    return " ".join(str(value).split())
