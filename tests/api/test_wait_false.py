"""`wait: false`: the server answers 202 once a run is started or its call decided."""

from __future__ import annotations

import pytest
from answers import assert_problem, execute_as_owner, parse_events

from fieldmark.offline_model.messages import call, text
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio

TOTAL = call("update_field", {"path": "total", "value": 10, "confidence": 0.9})


async def test_started_run_gets_202_with_its_ids(serve):
    async with serve(Script([[text("Done.")]])) as server:
        document_id = str(await server.upload_text())
        body = {"document_id": document_id, "wait": False}
        answer = await server.http.post("/api/agent/extract", json=body, headers={"accept": "text/event-stream"})
        assert answer.status_code == 202
        started = answer.json()
        assert list(started) == ["run_id", "extraction_id", "document_id", "thread_id", "status", "waits_behind"]
        assert started["document_id"] == document_id and answer.headers["location"] == f"/api/runs/{started['run_id']}"
        stored_events = parse_events((await server.http.get(f"{answer.headers['location']}/events")).text)
        assert (
            stored_events[0][1]["extraction_id"] == started["extraction_id"]
            and stored_events[-1][1]["type"] == "complete"
        )


async def test_repeated_idempotency_key_returns_its_run_even_if_the_document_has_failed(serve, clone):
    async with serve(Script([[text("Done.")]])) as server:
        document_id = str(await server.upload_text())
        body, key = {"document_id": document_id, "wait": False}, {"idempotency-key": "once"}
        first = await server.http.post("/api/agent/extract", json=body, headers=key)
        failed = "update public.documents set status = 'failed', error = 'x', error_code = 'damaged' where id = %s"
        await execute_as_owner(clone, failed, document_id)
        again = await server.http.post("/api/agent/extract", json=body, headers=key)
        assert (first.status_code, again.status_code) == (202, 202), again.text
        assert again.json()["run_id"] == first.json()["run_id"]
        waited = await server.http.post("/api/agent/extract", json=body | {"wait": True}, headers=key)
        assert (waited.status_code, waited.json()["run_id"]) == (200, first.json()["run_id"])
        other = {**body, "instructions": "Amounts are net."}
        assert_problem(
            await server.http.post("/api/agent/extract", json=other, headers=key), 422, "idempotency_key_reused"
        )
        assert_problem(await server.http.post("/api/agent/extract", json=body), 409, "document_failed")


async def test_decision_is_applied_before_202(serve):
    async with serve(Script([[TOTAL], [text("Done.")]])) as server:
        body = {"document_id": str(await server.upload_text()), "approval": "ask"}
        run = await server.extract(**body)
        decision = {"run_id": run["run_id"], "approvals": [{"call_id": run["waits_for"]["call_id"], "approved": True}]}
        answer = await server.http.post("/api/agent/approve", json={**decision, "wait": False})
        assert answer.status_code == 202 and answer.json()["run_id"] == run["run_id"]
        found = await server.get(f"extractions/{run['extraction']['id']}")
        assert found["extracted_fields"] == {"total": 10}
        assert_problem(await server.http.post("/api/agent/approve", json={**decision, "wait": False}), 409)
