"""Filters of the lists of documents, extractions and runs, and deletion."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from answers import assert_problem

from extraction_case import sql
from fieldmark.offline_model.messages import call, text
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio

TOTAL = call("update_field", {"path": "total", "value": 10, "confidence": 0.9})


async def listed_ids(server, path: str, **query: object) -> list[str]:
    answer = await server.http.get(path, params={name: str(value) for name, value in query.items()})
    assert answer.status_code == 200, answer.text
    return [item["id"] for item in answer.json()["items"]]


async def test_documents_are_filtered(serve, clone):
    async with serve() as server:
        invoice, receipt = (
            await server.upload_text(name="Rechnung_5%.txt"),
            await server.upload_text(name="receipt.txt"),
        )
        broken = (await server.http.post("/api/documents", files={"file": ("broken.pdf", b"%PDF-1.7 x")})).json()["id"]
        await server.wait_until_read(broken)
        at = "/api/documents"
        assert await listed_ids(server, at, status="failed") == [broken]
        assert await listed_ids(server, at, filename="RECHNUNG") == [str(invoice)]
        assert await listed_ids(server, at, filename="5%") == [str(invoice)]
        assert await listed_ids(server, at, filename="_") == [str(invoice)]  # not a wildcard
        assert await listed_ids(server, at, media_type="text/plain") == [str(receipt), str(invoice)]
        sql(clone.owner_url, "update documents set created_at = created_at - interval '1 day' where id = %s", invoice)
        when = datetime.fromisoformat((await server.http.get(f"{at}/{receipt}")).json()["created_at"])
        assert await listed_ids(server, at, until=when.isoformat()) == [str(invoice)]
        assert await listed_ids(server, at, since=when.isoformat(), filename=".txt") == [str(receipt)]
        assert await listed_ids(server, at, since=(when + timedelta(days=1)).isoformat()) == []
        await server.http.patch(f"{at}/{receipt}", json={"external_id": "order 1"})
        assert await listed_ids(server, at, external_id="order 1") == [str(receipt)]
        assert await listed_ids(server, at, external_id="order 2") == []
        named = f"{at}?document_id={broken}&document_id={receipt}"
        assert [one["id"] for one in (await server.http.get(named)).json()["items"]] == [broken, str(receipt)]
        async with server.client() as stranger:
            assert (await stranger.get(named)).json()["items"] == []
        for wrong in ("document_id=1", "status=gone", "since=yesterday", "since=2026-01-01T00:00:00", "filename="):
            assert_problem(await server.http.get(f"{at}?{wrong}"), 422)


async def test_extractions_to_check_are_paged(serve, clone):
    async with serve() as server:
        kinds = ["sure", "unsure", "proposed", "both", "rejected"] * 3
        kind_by_id = {}
        for number, kind in enumerate(kinds):
            fields, scores = '{"a": 1}', json.dumps({"a": 0.1 if kind in ("unsure", "both") else 0.9})
            found = '{"a": {"state": "found"}}'
            row = sql(
                clone.owner_url,
                """with document as (
                     insert into documents (id, org_id, filename, storage_path)
                     select id, %s, %s, concat_ws('/', %s::text, id, 'a') from (select gen_random_uuid() as id) as one
                     returning id, org_id)
                   insert into extractions
                     (org_id, document_id, created_at, extracted_fields, confidence_scores, evidence)
                   select org_id, id, now() + %s * interval '1 s', %s, %s, %s from document returning id""",
                *(server.scope.org_id, f"{kind} {number % 2}", server.scope.org_id, number, fields, scores, found),
            )
            kind_by_id[str(row[0]["id"])] = kind
            for status in {"proposed": ["pending"], "both": ["pending"] * 2, "rejected": ["rejected"]}.get(kind, []):
                sql(
                    clone.owner_url,
                    """insert into extraction_proposals
                         (org_id, extraction_id, path, name, old, new, confidence_scores, evidence, status)
                       values (%s, %s, '{a}', 'a', '1', '2', '{}', '{}', %s)""",
                    *(server.scope.org_id, row[0]["id"], status),
                )
            # (With the next change of the extraction: only agents' blocked writes make proposals.)
            sql(
                clone.owner_url,
                """update extractions set confidences = jsonb_set(confidences, '{a}', to_jsonb(
                     (confidences ->> 'a')::numeric + 0.01)) where id = %s returning id""",
                row[0]["id"],
            )

        async def list_kinds(**asked) -> list[str]:
            found, before = [], {}
            while True:
                given = {"limit": 2, **asked, **before}
                page = (await server.http.get("/api/extractions", params=given)).json()
                found += [kind_by_id[one["id"]] for one in page["items"]]
                if page["next"] is None:
                    return found
                before = {"before": page["next"]}

        newest = kinds[::-1]
        to_check = ["unsure", "proposed", "both"]
        assert await list_kinds(to_check="true") == [kind for kind in newest if kind in to_check]
        assert await list_kinds(to_check="false") == [kind for kind in newest if kind not in to_check]
        sure, other, *_ = kind_by_id
        changed = (await server.http.patch(f"/api/extractions/{sure}", json={"document_type": "invoice"})).json()
        since = changed["updated_at"]
        assert await listed_ids(server, "/api/extractions", changed_since=since) == [sure]
        answered = await server.http.get("/api/extractions", params={"changed_since": since})
        (now,) = sql(clone.owner_url, "select clock_timestamp() as now")
        assert datetime.fromisoformat(since) < datetime.fromisoformat(answered.headers["x-database-time"]) < now["now"]
        async with server.client() as stranger:
            listed = await stranger.get("/api/extractions", params={"changed_since": since})
            assert listed.json()["items"] == []
        assert await listed_ids(server, "/api/extractions", document_type="invoice") == [sure]
        await server.http.post(f"/api/extractions/{sure}/complete")
        assert await listed_ids(server, "/api/extractions", status="completed") == [sure]
        # Confirming the value checks the extraction.
        await server.http.patch(f"/api/extractions/{other}/fields", json={"path": "a", "value": 1})
        assert other not in await listed_ids(server, "/api/extractions", to_check="true")
        odd_kinds = [kind for number, kind in enumerate(kinds) if number % 2][::-1]
        assert await list_kinds(to_check="true", filename="D 1") == [kind for kind in odd_kinds if kind == "proposed"]
        assert await list_kinds(filename=" 1") == odd_kinds


async def test_runs_are_filtered_and_deleted_once_ended(serve, clone):
    async with serve(Script([[TOTAL], [text("Done.")]])) as server:
        body = {"document_id": str(await server.upload_text(name="one.txt")), "approval": "ask"}
        open_run = await server.extract(**body)
        other = {"document_id": str(await server.upload_text(name="two.txt"))}
        ended = (await server.http.post("/api/agent/extract", json=other)).json()
        at = "/api/runs"
        assert await listed_ids(server, at, document_id=other["document_id"]) == [ended["run_id"]]
        assert await listed_ids(server, at, extraction_id=open_run["extraction"]["id"]) == [open_run["run_id"]]
        assert await listed_ids(server, at, filename="TWO", task="extract") == [ended["run_id"]]
        assert await listed_ids(server, at, task="correct") == []
        assert await listed_ids(
            server, at, changed_since=(await server.get(f"runs/{ended['run_id']}"))["finished_at"]
        ) == [ended["run_id"]]
        sql(
            clone.owner_url,
            "update changes set created_at = now() + interval '1 h' where run_id = %s",
            open_run["run_id"],
        )
        later = (datetime.now(UTC) + timedelta(minutes=30)).isoformat()
        assert await listed_ids(server, at, changed_since=later) == [open_run["run_id"]]
        assert await listed_ids(server, "/api/documents", changed_since=later) == [body["document_id"]]
        async with server.client() as stranger:
            for listed in (at, "/api/documents"):
                assert (await stranger.get(listed, params={"changed_since": later})).json()["items"] == []

        assert_problem(await server.http.delete(f"{at}/{open_run['run_id']}"), 409)
        async with server.client() as stranger:
            assert_problem(await stranger.delete(f"{at}/{ended['run_id']}"), 404)
        extraction = f"/api/extractions/{ended['extraction']['id']}"
        before = (await server.http.get(extraction)).json()
        assert (await server.http.delete(f"{at}/{ended['run_id']}")).status_code == 204
        assert_problem(await server.http.delete(f"{at}/{ended['run_id']}"), 404)
        assert await listed_ids(server, at) == [open_run["run_id"]]
        # Its writes and its usage stay.
        assert (await server.http.get(extraction)).json() == before
        assert (await server.http.get(f"{extraction}/history")).json()["items"][0]["run_id"] == ended["run_id"]
        (kept,) = sql(clone.owner_url, "select count(*) as n from usage where run_id = %s", ended["run_id"])
        assert kept["n"] > 0


async def test_extraction_is_deleted_with_its_waiting_run(serve):
    async with serve(Script([[TOTAL], [text("Done.")]])) as server:
        body = {"document_id": str(await server.upload_text()), "approval": "ask"}
        run = await server.extract(**body)
        at = f"/api/extractions/{run['extraction']['id']}"
        async with server.client() as stranger:
            assert_problem(await stranger.delete(at), 404)
        assert (await server.http.delete(at)).status_code == 204
        assert_problem(await server.http.get(at), 404)
        assert_problem(await server.http.delete(at), 404)
        assert_problem(await server.http.get(f"/api/runs/{run['run_id']}"), 404)
        assert (await server.http.get(f"/api/documents/{body['document_id']}")).status_code == 200
