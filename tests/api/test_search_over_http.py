"""GET /api/search, with a worker that indexes documents."""

from __future__ import annotations

import pytest
from answers import assert_problem

from extraction_case import sql, until
from fake_embedder import serve_fake_embedder

pytestmark = pytest.mark.anyio


async def test_uploaded_document_is_found_until_it_is_deleted(serve, clone):
    async with serve() as server:
        document = await server.upload_text("The roof leaks.\nTotal: 10.00 EUR", name="survey.txt")

        async def search(**query: object) -> dict:
            answer = await server.http.get("/api/search", params=query)
            assert answer.status_code == 200, answer.text
            return answer.json()

        async def is_indexed() -> bool:
            return (await search(q="roof"))["not_indexed"] == 0

        await until(is_indexed)
        (hit,) = (await search(q="leaking roofs?"))["hits"]
        assert (hit["document_id"], hit["filename"], hit["page"]) == (str(document), "survey.txt", 1)
        assert [hit["snippet"][mark["start"] : mark["end"]] for mark in hit["marks"]] == ["roof", "leaks."]
        assert all(len(mark["box"]) == 4 for mark in hit["marks"])
        assert (await search(q="roof", filename="other"))["hits"] == []
        assert (await search(q="roof", document_type="invoice", filter="total > 1000"))["hits"] == []
        assert len((await search(q="roof", filename="SURVEY", document_id=document))["hits"]) == 1
        async with server.client() as stranger:
            answer = await stranger.get("/api/search", params={"q": "roof", "document_id": document})
            assert answer.json() == {"hits": [], "not_indexed": 0, "semantic": "off", "not_embedded": 0}

        assert (await server.http.delete(f"/api/documents/{document}")).status_code == 204
        await until(is_indexed)
        assert (await search(q="roof")) == {"hits": [], "not_indexed": 0, "semantic": "off", "not_embedded": 0}
        assert sql(clone.owner_url, "select from private.search_chunks") == []


async def test_invalid_search_requests_get_422(serve):
    async with serve(with_worker=False) as server:
        for query in (
            {"q": "x" * 1001},
            {"q": "a\0b"},
            {"q": "a", "limit": 101},
            {"q": "a", "filter": "total > 1; drop"},
        ):
            assert_problem(await server.http.get("/api/search", params=query), 422)


async def test_documents_are_found_by_their_fields_only_with_the_scope_to_read_them(serve):
    async with serve() as server:
        document = await server.upload_text("Total 12", name="a.txt")
        run = (await server.http.post("/api/agent/extract", json={"document_id": str(document)})).json()
        at = f"/api/extractions/{run['extraction']['id']}"
        field = {"path": "vendor", "value": "Quux"}  # no page prints it
        assert (await server.http.patch(f"{at}/fields", json=field)).is_success
        assert (await server.http.post(f"{at}/complete")).is_success

        async def search_ids(http, query: str) -> list[str]:
            return [hit["document_id"] for hit in (await http.get("/api/search", params={"q": query})).json()["hits"]]

        await until(lambda: search_ids(server.http, "quux"))
        for more, status in ((["extractions:read"], 200), ([], 403)):
            made = await server.http.post("/api/keys", json={"name": "k", "scopes": ["documents:read", *more]})
            async with server.client_with_token(made.json()["key"]) as robot:
                assert await search_ids(robot, "total") == [str(document)]
                assert await search_ids(robot, "quux") == ([str(document)] if status == 200 else [])
                for narrowed in ({"filter": "total > 1000"}, {"document_type": "invoice"}):
                    answer = await robot.get("/api/search", params={"q": "a", **narrowed})
                    assert answer.status_code == status, answer.text


async def test_search_and_question_with_unknown_field_are_refused(serve):
    async with serve(with_worker=False) as server:
        schema = {"type": "object", "properties": {"total": {"type": "number"}}}
        await server.http.post("/api/schemas", json={"name": "Invoice", "schema": schema})
        for field, status in (("total", 200), ("totl", 422)):
            found = await server.http.get("/api/search", params={"q": "a", "filter": f"{field} > 1"})
            filters = {"fields": [{"path": field, "op": ">", "value": 1}]}
            asked = {"message": "How many?", "filters": filters, "wait": False}
            started = await server.http.post("/api/agent/ask", json=asked)
            assert (found.status_code, started.status_code) == (status, {200: 202}.get(status, status))
        assert_problem(found, 422, "unknown_field")
        assert_problem(started, 422, "unknown_field")


async def test_embedder_finds_synonyms(serve, clone):
    if not sql(clone.owner_url, "select private.has_vectors() as has")[0]["has"]:
        pytest.skip("The extension vector is not installed.")
    with serve_fake_embedder() as fake:
        async with serve(embedder=fake.url, embedder_model="small") as server:
            document = await server.upload_text("The roof leaks.", name="survey.txt")

            async def search_shingles() -> dict:
                return (await server.http.get("/api/search", params={"q": "shingles"})).json()

            async def is_near() -> bool:
                return len((await search_shingles())["hits"]) == 1

            await until(is_near)
            assert (await search_shingles())["hits"][0]["document_id"] == str(document)
            assert (await search_shingles())["semantic"] == "on"
            fake.refusal = (500, b"")
            assert ((await search_shingles())["hits"], (await search_shingles())["semantic"]) == ([], "unavailable")
