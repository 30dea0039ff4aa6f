"""Every operation of the description refuses the same callers and the same bad input with the same code, at things that
exist, and changes nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import httpx
import psycopg
import pytest
from answers import as_owner, problem
from people import invited, joined, org_of

from fieldmark.api.permissions import NO_SCOPE_NEEDED, PEOPLE_ONLY, SAFE_METHODS, SECOND_SCOPES, required_scope
from fieldmark.api.request_guard import PUBLIC_PATHS
from fieldmark.domain.permissions import Permission
from fieldmark.stores.paging import Cursor
from fieldmark.stores.rows import Position
from running_server import Clone

pytestmark = pytest.mark.anyio

# It lists the caller's own.
OF_NO_ORGANISATION = {("GET", "/api/organisations")}

JSON = {"content-type": "application/json"}


def operations(openapi: dict[str, Any], names: dict[str, str]) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    """Method, template, address with what is there, and description of each."""
    for path, item in openapi["paths"].items():
        if path.startswith("/api/") and path not in PUBLIC_PATHS:
            for verb, operation in item.items():
                yield verb.upper(), path, re.sub(r"\{(\w+)\}", lambda found: names[found[1]], path), operation


def everything(clone: Clone) -> dict[str, str]:
    """A fingerprint of each table. (When a key was last used is noted of any request that it has sent.)"""
    with psycopg.connect(clone.owner_url) as owner:
        tables = owner.execute("select tablename from pg_tables where schemaname = 'public'").fetchall()
        rows = (
            "select md5(string_agg(r::text, ',' order by r)) from (select to_jsonb(t) - 'last_used_at' as r from {} t)"
        )
        return {table: str(owner.execute(rows.format(table).encode()).fetchone()) for (table,) in tables}


async def key_of(http: httpx.AsyncClient, *scopes: str) -> dict[str, str]:
    made = await http.post("/api/keys", json={"name": "k", "scopes": list(scopes or Permission)})
    assert made.status_code == 201, made.text
    return made.json()


async def test_every_operation_refuses_callers_and_input_with_the_same_codes(serve, clone, openapi):
    async with serve() as server, server.client() as stranger:
        org = await org_of(server.http)
        server.http.headers["x-org-id"] = org
        document = str(await server.upload_text())
        run = (await server.http.post("/api/agent/extract", json={"document_id": document})).json()
        revoked, expired, used = [await key_of(server.http) for _ in range(3)]
        theirs = await key_of(stranger)
        lacking = {scope: await key_of(server.http, *(set(Permission) - {scope})) for scope in Permission}
        invitation = await invited(server.http, org)
        schema = (await server.http.post("/api/schemas", json={"name": "s", "schema": {"type": "object"}})).json()
        prompt = (await server.http.post("/api/prompts", json={"name": "p", "content": "Read."})).json()
        tag = (await server.http.post("/api/tags", json={"name": "t"})).json()
        thread = (await server.http.post("/api/threads", json={"document_id": document})).json()
        await server.http.delete(f"/api/keys/{revoked['id']}")
        await as_owner(clone, "update public.api_keys set expires_at = now() where id = %s", expired["id"])
        async with (
            joined(server, org, "viewer") as (viewer, user),
            server.client_with_token(revoked["key"]) as past,
            server.client_with_token(expired["key"]) as over,
            server.client_with_token(theirs["key"]) as other,
            server.client_with_token("") as robot,
            httpx.AsyncClient(base_url=server.base_url) as nobody,
        ):
            names = {
                "document_id": document,
                "extraction_id": run["extraction"]["id"],
                "run_id": run["run_id"],
                "organisation_id": org,
                "user_id": str(user),
                "invitation_id": invitation["id"],
                "key_id": used["id"],
                "number": "1",
                "schema_id": schema["id"],
                "schema_revid": schema["schema_revid"],
                "prompt_id": prompt["id"],
                "prompt_revid": prompt["prompt_revid"],
                "tag_id": tag["id"],
                "thread_id": thread["id"],
            }
            before = everything(clone)
            asked = set()
            for method, template, path, operation in operations(openapi, names):
                known = operation.get("parameters", [])
                query = {one["name"]: "a" for one in known if one["in"] == "query" and one.get("required")}

                async def ask(
                    http: httpx.AsyncClient, body: str = "{}", method=method, path=path, query=query, **more: str
                ) -> httpx.Response:
                    answer = await http.request(method, path, params=query | more, content=body, headers=JSON)
                    assert answer.headers["x-content-type-options"] == "nosniff"
                    assert "private" in answer.headers["cache-control"]
                    return answer

                problem(await ask(nobody), 401)
                problem(await ask(past), 401, "key_revoked")
                problem(await ask(over), 401, "key_expired")
                assert "'unknown'" in problem(await ask(server.http, unknown="1"), 422)
                if "application/json" in operation.get("requestBody", {}).get("content", {}):
                    problem(await ask(server.http, body='{"a": '), 422)
                if "before" in {one["name"] for one in known}:
                    of_another = str(Cursor("others", Position(datetime.now(UTC) + timedelta(days=1), uuid4())))
                    problem(await ask(server.http, before=of_another), 422)
                if (method, template) in PEOPLE_ONLY:
                    problem(await ask(other), 403, "person_needed")
                elif (method, template) not in NO_SCOPE_NEEDED:
                    needed = required_scope(method, template)
                    also = SECOND_SCOPES.get((method, template))
                    scopes = [one.value for one in (needed, also) if one is not None]
                    assert needed is not None and operation["security"] == [{"HTTPBearer": scopes}]
                    robot.headers["authorization"] = f"Bearer {lacking[needed]['key']}"
                    problem(await ask(robot), 403, "scope_missing")
                    asked.add(needed)
                    if (method, template) in OF_NO_ORGANISATION:
                        continue
                    other.headers["x-org-id"] = org
                    problem(await ask(other), 404)
                    del other.headers["x-org-id"]
                    if method not in SAFE_METHODS and not needed.is_read_only:
                        problem(await ask(viewer), 403, "read_only")
            assert asked == set(Permission)
            assert everything(clone) == before


HOLDS: dict[Permission, set[str]] = {
    Permission.DOCUMENTS_READ: {"documents"},
    Permission.EXTRACTIONS_READ: {"extractions", "documents", "schemas"},
    Permission.SCHEMAS_READ: {"schemas"},
    Permission.RUNS_READ: {"runs"},
    Permission.MEMBERS_WRITE: {"invitations"},
    Permission.KEYS_READ: {"keys"},
}
"""What the answers to a key with one scope hold, of one sign for each kind of thing; other scopes none."""


async def test_an_answer_to_a_key_holds_nothing_but_what_its_scope_is_for(serve, clone, openapi):
    signs = {name: f"zq{name}qz" for name in ("documents", "extractions", "schemas", "runs", "invitations", "keys")}
    async with serve() as server, server.client() as guest:
        org = await org_of(server.http)
        server.http.headers["x-org-id"] = org
        document = str(await server.upload_text(f"Total 12 {signs['documents']}", name=f"{signs['documents']}.txt"))
        invitation = await invited(server.http, org, email=f"{signs['invitations']}@example.org")
        joining = await invited(server.http, org)
        assert (await guest.post("/api/invitations/accept", json={"token": joining["token"]})).is_success
        (user,) = [
            one["user_id"]
            for one in (await server.http.get(f"/api/organisations/{org}/members")).json()["items"]
            if one["user_id"] != str(server.scope.user_id)
        ]
        body = {"name": signs["schemas"], "schema": {"type": "object", "title": signs["schemas"]}}
        schema = (await server.http.post("/api/schemas", json=body)).json()
        prompt = (await server.http.post("/api/prompts", json={"name": "p", "content": signs["schemas"]})).json()
        tag = (await server.http.post("/api/tags", json={"name": "t"})).json()
        body = {"document_id": document, "schema_revid": schema["schema_revid"], "instructions": signs["runs"]}
        run = (await server.http.post("/api/agent/extract", json=body)).json()
        extraction = run["extraction"]["id"]
        field = {"path": "total", "value": signs["extractions"]}
        assert (await server.http.patch(f"/api/extractions/{extraction}/fields", json=field)).is_success
        assert (await server.http.post(f"/api/extractions/{extraction}/complete")).is_success
        thread = (await server.http.post("/api/threads", json={"document_id": document, "title": signs["runs"]})).json()
        await server.http.patch(f"/api/threads/{thread['id']}", json={"shared": True})
        key = await key_of(server.http, "usage:read")
        await server.http.post("/api/keys", json={"name": signs["keys"], "scopes": ["usage:read"]})
        names = {
            "document_id": document,
            "extraction_id": extraction,
            "run_id": run["run_id"],
            "organisation_id": org,
            "user_id": user,
            "invitation_id": invitation["id"],
            "key_id": key["id"],
            "number": "1",
            "schema_id": schema["id"],
            "schema_revid": schema["schema_revid"],
            "prompt_id": prompt["id"],
            "prompt_revid": prompt["prompt_revid"],
            "tag_id": tag["id"],
            "thread_id": thread["id"],
        }
        held: dict[Permission, set[str]] = {}
        for scope in Permission:
            routes = [one for one in operations(openapi, names) if required_scope(one[0], one[1]) is scope]
            async with server.client_with_token((await key_of(server.http, scope))["key"]) as robot:
                for method, template, path, operation in routes:
                    if method == "DELETE" or template.endswith("/events"):
                        continue
                    known = {one["name"] for one in operation.get("parameters", []) if one["in"] == "query"}
                    query = {"q": " ".join(signs.values()), "path": "total"}
                    query = {name: value for name, value in query.items() if name in known}
                    answer = await robot.request(method, path, params=query, content="{}", headers=JSON)
                    found = {name for name, sign in signs.items() if sign in answer.text}
                    held.setdefault(scope, set()).update(found)
        assert {scope: found for scope, found in held.items() if found} == HOLDS
