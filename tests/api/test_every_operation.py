"""Every operation of the OpenAPI description refuses the same callers and invalid input with the same codes, and
changes nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import httpx
import psycopg
import pytest
from answers import assert_problem, execute_as_owner
from members import create_invitation, create_org, new_member

from extraction_case import until
from fieldmark.api.permissions import NO_SCOPE_NEEDED, PEOPLE_ONLY, SAFE_METHODS, SECOND_SCOPES, required_scope
from fieldmark.api.request_guard import PUBLIC_PATHS
from fieldmark.domain.permissions import Permission
from fieldmark.stores.paging import Cursor
from fieldmark.stores.rows import Position
from running_server import Clone

pytestmark = pytest.mark.anyio

# Lists the caller's own organisations.
WITHOUT_ORGANISATION = {("GET", "/api/organisations")}

JSON = {"content-type": "application/json"}


def operations(openapi: dict[str, Any], ids: dict[str, str]) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    """Yield the method, path template, path with existing ids, and description of each operation that needs a token."""
    for path, item in openapi["paths"].items():
        if path.startswith("/api/") and path not in PUBLIC_PATHS:
            for verb, operation in item.items():
                yield verb.upper(), path, re.sub(r"\{(\w+)\}", lambda found: ids[found[1]], path), operation


def table_hashes(clone: Clone) -> dict[str, str]:
    """Return a hash of each table. `last_used_at` is left out: each request of a key changes it."""
    with psycopg.connect(clone.owner_url) as owner:
        tables = owner.execute("select tablename from pg_tables where schemaname = 'public'").fetchall()
        rows = (
            "select md5(string_agg(r::text, ',' order by r)) from (select to_jsonb(t) - 'last_used_at' as r from {} t)"
        )
        return {table: str(owner.execute(rows.format(table).encode()).fetchone()) for (table,) in tables}


async def create_key(http: httpx.AsyncClient, *scopes: str) -> dict[str, str]:
    answer = await http.post("/api/keys", json={"name": "k", "scopes": list(scopes or Permission)})
    assert answer.status_code == 201, answer.text
    return answer.json()


async def test_every_operation_refuses_callers_and_input_with_the_same_codes(serve, clone, openapi):
    async with serve() as server, server.client() as stranger:
        org = await create_org(server.http)
        server.http.headers["x-org-id"] = org
        document = str(await server.upload_text())
        run = (await server.http.post("/api/agent/extract", json={"document_id": document})).json()
        revoked, expired, unused_key = [await create_key(server.http) for _ in range(3)]
        stranger_key = await create_key(stranger)
        keys_without_scope = {
            # (documents:write includes documents:add.)
            scope: await create_key(
                server.http,
                *(set(Permission) - {scope, *([Permission.DOCUMENTS_WRITE] if scope == "documents:add" else [])}),
            )
            for scope in Permission
        }
        invitation = await create_invitation(server.http, org)
        schema = (await server.http.post("/api/schemas", json={"name": "s", "schema": {"type": "object"}})).json()
        prompt = (await server.http.post("/api/prompts", json={"name": "p", "content": "Read."})).json()
        tag = (await server.http.post("/api/tags", json={"name": "t"})).json()
        stack = (await server.http.post("/api/stacks", json={"name": "t", "document_ids": [document]})).json()
        thread = (await server.http.post("/api/threads", json={"document_id": document})).json()
        # (Nothing is sent to it while the tables are compared.)
        body = {"url": "https://a.example", "types": ["webhook.test"]}
        webhook = (await server.http.post("/api/webhooks", json=body)).json()["id"]
        body = {"kind": "bucket", "address": "https://a.example/b", "username": "u", "secret": "s"}
        source = (await server.http.post("/api/sources", json=body)).json()["id"]
        await server.http.patch(f"/api/sources/{source}", json={"is_paused": True})
        await server.http.delete(f"/api/keys/{revoked['id']}")
        await execute_as_owner(clone, "update public.api_keys set expires_at = now() where id = %s", expired["id"])
        async with (
            new_member(server, org, "viewer") as (viewer, user),
            server.client_with_token(revoked["key"]) as revoked_client,
            server.client_with_token(expired["key"]) as expired_client,
            server.client_with_token(stranger_key["key"]) as stranger_robot,
            server.client_with_token("") as robot,
            httpx.AsyncClient(base_url=server.base_url) as anonymous,
        ):
            ids = {
                "document_id": document,
                "extraction_id": run["extraction"]["id"],
                "run_id": run["run_id"],
                "organisation_id": org,
                "user_id": str(user),
                "invitation_id": invitation["id"],
                "key_id": unused_key["id"],
                "number": "1",
                "schema_id": schema["id"],
                "schema_revid": schema["schema_revid"],
                "prompt_id": prompt["id"],
                "prompt_revid": prompt["prompt_revid"],
                "tag_id": tag["id"],
                "thread_id": thread["id"],
                "stack_id": stack["id"],
                "webhook_id": webhook,
                "delivery_id": str(uuid4()),
                "source_id": source,
                "table_id": stack["id"],
                "view_id": str(uuid4()),
                "comment_id": str(uuid4()),
            }
            await server.get("changes")  # publishes what has happened
            before = table_hashes(clone)
            tested_scopes = set()
            for method, template, path, operation in operations(openapi, ids):
                parameters = operation.get("parameters", [])
                query = {one["name"]: "a" for one in parameters if one["in"] == "query" and one.get("required")}

                async def ask(
                    http: httpx.AsyncClient, body: str = "{}", method=method, path=path, query=query, **more: str
                ) -> httpx.Response:
                    answer = await http.request(method, path, params=query | more, content=body, headers=JSON)
                    assert answer.headers["x-content-type-options"] == "nosniff"
                    assert "private" in answer.headers["cache-control"]
                    return answer

                assert_problem(await ask(anonymous), 401)
                assert_problem(await ask(revoked_client), 401, "key_revoked")
                assert_problem(await ask(expired_client), 401, "key_expired")
                assert_problem(await ask(server.http, unknown="1"), 422)
                if "application/json" in operation.get("requestBody", {}).get("content", {}):
                    assert_problem(await ask(server.http, body='{"a": '), 422)
                if "before" in {one["name"] for one in parameters}:
                    foreign_cursor = str(Cursor("others", Position(datetime.now(UTC) + timedelta(days=1), uuid4())))
                    assert_problem(await ask(server.http, before=foreign_cursor), 422)
                if (method, template) in PEOPLE_ONLY:
                    assert_problem(await ask(stranger_robot), 403, "person_needed")
                elif (method, template) not in NO_SCOPE_NEEDED:
                    needed = required_scope(method, template)
                    second = SECOND_SCOPES.get((method, template))
                    scopes = [one.value for one in (needed, second) if one is not None]
                    assert needed is not None and operation["security"] == [{"HTTPBearer": scopes}]
                    robot.headers["authorization"] = f"Bearer {keys_without_scope[needed]['key']}"
                    assert_problem(await ask(robot), 403, "scope_missing")
                    tested_scopes.add(needed)
                    if (method, template) in WITHOUT_ORGANISATION:
                        continue
                    stranger_robot.headers["x-org-id"] = org
                    assert_problem(await ask(stranger_robot), 404)
                    del stranger_robot.headers["x-org-id"]
                    if method not in SAFE_METHODS and not needed.is_read_only:
                        assert_problem(await ask(viewer), 403, "read_only")
            assert tested_scopes == set(Permission)
            assert table_hashes(clone) == before


READABLE_BY_SCOPE: dict[Permission, set[str]] = {
    Permission.DOCUMENTS_READ: {"documents"},
    Permission.EXTRACTIONS_READ: {"extractions", "documents", "schemas"},
    Permission.SCHEMAS_READ: {"schemas"},
    Permission.RUNS_READ: {"runs"},
    Permission.MEMBERS_WRITE: {"invitations"},
    Permission.KEYS_READ: {"keys"},
    Permission.CHANGES_READ: {"documents", "extractions", "schemas"},
}
"""Kinds of data in the answers to a key with only this scope. Other scopes return none of them."""


async def test_answers_to_a_key_contain_only_what_its_scope_allows(serve, clone, openapi):
    markers = {name: f"zq{name}qz" for name in ("documents", "extractions", "schemas", "runs", "invitations", "keys")}
    async with serve() as server, server.client() as guest:
        org = await create_org(server.http)
        server.http.headers["x-org-id"] = org
        document = str(await server.upload_text(f"Total 12 {markers['documents']}", name=f"{markers['documents']}.txt"))
        invitation = await create_invitation(server.http, org, email=f"{markers['invitations']}@example.org")
        invitation_to_accept = await create_invitation(server.http, org)
        assert (await guest.post("/api/invitations/accept", json={"token": invitation_to_accept["token"]})).is_success
        (user,) = [
            one["user_id"]
            for one in (await server.http.get(f"/api/organisations/{org}/members")).json()["items"]
            if one["user_id"] != str(server.scope.user_id)
        ]
        body = {"name": markers["schemas"], "schema": {"type": "object", "title": markers["schemas"]}}
        schema = (await server.http.post("/api/schemas", json=body)).json()
        prompt = (await server.http.post("/api/prompts", json={"name": "p", "content": markers["schemas"]})).json()
        tag = (await server.http.post("/api/tags", json={"name": "t"})).json()
        stack = (await server.http.post("/api/stacks", json={"name": "t", "document_ids": [document]})).json()
        body = {"document_id": document, "schema_revid": schema["schema_revid"], "instructions": markers["runs"]}
        run = (await server.http.post("/api/agent/extract", json=body)).json()
        extraction = run["extraction"]["id"]
        field = {"path": "total", "value": markers["extractions"]}
        assert (await server.http.patch(f"/api/extractions/{extraction}/fields", json=field)).is_success
        assert (await server.http.post(f"/api/extractions/{extraction}/complete")).is_success
        thread = (
            await server.http.post("/api/threads", json={"document_id": document, "title": markers["runs"]})
        ).json()
        await server.http.patch(f"/api/threads/{thread['id']}", json={"shared": True})
        key = await create_key(server.http, "usage:read")
        await server.http.post("/api/keys", json={"name": markers["keys"], "scopes": ["usage:read"]})
        ids = {
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
            "stack_id": stack["id"],
            "table_id": stack["id"],
            "view_id": str(uuid4()),
            "comment_id": str(uuid4()),
            "thread_id": thread["id"],
            "webhook_id": (await server.http.post("/api/webhooks", json={"url": "https://a.example"})).json()["id"],
            "delivery_id": str(uuid4()),
            "source_id": str(uuid4()),
        }

        async def is_published() -> bool:
            return markers["extractions"] in (await server.http.get("/api/changes")).text

        await until(is_published)
        found_by_scope: dict[Permission, set[str]] = {}
        for scope in Permission:
            routes = [one for one in operations(openapi, ids) if required_scope(one[0], one[1]) is scope]
            async with server.client_with_token((await create_key(server.http, scope))["key"]) as robot:
                for method, template, path, operation in routes:
                    if method == "DELETE" or template.endswith("/events"):
                        continue
                    query_names = {one["name"] for one in operation.get("parameters", []) if one["in"] == "query"}
                    query = {"q": " ".join(markers.values()), "path": "total"}
                    query = {name: value for name, value in query.items() if name in query_names}
                    answer = await robot.request(method, path, params=query, content="{}", headers=JSON)
                    found = {name for name, marker in markers.items() if marker in answer.text}
                    found_by_scope.setdefault(scope, set()).update(found)
        assert {scope: found for scope, found in found_by_scope.items() if found} == READABLE_BY_SCOPE
