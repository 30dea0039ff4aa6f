"""A table filled from a stack of documents, over HTTP and with the real CLI: from proposed columns to an export."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest

from extraction_case import add_member, sql, until
from fieldmark.agents.registry import answer_offline

pytestmark = pytest.mark.anyio


def invoice(number: int) -> bytes:
    return f"Invoice number: R-{number}\nVendor: Firm {number} GmbH\nTotal: {number}0.50 EUR\n".encode()


async def upload(server, stack_id: str, name: str, content: bytes) -> str:
    answer = await server.http.post("/api/documents", params={"stack_id": stack_id}, files={"file": (name, content)})
    assert answer.status_code == 201, answer.text
    await server.wait_until_read(answer.json()["id"])
    return answer.json()["id"]


async def rows_by_name(server, stack_id: str) -> dict:
    return {row["filename"]: row for row in (await server.get(f"tables/{stack_id}/rows"))["items"]}


@pytest.mark.story
async def test_table_is_proposed_approved_filled_corrected_and_exported(serve, clone):
    async with serve(answer_offline) as server:
        made = await server.http.post("/api/stacks", json={"name": "Invoices"})
        assert made.status_code == 201, made.text
        stack_id = made.json()["id"]
        assert (await server.http.post("/api/agent/stack", json={"stack_id": stack_id})).status_code == 409  # no files
        for number in (1, 2):
            await upload(server, stack_id, f"{number}.txt", invoice(number))
        await upload(server, stack_id, "copy.txt", invoice(1))
        await upload(server, stack_id, "broken.pdf", b"%PDF-1.7 broken")

        # The agent proposes columns; a person drops one, and approves reading the rest.
        result = (await server.http.post("/api/agent/stack", json={"stack_id": stack_id})).json()
        assert result["waits_for"]["tool"] == "define_columns", result
        proposed = {one["name"]: one for one in result["waits_for"]["input"]["columns"]}
        assert {"invoice_number", "total"} <= proposed.keys()
        columns = [{"name": "invoice_number", "description": "As it is printed"}, proposed["total"]]
        result = (await server.decide(result, input={"columns": columns})).json()
        assert result["waits_for"]["tool"] == "extract_row"
        assert [change["new"] for change in result["waits_for"]["changes"]][:1] == [2]
        result = (await server.decide(result)).json()
        assert result["status"] == "completed", result
        rows = await rows_by_name(server, stack_id)
        assert {name: row["status"] for name, row in rows.items()} == {
            "1.txt": "done",
            "2.txt": "done",
            "copy.txt": "duplicate",
            "broken.pdf": "failed",
        }
        assert rows["broken.pdf"]["error_code"] == "damaged"
        assert rows["copy.txt"]["duplicate_of"] == rows["1.txt"]["document_id"]
        total = rows["2.txt"]["cells"]["total"]
        assert (total["value"], total["page"], total["is_verified"]) == (20.5, 1, True)
        progress = [event for event in await server.events(result["run_id"]) if event["type"] == "progress"]
        assert [(one["done"], one["left"]) for one in progress] == [(1, 1), (2, 0)]

        # A person sets a value; a column is added, and only that column is read.
        fixed = rows["1.txt"]["extraction_id"]
        answer = await server.http.patch(f"/api/extractions/{fixed}/fields", json={"path": "total", "value": 11})
        assert answer.status_code == 200, answer.text
        await upload(server, stack_id, "3.txt", invoice(3))
        body = {"columns": [*columns, {"name": "vendor"}], "preview": True}
        changes = (await server.http.put(f"/api/stacks/{stack_id}/columns", json=body)).json()["changes"]
        assert (changes["read_again"], (await server.get(f"stacks/{stack_id}"))["progress"]["stale"]) == (2, 0)
        again = {"stack_id": stack_id, "columns": body["columns"], "approval": "auto"}
        result = (await server.http.post("/api/agent/stack", json=again)).json()
        assert result["status"] == "completed", result
        rows = await rows_by_name(server, stack_id)
        values = {name: {key: cell["value"] for key, cell in row["cells"].items()} for name, row in rows.items()}
        assert values["3.txt"] == {"invoice_number": "R-3", "total": 30.5, "vendor": "Firm 3 GmbH"}
        assert (values["1.txt"]["total"], values["1.txt"]["vendor"]) == (11, "Firm 1 GmbH")
        read = sql(clone.owner_url, "select input, count(*) from public.runs where task = 'extract' group by 1")
        assert sorted((str(one["input"].get("fields")), one["count"]) for one in read) == [
            ("None", 3),
            ("['vendor']", 2),
        ]

        # Another meaning of a column: its old and new values are shown, and a person's own stays.
        columns[1] = {**columns[1], "description": "Without tax."}
        again["columns"] = [*columns, {"name": "vendor"}]
        patched = await server.http.patch(
            f"/api/extractions/{rows['3.txt']['extraction_id']}/fields", json={"path": "vendor", "value": "Third"}
        )
        assert patched.status_code == 200
        assert (await server.http.post("/api/agent/stack", json=again)).json()["status"] == "completed"
        changes = await server.get(f"stacks/{stack_id}/changes")
        assert changes["items"] == []  # the same values were read again
        renamed = {"stack_id": stack_id, "message": "set total of 2.txt to 21", "approval": "auto"}
        assert (await server.http.post("/api/agent/stack_correct", json=renamed)).json()["status"] == "completed"
        # A correction that fails or changes nothing does not hide them.
        unclear = {**renamed, "message": "set total of 99.txt to 21"}
        assert (await server.http.post("/api/agent/stack_correct", json=unclear)).json()["status"] == "completed"
        changes = await server.get(f"stacks/{stack_id}/changes")
        (change,) = changes["items"]
        assert changes["next"] is None
        assert (change["filename"], change["path"], change["old"], change["new"]) == ("2.txt", "total", 20.5, 21)
        # (Locked: it is the person's own value.)
        assert (change["is_current"], change["is_restored"], change["is_locked"]) == (True, False, True)
        lock = f"/api/extractions/{change['extraction_id']}/locks"
        assert (await server.http.delete(lock, params={"path": change["path"]})).status_code == 200
        (change,) = (await server.get(f"stacks/{stack_id}/changes"))["items"]
        assert (change["now"], change["is_current"], change["is_locked"]) == (21, True, False)
        restored = {"path": change["path"], "value": change["old"]}
        answer = await server.http.patch(
            f"/api/extractions/{change['extraction_id']}/fields",
            json=restored,
            headers={"If-Match": f'"{change["version"]}"'},
        )
        assert answer.status_code == 200, answer.text
        (change,) = (await server.get(f"stacks/{stack_id}/changes"))["items"]
        assert (change["now"], change["is_current"], change["is_restored"]) == (20.5, False, True)

        # In words, and into a file.
        message = {"stack_id": stack_id, "message": "drop the invoice number column", "approval": "auto"}
        result = (await server.http.post("/api/agent/stack_correct", json=message)).json()
        assert result["status"] == "completed", result
        stack = await server.get(f"stacks/{stack_id}")
        assert [one["name"] for one in stack["columns"]] == ["total", "vendor"]
        assert stack["progress"] | {"cost_usd": 0} == {
            "documents": 5, "done": 3, "incomplete": 0, "failed": 1, "unreadable": 1, "waiting": 0, "running": 0,
            "awaiting_approval": 0, "stale": 0, "duplicates": 1, "containers": 0, "cost_usd": 0,
        }  # fmt: skip
        answer = await server.http.get(f"/api/tables/{stack_id}/export", params={"row_status": "done"})
        lines = list(csv.reader(io.StringIO(answer.content.decode("utf-8-sig"))))
        assert [line[9:] for line in lines] == [
            ["total", "vendor"],
            ["30.5", "Third"],
            ["20.5", "Firm 2 GmbH"],
            ["11", "Firm 1 GmbH"],
        ]


async def test_cost_ceiling_stops_a_run_and_the_next_run_reads_what_is_left(serve):
    async with serve(answer_offline) as server:
        body = {"name": "Invoices", "columns": [{"name": "total", "type": "number"}]}
        stack_id = (await server.http.post("/api/stacks", json=body)).json()["id"]
        for number in range(1, 8):
            await upload(server, stack_id, f"{number}.txt", invoice(number))
        fill = {"stack_id": stack_id, "approval": "auto"}
        result = (await server.http.post("/api/agent/stack", json={**fill, "max_cost_usd": 0.02})).json()
        assert (result["status"], result["code"]) == ("failed", "max_cost"), result
        progress = (await server.get(f"stacks/{stack_id}"))["progress"]
        assert (progress["failed"], progress["done"] + progress["waiting"] + progress["running"]) == (0, 7)
        assert progress["waiting"] > 0
        left = await server.get(f"tables/{stack_id}/rows?row_status=waiting")
        assert {row["error_code"] for row in left["items"]} <= {"max_cost", None}
        assert (await server.http.post("/api/agent/stack", json=fill)).json()["status"] == "completed"
        assert (await server.get(f"stacks/{stack_id}"))["progress"]["done"] == 7


async def test_rows_wait_for_a_second_person_who_finds_them_by_their_stack(serve, clone):
    async with serve(answer_offline) as server:
        body = {"name": "Invoices", "columns": [{"name": "total", "type": "number"}]}
        stack_id, other_id = [
            (await server.http.post("/api/stacks", json={**body, "name": name})).json()["id"] for name in ("One", "Two")
        ]
        for number in (1, 2):
            await upload(server, stack_id, f"{number}.txt", invoice(number))
        colleague = add_member(clone.owner_url, server.scope.org_id)
        changed = await server.http.patch(f"/api/organisations/{server.scope.org_id}", json={"second_person": True})
        assert changed.status_code == 200, changed.text
        result = (await server.http.post("/api/agent/stack", json={"stack_id": stack_id})).json()
        assert result["waits_for"]["tool"] == "extract_row", result

        async with server.client(colleague) as second:
            second.headers["X-Org-Id"] = str(server.scope.org_id)

            async def approve(run_id: str, call_id: str) -> None:
                decision = {"run_id": run_id, "approvals": [{"call_id": call_id, "approved": True}], "wait": False}
                answer = await second.post("/api/agent/approve", json=decision)
                assert answer.status_code == 202, answer.text

            async def progress_is(**expected: int) -> bool:
                progress = (await server.get(f"stacks/{stack_id}"))["progress"]
                return {name: progress[name] for name in expected} == expected

            await approve(result["run_id"], result["waits_for"]["call_id"])
            await until(lambda: progress_is(awaiting_approval=2, running=0, done=0))
            rows = await server.get(f"tables/{stack_id}/rows?row_status=awaiting_approval")
            assert {row["filename"] for row in rows["items"]} == {"1.txt", "2.txt"}

            query = {"status": "awaiting_approval", "stack_id": stack_id}
            waiting = (await second.get("/api/runs", params=query)).json()["items"]
            assert [(run["task"], run["decision_refusal"]) for run in waiting] == [("extract", None)] * 2
            assert (await second.get("/api/runs", params={**query, "stack_id": other_id})).json()["items"] == []
            own = (await server.http.get("/api/runs", params=query)).json()["items"]
            assert {run["decision_refusal"] for run in own} == {"second_person_needed"}

            for run in waiting:
                await approve(run["id"], run["waits_for"]["call_id"])
            await until(lambda: progress_is(awaiting_approval=0, done=2))


async def test_samples_fill_a_table_with_one_doubt_and_one_missing_total(serve):
    async with serve(answer_offline) as server:
        stack = (await server.http.post("/api/stacks/samples", json={})).json()

        async def is_filled() -> bool:
            return (await server.get(f"stacks/{stack['id']}"))["run"]["status"] == "completed"

        await until(is_filled, seconds=120)

        async def cells() -> dict[tuple[str, str], dict[str, Any]]:
            rows = (await server.get(f"tables/{stack['id']}/rows"))["items"]
            return {(one["filename"], column): cell for one in rows for column, cell in one["cells"].items()}

        async def is_checked() -> bool:  # the service finds what is missing within two seconds
            return (await cells()).get(("taxi.pdf", "total"), {}).get("reason") == "missing"

        await until(is_checked)
        values = await cells()
        need = {key: one["reason"] for key, one in values.items() if one["status"] in ("needs_review", "unclear")}
        assert need == {("cafe.pdf", "date"): "ambiguous_date", ("taxi.pdf", "total"): "missing"}
        assert len([key for key, one in values.items() if one["value"] is not None]) == 14
        again = await server.http.post("/api/stacks/samples", json={})
        assert again.json()["id"] == stack["id"]
