"""Lists by what people filter by, and what they delete from them."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

import pytest
from answers import problem

from desk import sql
from fieldmark.offline_model.messages import call, text
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio

TOTAL = call("update_field", {"path": "total", "value": 10, "confidence": 0.9})


async def listed(served, path: str, **asked: object) -> list[str]:
    answer = await served.http.get(path, params={name: str(value) for name, value in asked.items()})
    assert answer.status_code == 200, answer.text
    return [item["id"] for item in answer.json()["items"]]


async def test_documents(serve, clone):
    async with serve() as served:
        invoice, receipt = await served.document(name="Rechnung_5%.txt"), await served.document(name="receipt.txt")
        broken = (await served.http.post("/api/documents", files={"file": ("broken.pdf", b"%PDF-1.7 x")})).json()["id"]
        await served.read(broken)
        at = "/api/documents"
        assert await listed(served, at, status="failed") == [broken]
        assert await listed(served, at, filename="RECHNUNG") == [str(invoice)]
        assert await listed(served, at, filename="5%") == [str(invoice)]
        assert await listed(served, at, filename="_") == [str(invoice)]  # a letter like any other
        assert await listed(served, at, media_type="text/plain") == [str(receipt), str(invoice)]
        sql(clone.owner_url, "update documents set created_at = created_at - interval '1 day' where id = %s", invoice)
        when = datetime.fromisoformat((await served.http.get(f"{at}/{receipt}")).json()["created_at"])
        assert await listed(served, at, until=when.isoformat()) == [str(invoice)]
        assert await listed(served, at, since=when.isoformat(), filename=".txt") == [str(receipt)]
        assert await listed(served, at, since=(when + timedelta(days=1)).isoformat()) == []
        named = f"{at}?document_id={broken}&document_id={receipt}"
        assert [one["id"] for one in (await served.http.get(named)).json()["items"]] == [broken, str(receipt)]
        async with served.client() as stranger:
            assert (await stranger.get(named)).json()["items"] == []
        for wrong in ("document_id=1", "status=gone", "since=yesterday", "since=2026-01-01T00:00:00", "filename="):
            problem(await served.http.get(f"{at}?{wrong}"), 422)


async def test_what_is_to_check_comes_page_by_page_for_either_reason(serve, clone):
    async with serve() as served:
        kinds = ["sure", "unsure", "proposed", "both", "rejected"] * 3
        made = {}
        for number, kind in enumerate(kinds):
            fields, scores = '{"a": 1}', json.dumps({"a": 0.1 if kind in ("unsure", "both") else 0.9})
            row = sql(
                clone.owner_url,
                """with document as (
                     insert into documents (id, org_id, filename, storage_path)
                     select id, %s, %s, concat_ws('/', %s::text, id, 'a') from (select gen_random_uuid() as id) as one
                     returning id, org_id)
                   insert into extractions (org_id, document_id, created_at, extracted_fields, confidence_scores)
                   select org_id, id, now() + %s * interval '1 s', %s, %s from document returning id""",
                *(served.scope.org_id, f"{kind} {number % 2}", served.scope.org_id, number, fields, scores),
            )
            made[str(row[0]["id"])] = kind
            for status in {"proposed": ["pending"], "both": ["pending"] * 2, "rejected": ["rejected"]}.get(kind, []):
                sql(
                    clone.owner_url,
                    """insert into extraction_proposals
                         (org_id, extraction_id, path, name, old, new, confidence_scores, evidence, status)
                       values (%s, %s, '{a}', 'a', '1', '2', '{}', '{}', %s)""",
                    *(served.scope.org_id, row[0]["id"], status),
                )

        async def paged(**asked) -> list[str]:
            found, before = [], {}
            while True:
                given = {"limit": 2, **asked, **before}
                page = (await served.http.get("/api/extractions", params=given)).json()
                found += [made[one["id"]] for one in page["items"]]
                if page["next"] is None:
                    return found
                before = {"before": page["next"]}

        newest = kinds[::-1]
        to_check = ["unsure", "proposed", "both"]
        assert await paged(to_check="true") == [kind for kind in newest if kind in to_check]
        assert await paged(to_check="false") == [kind for kind in newest if kind not in to_check]
        sure, other, *_ = made
        await served.http.patch(f"/api/extractions/{sure}", json={"document_type": "invoice"})
        assert await listed(served, "/api/extractions", document_type="invoice") == [sure]
        await served.http.post(f"/api/extractions/{sure}/complete")
        assert await listed(served, "/api/extractions", status="completed") == [sure]
        # Whoever says that a value is right has checked it.
        await served.http.patch(f"/api/extractions/{other}/fields", json={"path": "a", "value": 1})
        assert other not in await listed(served, "/api/extractions", to_check="true")
        odd = [kind for number, kind in enumerate(kinds) if number % 2][::-1]
        assert await paged(to_check="true", filename="D 1") == [kind for kind in odd if kind == "proposed"]
        assert await paged(filename=" 1") == odd


async def test_runs_are_filtered_and_deleted_when_they_have_ended(serve, clone):
    async with serve(Script([[TOTAL], [text("Done.")]])) as served:
        body = {"document_id": str(await served.document(name="one.txt")), "approval": "ask"}
        open_run = await served.extract(**body)
        other = {"document_id": str(await served.document(name="two.txt"))}
        ended = (await served.http.post("/api/agent/extract", json=other)).json()
        at = "/api/runs"
        assert await listed(served, at, document_id=other["document_id"]) == [ended["run_id"]]
        assert await listed(served, at, extraction_id=open_run["extraction"]["id"]) == [open_run["run_id"]]
        assert await listed(served, at, filename="TWO", task="extract") == [ended["run_id"]]
        assert await listed(served, at, task="correct") == []

        problem(await served.http.delete(f"{at}/{open_run['run_id']}"), 409)
        async with served.client() as stranger:
            problem(await stranger.delete(f"{at}/{ended['run_id']}"), 404)
        extraction = f"/api/extractions/{ended['extraction']['id']}"
        before = (await served.http.get(extraction)).json()
        assert (await served.http.delete(f"{at}/{ended['run_id']}")).status_code == 204
        problem(await served.http.delete(f"{at}/{ended['run_id']}"), 404)
        assert await listed(served, at) == [open_run["run_id"]]
        # What it wrote and what it cost stays.
        assert (await served.http.get(extraction)).json() == before
        assert (await served.http.get(f"{extraction}/history")).json()["items"][0]["run_id"] == ended["run_id"]
        (kept,) = sql(clone.owner_url, "select count(*) as n from usage where run_id = %s", ended["run_id"])
        assert kept["n"] > 0


async def test_an_extraction_is_deleted_with_its_runs_also_one_that_waits(serve):
    async with serve(Script([[TOTAL], [text("Done.")]])) as served:
        body = {"document_id": str(await served.document()), "approval": "ask"}
        run = await served.extract(**body)
        at = f"/api/extractions/{run['extraction']['id']}"
        async with served.client() as stranger:
            problem(await stranger.delete(at), 404)
        assert (await served.http.delete(at)).status_code == 204
        problem(await served.http.get(at), 404)
        problem(await served.http.delete(at), 404)
        problem(await served.http.get(f"/api/runs/{run['run_id']}"), 404)
        assert (await served.http.get(f"/api/documents/{body['document_id']}")).status_code == 200
