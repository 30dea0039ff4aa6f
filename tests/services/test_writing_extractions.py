"""Writes are prepared without a lock and applied to the current fields. Previews show the changes."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from extraction_case import document_with_pages
from fieldmark.domain import paths
from fieldmark.domain.retry import retry_while_stale
from fieldmark.errors import Conflict, NotFound, Stale
from fieldmark.services import extractions
from fieldmark.services.evidence import DocumentIndexes
from fieldmark.services.extractions import PERSON, Author, FieldRemoval, FieldsWrite, FieldWrite
from fieldmark.stores import extractions as stored

pytestmark = pytest.mark.anyio

AGENT = Author(is_person=False)
PAGE = "Bolt M8   2   4,50   9,00\nNut M8    1   9,00   9,00\nTotal 963,12 EUR\n"


@pytest.fixture
async def case(database, clone, make_user):
    async with document_with_pages(database, clone.owner_url, await make_user(), [PAGE]) as case:
        await case.set_fields(
            {"total": 1, "items": [{"name": "Bolt M8"}, {"name": "Nut M8"}], "vendor": {"name": "Acme"}}
        )
        yield case


def write(path, value):
    return FieldWrite(paths.parse(path), value)


async def prepare(case, change, author=PERSON):
    return await extractions.prepare_write(
        case.database, case.scope, DocumentIndexes(), case.extraction_id, change, author
    )


async def apply(case, ready):
    async with case.database.as_user(case.scope) as conn:
        return await extractions.apply(conn, ready)


async def prepare_and_apply(case, field_write, author=PERSON):
    return await apply(case, await prepare(case, field_write, author))


async def preview(case, field_write):
    async with case.database.as_user(case.scope) as conn:
        return await extractions.preview(conn, case.extraction_id, field_write)


async def test_write_is_prepared_while_the_extraction_is_locked(case):
    async with case.database.as_user(case.scope) as conn:
        await extractions.lock(conn, case.extraction_id)
        ready = await asyncio.wait_for(prepare(case, write("total", 963.12)), 30)
        applying = asyncio.create_task(apply(case, ready))
        await asyncio.sleep(0.2)
        assert not applying.done()
    written = await applying
    assert (written.stored.path, written.stored.value) == ("total", 963.12)
    assert case.extraction()["evidence"]["total"]["quote"] == "963,12"


async def test_concurrent_change_of_another_field_is_kept(case):
    ready = await prepare(case, write("total", 963.12))
    await prepare_and_apply(case, write("vendor.name", "Acme Ltd"))
    await apply(case, ready)
    row = case.extraction()
    assert (row["extracted_fields"]["total"], row["extracted_fields"]["vendor"]["name"]) == (963.12, "Acme Ltd")
    assert row["version"] == 3


async def test_write_to_a_changed_row_is_prepared_again(case):
    tries = []

    async def attempt():
        ready = await prepare(case, write("items[0].total", 9.0), AGENT)
        tries.append(ready.shown.evidence["items[0].total"]["boxes"][0][1])
        if len(tries) == 1:  # the first row is replaced after the preparation
            await case.set_fields({"items": [{"name": "Nut M8"}]})
        return await apply(case, ready)

    await retry_while_stale(attempt)
    assert len(tries) == 2 and tries[0] < tries[1]  # a line further down
    assert case.extraction()["evidence"]["items[0].total"]["boxes"][0][1] == tries[1]


async def test_write_is_prepared_three_times_at_most(case):
    tries = []

    async def attempt():
        ready = await prepare(case, write("items[0].total", 9.0), AGENT)
        tries.append(ready)
        await case.set_fields({"items": [{"name": f"Nut M{len(tries)}"}]})
        return await apply(case, ready)

    with pytest.raises(Conflict):
        await retry_while_stale(attempt)
    assert len(tries) == 3
    assert "total" not in case.extraction()["extracted_fields"]["items"][0]


async def test_write_to_a_shifted_row_is_stale(case):
    ready = await prepare(case, write("items[1].total", 9.0), AGENT)
    await prepare_and_apply(case, FieldRemoval(("items", 0)))
    with pytest.raises(Stale):
        await apply(case, ready)
    assert case.extraction()["extracted_fields"]["items"] == [{"name": "Nut M8"}]


async def test_tool_call_is_prepared_again_if_its_row_changed(case):
    context = await case.context()
    index_requests = []

    class ObservedIndexes(DocumentIndexes):
        async def build(self, *args):
            index_requests.append(args)
            index = await super().build(*args)
            if len(index_requests) == 1:
                await case.set_fields({"items": [{"name": "Nut M8"}]})
            return index

    context = replace(context, indexes=ObservedIndexes())
    answer = await case.call(context, "update_field", path="items[0].total", value=9.0, confidence=0.9)
    assert not answer.is_error and len(index_requests) == 2
    rows = case.sql("select status from public.tool_calls")
    assert [row["status"] for row in rows] == ["done"]


async def test_extraction_of_another_organisation_is_not_found(case, make_user):
    stranger = await make_user()
    with pytest.raises(NotFound):
        await extractions.prepare_write(
            case.database, stranger, DocumentIndexes(), case.extraction_id, write("total", 2), PERSON
        )
    ready = await prepare(case, write("total", 2))
    async with case.database.as_user(stranger) as conn:
        with pytest.raises(NotFound):
            await extractions.apply(conn, ready)
        with pytest.raises(NotFound):
            await extractions.preview(conn, case.extraction_id, write("total", 2))
    assert case.extraction()["extracted_fields"]["total"] == 1


@pytest.mark.parametrize(
    ("one", "changes"),
    [
        (write("total", 2), [{"path": "total", "old": 1, "new": 2}]),
        (write("total", 1), []),
        (write("items[2]", {"name": "Nail"}), [{"path": "items[2].name", "old": None, "new": "Nail", "added": True}]),
        (
            write("vendor", "Acme"),
            [
                {"path": "vendor", "old": None, "new": "Acme", "added": True},
                {"path": "vendor.name", "old": "Acme", "new": None, "removed": True},
            ],
        ),
        (FieldRemoval(("items", 0)), [{"path": "items[0]", "old": {"name": "Bolt M8"}, "new": None, "removed": True}]),
        (
            FieldsWrite({"vendor": {"vat": "DE1"}, "items": [{"name": "Nut M8"}], "total": 1}),
            [
                {"path": "vendor.vat", "old": None, "new": "DE1", "added": True},
                {"path": "items[0].name", "old": "Bolt M8", "new": "Nut M8"},
                {"path": "items[1].name", "old": "Nut M8", "new": None, "removed": True},
            ],
        ),
    ],
)
async def test_preview_shows_old_and_new_values_by_path(case, one, changes):
    shown = await preview(case, one)
    assert [each.as_json() for each in shown.changes] == changes
    before = case.extraction()["extracted_fields"]
    await prepare_and_apply(case, one)
    after = case.extraction()["extracted_fields"]
    assert (before == after) is (changes == [])


@pytest.mark.parametrize(
    ("one", "meanwhile", "changes_hash"),
    [
        (write("total", 2), write("total", 3), True),
        (write("total", 2), write("vendor.name", "B"), False),
        (FieldRemoval(("items", 0)), FieldRemoval(("items", 0)), True),
        (FieldRemoval(("items", 0)), FieldRemoval(("items", 1)), False),
        (write("items[0].price", 1), write("items[0].name", "Nail"), True),
        (write("fax", "1"), write("fax", "1"), True),
        (FieldsWrite({"total": 2}), write("total", 3), True),
    ],
)
async def test_target_hash_changes_with_the_shown_values(case, one, meanwhile, changes_hash):
    shown = await preview(case, one)
    assert (await preview(case, one)).target_hash == shown.target_hash
    await prepare_and_apply(case, meanwhile)
    assert ((await preview(case, one)).target_hash != shown.target_hash) is changes_hash


async def lock_fields(case, **fields):
    for path, value in fields.items():
        async with case.database.as_user(case.scope) as conn:
            await stored.update_field(conn, case.extraction_id, path.split("__"), value, {}, {})


async def test_correction_writes_values_of_its_message_and_proposes_the_rest(case):
    await lock_fields(case, vendor__name="Acme", vendor__iban="DE89370400440532013000", total=1)
    context = await case.context(await case.queue_run("correct", instructions="the vendor is Acme Ltd"))
    fields = {"vendor": {"name": "Acme Ltd", "iban": "GB29NWBK60161331926819"}, "total": 2}
    answer = await case.call(context, "extract_fields", fields=fields, confidences={})
    assert (answer.is_error, answer.code) == (False, "stored_in_part")
    assert sorted(answer.data["proposed"]) == ["total", "vendor.iban"]
    row = case.extraction()
    assert row["extracted_fields"]["vendor"] == {"name": "Acme Ltd", "iban": "DE89370400440532013000"}
    assert row["extracted_fields"]["total"] == 1
    assert row["locks"].keys() == {"vendor.name", "vendor.iban", "total"}


async def test_preview_of_a_document_type_shows_a_change_only(case):
    async with case.database.as_user(case.scope) as conn:
        await extractions.set_document_type(conn, case.extraction_id, "invoice", AGENT)
        for document_type, changes in (("receipt", [("document_type", "invoice", "receipt")]), ("invoice", [])):
            shown = await extractions.preview_type(conn, case.extraction_id, document_type, AGENT)
            assert [(one.path, one.old, one.new) for one in shown.changes] == changes


async def test_extractions_that_nothing_has_checked_are_checked_in_their_current_version(case):
    async with case.database.as_user(case.scope) as conn:
        schema = {"type": "object", "properties": {"total": {"type": "number"}}, "required": ["total"]}
        columns = {"org_id": case.scope.org_id, "document_id": case.document_id, "schema": schema}
        ids = [await stored.add(conn, **columns) for _ in range(3)]

    async def check() -> dict[object, tuple[bool | None, int]]:
        while await extractions.check_changed(case.database):
            pass
        async with case.database.as_user(case.scope) as conn:
            listed = (await stored.list_extractions(conn, case.scope.org_id, limit=9)).items
        assert {one.id: one.valid for one in listed}[case.extraction_id] is None  # has no schema
        return {one.id: (one.valid, one.review_count) for one in listed if one.id in ids}

    assert await check() == dict.fromkeys(ids, (False, 1))
    for one, value in zip(ids, ("none", 5), strict=False):
        await prepare_and_apply(replace(case, extraction_id=one), write("total", value))
    expected = dict(zip(ids, [(False, 1), (True, 0), (False, 1)], strict=True))
    assert await check() == expected
    async with case.database.as_user(case.scope) as conn:  # the result of an older version is not stored
        await stored.record_problems(conn, ids[1], 0, {"total": "missing"}, is_valid=False)
    assert await check() == expected
