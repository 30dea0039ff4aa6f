"""SQL views of tables, with a typed column for each field. The service only returns the statement."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, LiteralString

from psycopg.sql import SQL, Composable, Composed, Identifier, Literal

from fieldmark.domain.columns import Column, ColumnType
from fieldmark.stores.tables import Table, row_review_count, selected_extractions

_MAX_BYTES = 63  # of an identifier; Postgres truncates longer ones
_NOT_IN_NAMES: Final = re.compile(r"\W+")
_WORD_BREAK: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_VALUES: Final[dict[ColumnType, LiteralString]] = {
    "number": "max(number) filter (where pattern = {})",
    "date": "max(day) filter (where pattern = {})",
    "boolean": "bool_or(text = 'true') filter (where pattern = {} and kind = 'boolean')",
    "text": "max(text) filter (where pattern = {} and kind <> 'container')",
}


def view_name(table: Table) -> str:
    """Return the name of a table's view: `records_invoices`, or `records_invoices_items` if its rows are `items`."""
    return column_names([f"records {table.name} {table.rows or ''}"])[0]


def column_names(texts: Iterable[str], taken: Iterable[str] = ()) -> list[str]:
    """Return unique names of lower-case letters, digits and underscores, short enough for Postgres. A repeated name
    gets a number: `total_2`."""
    used, names = set(taken), list[str]()
    for text in texts:
        base = _NOT_IN_NAMES.sub("_", _WORD_BREAK.sub("_", text)).strip("_").lower() or "column"
        name, number = _truncate(base, ""), 1
        while name in used:
            number += 1
            name = _truncate(base, f"_{number}")
        used.add(name)
        names.append(name)
    return names


def _truncate(name: str, end: str) -> str:
    return name.encode()[: _MAX_BYTES - len(end)].decode(errors="ignore") + end


def view_statement(name: str, table: Table) -> str:
    """Return the statements that create the view and let members read it. Row policies apply to its reader. Incomplete
    extractions have rows, with `extraction_status` in_progress."""
    rows, columns = table.rows, list(table.columns.values())
    lists = 0 if rows is None else rows.count("[]") + 1
    about = ["document_id", "extraction_id", "filename", "extraction_status", "to_review", *(["path"] if lists else [])]
    names = column_names((column.path for column in columns), about)
    levels: list[list[tuple[str, Column]]] = [[] for _ in range(lists + 1)]
    for column_name, column in zip(names, columns, strict=True):
        levels[column.path.count("[]")].append((column_name, column))
    # The fields of the document, then those of its rows, then those of the lists in between.
    joins = [_fields(levels[0], "indexes = '{{}}'", 0)]
    if rows is not None:
        joins.append(_rows(f"{rows}[]", levels[lists], lists))
        joins += [_fields(levels[level], "indexes = rows.indexes[:{}]", level) for level in range(1, lists)]
    selected = [SQL("rows.path")] if lists else []
    selected += [
        SQL("{}.{}").format(_alias(column.path.count("[]"), lists), Identifier(column_name))
        for column_name, column in zip(names, columns, strict=True)
    ]
    statement = SQL(
        """create view public.{name} with (security_invoker = true) as
select e.document_id, e.id as extraction_id, d.filename, e.status as extraction_status,
  {review_count} as to_review{selected}
from ({extractions}
) as e
join public.documents as d on d.id = e.document_id{joins};
grant select on public.{name} to authenticated;
"""
    ).format(
        name=Identifier(name),
        review_count=row_review_count(table, "e", "rows", Literal),
        selected=Composed([SQL(", ") + one for one in selected]),
        extractions=selected_extractions(table, Literal),
        joins=Composed(joins),
    )
    return statement.as_string(None)


def _alias(level: int, lists: int) -> Identifier:
    return Identifier("rows" if lists and level == lists else f"fields_{level}")


def _fields(columns: Sequence[tuple[str, Column]], where: LiteralString, level: int) -> Composed:
    """Return the join of the fields that are inside `level` lists, but outside the list of the rows."""
    if not columns:
        return Composed([])
    return SQL(
        """
cross join lateral (
  select {}
  from public.fields where extraction_id = e.id and {}
) as {}"""
    ).format(SQL(",\n    ").join(_values(columns)), SQL(where).format(Literal(level)), _alias(level, 0))


def _rows(item: str, columns: Sequence[tuple[str, Column]], lists: int) -> Composed:
    """Return the join of the items with the pattern `item`, and of their fields."""
    path = SQL("max(path) filter (where pattern = {}) as path").format(Literal(item))
    return SQL(
        """
cross join lateral (
  select indexes, {values}
  from public.fields
  where extraction_id = e.id and cardinality(indexes) = {lists} and starts_with(pattern, {item})
  group by indexes having bool_or(pattern = {item} and kind = 'container')
) as rows"""
    ).format(values=SQL(",\n    ").join([path, *_values(columns)]), lists=Literal(lists), item=Literal(item))


def _values(columns: Sequence[tuple[str, Column]]) -> list[Composable]:
    return [
        SQL("{} as {}").format(SQL(_VALUES[column.type]).format(Literal(column.path)), Identifier(name))
        for name, column in columns
    ]
