"""What an agent asks for is decided on the page: as it is, with other values, or not at all; one after the other."""

from __future__ import annotations

import json

import pytest

from acceptance.test_decisions_take_effect import put
from desk import tool_results
from fieldmark.offline_model.messages import call
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio

IDENTIFIED = call("identify_document", {"document_type": "invoice", "confidence": 0.9})
COMPLETE = call("complete_extraction", {"summary": "Done."})
TEXT = "Invoice number: 17\nTotal: 12.50 EUR\nVAT: 2.00 EUR\n"


def saves(**fields):
    return call("extract_fields", {"fields": fields, "confidences": dict.fromkeys(fields, 0.9)})


async def begun(served, document) -> str:
    asked = {"document_id": str(document), "approval": "ask", "wait": False}
    asked["auto_approved_tools"] = ["identify_document", "complete_extraction"]
    answer = await served.http.post("/api/agent/extract", json=asked)
    assert answer.status_code == 202, answer.text
    return answer.json()["run_id"]


async def test_three_calls_in_a_row_one_edited_one_rejected(serve, browsing, picture):
    script = Script([[IDENTIFIED], [saves(number="17")], [saves(total=12.5, vat=2)], [saves(note="x")], [COMPLETE]])
    async with serve(script) as served, browsing(served) as window:
        page = window.page
        document = await served.document(TEXT)
        run_id = await begun(served, document)
        await window.enter(f"/documents/{document}")
        card = page.get_by_role("region", name="Waits for your decision")

        await card.get_by_text("number", exact=True).wait_for()
        await page.keyboard.press("a")
        await card.get_by_text("total", exact=True).wait_for()
        await card.get_by_role("button", name="Edit").click()
        await card.get_by_label("New value of total").fill("13.5")
        await picture(page, "approval-edited")
        await card.get_by_role("button", name="Approve edited").click()
        await card.get_by_text("note", exact=True).wait_for()
        await page.keyboard.press("r")
        await card.get_by_label("Why").fill("That is not printed.")
        await card.get_by_role("button", name="Reject").click()

        await page.locator("[data-phase=complete]").wait_for()
        (extraction,) = (await served.http.get("/api/extractions")).json()["items"]
        fields = (await served.http.get(f"/api/extractions/{extraction['id']}")).json()["extracted_fields"]
        assert fields == {"number": "17", "total": 13.5, "vat": 2}
        told = json.dumps([said for said, _ in tool_results(served.model.requests[-1])])
        assert "That is not printed." in told
        assert (await served.http.get(f"/api/runs/{run_id}")).json()["status"] == "completed"
        assert window.faults == []


async def test_all_that_waits_stands_in_one_place(serve, browsing, picture):
    # Two runs, each with a call that waits: either may come first.
    script = Script([[IDENTIFIED], [saves(number="17")], [COMPLETE]])
    async with serve(script) as served, browsing(served) as window:
        page = window.page
        await begun(served, await served.document(TEXT, "a.txt"))
        await window.enter("/approvals")
        await page.get_by_role("link", name="Approvals 1").wait_for()
        await page.get_by_role("link", name="a.txt").wait_for()
        await picture(page, "approvals")
        await page.get_by_role("button", name="Approve", exact=True).click()
        await page.get_by_role("heading", name="Nothing waits for you").wait_for()

        assert window.faults == []


async def test_what_moved_since_it_was_shown_is_said(serve, browsing, clone, picture):
    script = Script([[IDENTIFIED], [saves(total=12.5)], [COMPLETE]])
    async with serve(script) as served, browsing(served) as window:
        page = window.page
        await begun(served, await served.document(TEXT))
        await window.enter("/approvals")
        await page.get_by_role("button", name="Approve", exact=True).wait_for()
        (extraction,) = (await served.http.get("/api/extractions")).json()["items"]
        put(clone, {"extraction": extraction}, {"total": 99})
        await page.get_by_role("button", name="Approve", exact=True).click()
        await page.get_by_text("is 99 now; nothing was shown").wait_for()
        await picture(page, "approval-moved")
        stored = (await served.http.get(f"/api/extractions/{extraction['id']}")).json()
        assert stored["extracted_fields"] == {"total": 99}
        assert window.faults == []


async def test_approving_this_and_more_approves_later_calls_of_the_tool(serve, browsing):
    complete = [call("complete_extraction", {"summary": "Done."})]
    script = Script([[IDENTIFIED], [saves(number="17")], [saves(total=12.5)], [saves(vat=2)], complete])
    async with serve(script) as served, browsing(served) as window:
        page = window.page
        document = await served.document(TEXT)
        body = {"document_id": str(document), "approval": "ask", "wait": False}
        body["auto_approved_tools"] = ["identify_document"]
        assert (await served.http.post("/api/agent/extract", json=body)).status_code == 202
        await window.enter(f"/documents/{document}")
        card = page.get_by_role("region", name="Waits for your decision")
        await card.get_by_text("number", exact=True).wait_for()
        await card.get_by_role("button", name="Approve this and more").click()
        await page.get_by_role("menuitem", name="all further “extract_fields”").click()
        await page.get_by_role("heading", name="Completing").wait_for()
        await card.get_by_role("button", name="Approve", exact=True).click()
        await page.locator("[data-phase=complete]").wait_for()
        (extraction,) = (await served.http.get("/api/extractions")).json()["items"]
        fields = (await served.http.get(f"/api/extractions/{extraction['id']}")).json()["extracted_fields"]
        assert fields == {"number": "17", "total": 12.5, "vat": 2}
        assert window.faults == []
