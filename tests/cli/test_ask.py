"""`fieldmark ask`: an answer, and the name and page of each of its sources."""

from __future__ import annotations

import json

import pytest

from fieldmark.agents.registry import answer_offline

pytestmark = pytest.mark.anyio


async def test_the_answer_comes_with_name_and_page(commands):
    async with commands(answer_offline) as fieldmark:
        taken = await fieldmark.run("extract", fieldmark.file())
        assert taken.code == 0, taken.err
        (document,) = fieldmark.sql("select filename from public.documents")
        ended = await fieldmark.run("ask", f"what is the invoice number of {document['filename']}?")
        assert ended.code == 0, ended.err
        assert f"[1] {document['filename']}, page 1: " in ended.out and "no language model" in ended.out
        assert ended.out.splitlines()[0] not in ended.err  # on a terminal it would stand there twice
        (thread,) = fieldmark.sql("select id from public.threads where agent = 'library'")
        assert f"ask --thread {thread['id']}" in ended.err
        ended = await fieldmark.run("ask", "--json", "--thread", str(thread["id"]), "how many documents are there?")
        assert ended.code == 0, ended.err
        assert json.loads(ended.out)["result"] == "1"
        assert (await fieldmark.run("ask", "--where", "total >", "what is the total?")).code == 2
