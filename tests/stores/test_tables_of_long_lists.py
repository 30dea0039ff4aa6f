"""A table of the items of a list reads as many values as it has rows, not its square."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from fieldmark.db.pool import Connection
from fieldmark.domain.columns import list_columns
from fieldmark.domain.document_filters import DocumentFilters, FieldCondition
from fieldmark.domain.statuses import FieldStatus
from fieldmark.domain.table_query import TableQuery
from fieldmark.stores import table_marks, tables
from fieldmark.stores.library import schemas
from fieldmark.stores.rows import value_of
from fieldmark.stores.tables import Table
from library_rows import LibraryDocument, insert_documents

pytestmark = pytest.mark.anyio

ROWS = 300
ITEM = {"type": "object", "properties": {"price": {"type": "number"}}}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"vendor": {"type": "string"}, "items": {"type": "array", "items": ITEM}},
}
COLUMNS = {column.path: column for column in list_columns(SCHEMA, "items")}


def has_status(**more: Any) -> dict[str, Any]:
    return {"cell_statuses": [FieldStatus.CONFIRMED], **more}


def meets(condition: str) -> dict[str, Any]:
    return {"where": DocumentFilters(fields=(FieldCondition.parse(condition),))}


async def load(conn: Any, table: Table, query: TableQuery) -> Any:
    keys, _ = await tables.find_rows(conn, table, query, limit=1_000)
    return await tables.load_rows(conn, table, keys)


async def distributions(conn: Any, table: Table, _: TableQuery) -> Any:
    return await table_marks.column_distributions(conn, table)


READS: dict[str, tuple[dict[str, Any], Callable[[Any, Table, TableQuery], Coroutine[Any, Any, Any]]]] = {
    "cells": ({}, load),
    "totals": ({}, tables.column_totals),
    "distributions": ({}, distributions),
    "status": (has_status(), load),
    "status of a column": (has_status(cell_column="items[].price"), load),
    "sorted by status": ({"by_status": True}, load),
    "sorted by a column": ({"sort": "items[].price"}, load),
    "condition": (meets("items[].price > 1"), load),
    "condition on the document": (meets('vendor = "Acme"'), load),
}


@pytest.mark.parametrize("read", READS)
async def test_twice_as_many_rows_read_twice_as_many_values(database, clone, make_user, read):
    scope = await make_user()
    async with database.as_user(scope) as conn:
        rows = [await schemas.create(conn, scope.org_id, f"S{count}", SCHEMA) for count in (1, 2)]
    # A table of a few pages would be scanned.
    others = {"others": [{"price": number} for number in range(2_000)]}
    insert_documents(clone.owner_url, scope, [LibraryDocument(others)])
    values_read: list[int] = []
    options, compute = READS[read]
    for count, schema in zip((ROWS, 2 * ROWS), rows, strict=True):
        fields = {"vendor": "Acme", "items": [{"price": number} for number in range(1, count + 1)]}
        insert_documents(clone.owner_url, scope, [LibraryDocument(fields, schema_revid=schema.schema_revid)])
        table = Table(
            "S", schema, COLUMNS, rows="items", unchanged=[schema.schema_revid], stale={schema.schema_revid: []}
        )
        async with database.as_user(scope) as conn:
            # Includes statistics not yet flushed by earlier transactions of the connection.
            before = await _values_read(conn)
            found = await compute(conn, table, TableQuery(**options))
            values_read.append(await _values_read(conn) - before)
        if compute is tables.column_totals:
            assert [(one.sum, one.count) for one in found] == [(count * (count + 1) / 2, count)]
    assert values_read[1] < 3 * values_read[0]


async def _values_read(conn: Connection) -> int:
    return await value_of(
        conn,
        """select seq_tup_read + coalesce(idx_tup_fetch, 0)
           from pg_stat_xact_user_tables where relname = 'fields'""",
    )
