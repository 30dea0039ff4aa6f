"""Calls that wait for approval: the CLI process ends, the decision comes over HTTP, and the real CLI continues."""

from __future__ import annotations

import asyncio
import json
from uuid import uuid4

import pytest

from child_processes import cli_processes
from extraction_case import sql, until
from fieldmark.offline_model.messages import call, text
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio

TOTAL = {"path": "total", "value": 10, "confidence": 0.9}
NUMBER = {"path": "number", "value": "1", "confidence": 0.9}


def proposal_script(*calls) -> Script:
    return Script([[call("get_document_text")], *[[one] for one in calls], [text("Done.")]])


async def extract_until_approval(server, **options) -> dict:
    return await server.extract(await server.upload_text(), approval="ask", **options)


@pytest.mark.story
async def test_nothing_is_written_until_a_person_approves(serve):
    async with serve(proposal_script(call("update_field", TOTAL), call("update_field", NUMBER))) as server:
        result = await extract_until_approval(server)
        approval = result["waits_for"]
        assert result["status"] == "awaiting_approval" and result["extraction"]["version"] == 0
        assert approval["tool"] == "update_field" and approval["input"] == TOTAL
        assert (await server.events(result["run_id"]))[-1]["approval"] == approval
        await until(lambda: cli_processes() == [])  # the CLI ends once the call is deferred
        inbox = (await server.get("runs?status=awaiting_approval"))["items"]
        assert [(run["id"], run["waits_for"]) for run in inbox] == [(result["run_id"], approval)]

        second = (await server.decide(result)).json()
        assert second["status"] == "awaiting_approval" and second["extraction"]["extracted_fields"] == {"total": 10}
        assert second["waits_for"]["input"] == NUMBER
        last = (await server.decide(second)).json()
        assert last["status"] == "completed" and last["answer"] == "Done." and last["waits_for"] is None
        assert last["extraction"]["extracted_fields"] == {"total": 10, "number": "1"} and last["usage"]["turns"] > 3


@pytest.mark.story
async def test_edited_arguments_are_written(serve):
    async with serve(proposal_script(call("update_field", TOTAL))) as server:
        result = await extract_until_approval(server)
        last = (await server.decide(result, input={**TOTAL, "value": 12})).json()
        assert last["status"] == "completed" and last["extraction"]["extracted_fields"] == {"total": 12}
        call_id = result["waits_for"]["call_id"]
        types = [one["type"] for one in await server.events(result["run_id"]) if one.get("call_id") == call_id]
        assert types == ["tool", "tool_result"]  # started in one attempt, ended in another


@pytest.mark.story
async def test_rejection_and_reason_reach_the_model(serve):
    async with serve(proposal_script(call("update_field", TOTAL))) as server:
        last = (
            await server.decide(await extract_until_approval(server), approved=False, reason="It is the subtotal.")
        ).json()
        assert last["status"] == "completed" and last["extraction"]["version"] == 0
        assert "It is the subtotal." in json.dumps(server.model.requests[-1])


async def test_tools_approved_in_advance_do_not_wait(serve):
    async with serve(proposal_script(call("update_field", TOTAL))) as server:
        result = await extract_until_approval(server, auto_approved_tools=["update_field"])
        assert result["status"] == "completed" and result["extraction"]["extracted_fields"] == {"total": 10}


async def test_invalid_decision_changes_nothing_and_a_call_is_decided_once(serve, clone):
    async with serve(Script([lambda body: [call("update_field", TOTAL)], [text("Done.")]])) as server:
        result, other = await extract_until_approval(server), await extract_until_approval(server)
        run_id, call_id = result["run_id"], result["waits_for"]["call_id"]
        assert other["waits_for"]["call_id"] != call_id

        async def expect_refusal(status: int, run: str = run_id, http=server.http, **said) -> None:
            body = {"run_id": run, "approvals": [{"call_id": call_id, "approved": True, **said}]}
            answer = await http.post("/api/agent/approve", json=body)
            assert answer.status_code == status and answer.json()["detail"], answer.text

        colleague = uuid4()
        async with server.client(colleague) as http, server.client() as stranger:
            await http.get("/api/runs")  # creates the user
            query = "insert into public.memberships (org_id, user_id, role) values (%s, %s, 'owner') returning role"
            sql(clone.owner_url, query, server.scope.org_id, colleague)
            http.headers["X-Org-Id"] = str(server.scope.org_id)
            assert (await http.get(f"/api/runs/{run_id}")).status_code == 200  # can see the run but not decide
            proposed = f"/api/runs/{run_id}/proposed"
            assert [(await one.get(proposed)).status_code for one in (http, stranger)] == [200, 404]
            await expect_refusal(404, http=http)
            await expect_refusal(404, http=stranger)
        await expect_refusal(404, run=other["run_id"])
        await expect_refusal(404, run=str(uuid4()))
        await expect_refusal(404, call_id="another")
        await expect_refusal(422, tool="remove_field")
        await expect_refusal(422, input={"fields": {"total": 1}, "confidences": {}})  # arguments of a different tool
        await expect_refusal(422, input={**TOTAL, "confidence": 7})
        await expect_refusal(422, approved=False, input=TOTAL)
        await expect_refusal(422, call_id="\0")
        await expect_refusal(422, approved=False, reason="No.\0")
        calls = sql(clone.owner_url, "select status, proposed, decided_by from public.tool_calls")
        assert calls == [{"status": "pending", "proposed": None, "decided_by": None}] * 2
        answers = await asyncio.gather(*[server.decide(result) for _ in range(4)])
        assert sorted(answer.status_code for answer in answers) == [200, 409, 409, 409]
        assert (await server.http.delete(f"/api/documents/{result['extraction']['document_id']}")).status_code == 204
        await expect_refusal(404)  # like an unknown run


async def test_cancelled_run_cannot_be_approved(serve):
    async with serve(proposal_script(call("update_field", TOTAL))) as server:
        result = await extract_until_approval(server)
        shown = len(await server.events(result["run_id"]))
        cancelled = await server.http.post(f"/api/runs/{result['run_id']}/cancel")
        run = cancelled.json()
        assert (cancelled.status_code, run["status"], run["error_code"]) == (202, "cancelled", "cancelled")
        assert run["waiting_call"] is None and run["waits_for"] is None
        assert (await server.decide(result)).status_code == 409
        # A client that has seen the approval request gets only the final event.
        (last,) = await server.events(result["run_id"], after=shown)
        assert last["code"] == "cancelled"
