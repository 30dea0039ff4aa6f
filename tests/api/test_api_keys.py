"""API keys: scopes, expiry and revocation, on every server."""

from __future__ import annotations

import asyncio
import hashlib
import math
import re
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import httpx
import psycopg
import pytest
from answers import assert_problem, execute_as_owner
from members import create_org, new_member

from extraction_case import sql, until
from fieldmark.domain.events import TextEvent
from fieldmark.offline_model.messages import call, text
from fieldmark.services.api_keys import ApiKeys
from fieldmark.stores import runs
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio

READ_SCOPES = ["documents:read", "runs:read"]


async def create_key(http: httpx.AsyncClient, *scopes: str, **more: Any) -> dict[str, Any]:
    answer = await http.post("/api/keys", json={"name": "robot", "scopes": list(scopes or READ_SCOPES), **more})
    assert answer.status_code == 201, answer.text
    return answer.json()


async def test_key_is_shown_once_and_authenticates(serve, clone):
    async with serve() as server:
        key = await create_key(server.http, "documents:read", "documents:write")
        assert re.fullmatch(r"fm_[0-9a-f]{8}_[0-9a-f]{64}", key["key"]) and key["key"].startswith(key["prefix"])
        # The secret is in no list and no row.
        assert key["key"] not in (await server.http.get("/api/keys")).text
        (row,) = sql(clone.owner_url, "select *, k::text as whole from public.api_keys as k")
        assert bytes(row["hash"]) == hashlib.sha256(key["key"].encode()).digest()
        assert key["key"].rpartition("_")[2] not in row["whole"]
        async with server.client_with_token(key["key"]) as robot:
            me = (await robot.get("/api/me")).json()
            assert (me["user_id"], me["key"]["prefix"]) == (key["id"], key["prefix"])
            assert [one["id"] for one in me["organisations"]] == [str(server.scope.org_id)]
            uploaded = await robot.post("/api/documents", files={"file": ("a.txt", b"Total 1")})
            assert uploaded.status_code == 201
            (document,) = sql(clone.owner_url, "select created_by from public.documents")
            assert str(document["created_by"]) == key["id"]
            assert (await robot.get("/api/documents", headers={"x-org-id": str(server.scope.org_id)})).is_success
            # A key gives access to one organisation, not to its creator's others.
            other = await create_org(server.http)
            assert_problem(await robot.get("/api/documents", headers={"x-org-id": other}), 404)
            assert_problem(await robot.get(f"/api/organisations/{other}"), 404)
            query = "select last_used_at from public.api_keys where last_used_at is not null"

            async def is_recorded() -> bool:
                return bool(sql(clone.owner_url, query))

            await until(is_recorded)
            (recorded,) = sql(clone.owner_url, query)
            for _ in range(3):
                assert (await robot.get("/api/documents")).is_success
            assert sql(clone.owner_url, query) == [recorded]  # once a minute


async def test_malformed_keys_get_401_and_invalid_key_requests_422(serve):
    async with serve() as server:
        key = await create_key(server.http)
        another = key["key"][:-1] + ("0" if key["key"][-1] != "0" else "1")
        for token in (another, key["key"] + "0", key["key"].upper(), "fm_"):
            async with server.client_with_token(token) as robot:
                assert_problem(await robot.get("/api/documents"), 401)
        async with server.client_with_token(key["key"]) as robot:
            assert (await robot.get("/api/documents")).is_success
        bad = (
            {"scopes": []},
            {"scopes": ["all"]},
            {"name": ""},
            {"expires_at": "2020-01-01T00:00:00Z"},
            {"expires_at": "2099-01-01T00:00:00"},
            {"expires_in_seconds": 0},
            {"expires_at": "2099-01-01T00:00:00Z", "expires_in_seconds": 60},
            {"org_id": str(uuid4())},
        )
        for body in bad:
            assert_problem(await server.http.post("/api/keys", json={"name": "k", "scopes": READ_SCOPES, **body}), 422)


async def test_key_of_an_hour_expires_in_an_hour_by_the_clock_of_the_database(serve, clone):
    async with serve(with_worker=False) as server:
        body = {"name": "k", "scopes": READ_SCOPES, "expires_in_seconds": 3600}
        key = (await server.http.post("/api/keys", json=body)).json()
        (row,) = sql(clone.owner_url, "select expires_at - created_at as lasts from public.api_keys")
        assert row["lasts"] == timedelta(hours=1)
        caller = await ApiKeys(server.runtime.database).authenticate(key["key"])
        assert caller.seconds_left is not None and 3000 < caller.seconds_left <= 3600
        sql(clone.owner_url, "update public.api_keys set expires_at = 'infinity' returning id")
        assert (await ApiKeys(server.runtime.database).authenticate(key["key"])).seconds_left == math.inf


async def test_revoked_key_is_refused_by_all_servers(serve):
    async with serve() as one, serve(with_worker=False) as two:
        key = await create_key(one.http)
        async with one.client_with_token(key["key"]) as here, two.client_with_token(key["key"]) as there:
            assert (await here.get("/api/documents")).is_success and (await there.get("/api/documents")).is_success
            for _ in range(2):
                assert (await one.http.delete(f"/api/keys/{key['id']}")).json()["revoked_at"]
            assert_problem(await there.get("/api/documents"), 401, "key_revoked")
            assert_problem(await here.get("/api/documents"), 401, "key_revoked")
            # A key may revoke itself.
            own_key = await create_key(one.http, "keys:write", "documents:read")
            async with one.client_with_token(own_key["key"]) as robot:
                assert (await robot.delete(f"/api/keys/{own_key['id']}")).json()["revoked_at"]
                assert_problem(await robot.get("/api/documents"), 401, "key_revoked")


async def test_key_is_limited_to_the_current_role_of_its_creator(serve):
    async with serve() as server:
        org = await create_org(server.http)
        url = f"/api/organisations/{org}/members"
        async with new_member(server, org, "member") as (member, user):
            key = await create_key(member, "documents:read", "documents:write", "members:write")
            async with server.client_with_token(key["key"]) as robot:
                file = {"file": ("a.txt", b"x")}
                assert (await robot.post("/api/documents", files=file)).status_code == 201
                assert_problem(await robot.post(f"/api/organisations/{org}/invitations", json={}), 403, "owner_needed")
                await server.http.patch(f"{url}/{user}", json={"role": "viewer"})
                assert_problem(await robot.post("/api/documents", files=file), 403, "read_only")
                assert (await robot.get("/api/documents")).is_success
                assert_problem(
                    await member.post("/api/keys", json={"name": "k", "scopes": READ_SCOPES}), 403, "read_only"
                )
                await server.http.patch(f"{url}/{user}", json={"role": "owner"})
                assert (await robot.post(f"/api/organisations/{org}/invitations", json={})).status_code == 201
                await server.http.delete(f"{url}/{user}")
                assert_problem(await robot.get("/api/documents"), 401, "key_revoked")
                # Rejoining the organisation does not restore the key.
                invitation = await server.http.post(f"/api/organisations/{org}/invitations", json={})
                await member.post("/api/invitations/accept", json={"token": invitation.json()["token"]})
                assert_problem(await robot.get("/api/documents"), 401, "key_revoked")


async def test_supabase_token_with_a_key_id_as_user_sees_nothing(serve, clone):
    async with serve() as server:
        key = await create_key(server.http)
        with psycopg.connect(clone.owner_url) as conn:
            conn.execute("set session authorization authenticator")
            conn.execute("set role authenticated")
            claims = f'{{"sub": "{key["id"]}", "role": "authenticated"}}'
            conn.execute("select set_config('request.jwt.claims', %s, true)", (claims,))
            assert conn.execute("select count(*) from public.organisations").fetchone() == (0,)


async def test_run_of_a_key_outlives_its_expiry_and_is_cancelled_by_revocation(serve, clone):
    writes = [[call("update_field", {"path": path, "value": 1, "confidence": 0.9})] for path in ("a", "b")]
    async with serve(Script(writes)) as server:
        document = await server.upload_text()
        key = await create_key(server.http, "runs:write", "runs:read", "runs:approve")
        async with server.client_with_token(key["key"]) as robot:
            answer = await robot.post("/api/agent/extract", json={"document_id": str(document), "approval": "ask"})
            run = answer.json()
            assert run["status"] == "awaiting_approval", run
            (row,) = sql(clone.owner_url, "select created_by from public.runs where id = %s", run["run_id"])
            assert str(row["created_by"]) == key["id"]
            await execute_as_owner(clone, "update public.api_keys set expires_at = now() where id = %s", key["id"])
            assert_problem(await robot.get(f"/api/runs/{run['run_id']}"), 401, "key_expired")
        # The creator of the key sees the approval in their inbox.
        (waiting,) = (await server.http.get("/api/runs", params={"status": "awaiting_approval"})).json()["items"]
        assert waiting["id"] == run["run_id"]

        async def approve(call_id: str) -> dict[str, Any]:
            body = {"run_id": run["run_id"], "approvals": [{"call_id": call_id, "approved": True}]}
            answer = await server.http.post("/api/agent/approve", json=body)
            assert answer.is_success, answer.text
            return answer.json()

        decided = await approve(run["waits_for"]["call_id"])
        assert decided["status"] == "awaiting_approval"
        (row,) = sql(clone.owner_url, "select created_by from public.runs where id = %s", run["run_id"])
        assert str(row["created_by"]) == key["id"]
        assert (await server.http.delete(f"/api/keys/{key['id']}")).is_success
        cancelled = await server.get(f"runs/{run['run_id']}")
        assert (cancelled["status"], cancelled["error_code"]) == ("cancelled", "cancelled")


async def test_event_stream_ends_when_its_key_expires(serve, clone):
    async with serve(with_worker=False) as server:
        document = (await server.http.post("/api/documents", files={"file": ("a.txt", b"Total 1")})).json()["id"]
        run = (await server.http.post("/api/agent/extract", json={"document_id": document, "wait": False})).json()
        key = await create_key(server.http, "runs:read")
        (row,) = sql(
            clone.owner_url, "update public.api_keys set expires_at = now() + interval '1 second' returning expires_at"
        )
        expires_at = row["expires_at"]
        lines: dict[str, list[str]] = {"key": [], "person": []}
        late_event = TextEvent(text="After that.")
        async with server.client_with_token(key["key"]) as robot, asyncio.TaskGroup() as group:

            async def listen(name: str, http) -> None:
                async with http.stream("GET", f"/api/runs/{run['run_id']}/events") as answer:
                    async for line in answer.aiter_lines():
                        lines[name].append(line)

            group.create_task(listen("key", robot))
            group.create_task(listen("person", server.http))
            await until(lambda: all(lines.values()) and datetime.now(UTC) > expires_at)
            async with server.runtime.database.as_user(server.scope) as conn:
                await runs.append_event(conn, UUID(run["run_id"]), late_event)
            await until(lambda: any("After that." in line for line in lines["person"]))
            assert (await server.http.post(f"/api/runs/{run['run_id']}/cancel")).is_success
        assert not any("After that." in line for line in lines["key"])


async def test_creator_of_a_key_but_no_other_member_may_delete_what_it_created(serve):
    async with serve(Script([[text("Done.")]])) as server:
        org = await create_org(server.http)
        async with new_member(server, org, "member") as (anna, _a), new_member(server, org, "member") as (bert, _b):
            key = (await create_key(anna, "documents:read", "documents:write", "runs:write"))["key"]
            async with server.client_with_token(key) as robot:
                by_key = (await robot.post("/api/documents", files={"file": ("a.txt", b"Total 1")})).json()["id"]
                run = (await robot.post("/api/agent/extract", json={"document_id": by_key})).json()
                by_person = (await anna.post("/api/documents", files={"file": ("b.txt", b"Total 2")})).json()["id"]
                assert_problem(await robot.delete(f"/api/documents/{by_person}"), 404)
            for path in ("runs/" + run["run_id"], "extractions/" + run["extraction"]["id"], "documents/" + by_key):
                assert_problem(await bert.delete(f"/api/{path}"), 404)
                assert (await anna.delete(f"/api/{path}")).status_code == 204


async def test_key_that_may_add_files_can_do_nothing_else(serve):
    async with serve() as server:
        key = await create_key(server.http, "documents:add")
        async with server.client_with_token(key["key"]) as robot:
            added = await robot.post("/api/documents", files={"file": ("a.txt", b"Total: 1")})
            assert added.is_success, added.text
            (document,) = (await server.get("documents"))["items"]
            path = f"/api/documents/{document['id']}"
            for refused in (robot.get("/api/documents"), robot.get(path), robot.delete(path), robot.get("/api/usage")):
                assert_problem(await refused, 403, "scope_missing")
        full = await create_key(server.http, "documents:write")
        async with server.client_with_token(full["key"]) as robot:
            assert (await robot.post("/api/documents", files={"file": ("b.txt", b"Total: 2")})).is_success
