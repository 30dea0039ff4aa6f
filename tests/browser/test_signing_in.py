"""Signing in with a link or token."""

from __future__ import annotations

from uuid import uuid4

import pytest

from browser.window import label
from fieldmark.services.organisations import scope_of_user

pytestmark = pytest.mark.anyio


async def test_sign_in_is_required_and_wrong_token_refused(serve, browsing):
    async with serve() as server, browsing(server) as window:
        page = window.page
        document = await server.upload_text(name="secret.txt")
        await page.goto(f"{server.base_url}/documents")
        field = page.get_by_label("Link or token")
        await field.fill("no.token.atall")
        await page.get_by_role("button", name="Sign in").click()
        # Rejected with the reason; the page asks again.
        await page.get_by_text(label("errors.unauthenticated")).wait_for()
        # A link does not sign in by itself: the page asks first and names the user.
        await page.goto("about:blank")
        stranger = uuid4()
        await page.goto(window.link("/documents", user_id=stranger))
        await page.get_by_text(label("signIn.account", user=f"{str(stranger)[:8]}…")).wait_for()
        assert "eyJ" not in await page.evaluate("JSON.stringify({...localStorage})") + page.url
        await page.get_by_role("button", name="Cancel").click()
        await field.wait_for()
        await field.fill(window.link())
        await page.get_by_role("button", name="Sign in").click()
        await page.get_by_role("heading", name="Documents", exact=True).wait_for()
        # The session is valid in another tab, and signing out ends it.
        other = await page.context.new_page()
        await other.goto(f"{server.base_url}/documents/{document}")
        await other.get_by_text("secret.txt").first.wait_for()
        await page.get_by_role("button", name="Account").click()
        await page.get_by_role("menuitem", name="Sign out").click()
        await field.wait_for()
        await other.get_by_label("Link or token").wait_for()
        assert "eyJ" not in await page.evaluate("JSON.stringify({...localStorage})")
        # No session is left in either tab.
        for one in (page, other):
            assert "secret" not in await one.content() and "secret" not in await one.title()


async def test_link_of_another_account_asks_before_switching(serve, browsing):
    async with serve() as server, browsing(server) as window:
        page, stranger = window.page, uuid4()
        await scope_of_user(server.runtime.database, stranger)
        await server.upload_text(name="mine.txt")
        await window.open("/documents")
        await page.get_by_role("link", name="mine.txt").wait_for()
        await page.goto("about:blank")
        await window.open("/documents", user_id=stranger)
        await page.get_by_role("button", name=label("signIn.switchAccount")).wait_for()
        await page.get_by_role("link", name="mine.txt").wait_for()
        await page.get_by_role("button", name=label("signIn.switchAccount")).click()
        await page.get_by_role("heading", name=label("documents.dropHere")).wait_for()
