"""Every error is an RFC 9457 problem: unknown routes, invalid input, internal errors."""

from __future__ import annotations

from uuid import uuid4

import pytest
from answers import assert_problem, execute_as_owner

pytestmark = pytest.mark.anyio

JSON = {"content-type": "application/json"}


async def test_unknown_routes_get_404_and_unknown_methods_405(serve):
    async with serve() as server:
        nowhere = ("/nowhere", "/assets/none.js", "/api", "/api/nothing", "/api/documents/x/y/z", "/healthz/x")
        for path in (*nowhere, "/%00", "/api/%ff"):
            assert_problem(await server.http.get(path), 404)
        for method, path, allowed in (
            ("PUT", "/api/documents", {"GET", "POST"}),
            ("PUT", f"/api/documents/{uuid4()}", {"GET", "PATCH", "DELETE"}),
            ("GET", "/api/agent/extract", {"POST"}),
            ("PUT", f"/api/extractions/{uuid4()}", {"GET", "PATCH", "DELETE"}),
            ("POST", "/healthz", {"GET"}),
        ):
            answer = await server.http.request(method, path)
            assert_problem(answer, 405)
            assert set(answer.headers["allow"].split(", ")) <= allowed


async def test_malformed_bodies_get_422(serve):
    async with serve() as server:
        for body, kind in ((b"\xff", "application/json"), (b"[" * 100_000, "application/json"), (b"x", "multipart/x")):
            path = f"/api/extractions/{uuid4()}/restore"
            assert_problem(await server.http.post(path, content=body, headers={"content-type": kind}), 422)
        for headers, body, said in (
            (JSON, '{"document_id": }', "JSON at character 16"),  # a place that all Pythons agree upon
            (JSON, "[1]", "must be a JSON object"),
            ({"content-type": "application/x-www-form-urlencoded"}, "{}", "Content-Type: application/json"),
            (JSON, '{"max_turns": ' + "1" * 5000 + "}", None),
        ):
            answer = await server.http.post("/api/agent/extract", content=body, headers=headers)
            detail = assert_problem(answer, 422)
            assert (said or "overlong numbers") in detail and detail.endswith("."), detail
        assert_problem(await server.http.get("/api/nothing"), 404)
        assert_problem(await server.http.put("/api/documents"), 405)


async def test_internal_error_reveals_no_details(serve, clone):
    async with serve() as server:
        assert (await server.http.get("/api/documents")).status_code == 200
        await execute_as_owner(clone, "alter table public.documents rename to something_else")
        detail = assert_problem(await server.http.get("/api/documents"), 500)
        assert "documents" not in detail and "relation" not in detail
        assert (await server.http.get("/healthz")).status_code == 200


async def test_no_input_causes_an_internal_error(serve):
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
            assert len(assert_problem(answer, answer.status_code, answer.json()["code"])) <= 2000
        for path in ("documents?limit=%00", "documents/%ff", "documents/%ed%a0%80", f"documents?before={'9' * 5000}"):
            answer = await server.http.get(f"/api/{path}")
            assert_problem(answer, 404 if answer.status_code == 404 else 422)
        for header in ("x-org-id", "idempotency-key", "last-event-id", "accept", "content-type", "authorization"):
            for value in (b"\xff\xfe", b"x" * 10_000):
                answer = await server.http.get(f"/api/runs/{uuid4()}/events", headers={header: value})
                assert answer.status_code in (400, 401, 404, 422), (header, value)
                assert_problem(answer, answer.status_code)
