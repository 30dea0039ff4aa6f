"""An agent defined outside of `fieldmark/agents` runs without changes elsewhere."""

from __future__ import annotations

import asyncio
import json
from uuid import UUID

import pytest

from extraction_case import events, sql, until
from fieldmark.agents.registry import agent_rows, registered
from fieldmark.db.migrate import migrate
from fieldmark.offline_model.messages import call, objects_in, text
from fieldmark.testing.script import Script
from toy_agent.agent import TOY

pytestmark = pytest.mark.anyio

EXTRACTION_SCRIPT = Script(
    [
        [call("get_document_text")],
        [call("extract_fields", {"fields": {"total": 20}, "confidences": {"total": 0.9}})],
        [call("complete_extraction")],
        [text("Read.")],
    ]
)


def script(*turns):
    """Return a model that plays the turns for the toy agent, and a fixed script for the extraction agent."""
    toy = Script(turns)

    async def answer(body):
        names = {str(tool.get("name")).rsplit("__", 1)[-1] for tool in objects_in(body, "tools")}
        return await (toy if "find_value" in names else EXTRACTION_SCRIPT)(body)

    return answer


@pytest.fixture
def toy(clone):
    asyncio.run(migrate(clone.owner_url, agents=agent_rows([TOY])))
    with registered(TOY):
        yield


async def upload_two_documents(server) -> list[str]:
    ids = []
    for name, total in (("first.txt", "10.00"), ("second.txt", "20.00")):
        file = {"file": (name, f"Invoice {name}\nTotal: {total} EUR\n".encode())}
        uploaded = (await server.http.post("/api/documents", files=file)).json()
        ids.append(uploaded["id"])
    for one in ids:
        await until(lambda one=one: _is_read(server, one))
    return ids


async def _is_read(server, document_id: str) -> bool:
    return (await server.http.get(f"/api/documents/{document_id}")).json()["status"] == "ready"


async def compare(server, documents: list[str], message: str, **more) -> dict:
    answer = await server.http.post("/api/agent/compare", json={"documents": documents, "message": message, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def get_thread_id(server, result: dict) -> str:
    return (await server.http.get(f"/api/runs/{result['run_id']}")).json()["thread_id"]


@pytest.mark.long
async def test_child_run_works_with_one_slot_and_one_run_at_a_time(serve, clone, toy):
    steps = [
        [call("find_value", {"document": 1, "value": "10.00"})],
        [call("find_value", {"document": 2, "value": "20.00"})],
        [call("find_value", {"document": 1, "value": "20.00"})],
        [call("wait_for_others", {"seconds": 0.2})],
        [call("read_fields", {"document": 2})],
        [call("note", {"text": "20 is more"})],
        [text("The second costs more.")],
    ]
    async with serve(script(*steps), max_live_agents=1) as server:
        sql(
            clone.owner_url,
            "insert into public.credit_limits (org_id, max_concurrent_runs) values (%s, 1)",
            server.scope.org_id,
        )
        documents = await upload_two_documents(server)
        result = await asyncio.wait_for(compare(server, documents, "Which costs more?"), 90)
        assert (result["status"], result["answer"]) == ("completed", "The second costs more."), result
        assert result["extraction"] is None
        codes = [
            (one["tool"], one["code"])
            for one in sql(
                clone.owner_url,
                "select tool, code from public.tool_calls where run_id = %s order by created_at",
                UUID(result["run_id"]),
            )
        ]
        assert codes == [("wait_for_others", "waited"), ("read_fields", "fields_read"), ("note", "noted")]
        all_events = events(clone.owner_url, result["run_id"])
        found = [one.get("output") or one.get("error") for one in all_events if one.get("tool_result") == "find_value"]
        assert ["is on page 1" in one for one in found if one] == [True, True, False]
        ends = [one["call_id"] for one in all_events if one["type"] == "tool_result"]
        assert len(ends) == len(set(ends)) == 6
        (child,) = sql(
            clone.owner_url,
            "select status, parent_run_id, root_run_id from public.runs where parent_run_id is not null",
        )
        assert child["status"] == "completed"
        assert str(child["parent_run_id"]) == str(child["root_run_id"]) == result["run_id"]
        (thread,) = sql(clone.owner_url, "select working_state from public.threads")
        assert thread["working_state"] == {"note": "20 is more"}
        # The cost of the run includes its child run.
        (sums,) = sql(
            clone.owner_url,
            "select private.cost_of_run(%s) as all, (select sum(cost_usd) from public.usage) as each",
            UUID(result["run_id"]),
        )
        assert sums["all"] == sums["each"] > 0


async def test_cancelling_interrupts_a_slow_tool(serve, clone, toy):
    async with serve(script([call("wait_for_others", {"seconds": 60})], [text("Done.")])) as server:
        documents = await upload_two_documents(server)
        asking = asyncio.create_task(compare(server, documents, "Wait."))
        query = "select run_id from public.tool_calls where status = 'approved'"
        ((run,),) = [await until(lambda: sql(clone.owner_url, query))]
        await asyncio.sleep(0.5)  # the tool is running
        cancelled = await server.http.post(f"/api/runs/{run['run_id']}/cancel")
        assert cancelled.json()["status"] == "cancelled"
        result = await asyncio.wait_for(asking, 50)  # the tool waits 60 seconds
        assert result["status"] == "cancelled"


async def test_turns_of_a_thread_run_in_order(serve, clone, toy):
    async with serve(lambda body: [text("Yes.")]) as server:
        documents = await upload_two_documents(server)
        thread_id = await get_thread_id(server, await compare(server, documents, "One."))
        body = {"documents": documents, "message": "Two.", "thread_id": thread_id, "wait": False}
        assert (await server.http.post("/api/agent/compare", json=body)).status_code == 202
        last = await compare(server, documents, "Three.", thread_id=thread_id)
        assert last["status"] == "completed"
        sent = [json.dumps(request["messages"]) for request in server.model.requests]
        assert ["One." in sent[0], "Two." in sent[1], "Three." in sent[2]] == [True] * len(sent)
