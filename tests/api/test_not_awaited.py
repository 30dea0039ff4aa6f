"""202: a run is started, or its call decided, and nobody waits for it."""

from __future__ import annotations

import pytest
from answers import as_owner, events, problem

from fieldmark.offline_model.messages import call, text
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio

TOTAL = call("update_field", {"path": "total", "value": 10, "confidence": 0.9})


async def test_the_ids_are_answered_at_once(serve):
    async with serve(Script([[text("Done.")]])) as server:
        document_id = str(await server.upload_text())
        body = {"document_id": document_id, "wait": False}
        answer = await server.http.post("/api/agent/extract", json=body, headers={"accept": "text/event-stream"})
        assert answer.status_code == 202
        started = answer.json()
        assert list(started) == ["run_id", "extraction_id", "document_id", "thread_id", "status", "waits_behind"]
        assert started["document_id"] == document_id and answer.headers["location"] == f"/api/runs/{started['run_id']}"
        said = events((await server.http.get(f"{answer.headers['location']}/events")).text)
        assert said[0][1]["extraction_id"] == started["extraction_id"] and said[-1][1]["type"] == "complete"


async def test_the_same_key_is_answered_though_it_could_not_be_started_anew(serve, clone):
    async with serve(Script([[text("Done.")]])) as server:
        document_id = str(await server.upload_text())
        body, key = {"document_id": document_id, "wait": False}, {"idempotency-key": "once"}
        first = await server.http.post("/api/agent/extract", json=body, headers=key)
        failed = "update public.documents set status = 'failed', error = 'x', error_code = 'damaged' where id = %s"
        await as_owner(clone, failed, document_id)
        again = await server.http.post("/api/agent/extract", json=body, headers=key)
        assert (first.status_code, again.status_code) == (202, 202), again.text
        assert again.json()["run_id"] == first.json()["run_id"]
        waited = await server.http.post("/api/agent/extract", json=body | {"wait": True}, headers=key)
        assert (waited.status_code, waited.json()["run_id"]) == (200, first.json()["run_id"])
        other = {**body, "instructions": "Amounts are net."}
        problem(await server.http.post("/api/agent/extract", json=other, headers=key), 422, "idempotency_key_reused")
        problem(await server.http.post("/api/agent/extract", json=body), 409, "document_failed")


async def test_a_decision_is_carried_out_when_202_comes(serve):
    async with serve(Script([[TOTAL], [text("Done.")]])) as server:
        body = {"document_id": str(await server.upload_text()), "approval": "ask"}
        run = await server.extract(**body)
        said = {"run_id": run["run_id"], "approvals": [{"call_id": run["waits_for"]["call_id"], "approved": True}]}
        answer = await server.http.post("/api/agent/approve", json={**said, "wait": False})
        assert answer.status_code == 202 and answer.json()["run_id"] == run["run_id"]
        found = await server.get(f"extractions/{run['extraction']['id']}")
        assert found["extracted_fields"] == {"total": 10}
        problem(await server.http.post("/api/agent/approve", json={**said, "wait": False}), 409)
