"""The list of documents as an archive: orders, totals, tables and identifying values."""

from __future__ import annotations

import pytest
from answers import assert_problem

from browser.scripts import COMPLETE, IDENTIFY, save_fields
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio


async def test_documents_are_sorted_and_counted(serve):
    async with serve() as server:
        names = ["b.txt", "C.txt", "a.txt"]
        for name in names:
            await server.upload_text("page\f" * (names.index(name) + 1), name)

        async def listed(**query: object) -> list[str]:
            found: list[str] = []
            before = {}
            while True:
                page = (await server.http.get("/api/documents", params={"limit": 2, **query, **before})).json()
                found += [one["filename"] for one in page["items"]]
                if page["next"] is None:
                    return found
                before = {"before": page["next"]}

        assert await listed() == ["a.txt", "C.txt", "b.txt"]
        assert await listed(sort="added") == names
        assert await listed(sort="name") == ["a.txt", "b.txt", "C.txt"]
        assert await listed(sort="name", descending=True) == ["C.txt", "b.txt", "a.txt"]
        assert_problem(await server.http.get("/api/documents?sort=name&before=x"), 422)
        count = (await server.http.get("/api/documents/count")).json()
        assert count["count"] == 3 and count["bytes"] == sum(5 * number + 5 for number in range(3))
        assert (await server.http.get("/api/documents/count?filename=c.t")).json()["count"] == 1
        assert (await server.http.get("/api/documents/count?stage=failed")).json()["count"] == 0


async def test_documents_have_tables_and_key_values_for_those_who_may_read_extractions(serve):
    script = Script([[IDENTIFY], [save_fields(vendor="Acme", total=12.5, currency="EUR", note="x")], [COMPLETE]])
    async with serve(script) as server:
        document = await server.upload_text("Acme total 12.50 EUR x", "a.txt")
        await server.extract(document)
        stack = (await server.http.post("/api/stacks", json={"name": "Bills", "document_ids": [str(document)]})).json()
        (found,) = (await server.http.get("/api/documents?details=true")).json()["items"]
        assert found["tables"] == [{"table_id": stack["id"], "is_stack": True, "name": "Bills"}]
        values = {"vendor": "Acme", "number": None, "date": None, "total": 12.5, "currency": "EUR"}
        assert found["key_values"] == values
        assert found["created_by"] == str(server.scope.user_id)
        made = await server.http.post("/api/keys", json={"name": "k", "scopes": ["documents:read"]})
        key = {"Authorization": f"Bearer {made.json()['key']}"}
        (found,) = (await server.http.get("/api/documents?details=true", headers=key)).json()["items"]
        assert (found["filename"], found["tables"], found["key_values"]) == ("a.txt", None, None)
