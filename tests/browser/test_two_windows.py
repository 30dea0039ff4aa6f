"""Two tabs of one user see each other's changes, and nothing of another organisation after switching."""

from __future__ import annotations

import pytest

from api.members import create_org, new_member
from browser.scripts import extraction_script, new_extraction
from browser.window import Window, label

pytestmark = pytest.mark.anyio

TEXT = "Invoice number: 17\nTotal: 12.50 EUR\n"
FIELDS = {"number": "17", "total": 12.5}


async def open_tab(window: Window, address: str) -> Window:
    other = Window(window.server, await window.page.context.new_page())
    other.faults = window.faults
    await other.page.goto(f"{window.server.base_url}{address}")
    return other


async def update_field(server, extraction_id: str, path: str, value) -> None:
    """Change a field through the API, without notifying a tab."""
    version = (await server.extraction(extraction_id))["version"]
    changed = await server.http.patch(
        f"/api/extractions/{extraction_id}/fields",
        json={"path": path, "value": value},
        headers={"if-match": f'"{version}"'},
    )
    assert changed.status_code == 200, changed.text


async def write(window: Window, path: str, text: str, *, keep: bool = True) -> None:
    await (await window.open_editor(path)).fill(text)
    if keep:
        await window.page.keyboard.press("Enter")


async def test_what_another_person_changes_assigns_and_writes_appears_on_an_open_document(serve, browsing):
    async with serve(extraction_script(**FIELDS)) as server, browsing(server) as window:
        page, org = window.page, await create_org(server.http)
        server.http.headers["x-org-id"] = org
        document, extraction_id = await new_extraction(server, TEXT)
        async with new_member(server, org, "member") as (bob, bob_id):
            await window.open("/home")
            await page.get_by_role("button", name="Organisation").click()
            await page.get_by_role("menuitem", name="Acme").click()
            await page.get_by_role("button", name="Organisation").get_by_text("Acme").wait_for()
            await page.goto(f"{server.base_url}/documents/{document}")
            await window.field_row("total").get_by_text("12.5").wait_for()
            await update_field(server, extraction_id, "total", 14)
            await window.field_row("total").get_by_text("14", exact=True).wait_for()

            notes = page.get_by_role("region", name=label("discussion.title"))
            body = {"body": "Paid in cash?", "path": "total"}
            assert (await bob.post(f"/api/documents/{document}/comments", json=body)).status_code == 201
            await notes.get_by_text("Paid in cash?").wait_for()
            await window.field_row("total").click()
            await notes.get_by_label(label("discussion.commentOn", field="Total")).fill("By card.")
            await page.keyboard.press("Enter")
            await notes.get_by_text("By card.").wait_for()
            await notes.get_by_role("button", name=label("discussion.assign")).click()
            await page.get_by_role("menuitem").filter(has_text=str(bob_id)[:8]).click()
            await notes.get_by_role("button", name=str(bob_id)[:8]).wait_for()
            discussion = (await bob.get(f"/api/documents/{document}/discussion")).json()
            assert [(one["path"], one["body"]) for one in discussion["comments"]] == [
                ("total", "Paid in cash?"),
                ("total", "By card."),
            ]
            assert discussion["assignee_id"] == str(bob_id)


async def test_edit_conflict_offers_both_values_and_an_editor_left_open_writes_nothing_back(serve, browsing):
    async with serve(extraction_script(**FIELDS)) as server, browsing(server) as window:
        document, extraction_id = await new_extraction(server, TEXT)
        await window.open(f"/documents/{document}")
        await write(window, "total", "14", keep=False)
        await update_field(server, extraction_id, "number", "18")
        await window.page.keyboard.press("Enter")
        await window.field_row("number").get_by_text("18", exact=True).wait_for()
        await window.field_row("total").get_by_text("14", exact=True).wait_for()
        await write(window, "total", "15", keep=False)
        await update_field(server, extraction_id, "total", 13)
        await window.page.keyboard.press("Enter")
        await window.page.get_by_text(label("fields.changedBySomeone", field="Total", value="13")).first.wait_for()
        assert (await server.extraction(extraction_id))["extracted_fields"] == {"number": "18", "total": 13}
        await window.page.get_by_role("button", name=label("fields.useInstead", value="15")).click()
        await window.field_row("total").get_by_text("15", exact=True).wait_for()
        assert (await server.extraction(extraction_id))["extracted_fields"] == {"number": "18", "total": 15}

        # A change in another tab appears here, below an open editor, which does not overwrite it.
        editor = await window.open_editor("total")
        other = await open_tab(window, f"/documents/{document}")
        await write(other, "number", "19")
        await write(other, "total", "16")
        await other.field_row("total").get_by_text("16", exact=True).wait_for()
        await window.field_row("number").get_by_text("19", exact=True).wait_for()
        await editor.press("Enter")
        await window.field_row("total").get_by_text("16", exact=True).wait_for()
        now = await server.extraction(extraction_id)
        assert now["extracted_fields"] == {"number": "19", "total": 16}


async def test_switching_organisation_hides_the_one_before_and_keeps_uploads_apart(serve, browsing):
    async with serve(extraction_script(**FIELDS)) as server, browsing(server) as window:
        page = window.page
        document, _ = await new_extraction(server, TEXT, "personal.txt")
        made = (await server.http.post("/api/organisations", json={"name": "Acme"})).json()["id"]
        async with server.client(server.scope.user_id) as http:
            http.headers["x-org-id"] = made
            assert (await http.post("/api/documents", files={"file": ("acme.txt", b"Total: 3")})).status_code == 201
        await window.open("/documents")
        await page.get_by_role("link", name="personal.txt").wait_for()
        other = await open_tab(window, f"/documents/{document}")
        await other.field_row("total").wait_for()
        dropped = page.get_by_label(label("adding.files"))
        await dropped.set_input_files([{"name": "dropped.txt", "mimeType": "text/plain", "buffer": b"Total: 4"}])
        await page.get_by_role("link", name="dropped.txt").wait_for()
        await page.get_by_role("button", name="Organisation").click()
        await page.get_by_role("menuitem", name="Acme").click()
        await page.get_by_role("link", name="acme.txt").wait_for()
        assert await page.get_by_text("personal.txt").count() == 0
        assert await page.get_by_text("dropped.txt").count() == 0
        # The other tab switches, too.
        await other.page.get_by_text(label("errors.not_found")).wait_for()
        assert "12.5" not in await other.page.content()

        await page.get_by_role("button", name="Organisation").click()
        await page.get_by_role("menuitem", name="Personal").click()
        await page.get_by_role("link", name="dropped.txt").first.wait_for()
        assert await page.get_by_text("acme.txt").count() == 0


async def test_revoked_session_ends_in_every_tab(serve, browsing):
    async with serve(extraction_script(**FIELDS)) as server, browsing(server) as window:
        await new_extraction(server, TEXT, "secret.txt")
        made = await server.http.post(
            "/api/keys", json={"name": "a tab", "scopes": ["documents:read", "extractions:read"]}
        )
        assert made.status_code == 201, made.text
        page = window.page
        await page.goto(f"{server.base_url}/documents")
        await page.get_by_label("Link or token").fill(made.json()["key"])
        await page.get_by_role("button", name="Sign in").click()
        await page.get_by_role("link", name="secret.txt").wait_for()
        other = await open_tab(window, "/documents")
        await other.page.get_by_role("link", name="secret.txt").wait_for()
        revoked = await server.http.delete(f"/api/keys/{made.json()['id']}")
        assert revoked.status_code in (200, 204), revoked.text
        # Both pages ask what changed every 1.5 s: nothing has to be clicked.
        for one in (window, other):
            await one.page.get_by_label("Link or token").wait_for()
            assert "secret.txt" not in await one.page.content()
            await one.page.get_by_text(label("errors.key_revoked")).wait_for()
