"""Workers killed while the document agent runs: another worker completes the run, and nothing is created twice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from child_processes import is_alive
from extraction_case import until
from fieldmark.offline_model.messages import call, objects_in, text

pytestmark = pytest.mark.anyio

PAGE_TEXT = "INVOICE\nInvoice number: 1\nVendor: Acme GmbH\nTotal: 10.00 EUR\n"
SCHEMA = {"type": "object", "properties": {"total": {"type": "number"}}}
CREATED = {
    "create_schema": call("create_schema", {"name": "Invoices", "schema": SCHEMA}),
    "create_prompt": call("create_prompt", {"name": "Invoices", "content": "Read the total."}),
    "run_extraction": call("run_extraction"),
}
STORED = {"create_schema": "schema_revid", "create_prompt": "prompt_revid", "run_extraction": "extraction_id"}


class HangingModel:
    """A model that hangs once at each of `places`, where the test kills the worker. It decides its next step from the
    tools it has called and the state it is shown."""

    def __init__(self, *places: str, steps: dict[str, str]) -> None:
        self.places, self.steps = list(places), steps
        self.reached = asyncio.Event()

    async def __call__(self, body: Any) -> Any:
        names = {str(tool.get("name")).rsplit("__", 1)[-1] for tool in objects_in(body, "tools")}
        body = str(body["messages"])
        if "create_schema" in names:
            left = [tool for tool, kept in self.steps.items() if f"__{tool}'" not in body and f'"{kept}"' not in body]
            place = left[0] if left else "the end"
            answer = [CREATED[left[0]] if left else text("Made.")]
        else:
            place = "the part" if "__extract_fields'" not in body else "the end of the part"
            answer = [
                call("extract_fields", {"fields": {"total": 10}, "confidences": {"total": 0.9}})
                if place == "the part"
                else call("complete_extraction", {"summary": "An invoice."})
            ]
            answer = [text("Read.")] if "__complete_extraction'" in body else answer
        if place in self.places:
            self.places.remove(place)
            self.reached.set()
            await asyncio.Event().wait()
        return answer


async def kill_worker(hosts: Any, worker: Any, **settings: str) -> Any:
    """Kill a worker with SIGKILL, age its heartbeat by an hour, and start another one."""
    cli_processes = worker.cli_processes()
    worker.kill()
    await until(lambda: not any(map(is_alive, cli_processes)))
    hosts.sql("update queue.procrastinate_workers set last_heartbeat = last_heartbeat - interval '1 hour' returning id")
    return await hosts.worker(**settings)


def count_rows(hosts: Any, table: str) -> int:
    return hosts.sql(f"select count(*) as n from {table}")[0]["n"]


@pytest.mark.long
async def test_suggestions_survive_workers_killed_between_steps(on_hosts):
    places = ["the end of the part", "the end"]
    model = HangingModel(*places, steps=STORED)
    async with on_hosts(model) as hosts:
        api, worker = await asyncio.gather(hosts.api(), hosts.worker())
        file = {"file": ("a.txt", PAGE_TEXT.encode())}
        document = (await api.http.post("/api/documents", files=file, params={"auto_create": "true"})).json()
        for _ in places:
            await until(model.reached.is_set, 60)
            model.reached.clear()
            worker = await kill_worker(hosts, worker)

        async def has_ended() -> Any:
            auto_create = (await api.http.get(f"/api/documents/{document['id']}")).json()["auto_create"]
            return auto_create if auto_create["status"] != "running" else None

        auto_create = await until(has_ended, 60)
        assert (auto_create["status"], auto_create["error"]) == ("proposed", None)
        created = ("schemas", "schema_versions", "prompts", "prompt_versions", "extractions")
        assert {table: count_rows(hosts, table) for table in created} == dict.fromkeys(created, 1)
        assert hosts.sql("select extracted_fields from extractions") == [{"extracted_fields": {"total": 10}}]
        assert {row["status"] for row in hosts.sql("select status from runs")} == {"completed"}
        numbers = [
            row["number"]
            for row in hosts.sql(
                "select number from run_events where run_id = %s order by number", auto_create["run_id"]
            )
        ]
        assert numbers == sorted(set(numbers))
        rejected = await api.http.post(f"/api/documents/{document['id']}/auto_create/reject")
        assert rejected.json()["auto_create"]["status"] == "rejected"
        assert {table: count_rows(hosts, table) for table in created} == dict.fromkeys(created, 0)


@pytest.mark.long
async def test_turn_survives_workers_killed_while_it_waits_and_afterwards(on_hosts):
    model = HangingModel("the end", steps={"create_schema": "schema_revid"})
    async with on_hosts(model) as hosts:
        api, worker = await asyncio.gather(hosts.api(), hosts.worker())
        document = await api.document(PAGE_TEXT)
        body = {"document_id": document["id"], "message": "make a schema", "wait": False}
        started = (await api.http.post("/api/agent/chat", json=body)).json()
        # Killed while the run waits for approval (the worker keeps the CLI attached), and after the decision.
        run = await hosts.wait_for_run(started["run_id"], "awaiting_approval")
        worker.kill()
        approval = {"call_id": run["waiting_call"], "approved": True}
        decided = await api.http.post(
            "/api/agent/approve", json={"run_id": started["run_id"], "approvals": [approval], "wait": False}
        )
        assert decided.status_code == 202, decided.text
        assert count_rows(hosts, "schemas") == 1
        worker = await kill_worker(hosts, worker)
        await until(model.reached.is_set, 60)
        await kill_worker(hosts, worker)
        run = await hosts.wait_for_run(started["run_id"], "completed")
        assert run["answer"] == "Made."
        assert count_rows(hosts, "schema_versions") == 1
        turns = (await api.http.get(f"/api/threads/{started['thread_id']}")).json()["turns"]
        assert [turn["answer"] for turn in turns] == ["Made."]
