"""Field statistics over HTTP."""

from __future__ import annotations

import pytest
from answers import assert_problem

from extraction_case import sql
from library_rows import LibraryDocument, insert_documents

pytestmark = pytest.mark.anyio

LIBRARY = [
    LibraryDocument({"total": 1200.10, "vendor": {"name": "Acme"}, "currency": "EUR"}, filename="a.pdf"),
    LibraryDocument({"total": 0.2, "vendor": {"name": "ACME"}, "currency": "EUR"}, filename="b.pdf"),
    LibraryDocument(
        {"total": 5, "vendor": {"name": "Beta"}, "currency": "USD"}, filename="c.pdf", unverified=frozenset(("total",))
    ),
]
SUM_BY_VENDOR = {"aggregates": [{"op": "sum", "path": "total"}], "group_by": {"path": "vendor.name"}}


async def test_sums_are_exact_and_cite_their_locations(serve, clone):
    async with serve(with_worker=False) as server:
        insert_documents(clone.owner_url, server.scope, LIBRARY)
        answer = (await server.http.post("/api/fields/query", json=SUM_BY_VENDOR)).json()
        response = {group["key"]: group for group in answer["groups"]}
        (result,) = response["ACME"]["results"]
        assert (result["value"], result["currency"], result["values"]) == ("1200.3", "EUR", 2)
        assert response["ACME"]["spellings"] == 2
        assert response["Beta"]["results"] == []
        assert {row["filename"] for row in answer["rows"]} == {"a.pdf", "b.pdf"}
        assert all((row["path"], row["page"], len(row["boxes"])) == ("total", 1, 1) for row in answer["rows"])
        (total, _) = answer["coverage"]["paths"]
        assert (total["have"], total["unverified"]) == (2, 1)
        over = {"where": {"fields": [{"path": "total", "op": ">", "value": 1000}]}}
        answer = (await server.http.post("/api/fields/query", json=over)).json()
        assert (answer["coverage"]["matched"], answer["rows_total"]) == (1, 1)
        for body in ({"where": {"fields": [{"path": "total", "op": "; drop", "value": 1}]}}, {"sql": "select 1"}):
            assert_problem(await server.http.post("/api/fields/query", json=body), 422)
        async with server.client() as stranger:
            assert (await stranger.get("/api/fields")).json() == {"fields": [], "looked_at": 0}


@pytest.mark.parametrize("stored", ['{"page": "x", "boxes": 7}', '{"page": 1.5, "boxes": [["x"]]}', '"x"', "[]"])
async def test_a_value_with_a_malformed_location_is_counted(serve, clone, stored):
    async with serve(with_worker=False) as server:
        insert_documents(clone.owner_url, server.scope, LIBRARY[:1])
        sql(clone.owner_url, "update extractions set evidence = jsonb_build_object('total', %s::jsonb)", stored)
        body = {**SUM_BY_VENDOR, "include_unverified": True}
        (row,) = (await server.http.post("/api/fields/query", json=body)).json()["rows"]
        assert (row["value"], row["page"], row["boxes"]) == ("1200.1", None, [])


async def test_fields_are_listed_by_document_type(serve, clone):
    library = [
        *LIBRARY,
        LibraryDocument({"items": [{"a.b": 1}, {"a.b": "x", "day": "2026-01-02"}], "total": "1", "note": ""}),
        LibraryDocument({"roof": True}, document_type="survey", tags=("House",)),
        LibraryDocument({"hidden": 1}, is_completed=False),
        LibraryDocument(None),
    ]
    async with serve(with_worker=False) as server:
        insert_documents(clone.owner_url, server.scope, library)
        response = await server.get("fields")
        assert response["looked_at"] == 5
        fields = {
            (one["document_type"], one["path"]): (one["documents"], sorted(one["kinds"])) for one in response["fields"]
        }
        assert fields == {
            ("invoice", "total"): (4, ["number", "text"]),
            ("invoice", "vendor.name"): (3, ["text"]),
            ("invoice", "currency"): (3, ["text"]),
            ("invoice", 'items[]["a.b"]'): (1, ["number", "text"]),
            ("invoice", "items[].day"): (1, ["day"]),
            ("survey", "roof"): (1, ["boolean"]),
        }
        assert [one["path"] for one in response["fields"]][:3] == ["total", "currency", "vendor.name"]
        # Each listed path can be queried.
        for one in response["fields"]:
            figures = {"aggregates": [{"op": "count", "path": one["path"]}], "include_unverified": True}
            (path,) = (await server.http.post("/api/fields/query", json=figures)).json()["coverage"]["paths"]
            assert path["have"] == sum(documents for (_, name), (documents, _) in fields.items() if name == one["path"])
        for narrowed in ("document_type=SURVEY", "tag=house"):
            response = await server.get(f"fields?{narrowed}")
            assert ([one["path"] for one in response["fields"]], response["looked_at"]) == (["roof"], 1)
        response = await server.get("fields?tag=none")
        assert response == {"fields": [], "looked_at": 0}
