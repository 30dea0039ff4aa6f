"""Keys for machines: what they open, and what ends them, on every server."""

from __future__ import annotations

import asyncio
import hashlib
import re
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import httpx
import psycopg
import pytest
from answers import as_owner, problem
from people import joined, org_of

from extraction_case import sql, until
from fieldmark.domain.events import TextEvent
from fieldmark.offline_model.messages import call, text
from fieldmark.stores import runs
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio

READING = ["documents:read", "runs:read"]


async def made(http: httpx.AsyncClient, *scopes: str, **more: Any) -> dict[str, Any]:
    answer = await http.post("/api/keys", json={"name": "robot", "scopes": list(scopes or READING), **more})
    assert answer.status_code == 201, answer.text
    return answer.json()


async def test_a_key_is_shown_once_and_works(serve, clone):
    async with serve() as server:
        key = await made(server.http, "documents:read", "documents:write")
        assert re.fullmatch(r"fm_[0-9a-f]{8}_[0-9a-f]{64}", key["key"]) and key["key"].startswith(key["prefix"])
        # Nothing has it but its maker: not a list, not a row.
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
            # Whose work it is stands in the rows.
            (document,) = sql(clone.owner_url, "select created_by from public.documents")
            assert str(document["created_by"]) == key["id"]
            assert (await robot.get("/api/documents", headers={"x-org-id": str(server.scope.org_id)})).is_success
            # Its organisation and no other, though its maker has others.
            other = await org_of(server.http)
            problem(await robot.get("/api/documents", headers={"x-org-id": other}), 404)
            problem(await robot.get(f"/api/organisations/{other}"), 404)
            # The last use is noted, beside the requests.
            query = "select last_used_at from public.api_keys where last_used_at is not null"

            async def is_noted() -> bool:
                return bool(sql(clone.owner_url, query))

            await until(is_noted)
            (noted,) = sql(clone.owner_url, query)
            for _ in range(3):
                assert (await robot.get("/api/documents")).is_success
            assert sql(clone.owner_url, query) == [noted]  # once a minute


async def test_malformed_keys_get_401_and_invalid_requests_for_one_422(serve):
    async with serve() as server:
        key = await made(server.http)
        another = key["key"][:-1] + ("0" if key["key"][-1] != "0" else "1")
        for token in (another, key["key"] + "0", key["key"].upper(), "fm_"):
            async with server.client_with_token(token) as robot:
                problem(await robot.get("/api/documents"), 401)
        async with server.client_with_token(key["key"]) as robot:
            assert (await robot.get("/api/documents")).is_success
        bad = (
            {"scopes": []},
            {"scopes": ["all"]},
            {"name": ""},
            {"expires_at": "2020-01-01T00:00:00Z"},
            {"expires_at": "2099-01-01T00:00:00"},
            {"org_id": str(uuid4())},
        )
        for body in bad:
            problem(await server.http.post("/api/keys", json={"name": "k", "scopes": READING, **body}), 422)


async def test_a_key_that_is_revoked_on_one_server_is_refused_on_another(serve):
    async with serve() as one, serve(with_worker=False) as two:
        key = await made(one.http)
        async with one.client_with_token(key["key"]) as here, two.client_with_token(key["key"]) as there:
            assert (await here.get("/api/documents")).is_success and (await there.get("/api/documents")).is_success
            for _ in range(2):
                assert (await one.http.delete(f"/api/keys/{key['id']}")).json()["revoked_at"]
            # At the very next request, wherever it goes.
            problem(await there.get("/api/documents"), 401, "key_revoked")
            problem(await here.get("/api/documents"), 401, "key_revoked")
            # One that ends itself hears so.
            own = await made(one.http, "keys:write", "documents:read")
            async with one.client_with_token(own["key"]) as robot:
                assert (await robot.delete(f"/api/keys/{own['id']}")).json()["revoked_at"]
                problem(await robot.get("/api/documents"), 401, "key_revoked")


async def test_a_key_is_never_more_than_whoever_made_it_is_now(serve):
    async with serve() as server:
        org = await org_of(server.http)
        place = f"/api/organisations/{org}/members"
        async with joined(server, org, "member") as (member, user):
            key = await made(member, "documents:read", "documents:write", "members:write")
            async with server.client_with_token(key["key"]) as robot:
                file = {"file": ("a.txt", b"x")}
                assert (await robot.post("/api/documents", files=file)).status_code == 201
                problem(await robot.post(f"/api/organisations/{org}/invitations", json={}), 403, "owner_needed")
                await server.http.patch(f"{place}/{user}", json={"role": "viewer"})
                problem(await robot.post("/api/documents", files=file), 403, "read_only")
                assert (await robot.get("/api/documents")).is_success
                problem(await member.post("/api/keys", json={"name": "k", "scopes": READING}), 403, "read_only")
                await server.http.patch(f"{place}/{user}", json={"role": "owner"})
                assert (await robot.post(f"/api/organisations/{org}/invitations", json={})).status_code == 201
                await server.http.delete(f"{place}/{user}")
                problem(await robot.get("/api/documents"), 401, "key_revoked")
                # Whoever comes back does not bring it along.
                invitation = await server.http.post(f"/api/organisations/{org}/invitations", json={})
                await member.post("/api/invitations/accept", json={"token": invitation.json()["token"]})
                problem(await robot.get("/api/documents"), 401, "key_revoked")


async def test_nobody_but_the_service_acts_as_a_key(serve, clone):
    """A token of Supabase's that named a key as its user would be nobody's in PostgREST."""
    async with serve() as server:
        key = await made(server.http)
        with psycopg.connect(clone.owner_url) as conn:
            conn.execute("set session authorization authenticator")
            conn.execute("set role authenticated")
            claims = f'{{"sub": "{key["id"]}", "role": "authenticated"}}'
            conn.execute("select set_config('request.jwt.claims', %s, true)", (claims,))
            assert conn.execute("select count(*) from public.organisations").fetchone() == (0,)


async def test_a_run_that_a_key_has_started(serve, clone):
    """It works with the key's rights, outlives its expiry, and ends with its being revoked."""
    writes = [[call("update_field", {"path": path, "value": 1, "confidence": 0.9})] for path in ("a", "b")]
    async with serve(Script(writes)) as server:
        document = await server.upload_text()
        key = await made(server.http, "runs:write", "runs:read", "runs:approve")
        async with server.client_with_token(key["key"]) as robot:
            begun = await robot.post("/api/agent/extract", json={"document_id": str(document), "approval": "ask"})
            run = begun.json()
            assert run["status"] == "awaiting_approval", run
            (row,) = sql(clone.owner_url, "select created_by from public.runs where id = %s", run["run_id"])
            assert str(row["created_by"]) == key["id"]
            await as_owner(clone, "update public.api_keys set expires_at = now() where id = %s", key["id"])
            problem(await robot.get(f"/api/runs/{run['run_id']}"), 401, "key_expired")
        # Who made the key finds it in their inbox, and decides.
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


async def test_a_stream_ends_when_its_key_expires(serve):
    async with serve(with_worker=False) as server:
        document = (await server.http.post("/api/documents", files={"file": ("a.txt", b"Total 1")})).json()["id"]
        run = (await server.http.post("/api/agent/extract", json={"document_id": document, "wait": False})).json()
        over = datetime.now(UTC) + timedelta(seconds=1)
        key = await made(server.http, "runs:read", expires_at=over.isoformat())
        statuses: dict[str, list[str]] = {"key": [], "person": []}
        started = TextEvent(text="After that.")
        async with server.client_with_token(key["key"]) as robot, asyncio.TaskGroup() as group:

            async def listen(name: str, http) -> None:
                async with http.stream("GET", f"/api/runs/{run['run_id']}/events") as answer:
                    async for line in answer.aiter_lines():
                        statuses[name].append(line)

            group.create_task(listen("key", robot))
            group.create_task(listen("person", server.http))
            await until(lambda: all(statuses.values()) and datetime.now(UTC) > over)
            async with server.runtime.database.as_user(server.scope) as conn:
                await runs.append_event(conn, UUID(run["run_id"]), started)
            await until(lambda: any("After that." in line for line in statuses["person"]))
            assert (await server.http.post(f"/api/runs/{run['run_id']}/cancel")).is_success
        assert not any("After that." in line for line in statuses["key"])


async def test_what_a_key_made_its_maker_may_delete_and_other_members_may_not(serve):
    async with serve(Script([[text("Done.")]])) as server:
        org = await org_of(server.http)
        async with joined(server, org, "member") as (anna, _a), joined(server, org, "member") as (bert, _b):
            key = (await made(anna, "documents:read", "documents:write", "runs:write"))["key"]
            async with server.client_with_token(key) as robot:
                theirs = (await robot.post("/api/documents", files={"file": ("a.txt", b"Total 1")})).json()["id"]
                run = (await robot.post("/api/agent/extract", json={"document_id": theirs})).json()
                own = (await anna.post("/api/documents", files={"file": ("b.txt", b"Total 2")})).json()["id"]
                problem(await robot.delete(f"/api/documents/{own}"), 404)
            for at in ("runs/" + run["run_id"], "extractions/" + run["extraction"]["id"], "documents/" + theirs):
                problem(await bert.delete(f"/api/{at}"), 404)
                assert (await anna.delete(f"/api/{at}")).status_code == 204
