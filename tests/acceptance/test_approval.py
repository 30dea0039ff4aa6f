"""A write that waits for a person: deferred without a process, decided over HTTP, gone on with by the real CLI."""

from __future__ import annotations

import asyncio
import json
from uuid import uuid4

import psycopg
import pytest

from desk import until
from fieldmark.offline_model.messages import call, text
from fieldmark.testing.script import Script
from living import clis

pytestmark = pytest.mark.anyio

TOTAL = {"path": "total", "value": 10, "confidence": 0.9}
NUMBER = {"path": "number", "value": "1", "confidence": 0.9}


def proposing(*calls) -> Script:
    return Script([[call("get_document_text")], *[[one] for one in calls], [text("Done.")]])


def objects(stream: str) -> list[dict]:
    return [json.loads(line[6:]) for line in stream.splitlines() if line.startswith("data: ")]


async def asked(served, **options) -> tuple[dict, dict]:
    """An extraction that asks: the result, and the approval it waits for."""
    body = {"document_id": str(await served.document()), "approval": "ask", **options}
    answer = await served.http.post("/api/agent/extract", json=body)
    assert answer.status_code == 200, answer.text
    result = answer.json()
    events = objects((await served.http.get(f"/api/runs/{result['run_id']}/events")).text)
    return result, events[-1].get("approval")


async def decide(served, run_id: str, call_id: str, **said):
    body = {"run_id": run_id, "approvals": [{"call_id": call_id, **said}]}
    return await served.http.post("/api/agent/approve", json=body)


async def answers(http, run_id: str) -> set[tuple[int, str]]:
    """(status, sentence) of all that can be asked of a run."""
    body = {"run_id": run_id, "approvals": [{"call_id": "a", "approved": True}]}
    said = [
        await http.get(f"/api/runs/{run_id}"),
        await http.get(f"/api/runs/{run_id}/events"),
        await http.post(f"/api/runs/{run_id}/cancel"),
        await http.post("/api/agent/approve", json=body),
    ]
    return {(answer.status_code, answer.json()["detail"]) for answer in said}


@pytest.mark.story
async def test_nothing_is_written_until_a_person_approves(serve):
    async with serve(proposing(call("update_field", TOTAL), call("update_field", NUMBER))) as served:
        result, approval = await asked(served)
        assert result["status"] == "awaiting_approval" and result["extraction"]["version"] == 0
        assert approval["tool"] == "update_field" and approval["input"] == TOTAL
        assert approval["message"] == "Updating total" and result["waits_for"] == approval
        await until(lambda: clis() == [])  # it goes when it has deferred the call
        inbox = (await served.http.get("/api/runs?status=awaiting_approval")).json()["items"]
        assert [(run["id"], run["waits_for"]) for run in inbox] == [(result["run_id"], approval)]

        second = (await decide(served, result["run_id"], approval["call_id"], approved=True)).json()
        assert second["status"] == "awaiting_approval" and second["extraction"]["extracted_fields"] == {"total": 10}
        approval = objects((await served.http.get(f"/api/runs/{result['run_id']}/events")).text)[-1]["approval"]
        assert approval["input"] == NUMBER
        last = (await decide(served, result["run_id"], approval["call_id"], approved=True)).json()
        assert last["status"] == "completed" and last["answer"] == "Done." and last["waits_for"] is None
        assert last["extraction"]["extracted_fields"] == {"total": 10, "number": "1"} and last["usage"]["turns"] > 3


@pytest.mark.story
async def test_what_a_person_changes_is_what_is_written(serve):
    async with serve(proposing(call("update_field", TOTAL))) as served:
        result, approval = await asked(served)
        changed = {**TOTAL, "value": 12}
        last = (await decide(served, result["run_id"], approval["call_id"], approved=True, input=changed)).json()
        assert last["status"] == "completed" and last["extraction"]["extracted_fields"] == {"total": 12}
        events = objects((await served.http.get(f"/api/runs/{result['run_id']}/events")).text)
        ends = [(one["tool"], one["message"]) for one in events if one.get("call_id") == approval["call_id"]]
        assert ends == [("update_field", "Updating total")] * 2  # its beginning, and its end in another attempt


@pytest.mark.story
async def test_a_rejection_and_its_reason_reach_the_model(serve):
    async with serve(proposing(call("update_field", TOTAL))) as served:
        result, approval = await asked(served)
        last = await decide(served, result["run_id"], approval["call_id"], approved=False, reason="It is the subtotal.")
        assert last.json()["status"] == "completed" and last.json()["extraction"]["version"] == 0
        assert "It is the subtotal." in json.dumps(served.model.requests[-1])


async def test_tools_named_in_advance_do_not_wait(serve):
    async with serve(proposing(call("update_field", TOTAL))) as served:
        result, _ = await asked(served, auto_approved_tools=["update_field"])
        assert result["status"] == "completed" and result["extraction"]["extracted_fields"] == {"total": 10}


async def test_several_changes_at_once_are_refused_and_nothing_is_lost(serve):
    script = Script([[call("update_field", TOTAL), call("update_field", NUMBER)], [text("I stop.")]])
    async with serve(script) as served:
        result, _ = await asked(served)
        assert result["status"] == "completed" and result["extraction"]["version"] == 0
        assert "one change at a time" in json.dumps(served.model.requests[-1])


async def test_a_decision_is_taken_once_and_by_the_runs_own_user(serve):
    async with serve(proposing(call("update_field", TOTAL))) as served:
        result, approval = await asked(served)
        run_id, call_id = result["run_id"], approval["call_id"]
        async with served.client() as stranger:
            body = {"run_id": run_id, "approvals": [{"call_id": call_id, "approved": True}]}
            assert (await stranger.post("/api/agent/approve", json=body)).status_code == 404
        assert (await decide(served, run_id, "another", approved=True)).status_code == 404
        assert (await decide(served, run_id, call_id, approved=True, input={"path": "total"})).status_code == 422
        answers = await asyncio.gather(*[decide(served, run_id, call_id, approved=True) for _ in range(4)])
        assert sorted(answer.status_code for answer in answers) == [200, 409, 409, 409]
        assert (await decide(served, run_id, call_id, approved=True)).status_code == 409


async def test_a_decision_that_cannot_be_meant_changes_nothing(serve, clone):
    async with serve(Script([lambda body: [call("update_field", TOTAL)], [text("Done.")]])) as served:
        result, approval = await asked(served)
        run_id, call_id = result["run_id"], approval["call_id"]
        other, other_approval = await asked(served)
        assert other_approval["call_id"] != call_id

        async def refused(status: int, run: str = run_id, http=served.http, **said) -> None:
            body = {"run_id": run, "approvals": [{"call_id": call_id, "approved": True, **said}]}
            answer = await http.post("/api/agent/approve", json=body)
            assert answer.status_code == status and answer.json()["detail"], answer.text

        colleague = uuid4()
        async with served.client(colleague) as http:
            await http.get("/api/runs")  # makes the user
            with psycopg.connect(clone.owner_url) as owner:
                query = "insert into public.memberships (org_id, user_id, role) values (%s, %s, 'owner')"
                owner.execute(query, (served.scope.org_id, colleague))
            http.headers["X-Org-Id"] = str(served.scope.org_id)
            assert (await http.get(f"/api/runs/{run_id}")).status_code == 200  # sees it, and may not decide it
            await refused(404, http=http)
        await refused(404, run=other["run_id"])
        await refused(404, run=str(uuid4()))
        await refused(422, tool="remove_field")
        await refused(422, input={"fields": {"total": 1}, "confidences": {}})  # arguments of another tool
        await refused(422, input={**TOTAL, "confidence": 7})
        await refused(422, approved=False, input=TOTAL)
        await refused(422, call_id="")
        await refused(422, call_id="\0")
        await refused(422, approved=False, reason="No.\0")
        states = [(await served.http.get(f"/api/runs/{run}")).json()["status"] for run in (run_id, other["run_id"])]
        assert states == ["awaiting_approval"] * 2
        with psycopg.connect(clone.owner_url) as owner:
            query = "select status, proposed, decided_by from public.tool_calls where tool = 'update_field'"
            assert owner.execute(query).fetchall() == [("pending", None, None)] * 2
        assert (await served.http.delete(f"/api/documents/{result['extraction']['document_id']}")).status_code == 204
        # For everyone it is as if it had never been.
        await refused(404)
        never = {(404, "There is no such run.")}
        assert await answers(served.http, run_id) == never
        async with served.client(colleague) as http, served.client() as stranger:
            http.headers["X-Org-Id"] = str(served.scope.org_id)
            assert await answers(http, run_id) == await answers(stranger, run_id) == never
        assert await answers(served.http, str(uuid4())) == never


async def test_a_cancelled_run_cannot_be_approved_any_more(serve):
    async with serve(proposing(call("update_field", TOTAL))) as served:
        result, approval = await asked(served)
        cancelled = await served.http.post(f"/api/runs/{result['run_id']}/cancel")
        assert cancelled.status_code == 202 and cancelled.json()["status"] == "cancelled"
        assert (await decide(served, result["run_id"], approval["call_id"], approved=True)).status_code == 409
        events = objects((await served.http.get(f"/api/runs/{result['run_id']}/events")).text)
        assert events[-1]["code"] == "cancelled"
        run = cancelled.json()
        assert (run["error"], run["error_code"]) == (events[-1]["error"], "cancelled")
        assert run["waiting_call"] is None and run["waits_for"] is None
