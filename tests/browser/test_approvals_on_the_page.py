"""Calls that need approval are approved, edited or rejected on the page."""

from __future__ import annotations

import asyncio
import json
import re

import pytest

from acceptance.test_decisions_take_effect import set_fields
from browser.scripts import COMPLETE, IDENTIFY, extract_until_approval, new_extraction, save_fields
from browser.window import label, playwright
from extraction_case import tool_results
from fieldmark.offline_model.messages import call
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio

expect = playwright.expect

TEXT = "Invoice number: 17\nTotal: 12.50 EUR\nVAT: 2.00 EUR\n"


async def test_calls_are_approved_edited_and_rejected(serve, browsing):
    script = Script(
        [[IDENTIFY], [save_fields(number="17")], [save_fields(total=12.5, vat=2)], [save_fields(note="x")], [COMPLETE]]
    )
    async with serve(script) as server, browsing(server) as window:
        page = window.page
        document = await server.upload_text(TEXT)
        run_id = await extract_until_approval(server, document, "complete_extraction")
        await window.open(f"/documents/{document}")
        card = page.get_by_role("region", name=label("approvals.card"))

        await card.get_by_text("Number", exact=True).wait_for()
        # Before the decision, the proposed value is shown among the fields, with its box and a picture of it.
        await page.locator('rect[data-path="number"]').wait_for(state="attached")
        await card.get_by_role("figure").locator("image").wait_for()
        row = window.field_row("number")
        await row.get_by_text(label("fields.statuses.waiting")).first.wait_for()
        (extraction,) = (await server.get("extractions"))["items"]
        assert (await server.extraction(extraction["id"]))["extracted_fields"] == {}
        await expect(card.get_by_role("button", name="Approve 1")).to_be_enabled()
        await page.keyboard.press("a")
        await card.get_by_text("Total", exact=True).wait_for()
        await card.get_by_role("button", name=label("approvals.editValue", field="Total")).click()
        await card.get_by_label(label("approvals.newValue", field="Total")).fill("13.5")
        await card.get_by_role("button", name="Approve 2 with edits").click()
        await card.get_by_text("Note", exact=True).wait_for()
        await expect(card.get_by_role("button", name=label("common.reject"))).to_be_enabled()
        await page.keyboard.press("r")
        await card.get_by_label("Reason").fill("That is not printed.")
        await card.get_by_role("button", name="Reject").click()

        await page.locator("[data-phase=complete]").wait_for()
        (extraction,) = (await server.get("extractions"))["items"]
        fields = (await server.extraction(extraction["id"]))["extracted_fields"]
        assert fields == {"number": "17", "total": 13.5, "vat": 2}
        results = json.dumps([said for said, _ in tool_results(server.model.requests[-1])])
        assert "That is not printed." in results
        assert (await server.get(f"runs/{run_id}"))["status"] == "completed"


async def test_changed_target_is_reported_when_approving(serve, browsing, clone):
    script = Script([[IDENTIFY], [save_fields(total=12.5)], [COMPLETE]])
    async with serve(script) as server, browsing(server) as window:
        page = window.page
        await extract_until_approval(server, await server.upload_text(TEXT), "complete_extraction")
        await window.open("/inbox")
        card = page.get_by_role("region", name=label("approvals.card"))
        approve = card.get_by_role("button", name="Approve 1")
        await expect(approve).to_be_enabled()
        (extraction,) = (await server.get("extractions"))["items"]
        # In a thread, since the service in this event loop may hold the row's lock.
        await asyncio.to_thread(set_fields, clone, {"extraction": extraction}, {"total": 99})
        await approve.click()
        await page.get_by_text(label("approvals.moved", field="Total", value="99", before="nothing")).wait_for()
        stored = await server.extraction(extraction["id"])
        assert stored["extracted_fields"] == {"total": 99}


async def test_extract_with_approval_can_always_allow_a_tool(serve, browsing):
    script = Script(
        [[IDENTIFY], [save_fields(number="17")], [save_fields(total=12.5)], [save_fields(vat=2)], [COMPLETE]]
    )
    async with serve(script) as server, browsing(server) as window:
        page = window.page
        document = await server.upload_text(TEXT)
        await window.open(f"/documents/{document}")
        await page.get_by_role("button", name="Extract").click()
        await page.get_by_role("menuitem", name="Extract with approval").click()
        card = page.get_by_role("region", name=label("approvals.card"))
        # The document type before and the completion after need no approval of their own.
        await card.get_by_text("Number", exact=True).wait_for()
        await card.get_by_role("button", name="More options").click()
        always = label("approvals.allowTool", tool=label("tools.extract_fields"))
        await page.get_by_role("menuitem", name=always).click()
        await page.locator("[data-phase=complete]").wait_for()
        (extraction,) = (await server.get("extractions"))["items"]
        fields = (await server.extraction(extraction["id"]))["extracted_fields"]
        assert fields == {"number": "17", "total": 12.5, "vat": 2}


async def test_card_of_a_changed_schema_lists_the_prompts_that_use_it(serve, browsing):
    def schema(*names: str) -> dict:
        return {"type": "object", "properties": {name: {"type": "string"} for name in names}}

    changed: dict = {"schema": schema("total", "iban")}
    async with serve(Script([lambda _: [call("update_schema", changed)]])) as server, browsing(server) as window:
        made = (await server.http.post("/api/schemas", json={"name": "Bill", "schema": schema("total")})).json()
        for name, version in (("Follower", None), ("Pinned", 1)):
            prompt = {"name": name, "content": "Read it.", "schema_id": made["id"], "schema_version": version}
            assert (await server.http.post("/api/prompts", json=prompt)).is_success
        changed["schema_revid"] = made["schema_revid"]
        document = await server.upload_text(TEXT)
        asked = {"document_id": str(document), "message": "Add the IBAN.", "approval": "ask"}
        assert (await server.http.post("/api/agent/chat", json=asked)).json()["waits_for"]["tool"] == "update_schema"
        await window.open("/approvals")  # the address of before
        card = window.page.get_by_role("region", name=label("approvals.card"))
        await card.get_by_text(label("approvals.effect.promptFollows", name="Follower")).wait_for()
        await card.get_by_text(label("approvals.effect.promptPinned", name="Pinned", version=1)).wait_for()


async def test_cancelled_run_needs_no_approval_and_second_person_is_named(serve, browsing):
    async with (
        serve(Script([[IDENTIFY], [save_fields(number="17")], [COMPLETE]])) as server,
        browsing(server) as window,
    ):
        page = window.page
        document, _ = await new_extraction(server, TEXT)
        await extract_until_approval(server, document, "complete_extraction")
        await window.open(f"/documents/{document}")
        card = page.get_by_role("region", name=label("approvals.card"))
        row = window.field_row("number")
        await card.wait_for()
        await row.get_by_text(label("fields.statuses.waiting")).first.wait_for()
        # With another extraction selected, no approval is shown.
        picker = page.get_by_role("combobox", name=label("document.extraction"))

        async def choose(status: str) -> None:
            await picker.click()
            await page.get_by_role("option", name=label(f"document.extractionStatuses.{status}")).click()

        await choose("completed")
        await row.get_by_text("Matched").first.wait_for(state="attached")
        await choose("in_progress")
        await row.get_by_text(label("fields.statuses.waiting")).first.wait_for()
        await page.get_by_role("button", name="Cancel").click()
        await card.wait_for(state="detached")
        await page.locator("[data-phase=failed]").wait_for()
        # The earlier extraction is shown, here and in the list; the other one can be selected.
        await row.get_by_text("Matched").first.wait_for(state="attached")
        await page.get_by_text(label("statuses.done"), exact=True).wait_for()
        await choose("failed")
        await row.wait_for(state="detached")
        await choose("completed")
        await row.wait_for()

        # The user who started a run that needs a second approver gets no buttons. A cancelled run asks no more.
        switched = await server.http.patch(f"/api/organisations/{server.scope.org_id}", json={"second_person": True})
        assert switched.status_code == 200, switched.text
        other = await server.upload_text(TEXT, "b.txt")
        run_id = await extract_until_approval(server, other)
        assert (await server.get(f"runs/{run_id}"))["decision_refusal"] == "second_person_needed"
        # Runs counts what waits for a person.
        await window.open("/runs")
        waiting = re.compile(f"^{label('runs.filters.awaiting_approval')} ?1$")
        await page.get_by_role("tab", name=waiting).click()
        await page.get_by_role("link", name="b.txt").click()
        await page.get_by_role("link", name=label("runs.openInInbox")).click()
        await card.get_by_text(label("approvals.refusals.second_person_needed")).first.wait_for()
        await window.open(f"/documents/{other}")
        await card.get_by_text(label("approvals.refusals.second_person_needed")).wait_for()
        await playwright.expect(card.get_by_role("button", name="Approve 1")).to_be_disabled()
        cancelled = await server.http.post(f"/api/runs/{run_id}/cancel")
        assert cancelled.status_code == 202
        await card.wait_for(state="detached")
