"""Field statistics and values over HTTP."""

from __future__ import annotations

import pytest
from answers import assert_problem

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


async def get_values(server, **asked) -> dict:
    answer = await server.http.get("/api/fields/values", params={"path": "total", **asked})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_values_of_a_field_are_paged(serve, clone):
    library = [
        LibraryDocument({"total": number, "items": [{"total": -number}]}, filename=f"{number}.pdf")
        for number in range(7)
    ]
    others = [
        LibraryDocument({"net": 1}, filename="without.pdf"),
        LibraryDocument({"total": None}, filename="blank.pdf"),
        LibraryDocument({"total": {"net": 1}}, filename="object.pdf"),
        LibraryDocument({"total": 1}, filename="unfinished.pdf", is_completed=False),
        LibraryDocument({"total": 1}, filename="letter.pdf", document_type="letter", tags=("paid",)),
    ]
    async with serve(with_worker=False) as server:
        insert_documents(clone.owner_url, server.scope, [*library, *others])
        seen, before = [], {}
        while before is not None:
            part = await get_values(server, document_type="Invoice", limit=3, **before)
            assert 0 < len(part["items"]) <= 3
            seen += part["items"]
            before = {"before": part["next"]} if part["next"] else None
        # Documents of the same time are sorted by id.
        response = {one["filename"]: one["value"] for one in seen}
        assert (
            response == {one.filename: one.fields["total"] for one in library} | {"blank.pdf": None} and len(seen) == 8
        )
        assert [one["document_id"] for one in seen] == sorted(
            (str(one.id) for one in (*library, others[1])), reverse=True
        )
        one = next(one for one in seen if one["filename"] == "3.pdf")
        assert (one["extraction_id"], one["evidence"]["boxes"]) == (
            str(library[3].extraction_id),
            [[0.1, 0.1, 0.2, 0.2]],
        )
        assert [one["filename"] for one in (await get_values(server, tag="paid"))["items"]] == ["letter.pdf"]
        assert len((await get_values(server, path="items[0].total"))["items"]) == 7
        assert (await get_values(server, path="items[1].total"))["items"] == []
        for wrong, code in (
            ({"path": "items[].total"}, "invalid_path"),
            ({"before": "x"}, None),
            ({"limit": 201}, None),
        ):
            assert_problem(await server.http.get("/api/fields/values", params={"path": "total", **wrong}), 422, code)


async def test_page_of_large_values_has_fewer_items_and_a_cursor(serve, clone):
    async with serve(with_worker=False) as server:
        insert_documents(
            clone.owner_url,
            server.scope,
            [LibraryDocument({"total": "x" * 600_000}, filename=f"{n}.pdf") for n in range(3)],
        )
        seen, before = [], {}
        while before is not None:
            part = await get_values(server, **before)
            assert len(part["items"]) == 1
            seen += [one["filename"] for one in part["items"]]
            before = {"before": part["next"]} if part["next"] else None
        assert sorted(seen) == ["0.pdf", "1.pdf", "2.pdf"]
