"""Exports of records: a table of extractions as JSON, CSV, XLSX or Parquet."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Final, Literal
from uuid import UUID

from pydantic import JsonValue

from fieldmark.db.pool import Database
from fieldmark.db.worker_thread import run_in_thread
from fieldmark.domain.columns import Column, ColumnType
from fieldmark.errors import NotInstalled
from fieldmark.identity.scope import Scope
from fieldmark.services.exports.export import MEDIA_TYPES, ExportedFile
from fieldmark.services.exports.table import plain_text, sheet_title, xlsx_cell, xlsx_day
from fieldmark.services.records import RecordName, RecordsRequest, read_table
from fieldmark.stores.record_views import column_names
from fieldmark.stores.records import RecordRow

RecordsFormat = Literal["json", "csv", "xlsx", "parquet"]
_MEDIA_TYPES: Final = {**MEDIA_TYPES, "parquet": "application/vnd.apache.parquet"}
_ABOUT: Final = ("document_id", "filename", "row", "status", "reviewed")
"""The columns before the fields. `row` is the path of a list item, such as `items[2]`. `status` says why a row of a
stack failed, or which document it duplicates."""

_MAX_LITERAL = 250  # characters; Excel accepts 255 in a text literal of a formula


async def export_records(
    database: Database,
    scope: Scope,
    request: RecordsRequest,
    file_format: RecordsFormat,
    service_url: str,
    only: Sequence[RecordName] | None = None,
) -> ExportedFile:
    """Return all records as a file, or those that `only` names. The links of an XLSX file lead to `service_url`. Raise
    like `list_records`, and NotInstalled if the format needs a package."""
    if file_format == "parquet":
        await run_in_thread(_pyarrow)
    table = await read_table(database, scope, request, only=only, as_text=file_format == "parquet")
    writer = _WRITERS[file_format](table.name, table.columns, service_url)
    async for rows in table.batches:
        await run_in_thread(writer.add, rows)
    content = await run_in_thread(writer.finish)
    return ExportedFile(content, _MEDIA_TYPES[file_format], f"{table.name}.{file_format}")


class _JsonWriter:
    """A list with an object for each record. `cells` has the statuses and locations of its values."""

    def __init__(self, schema_name: str, columns: Sequence[Column], service_url: str) -> None:
        self._texts: list[str] = []

    def add(self, rows: Sequence[RecordRow]) -> None:
        self._texts += [json.dumps(_as_json(row), ensure_ascii=False, default=str) for row in rows]

    def finish(self) -> bytes:
        return f"[{','.join(self._texts)}]\n".encode("utf-8", "replace")


class _CsvWriter:
    """A line for each record, for Excel: UTF-8 with a byte order mark."""

    def __init__(self, schema_name: str, columns: Sequence[Column], service_url: str) -> None:
        self._columns = columns
        self._out = io.StringIO(newline="")
        self._writer = csv.writer(self._out)
        self._writer.writerow([plain_text(name) for name in (*_ABOUT, *(column.heading for column in columns))])

    def add(self, rows: Sequence[RecordRow]) -> None:
        for row in rows:
            self._writer.writerow([plain_text(value) for value in _values(row, self._columns)])

    def finish(self) -> bytes:
        return self._out.getvalue().encode("utf-8-sig", "replace")


class _XlsxWriter:
    """A workbook with two sheets of the same shape: the values, and the status of each, with its page and quote as a
    link to the document."""

    def __init__(self, schema_name: str, columns: Sequence[Column], service_url: str) -> None:
        from openpyxl import Workbook  # imported here: it takes long, and only this export needs it

        self._columns, self._service_url = columns, service_url.rstrip("/")
        self._book = Workbook(write_only=True)
        self._rows = 1
        titles: set[str] = set()
        self._values, self._locations = (
            self._book.create_sheet(sheet_title(title, titles)) for title in (schema_name, "Locations")
        )
        names = [*_ABOUT, *(column.heading for column in columns)]
        for sheet in (self._values, self._locations):
            sheet.freeze_panes = "C2"
            sheet.append([xlsx_cell(sheet, name) for name in names])

    def add(self, rows: Sequence[RecordRow]) -> None:
        for row in rows:
            values = _values(row, self._columns)
            cells = [row.cells.get(column.path) for column in self._columns]
            kinds: list[Any] = [*([None] * len(_ABOUT)), *(cell and cell["kind"] for cell in cells)]
            self._values.append(
                [
                    xlsx_day(self._values, value) if kind == "day" else xlsx_cell(self._values, value)
                    for kind, value in zip(kinds, values, strict=True)
                ]
            )
            self._rows += 1
            about: list[Any] = [xlsx_cell(self._locations, value) for value in values[: len(_ABOUT)]]
            self._locations.append([*about, *(cell and self._location(row.document_id, cell) for cell in cells)])

    def finish(self) -> bytes:
        from openpyxl.utils import get_column_letter

        last = get_column_letter(len(_ABOUT) + len(self._columns))
        for sheet in (self._values, self._locations):
            sheet.auto_filter.ref = f"A1:{last}{self._rows}"
        out = io.BytesIO()
        self._book.save(out)
        return out.getvalue()

    def _location(self, document_id: UUID, cell: Mapping[str, Any]) -> str:
        """Return the status; for a value with a page, a formula that also shows the page and opens the document."""
        if cell["page"] is None:
            return cell["status"]
        quote = f": {cell['quote']}" if cell["quote"] else ""
        shown = f"{cell['status']}, page {cell['page']}{quote}"
        text = "".join(c if c.isprintable() else " " for c in shown)[:_MAX_LITERAL]
        text = text.replace('"', '""')[:_MAX_LITERAL].rstrip('"')
        return f'=HYPERLINK("{self._service_url}/documents/{document_id}","{text}")'


class _ParquetWriter:
    """The rows of the SQL view of the table, with the same names of columns. A column is text if it has a value of
    another type, or with more digits or another format than its type allows."""

    def __init__(self, schema_name: str, columns: Sequence[Column], service_url: str) -> None:
        self._columns = columns
        self._names = column_names((column.path for column in columns), _PARQUET_ABOUT)
        self._kinds: list[set[str]] = [set() for _ in columns]
        self._batches: list[Any] = []
        pa = self._pa = _pyarrow()
        self._types: Mapping[ColumnType, Any] = {
            "number": pa.decimal128(38, 9),
            "date": pa.date32(),
            "boolean": pa.bool_(),
            "text": pa.string(),
        }

    def add(self, rows: Sequence[RecordRow]) -> None:
        texts = [
            [str(row.document_id) for row in rows],
            [row.extraction_id and str(row.extraction_id) for row in rows],
            [row.filename for row in rows],
            [row.path for row in rows],
        ]
        for column, kinds in zip(self._columns, self._kinds, strict=True):
            cells = [row.cells.get(column.path) for row in rows]
            texts.append([cell and cell["value"] for cell in cells])
            kinds.update(cell["kind"] for cell in cells if cell and cell["kind"])
        names = [*_PARQUET_ABOUT, *self._names]
        arrays = [self._pa.array(values, self._pa.string()) for values in texts]
        self._batches.append(self._pa.RecordBatch.from_arrays(arrays, names=names))

    def finish(self) -> bytes:
        import_module("pyarrow.parquet")
        schema = self._pa.schema([(name, self._pa.string()) for name in (*_PARQUET_ABOUT, *self._names)])
        table = self._pa.Table.from_batches(self._batches, schema)
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


_PARQUET_ABOUT: Final = ("document_id", "extraction_id", "filename", "path")
_KINDS: Final[Mapping[ColumnType, str]] = {"number": "number", "date": "day", "boolean": "boolean", "text": "text"}


def _pyarrow() -> Any:
    try:
        return import_module("pyarrow")
    except ImportError:
        raise NotInstalled(
            "Parquet files need a package of the service: pip install 'fieldmark[parquet]'. Or export CSV."
        ) from None


_WRITERS: Final = {"json": _JsonWriter, "csv": _CsvWriter, "xlsx": _XlsxWriter, "parquet": _ParquetWriter}


def _values(row: RecordRow, columns: Sequence[Column]) -> list[JsonValue]:
    cells = [row.cells.get(column.path) for column in columns]
    status = row.status if row.error is None else f"{row.status}: {row.error}"
    status += "" if row.duplicate_of_filename is None else f" of {row.duplicate_of_filename}"
    about: list[JsonValue] = [str(row.document_id), row.filename, row.path, status, row.is_reviewed]
    return [*about, *(cell and cell["value"] for cell in cells)]


def _as_json(row: RecordRow) -> dict[str, Any]:
    return {
        "document_id": row.document_id,
        "filename": row.filename,
        "row": row.path,
        "status": row.status,
        "error": row.error,
        "error_code": row.error_code,
        "duplicate_of": row.duplicate_of,
        "duplicate_of_filename": row.duplicate_of_filename,
        "reviewed": row.is_reviewed,
        "values": {name: cell["value"] for name, cell in row.cells.items()},
        "cells": row.cells,
    }
