"""Aggregates over the fields of many documents, and what they leave out."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest

from fieldmark.domain import paths
from fieldmark.domain.document_filters import DocumentFilters, FieldCondition
from fieldmark.domain.field_query import MAX_ROWS, FieldAnswer, FieldQuery
from fieldmark.domain.table_query import TableQuery
from fieldmark.errors import TooLongToAnswer, UnknownField
from fieldmark.services import field_queries, tables
from fieldmark.stores import stacks
from fieldmark.stores.library import schemas
from library_rows import LibraryDocument, insert_documents

pytestmark = pytest.mark.anyio


def _query(**values: Any) -> FieldQuery:
    return FieldQuery.model_validate(values)


async def _query_fields(database, scope, **values: Any) -> FieldAnswer:
    async with database.as_user(scope) as conn:
        return await field_queries.query(conn, scope, _query(**values))


def _results_by_group(answer: FieldAnswer) -> dict[str | None, list[tuple[str, str | None]]]:
    return {group.key: [(one.value, one.currency) for one in group.results] for group in answer.groups}


def _sum(path: str) -> dict[str, str]:
    return {"op": "sum", "path": path}


_LIBRARY = [
    LibraryDocument(
        {
            "total": 10,
            "vendor": "Acme",
            "date": "2024-01-05",
            "items": [{"name": "A", "parts": [{"n": 2}, {"n": 3}]}, {"name": "B", "parts": [{"n": 4}]}],
            "big": 10**30,
        },
        tags=("paid", "2024"),
    ),
    LibraryDocument(
        {"total": 0.1, "vendor": 7, "date": "2024-02-29T10:00:00Z", "items": [], "big": 0.1}, tags=("2024",)
    ),
    LibraryDocument({"total": 0.2, "vendor": {"name": "Beta"}, "date": "2023-12-31"}, document_type="receipt"),
    LibraryDocument({"total": 0.1, "vendor": "ACME", "date": "12 March 2024", "paid": True}, document_type="Receipt"),
]


_EXPECTED_RESULTS: list[tuple[str, str | None, dict[str, str] | None, dict[str | None, list[str]]]] = [
    ("count", None, None, {None: ["4"]}),
    ("sum", "total", None, {None: ["10.4"]}),
    ("avg", "total", None, {None: ["2.6"]}),
    ("sum", "big", None, {None: ["1000000000000000000000000000000.1"]}),
    ("min", "date", None, {None: ["2023-12-31"]}),
    ("max", "date", None, {None: ["2024-02-29"]}),
    ("count", "vendor", None, {None: ["4"]}),
    ("sum", "items[].parts[].n", None, {None: ["9"]}),
    ("sum", "items[].parts[].n", {"path": "items[].name"}, {"a": ["5"], "b": ["4"], None: []}),
    ("sum", "total", {"path": "vendor"}, {"acme": ["10.1"], "7": ["0.1"], None: ["0.2"]}),
    (
        *("sum", "total", {"kind": "month", "path": "date"}),
        {"2024-01": ["10"], "2024-02": ["0.1"], "2023-12": ["0.2"], None: ["0.1"]},
    ),
    ("sum", "total", {"kind": "year", "path": "date"}, {"2024": ["10.1"], "2023": ["0.2"], None: ["0.1"]}),
    ("sum", "total", {"kind": "document_type"}, {"invoice": ["10.1"], "receipt": ["0.3"]}),
    ("sum", "total", {"kind": "tag"}, {"paid": ["10"], "2024": ["10.1"], None: ["0.3"]}),
]


async def test_each_aggregate_and_grouping(database, make_user, clone):
    scope, other = await make_user(), await make_user()
    insert_documents(clone.owner_url, scope, _LIBRARY)
    insert_documents(clone.owner_url, other, [replace(one, id=uuid4(), extraction_id=uuid4()) for one in _LIBRARY])
    for op, path, group_by, expected in _EXPECTED_RESULTS:
        answer = await _query_fields(database, scope, aggregates=[{"op": op, "path": path}], group_by=group_by)
        # Names that differ in case are one group, named by any of them.
        figures = {group.key and group.key.lower(): [one.value for one in group.results] for group in answer.groups}
        assert (op, path, group_by, figures) == (op, path, group_by, expected)


async def test_figures_of_a_stack_count_the_copy_that_has_the_row(database, make_user, clone):
    scope = await make_user()
    async with database.as_user(scope) as conn:
        schema = await schemas.create(conn, scope.org_id, "Invoices", {"properties": {"total": {"type": "number"}}})
        stack_id = await stacks.add(conn, scope, "Invoices")
        await stacks.set_table(conn, scope, stack_id, schema.id, None)
    first, copy = (
        LibraryDocument(
            {"total": total},
            sha256="0" * 64,
            schema_revid=schema.schema_revid,
            created_at=datetime(2026, 1, day, tzinfo=UTC),
        )
        for total, day in ((7, 2), (5, 1))
    )
    insert_documents(clone.owner_url, scope, [first, copy])
    for one in (first, copy):
        async with database.as_user(scope) as conn:
            await stacks.add_documents(conn, scope, stack_id, [one.id])
    async with database.as_user(scope) as conn:
        table = await tables.list_rows(conn, stack_id, TableQuery(), limit=10, with_totals=True)
    answer = await _query_fields(database, scope, where={"stack_id": stack_id}, aggregates=[_sum("total")])
    assert _results_by_group(answer) == {None: [("7", None)]}
    assert [(one.document_id, one.duplicate_of) for one in table.items] == [(first.id, None), (copy.id, first.id)]
    assert [one.sum for one in table.totals] == [7]
    # Elsewhere the copy that was uploaded first counts.
    answer = await _query_fields(database, scope, aggregates=[_sum("total")])
    assert _results_by_group(answer) == {None: [("5", None)]}


async def test_amounts_of_different_currencies_are_not_added(database, make_user, clone):
    scope = await make_user()
    insert_documents(
        clone.owner_url,
        scope,
        [
            LibraryDocument({"total": 10, "currency": "EUR"}),
            LibraryDocument({"total": 0.1, "currency": "€"}),
            LibraryDocument({"total": 5, "currency": "usd"}),
            LibraryDocument({"total": 3}),
            LibraryDocument({"total": 7, "total_currency": "CHF", "currency": "EUR"}),
        ],
    )
    answer = await _query_fields(database, scope, aggregates=[_sum("total")])
    assert sorted(_results_by_group(answer)[None], key=repr) == [
        ("10.1", "EUR"),
        ("3", None),
        ("5", "USD"),
        ("7", "CHF"),
    ]


async def test_value_belongs_to_the_group_of_its_row(database, make_user, clone):
    scope = await make_user()
    rows = [{"name": "A", "total": 1}, {"name": "B", "total": 2}, {"name": "a", "total": 4}, {"total": 8}]
    insert_documents(clone.owner_url, scope, [LibraryDocument({"items": rows, "total": 15})])
    by_name = {"group_by": {"path": "items[].name"}}
    answer = await _query_fields(database, scope, aggregates=[_sum("items[].total")], **by_name)
    assert _results_by_group(answer) == {"A": [("5", None)], "B": [("2", None)], None: [("8", None)]}
    assert {group.key: group.documents for group in answer.groups} == {"A": 1, "B": 1, None: 0}
    # A value outside the list belongs to both groups, and the answer counts the overlap.
    answer = await _query_fields(database, scope, aggregates=[_sum("total")], **by_name)
    assert _results_by_group(answer) == {"A": [("15", None)], "B": [("15", None)]}
    assert answer.in_several_groups == 1


async def test_coverage_counts_what_is_left_out(database, make_user, clone):
    scope = await make_user()
    insert_documents(
        clone.owner_url,
        scope,
        [
            LibraryDocument({"total": 100}),
            LibraryDocument({"total": 100}, unverified=frozenset(("total",))),
            LibraryDocument({"total": 100}, unverified=frozenset(("total",)), locked=frozenset(("total",))),
            LibraryDocument({"total": "1,000.00"}),
            LibraryDocument({"total": None}),
            LibraryDocument(None),
            LibraryDocument(None, status="reading"),
            LibraryDocument(None, status="failed"),
            LibraryDocument({"total": 100}, is_completed=False),
        ],
    )
    answer = await _query_fields(database, scope, aggregates=[_sum("total")])
    (total,) = answer.coverage.paths
    assert _results_by_group(answer) == {None: [("200", None)]}
    assert (total.documents, total.have, total.lack, total.unverified, total.unusable) == (5, 2, 1, 1, 1)
    counts = answer.coverage
    assert (counts.of_kind, counts.no_extraction, counts.reading, counts.failed) == (5, 1, 1, 1)
    assert counts.needs_review == 1
    assert not counts.is_complete
    answer = await _query_fields(database, scope, aggregates=[_sum("total")], include_unverified=True)
    assert _results_by_group(answer) == {None: [("300", None)]}
    assert answer.coverage.paths[0].values_unverified == 1
    assert sorted(row.is_verified is True for row in answer.rows) == [False, True, True]


async def test_byte_identical_documents_are_counted_once_and_named(database, make_user, clone):
    scope = await make_user()

    def make_document(
        day: int, filename: str, content: str, total: int | None, document_type: str = "invoice"
    ) -> LibraryDocument:
        return LibraryDocument(
            None if total is None else {"total": total},
            filename=filename,
            sha256=content * 64,
            document_type=document_type,
            created_at=datetime(2026, 1, day, tzinfo=UTC),
        )

    documents = [
        make_document(1, "first", "a", 100),
        make_document(2, "again", "a", 999),
        make_document(3, "unread", "a", None),
        make_document(4, "empty", "b", None),
        make_document(5, "second", "b", 20),
        make_document(6, "alike", "c", 20),
        make_document(7, "typed", "a", 7, "receipt"),
    ]
    insert_documents(clone.owner_url, scope, documents)
    names = {one.id: one.filename for one in documents}
    for where, total, of_kind, duplicates in (
        ({}, "140", 3, {"again": "first", "unread": "first", "empty": "second", "typed": "first"}),
        ({"document_type": "invoice"}, "140", 3, {"again": "first", "unread": "first", "empty": "second"}),
        # A duplicate of another type counts if the query is limited to that type.
        ({"document_type": "receipt"}, "7", 1, {"unread": "typed", "empty": "second"}),
        # Conditions apply to the counted document only.
        ({"fields": [{"path": "total", "op": ">", "value": 500}]}, None, 3, None),
        ({"document_ids": [str(documents[1].id)]}, "999", 1, {}),
    ):
        answer = await _query_fields(database, scope, where=where, aggregates=[_sum("total")])
        coverage = answer.coverage
        assert coverage.other_types == (2 if where.get("document_type") == "receipt" else 0), where
        assert _results_by_group(answer)[None] == ([] if total is None else [(total, None)]), where
        assert (coverage.of_kind, coverage.no_extraction) == (of_kind, 0), where
        if duplicates is not None:
            originals = {one.filename: names[one.counted_document_id] for one in coverage.duplicate_files}
            assert (originals, coverage.duplicates) == (duplicates, len(duplicates)), where


async def test_rows_contain_locations_and_their_number(database, make_user, clone):
    scope = await make_user()
    library = [LibraryDocument({"vendor": "A", "total": number}, filename=f"{number}.pdf") for number in range(70)]
    insert_documents(clone.owner_url, scope, library)
    answer = await _query_fields(database, scope, aggregates=[_sum("total")])
    assert (len(answer.rows), answer.rows_total) == (MAX_ROWS, 70)
    documents = {one.id: one for one in library}
    for row in answer.rows:
        document = documents[row.document_id]
        assert (row.filename, row.value) == (document.filename, str(document.fields["total"]))
        assert (row.extraction_id, row.path, row.page) == (document.extraction_id, "total", 2)
        assert row.boxes == ((0.1, 0.1, 0.2, 0.2),)
    counted = await _query_fields(database, scope, where={"fields": [{"path": "total", "op": "<", "value": 3}]})
    assert sorted(row.value or "" for row in counted.rows) == ["0", "1", "2"]
    assert counted.rows_total == 3
    plain = await _query_fields(database, scope)
    assert (plain.rows_total, {row.path for row in plain.rows}) == (70, {None})


async def test_groups_are_sorted_and_limited(database, make_user, clone):
    scope = await make_user()
    insert_documents(
        clone.owner_url,
        scope,
        [LibraryDocument({"v": f"V{n}", "total": n, "d": f"2025-{n:02}-01"}) for n in range(1, 10)]
        + [LibraryDocument({"total": 100})],
    )
    answer = await _query_fields(database, scope, aggregates=[_sum("total")], group_by={"path": "v"}, limit=3)
    assert ([group.key for group in answer.groups], answer.groups_total) == (["V9", "V8", "V7", None], 10)
    answer = await _query_fields(database, scope, group_by={"kind": "month", "path": "d"}, limit=2)
    assert [group.key for group in answer.groups] == ["2025-01", "2025-02", None]


async def test_fields_of_other_organisations_are_excluded(database, make_user, clone):
    scope, stranger = await make_user(), await make_user()
    document = LibraryDocument({"total": 12, "vendor": "Acme"})
    insert_documents(clone.owner_url, scope, [document])
    query = {
        "where": {"document_ids": [str(document.id)]},
        "aggregates": [_sum("total")],
        "group_by": {"path": "vendor"},
    }
    assert _results_by_group(await _query_fields(database, scope, **query)) == {"Acme": [("12", None)]}
    for one in (stranger, replace(stranger, org_id=scope.org_id)):
        answer = await _query_fields(database, one, **query)
        assert (answer.groups, answer.rows, answer.coverage.of_kind) == ([], [], 0)


async def test_hostile_paths_are_not_executed(database, make_user, clone):
    for path in ("x'; drop table documents; --", '["a\\"b"]', "%s", "{0}", '["a.b"][].c', "0.0"):
        scope = await make_user()
        steps: Any = 3
        for step in reversed(paths.parse_pattern(path)):
            steps = [steps] if step is paths.EACH else {step: steps}
        insert_documents(clone.owner_url, scope, [LibraryDocument(steps)])
        answer = await _query_fields(
            database,
            scope,
            where={"fields": [{"path": path, "op": "=", "value": 3}]},
            aggregates=[_sum(path), {"op": "count", "path": path}],
            group_by={"path": path},
        )
        assert _results_by_group(answer) == {"3": [("3", None), ("1", None)]}
        assert [row.value for row in answer.rows] == ["3"]


async def test_slow_query_is_cancelled_and_settings_are_restored(database, make_user, clone):
    scope = await make_user()
    rows = [{"name": f"A{n % 7}", "total": n} for n in range(5)]
    insert_documents(clone.owner_url, scope, [LibraryDocument({"items": rows}) for _ in range(500)])
    query = _query(aggregates=[_sum("items[].total")], group_by={"path": "items[].name"})
    with pytest.raises(TooLongToAnswer):
        async with database.as_user(scope) as conn:
            await field_queries.query(conn, scope, query, seconds=0.002)
    async with database.as_user(scope) as conn:
        settings = "select current_setting('statement_timeout') as a, current_setting('enable_nestloop') as b"
        before = await (await conn.execute(settings)).fetchone()
        await field_queries.query(conn, scope, query)
        assert await (await conn.execute(settings)).fetchone() == before


async def test_filter_on_unknown_field_is_refused_with_similar_names(database, make_user, clone):
    scope, other = await make_user(), await make_user()
    odd, blank = 'a "b" $.c[*]', {"due_date": None, "rows": [{"x": 1}, {"y": None}]}
    insert_documents(clone.owner_url, scope, [*_LIBRARY, LibraryDocument({odd: 1, "ключ": {"ё": 2}, **blank})])

    async def check(condition: str, of=scope) -> None:
        async with database.as_user(of) as conn:
            filters = DocumentFilters(fields=[FieldCondition.parse(condition)])
            await field_queries.check_fields(conn, of, filters)

    async with database.as_user(scope) as conn:
        properties = {"iban": {"type": "string"}, "tax": {"type": "object", "properties": {"rate": {"type": "number"}}}}
        await schemas.create(conn, scope.org_id, "Bank", {"type": "object", "properties": properties})
    known = ["total", "vendor.name", "vendor", "items[].parts[].n", "items[3].name", "items", "due_date", "rows[].y"]
    for name in (*known, paths.name((odd,)), "ключ.ё", "iban", "tax", "tax.rate"):
        await check(f"{name} exists")
        await check(f"{name} missing")
    unknown = ["totl", "items.name", "items[].parts.n", "total[]", "tax.rat", "vendor.nam", paths.name(("a.b",))]
    for name in unknown:
        with pytest.raises(UnknownField, match=re.escape(repr(name))):
            await check(f"{name} missing")
    with pytest.raises(UnknownField, match="mean total"):
        await check("totl > 1")
    await check("totl > 1", other)  # nothing is known there yet, and no other organisation's names are shown
