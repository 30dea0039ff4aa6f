"""The chat about a document: mentions, several approvals in a row, and suggestions."""

from __future__ import annotations

import asyncio
import re

import pytest

from acceptance.test_auto_create import MADE, upload
from acceptance.test_auto_create import model as proposing
from agents.conversation import SCHEMA
from agents.document.test_conversation import FIELDS, PRINTED, script
from browser.window import label, playwright
from extraction_case import sql, until
from fieldmark.offline_model.messages import call, text
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio

HOSTILE = "<img src=x onerror=alert(1)> ![](http://evil.invalid/x.png)"


def approval_card(page):
    return page.get_by_role("region", name=label("approvals.card"))


async def send_message(page, message: str) -> None:
    box = page.get_by_label("Your message")
    await box.fill(message)
    await box.press("Enter")


async def test_chat_creates_a_schema_and_extracts_with_three_approvals(serve, browsing, clone):
    schema = {**SCHEMA, "properties": {**SCHEMA["properties"], "vendor": {"type": "string"}}}
    model = script(
        [text("First a schema."), call("create_schema", {"name": "Invoices", "schema": schema})],
        [call("run_extraction")],
        [call("update_extraction_field", {"path": "vendor", "value": "Acme Ltd"})],
        [text(f"**Done.** {HOSTILE}")],
    )
    own = {"model": "own-model", "model_price": "0.015/0.06"}
    async with serve(model, **own) as server, browsing(server) as window:
        page = window.page
        document = await server.upload_text(PRINTED)
        await window.open(f"/documents/{document}")
        await page.get_by_role("tab", name="Chat").wait_for()
        await page.keyboard.press("c")
        # The model is chosen from a list with prices, also that of the settings; any other name can be typed.
        chosen = page.get_by_role("combobox", name=label("common.model"))
        await chosen.fill("another-model")
        await playwright.expect(page.get_by_role("option", name="claude")).to_have_count(0)
        await chosen.fill("")
        await chosen.click()
        await page.get_by_role("option", name="own-model").get_by_text("$0.015", exact=False).wait_for()
        await page.get_by_role("option", name="claude-haiku-4-5").click()
        await playwright.expect(chosen).to_have_value("claude-haiku-4-5")
        box = page.get_by_label("Your message")
        mentions = page.get_by_role("listbox", name="Mention").get_by_role("option")
        async with page.expect_response("**/api/schemas?*name_contains=Inv*"):
            await box.press_sequentially("@Inv")
        await playwright.expect(mentions).to_have_count(0)
        await send_message(page, "make a schema and read by it")

        await approval_card(page).get_by_role("heading", name=label("tools.create_schema")).wait_for()
        assert sql(clone.owner_url, "select model from public.runs") == [{"model": "claude-haiku-4-5"}]
        # A schema is shown as a table of its fields. The buttons are visible, and no message can be sent meanwhile.
        table = approval_card(page).get_by_role("region", name="Fields of the schema")
        await table.get_by_role("row", name="vendor text new").wait_for()
        approve = approval_card(page).get_by_role("button", name="Approve", exact=True)

        async def is_above_the_box() -> bool:
            shown = await approve.bounding_box()
            return shown["y"] + shown["height"] < (await box.bounding_box())["y"]

        await until(is_above_the_box)
        await page.get_by_text(label("chat.decideFirst")).wait_for()
        await box.fill("and then?")
        await playwright.expect(page.get_by_role("button", name="Send")).to_be_disabled()
        await box.fill("")
        await page.get_by_role("button", name=label("chat.asks")).click()
        await page.get_by_text(label("tools.create_schema")).first.wait_for()
        await page.keyboard.press("Escape")
        await approve.click()
        # After a reload the conversation continues.
        await approval_card(page).get_by_text("Invoices (version 1)").wait_for()
        await page.reload()
        await approval_card(page).get_by_text("Invoices (version 1)").wait_for()
        await approve.click()
        await approval_card(page).get_by_text("Acme Ltd").wait_for()
        card = approval_card(page)
        await card.get_by_role("button", name=label("approvals.editValue", field="Vendor")).click()
        await card.get_by_label(label("approvals.newValue", field="Vendor")).fill("Acme AG")
        await card.get_by_role("button", name=re.compile("with edits")).click()

        said = page.get_by_role("log", name="Conversation")
        await said.get_by_text("Done.", exact=True).wait_for()
        await page.reload()
        await said.get_by_text("First a schema.").wait_for()
        # Items that the agent created can be mentioned at once.
        await box.press_sequentially("@Inv")
        await until(lambda: has_options(mentions, ["schema Invoices v1"]))
        await box.fill("")
        await page.get_by_text("Schema: Invoices, version 1").wait_for()
        assert await said.locator("img, a").count() == 0
        (row,) = (await server.get("extractions"))["items"]
        stored = await server.get(f"extractions/{row['id']}")
        assert stored["extracted_fields"] == {**FIELDS, "vendor": "Acme AG"}

        # The written values appear among the fields without a reload.
        await page.get_by_role("tab", name="Fields").click()
        await page.get_by_text("Acme AG").first.wait_for()


async def test_mention_is_chosen_by_keyboard_and_sent(serve, browsing):
    async with serve(script([text("It is about invoices.")])) as server, browsing(server) as window:
        page = window.page
        for name in ("Receipts", "Invoices"):
            made = await server.http.post("/api/schemas", json={"name": name, "schema": SCHEMA})
            assert made.status_code == 201, made.text
        assert (await server.http.post("/api/tags", json={"name": "Invoices to pay"})).status_code == 201
        document = await server.upload_text(PRINTED)
        await window.open(f"/documents/{document}?chat=new")
        box = page.get_by_label("Your message")
        await box.press_sequentially("what is @Inv")
        options = page.get_by_role("listbox", name="Mention").get_by_role("option")
        await until(lambda: has_options(options, ["schema Invoices v1", "tag Invoices to pay"]))
        await page.keyboard.press("ArrowDown")
        await page.keyboard.press("ArrowUp")
        await page.keyboard.press("Enter")
        await playwright.expect(box).to_have_value("what is @Invoices ")
        await box.press_sequentially("and @to")
        await until(lambda: has_options(options, ["tag Invoices to pay"]))
        await page.keyboard.press("Tab")
        # A name that is removed from the message is no longer mentioned.
        await box.fill("what is @Invoices for?")
        await page.keyboard.press("Enter")
        await page.get_by_text("It is about invoices.").wait_for()

        (thread,) = (await server.http.get("/api/threads", params={"agent": "document"})).json()["items"]
        (turn,) = (await server.get(f"threads/{thread['id']}"))["turns"]
        schemas = (await server.http.get("/api/schemas", params={"name": "Invoices"})).json()["items"]
        assert turn["mentions"] == [{"type": "schema", "id": schemas[0]["id"]}]
        assert turn["message"] == "what is @Invoices for?"


async def has_options(options, wanted: list[str]) -> bool:
    return [" ".join(one.split()) for one in await options.all_inner_texts()] == wanted


async def test_conversation_is_continued_shared_and_deleted(serve, browsing):
    first_answer = asyncio.Event()

    async def answer_late(_body):
        await first_answer.wait()
        return [text("The second.")]

    async with serve(script([text("The first.")], answer_late)) as server, browsing(server) as window:
        page = window.page
        document = await server.upload_text(PRINTED)
        await window.open(f"/documents/{document}?chat=new")
        await send_message(page, "first?")
        await page.get_by_text("The first.").wait_for()
        await send_message(page, "second?")
        await page.get_by_role("button", name="Cancel").wait_for()
        first_answer.set()
        await page.get_by_text("The second.").wait_for()
        await page.get_by_text("The first.").wait_for()
        await page.get_by_role("button", name="Share").click()
        await page.get_by_role("button", name="Shared").wait_for()
        (thread,) = (await server.get("threads"))["items"]
        assert thread["shared"] is True
        await page.get_by_role("button", name="Delete").click()
        await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        await page.get_by_role("heading", name=label("chat.title")).wait_for()
        assert (await server.get("threads"))["items"] == []


async def test_suggestion_is_rejected_or_accepted_as_a_whole(serve, browsing):
    refined = {"type": "object", "properties": {"total": {"type": "number"}, "due": {"type": "string"}}}
    made, refines = (Script(MADE), Script([[call("update_schema", {"schema": refined})], [text("I have added it.")]]))

    async def chat_model(body):
        return await (refines if "add the due date" in str(body["messages"]) else made)(body)

    async with serve(proposing(chat_model)) as server, browsing(server) as window:
        page = window.page
        document = await upload(server)
        await window.open(f"/documents/{document['id']}")
        banner = page.get_by_role("region", name=label("document.suggestion.title"))
        await banner.get_by_role("button", name="Reject").wait_for()
        await banner.get_by_text("“Invoices” (1 field)").wait_for()
        await page.get_by_text("Suggestion", exact=True).wait_for()
        await page.get_by_role("button", name="Extract", exact=True).click()
        await page.get_by_role("menuitem", name="Invoices (suggestion, not accepted yet)").wait_for()
        await page.keyboard.press("Escape")
        await banner.get_by_text(label("runs.howSuggested")).click()
        await banner.get_by_text(label("tools.create_schema")).first.wait_for()
        await page.get_by_role("tab", name="Chat").click()
        box = page.get_by_label("Your message")
        options = page.get_by_role("listbox", name="Mention").get_by_role("option")
        await box.press_sequentially("@Inv")
        await options.first.wait_for()
        await box.fill("")
        await banner.get_by_role("button", name="Reject").click()
        await banner.wait_for(state="hidden")
        async with page.expect_response("**/api/schemas?*name_contains=Inv*"):
            await box.press_sequentially("@Inv")
        await options.first.wait_for(state="hidden")
        assert (await server.get("schemas"))["items"] == (await server.get("extractions"))["items"] == []

        # A suggestion requested with the upload is accepted with a tag.
        assert (await server.http.post("/api/tags", json={"name": "to pay"})).is_success
        file = ("other.txt", PRINTED.encode())
        await server.http.post("/api/documents?auto_create=true", files={"file": file})
        await window.open("/documents")
        await page.get_by_role("link", name="other.txt").click()
        await banner.get_by_text("(1 field)").wait_for()
        # The chat changes the suggestion; the changed one would be saved.
        await page.get_by_role("tab", name="Chat").click()
        approve_first = page.get_by_role("checkbox", name=label("chat.askFirst"))
        await page.get_by_role("button", name=label("chat.asks")).click()
        await approve_first.click()
        await page.get_by_text(label("chat.nothingNeedsApproval")).wait_for()
        await page.keyboard.press("Escape")
        await send_message(page, "add the due date")
        await page.get_by_text("I have added it.").wait_for()
        await banner.get_by_text("(2 fields)").wait_for()
        await banner.get_by_role("combobox", name=label("document.suggestion.tag")).click()
        await page.get_by_role("option", name="to pay").click()
        await banner.get_by_role("button", name="Accept").click()
        await banner.wait_for(state="hidden")
        other = (await server.get("documents?filename=other"))["items"][0]
        assert [one["name"] for one in other["tags"]] == ["to pay"]
        assert other["auto_create"]["status"] == "accepted"
        # The run that created it can be opened afterwards.
        await page.get_by_role("tab", name=label("document.activity")).click()
        runs = page.get_by_role("region", name=label("document.runs"))
        await runs.get_by_text(label("runs.showSteps")).last.click()
        await runs.get_by_text(label("tools.create_schema")).first.wait_for()

        # The accepted prompt extracts documents, from the menu and with an upload.
        (prompt,) = (await server.get("prompts"))["items"]

        async def has_extractions(number: int) -> bool:
            return len((await server.get(f"extractions?prompt_id={prompt['id']}"))["items"]) == number

        assert await has_extractions(1)
        await window.open(f"/documents/{other['id']}")
        await page.get_by_role("button", name="Extract", exact=True).click()
        await page.get_by_text(label("document.extract.withPrompt")).wait_for()
        await page.get_by_role("menuitem", name=prompt["name"]).first.click()
        await until(lambda: has_extractions(2))
        await window.open("/documents")
        file = {"name": "third.txt", "mimeType": "text/plain", "buffer": f"{PRINTED} 3".encode()}
        await page.get_by_label(label("adding.files")).set_input_files(file)
        adding = page.get_by_role("dialog", name=label("adding.title", count=1))
        await adding.get_by_role("combobox").click()
        await page.get_by_role("option", name=label("adding.prompt", name=prompt["name"])).click()
        await adding.get_by_role("button", name=label("adding.read", count=1)).click()
        await until(lambda: has_extractions(3))

        # A deleted prompt is marked in the conversation that used it.
        assert (await server.http.delete(f"/api/prompts/{prompt['id']}")).status_code == 200
        (thread,) = (await server.get(f"threads?document_id={other['id']}"))["items"]
        await window.open(f"/documents/{other['id']}?chat={thread['id']}")
        await page.get_by_text("version 2 (deleted)").or_(page.get_by_text("version 1 (deleted)")).wait_for()

        # If a second approver is required, no extraction starts at once.
        switched = await server.http.patch(f"/api/organisations/{server.scope.org_id}", json={"second_person": True})
        assert switched.status_code == 200, switched.text
        await window.open(f"/documents/{other['id']}?chat=new")
        await page.get_by_role("button", name=label("chat.asks")).click()
        await page.get_by_text(label("chat.alwaysAsks")).wait_for()
        await playwright.expect(approve_first).to_be_checked()
        await playwright.expect(approve_first).to_be_disabled()
        await page.locator("p", has_text="Needs approval:").filter(has_text=label("tools.create_schema")).wait_for()
