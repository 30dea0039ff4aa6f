"""A document of a hundred pages with the value on the last page."""

from __future__ import annotations

import json
import re

import pytest

from extraction_case import tool_results
from fieldmark.offline_model.messages import call, text

pytestmark = pytest.mark.anyio

PAGES = 100
PAGE = "Terms and conditions of page {n}\n" + "Nothing on this line is of any interest to anybody at all.\n" * 30


@pytest.mark.story
async def test_model_that_continues_reading_finds_the_last_page(serve):
    last = "Grand total: 4,711.00 EUR\n"
    seen: list[str] = []

    def model(body):
        results = tool_results(body)
        if len(body["messages"]) < 3:
            return [call("search_document", {"query": "grand total"})]
        if len(results) == 1:
            return [call("get_document_text")]
        line = results[-1][0].splitlines()[-1]
        event = json.loads(line) if line.startswith("{") else {}
        if event.get("code") == "more":
            # The message and the data report the same pages.
            assert f'[more: call get_document_text with pages "{event["data"]["pages"]}"]' in results[-1][0]
            return [call("get_document_text", {"pages": event["data"]["pages"]})]
        if "stored" not in event.get("code", ""):
            seen[:] = [said for said, _ in results]
            found = re.search(r"Grand total: ([\d,.]+)", results[-1][0])
            value = float(found[1].replace(",", ""))
            return [call("extract_fields", {"fields": {"total": value}, "confidences": {"total": 0.9}})]
        return [text("Done.")]

    async with serve(model) as server:
        pages = [PAGE.format(n=n) for n in range(1, PAGES)] + [PAGE.format(n=PAGES) + last]
        document_id = await server.upload_text("\f".join(pages), "long.txt")
        document = await server.get(f"documents/{document_id}")
        assert (document["status"], document["page_count"]) == ("ready", PAGES)
        result = await server.extract(document_id)
        assert result["status"] == "completed", result
        assert result["extraction"]["extracted_fields"] == {"total": 4711.0}
    assert seen[0] == "page 100: Grand total: 4,711.00 EUR"
    assert len(seen) > 3 and all(len(said.encode()) <= 40_000 for said in seen)
    numbers = [int(n) for said in seen for n in re.findall(r"^--- page (\d+) of 100 ---$", said, re.MULTILINE)]
    assert numbers == list(range(1, PAGES + 1))
