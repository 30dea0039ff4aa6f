"""Fields that should have a value: those that nearly all rows of a table have, and those that the schema names."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from fieldmark.domain.statuses import ExtractionStatus
from fieldmark.services import extractions
from fieldmark.stores import extractions as stored
from fieldmark.stores import tables
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


async def test_fields_are_counted_again_when_people_edit_or_complete(database, clone, scope):
    async with database.as_user(scope) as conn:
        version = await schemas.create(conn, scope.org_id, "Receipt", SCHEMA)
    rows = [LibraryDocument({"note": str(n)}, schema_revid=version.schema_revid) for n in range(5)]
    insert_documents(clone.owner_url, scope, rows)

    async def required() -> list[str]:
        await extractions.check_changed(database)
        async with database.as_user(scope) as conn:
            return await tables.required_columns(conn, version.id, list(TEXTS))

    async def edit(row: LibraryDocument, fields: dict[str, str]) -> None:
        async with database.as_user(scope) as conn:
            await stored.save_fields(conn, row.extraction_id, fields, {}, {})
            written = await stored.get(conn, row.extraction_id)
        await extractions.check(database, scope, written)  # as the service does after each write

    assert await required() == ["note"]
    for row in rows[:4]:
        await edit(row, {"vendor": "Acme"})
    assert await required() == ["vendor", "note"]
    # Only completed extractions count: 4 of 4 are fewer than 5.
    async with database.as_user(scope) as conn:
        await stored.withdraw_review(conn, rows[4].extraction_id, ExtractionStatus.IN_PROGRESS)
    assert await required() == []
    async with database.as_user(scope) as conn:
        await stored.complete(conn, rows[4].extraction_id)
    assert await required() == ["vendor", "note"]


async def test_field_stays_required_until_fewer_than_75_percent_have_it(database, clone, scope):
    async with database.as_user(scope) as conn:
        version = await schemas.create(conn, scope.org_id, "Receipt", SCHEMA)

    async def required_after(*rows: dict[str, str]) -> list[str]:
        insert_documents(
            clone.owner_url, scope, [LibraryDocument(row, schema_revid=version.schema_revid) for row in rows]
        )
        await extractions.check_changed(database)
        async with database.as_user(scope) as conn:
            return await tables.required_columns(conn, version.id, list(TEXTS))

    vendor, note = {"vendor": "Acme"}, {"note": "x"}
    assert await required_after(*[vendor] * 15, *[note] * 4) == []  # 15 of 19
    assert await required_after(vendor) == ["vendor"]  # 16 of 20
    assert await required_after(note) == ["vendor"]  # 16 of 21
    assert await required_after(note) == []  # 16 of 22
