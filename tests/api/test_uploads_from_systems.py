"""Uploads by another system: one call uploads and extracts, a repeated call changes nothing, and its own key and data
come back with everything."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest
from answers import assert_problem

from extraction_case import sql, until

pytestmark = pytest.mark.anyio

TEXT = b"Invoice number: 1\nTotal: 10.00 EUR\n"


async def upload(http: httpx.AsyncClient, content: bytes = TEXT, key: str | None = None, **more: Any) -> httpx.Response:
    form = {name: more.pop(name) for name in ("external_id", "metadata") if name in more}
    headers = {} if key is None else {"Idempotency-Key": key}
    return await http.post(
        "/api/documents", files={"file": ("a.txt", content)}, data=form, params=more, headers=headers
    )


async def test_one_call_uploads_and_extracts_with_a_schema_by_name_id_or_version(serve):
    async with serve() as server:
        schema = {"type": "object", "properties": {"total": {"type": "number"}}}
        stored = (await server.http.post("/api/schemas", json={"name": "Invoices", "schema": schema})).json()
        revids = {}
        for name in ("Invoices", stored["id"], stored["schema_revid"], ""):
            made = await upload(server.http, extract=name)
            assert made.status_code == 201, made.text

            async def has_ended(run: str = made.json()["run_id"]) -> bool:
                return (await server.get(f"runs/{run}"))["status"] == "completed"

            await until(has_ended)
            run = await server.get(f"runs/{made.json()['run_id']}")
            revids[name] = (await server.extraction(run["extraction_id"]))["schema_revid"]
        assert list(revids.values()) == [stored["schema_revid"]] * 3 + [None]
        assert (await upload(server.http)).json()["run_id"] is None
        assert_problem(await upload(server.http, extract="Nothing"), 404)


async def test_a_repeated_key_returns_the_same_document_and_run(serve, clone):
    async with serve() as server:
        answers = await asyncio.gather(*(upload(server.http, key="k1", extract="") for _ in range(4)))
        assert {one.status_code for one in answers} == {201}, [one.text for one in answers]
        assert len({(one.json()["id"], one.json()["run_id"]) for one in answers}) == 1
        assert_problem(await upload(server.http, b"Other 2", key="k1"), 422, "idempotency_key_reused")
        document = answers[0].json()["id"]
        assert (await server.http.get(f"/api/documents/{document}/file")).content == TEXT
        assert (await upload(server.http, key="k2")).json()["id"] != document
        async with server.client() as stranger:  # a key belongs to its caller
            assert (await upload(stranger, b"Other 2", key="k1")).json()["id"] != document
        assert len(sql(clone.owner_url, "select id from public.documents")) == 3


async def test_own_key_and_data_come_back_with_the_document_and_its_changes(serve):
    async with serve() as server:
        own = {"order": 1017, "who": {"team": "Zürich"}}
        made = (await upload(server.http, external_id="order 1017", metadata=json.dumps(own))).json()
        assert (made["external_id"], made["metadata"]) == ("order 1017", own)
        (listed,) = (await server.get("documents"))["items"]
        assert (listed["external_id"], listed["metadata"]) == ("order 1017", own)

        async def is_ready() -> bool:
            return any(one["type"] == "document.ready" for one in (await server.get("changes"))["items"])

        await until(is_ready)
        (change,) = (await server.get("changes?type=document.ready"))["items"]
        shown = change["data"]["document"]
        assert (shown["external_id"], shown["metadata"]) == ("order 1017", own)
        changed = await server.http.patch(f"/api/documents/{made['id']}", json={"metadata": {}})
        assert (changed.json()["external_id"], changed.json()["metadata"]) == ("order 1017", {})


async def test_an_external_id_belongs_to_one_document_of_an_organisation(serve):
    async with serve() as server:
        answers = await asyncio.gather(*(upload(server.http, external_id="a") for _ in range(4)))
        assert sorted(one.status_code for one in answers) == [201, 409, 409, 409]
        (made,) = [one.json()["id"] for one in answers if one.status_code == 201]
        taken = next(one for one in answers if one.status_code == 409).json()
        assert (taken["code"], taken["document_id"]) == ("external_id_taken", made)
        other = (await upload(server.http, external_id="b")).json()["id"]
        answer = await server.http.patch(f"/api/documents/{other}", json={"external_id": "a"})
        assert (answer.status_code, answer.json()["code"]) == (409, "external_id_taken")
        again = await server.http.patch(f"/api/documents/{made}", json={"external_id": "a"})
        assert again.status_code == 200
        async with server.client() as stranger:
            assert (await upload(stranger, external_id="a")).status_code == 201


@pytest.mark.parametrize(
    "form",
    [
        {"metadata": "[]"},
        {"metadata": "no"},
        {"metadata": json.dumps({"a": "x" * 2000})},
        {"metadata": "x" * 1_000_000},
        {"metadata": '{"a": "\\u0000"}'},
        {"metadata": '{"a": 1.00000000000000000000001}'},
        {"metadata": '{"a":' * 900 + "1" + "}" * 900},
        {"external_id": ""},
        {"external_id": "a\nb"},
        {"external_id": "x" * 201},
    ],
    ids=str,
)
async def test_other_own_data_is_refused(serve, form):
    async with serve() as server:
        assert_problem(await upload(server.http, **form), 422)
        assert (await server.get("documents"))["items"] == []


async def test_a_key_needs_the_right_to_run_for_one_call(serve):
    async with serve() as server:
        for scopes, status in ((["documents:write"], 403), (["documents:write", "runs:write"], 201)):
            key = (await server.http.post("/api/keys", json={"name": "k", "scopes": scopes})).json()["key"]
            async with server.client_with_token(key) as robot:
                assert (await upload(robot)).status_code == 201
                assert (await upload(robot, extract="")).status_code == status
