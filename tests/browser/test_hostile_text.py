"""Hostile names and texts (HTML, scripts, invisible characters) are shown as text."""

from __future__ import annotations

import pytest

from browser.window import label
from fieldmark.offline_model.messages import call
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio

TAG = "<img src=x onerror=window.hacked=1>"
LINK = "[total](javascript:alert(1)) ![](http://evil.invalid/x.png)"
NAME = "<img src=x onerror=window.hacked=1>invoice\u202efdp.exe.txt"
KEY = "<b onclick=alert(1)>key</b>"


async def test_hostile_text_is_shown_and_does_nothing(serve, browsing):
    said = [
        call("identify_document", {"document_type": TAG, "confidence": 0.9}),
        call("extract_fields", {"fields": {KEY: TAG, "note": LINK}, "confidences": {KEY: 0.9, "note": 0.9}}),
        call("complete_extraction", {"summary": f"{TAG} {LINK}"}),
    ]
    async with serve(Script([[one] for one in said])) as server, browsing(server) as window:
        page = window.page
        await server.upload_text(f"Note: {LINK}\n{TAG}\n", name=NAME)
        await window.open("/documents")
        link = page.get_by_role("link", name="<img src=x")
        await link.wait_for()
        # The name does not appear to end in .pdf.
        shown = await link.inner_text()
        assert "fdp.exe.txt" in shown and "\u202e" not in shown
        await link.click()
        await page.get_by_role("button", name="Extract").click()
        await page.get_by_role("menuitem", name="Extract all fields").click()
        await page.locator("[data-phase=complete]").wait_for()
        await page.get_by_role("treeitem").filter(has_text=TAG).click()
        await page.get_by_role("treeitem").filter(has_text=LINK).wait_for()
        await page.get_by_role("tab", name=label("document.activity")).click()
        await page.get_by_text(label("runs.showSteps")).click()
        await page.get_by_role("region", name=label("document.runs")).get_by_text(TAG).first.wait_for()
        assert await page.evaluate("window.hacked") is None
        assert await page.locator("img[src=x], a[href^=javascript], b[onclick]").count() == 0
        # Control: a request to another host is detected.
        with pytest.raises(AssertionError, match=r"evil\.invalid"):
            async with browsing(server) as other:
                await other.open()
                await other.page.evaluate("fetch('http://evil.invalid/').catch(() => 0)")
