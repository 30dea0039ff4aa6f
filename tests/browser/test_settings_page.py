"""The settings: the organisation, members, invitations, API keys, webhooks, sources, rules for uploads, the quota."""

from __future__ import annotations

import re
from datetime import datetime
from uuid import uuid4

import psycopg
import pytest

from browser.window import label, playwright
from fieldmark.services.organisations import scope_of_user

pytestmark = pytest.mark.anyio


async def test_member_is_invited_and_removed(serve, browsing):
    async with serve() as server, browsing(server) as window, browsing(server) as other:
        page, stranger = window.page, uuid4()
        await scope_of_user(server.runtime.database, stranger)
        await window.open("/settings")
        await page.get_by_role("button", name=label("settings.organisation.create")).click()
        form = page.get_by_role("dialog")
        await form.get_by_label(label("settings.organisation.name")).fill("Acme")
        await form.get_by_role("button", name=label("settings.organisation.create")).click()
        await page.get_by_role("button", name="Organisation: Acme").wait_for()
        await page.get_by_role("tab", name=label("settings.sections.approvals")).click()
        await page.get_by_role("switch", name=label("settings.organisation.second_person")).click()
        # A run asks for the actions that are checked.
        table = page.get_by_role("region", name=label("settings.organisation.needsApproval")).last

        of_chat = f"{label('settings.organisation.chooseActions')}: {label('agents.document')}"
        await table.get_by_role("button", name=of_chat).click()
        await form.get_by_role("checkbox", name=label("tools.create_tag")).click()
        await form.get_by_role("checkbox", name=label("tools.create_tag"), checked=False, disabled=False).wait_for()
        await form.get_by_role("button", name=label("common.close")).click()
        # All actions of an agent at once.
        of_tables = table.get_by_role("row").filter(has_text=label("agents.stack"))
        for action in ("askNone", "askAll"):
            chosen = label(f"settings.organisation.{action}")
            await of_tables.get_by_role("combobox").click()
            await page.get_by_role("option", name=chosen).click()
            await playwright.expect(of_tables.get_by_role("combobox")).to_have_text(chosen)
        await page.get_by_role("link", name="Members", exact=True).click()
        # Styles of a component override the general button style, whichever page was open before.
        invite = page.get_by_role("button", name=label("settings.invitations.invite"))
        assert await invite.evaluate("one => getComputedStyle(one).color") == "rgb(255, 255, 255)"
        await invite.click()
        await page.get_by_role("button", name=label("settings.invitations.create")).click()
        link = await page.get_by_label(label("settings.invitations.link")).input_value()
        assert link.startswith(f"{server.base_url}/invitation#fmi_")
        await page.get_by_role("button", name="Done").click()

        # A signed-out user is asked to sign in and returns to the invitation.
        await other.page.goto(link)
        await other.page.get_by_label("Link or token").fill(other.link(user_id=stranger))
        await other.page.get_by_role("button", name="Sign in").click()
        await other.page.get_by_role("heading", name=label("settings.invitations.joinNamed", name="Acme")).wait_for()
        await other.page.get_by_text(label("settings.roles.memberHint")).first.wait_for()
        await other.page.get_by_role("button", name="Accept").click()
        await other.page.get_by_role("button", name="Organisation: Acme").wait_for()
        await other.open("/settings?part=approvals", user_id=stranger)
        await other.page.get_by_role(
            "switch", name=label("settings.organisation.second_person"), disabled=True
        ).wait_for()
        await other.page.get_by_role("link", name="Members", exact=True).click()
        await other.page.get_by_text(label("settings.members.onlyOwners")).wait_for()
        assert await other.page.get_by_role("heading", name="Invitations").count() == 0

        await page.reload()
        row = page.get_by_role("row").filter(has_text=str(stranger)[:8])
        await row.get_by_role("combobox").click()
        await page.get_by_role("option", name=label("settings.roles.viewer")).click()
        await page.get_by_text("accepted just now").filter(visible=True).wait_for()
        await other.page.reload()
        await other.page.get_by_text(label("settings.members.onlyOwners")).wait_for()
        await other.page.get_by_role("link", name="Keys", exact=True).click()
        await other.page.get_by_role("heading", name=label("areas.keys")).wait_for()
        assert await other.page.get_by_role("button", name=label("settings.keys.create")).count() == 0
        # A viewer gets no controls that write.
        await other.page.get_by_role("link", name="Documents", exact=True).click()
        await other.page.get_by_role("heading", name=label("documents.none")).wait_for()
        assert await other.page.get_by_role("button", name="Upload").count() == 0
        await other.page.get_by_role("link", name="Ask", exact=True).click()
        await other.page.get_by_role("heading", name=label("ask.title")).wait_for()
        await other.page.get_by_text(label("ask.viewer")).wait_for()
        await other.page.get_by_label("Your question").fill("total")  # to find passages
        assert await other.page.get_by_role("button", name=label("ask.send"), exact=True).is_disabled()
        await row.get_by_role("button", name=re.compile("^Actions for")).click()
        await page.get_by_role("menuitem", name=label("settings.members.remove")).click()
        await page.get_by_role("dialog").get_by_role("button", name="Remove").click()
        await row.wait_for(state="detached")
        # A removed member is informed and switched to their own organisation.
        await other.page.reload()
        await other.page.get_by_text(label("account.removed")).wait_for()
        await other.page.get_by_role("link", name="Documents", exact=True).click()
        await other.page.get_by_role("heading", name=label("documents.dropHere")).wait_for()
        (organisation,) = [one for one in (await server.get("me"))["organisations"] if one["name"] == "Acme"]
        assert (organisation["second_person"], organisation["auto_approved_tools"]) == (True, ["create_tag"])
        members = (await server.get(f"organisations/{organisation['id']}/members"))["items"]
        assert [one["user_id"] for one in members] == [str(server.scope.user_id)]


async def test_api_key_is_shown_once_and_revoked(serve, browsing):
    async with serve() as server, browsing(server, viewport={"width": 360, "height": 740}) as window:
        page = window.page
        await window.open("/keys")
        await page.get_by_role("button", name=label("settings.keys.create")).click()
        form = page.get_by_role("dialog", name=label("settings.keys.create"))
        await form.get_by_label("Name").fill("nightly import")
        await page.get_by_role("combobox", name=label("settings.keys.purpose")).click()
        await page.get_by_role("option", name=label("settings.keys.purposes.read")).click()
        await form.get_by_role("button", name=label("settings.keys.create")).click()
        shown = page.get_by_label("API key", exact=True)
        key = {"Authorization": f"Bearer {await shown.input_value()}"}
        await playwright.expect(page.get_by_text(f"curl {server.base_url}/api/documents")).to_have_count(1)
        assert (await server.http.get("/api/documents", headers=key)).status_code == 200
        assert (await server.http.get("/api/extractions", headers=key)).status_code == 200
        stored_key = await server.http.post("/api/documents/adopt", json={"storage_path": "a/b"}, headers=key)
        assert stored_key.status_code == 403
        # No element is wider than the page.
        assert await page.evaluate("document.documentElement.scrollWidth") <= 360
        await page.get_by_role("button", name="Done").click()
        await playwright.expect(shown).to_have_count(0)
        # When it expires is visible.
        (made,) = (await server.get("keys"))["items"]
        day = datetime.fromisoformat(made["expires_at"]).strftime("%-d %b")
        await page.get_by_text(label("settings.keys.expiresOn", day=day)).filter(visible=True).wait_for()
        await page.get_by_role("button", name="Actions for nightly import").click()
        await page.get_by_role("menuitem", name=label("settings.keys.revoke")).click()
        assert (await server.http.get("/api/documents", headers=key)).status_code == 200
        await page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
        await page.get_by_text("revoked just now").filter(visible=True).wait_for()
        assert (await server.http.get("/api/documents", headers=key)).status_code == 401


async def test_webhook_source_and_upload_rule_are_added_and_the_quota_is_shown(serve, browsing, clone):
    async with serve(private_networks=["127.0.0.0/8"]) as server, browsing(server) as window:
        page = window.page
        await window.open("/settings?part=webhooks")
        section = page.get_by_role("region", name=label("settings.sections.webhooks")).first
        await section.get_by_role("button", name=label("settings.webhooks.create")).click()
        form = page.get_by_role("dialog")
        await form.get_by_label(label("settings.webhooks.url")).fill("http://127.0.0.1:9/changes")
        await form.get_by_role("button", name=label("settings.webhooks.create")).click()
        secret = form.get_by_label(label("settings.webhooks.secret"), exact=True)
        assert (await secret.input_value()).startswith("whsec_")
        await form.get_by_role("button", name="Done").click()
        await secret.wait_for(state="detached")

        async def choose(action: str) -> None:
            await section.get_by_role("button", name="Actions for http://127.0.0.1:9").click()
            await page.get_by_role("menuitem", name=label(f"settings.webhooks.{action}"), exact=True).click()

        await choose("test")
        await page.get_by_text(label("settings.webhooks.testSent")).wait_for()
        await choose("log")
        sent = page.get_by_role("dialog").get_by_role("listitem").first
        await sent.get_by_text(label("settings.webhooks.types.webhook__test")).wait_for()
        await sent.get_by_text(label("settings.webhooks.errors.unreachable")).wait_for()
        await page.keyboard.press("Escape")
        await choose("disable")
        await section.get_by_text(label("settings.webhooks.off"), exact=True).filter(visible=True).wait_for()
        assert [one["is_enabled"] for one in (await server.get("webhooks"))["items"]] == [False]
        # What is sent to the callback of a run is beside its steps.
        document = await server.upload_text("A")
        callback = {"url": "http://127.0.0.1:9/run", "secret": "whsec_" + "A" * 44}
        body = {"document_id": str(document), "callback": callback, "wait": False}
        run = (await server.http.post("/api/agent/extract", json=body)).json()
        await window.open(f"/runs/{run['run_id']}")
        sent = page.get_by_role("list", name=label("settings.webhooks.log"))
        await sent.get_by_text(label("settings.webhooks.errors.unreachable")).first.wait_for()
        await window.open("/settings?part=webhooks")

        # A source that does not answer says so; it is paused and deleted.
        await page.get_by_role("tab", name=label("settings.sections.sources")).click()
        section = page.get_by_role("region", name=label("settings.sections.sources")).first
        await section.get_by_role("button", name=label("settings.sources.add")).click()
        form = page.get_by_role("dialog", name=label("settings.sources.add"))
        given = {"address": "http://127.0.0.1:9/inbox", "usernames.bucket": "me", "secrets.bucket": "x"}
        for key, value in given.items():
            await form.get_by_label(label(f"settings.sources.{key}"), exact=True).fill(value)
        await form.get_by_role("button", name=label("settings.sources.add")).click()
        await section.get_by_text(label("settings.sources.errors.unreachable")).filter(visible=True).wait_for()
        actions = section.get_by_role("button", name="Actions for http://127.0.0.1:9")
        await actions.click()
        await page.get_by_role("menuitem", name=label("settings.sources.pause")).click()
        await section.get_by_text(label("settings.sources.paused")).filter(visible=True).wait_for()
        await actions.click()
        await page.get_by_role("menuitem", name=label("common.delete")).click()
        await page.get_by_role("dialog").get_by_role("button", name=label("common.delete")).click()
        await section.get_by_text(label("settings.sources.none")).wait_for()

        # A rule, and what is stored of the quota: in the settings, and above the documents.
        made = (await server.http.post("/api/schemas", json={"name": "Bills", "schema": {"type": "object"}})).json()
        await page.get_by_role("tab", name=label("settings.sections.rules")).click()
        await page.get_by_role("button", name=label("settings.rules.add")).click()
        await page.get_by_role("combobox", name=label("settings.rules.condition")).click()
        await page.get_by_role("option", name=label("settings.rules.conditions.filename")).click()
        await page.get_by_label(label("settings.rules.value"), exact=True).fill("bill-*.pdf")
        await page.get_by_role("combobox", name=label("settings.rules.target")).click()
        await page.get_by_role("option", name="Bills").click()
        await page.get_by_role("dialog").get_by_role("button", name=label("settings.rules.add")).click()
        await page.get_by_role("row").filter(has_text="bill-*.pdf").get_by_text("Bills").wait_for()
        (rule,) = (await server.get(f"organisations/{server.scope.org_id}/upload_rules"))["items"]
        assert (rule["filename"], rule["schema_id"]) == ("bill-*.pdf", made["id"])
        await server.upload_text("A bill.")
        with psycopg.connect(clone.owner_url) as owner:
            owner.execute("insert into credit_limits (org_id, max_documents) values (%s, 1)", [server.scope.org_id])
        await page.get_by_role("tab", name=label("settings.sections.usage")).click()
        await page.get_by_role("progressbar", name=label("settings.storage.documentsMeter")).wait_for()
        await page.get_by_role("link", name="Documents", exact=True).click()
        await page.get_by_text(label("settings.storage.hint")).wait_for()
