"""Rows that are the items of a list."""

from __future__ import annotations

import psycopg
import pytest

from fieldmark.domain.table_query import TableQuery
from fieldmark.services import tables
from fieldmark.stores.library import schemas
from library_rows import LibraryDocument, insert_documents

pytestmark = pytest.mark.anyio

ITEM = {"type": "object", "properties": {"name": {"type": "string"}, "price": {"type": "number"}}}
RATE = {"type": "object", "properties": {"rate": {"type": "number"}}}
SCHEMA = {
    "properties": {
        "vendor": {"type": "string"},
        "items": {"type": "array", "items": ITEM},
        "taxes": {"type": "array", "items": RATE},
    }
}
FIELDS = {"vendor": "A", "items": [{"name": "x", "price": 1}, {"name": "y", "price": 2}], "taxes": [{"rate": 7}]}


@pytest.mark.parametrize(
    ("unverified", "counts"),
    [
        ({"items[1].price"}, [0, 1]),
        ({"items[0].name", "items[1].price"}, [1, 1]),
        ({"vendor", "items[1].price"}, [1, 2]),
        ({"taxes[0].rate"}, [1, 1]),
    ],
)
async def test_a_row_counts_the_open_fields_of_its_item_and_those_outside_of_the_list(
    database, make_user, clone, unverified, counts
):
    scope = await make_user()
    async with database.as_user(scope) as conn:
        schema = await schemas.create(conn, scope.org_id, "Invoices", SCHEMA)
    document = LibraryDocument(FIELDS, unverified=frozenset(unverified), schema_revid=schema.schema_revid)
    insert_documents(clone.owner_url, scope, [document])
    query = TableQuery(rows="items", group_by="items[].name")
    async with database.as_user(scope) as conn:
        page = await tables.list_rows(conn, schema.id, query, limit=10)
        groups, _ = await tables.list_groups(conn, schema.id, query, limit=10)
        view = await tables.define_view(conn, schema.id, "items", "rows_of_items")
    assert [row.review_count for row in page.items] == counts
    assert [row.document_review_count for row in page.items] == [len(unverified)] * 2
    assert [group.to_review for group in groups] == [int(count > 0) for count in counts]
    with psycopg.connect(clone.owner_url) as owner:
        owner.execute(view.sql.encode())
        rows = owner.execute("select to_review from public.rows_of_items order by path").fetchall()
        owner.rollback()
    assert [count for (count,) in rows] == counts
