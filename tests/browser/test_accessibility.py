"""Each area of the page meets WCAG 2.2 A and AA, in light and dark mode, checked by axe."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from agents.library.test_asking import INTENT, READ, SURVEY, cite, submit_answer
from browser.scripts import extract_until_approval, extraction_script, new_extraction
from browser.window import label
from fieldmark.testing.script import Script
from library_rows import LibraryDocument, insert_documents
from node import install_packages

FRONTEND = Path(__file__).parents[2] / "frontend"
SCHEMA = {"type": "object", "properties": {"total": {"type": "number"}, "paid": {"type": "boolean"}}}
INVOICE = "Invoice number: 17\nTotal: 12.50 EUR\n"
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.long,
]


@pytest.fixture(scope="module")
def axe() -> str:
    return (install_packages(FRONTEND) / "axe-core" / "axe.min.js").read_text()


async def violations(page, axe: str) -> list[str]:
    """Return each violated rule with its elements. In dark mode only contrast is checked."""
    if not await page.evaluate("'axe' in window"):
        await page.evaluate(axe)
    found = []
    for colours, rules in (("light", TAGS), ("dark", ["color-contrast"])):
        await page.emulate_media(color_scheme=colours)
        # With reduced motion colours change at once.
        await page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        violated = await page.evaluate(
            "async rules => (await axe.run({runOnly: rules, resultTypes: ['violations']})).violations", rules
        )
        found += [f"{colours}: {one['id']}: {[node['html'][:150] for node in one['nodes']]}" for one in violated]
    return found


async def test_each_area_meets_wcag_in_light_and_dark(serve, browsing, clone, axe):
    asked = Script([[INTENT, READ], cite(1, "The roof leaks at the chimney."), [submit_answer("It leaks [1].")]])
    read = extraction_script(number="17", total=99.5)

    async def model(body):
        return await (asked if "a person's questions about an organisation" in str(body["system"]) else read)(body)

    async with serve(model) as server, browsing(server) as window:
        page = window.page
        await page.goto(f"{server.base_url}/documents")
        await page.get_by_label("Link or token").wait_for()
        wrong = {"sign-in": await violations(page, axe)}

        document, _ = await new_extraction(server, INVOICE, "invoice.txt")
        await extract_until_approval(server, await server.upload_text(INVOICE, "other.txt"))
        await server.upload_text(SURVEY, "survey.txt")
        await server.wait_until_indexed()

        async def check_area(name: str, address: str, seen) -> None:
            # Without loading the page again.
            navigate = "to => { history.pushState(null, '', to); dispatchEvent(new Event('popstate')); }"
            await page.evaluate(navigate, address)
            await seen.wait_for()
            wrong[name] = await violations(page, axe)

        await page.goto("about:blank")
        await window.open("/documents")
        await check_area("home", "/home", page.get_by_role("heading", name=label("home.build.start")))
        await check_area("documents", "/documents", page.get_by_role("link", name="survey.txt"))
        await check_area("an approval", "/inbox", page.get_by_role("button", name="Approve 2"))
        await page.get_by_role("button", name=label("approvals.editValue", field="Total")).click()
        wrong["approval, edited"] = await violations(page, axe)
        question = page.get_by_role("region", name=label("inbox.question", field="Total"))
        await check_area("a question", "/inbox?kind=value", question.get_by_role("button").first)
        await check_area("a document", f"/documents/{document}", window.field_row("total"))
        await window.field_row("total").click()
        await page.get_by_role("button", name=label("discussion.comment")).click()
        await page.get_by_label(label("discussion.commentOn", field="Total")).fill("By card.")
        await page.keyboard.press("Enter")
        await page.get_by_role("region", name=label("discussion.title")).get_by_text("By card.").wait_for()
        wrong["a field, with a note"] = await violations(page, axe)
        await check_area(
            "unmapped",
            f"/documents/{document}?unmapped=true",
            page.get_by_role("tree", name=label("document.unmapped")),
        )
        await page.keyboard.press("Enter")
        await page.get_by_label("Field", exact=True).wait_for()
        wrong["adding a field"] = await violations(page, axe)
        await check_area("a conversation", f"/documents/{document}?chat=new", page.get_by_label("Your message"))
        assert (await server.http.post("/api/tags", json={"name": "paid"})).status_code == 201
        await page.get_by_label("Your message").press_sequentially("tag it @pa")
        await page.get_by_role("listbox", name="Mention").get_by_role("option").first.wait_for()
        wrong["a mention"] = await violations(page, axe)
        schema = (await server.http.post("/api/schemas", json={"name": "Invoice", "schema": SCHEMA})).json()
        row = LibraryDocument({"total": 1.5}, filename="row.pdf", schema_revid=UUID(schema["schema_revid"]))
        insert_documents(clone.owner_url, server.scope, [row])
        new = {"name": "Invoices", "document_ids": [document], "columns": [{"name": "vendor"}]}
        stack = (await server.http.post("/api/stacks", json=new)).json()
        await page.reload()
        cell = page.get_by_role("gridcell").get_by_text("1.5", exact=True).first
        await check_area("a table", f"/tables/{schema['id']}", cell)
        await cell.click()
        await page.get_by_role("complementary", name=label("tables.pane")).wait_for()
        wrong["a cell"] = await violations(page, axe)
        await page.keyboard.press("Enter")
        await page.get_by_label(label("fields.valueOf", field="Total")).wait_for()
        wrong["a cell, edited"] = await violations(page, axe)
        await page.keyboard.press("Escape")
        await page.get_by_role("checkbox", name="row.pdf").check()
        await page.get_by_role("button", name=label("tables.filter"), exact=True).click()
        await page.get_by_role("combobox", name=label("tables.operator")).wait_for()
        wrong["a filter, a selected row"] = await violations(page, axe)
        await page.set_viewport_size({"width": 390, "height": 844})
        await page.get_by_role("main").get_by_role("listitem").filter(has_text="row.pdf").wait_for()
        wrong["a table on a phone"] = await violations(page, axe)
        await page.set_viewport_size({"width": 1280, "height": 800})
        await check_area("tables", "/tables", page.get_by_role("main").get_by_role("link", name="Invoices"))
        row = page.get_by_role("row", name="invoice.txt")
        await check_area("a stack", f"/tables/{stack['id']}", row.get_by_text(label("statuses.waiting")))
        await page.get_by_role("button", name=label("stacks.actions")).click()
        await page.get_by_role("menuitem", name=label("stacks.columns")).click()
        await page.get_by_label(label("stacks.columnName")).wait_for()
        wrong["columns of a stack"] = await violations(page, axe)
        await check_area(
            "passages",
            "/ask?find=roof",
            page.get_by_role("list", name=label("search.results")).get_by_role("button").first,
        )
        await check_area("ask", "/ask", page.get_by_role("heading", name="Ask your documents"))
        await page.get_by_label("Your question").fill("Does the roof leak?")
        await page.keyboard.press("Enter")
        source = page.get_by_role("button", name="Source 1: survey.txt, page 1")
        await source.click()
        await page.get_by_role("complementary", name="Source").locator("rect").first.wait_for(state="attached")
        wrong["an answer"] = await violations(page, axe)
        await check_area("runs", "/runs", page.get_by_role("region", name=label("areas.runs")))
        await check_area("schemas", "/schemas", page.get_by_role("navigation", name=label("areas.schemas")))
        await page.get_by_role("navigation", name=label("areas.schemas")).get_by_role("link").first.click()
        await page.get_by_role("list", name=label("schemas.tabs.fields")).wait_for()
        wrong["a schema"] = await violations(page, axe)
        second_person = page.get_by_role("switch", name=label("settings.organisation.second_person"))
        await check_area("settings", "/settings?part=approvals", second_person)
        await check_area("usage", "/settings?part=usage", page.get_by_text(label("settings.usage.spent")))
        await check_area("webhooks", "/settings?part=webhooks", page.get_by_text(label("settings.webhooks.none")))
        assert {name: elements for name, elements in wrong.items() if elements} == {}
        # Control: axe finds a violation.
        await page.evaluate(
            "() => { const one = document.createElement('input'); document.querySelector('main').append(one); }"
        )
        assert await violations(page, axe)
