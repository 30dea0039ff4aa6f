"""Exports of tables as JSON, CSV, XLSX or Parquet."""

from __future__ import annotations

import contextlib
import csv
import io
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any, Final, Literal
from urllib.parse import quote
from uuid import UUID

from pydantic import JsonValue

from fieldmark.db.pool import Database
from fieldmark.db.worker_thread import run_in_thread
from fieldmark.domain.columns import Column, ColumnType
from fieldmark.domain.status_text import reason_text, status_text
from fieldmark.domain.statuses import FieldStatus
from fieldmark.domain.table_query import TableQuery
from fieldmark.errors import NotInstalled
from fieldmark.identity.scope import Scope
from fieldmark.services.exports.export import MEDIA_TYPES, ExportedFile
from fieldmark.services.exports.sheet import plain_text, set_widths, sheet_title, xlsx_cell, xlsx_day
from fieldmark.services.tables import RowName, read_table
from fieldmark.stores.table_views import column_names
from fieldmark.stores.tables import TableRow

TableFormat = Literal["json", "csv", "xlsx", "parquet"]
_MEDIA_TYPES: Final = {**MEDIA_TYPES, "parquet": "application/vnd.apache.parquet"}
_OWN: Final = ("external_id", "metadata")
"""The caller's own key and data of a document."""

_ABOUT: Final = (*("document_id", "filename", "row", "status", "reviewed", "to_review", "accepted"), *_OWN)
"""The columns before the fields. `row` is the path of a list item, such as `items[2]`. `status` says why a row of a
stack failed, or which document it duplicates. `to_review` is the number of fields of the row that a person has to look
at, also outside the columns. `accepted` has the columns in which a person accepted what needed
review, such as `total: missing`."""

_IDS: Final = 3
"""How many columns of an XLSX file are after the fields: the caller's own key and data, and the document's id."""

_MAX_LINKS: Final = 65_000
"""Links of a sheet. Excel repairs a file with more than 65,530 by removing them; the cells after these are formulas,
which programs other than spreadsheets show as empty."""
_MAX_LITERAL: Final = 250  # characters; Excel accepts 255 in a text literal of a formula


async def export_table(
    database: Database,
    scope: Scope,
    table_id: UUID,
    query: TableQuery,
    file_format: TableFormat,
    service_url: str,
    only: Sequence[RowName] | None = None,
) -> ExportedFile:
    """Return all rows as a file, or those that `only` names. The links of an XLSX file lead to `service_url`. Raise
    like `list_rows`, and NotInstalled if the format needs a package."""
    if file_format == "parquet":
        await run_in_thread(_pyarrow)
    table = await read_table(database, scope, table_id, query, only=only, as_text=file_format == "parquet")
    writer = _WRITERS[file_format](table.name, table.columns, service_url)
    async for rows in table.batches:
        await run_in_thread(writer.add, rows)
    content = await run_in_thread(writer.finish)
    return ExportedFile(content, _MEDIA_TYPES[file_format], f"{table.name}.{file_format}")


class _JsonWriter:
    """A list with an object for each row. `cells` has the statuses and locations of its values."""

    def __init__(self, schema_name: str, columns: Sequence[Column], service_url: str) -> None:
        self._texts: list[str] = []

    def add(self, rows: Sequence[TableRow]) -> None:
        self._texts += [json.dumps(_as_json(row), ensure_ascii=False, default=str) for row in rows]

    def finish(self) -> bytes:
        return f"[{','.join(self._texts)}]\n".encode("utf-8", "replace")


class _CsvWriter:
    """A line for each row, for Excel: UTF-8 with a byte order mark."""

    def __init__(self, schema_name: str, columns: Sequence[Column], service_url: str) -> None:
        self._columns = columns
        self._out = io.StringIO(newline="")
        self._writer = csv.writer(self._out)
        self._writer.writerow([plain_text(name) for name in (*_ABOUT, *(column.heading for column in columns))])

    def add(self, rows: Sequence[TableRow]) -> None:
        for row in rows:
            self._writer.writerow([plain_text(value) for value in _values(row, self._columns)])

    def finish(self) -> bytes:
        return self._out.getvalue().encode("utf-8-sig", "replace")


class _XlsxWriter:
    """A workbook with two sheets of the same shape: the values, and the status of each, with its page and quote and a
    link to it in the document. The filename comes first and the id last, since people read these sheets; `row` is left
    out where each row is a document."""

    def __init__(self, schema_name: str, columns: Sequence[Column], service_url: str) -> None:
        from openpyxl import Workbook  # imported here: it takes long, and only this export needs it
        from openpyxl.cell import WriteOnlyCell
        from openpyxl.styles import Font

        self._columns, self._service_url = columns, service_url.rstrip("/")
        self._has_items = any("[]" in column.path for column in columns)
        self._about = len(self._id_last(_ABOUT)) - _IDS  # columns before the fields
        self._book = Workbook(write_only=True)
        self._rows, self._links = 0, 0
        titles: set[str] = set()
        self._values, self._locations = (
            self._book.create_sheet(sheet_title(title, titles)) for title in (schema_name, "Locations")
        )
        linked: Any = WriteOnlyCell(self._locations)
        linked.font = Font(color="0563C1", underline="single")
        self._link_style = linked._style  # (Setting a font looks it up among those of the workbook.)

    def add(self, rows: Sequence[TableRow]) -> None:
        lines = [self._id_last(_values(row, self._columns)) for row in rows]
        if not self._rows:
            self._begin(rows, lines)
        for row, line in zip(rows, lines, strict=True):
            cells = [row.cells.get(column.path) for column in self._columns]
            start = self._about
            about: list[Any] = [xlsx_cell(self._locations, value) for value in line[:start]]
            values = [
                xlsx_day(self._values, value) if cell and cell["kind"] == "day" else xlsx_cell(self._values, value)
                for cell, value in zip(cells, line[start:-_IDS], strict=True)
            ]
            first, last = ([xlsx_cell(self._values, value) for value in part] for part in (line[:start], line[-_IDS:]))
            self._values.append([*first, *values, *last])
            locations = [cell and self._location(row, cell) for cell in cells]
            last = [xlsx_cell(self._locations, value) for value in line[-_IDS:]]
            self._locations.append([*about, *locations, *last])
            self._rows += 1

    def finish(self) -> bytes:
        from openpyxl.utils import get_column_letter

        if not self._rows:
            self._begin([], [])
        last = get_column_letter(self._about + len(self._columns) + _IDS)
        for sheet in (self._values, self._locations):
            sheet.auto_filter.ref = f"A1:{last}{self._rows + 1}"
        out = io.BytesIO()
        self._book.save(out)
        return out.getvalue()

    def _id_last(self, values: Sequence[JsonValue]) -> list[JsonValue]:
        """Return the values of a row, which begin with those of `_ABOUT`, with the ids at the end."""
        document_id, filename, item, *others = values[: len(_ABOUT)]
        about, own = others[:-2], others[-2:]
        return [filename, *([item] if self._has_items else []), *about, *values[len(_ABOUT) :], *own, document_id]

    def _begin(self, rows: Sequence[TableRow], lines: Sequence[Sequence[JsonValue]]) -> None:
        """Write the headers, with the widths of the columns by these rows. Widths cannot be set later."""
        names: list[JsonValue] = self._id_last([*_ABOUT, *(column.heading for column in self._columns)])
        locations: list[list[JsonValue]] = []
        for row, line in zip(rows, lines, strict=True):
            cells = [row.cells.get(column.path) for column in self._columns]
            texts = [cell and _location_text(cell) for cell in cells]
            locations.append([*line[: self._about], *texts, *line[-_IDS:]])
        for sheet, shown in ((self._values, lines), (self._locations, locations)):
            sheet.freeze_panes = "B2"
            set_widths(sheet, names, shown)
            sheet.append([xlsx_cell(sheet, name) for name in names])

    def _location(self, row: TableRow, cell: Mapping[str, Any]) -> Any:
        """Return a cell with the status, and with the page and quote if the value has them. A value links to its
        location in the document."""
        text = _location_text(cell)
        if cell["value"] is None:
            return xlsx_cell(self._locations, text)
        document = f"{self._service_url}/documents/{row.document_id}"
        url = f"{document}?extraction={row.extraction_id}&field={_in_query(cell['path'])}"
        if self._links == _MAX_LINKS:
            url = url if len(url) <= _MAX_LITERAL else document
            return f'=HYPERLINK("{url}","{_in_formula(text)}")'
        self._links += 1
        linked = xlsx_cell(self._locations, text)
        linked.hyperlink, linked._style = url, self._link_style
        return linked


@lru_cache(4096)
def _in_query(path: str) -> str:
    """Return a path for an address of the web UI, which reads what is JSON as JSON, such as `123` or `["a.b"]`."""
    with contextlib.suppress(ValueError):
        json.loads(path)
        path = json.dumps(path)
    return quote(path, safe="")


def _location_text(cell: Mapping[str, Any]) -> str:
    at = "" if cell["page"] is None else f", page {cell['page']}"
    printed = f": {cell['quote']}" if at and cell["quote"] else ""
    status = status_text(cell["status"], cell["reason"])
    text = f"{status}{at}{printed}"
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)


def _in_formula(text: str) -> str:
    return text[:_MAX_LITERAL].replace('"', '""')[:_MAX_LITERAL].rstrip('"')


class _ParquetWriter:
    """The rows of the SQL view of the table, with the same names of columns; after them, the caller's own key and data.
    A column is text if it has a value of another type, or with more digits or another format than its type allows."""

    def __init__(self, schema_name: str, columns: Sequence[Column], service_url: str) -> None:
        self._columns = columns
        names = [*_PARQUET_ABOUT, *column_names((column.path for column in columns), _PARQUET_ABOUT)]
        self._names = [*names, *column_names(_OWN, names)]
        self._kinds: list[set[str]] = [set() for _ in columns]
        self._batches: list[Any] = []
        pa = self._pa = _pyarrow()
        self._types: Mapping[ColumnType, Any] = {
            "number": pa.decimal128(38, 9),
            "date": pa.date32(),
            "boolean": pa.bool_(),
            "text": pa.string(),
        }

    def add(self, rows: Sequence[TableRow]) -> None:
        texts: list[list[Any]] = [
            [str(row.document_id) for row in rows],
            [row.extraction_id and str(row.extraction_id) for row in rows],
            [row.filename for row in rows],
            [row.extraction_status for row in rows],
            [str(row.review_count) for row in rows],
            [row.path for row in rows],
        ]
        for column, kinds in zip(self._columns, self._kinds, strict=True):
            cells = [row.cells.get(column.path) for row in rows]
            texts.append([cell and cell["value"] for cell in cells])
            kinds.update(cell["kind"] for cell in cells if cell and cell["kind"])
        texts += [[row.external_id for row in rows], [_metadata_text(row) for row in rows]]
        arrays = [self._pa.array(values, self._pa.string()) for values in texts]
        self._batches.append(self._pa.RecordBatch.from_arrays(arrays, names=self._names))

    def finish(self) -> bytes:
        import_module("pyarrow.parquet")
        schema = self._pa.schema([(name, self._pa.string()) for name in self._names])
        table = self._pa.Table.from_batches(self._batches, schema)
        at = _PARQUET_ABOUT.index("to_review")
        table = table.set_column(at, "to_review", table.column(at).cast(self._pa.int32()))
        for number, (column, kinds) in enumerate(zip(self._columns, self._kinds, strict=True), len(_PARQUET_ABOUT)):
            if kinds <= {_KINDS[column.type]}:
                try:
                    typed = table.column(number).cast(self._types[column.type])
                except self._pa.ArrowInvalid:
                    continue
                table = table.set_column(number, table.column_names[number], typed)
        out = io.BytesIO()
        self._pa.parquet.write_table(table, out)
        return out.getvalue()


_PARQUET_ABOUT: Final = ("document_id", "extraction_id", "filename", "extraction_status", "to_review", "path")
_KINDS: Final[Mapping[ColumnType, str]] = {"number": "number", "date": "day", "boolean": "boolean", "text": "text"}


def _pyarrow() -> Any:
    try:
        return import_module("pyarrow")
    except ImportError:
        raise NotInstalled(
            "Parquet files need a package of the service: pip install 'fieldmark[parquet]'. Or export CSV."
        ) from None


_WRITERS: Final = {"json": _JsonWriter, "csv": _CsvWriter, "xlsx": _XlsxWriter, "parquet": _ParquetWriter}


def _values(row: TableRow, columns: Sequence[Column]) -> list[JsonValue]:
    cells = [row.cells.get(column.path) for column in columns]
    status = row.status if row.error is None else f"{row.status}: {row.error}"
    status += "" if row.duplicate_of_filename is None else f" of {row.duplicate_of_filename}"
    accepted = [
        f"{column.heading}: {reason_text(cell['reason'])}"
        for column, cell in zip(columns, cells, strict=True)
        if cell and cell["status"] == FieldStatus.ACCEPTED and cell["reason"]
    ]
    about: list[JsonValue] = [str(row.document_id), row.filename, row.path, status, row.is_reviewed, row.review_count]
    about += ["; ".join(accepted) or None, row.external_id, _metadata_text(row)]
    return [*about, *(cell and cell["value"] for cell in cells)]


def _metadata_text(row: TableRow) -> str | None:
    return json.dumps(row.metadata, ensure_ascii=False) if row.metadata else None


def _as_json(row: TableRow) -> dict[str, Any]:
    return {
        "document_id": row.document_id,
        "external_id": row.external_id,
        "metadata": row.metadata,
        "filename": row.filename,
        "row": row.path,
        "status": row.status,
        "error": row.error,
        "error_code": row.error_code,
        "duplicate_of": row.duplicate_of,
        "duplicate_of_filename": row.duplicate_of_filename,
        "reviewed": row.is_reviewed,
        "to_review": row.review_count,
        "values": {name: cell["value"] for name, cell in row.cells.items()},
        "cells": row.cells,
    }
