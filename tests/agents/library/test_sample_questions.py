"""Questions over receipts and invoices, answered by the offline rules: each answer is right, and its boxes lie on the
words that it quotes. And quotes that no page says."""

from __future__ import annotations

import asyncio
import json
import re

import pytest

from agents.library.test_asking import INTENT, SURVEY, blocks
from desk import tool_results
from fieldmark.offline_model.messages import call, text
from fieldmark.testing.script import Script
from sample_questions import QUESTIONS, SECRET, Pages, answer, documents, faults, instructions, is_grounded

pytestmark = pytest.mark.anyio


async def stored(served, chosen) -> None:
    """Documents that are read, have their fields and can be found."""

    async def one(document) -> None:
        document_id = await served.upload(document.name, document.content)
        if document.fields is not None:
            result = await served.extract(document_id, instructions=instructions(document))
            assert result["status"] == "completed", result

    await asyncio.gather(*map(one, chosen))
    await served.indexed()


@pytest.mark.long
async def test_each_answer_is_right_and_its_boxes_lie_on_its_quotes(serve):
    async with serve(answer) as served:
        await stored(served, documents())
        async with served.client() as other:
            taken = await other.post("/api/documents", files={"file": ("survey.txt", SECRET.encode())})
            assert taken.status_code == 201
        pages, wrong = Pages(served.http), {}
        for question in QUESTIONS:
            result = (await served.ask(question.message))["result"]
            if found := await faults(pages, question, result):
                wrong[question.message] = (found, result)
        assert not wrong
        assert "Zurich is 7391" not in json.dumps(served.model.requests)  # the number alone may be part of an id


async def test_an_answer_that_is_not_on_the_page_is_noticed(serve):
    """The check of the other test can fail."""
    (question,) = [one for one in QUESTIONS if "inspector" in one.message]
    async with serve(answer) as served:
        await stored(served, [one for one in documents() if one.name == "survey.txt"])
        result = (await served.ask(question.message))["result"]
        (source,) = result["sources"]
        pages = Pages(served.http)
        assert await faults(pages, question, result) == []
        elsewhere = {**source, "boxes": [[x0, y0 + 0.3, x1, y1 + 0.3] for x0, y0, x1, y1 in source["boxes"]]}
        for changed in (elsewhere, {**source, "quote": "Jane Portman"}, {**source, "boxes": []}):
            assert not await is_grounded(pages, changed)
            assert await faults(pages, question, {**result, "sources": [changed]})
        assert await faults(pages, question, {**result, "answer": "Mary Hill [1]."})


FALSE_QUOTES = {
    "roof at the chimney": "quote_not_found",  # leaves a word out
    "The roof leaks at the chimney and the wall": "quote_not_found",
    "roof leaks at the chimney. The gutters leak": "quote_not_found",
    "leaks leaks": "quote_not_found",
    "The roof … the chimney": "quote_not_found",
    "42": "quote_not_found",
    "…": "quote_too_short",
    "": "invalid",
}


async def test_a_quote_that_no_block_says_is_refused(serve):
    told: list[str] = []

    def cite(body):
        block = next(one for one, words in blocks(body).items() if "roof" in words)
        return [call("cite_source", {"number": 1, "block_id": block, "quote": quote}) for quote in FALSE_QUOTES]

    def end(body):
        found = [re.search(r'"code":"(\w+)"', said) for said, _ in tool_results(body)]
        told.extend(one[1] if one else "invalid" for one in found[2:])
        return [text("So it is not sound.")]

    async with serve(Script([[INTENT, call("read_document", {"document": "survey.txt"})], cite, end])) as served:
        await served.document(SURVEY, "survey.txt")
        await served.ask("Is the roof sound?")
    assert told == [*FALSE_QUOTES.values()]
