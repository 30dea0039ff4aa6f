"""Workers that are killed, for real, while the document agent is at work: another brings it to its end, once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from extraction_case import until
from fieldmark.offline_model.messages import call, objects_in, text

pytestmark = pytest.mark.anyio

PRINTED = "INVOICE\nInvoice number: 1\nVendor: Acme GmbH\nTotal: 10.00 EUR\n"
SCHEMA = {"type": "object", "properties": {"total": {"type": "number"}}}
MADE = {
    "create_schema": call("create_schema", {"name": "Invoices", "schema": SCHEMA}),
    "create_prompt": call("create_prompt", {"name": "Invoices", "content": "Read the total."}),
    "run_extraction": call("run_extraction"),
}
KEPT = {"create_schema": "schema_revid", "create_prompt": "prompt_revid", "run_extraction": "extraction_id"}


class Deadly:
    """A model that keeps silent where a worker is to be killed, once at each place, and goes on with whoever asks
    again. It sees what is left to be done by its calls and by the state that it is shown."""

    def __init__(self, *places: str, steps: dict[str, str]) -> None:
        self.places, self.steps = list(places), steps
        self.reached = asyncio.Event()

    async def __call__(self, body: Any) -> Any:
        names = {str(tool.get("name")).rsplit("__", 1)[-1] for tool in objects_in(body, "tools")}
        said = str(body["messages"])
        if "create_schema" in names:
            left = [tool for tool, kept in self.steps.items() if f"__{tool}'" not in said and f'"{kept}"' not in said]
            place = left[0] if left else "the end"
            answer = [MADE[left[0]] if left else text("Made.")]
        else:
            place = "the part" if "__extract_fields'" not in said else "the end of the part"
            answer = [
                call("extract_fields", {"fields": {"total": 10}, "confidences": {"total": 0.9}})
                if place == "the part"
                else call("complete_extraction", {"summary": "An invoice."})
            ]
            answer = [text("Read.")] if "__complete_extraction'" in said else answer
        if place in self.places:
            self.places.remove(place)
            self.reached.set()
            await asyncio.Event().wait()
        return answer


async def killed(hosts: Any, worker: Any) -> Any:
    """Kill a worker with SIGKILL. The one that takes its place finds it silent for an hour."""
    cli_processes = worker.cli_processes()
    worker.kill()
    await until(lambda: not any(cli.is_running() for cli in cli_processes))
    hosts.sql("update queue.procrastinate_workers set last_heartbeat = last_heartbeat - interval '1 hour' returning id")
    return await hosts.worker()


def count(hosts: Any, table: str) -> int:
    return hosts.sql(f"select count(*) as n from {table}")[0]["n"]


@pytest.mark.long
async def test_proposals_survive_workers_killed_between_steps(on_hosts):
    places = ["the end of the part", "the end"]
    model = Deadly(*places, steps=KEPT)
    async with on_hosts(model) as hosts:
        api, worker = await asyncio.gather(hosts.api(), hosts.worker())
        file = {"file": ("a.txt", PRINTED.encode())}
        document = (await api.http.post("/api/documents", files=file, params={"auto_create": "true"})).json()
        for _ in places:
            await until(model.reached.is_set, 60)
            model.reached.clear()
            worker = await killed(hosts, worker)

        async def has_ended() -> Any:
            auto_create = (await api.http.get(f"/api/documents/{document['id']}")).json()["auto_create"]
            return auto_create if auto_create["status"] != "running" else None

        auto_create = await until(has_ended, 60)
        assert (auto_create["status"], auto_create["error"]) == ("proposed", None)
        made = ("schemas", "schema_versions", "prompts", "prompt_versions", "extractions")
        assert {table: count(hosts, table) for table in made} == dict.fromkeys(made, 1)
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
        assert {table: count(hosts, table) for table in made} == dict.fromkeys(made, 0)


@pytest.mark.long
async def test_turn_survives_workers_killed_while_it_waits_and_afterwards(on_hosts):
    model = Deadly("the end", steps={"create_schema": "schema_revid"})
    async with on_hosts(model) as hosts:
        api, worker = await asyncio.gather(hosts.api(), hosts.worker())
        document = await api.document(PRINTED)
        said = {"document_id": document["id"], "message": "make a schema", "wait": False}
        begun = (await api.http.post("/api/agent/chat", json=said)).json()
        # While it waits for a person (its worker holds on to the CLI), and after the decision.
        run = await hosts.run_at(begun["run_id"], "awaiting_approval")
        worker.kill()
        approval = {"call_id": run["waiting_call"], "approved": True}
        decided = await api.http.post(
            "/api/agent/approve", json={"run_id": begun["run_id"], "approvals": [approval], "wait": False}
        )
        assert decided.status_code == 202, decided.text
        assert count(hosts, "schemas") == 1
        worker = await killed(hosts, worker)
        await until(model.reached.is_set, 60)
        await killed(hosts, worker)
        run = await hosts.run_at(begun["run_id"], "completed")
        assert run["answer"] == "Made."
        assert count(hosts, "schema_versions") == 1
        turns = (await api.http.get(f"/api/threads/{begun['thread_id']}")).json()["turns"]
        assert [turn["answer"] for turn in turns] == ["Made."]
