"""Signing in with Supabase Auth: password, link by email, token refresh, signing out in all tabs."""

from __future__ import annotations

import pytest

from browser.window import label
from extraction_case import until
from supabase_stand_in import EMAIL, PASSWORD, PUBLISHABLE_KEY, supabase_project

pytestmark = pytest.mark.anyio


async def test_password_sign_in_refreshes_tokens(serve, browsing, clone):
    async with supabase_project(clone) as project:
        auth = project.auth
        settings = {"supabase_url": project.url, "supabase_publishable_key": PUBLISHABLE_KEY}
        async with serve(**settings) as server, browsing(server) as window:
            page = window.page
            await page.goto(f"{server.base_url}/documents")
            await page.get_by_role("textbox", name="Email", exact=True).fill(EMAIL)
            await page.get_by_label("Password").fill("wrong")
            await page.get_by_role("button", name="Sign in").click()
            await page.get_by_text(label("signInErrors.invalid_credentials")).wait_for()
            # Without a password, a link is sent by email.
            await page.get_by_label("Password").fill("")
            await page.get_by_role("button", name=label("signIn.emailLink")).click()
            await page.get_by_text(label("signIn.linkSent", email=EMAIL)).wait_for()
            assert "POST /auth/v1/otp" in auth.calls

            auth.token_seconds = 100  # shorter than the time before expiry at which the library refreshes
            await page.get_by_label("Password").fill(PASSWORD)
            await page.get_by_role("button", name="Sign in").click()
            await page.get_by_role("heading", name=label("documents.dropHere")).wait_for()
            me = [one for one in auth.calls if one == "POST /auth/v1/token password"]
            assert len(me) == 2
            auth.token_seconds = 3600
            before = len(auth.calls)
            await page.reload()
            await page.get_by_role("heading", name=label("documents.dropHere")).wait_for()
            await until(lambda: "POST /auth/v1/token refresh_token" in auth.calls[before:])

            # Signing out in one tab signs out the other.
            other = await page.context.new_page()
            await other.goto(f"{server.base_url}/documents")
            await other.get_by_role("heading", name=label("documents.dropHere")).wait_for()
            await page.get_by_role("button", name="Account").click()
            await page.get_by_role("menuitem", name="Sign out").click()
            await page.get_by_role("textbox", name="Email", exact=True).wait_for()
            await other.get_by_role("textbox", name="Email", exact=True).wait_for()
            assert "POST /auth/v1/logout" in auth.calls
            stored = await page.evaluate("JSON.stringify({...localStorage})")
            assert "eyJ" not in stored
            # Only the service and Supabase Auth received requests, and the content security policy blocked nothing.
            asked = f"asked for {auth.url}/auth/v1/"
            window.faults[:] = [one for one in window.faults if not one.startswith(asked)]
