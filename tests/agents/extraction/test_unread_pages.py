"""Completion reports pages that the run has not read, and pages with reading warnings."""

from __future__ import annotations

import pytest

from extraction_case import document_with_pages
from fieldmark.tools.toolset import MAX_RESULT_BYTES
from pagewords.reading_warnings import ReadingWarning, WarningCode

pytestmark = pytest.mark.anyio


@pytest.fixture
async def create_case(database, clone, make_user):
    """Create a document with these pages; returns (its case, the context of a run)."""
    scope = await make_user()

    async def create_case(pages, task="extract", warnings=()):
        async with document_with_pages(database, clone.owner_url, scope, pages, warnings) as case:
            await case.set_fields({"note": "some value"})
            return case, await case.context(await case.queue_run(task))

    return create_case


async def complete(case, context):
    """Try to complete. Return the unread pages if it is refused, else None."""
    answer = await case.call(context, "complete_extraction")
    assert answer.code == ("unread_pages" if answer.is_error else "completed")
    return answer.data["pages"] if answer.is_error else None


async def test_completing_with_a_poorly_read_page_returns_a_warning(create_case):
    unread = ReadingWarning(WarningCode.UNREAD_LINES, 2, 3, "foreign text")
    hidden = ReadingWarning(WarningCode.HIDDEN_TEXT, 1, 2, "secret 4711")
    for warnings, codes in (([hidden, unread], [{"code": "unread_lines", "page": 2}]), ([hidden], None), ([], None)):
        case, context = await create_case(["One.", "Two."], warnings=warnings)
        await case.call(context, "get_document_text")
        done = await case.call(context, "complete_extraction")
        assert (done.code, done.data.get("warnings")) == ("completed", codes)
        assert (unread.message in done.text) is (codes is not None)
        assert "foreign" not in done.text and "secret" not in done.text


async def test_completion_lists_unread_pages_once(create_case):
    case, context = await create_case([f"Page {number}." for number in range(1, 11)])
    for pages in ("1-2", "4-6", "10"):
        await case.call(context, "get_document_text", pages=pages)
    await case.call(context, "search_document", query="Page 3")  # a hit shows a line, not the page
    assert await complete(case, context) == [3, 7, 8, 9]
    assert case.extraction()["status"] == "in_progress"
    assert [call["status"] for call in case.ledger(context.run_id) if call["tool"] == "complete_extraction"] == [
        "failed"
    ]
    assert await complete(case, context) is None
    assert case.extraction()["status"] == "completed"


async def test_empty_pages_need_not_be_read(create_case):
    for pages, unread in ((["One.", " \n\t", ""], None), (["One.", "Two.", ""], [2])):
        case, context = await create_case(pages)
        await case.call(context, "get_document_text", pages="1")
        await case.call(context, "get_document_text", pages=str(len(pages)), offset=1000)  # shows nothing
        assert await complete(case, context) == unread


async def test_page_counts_as_read_when_its_end_was_shown(create_case):
    case, context = await create_case(["a" * 30_000, "b" * (MAX_RESULT_BYTES + 5_000), "c"])
    await case.call(context, "get_document_text")
    await case.call(context, "get_document_text", pages="2-")
    assert await complete(case, context) == [2, 3]
    case, context = await create_case(["b" * (MAX_RESULT_BYTES + 5_000), "c"])
    first = await case.call(context, "get_document_text")
    assert first.code == "more" and first.data["pages"] == "1-"
    await case.call(context, "get_document_text", **first.data)
    assert await complete(case, context) is None


async def test_read_pages_survive_a_worker_and_belong_to_one_run(create_case):
    case, context = await create_case(["One.", "Two.", "Three."])
    await case.call(context, "get_document_text", pages="1")
    later = await case.context(context.run_id)
    assert await complete(case, later) == [2, 3]
    assert await complete(case, await case.context()) == [1, 2, 3]
    last = await case.context(context.run_id)
    assert await complete(case, last) is None
    assert (
        await complete(case, await case.context(await case.queue_run("correct"))) is None
    )  # a correction may complete without reading
