"""The CSV and XLSX exports: numbers stay numbers, and no text becomes a formula in the program that opens it."""

from __future__ import annotations

import csv
import io
import json
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, time
from typing import Any

from pydantic import JsonValue

from fieldmark.domain.fields import Missing
from fieldmark.errors import NotFound
from fieldmark.services.exports.shape import Leaf, Table, leaves_of, list_tables

COLUMNS = ("path", "value", "status", "reason", "confidence", "page", "quote", "set_by_person", "proposed", "problem")
MAX_CELL = 32_000  # characters; Excel holds 32,767
MAX_SHEET_TITLE = 31
_FORMULA = frozenset("=+-@\t\r\n")
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
# Where a spreadsheet of another locale begins a cell: it splits at semicolons, and knows no quotes within a cell.
_INNER = re.compile("[;\t\r\n][\\s\"']*+(?=([=+\\-@\uff1d\uff0b\uff0d\uff20\u2212\ufe63\u207b])?)")
_NOT_IN_TITLES = re.compile(r"[\[\]:*?/\\']|[\x00-\x1f]")


def as_csv(extraction: Mapping[str, Any], list_name: str | None) -> bytes:
    """Return a CSV file with a row for each leaf; or with `list_name` (`items`, `items[].taxes`), for each item of a
    list of objects. Raise NotFound if there is no such list.

    UTF-8 with a byte order mark, without which Excel assumes another encoding. Lines end with CRLF. Text that could be
    a formula is prefixed with an apostrophe.
    """
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    leaves = leaves_of(extraction)
    if list_name is None:
        writer.writerow(COLUMNS)
        writer.writerows([plain_text(value) for value in row] for row in _rows(extraction, leaves))
    else:
        for row in _items(extraction, _find_table(list_tables(leaves, extraction.get("schema")), list_name)):
            writer.writerow([plain_text(value) for value in row])
    return out.getvalue().encode("utf-8-sig", "replace")


def as_xlsx(extraction: Mapping[str, Any]) -> bytes:
    """Return a workbook: a sheet with all leaves, and a sheet for each list of objects with one row per item."""
    from openpyxl import Workbook  # imported here: it takes long, and only this export needs it

    leaves = leaves_of(extraction)
    book = Workbook(write_only=True)
    titles: set[str] = set()
    _fill(book, sheet_title("Fields", titles), COLUMNS, list(_rows(extraction, leaves)))
    for table in list_tables(leaves, extraction.get("schema")):
        head, *rows = _items(extraction, table)
        _fill(book, sheet_title(table.name, titles), [str(name) for name in head], rows)
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def _rows(extraction: Mapping[str, Any], leaves: Sequence[Leaf]) -> Iterator[list[JsonValue]]:
    """Yield a row for each leaf, then one for each problem without a leaf."""
    problems = _problems(extraction)
    for leaf in leaves:
        yield [*_row(leaf), problems.pop(leaf.name, None)]
    for path, message in problems.items():
        yield [path, *[None] * (len(COLUMNS) - 2), message]


def _items(extraction: Mapping[str, Any], table: Table) -> Iterator[list[JsonValue]]:
    """Yield the header of a list's table, then a row for each item. `to_review` has its fields that a person has to
    look at, each with the reason. With a schema the last column has its problems."""
    has_schema = extraction.get("valid") is not None
    problems = _problems(extraction)
    yield ["path", *table.columns, "to_review", *(["problem"] if has_schema else [])]
    for path, row in table.rows.items():
        messages = [one for at, one in problems.items() if at == path or at.startswith((f"{path}.", f"{path}["))]
        values = [row[name].value if name in row else None for name in table.columns]
        to_review = [
            f"{column}: {leaf.status_text}" for column, leaf in row.items() if leaf.status and leaf.status.needs_person
        ]
        yield [path, *values, "; ".join(to_review) or None, *(["; ".join(messages) or None] if has_schema else [])]


def _problems(extraction: Mapping[str, Any]) -> dict[str, str]:
    messages: dict[str, str] = {}
    for one in extraction.get("problems") or ():
        at, message = str(one["path"]), str(one["message"])
        messages[at] = f"{messages[at]}; {message}" if at in messages else message
    return messages


def _row(leaf: Leaf) -> list[JsonValue]:
    proposed = "; ".join(
        "removed" if isinstance(value, Missing) else json.dumps(value, ensure_ascii=False) for value in leaf.proposals
    )
    return [
        leaf.name,
        leaf.value,
        leaf.status,
        leaf.reason,
        leaf.confidence,
        leaf.page,
        leaf.quote,
        True if leaf.by_person else None,
        proposed or None,
    ]


def _find_table(tables: Sequence[Table], name: str) -> Table:
    for table in tables:
        if table.name == name:
            return table
    names = ", ".join(table.name for table in tables[:10])
    raise NotFound(
        f"The extraction has no list of objects {name[:200]!r}. {f'Its lists are: {names}.' if names else ''}".strip()
    )


def _fill(book: Any, title: str, columns: Sequence[str], rows: Sequence[Sequence[JsonValue]]) -> None:
    from openpyxl.styles import Font, PatternFill
    from openpyxl.utils import get_column_letter

    sheet: Any = book.create_sheet(title)
    sheet.freeze_panes = "A2"
    sheet.auto_filter.ref = f"A1:{get_column_letter(len(columns))}{len(rows) + 1}"
    set_widths(sheet, columns, rows)
    head: list[Any] = []
    for name in columns:
        cell = xlsx_cell(sheet, name)
        cell.font, cell.fill = Font(bold=True, color="FFFFFF"), PatternFill("solid", fgColor="1F3A5F")
        head.append(cell)
    sheet.append(head)
    for row in rows:
        sheet.append([xlsx_cell(sheet, value) for value in row])


def set_widths(sheet: Any, columns: Sequence[JsonValue], rows: Sequence[Sequence[JsonValue]]) -> None:
    """Make the columns of a sheet as wide as the texts of the first rows, up to 60 characters."""
    from openpyxl.utils import get_column_letter

    for index, name in enumerate(columns):
        shown = [name, *(row[index] for row in rows[:200] if row[index] is not None)]
        sheet.column_dimensions[get_column_letter(index + 1)].width = min(max(len(str(one)) for one in shown) + 3, 60)


def xlsx_cell(sheet: Any, value: JsonValue) -> Any:
    """Return a cell for openpyxl. Text that looks like a formula stays text, even if a person edits the cell."""
    from openpyxl.cell import WriteOnlyCell
    from openpyxl.styles import Alignment

    if value is None or isinstance(value, bool) or (isinstance(value, int | float) and not _is_rounded(value)):
        return value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = _UNPRINTABLE.sub("\ufffd", text)
    # Set directly, so that openpyxl does not interpret the text as a formula or an error.
    cell: Any = WriteOnlyCell(sheet)
    cell._value, cell.data_type = text if len(text) <= MAX_CELL else text[:MAX_CELL] + "…", "s"
    if _could_be_formula(text):
        cell.quotePrefix = True
    if "\n" in text:
        cell.alignment = Alignment(wrap_text=True, vertical="top")
    return cell


def _is_rounded(number: float) -> bool:
    """Return whether a spreadsheet, which has 15 digits, would show other digits before the decimal point."""
    return abs(number) >= 10**15 and (isinstance(number, int) or float(f"{number:.15g}") != number)


def xlsx_day(sheet: Any, value: JsonValue) -> Any:
    """Return a cell with a date for a text that is one, YYYY-MM-DD; for any other value the same as `xlsx_cell`."""
    from openpyxl.cell import WriteOnlyCell

    try:
        day = datetime.combine(date.fromisoformat(str(value)), time())
    except ValueError:
        return xlsx_cell(sheet, value)
    if day.year < 1900:  # Excel has no earlier dates
        return xlsx_cell(sheet, value)
    cell: Any = WriteOnlyCell(sheet, day)
    cell.number_format = "yyyy-mm-dd"
    return cell


def plain_text(value: JsonValue) -> str:
    """Return a value for a CSV cell. Text that looks like a formula gets an apostrophe in front."""
    if value is None:
        return ""
    if isinstance(value, str):
        text = _INNER.sub(lambda found: found[0] + ("'" if found[1] else ""), _UNPRINTABLE.sub("\ufffd", value))
        return f"'{text}" if _could_be_formula(text) else text
    return json.dumps(value, ensure_ascii=False)


def _could_be_formula(text: str) -> bool:
    """Return whether a spreadsheet could read a text as a formula, also after trimming and Unicode normalisation."""
    if text[:1] in _FORMULA:
        return True
    for character in text:
        if character.isspace() or unicodedata.category(character) in ("Cc", "Cf"):
            continue
        return unicodedata.normalize("NFKC", character)[:1] in _FORMULA or character in "−﹣⁻"
    return False


def sheet_title(name: str, taken: set[str]) -> str:
    """Return a unique sheet title within Excel's limits."""
    base = " ".join(_NOT_IN_TITLES.sub(" ", _UNPRINTABLE.sub(" ", name)).split())[:MAX_SHEET_TITLE].rstrip() or "List"
    title, count = base, 1
    while title.casefold() in taken or title.casefold() == "history":  # reserved by Excel
        count += 1
        title = f"{base[: MAX_SHEET_TITLE - 1 - len(str(count))]} {count}"
    taken.add(title.casefold())
    return title
