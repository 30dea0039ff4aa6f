"""One run handled by several processes: one starts it, another streams it, a third takes the decision, a fourth
finishes it."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import pytest

from extraction_case import until
from fieldmark.identity.tokens import LocalTokens
from fieldmark.offline_model.messages import call, text
from fieldmark.testing.script import Script, pause_midway

pytestmark = pytest.mark.anyio

TOTAL = {"path": "total", "value": 10, "confidence": 0.9}


async def test_run_is_executed_by_four_processes(on_hosts):
    may_continue, half_read = asyncio.Event(), asyncio.Event()

    async def propose_total(body):
        await may_continue.wait()
        return [call("update_field", TOTAL)]

    words, collected = "I read, and ask for all pages.", ""
    reads = pause_midway(half_read.wait, text(words), call("get_document_text"))
    script = Script([reads, propose_total, [text("Done.")]])
    async with on_hosts(script) as hosts:
        first, second, worker = await asyncio.gather(hosts.api(), hosts.api(), hosts.worker())
        document = await second.document()  # uploaded to this process, read by the worker
        assert document["status"] == "ready", document

        seen = []
        body = {"document_id": document["id"], "approval": "ask"}
        async with asyncio.timeout(60), first.stream("/api/agent/extract?deltas=true", body) as events:
            async for number, event in events:
                if number == 0:
                    collected += event["text_delta"]
                    assert words.startswith(collected)
                    half_read.set()
                    continue
                seen.append((number, event))
                if event.get("status") == "complete":
                    break
        assert collected
        run_id, last = seen[0][1]["run_id"], seen[-1][0]

        # The client reconnects to another replica and continues after its last event.
        async with second.stream(f"/api/runs/{run_id}/events", after=last) as events:
            may_continue.set()
            seen += [event async for event in events]
        assert [number for number, _ in seen] == list(range(1, len(seen) + 1))
        call_id = seen[-1][1]["approval"]["call_id"]
        assert [event for _, event in seen] == hosts.events(run_id)
        inbox = (await first.http.get("/api/runs?status=awaiting_approval")).json()["items"]
        assert [run["id"] for run in inbox] == [run_id]

        await until(lambda: not hosts.run(run_id)["attached"])
        await worker.stop()
        third, _ = await asyncio.gather(hosts.api(), hosts.worker())
        decision = {"run_id": run_id, "approvals": [{"call_id": call_id, "approved": True}]}
        async with third.stream("/api/agent/approve", decision) as events:
            after = [event async for event in events]
        assert after[0][0] == seen[-1][0] + 1 and after[-1][1]["complete"] is True
        reconnected = await first.http.post("/api/agent/approve", json=decision)
        assert reconnected.status_code == 409, reconnected.text

        run = (await second.http.get(f"/api/runs/{run_id}")).json()
        assert (run["status"], run["answer"], run["attempt"]) == ("completed", "Done.", 2)
        extraction = (await first.http.get(f"/api/extractions/{run['extraction_id']}")).json()
        assert extraction["extracted_fields"] == {"total": 10}
        assert len(hosts.sql("select 1 from public.extraction_journal")) == 1
        async with first.stream(f"/api/runs/{run_id}/events") as events:
            assert [event async for event in events] == seen + after


async def test_file_missing_on_another_machine_is_reported(on_hosts, tmp_path):
    async with on_hosts(Script([[text("Done.")]])) as hosts:
        elsewhere = {"FIELDMARK_HOME": str(tmp_path / "another")}
        here, there, _ = await asyncio.gather(hosts.api(), hosts.api(**elsewhere), hosts.worker(**elsewhere))
        document = await here.document()
        assert document["status"] == "failed" and "Supabase Storage" in document["error"]
        answer = await there.http.get("/api/runs")
        assert answer.status_code == 401 and "same FIELDMARK_HOME/keys" in answer.json()["detail"]
        with_its_own = LocalTokens(tmp_path / "another").sign(uuid4())
        own = await there.http.get("/api/runs", headers={"Authorization": f"Bearer {with_its_own}"})
        assert own.status_code == 200
