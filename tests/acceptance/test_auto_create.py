"""A document's suggested schema, through HTTP, the worker and the real CLI, with a scripted model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from extraction_case import sql, until
from fieldmark.agents.document.agent import AUTO_CREATE, DOCUMENT
from fieldmark.agents.registry import registered
from fieldmark.offline_model.messages import Body, call, objects_in, text
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio

INVOICE = "INVOICE\nInvoice number: {0}\nInvoice date: 2024-01-0{0}\nVendor: Acme\nSubtotal: {0}.00\nTotal: {0}.00\n"
SCHEMA = {"type": "object", "properties": {"total": {"type": "number"}}}
EXTRACTED = Script(
    [
        [
            call("identify_document", {"document_type": "invoice", "confidence": 0.9}),
            call("extract_fields", {"fields": {"total": 1.0}, "confidences": {"total": 0.9}}),
            call("complete_extraction", {"summary": "Read."}),
        ],
        [text("Read.")],
    ]
)
MADE: list[Any] = [
    [call("create_schema", {"name": "Invoices", "schema": SCHEMA})],
    [call("create_prompt", {"name": "Invoices", "content": "Read the total."})],
    [call("run_extraction")],
    [text("I propose a schema for invoices.")],
]
TAKEN: list[Any] = [[call("run_extraction")], [text("I have used the schema that is there.")]]


def model(*steps: Any, extraction_answer: Any = EXTRACTED) -> Callable[[Body], Any]:
    """Return a model that plays `steps` as the document agent and `extraction_answer` as the extraction agent."""
    script = steps[0] if len(steps) == 1 and callable(steps[0]) else Script(steps)

    async def answer(body: Body) -> Any:
        names = {str(tool.get("name")).rsplit("__", 1)[-1] for tool in objects_in(body, "tools")}
        return await (script if "create_schema" in names else extraction_answer)(body)

    return answer


async def upload(server: Any, number: int = 1, **query: Any) -> dict[str, Any]:
    file = {"file": (f"{number}.txt", INVOICE.format(number).encode())}
    answer = await server.http.post("/api/documents", files=file, params={"auto_create": "true", **query})
    assert answer.status_code == 201, answer.text
    return answer.json()


async def wait_for_suggestion(server: Any, document: dict[str, Any]) -> dict[str, Any]:
    """Wait until the document's run ends and return its auto_create state."""

    async def has_ended() -> Any:
        now = await server.get(f"documents/{document['id']}")
        return now if now["auto_create"] and now["auto_create"]["status"] != "running" else None

    return await until(has_ended)


async def decide(server: Any, document: dict[str, Any], decision: str, **more: Any) -> dict[str, Any]:
    body = more or None
    answer = await server.http.post(f"/api/documents/{document['id']}/auto_create/{decision}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["auto_create"]


def created_rows(clone: Any) -> dict[str, int]:
    tables = ("schemas", "prompts", "extractions", "tags")
    rows = {table: sql(clone.owner_url, f"select count(*) as n from {table}")[0]["n"] for table in tables}
    return {table: n for table, n in rows.items() if n}


ALL = {"schemas": 1, "prompts": 1, "extractions": 1}


@pytest.mark.story
async def test_suggestions_are_refined_in_a_chat_and_accepted(serve, clone):
    refined = {"type": "object", "properties": {**SCHEMA["properties"], "payment_terms": {"type": "string"}}}
    made, refines = Script(MADE), Script([[call("update_schema", {"schema": refined})], [text("I have added it.")]])

    async def chat_answer(body: Body) -> Any:
        return await (refines if "add payment_terms" in str(body["messages"]) else made)(body)

    async with serve(model(chat_answer)) as server:
        before = await upload(server)
        assert before["auto_create"] is None
        document = await wait_for_suggestion(server, before)
        auto_create = document["auto_create"]
        assert document["status"] == "ready"
        assert (auto_create["status"], auto_create["error"], auto_create["matched"]) == ("proposed", None, None)
        extraction = await server.get(f"extractions/{auto_create['extraction_id']}")
        assert extraction["extracted_fields"] == {"total": 1.0}
        assert (extraction["schema_revid"], extraction["prompt_revid"]) == (
            auto_create["schema_revid"],
            auto_create["prompt_revid"],
        )
        assert extraction["proposed"]
        (listed,) = (await server.get("documents"))["items"]
        assert listed["auto_create"] == auto_create
        # The whole conversation of the run can be read.
        run = await server.get(f"runs/{auto_create['run_id']}")
        assert run["status"] == "completed"
        calls = sql(clone.owner_url, "select tool, status from tool_calls where run_id = %s", auto_create["run_id"])
        assert {row["tool"]: row["status"] for row in calls} == dict.fromkeys(
            ("create_schema", "create_prompt", "run_extraction"), "done"
        )
        # A chat changes the suggested items without getting their ids.
        thread = (await server.http.post("/api/threads", json={"document_id": document["id"]})).json()["id"]
        state = (await server.get(f"threads/{thread}"))["working_state"]
        assert state == {name: auto_create[name] for name in ("schema_revid", "prompt_revid", "extraction_id")}
        answer = await server.chat(document["id"], "add payment_terms", approval="auto", thread_id=thread)
        assert answer["answer"] == "I have added it.", answer
        (version,) = sql(clone.owner_url, "select schema from schema_versions where number = 2")
        assert version["schema"] == refined
        sent = server.model.requests[-1]["messages"][0]["content"]
        assert auto_create["prompt_revid"] in str(sent) and '"fields": {"total": 1' in str(sent)
        assert [one["proposed"] for one in (await server.get("schemas"))["items"]] == [True]
        tag = (await server.http.post("/api/tags", json={"name": "invoices"})).json()
        key = await server.http.post("/api/keys", json={"name": "Approver", "scopes": ["runs:read", "runs:approve"]})
        async with server.client_with_token(key.json()["key"]) as machine:
            assert (await machine.get("/api/agent/tools")).json()["always_ask"] is False
            there = f"/api/documents/{document['id']}/auto_create/accept"
            refused = await machine.post(there, json={"tags": [tag["id"]]})
            assert (refused.status_code, refused.json()["code"]) == (403, "scope_missing")
        assert (await decide(server, document, "accept", tags=[tag["id"]]))["status"] == "accepted"
        assert [one["name"] for one in (await server.get(f"documents/{document['id']}"))["tags"]] == ["invoices"]
        again = await server.get(f"extractions/{auto_create['extraction_id']}")
        assert not again["proposed"]
        for kind in ("schemas", "prompts"):
            assert [one["proposed"] for one in (await server.get(kind))["items"]] == [False]
        assert created_rows(clone) == {**ALL, "tags": 1}
        # The run can be read afterwards.
        events = await server.events(auto_create["run_id"])
        assert {"create_schema", "create_prompt", "run_extraction"} <= {one.get("tool") for one in events}


NULL = Script([[call("extract_fields", {"fields": {"total": None}}), call("complete_extraction")], [text("None.")]])


async def test_nothing_is_proposed_without_extracted_fields(serve, clone):
    async with serve(model(*MADE, extraction_answer=NULL)) as server:
        auto_create = (await wait_for_suggestion(server, await upload(server)))["auto_create"]
        assert (auto_create["status"], auto_create["extraction_id"]) == ("failed", None)
        assert auto_create["error"] == "No fields were extracted from the document."
        assert created_rows(clone) == {}


async def test_unfinished_extraction_is_proposed_unless_one_was_completed(serve):
    unfinished = [[call("extract_fields", {"fields": {"total": 2.0}})], [text("That is all.")]]
    whole = [[call("extract_fields", {"fields": {"total": 1.0}}), call("complete_extraction", {"summary": "Read."})]]
    for first, again, expected in ((unfinished, [], 2.0), (whole, unfinished, 1.0)):
        steps = [*MADE[:3], *([[call("run_extraction")]] if again else []), MADE[3]]
        scripts, seen = iter((Script(first), Script(again))), {}

        async def extraction_answer(body: Body, scripts: Any = scripts, seen: Any = seen) -> Any:
            first_message = str(objects_in(body, "messages")[0])
            if first_message not in seen:
                seen[first_message] = next(scripts)
            return await seen[first_message](body)

        async with serve(model(*steps, extraction_answer=extraction_answer)) as server:
            auto_create = (await wait_for_suggestion(server, await upload(server, int(expected))))["auto_create"]
            assert auto_create["status"] == "proposed", auto_create
            extraction = await server.get(f"extractions/{auto_create['extraction_id']}")
            assert extraction["extracted_fields"] == {"total": expected}


async def test_similar_document_uses_the_existing_schema(serve, clone):
    numbers = iter((MADE, TAKEN))
    scripts: dict[str, Script] = {}

    async def answer_by_script(body: Body) -> Any:
        # Each run has its own script, in order of their starts.
        first = str(objects_in(body, "messages")[0])
        said = next(word for word in ("1.txt", "2.txt") if word in first)
        if said not in scripts:
            scripts[said] = Script(next(numbers))
        return await scripts[said](body)

    async with serve(model(answer_by_script)) as server:
        first = await wait_for_suggestion(server, await upload(server, 1))
        second = await wait_for_suggestion(server, await upload(server, 2))
        auto_create = second["auto_create"]
        assert auto_create["status"] == "proposed", auto_create
        assert auto_create["matched"]["document_id"] == first["id"]
        assert (
            auto_create["matched"]["schema_revid"]
            == auto_create["schema_revid"]
            == first["auto_create"]["schema_revid"]
        )
        assert auto_create["prompt_revid"] is None
        assert "5 of 5" in auto_create["matched"]["why"]
        assert created_rows(clone) == {**ALL, "extractions": 2}
        requests = [str(body["messages"][0]) for body in server.model.requests if "create_schema" in str(body["tools"])]
        assert any("Make no other schema" in one and auto_create["schema_revid"] in one for one in requests)
        assert (await decide(server, second, "reject"))["status"] == "rejected"
        assert created_rows(clone) == ALL
        assert (await decide(server, first, "reject"))["status"] == "rejected"
        assert created_rows(clone) == {}


async def test_child_runs_share_the_time_limit(serve, clone):
    async def silent(_: Body) -> Any:
        await asyncio.sleep(600)

    task = replace(AUTO_CREATE, seconds=3)
    with registered(replace(DOCUMENT, tasks={**DOCUMENT.tasks, task.name: task})):
        async with serve(model(*MADE, extraction_answer=Script([silent]))) as server:
            auto_create = (await wait_for_suggestion(server, await upload(server)))["auto_create"]
            assert auto_create["status"] == "failed"
            codes = sql(clone.owner_url, "select error_code from runs where parent_run_id is null")
            assert codes == [{"error_code": "deadline"}]
            assert created_rows(clone) == {}
