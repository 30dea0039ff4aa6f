"""Documents that a filter selects. Paths, values and names in a filter are never executed as SQL."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from extraction_case import sql
from fieldmark.domain.document_filters import DocumentFilters, FieldCondition
from fieldmark.stores import document_filters
from library_rows import LibraryDocument, insert_documents

pytestmark = pytest.mark.anyio

_ODD = {"a.b": 1, 'q"\\': 2, "x'; drop table documents; --": 3, "%s": 4, "ä ö": 5, "": 6, "0": {"0": 7}, "$[*]": 8}
_SHELF = {
    "acme": LibraryDocument(
        {
            "total": 1200.50,
            "vendor": {"name": "ACME  GmbH"},
            "date": "2024-03-12",
            "paid": True,
            "items": [{"total": 700, "name": "A"}, {"total": 500.50}, {"name": "B"}],
        },
        filename="Rechnung 1.PDF",
        tags=("Paid", "2024"),
    ),
    "beta": LibraryDocument(
        {"total": 99, "vendor": {"name": "Beta"}, "date": "2024-04-01T10:00:00", "paid": False, "items": []},
        tags=("2024",),
        created_at=datetime(2026, 2, 1, tzinfo=UTC),
    ),
    "texts": LibraryDocument(
        {"total": "1,500.00", "vendor": "Acme", "date": "12 March 2024", "items": {"total": 5000}}
    ),
    "blank": LibraryDocument(
        {"total": None, "vendor": {}, "date": "", "items": [{"total": None}]}, document_type="Receipt"
    ),
    "unread": LibraryDocument(None, status="failed"),
    "unfinished": LibraryDocument({"total": 5000}, is_completed=False),
    "odd": LibraryDocument(_ODD, document_type="odd"),
}


async def _left(database, scope, filters: DocumentFilters) -> set[str]:
    query, parameters = document_filters.matching(filters, scope.org_id)
    async with database.as_user(scope) as conn:
        found = {row["id"] for row in await (await conn.execute(query, parameters)).fetchall()}
        assert await document_filters.count(conn, filters, scope.org_id) == len(found)
    names = {one.id: name for name, one in _SHELF.items()}
    return {names[one] for one in found}


@pytest.fixture
async def scope(make_user, clone):
    scope = await make_user()
    insert_documents(clone.owner_url, scope, _SHELF.values())
    return scope


@pytest.mark.parametrize(
    ("conditions", "left"),
    [
        (["total > 1000"], "acme"),
        (["total >= 99"], "acme beta"),
        (["total < 1000"], "beta"),
        (["total = 1200.5"], "acme"),
        (["total != 99"], "acme"),
        (["total exists"], "acme beta texts"),
        (["total missing"], "blank odd"),
        (['total = "1,500.00"'], "texts"),
        (['total = "99"'], "beta"),
        (['vendor.name = "acme gmbh"'], "acme"),
        (['vendor.name != "acme gmbh"'], "beta"),
        (['vendor.name contains "GMBH"'], "acme"),
        (["vendor exists"], "acme beta texts"),
        (["date >= 2024-04-01"], "beta"),
        (["date < 2024-04-01"], "acme"),
        (["paid = true"], "acme"),
        (["paid != true"], "beta"),
        (["items[].total > 600"], "acme"),
        (["items[].total > 600", "items[].total < 600"], "acme"),
        (["items[].total != 700"], ""),
        (["items[1].total = 500.5"], "acme"),
        (["items.total = 5000"], "texts"),
        (["items[] exists"], "acme blank"),
        (["items[].total missing"], "beta texts blank odd"),
        (["total > 1000", "paid = false"], ""),
        (['["a.b"] = 1'], "odd"),
        (['["q\\"\\\\"] = 2'], "odd"),
        (['["x\'; drop table documents; --"] = 3'], "odd"),
        (['["%s"] = 4'], "odd"),
        (["ä ö = 5"], "odd"),
        (["0.0 = 7"], "odd"),
        (['["$[*]"] = 8'], "odd"),
    ],
)
async def test_fields_narrow_documents(database, scope, conditions, left):
    filters = DocumentFilters(fields=tuple(FieldCondition.parse(text) for text in conditions))
    assert await _left(database, scope, filters) == set(left.split())


@pytest.mark.parametrize(
    ("filters", "left"),
    [
        (DocumentFilters(), "acme beta texts blank unread unfinished odd"),
        (DocumentFilters(tags=("2024",)), "acme beta"),
        (DocumentFilters(tags=("2024", "paid")), "acme"),
        (DocumentFilters(tags=("2024", "nowhere")), ""),
        (DocumentFilters(document_type="receipt"), "blank"),
        (DocumentFilters(filename="rechnung"), "acme"),
        (DocumentFilters(filename="%"), ""),
        (DocumentFilters(uploaded_after=datetime(2026, 2, 1, tzinfo=UTC)), "beta"),
        (DocumentFilters(uploaded_before=datetime(2026, 2, 1, tzinfo=UTC), tags=("2024",)), "acme"),
        (DocumentFilters(document_ids=(_SHELF["acme"].id, uuid4())), "acme"),
        (DocumentFilters(filename="' or '1' = '1"), ""),
        (DocumentFilters(tags=("') or true --",)), ""),
        (DocumentFilters(document_type="'); drop table public.documents; --"), ""),
    ],
)
async def test_names_tags_types_and_dates_narrow_documents(database, scope, filters, left):
    assert await _left(database, scope, filters) == set(left.split())


async def test_documents_of_another_organisation_never_match(database, make_user, scope):
    outsider = await make_user()
    asked = DocumentFilters(document_ids=(_SHELF["acme"].id,), fields=(FieldCondition.parse("total > 0"),))
    assert await _left(database, scope, asked) == {"acme"}
    assert await _left(database, outsider, asked) == set()
    # Row policies also refuse a scope that names an organisation which the user does not belong to.
    assert await _left(database, replace(outsider, org_id=scope.org_id), asked) == set()


async def test_current_extraction_is_the_newest_completed_and_accepted_one(database, make_user, clone):
    scope = await make_user()
    document = LibraryDocument({"total": 1})
    insert_documents(clone.owner_url, scope, [document])
    add = """insert into public.extractions (org_id, document_id, status, extracted_fields, created_at, run_id)
             values (%s, %s, %s, '{"total": %s}', %s, %s)"""
    run_id = uuid4()

    async def is_current(total: int) -> bool:
        filters = DocumentFilters(fields=(FieldCondition.parse(f"total = {total}"),))
        query, parameters = document_filters.matching(filters, scope.org_id)
        async with database.as_user(scope) as conn:
            return bool(await (await conn.execute(query, parameters)).fetchall())

    def add_extraction(total: int, status: str, day: int, run=None) -> None:
        sql(
            clone.owner_url,
            add.replace("'{\"total\": %s}'", "jsonb_build_object('total', %s::int)"),
            *(scope.org_id, document.id, status, total, datetime(2026, 1, day, tzinfo=UTC)),
            run,
        )

    add_extraction(2, "completed", 2)
    assert await is_current(2) and not await is_current(1)
    add_extraction(3, "in_progress", 3)
    assert await is_current(2)
    add_extraction(4, "completed", 4)
    sql(clone.owner_url, "alter table public.extractions disable trigger apply_extraction_defaults")
    add_extraction(5, "completed", 5, run_id)
    assert await is_current(5)
    sql(
        clone.owner_url,
        "insert into public.auto_creations (document_id, org_id, run_id, status) values (%s, %s, %s, 'proposed')",
        *(document.id, scope.org_id, run_id),
    )
    assert await is_current(4) and not await is_current(5)
    sql(clone.owner_url, "update public.auto_creations set status = 'accepted'")
    assert await is_current(5)
