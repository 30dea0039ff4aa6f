"""Who may ask for a proposal and decide it, over HTTP: in pairs."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from people import joined, org_of

from desk import until
from fieldmark.offline_model.messages import Body, call, items, text
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio

MADE = Script(
    [
        [call("create_schema", {"name": "Notes", "schema": {"type": "object"}})],
        [call("run_extraction")],
        [text("Done.")],
    ]
)
READ = Script(
    [
        [
            call("extract_fields", {"fields": {"a": 1}, "confidences": {"a": 0.9}}),
            call("complete_extraction", {"summary": "Read."}),
        ]
    ]
)
FILE = {"file": ("1.txt", b"Invoice number: 1\n")}


async def model(body: Body) -> Any:
    names = {str(tool.get("name")).rsplit("__", 1)[-1] for tool in items(body, "tools")}
    return await (MADE if "create_schema" in names else READ)(body)


async def upload(served: Any) -> dict[str, Any]:
    return (await served.http.post("/api/documents", files=FILE, params={"auto_create": "true"})).json()


async def ended(served: Any, document: dict[str, Any]) -> dict[str, Any]:
    async def has_ended() -> Any:
        now = await served.get(f"documents/{document['id']}")
        return now if now["auto_create"] and now["auto_create"]["status"] != "running" else None

    return await until(has_ended)


async def test_members_decide_and_neither_viewers_nor_strangers_nor_other_keys(serve):
    async with serve(model) as served:
        org = await org_of(served.http)
        served.http.headers["x-org-id"] = org
        document = await ended(served, await upload(served))
        path = f"/api/documents/{document['id']}/auto_create"
        made = {"name": "k", "scopes": ["documents:read", "documents:write", "runs:write"]}
        key = (await served.http.post("/api/keys", json=made)).json()["key"]
        approving = {"name": "k", "scopes": ["runs:approve"]}
        other_key = (await served.http.post("/api/keys", json=approving)).json()["key"]
        async with (
            joined(served, org, "viewer") as (viewer, _),
            joined(served, org, "member") as (member, _),
            served.client() as stranger,
            served.bearing(key) as machine,
            served.bearing(other_key) as approver,
        ):
            for decision in ("accept", "reject"):
                assert (await viewer.post(f"{path}/{decision}")).json()["code"] == "read_only"
                assert (await stranger.post(f"{path}/{decision}")).status_code == 404
                assert (await machine.post(f"{path}/{decision}")).json()["code"] == "scope_missing"
                nowhere = f"/api/documents/{UUID(int=1)}/auto_create/{decision}"
                assert (await member.post(nowhere)).status_code == 404
            assert (await viewer.get(f"/api/documents/{document['id']}")).json()["auto_create"]["status"] == "proposed"
            assert (await member.post(f"{path}/accept")).json()["auto_create"]["status"] == "accepted"
            assert (await approver.post(f"{path}/accept")).json()["auto_create"]["status"] == "accepted"
            refused = await approver.post(f"{path}/reject")
            assert (refused.status_code, refused.json()["code"]) == (409, "conflict")


async def test_a_key_that_may_start_no_runs_does_not_ask_for_one(serve):
    async with serve(model) as served:
        scopes = {"uploads": ["documents:read", "documents:write"]}
        scopes["runs"] = [*scopes["uploads"], "runs:write"]
        keys = {}
        for name, its in scopes.items():
            keys[name] = (await served.http.post("/api/keys", json={"name": name, "scopes": its})).json()["key"]
        async with served.bearing(keys["uploads"]) as http:
            for path, more in (("", {"files": FILE}), ("/adopt", {"json": {"storage_path": "a/b/c"}})):
                refused = await http.post(f"/api/documents{path}?auto_create=true", **more)
                assert (refused.status_code, refused.json()["code"]) == (403, "scope_missing")
            assert (await http.post("/api/documents", files=FILE)).status_code == 201
        async with served.bearing(keys["runs"]) as http:
            document = (await http.post("/api/documents?auto_create=true", files=FILE)).json()
            assert (await ended(served, document))["auto_create"]["status"] == "proposed"
