"""Fields that should have a value: those that nearly all rows of a table have, and those that the schema names."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from fieldmark.services import extractions
from fieldmark.stores import extractions as stored
from fieldmark.stores.library import schemas
from library_rows import LibraryDocument, insert_documents

pytestmark = pytest.mark.anyio

TEXTS = {name: {"type": ["string", "null"]} for name in ("vendor", "total", "note")}
SCHEMA: dict[str, Any] = {"type": "object", "properties": TEXTS | {"items": {"type": "array"}}}
MISSING = {"status": "needs_review", "reason": "missing"}


@pytest.fixture
async def scope(make_user):
    return await make_user()


async def test_field_that_nearly_all_rows_have_is_missing_in_the_others(database, clone, scope):
    async with database.as_user(scope) as conn:
        version = await schemas.create(conn, scope.org_id, "Receipt", SCHEMA)
    rows = [
        LibraryDocument({"vendor": "Acme", "total": "5", "items": [1]}, schema_revid=version.schema_revid)
        for _ in range(4)
    ]
    insert_documents(clone.owner_url, scope, rows)

    async def missing() -> dict[UUID, list[str]]:
        while await extractions.check_changed(database):
            pass
        async with database.as_user(scope) as conn:
            found = {row.extraction_id: await stored.field_statuses(conn, row.extraction_id) for row in rows}
            summaries = (await stored.list_extractions(conn, scope.org_id, limit=99)).items
        counts = {one.id: one.review_count for one in summaries}
        assert all(one.valid for one in summaries)  # the schema requires nothing
        names = {key: [name for name, one in statuses.items() if one == MISSING] for key, statuses in found.items()}
        assert {key: len(value) for key, value in names.items()} == counts
        return {key: value for key, value in names.items() if value}

    assert await missing() == {}
    # 4 of 5 have a total: at least 80 %. The agent said null in one, and wrote nothing in another.
    for fields in ({"vendor": "B", "total": None}, {"vendor": "C", "total": "7"}, {"note": "x", "total": "8"}):
        one = LibraryDocument(fields, schema_revid=version.schema_revid)
        rows.append(one)
        insert_documents(clone.owner_url, scope, [one])
    without_total, _, without_vendor = (row.extraction_id for row in rows[4:])
    assert await missing() == {without_total: ["total"], without_vendor: ["vendor"]}
    # The schema says otherwise of single fields. Its rows are checked again.
    other = SCHEMA | {"x-fieldmark": {"required": {"total": False, "note": True}}}
    async with database.as_user(scope) as conn:
        await schemas.update(conn, version.id, schema=other)
    now = await missing()
    assert now.pop(without_vendor) == ["vendor"]
    assert now == {row.extraction_id: ["note"] for row in rows[:-1]}
