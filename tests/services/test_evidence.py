"""Values are located on the pages of their document, and quotes that are not on the page are refused."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from extraction_case import document_with_pages
from fieldmark.services.evidence import DocumentIndexes

pytestmark = pytest.mark.anyio

FIRST = "Invoice 4711\nDate: 26.10.2022\nVendor: Acme GmbH\nDiscount:\n"
SECOND = "Bolt M8   2   4,50   9,00\nNut M8    1   9,00   9,00\nTotal 963,12 EUR\nTax exempt: yes\n"


@pytest.fixture
async def case(database, clone, make_user):
    async with document_with_pages(database, clone.owner_url, await make_user(), [FIRST, SECOND]) as case:
        yield case


@pytest.fixture
async def context(case):
    return await case.context()


async def save(case, context, fields, **more):
    return await case.call(context, "extract_fields", fields=fields, **({"confidences": {}} | more))


def evidence_of(case, path):
    evidence = case.extraction()["evidence"][path]
    return evidence["state"], evidence["match"], evidence["page"], evidence["quote"]


async def test_every_value_has_evidence(case, context):
    fields = {
        "number": "4711",
        "date": "2022-10-26",
        "vendor": {"name": "ACME GMBH"},
        "total": 963.12,
        "discount": None,
    }
    answer = await save(case, context, fields, confidences={"total": 0.5, "vendor": 0.25})
    assert not answer.is_error and answer.data == {"version": 1}
    assert evidence_of(case, "number") == ("found", "exact", 1, "4711")
    assert evidence_of(case, "date") == ("found", "date", 1, "26.10.2022")
    assert evidence_of(case, "vendor.name") == ("found", "normalised", 1, "Acme GmbH")
    assert evidence_of(case, "total") == ("found", "number", 2, "963,12")
    assert evidence_of(case, "discount") == ("blank", None, None, None)
    row = case.extraction()
    assert row["confidences"].keys() == row["evidence"].keys() - {"discount"}
    # A value without a confidence of its own has that of its object.
    assert row["evidence"]["total"]["claim"]["confidence"] == 0.5
    assert row["evidence"]["vendor.name"]["claim"]["confidence"] == 0.25
    assert row["evidence"]["number"]["claim"]["confidence"] is None
    # The model's own confidence counts only if the model doubts the value.
    assert row["confidences"]["total"] > 0.5 and row["confidences"]["vendor.name"] == 0.25
    event = case.events(context.run_id)[-1]
    assert {one["path"]: one["evidence"] for one in event["changed"]} == row["evidence"]


async def test_value_not_found_has_confidence_0_and_is_reported_to_the_model(case, context):
    answer = await save(case, context, {"total": 963.11, "vendor": {"name": "Globex"}}, confidences={"total": 1.0})
    assert (answer.is_error, answer.code) == (False, "stored")
    assert answer.data == {"version": 1, "not_found": ["total", "vendor.name"]}
    row = case.extraction()
    assert row["confidences"] == {"total": 0, "vendor.name": 0}
    assert evidence_of(case, "total") == ("not_found", None, None, None)


async def test_wrong_quote_is_refused(case, context):
    for page in (None, 1, 9):
        quote = {"total": {"quote": "Total 963.11 EUR", "page": page}}
        answer = await save(case, context, {"total": 963.11, "number": "4711"}, evidence=quote)
        assert (answer.is_error, answer.code, answer.data) == (True, "quote_not_printed", {"paths": ["total"]})
        assert case.extraction()["version"] == 0
    # The corrected quote is stored.
    quote["total"] = {"quote": "Total 963,12 EUR", "page": 2}
    assert not (await save(case, context, {"total": 963.12}, evidence=quote)).is_error
    assert evidence_of(case, "total") == ("found", "number", 2, "963,12")


async def test_quote_on_another_page_is_refused(case, context):
    quote = {"total": {"quote": "Total 963,12 EUR", "page": 1}, "number": {"quote": "Invoice 4711", "page": 9}}
    answer = await save(case, context, {"total": 963.12, "number": "4711"}, evidence=quote)
    assert (answer.code, answer.data) == ("quote_not_printed", {"paths": ["total", "number"]})
    assert answer.is_error and case.extraction()["version"] == 0
    # A page without a quote is only a hint.
    quote = {"total": {"quote": "Total 963,12 EUR", "page": 2}, "number": {"quote": "", "page": 2}}
    assert not (await save(case, context, {"total": 963.12, "number": "4711"}, evidence=quote)).is_error
    assert evidence_of(case, "number")[2] == 1


async def test_table_cell_is_located_by_its_row(case, context):
    rows = [{"name": "Bolt M8", "count": 2, "price": 4.5}, {"name": "Nut M8", "count": 1, "price": 9}]
    await save(case, context, {"items": rows})
    for n in (0, 1):
        answer = await case.call(context, "update_field", path=f"items[{n}].total", value=9.0, confidence=1.0)
        assert not answer.is_error
    proofs = case.extraction()["evidence"]
    for n in (0, 1):
        (name,), (total,) = proofs[f"items[{n}].name"]["boxes"], proofs[f"items[{n}].total"]["boxes"]
        assert name[1] == total[1], n  # on one line


async def test_value_from_the_users_message_needs_no_confidence(case):
    context = await case.context(await case.queue_run("correct", instructions="the vendor's name is Globex"))
    in_message = await case.call(context, "update_field", path="vendor.name", value="Globex", confidence=1.0)
    await case.call(context, "update_field", path="total", value=963.12, confidence=1.0)
    not_in_message = await case.call(context, "update_field", path="buyer.city", value="Atlantis", confidence=1.0)
    assert "not_found" not in in_message.data and not_in_message.data["not_found"] == ["buyer.city"]
    row = case.extraction()
    assert row["confidences"] == {"total": 0.99, "buyer.city": 0}
    assert row["evidence"]["vendor.name"]["state"] == "message"


async def test_word_index_is_cached_per_document_and_checks_access(database, clone, make_user):
    scope = await make_user()
    indexes = DocumentIndexes()
    async with (
        document_with_pages(database, clone.owner_url, scope, ["Total 100\n"]) as one,
        document_with_pages(database, clone.owner_url, scope, ["Sum 200\n"]) as other,
    ):
        for case, value, other_value in ((one, 100, 200), (other, 200, 100), (one, 100, 200)):
            index = await indexes.get(database, scope, case.document_id)
            assert index.find(value) is not None and index.find(other_value) is None
        # The index is cached. A stranger's index has no words.
        index = await indexes.get(database, scope, one.document_id)
        assert await indexes.get(database, scope, one.document_id) is index
        assert (await indexes.get(database, await make_user(), one.document_id)).find(100) is None
        # The cache is limited to 3 words: one document of two.
        small = DocumentIndexes(max_words=3)
        first = await small.get(database, scope, one.document_id)
        second = await small.get(database, scope, other.document_id)
        assert await small.get(database, scope, other.document_id) is second
        assert await small.get(database, scope, one.document_id) is not first


async def test_concurrent_requests_build_one_index_and_unread_documents_are_not_cached(database, clone, make_user):
    scope = await make_user()
    indexes = DocumentIndexes()
    async with document_with_pages(database, clone.owner_url, scope, ["Total 100\n"]) as case:
        get = partial(indexes.get, database, scope, case.document_id)
        one, other = await asyncio.gather(get(), get())
        assert one is other
        unread = DocumentIndexes()
        get = partial(unread.get, database, scope, case.document_id)
        case.sql("update documents set status = 'reading' where id = %s", case.document_id)
        stale_index = await get()
        case.sql("update documents set status = 'ready' where id = %s", case.document_id)
        assert await get() is not stale_index
