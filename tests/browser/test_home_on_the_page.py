"""Home: what needs a person, what a period cost and how good it was, and the three cards for developers."""

from __future__ import annotations

import re

import pytest

from browser.window import label, playwright
from checked_documents import read_document, schema_named, script, set_value
from fieldmark.agents.registry import answer_offline
from fieldmark.offline_model.messages import Body, Turn

pytestmark = pytest.mark.anyio

expect = playwright.expect


async def test_cost_and_quality_of_a_month_are_on_one_page_and_numbers_open_their_rows(serve, browsing):
    async with serve(script()) as server, browsing(server) as window:
        page = window.page
        schema_id = await schema_named(server, "Invoices")
        first = (await read_document(server, schema_id))["extraction"]["id"]
        await read_document(server, schema_id)
        await set_value(server, first, "total", 11)
        await set_value(server, first, "vendor", "Acme")
        await window.open("/")
        month = page.get_by_role("region", name=label("home.period.title"))
        # Two documents of 0.22 USD each, by table and by model.
        shares = month.get_by_role("region", name=label("home.shares.title")).last
        await expect(shares.get_by_role("row").filter(has_text="Invoices")).to_contain_text("$0.44")
        await expect(shares.get_by_role("row").last).to_contain_text("$0.44")
        await month.get_by_role("tab", name=label("home.shares.model")).click()
        await expect(shares.get_by_role("row").filter(has_text="claude")).to_contain_text("$0.44")
        await month.get_by_role("button", name=label("home.asTable")).click()
        await expect(month.get_by_role("region", name=label("home.days.title")).last).to_contain_text("$0.44")
        await expect(month).to_contain_text("50.0%")
        await expect(month.get_by_role("link", name=f"2 {label('home.fields.missing')}")).to_be_visible()
        # What was corrected, on the page of the table's quality.
        await month.get_by_role("link", name=re.compile("1 of 1 values")).click()
        corrections = page.get_by_role("region", name=label("quality.shown.corrected"))
        await expect(corrections.get_by_role("deletion")).to_contain_text("10")
        await expect(corrections.get_by_role("insertion")).to_contain_text("11")
        await expect(page.get_by_role("main").get_by_role("definition").first).to_have_text("$0.44")
        columns = page.get_by_role("region", name=label("quality.byColumn")).last
        vendor = columns.get_by_role("row").filter(has_text="vendor")
        await expect(vendor).to_contain_text("95.0%")
        # Each number lists the values that it counts.
        kind = label("quality.shown.confirmed")
        await vendor.get_by_role(
            "button", name=label("quality.showValuesOf", count=1, kind=kind, column="vendor")
        ).click()
        confirmed = page.get_by_role("region", name=kind)
        await expect(confirmed.get_by_role("listitem")).to_contain_text("Acme")
        await page.get_by_role("button", name=label("period.previous.month")).click()
        await page.get_by_role("heading", name=label("quality.none")).wait_for()
        await page.get_by_role("link", name=label("quality.rows"), exact=True).click()
        await page.get_by_role("grid").wait_for()


async def test_samples_fill_a_table_with_a_doubt_and_a_missing_total(serve, browsing):
    def model(body: Body) -> Turn:
        return Turn(answer_offline(body).blocks, usage={"input_tokens": 0, "output_tokens": 0})

    async with serve(model) as server, browsing(server) as window:
        page = window.page
        await window.open("/")
        drop = page.get_by_role("heading", name=label("documents.dropHere"))
        await expect(drop).to_be_visible()
        async with page.expect_file_chooser():
            await page.get_by_role("button", name=label("documents.chooseFiles")).click()
        # A key that only adds files.
        await page.get_by_role("button", name=label("home.build.copyWithKey")).click()
        command = page.get_by_role("region", name=label("home.build.send")).get_by_text("Bearer fm_")
        await expect(command).to_contain_text(re.compile(r"Bearer fm_[0-9a-f]{8}_[0-9a-f]{64}"))
        (key,) = (await server.get("keys"))["items"]
        assert key["scopes"] == ["documents:add"]
        assert await command.evaluate("code => code.scrollWidth <= code.clientWidth")
        await page.get_by_role("button", name=label("home.build.fill")).click()
        await page.get_by_role("heading", name=label("home.build.samplesName")).wait_for()
        # The button is gone: the focus is on what replaced its page.
        await expect(page.get_by_role("main")).to_be_focused()
        table = page.get_by_role("grid")
        await expect(table.get_by_role("row").filter(has_text="Corner Fig Cafe Ltd")).to_contain_text("34.6")
        await expect(table.get_by_role("row").filter(has_text="Lark & Sons Taxi Ltd")).to_contain_text("Missing")
        # It cost nothing: the month counts the documents that were read.
        await window.open("/")
        month = page.get_by_role("region", name=label("home.period.title"))
        await expect(month).to_be_visible()
        await expect(drop).to_have_count(0)
        read = month.get_by_role("region", name=label("home.shares.read")).last
        await expect(read.get_by_role("row").last).to_contain_text("5")
        await expect(month.get_by_role("region", name=label("home.days.read")).first).to_be_visible()
