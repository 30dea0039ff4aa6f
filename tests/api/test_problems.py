"""Every error is a problem of RFC 9457: routes that are none, inputs that are none, faults of our own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from itertools import product
from uuid import UUID, uuid4

import psycopg
import pytest
from answers import as_owner, problem

from fieldmark.identity.scope import Scope

pytestmark = pytest.mark.anyio

JSON = {"content-type": "application/json"}


async def test_no_route_and_no_method(serve):
    async with serve() as served:
        nowhere = ("/nowhere", "/assets/none.js", "/api", "/api/nothing", "/api/documents/x/y/z", "/healthz/x")
        for path in (*nowhere, "/%00", "/api/%ff"):
            problem(await served.http.get(path), 404)
        for method, path, allowed in (
            ("PUT", "/api/documents", {"GET", "POST"}),
            ("PUT", f"/api/documents/{uuid4()}", {"GET", "PATCH", "DELETE"}),
            ("GET", "/api/agent/extract", {"POST"}),
            ("PUT", f"/api/extractions/{uuid4()}", {"GET", "PATCH", "DELETE"}),
            ("POST", "/healthz", {"GET"}),
        ):
            answer = await served.http.request(method, path)
            problem(answer, 405)
            assert set(answer.headers["allow"].split(", ")) <= allowed


async def test_what_is_wrong_with_a_body_is_said_in_a_sentence(serve):
    async with serve() as served:
        for headers, body, said in (
            (JSON, '{"document_id": }', "no JSON at character 16"),  # a place that all Pythons agree upon
            (JSON, "[1]", "must be a JSON object"),
            ({"content-type": "application/x-www-form-urlencoded"}, "{}", "Content-Type: application/json"),
            (JSON, '{"max_turns": ' + "1" * 5000 + "}", None),
        ):
            answer = await served.http.post("/api/agent/extract", content=body, headers=headers)
            detail = problem(answer, 422)
            assert (said or "a number in it is too long") in detail and detail.endswith("."), detail
        assert "nothing at this address" in problem(await served.http.get("/api/nothing"), 404)
        assert "does not take this method" in problem(await served.http.put("/api/documents"), 405)


async def test_our_own_fault_says_nothing_of_what_it_was(serve, clone):
    async with serve() as served:
        assert (await served.http.get("/api/documents")).status_code == 200
        await as_owner(clone, "alter table public.documents rename to something_else")
        detail = problem(await served.http.get("/api/documents"), 500)
        assert "documents" not in detail and "relation" not in detail
        assert (await served.http.get("/healthz")).status_code == 200


# Values that are hard to say, to store or to compare; each goes into each input.
TEXTS = ["\0", "a\0b", "\ud800", "x" * 30_000, ""]
OTHERS = [None, -1, 10**30, ["\ud800"], {"\0": 1}, [[[[]]]]]
NUMBERS = ["NaN", "1e400", "1" * 5000]


@pytest.fixture
def waiting(clone) -> Callable[[Scope], tuple[UUID, UUID]]:
    """Makes a document that is being read for ever, and an extraction of it: runs on them stay in their rows."""

    def make(scope: Scope) -> tuple[UUID, UUID]:
        document_id = uuid4()
        path = f"{scope.org_id}/{document_id}/a.txt"
        with psycopg.connect(clone.owner_url) as conn:
            conn.execute("alter table public.documents disable trigger enqueue_reading")
            conn.execute(
                "insert into public.documents (id, org_id, created_by, filename, storage_path) "
                "values (%s, %s, %s, 'a.txt', %s)",
                (document_id, scope.org_id, scope.user_id, path),
            )
            row = conn.execute(
                "insert into public.extractions (org_id, created_by, document_id) values (%s, %s, %s) returning id",
                (scope.org_id, scope.user_id, document_id),
            ).fetchone()
        assert row is not None
        return document_id, row[0]

    return make


async def test_no_value_in_a_json_body_is_our_fault(serve, waiting):
    async with serve() as served:
        document_id, extraction_id = await asyncio.to_thread(waiting, served.scope)
        starts = 0
        for path, body, names in (
            ("/api/agent/extract", {"document_id": str(document_id)}, ("schema", "max_cost_usd", "\ud800")),
            ("/api/agent/correct", {"extraction_id": str(extraction_id), "message": "set a to b"}, ("message", "\0")),
        ):
            contents = [
                *(json.dumps({**body, name: value}) for name, value in product(names, TEXTS + OTHERS)),
                *(json.dumps({**body, name: "@"}).replace('"@"', number) for name, number in product(names, NUMBERS)),
                *("", "null", "[]", "{", "\0", '{"a": ' + "[" * 100_000),
            ]
            for content in contents:
                headers = {**JSON, "accept": "text/event-stream"}
                async with served.http.stream("POST", path, content=content, headers=headers) as answer:
                    if answer.status_code == 200:
                        starts += 1
                        continue
                    await answer.aread()
                    assert answer.status_code in (404, 422), (content[:200], answer.text)
                    # A schema that cannot be used has a code of its own.
                    code = "invalid_schema" if answer.json()["code"] == "invalid_schema" else None
                    detail = problem(answer, answer.status_code, code)
                    assert len(detail) <= 2000
        # null is fine for what may be left out.
        assert 0 < starts < 10, starts


async def test_no_parameter_or_header_is_our_fault(serve):
    async with serve() as served:
        document_id = await served.document()
        odd = ["", "-1", "1.5", "9" * 5000, "%00", "%ff", "%ed%a0%80", "²"]
        for template in (
            "/api/documents?limit={}",
            "/api/documents/{}",
            f"/api/documents/{document_id}/text?first={{}}",
            f"/api/documents/{document_id}/pages/{{}}",
            f"/api/documents/{document_id}/pages/{{}}.png",
            "/api/runs/{}/events",
        ):
            for value in odd:
                answer = await served.http.get(template.format(value), follow_redirects=True)
                if answer.status_code != 200:
                    assert answer.status_code in (404, 422), (template, value)
                    problem(answer, answer.status_code)
        for header in ("x-org-id", "idempotency-key", "last-event-id", "accept", "content-type", "authorization"):
            for value in (b"", b"\xff\xfe", b"x" * 10_000):
                for method, path in (("GET", f"/api/runs/{uuid4()}/events"), ("POST", "/api/agent/extract")):
                    body = None if method == "GET" else json.dumps({"document_id": str(uuid4())})
                    headers = {"content-type": "application/json"} | {header: value}
                    answer = await served.http.request(method, path, content=body, headers=headers)
                    assert answer.status_code in (400, 401, 404, 422), (header, value)
                    problem(answer, answer.status_code)
