"""Whoever goes elsewhere stays there: what the area that they left still had to say changes no address any more."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from browsing import browsing, held

from agents.document.test_talking import PRINTED, model
from fieldmark.offline_model.messages import call, text
from fieldmark.testing.script import Script

pytestmark = [pytest.mark.anyio, pytest.mark.xdist_group("page"), pytest.mark.usefixtures("built_page")]

LATER = 500  # milliseconds: longer than each timer of the page that changes an address


def answers(count: int):
    return model(*[[text("Heard.")]] * count)


async def go_to(page, area: str) -> None:
    await page.get_by_role("navigation", name="Areas").get_by_role("link", name=area).click()


def where(page) -> str:
    parts = urlsplit(page.url)
    return parts.path + (f"?{parts.query}" if parts.query else "")


async def test_a_field_is_not_written_into_the_next_address(serve):
    identified = call("identify_document", {"document_type": "invoice", "confidence": 0.9})
    fields = {"number": "17", "total": 12.5}
    saved = call("extract_fields", {"fields": fields, "confidences": dict.fromkeys(fields, 0.9)})
    reading = Script([[identified], [saved], [call("complete_extraction", {"summary": "Two fields."})]])
    async with serve(reading) as served, browsing(served) as window:
        page = window.page
        document = await served.document("Invoice number: 17\nTotal: 12.50 EUR\n")
        read = await served.http.post("/api/agent/extract", json={"document_id": str(document)})
        assert read.json()["status"] == "completed", read.text
        await window.enter(f"/documents/{document}")
        field = page.locator('[role=treeitem][data-path="total"]')
        await field.click()
        await page.wait_for_url("**?field=total")  # where one stays, it is
        async with held(page, "**/assets/SheetPage-*.js"):
            await page.locator('[role=treeitem][data-path="number"]').click()
            await page.get_by_role("link", name="in all documents").click()
            await page.wait_for_timeout(LATER)
            assert where(page) == "/review/sheet?path=number&document_type=invoice"
        await page.get_by_role("heading", name="One field", exact=True).wait_for()
        assert where(page) == "/review/sheet?path=number&document_type=invoice"
        assert window.faults == []


async def test_a_name_that_was_being_looked_for_brings_nobody_back(serve):
    async with serve(answers(0)) as served, browsing(served) as window:
        page = window.page
        await served.document("Total: 12\n", "a.txt")
        await window.enter("/documents")
        await page.get_by_role("link", name="a.txt").wait_for()
        await page.get_by_role("searchbox").fill("a.t")
        await page.wait_for_url("**?name=a.t")
        async with held(page, "**/assets/SearchPage-*.js"):
            await page.get_by_role("searchbox").fill("b.t")
            await go_to(page, "Search")
            await page.wait_for_timeout(LATER)
        await page.get_by_label("Words", exact=True).wait_for()
        assert where(page) == "/search"
        assert window.faults == []


async def test_a_question_that_is_heard_late_brings_nobody_back(serve):
    async with serve(answers(1)) as served, browsing(served) as window:
        page = window.page
        await window.enter("/ask")
        async with held(page, "**/api/agent/ask"):
            await page.get_by_label("Your question").fill("Does the roof leak?")
            await page.get_by_label("Your question").press("Enter")
            await page.get_by_role("button", name="Ask", exact=True).and_(page.locator(":disabled")).wait_for()
            await go_to(page, "Documents")
            await page.get_by_role("heading", name="Drop documents here").wait_for()
        await page.wait_for_timeout(LATER)
        assert where(page) == "/documents"
        assert window.faults == []


async def test_a_message_that_is_heard_late_opens_no_conversation_elsewhere(serve):
    async with serve(answers(2)) as served, browsing(served) as window:
        page = window.page
        first, second = [await served.document(PRINTED, name) for name in ("a.txt", "b.txt")]
        await window.enter(f"/documents/{first}?chat=new")
        await page.get_by_label("Your message").wait_for()
        async with held(page, "**/api/agent/chat"):
            await page.get_by_label("Your message").fill("Hello")
            await page.get_by_label("Your message").press("Enter")
            await page.get_by_role("button", name="Send", exact=True).and_(page.locator(":disabled")).wait_for()
            await go_to(page, "Documents")
            await page.get_by_role("link", name="b.txt").click()
            await page.get_by_role("heading", name="b.txt").wait_for()
        await page.wait_for_timeout(LATER)
        assert where(page) == f"/documents/{second}"
        # Nor in the same document, where the fields were gone back to: it waits among the conversations.
        await page.keyboard.press("c")
        async with held(page, "**/api/agent/chat"):
            await page.get_by_label("Your message").fill("Hello")
            await page.get_by_label("Your message").press("Enter")
            await page.get_by_role("button", name="Send", exact=True).and_(page.locator(":disabled")).wait_for()
            await page.get_by_role("tab", name="Fields").click()
        await page.wait_for_timeout(LATER)
        assert where(page) == f"/documents/{second}"
        await page.get_by_role("tab", name="Chat").click()
        await page.get_by_role("log", name="Conversation").get_by_text("Hello").wait_for()
        assert window.faults == []
