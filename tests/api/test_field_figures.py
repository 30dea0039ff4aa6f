"""Figures over HTTP: as the service reckons them, for those who may read extractions."""

from __future__ import annotations

import pytest
from answers import problem

from shelf import Shelved, put

pytestmark = pytest.mark.anyio

SHELF = [
    Shelved({"total": 1200.10, "vendor": {"name": "Acme"}, "currency": "EUR"}, filename="a.pdf"),
    Shelved({"total": 0.2, "vendor": {"name": "ACME"}, "currency": "EUR"}, filename="b.pdf"),
    Shelved(
        {"total": 5, "vendor": {"name": "Beta"}, "currency": "USD"}, filename="c.pdf", unverified=frozenset(("total",))
    ),
]
SUM = {"aggregates": [{"op": "sum", "path": "total"}], "group_by": {"path": "vendor.name"}}


async def test_figures_are_exact_and_say_where_they_stand(serve, clone):
    async with serve(with_worker=False) as served:
        put(clone.owner_url, served.scope, SHELF)
        answer = (await served.http.post("/api/fields/query", json=SUM)).json()
        told = {group["key"]: group for group in answer["groups"]}
        (result,) = told["ACME"]["results"]
        assert (result["value"], result["currency"], result["values"]) == ("1200.3", "EUR", 2)
        assert told["ACME"]["spellings"] == 2
        assert told["Beta"]["results"] == []
        assert {row["filename"] for row in answer["rows"]} == {"a.pdf", "b.pdf"}
        assert all((row["path"], row["page"], len(row["boxes"])) == ("total", 1, 1) for row in answer["rows"])
        (total, _) = answer["coverage"]["paths"]
        assert (total["have"], total["unverified"]) == (2, 1)
        over = {"where": {"fields": [{"path": "total", "op": ">", "value": 1000}]}}
        answer = (await served.http.post("/api/fields/query", json=over)).json()
        assert (answer["coverage"]["matched"], answer["rows_total"]) == (1, 1)
        assert answer["rows"][0]["value"] == "1200.10" or answer["rows"][0]["value"] == "1200.1"


async def test_what_cannot_be_asked_is_refused(serve):
    async with serve(with_worker=False) as served:
        for body in (
            {"where": {"fields": [{"path": "total", "op": "; drop table", "value": 1}]}},
            {"where": {"fields": [{"path": "total", "op": ">", "value": "much"}]}},
            {"aggregates": [{"op": "sum"}]},
            {"group_by": {"kind": "tag", "path": "total"}},
            {"limit": 501},
            {"sql": "select 1"},
        ):
            problem(await served.http.post("/api/fields/query", json=body), 422)


async def test_a_key_needs_the_scope_to_read_extractions(serve):
    async with serve(with_worker=False) as served:
        for scopes, status in ((["extractions:read"], 200), (["documents:read", "extractions:write"], 403)):
            made = await served.http.post("/api/keys", json={"name": scopes[0], "scopes": scopes})
            assert made.status_code == 201, made.text
            key = {"Authorization": f"Bearer {made.json()['key']}"}
            assert (await served.http.post("/api/fields/query", json={}, headers=key)).status_code == status
