"""`fieldmark ask` and `search`: answers with document name and page of each source, and the passages."""

from __future__ import annotations

import json

import pytest

from fieldmark.agents.registry import answer_offline

pytestmark = pytest.mark.anyio


async def test_answers_and_passages_show_name_and_page(commands):
    async with commands(answer_offline) as fieldmark:
        extracted = await fieldmark.run(
            "extract", fieldmark.file("The roof leaks.\nInvoice number: 1\nTotal: 1500.00 EUR")
        )
        assert extracted.code == 0, extracted.err
        await fieldmark.server.wait_until_indexed()
        found = await fieldmark.run("search", "leaking roofs", "--where", "total > 1000")
        assert found.code == 0 and found.out.startswith("a.txt, page 1:  The roof leaks."), found.err
        no_hits = await fieldmark.run("search", "roof", "--where", "total > 2000", "--json")
        assert (no_hits.code, json.loads(no_hits.out)["hits"]) == (0, [])

        ended = await fieldmark.run("ask", "what does a.txt say about the roof?")
        assert ended.code == 0, ended.err
        assert "[1] a.txt, page 1: " in ended.out
        assert ended.out.splitlines()[0] not in ended.err  # a terminal would show it twice
        (thread,) = fieldmark.sql("select id from public.threads where agent = 'library'")
        assert f"ask --thread {thread['id']}" in ended.err
        ended = await fieldmark.run("ask", "--json", "--thread", str(thread["id"]), "how many documents are there?")
        assert ended.code == 0, ended.err
        assert json.loads(ended.out)["result"] == "1"
