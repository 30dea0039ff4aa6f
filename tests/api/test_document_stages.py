"""The one status that people see of a document: from its file to its review, and what counts by it."""

from __future__ import annotations

import asyncio

import pytest

from desk import sql, until
from fieldmark.offline_model.messages import call, text
from fieldmark.stores import extractions
from fieldmark.testing.script import Script, held

pytestmark = pytest.mark.anyio

SCHEMA = {
    "type": "object",
    "required": ["vendor"],
    "properties": {"vendor": {"type": "string"}, "total": {"type": "number"}},
}
TOTAL = call("update_field", {"path": "total", "value": 10, "confidence": 0.9})


async def test_document_goes_from_its_file_to_reviewed(serve, clone):
    goes_on = asyncio.Event()
    async with serve(Script([held(goes_on.wait, TOTAL), [text("Done.")]])) as served:
        broken = (await served.http.post("/api/documents", files={"file": ("broken.pdf", b"%PDF-1.7 x")})).json()["id"]
        await served.read(broken)
        document = await served.document()

        async def stage(of: object = document) -> tuple[str, int | None]:
            one = await served.get(f"documents/{of}")
            listed = (await served.get(f"documents?stage={one['stage']}"))["items"]
            assert str(of) in [item["id"] for item in listed]
            assert (await served.get(f"documents/count?stage={one['stage']}"))["count"] == len(listed)
            assert [item["to_review"] for item in listed if item["id"] == str(of)] == [one["to_review"]]
            return one["stage"], one["to_review"]

        async def is_at(wanted: str) -> bool:
            return (await served.get(f"documents/{document}"))["stage"] == wanted

        assert await stage(broken) == ("failed", None)
        assert await stage() == ("ready", None)

        # A run works on its fields, asks, and is cancelled: what stays is a document as it was.
        run_id = (await served.extract(document, approval="ask", wait=False))["run_id"]
        assert await stage() == ("extracting", None)
        goes_on.set()
        await until(lambda: is_at("awaiting_approval"))
        assert await stage() == ("awaiting_approval", None)
        await served.http.post(f"/api/runs/{run_id}/cancel")
        assert await stage() == ("ready", None)

        # What is missing, unsure or proposed is counted, each place once.
        async with served.service.database.as_user(served.scope) as conn:
            made = await extractions.add(conn, org_id=served.scope.org_id, document_id=document, schema=SCHEMA)
        assert await stage() == ("needs_review", 1)
        sql(
            clone.owner_url,
            """update extractions set extracted_fields = '{"total": 7}', confidence_scores = '{"total": 0.1}'
               where id = %s returning id""",
            made,
        )
        assert await stage() == ("needs_review", 2)

        at = f"/api/extractions/{made}"
        filled = await served.http.patch(f"{at}/fields", json=[{"path": "vendor", "value": "Acme"}])
        assert filled.json()["valid"] is True
        assert await stage() == ("needs_review", 1)
        assert (await served.http.post(f"{at}/complete")).json()["status"] == "completed"
        assert await stage() == ("needs_review", 1)
        confirmed = await served.http.post(f"{at}/locks", params={"path": "total"})
        assert confirmed.status_code == 200, confirmed.text
        assert await stage() == ("reviewed", None)

        # What a person changes afterwards breaks the schema: it is to be looked at again.
        assert (await served.http.delete(f"{at}/fields", params={"path": "vendor"})).json()["valid"] is False
        assert await stage() == ("needs_review", 1)

        async with served.client() as stranger:
            counted = await stranger.get("/api/documents/count?stage=needs_review")
            assert counted.json() == {"count": 0}
