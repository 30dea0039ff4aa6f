"""The one status that people see of a document: from its file to its review, and what counts by it."""

from __future__ import annotations

import asyncio

import pytest

from extraction_case import sql, until
from fieldmark.offline_model.messages import call, text
from fieldmark.stores import extractions
from fieldmark.testing.script import Script, pause_midway

pytestmark = pytest.mark.anyio

SCHEMA = {
    "type": "object",
    "required": ["vendor"],
    "properties": {"vendor": {"type": "string"}, "total": {"type": "number"}},
}
TOTAL = call("update_field", {"path": "total", "value": 10, "confidence": 0.9})


EVERYTHING = call("extract_fields", {"fields": {"vendor": "Acme", "total": 10}})
COMPLETE = call("complete_extraction", {})


@pytest.mark.parametrize(
    ("approved", "stage"),
    [((), "extracted"), (("extract_fields",), "reviewed"), (("complete_extraction",), "extracted")],
    ids=["nothing", "all writes", "completion only"],
)
async def test_document_is_reviewed_only_if_a_person_completed_or_approved_it(serve, approved, stage):
    script = Script([[EVERYTHING], [COMPLETE], [text("Done.")], [EVERYTHING], [COMPLETE], [text("Done.")]])
    async with serve(script) as server:
        document = await server.upload_text("Acme total 10")
        allowed = [name for name in ("extract_fields", "complete_extraction") if approved and name not in approved]
        ended = await server.extract(
            document, schema=SCHEMA, approval="ask" if approved else "auto", auto_approved_tools=allowed
        )
        for _ in approved:
            ended = (await server.decide(ended)).json()
        assert ended["status"] == "completed"
        shown = await server.get(f"documents/{document}")
        extraction = await server.extraction(shown["shown_extraction_id"])
        reviewer = str(server.scope.user_id) if stage == "reviewed" else None
        assert (shown["stage"], extraction["reviewed_by"]) == (stage, reviewer)

        url = f"/api/extractions/{extraction['id']}/complete"
        await server.http.post(url)
        assert (await server.get(f"documents/{document}"))["stage"] == "reviewed"
        for status, expected in (("completed", "extracted"), ("in_progress", "needs_review"), ("failed", "ready")):
            await server.http.post(url)
            withdrawn = (await server.http.delete(url, params={"status": status})).json()
            assert (withdrawn["status"], withdrawn["reviewed_by"]) == (status, None)
            assert (await server.get(f"documents/{document}"))["stage"] == expected


async def test_document_passes_through_all_stages(serve, clone):
    released = asyncio.Event()
    async with serve(Script([pause_midway(released.wait, TOTAL), [text("Done.")]])) as server:
        broken = (await server.http.post("/api/documents", files={"file": ("broken.pdf", b"%PDF-1.7 x")})).json()["id"]
        await server.wait_until_read(broken)
        document = await server.upload_text()

        async def stage(of: object = document) -> tuple[str, int]:
            one = await server.get(f"documents/{of}")
            listed = (await server.get(f"documents?stage={one['stage']}"))["items"]
            assert str(of) in [item["id"] for item in listed]
            assert (await server.get(f"documents/count?stage={one['stage']}"))["count"] == len(listed)
            assert [item["to_review"] for item in listed if item["id"] == str(of)] == [one["to_review"]]
            return one["stage"], one["to_review"]

        async def is_at(expected: str) -> bool:
            return (await server.get(f"documents/{document}"))["stage"] == expected

        assert await stage(broken) == ("failed", 0)
        assert await stage() == ("ready", 0)

        # A run that is cancelled while it waits for approval leaves the document as it was.
        run_id = (await server.extract(document, approval="ask", wait=False))["run_id"]
        assert await stage() == ("extracting", 0)
        released.set()
        await until(lambda: is_at("awaiting_approval"))
        assert await stage() == ("awaiting_approval", 0)
        await server.http.post(f"/api/runs/{run_id}/cancel")
        assert await stage() == ("ready", 0)

        # `to_review` counts missing, uncertain and proposed values, each path once.
        async with server.runtime.database.as_user(server.scope) as conn:
            extraction_id = await extractions.add(conn, org_id=server.scope.org_id, document_id=document, schema=SCHEMA)

        async def needs_review_of(count: int) -> bool:
            return (await server.get(f"documents/{document}"))["to_review"] == count

        await until(lambda: needs_review_of(1))  # the worker checks what others wrote
        sql(
            clone.owner_url,
            """update extractions set extracted_fields = '{"total": 7}', confidence_scores = '{"total": 0.1}'
               where id = %s returning id""",
            extraction_id,
        )
        await until(lambda: needs_review_of(2))

        url = f"/api/extractions/{extraction_id}"
        filled = await server.http.patch(f"{url}/fields", json=[{"path": "vendor", "value": "Acme"}])
        assert filled.json()["valid"] is True
        assert await stage() == ("needs_review", 1)
        # Completing the extraction accepts what a person was shown; so does confirming the value.
        completed = (await server.http.post(f"{url}/complete")).json()
        assert completed["statuses"]["total"] == {"status": "accepted", "reason": "not_found"}
        assert await stage() == ("reviewed", 0)
        await server.http.delete(f"{url}/complete", params={"status": "completed"})
        assert await stage() == ("needs_review", 1)
        confirmed = await server.http.post(f"{url}/locks", params={"path": "total"})
        assert confirmed.json()["statuses"]["total"] == {"status": "confirmed", "reason": "person"}
        assert await stage() == ("extracted", 0)

        # An edit that breaks the schema makes the document need review again.
        assert (await server.http.delete(f"{url}/fields", params={"path": "vendor"})).json()["valid"] is False
        assert await stage() == ("needs_review", 1)

        # So does a withdrawn review of such a document.
        await server.http.post(f"{url}/complete")
        assert await stage() == ("reviewed", 0)
        await server.http.delete(f"{url}/complete", params={"status": "completed"})
        assert await stage() == ("needs_review", 1)

        async with server.client() as stranger:
            counted = await stranger.get("/api/documents/count?stage=needs_review")
            assert counted.json()["count"] == 0
