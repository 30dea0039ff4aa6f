"""The history of an extraction, restoring a version, and corrections."""

from __future__ import annotations

import pytest

from browser.scripts import COMPLETE, IDENTIFY, extraction_script, new_extraction, save_fields
from browser.window import label, playwright
from fieldmark.offline_model.messages import call, text
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio

TEXT = "Invoice number: 17\nTotal: 12.50 EUR\n"
FIELDS = {"number": "17", "total": 12.5}


async def test_restoring_a_version_updates_the_fields(serve, browsing):
    async with serve(extraction_script(**FIELDS)) as server, browsing(server) as window:
        page = window.page
        document, extraction = await new_extraction(server, TEXT)
        await window.open(f"/documents/{document}")
        row = window.field_row("total")
        for value in ("13", "14"):
            await (await window.open_editor("total")).fill(value)
            await page.keyboard.press("Enter")
            await row.get_by_text(value, exact=True).wait_for()
        await page.get_by_role("tab", name=label("document.activity")).click()
        history = page.get_by_role("region", name=label("history.title"))
        await history.get_by_text("by you", exact=True).nth(1).wait_for()
        await history.get_by_text(label("history.agentBy", person="you")).first.wait_for()
        now = await server.extraction(extraction)
        await history.get_by_role("button", name=f"Restore version {now['version'] - 2}").click()
        await page.get_by_text(label("history.restored", version=now["version"] - 2)).wait_for()
        await page.get_by_role("tab", name=label("document.fields")).click()
        await row.get_by_text("12.50", exact=True).wait_for()
        now = await server.extraction(extraction)
        assert now["extracted_fields"] == FIELDS


async def test_correction_in_words_and_accepted_proposal(serve, browsing):
    first, again = extraction_script(**FIELDS), extraction_script(total=12.5)
    correct_total = Script([[call("update_field", {"path": "number", "value": "18", "confidence": 0.9})], [COMPLETE]])

    async def model(body):
        said = str(body["messages"])
        return await (correct_total if "the number is 18" in said else again if "once more" in said else first)(body)

    async with serve(model) as server, browsing(server) as window:
        page = window.page
        document, extraction = await new_extraction(server, TEXT)
        await window.open(f"/documents/{document}")
        total, number = map(window.field_row, ("total", "number"))
        await (await window.open_editor("total")).fill("13")
        await page.keyboard.press("Enter")
        await total.get_by_text("13", exact=True).wait_for()
        await page.get_by_role("button", name=label("document.correctInWords")).click()
        await page.get_by_label("Correction").fill("the number is 18")
        await page.keyboard.press("Enter")
        await number.get_by_text("18", exact=True).wait_for()
        await page.locator("[data-phase=complete]").wait_for()

        # Where the agent finds another value than the user set, it proposes it.
        result = await server.extract(document, extraction_id=extraction, instructions="Read it once more.")
        assert result["status"] == "completed", result
        await page.reload()
        await total.get_by_text(label("fields.reasons.proposal")).first.wait_for()
        question = page.get_by_role("region", name=label("inbox.question", field="Total"))
        await question.get_by_role("button", name=label("inbox.answers.proposed")).click()
        await total.get_by_text("12.50", exact=True).wait_for()
        now = await server.extraction(extraction)
        assert (now["extracted_fields"], now["proposals"]) == ({"number": "18", "total": 12.5}, [])


async def test_newest_result_is_shown_and_the_one_before_is_a_click_away(serve, browsing):
    needs_vendor = {"type": "object", "required": ["vendor"], "properties": {"vendor": {"type": "string"}}}
    script = Script([[IDENTIFY], [save_fields(**FIELDS)], [COMPLETE], [save_fields(total=12.5)], [text("No vendor.")]])
    async with serve(script) as server, browsing(server) as window:
        page = window.page
        document, first = await new_extraction(server, TEXT)
        result = await server.extract(document, schema=needs_vendor)
        second = result["extraction"]["id"]
        assert (second != first, result["extraction"]["status"]) == (True, "in_progress")
        await window.open(f"/documents/{document}")
        await window.field_row("vendor").get_by_text(label("fields.reasons.missing")).first.wait_for()
        await page.get_by_role("button", name=label("document.openResult"), exact=True).click()
        await window.field_row("number").wait_for()
        await playwright.expect(window.field_row("vendor")).to_have_count(0)
        await page.get_by_role("button", name=label("document.openNewest")).click()
        await window.field_row("vendor").wait_for()
