"""A run that failed is started once more, as a new run of the same request."""

from __future__ import annotations

from uuid import uuid4

import pytest
from answers import assert_problem
from members import create_org, new_member

from browser.scripts import COMPLETE, IDENTIFY, extract_until_approval, save_fields
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio


async def test_cancelled_run_is_repeated_and_others_may_see_both(serve):
    script = Script([[IDENTIFY], [save_fields(total=10)], [COMPLETE]] * 3)
    async with serve(script) as server:
        document = await server.upload_text("Total 10", "a.txt")
        run_id = await extract_until_approval(server, document)
        at = f"/api/runs/{run_id}"
        assert_problem(await server.http.post(f"{at}/retry"), 409)
        await server.http.post(f"{at}/cancel")
        answer = await server.http.post(f"{at}/retry")
        assert answer.status_code == 202, answer.text
        made = answer.json()
        same = ("agent", "task", "document_id", "extraction_id", "created_by")
        assert {name: made[name] for name in same} == {name: (await server.http.get(at)).json()[name] for name in same}
        assert made["id"] != run_id and made["status"] in ("queued", "running", "awaiting_approval")
        listed = (await server.http.get("/api/runs", params={"everyone": True, "root": True})).json()["items"]
        assert [one["id"] for one in listed] == [made["id"], run_id]


@pytest.mark.parametrize(("role", "status"), [("member", 202), ("viewer", 403)])
async def test_only_members_who_write_repeat_runs_of_others(serve, clone, role: str, status: int):
    async with serve(Script([[IDENTIFY], [save_fields(total=10)], [COMPLETE]] * 3)) as server:
        org = await create_org(server.http)
        server.http.headers["x-org-id"] = org
        document = await server.upload_text("Total 10", "a.txt")
        run_id = await extract_until_approval(server, document)
        await server.http.post(f"/api/runs/{run_id}/cancel")
        async with new_member(server, org, role) as (other, _):
            assert (await other.get("/api/runs")).json()["items"] == []
            seen = (await other.get("/api/runs?everyone=true")).json()["items"]
            assert [one["id"] for one in seen] == [run_id]
            assert (await other.post(f"/api/runs/{run_id}/retry")).status_code == status
        async with server.client() as stranger:
            assert (await stranger.get("/api/runs?everyone=true")).json()["items"] == []
            assert_problem(await stranger.post(f"/api/runs/{run_id}/retry"), 404)


async def test_a_key_repeats_no_run(serve):
    async with serve() as server:
        made = await server.http.post("/api/keys", json={"name": "k", "scopes": ["runs:read", "runs:write"]})
        key = {"Authorization": f"Bearer {made.json()['key']}"}
        assert_problem(await server.http.post(f"/api/runs/{uuid4()}/retry", headers=key), 403, "person_needed")
