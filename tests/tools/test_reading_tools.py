"""The tools that read a document return every character of it, and search finds printed text."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from extraction_case import document_with_pages
from fieldmark.agents.extraction.agent import EXTRACTION
from fieldmark.tools.ledger import StartedBy, ToolCall, execute
from fieldmark.tools.toolset import MAX_RESULT_BYTES
from pagewords.reading_warnings import ReadingWarning, WarningCode

pytestmark = pytest.mark.anyio

_MORE = re.compile(r'\[more: call get_document_text with pages "(\d+-)"(?: and offset (\d+))?\]\Z')
_HEADER = re.compile(r"--- page (\d+) of \d+ ---\n")


async def read(context, **arguments):
    return await execute(
        EXTRACTION.create_tools(context),
        context,
        ToolCall("get_document_text", "call-1", arguments),
        started_by=StartedBy.POLICY,
    )


async def read_all(context) -> tuple[list[str], int]:
    """Return the pages, read part by part as each part says, and the number of parts."""
    pages: dict[int, str] = {}
    asked: dict = {}
    for part in range(1, 1000):
        answer = await read(context, **asked)
        assert not answer.is_error and len(answer.text.encode()) <= MAX_RESULT_BYTES
        more = _MORE.search(answer.sentence)
        body = answer.sentence[: more.start()] if more else answer.sentence
        pieces = _HEADER.split(body)[1:]
        for number, piece in zip(pieces[::2], pieces[1::2], strict=True):
            pages[int(number)] = pages.get(int(number), "") + piece
        # The data for programs matches the text for the model.
        assert (answer.code == "more") is (more is not None)
        if more is None:
            return [pages[number] for number in sorted(pages)], part
        asked = {"pages": more[1]} | ({"offset": int(more[2])} if more[2] else {})
        assert answer.data == asked
    raise AssertionError("it does not end")


@pytest.fixture
async def lay(database, clone, make_user):
    """Lays out a document of these pages and takes up a run on it."""
    scope = await make_user()

    async def lay(pages: list[str], warnings: Sequence[ReadingWarning] = (), einvoice_pages: Collection[int] = ()):
        async with document_with_pages(
            database, clone.owner_url, scope, pages, warnings, einvoice_pages=einvoice_pages
        ) as case:
            return await case.context()

    return lay


UNREAD = ReadingWarning(WarningCode.UNREAD_LINES, 2, 3, "foreign text")
HIDDEN = ReadingWarning(WarningCode.HIDDEN_TEXT, 1, 2, "secret 4711")


async def test_document_text_reports_poorly_read_pages(lay):
    context = await lay(["One.\n", "Two.\n", "Three.\n"], [HIDDEN, UNREAD])
    said = [f"--- page 1 of 3 ---\n[warning: {HIDDEN.message}]\nOne.\n", f"[warning: {UNREAD.message}]\nTwo.\n"]
    whole = (await read(context)).text
    assert all(part in whole for part in said) and whole.count("[warning") == 2
    assert "foreign" not in whole and "secret" not in whole
    assert "[warning" not in (await read(context, pages="3")).text


async def test_long_document_text_comes_in_parts(lay):
    pages = [f"Page {n}\n" + f"line of page {n} ÄÖ€\n" * 20 for n in range(1, 301)]
    context = await lay(pages)
    answer = await read(context)
    first = answer.sentence
    assert len(answer.text.encode()) <= MAX_RESULT_BYTES
    assert 35_000 < len(first.encode()) <= MAX_RESULT_BYTES
    assert re.search(r'\n\[more: call get_document_text with pages "\d+-"\]\Z', first)
    read_back, parts = await read_all(context)
    assert read_back == pages and 3 < parts < 10


async def test_giant_page_is_read_by_offset(lay):
    giant = "".join(f"{n:07d} ä€😀\n" for n in range(12_000))
    context = await lay(["before\n", giant, "after\n"])
    read_back, parts = await read_all(context)
    assert read_back == ["before\n", giant, "after\n"] and parts > 5
    nowhere = await read(context, pages="2", offset=len(giant))
    assert nowhere.text == "--- page 2 of 3 ---\n\n"


async def test_giant_line_is_read_by_offset(lay):
    giant = "".join(f"{n:07d}€" for n in range(12_000))
    read_back, parts = await read_all(await lay([giant]))
    # Cut anywhere, because it has no lines: the parts are put together without the line ends between them.
    assert "".join(read_back).replace("\n", "") == giant and parts > 3


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    pages=st.lists(
        st.lists(
            st.tuples(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20),
                      st.integers(1, 3000)),
            max_size=4,
        ),
        min_size=1,
        max_size=5,
    )
)  # fmt: skip
async def test_parts_together_are_the_whole_text(lay, pages):
    texts = ["".join(piece * times for piece, times in page) for page in pages]
    read_back, _ = await read_all(await lay(texts))
    # Blank ends of pages are not shown, nor does it matter where a part was cut.
    assert ["".join(text.split()) for text in read_back] == ["".join(text.split()) for text in texts]


@pytest.mark.parametrize(
    ("pages", "numbers"),
    [("2", [2]), ("2-3", [2, 3]), ("3-", [3, 4]), (" 2 - 3 ", [2, 3]), ("4-9", [4]), (None, [1, 2, 3, 4])],
)
async def test_requested_pages_are_returned(lay, pages, numbers):
    answer = await read(await lay(["a", "b", "c", "d"]), **({"pages": pages} if pages else {}))
    assert [int(number) for number in _HEADER.findall(answer.text)] == numbers


@pytest.mark.parametrize("pages", ["0", "5", "3-2", "-1", "a", "", "1,2", "1-2-3", "9999999"])
async def test_invalid_page_ranges_are_rejected(lay, pages):
    answer = await read(await lay(["a", "b", "c", "d"]), pages=pages)
    assert answer.is_error and ("pages 1 to 4" in answer.text or "Pages are given" in answer.text)


async def search(context, query: str):
    return await execute(
        EXTRACTION.create_tools(context),
        context,
        ToolCall("search_document", "call-1", {"query": query}),
        started_by=StartedBy.POLICY,
    )


async def test_search_ignores_case_and_spacing_and_returns_pages(lay):
    context = await lay(["nothing\n", "x\n  Grand   TOTAL:\t12,50 €  \n"])
    assert (await search(context, "grand total: 12,50")).text == "page 2: Grand   TOTAL:\t12,50 €"
    assert (await search(context, "grand  totals")).code == "nothing_found"
    blank = await search(context, " \t ")
    assert (blank.is_error, blank.code) == (True, "invalid")


async def test_search_results_are_limited(lay):
    context = await lay(["total " + "x" * 5000 + "\n"] * 30)
    answer = await search(context, "total")
    assert answer.sentence.count("page ") == 20 and answer.code == "more"
    assert len(answer.text.encode()) < MAX_RESULT_BYTES


async def test_search_query_is_literal_text(lay):
    context = await lay(["100% of [a.b] 'quoted'\n"])
    for query in ("100%", "[a.b]", "'quoted'"):
        assert (await search(context, query)).text.startswith("page 1: ")
    for query in ("1.0%", "%of%", ".*", "a_b"):
        assert (await search(context, query)).code == "nothing_found"


async def test_result_marks_embedded_einvoice_pages(lay) -> None:
    context = await lay(["Total 1,00", "a.Total: 1.00", "b " * 30_000], einvoice_pages=(2, 3))
    everything = await read(context)
    assert (everything.code, everything.data["xml_pages_from"]) == ("more", 2)
    assert (await read(context, pages="1")).data is None
    assert (await read(context, pages="3-")).data["xml_pages_from"] == 3
