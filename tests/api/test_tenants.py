"""Access to objects: tokens, organisations, and objects of other tenants, which seem not to exist."""

from __future__ import annotations

import json
import re
import time
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import httpx
import jwt
import psycopg
import pytest
from answers import assert_problem

from fieldmark.offline_model.messages import text
from fieldmark.stores.paging import Cursor
from fieldmark.stores.rows import Position
from fieldmark.testing.script import Script, repeat_forever

pytestmark = pytest.mark.anyio

# Every route with an id of an object. Deletions come last.
ROUTES_WITH_ID = [
    ("GET", "/api/documents/{document}", None),
    ("GET", "/api/documents/{document}/text", None),
    ("GET", "/api/documents/{document}/file", None),
    ("GET", "/api/documents/{document}/pages/1", None),
    ("GET", "/api/documents/{document}/pages/1.png", None),
    ("GET", "/api/documents/{document}/pages/1.png?width=200&box=0.1,0.1,0.3,0.2", None),
    ("POST", "/api/documents/{document}/ground", {"values": {"total": 10}}),
    ("GET", "/api/extractions/{extraction}", None),
    ("GET", "/api/extractions/{extraction}?version=0", None),
    ("GET", "/api/extractions/{extraction}/history", None),
    ("GET", "/api/extractions/{extraction}/problems", None),
    ("PATCH", "/api/extractions/{extraction}/fields", {"path": "a", "value": 1}),
    ("GET", "/api/extractions/{extraction}/locations?path=a", None),
    ("GET", "/api/extractions/{extraction}/rule_fixes", None),
    ("GET", "/api/extractions/{extraction}/unmapped", None),
    ("GET", "/api/extractions/{extraction}/missing_rows", None),
    ("GET", "/api/extractions/{extraction}/answers?path=total", None),
    ("DELETE", "/api/extractions/{extraction}/locks?path=a", None),
    ("POST", "/api/extractions/{extraction}/locks?path=a", None),
    ("DELETE", "/api/extractions/{extraction}/fields?path=a", None),
    ("POST", "/api/extractions/{extraction}/restore", {"version": 0}),
    ("POST", "/api/extractions/{extraction}/complete", {}),
    ("DELETE", "/api/extractions/{extraction}/complete?status=completed", None),
    ("PATCH", "/api/extractions/{extraction}", {"document_type": "invoice"}),
    ("GET", "/api/extractions/{extraction}/export", None),
    ("GET", "/api/extractions/{extraction}/schema", None),
    ("PATCH", "/api/documents/{document}", {"filename": "b.txt"}),
    ("GET", "/api/documents/{document}/discussion", None),
    ("PUT", "/api/documents/{document}/assignee", {"user_id": None}),
    ("POST", "/api/documents/{document}/comments", {"body": "Paid?"}),
    ("GET", "/api/schemas/{schema}", None),
    ("GET", "/api/schemas/{schema}/versions", None),
    ("GET", "/api/schemas/{schema}/quality", None),
    ("PUT", "/api/schemas/{schema}/max_error", {"max_error": 0.02}),
    ("GET", "/api/schemas/{schema}/corrections", None),
    ("GET", "/api/schemas/{schema}/quality/values?show=corrected", None),
    ("GET", "/api/tables/{schema}/rows", None),
    ("POST", "/api/tables/{schema}/rows", {"rows": [{"document_id": "{document}"}]}),
    ("GET", "/api/tables/{schema}/export", None),
    ("POST", "/api/tables/{schema}/export", {"rows": [{"document_id": "{document}"}]}),
    ("GET", "/api/tables/{schema}/view", None),
    ("GET", "/api/schema_versions/{schema_revid}", None),
    ("PATCH", "/api/schemas/{schema}", {"name": "Bill"}),
    ("GET", "/api/prompts/{prompt}", None),
    ("GET", "/api/prompts/{prompt}/versions", None),
    ("GET", "/api/prompt_versions/{prompt_revid}", None),
    ("PATCH", "/api/prompts/{prompt}", {"name": "Bills"}),
    ("GET", "/api/stacks/{stack}", None),
    ("PATCH", "/api/stacks/{stack}", {"name": "Bills"}),
    ("POST", "/api/stacks/{stack}/documents", {"document_ids": ["{document}"]}),
    ("PUT", "/api/stacks/{stack}/columns", {"columns": [{"name": "total"}]}),
    ("GET", "/api/stacks/{stack}/changes", None),
    ("GET", "/api/tables/{stack}/rows", None),
    ("GET", "/api/tables/{stack}/export", None),
    ("POST", "/api/tables/{stack}/export", {"rows": [{"document_id": "{document}"}]}),
    ("GET", "/api/tables/{stack}/groups?group_by=total", None),
    ("GET", "/api/tables/{stack}/views", None),
    ("POST", "/api/agent/stack", {"stack_id": "{stack}"}),
    ("POST", "/api/agent/stack_correct", {"stack_id": "{stack}", "message": "drop a"}),
    ("GET", "/api/tags/{tag}", None),
    ("PATCH", "/api/tags/{tag}", {"name": "open"}),
    ("GET", "/api/runs/{run}", None),
    ("GET", "/api/runs/{run}/events", None),
    ("GET", "/api/runs/{run}/deliveries", None),
    ("GET", "/api/runs/{run}/result", None),
    ("POST", "/api/agent/extract", {"document_id": "{document}"}),
    ("POST", "/api/agent/auto_create", {"document_id": "{document}"}),
    ("POST", "/api/agent/chat", {"document_id": "{document}", "message": "Hello"}),
    ("POST", "/api/agent/correct", {"extraction_id": "{extraction}", "message": "set a to b"}),
    ("POST", "/api/runs/{run}/cancel", None),
    ("DELETE", "/api/stacks/{stack}/documents/{document}", None),
    # Only for the creator of the object and for owners.
    ("DELETE", "/api/stacks/{stack}", None),
    ("DELETE", "/api/schemas/{schema}", None),
    ("DELETE", "/api/prompts/{prompt}", None),
    ("DELETE", "/api/tags/{tag}", None),
    ("DELETE", "/api/runs/{run}", None),
    ("DELETE", "/api/extractions/{extraction}", None),
    ("DELETE", "/api/documents/{document}", None),
]
# Tested in acceptance/test_approval.py, test_changes.py, test_discussions.py, test_extractions.py, test_tables.py,
# test_passwords.py, test_merged_schemas.py, test_retry.py, services/test_auto_creations.py,
# acceptance/test_changed_schema.py: they need an object in a certain state.
TESTED_ELSEWHERE = {
    ("POST", "/api/tables/{}/views"),
    ("PATCH", "/api/tables/{}/views/{}"),
    ("DELETE", "/api/tables/{}/views/{}"),
    ("POST", "/api/agent/approve"),
    ("GET", "/api/runs/{}/proposed"),
    ("POST", "/api/runs/{}/deliveries/{}"),
    ("POST", "/api/extractions/{}/proposals"),
    ("POST", "/api/documents/{}/read"),
    ("DELETE", "/api/documents/{}/comments/{}"),
    ("POST", "/api/documents/{}/auto_create/accept"),
    ("POST", "/api/documents/{}/auto_create/reject"),
    ("POST", "/api/schemas/{}/apply"),
    ("POST", "/api/schemas/{}/changes"),
    ("POST", "/api/schemas/{}/merge"),
    ("POST", "/api/runs/{}/retry"),
}
Ids = dict[str, str]


async def ask(http: httpx.AsyncClient, route, ids: Ids, **headers: str) -> httpx.Response:
    method, path, body = route
    content = body
    if isinstance(body, dict):
        content = json.loads(re.sub(r"\{(\w+)\}", lambda found: ids[found[1]], json.dumps(body)))
    return await http.request(method, path.format(**ids), json=content, headers=headers)


async def create_objects(server) -> Ids:
    document = await server.upload_text()
    created = {
        kind: (await server.http.post(f"/api/{kind}s", json={"name": "Mine", **body})).json()
        for kind, body in (
            ("schema", {"schema": {"type": "object"}}),
            ("prompt", {"content": "Read."}),
            ("tag", {}),
            ("stack", {"document_ids": [str(document)]}),
        )
    }
    body = {"document_id": str(document), "schema_revid": created["schema"]["schema_revid"]}
    run = (await server.http.post("/api/agent/extract", json=body)).json()
    return {
        "document": str(document),
        "extraction": run["extraction"]["id"],
        "run": run["run_id"],
        **{kind: one["id"] for kind, one in created.items()},
        "schema_revid": created["schema"]["schema_revid"],
        "prompt_revid": created["prompt"]["prompt_revid"],
    }


def unknown_ids() -> Ids:
    kinds = ("document", "extraction", "run", "schema", "schema_revid", "prompt", "prompt_revid", "tag", "stack")
    return {kind: str(uuid4()) for kind in kinds}


def response_parts(answer: httpx.Response) -> tuple[int, bytes, dict[str, str]]:
    return answer.status_code, answer.content, {k: v for k, v in answer.headers.items() if k != "date"}


def test_every_route_with_an_id_is_tested(openapi_routes):
    tested = {(method, re.sub(r"\{\w+\}|(?<=pages/)1", "{}", path.split("?")[0])) for method, path, _ in ROUTES_WITH_ID}
    # test_organisations.py, test_api_keys.py, test_threads.py, test_changes.py and test_sources.py ask those.
    tested_in_other_files = re.compile(r"/api/(organisations|keys|threads|webhooks|sources)\b")
    with_id = {route for route in openapi_routes if "{}" in route[1] and not tested_in_other_files.match(route[1])}
    assert with_id <= tested | TESTED_ELSEWHERE


async def test_object_of_another_tenant_gets_the_same_answer_as_a_missing_one(serve):
    async with serve(Script([repeat_forever([text("Done.")])])) as server:
        ids = await create_objects(server)
        org_id, unknown_org = str(server.scope.org_id), str(uuid4())
        async with server.client() as stranger:
            for route in ROUTES_WITH_ID:
                missing = await ask(stranger, route, unknown_ids())
                assert_problem(missing, 404)
                assert response_parts(await ask(stranger, route, ids)) == response_parts(missing), route
                # The organisation gets the same answer as a missing one too.
                no_org = await ask(stranger, route, ids, **{"x-org-id": unknown_org})
                assert_problem(no_org, 404)
                assert response_parts(await ask(stranger, route, ids, **{"x-org-id": org_id})) == response_parts(
                    no_org
                ), route
            assert (await stranger.get("/api/documents")).json() == {"items": [], "next": None}
            # A cursor gives no access.
            cursor = str(Cursor("documents", Position(datetime.now(UTC) + timedelta(days=1), UUID(ids["document"]))))
            listed = await stranger.get("/api/documents", params={"before": cursor})
            assert listed.json() == {"items": [], "next": None}
            own_list = (await server.http.get("/api/documents", params={"before": cursor})).json()
            assert [item["id"] for item in own_list["items"]] == [ids["document"]]
        for route in ROUTES_WITH_ID:
            shared = {"x-org-id": org_id}
            first, second = (shared, {}) if route[0] == "DELETE" else ({}, shared)
            assert (await ask(server.http, route, ids, **first)).is_success, route
            if route[0] != "DELETE":
                assert (await ask(server.http, route, ids, **second)).is_success, route


async def test_member_has_access_within_the_organisation_only(serve, clone):
    async with serve(Script([repeat_forever([text("Done.")])])) as server:
        ids = await create_objects(server)
        shared, member = {"x-org-id": str(server.scope.org_id)}, uuid4()
        async with server.client(member) as http:
            assert (await http.get("/api/documents")).json()["items"] == []  # first request of this user
            assert_problem(await ask(http, ROUTES_WITH_ID[0], ids, **shared), 404)
            with psycopg.connect(clone.owner_url) as conn:
                conn.execute(
                    "insert into public.memberships (org_id, user_id, role) values (%s, %s, 'member')",
                    (server.scope.org_id, member),
                )
            for route in ROUTES_WITH_ID[:-7]:  # a member may not delete objects of others
                assert (await ask(http, route, ids, **shared)).is_success, route
                assert_problem(await ask(http, route, ids), 404)  # without the header: the personal organisation
            assert [d["id"] for d in (await http.get("/api/documents", headers=shared)).json()["items"]] == [
                ids["document"]
            ]
            uploaded = (await http.post("/api/documents", files={"file": ("b.txt", b"x")}, headers=shared)).json()
            assert (await server.http.get(f"/api/documents/{uploaded['id']}")).status_code == 200
            with psycopg.connect(clone.owner_url) as conn:
                conn.execute("delete from public.memberships where user_id = %s and role = 'member'", (member,))
            for route in ROUTES_WITH_ID:
                assert_problem(await ask(http, route, ids, **shared), 404)
        assert_problem(await server.http.get("/api/documents", headers={"x-org-id": "mine"}), 422)


async def test_invalid_tokens_get_401(serve):
    async with serve() as server:
        key = (server.runtime.settings.home / "keys" / "tokens").read_bytes()
        good = {
            "iss": "fieldmark",
            "aud": "authenticated",
            "role": "authenticated",
            "sub": str(server.scope.user_id),
            "exp": time.time() + 600,
        }

        def bearer(claims: dict[str, object], by: bytes | None = key, algorithm: str = "HS256") -> str:
            return "Bearer " + jwt.encode(claims, by, algorithm)

        refused = {
            "missing": None,
            "no token": "Bearer",
            "another scheme": "Basic YTpi",
            "garbage": "Bearer a.b.c",
            "expired": bearer(good | {"exp": time.time() - 360}),
            "unsigned": bearer(good, None, "none"),
            "signed by another": bearer(good, bytes(32)),
        }
        accepted = bearer(good)
        async with httpx.AsyncClient(base_url=server.base_url) as http:
            for name, authorization in refused.items():
                headers = {} if authorization is None else {"authorization": authorization}
                answer = await http.get("/api/documents", headers=headers)
                assert_problem(answer, 401)
                assert answer.headers["www-authenticate"].startswith("Bearer"), name
            assert (await http.get("/api/documents", headers={"authorization": accepted})).status_code == 200
            for open_to_all in ("/healthz", "/readyz", "/openapi.json"):
                assert (await http.get(open_to_all)).status_code == 200
