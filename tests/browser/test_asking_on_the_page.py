"""Questions about all documents: the answer streams in, and its sources open on their pages."""

from __future__ import annotations

import asyncio

import pytest

from agents.library.test_asking import INTENT, READ, SURVEY, cite, submit_answer
from browser.boxes import shown_box, surrounds
from browser.window import label, playwright
from fieldmark.agents.registry import answer_offline
from fieldmark.offline_model.messages import call
from fieldmark.testing.script import Script
from library_rows import LibraryDocument, insert_documents

pytestmark = pytest.mark.anyio

ROOF, GUTTERS = "The roof leaks at the chimney.", "The gutters are sound."
CITED = [INTENT, READ]
HOSTILE = "<img src=x onerror=window.hacked=1> ![](http://evil.invalid/x.png) [look](javascript:alert(1))"


async def ask(page, question: str) -> None:
    box = page.get_by_label("Your question")
    await box.fill(question)
    await box.press("Enter")


async def chosen_box(page) -> list[float]:
    """Return the highlighted box in fractions of the page."""
    rect = page.get_by_role("complementary", name="Source").locator("rect[class*=chosen]")
    await rect.first.wait_for(state="attached")
    # The page fills the width.
    (shown, room) = [
        await page.get_by_role("complementary", name="Source").locator(one).first.bounding_box()
        for one in ("[data-page]", "[role=region]")
    ]
    assert shown["width"] > room["width"] * 0.9
    return (await shown_box(rect.first))[1]


async def test_sources_of_an_answer_open_on_the_page(serve, browsing):
    may_continue = asyncio.Event()

    async def submit_when_allowed(body):
        await may_continue.wait()
        return [submit_answer(f"It leaks [1]; the gutters are sound [2]. {HOSTILE}")]

    script = Script([CITED, cite(1, ROOF), cite(2, GUTTERS), submit_when_allowed])
    async with serve(script) as server, browsing(server) as window:
        page = window.page
        await server.upload_text(SURVEY, "survey.txt")
        await server.wait_until_indexed()
        await window.open("/ask")
        await ask(page, "Does the roof leak?")
        try:
            # The steps are shown in plain words; after a reload the answer continues.
            for _ in range(2):
                await page.get_by_text(f"{label('tools.read_document')}: survey.txt").first.wait_for()
                await playwright.expect(page.get_by_role("button", name="Cancel")).to_be_enabled()
                await page.reload()
        finally:
            may_continue.set()
        sources = page.get_by_role("list", name="Sources").get_by_role("button")
        await sources.first.wait_for()
        await playwright.expect(sources).to_have_count(2)
        thread = (await server.get("threads?agent=library"))["items"][0]
        (turn,) = (await server.get(f"threads/{thread['id']}"))["turns"]
        for number in (2, 1):
            await page.get_by_role("button", name=f"Source {number}: survey.txt, page 1").click()
            assert surrounds(await chosen_box(page), turn["result"]["sources"][number - 1]["boxes"][0])
        assert await page.evaluate("window.hacked") is None
        assert await page.locator("main img[src=x], main a[href^=javascript]").count() == 0
        await page.get_by_text(label("runs.showSteps")).click()
        await page.get_by_role("log").get_by_text(label("tools.cite_source")).first.wait_for()


async def test_follow_ups_stay_in_one_conversation_that_can_be_deleted(serve, browsing):
    nothing = [INTENT, call("search_documents", {"query": "dragons"})], [submit_answer("Nothing.", nothing_found=True)]

    script = Script([*nothing, *nothing, *nothing])

    async def answer(body):
        if "roof" in str(body["messages"]):
            await asyncio.Event().wait()  # without end
        return await script(body)

    async with serve(answer) as server, browsing(server) as window:
        page = window.page
        await window.open("/ask")
        for number in range(1, 4):
            await ask(page, f"Who feeds dragon {number}?")
            await (
                page.get_by_text(f"{label('chat.searches', count=1)} · {label('chat.documentsRead', count=0)}")
                .nth(number - 1)
                .wait_for()
            )
            # The next question is sent only after the turn has ended.
            await page.get_by_role("button", name="Cancel").wait_for(state="detached")
        (thread,) = (await server.get("threads?agent=library"))["items"]
        turns = (await server.get(f"threads/{thread['id']}"))["turns"]
        assert [turn["message"] for turn in turns] == [f"Who feeds dragon {number}?" for number in (3, 2, 1)]
        # On a phone the last conversations are below the box.
        await page.set_viewport_size({"width": 390, "height": 844})
        await window.open("/ask")
        await page.get_by_role("region", name=label("ask.recent")).get_by_role("button").click()
        await page.get_by_text("Who feeds dragon 3?").first.wait_for()
        await page.set_viewport_size({"width": 1280, "height": 720})
        # A cancelled turn ends at once.
        await ask(page, "Does the roof leak?")
        await page.get_by_role("button", name="Cancel").click()
        await page.get_by_text("cancelled").first.wait_for()
        await page.get_by_role("button", name="Cancel").wait_for(state="detached")
        await page.get_by_role("button", name=label("ask.more", name="Who feeds dragon 1?")).click()
        await page.get_by_role("menuitem", name="Delete").click()
        await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        await page.get_by_role("heading", name=label("ask.title")).wait_for()
        assert (await server.get("threads?agent=library"))["items"] == []


async def test_suggested_question_has_its_figures_in_a_table_that_opens_their_rows(serve, browsing, clone):
    totals = [("Acme", 500), ("Acme", 1500.5), ("Globex", 2000), ("Globex", 900)]
    library = [LibraryDocument({"vendor": vendor, "total": total, "currency": "EUR"}) for vendor, total in totals]
    async with serve(answer_offline) as server, browsing(server) as window:
        page = window.page
        insert_documents(clone.owner_url, server.scope, library)
        columns = [{"name": "vendor"}, {"name": "total", "type": "number"}]
        stack = {"name": "Bills", "document_ids": [str(one.id) for one in library], "columns": columns}
        assert (await server.http.post("/api/stacks", json=stack)).status_code == 201
        await window.open("/ask")
        await page.get_by_role("button", name=label("ask.suggest.sumBy", field="total", group="vendor")).click()
        figures = page.get_by_role("region", name=label("answer.figures"))
        total = f"{label('answer.ops.sum', field='Total')}, EUR"
        await figures.get_by_role("columnheader", name=total).wait_for()
        await figures.get_by_role("row", name="Globex 2 2,900.00").wait_for()
        await figures.get_by_role("row", name=f"{label('answer.sum')} 4 4,900.50").wait_for()
        await page.get_by_role("definition").get_by_text("4,900.50").wait_for()
        # The question stays in view above its answer.
        await playwright.expect(page.get_by_role("log").get_by_role("paragraph").first).to_be_in_viewport()
        await playwright.expect(page.get_by_role("list", name="Sources").get_by_role("button")).to_have_count(3)
        await page.get_by_role("button", name="1 more").click()
        await playwright.expect(page.get_by_role("list", name="Sources").get_by_role("button")).to_have_count(4)
        await page.get_by_role("link", name="Globex").click()
        await page.get_by_role("heading", name="Bills").wait_for()
        assert "filter" in page.url and "Globex" in page.url


async def test_passage_opens_on_its_page(serve, browsing):
    async with serve() as server, browsing(server, viewport={"width": 360, "height": 740}) as window:
        page = window.page
        await server.upload_text(SURVEY, "survey.txt")
        await server.wait_until_indexed()
        await window.open("/ask")
        await page.get_by_label("Your question").fill("leaking roof")
        await page.get_by_role("button", name=label("ask.find")).click()
        hit = page.get_by_role("list", name=label("search.results")).get_by_role("button").first
        await hit.wait_for()
        await playwright.expect(hit.locator("mark")).to_have_text(["roof", "leaks"])
        await hit.click()
        answer = (await server.get("search?q=leaking roof"))["hits"][0]
        assert surrounds(await chosen_box(page), answer["marks"][0]["box"])
        assert await page.evaluate("document.documentElement.scrollWidth") <= 360
        await page.keyboard.press("Escape")
        await hit.wait_for()
        await playwright.expect(page.get_by_role("complementary", name="Source")).to_have_count(0)
