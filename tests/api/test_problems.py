"""Every error is a problem of RFC 9457: routes that are none, inputs that are none, faults of our own."""

from __future__ import annotations

from uuid import uuid4

import pytest
from answers import as_owner, problem

pytestmark = pytest.mark.anyio

JSON = {"content-type": "application/json"}


async def test_no_route_and_no_method(serve):
    async with serve() as server:
        nowhere = ("/nowhere", "/assets/none.js", "/api", "/api/nothing", "/api/documents/x/y/z", "/healthz/x")
        for path in (*nowhere, "/%00", "/api/%ff"):
            problem(await server.http.get(path), 404)
        for method, path, allowed in (
            ("PUT", "/api/documents", {"GET", "POST"}),
            ("PUT", f"/api/documents/{uuid4()}", {"GET", "PATCH", "DELETE"}),
            ("GET", "/api/agent/extract", {"POST"}),
            ("PUT", f"/api/extractions/{uuid4()}", {"GET", "PATCH", "DELETE"}),
            ("POST", "/healthz", {"GET"}),
        ):
            answer = await server.http.request(method, path)
            problem(answer, 405)
            assert set(answer.headers["allow"].split(", ")) <= allowed


async def test_what_is_wrong_with_a_body_is_said_in_a_sentence(serve):
    async with serve() as server:
        for body, kind in ((b"\xff", "application/json"), (b"[" * 100_000, "application/json"), (b"x", "multipart/x")):
            path = f"/api/extractions/{uuid4()}/restore"
            problem(await server.http.post(path, content=body, headers={"content-type": kind}), 422)
        for headers, body, said in (
            (JSON, '{"document_id": }', "JSON at character 16"),  # a place that all Pythons agree upon
            (JSON, "[1]", "must be a JSON object"),
            ({"content-type": "application/x-www-form-urlencoded"}, "{}", "Content-Type: application/json"),
            (JSON, '{"max_turns": ' + "1" * 5000 + "}", None),
        ):
            answer = await server.http.post("/api/agent/extract", content=body, headers=headers)
            detail = problem(answer, 422)
            assert (said or "overlong numbers") in detail and detail.endswith("."), detail
        problem(await server.http.get("/api/nothing"), 404)
        problem(await server.http.put("/api/documents"), 405)


async def test_our_own_fault_says_nothing_of_what_it_was(serve, clone):
    async with serve() as server:
        assert (await server.http.get("/api/documents")).status_code == 200
        await as_owner(clone, "alter table public.documents rename to something_else")
        detail = problem(await server.http.get("/api/documents"), 500)
        assert "documents" not in detail and "relation" not in detail
        assert (await server.http.get("/healthz")).status_code == 200


async def test_no_value_parameter_or_header_is_our_fault(serve):
    """One of each kind: tests/http_fuzz.py draws many more."""
    async with serve() as server:
        document = str(uuid4())
        for name, value in (
            ("schema", '"a\\u0000b"'),
            ("max_cost_usd", "NaN"),
            ("max_cost_usd", "1e400"),
            ("max_turns", "1" * 5000),
            ("instructions", '"\\ud800"'),
            ("schema", "[" * 100_000),
        ):
            content = f'{{"document_id": "{document}", "{name}": {value}}}'
            answer = await server.http.post("/api/agent/extract", content=content, headers=JSON)
            assert answer.status_code in (404, 422), (name, value[:100], answer.text)
            assert len(problem(answer, answer.status_code, answer.json()["code"])) <= 2000
        for path in ("documents?limit=%00", "documents/%ff", "documents/%ed%a0%80", f"documents?before={'9' * 5000}"):
            answer = await server.http.get(f"/api/{path}")
            problem(answer, 404 if answer.status_code == 404 else 422)
        for header in ("x-org-id", "idempotency-key", "last-event-id", "accept", "content-type", "authorization"):
            for value in (b"\xff\xfe", b"x" * 10_000):
                answer = await server.http.get(f"/api/runs/{uuid4()}/events", headers={header: value})
                assert answer.status_code in (400, 401, 404, 422), (header, value)
                problem(answer, answer.status_code)
