"""Lists of runs: pending approvals, costs and usage."""

from __future__ import annotations

from uuid import uuid4

import pytest
from answers import assert_problem

from extraction_case import sql
from fieldmark.offline_model.messages import call, text
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio

TOTAL = call("update_field", {"path": "total", "value": 10, "confidence": 0.9})


async def test_listed_run_contains_its_pending_approval(serve, clone):
    async with serve(Script([[TOTAL], [text("Done.")]])) as server:
        body = {"document_id": str(await server.upload_text()), "approval": "ask"}
        ids = [(await server.extract(**body))["run_id"] for _ in range(3)]
        listed = await server.get("runs?limit=200")
        assert [run["id"] for run in listed["items"]] == ids[::-1] and listed["next"] is None
        for run in listed["items"]:
            assert (run["status"], run["usage"]["turns"]) == ("awaiting_approval", 1)
            waiting = run["waits_for"]
            assert (waiting["call_id"], waiting["message"]) == (run["waiting_call"], "Updating total")
            (change,) = waiting["changes"]
            assert (change["path"], change["old"], change["new"], change["added"]) == ("total", None, 10, True)
            # The same as the single run, except for the usage by model.
            alone = await server.get(f"runs/{run['id']}")
            assert run == alone | {"models": None} and alone["models"][0]["turns"] == 1

        # Paging continues even if the last run is deleted.
        first = await server.get("runs?limit=1")
        sql(clone.owner_url, "delete from public.runs where id = %s", first["items"][0]["id"])
        rest = (await server.http.get("/api/runs", params={"before": first["next"]})).json()
        assert [run["id"] for run in rest["items"]] == ids[1::-1] and rest["next"] is None
        # Neither a run's id nor a cursor of another list is a cursor.
        assert_problem(await server.http.get(f"/api/runs?before={uuid4()}"), 422)
        assert_problem(await server.http.get("/api/documents", params={"before": first["next"]}), 422)
        assert_problem(await server.http.get("/api/runs?agent=extraction"), 422)


async def test_run_with_an_error_code_of_a_newer_version_is_served(serve, clone):
    async with serve(Script([[TOTAL], [text("Done.")]])) as server:
        turn = await server.chat(await server.upload_text(), "Set the total.", approval="ask")
        code = "of_a_newer_version"
        sql(clone.owner_url, "update public.runs set status = 'failed', error = 'x', error_code = %s", code)
        (listed,) = (await server.get("runs"))["items"]
        (shown,) = (await server.thread(turn))["turns"]
        single = await server.get(f"runs/{turn['run_id']}")
        assert [one["error_code"] for one in (listed, shown, single)] == [code] * 3


ADD_CHILD_RUN = """
insert into public.runs (org_id, created_by, agent, task, document_id, extraction_id, parent_run_id)
select org_id, created_by, agent, task, document_id, extraction_id, id from public.runs where id = %s returning id
"""
ADD_USAGE = """
insert into public.usage (
  run_id, message_id, org_id, agent, model, input_tokens, output_tokens, cache_write_5m_tokens, cache_write_1h_tokens,
  cache_read_tokens, cost_usd)
select id, 'more', org_id, agent, 'm', 1, 2, 3, 4, 5, %s from public.runs where id = %s
"""


async def test_cost_of_a_listed_run_includes_child_runs_but_its_usage_does_not(serve, clone):
    async with serve(Script([[TOTAL], [text("Done.")]])) as server:
        body = {"document_id": str(await server.upload_text()), "approval": "ask"}
        root = (await server.extract(**body))["run_id"]
        child, other = (sql(clone.owner_url, ADD_CHILD_RUN, root)[0]["id"] for _ in range(2))
        leaf = sql(clone.owner_url, ADD_CHILD_RUN, child)[0]["id"]
        sql(clone.owner_url, "delete from public.usage")
        for run, cost in ((root, 1), (child, 2), (other, None), (leaf, 8)):
            sql(clone.owner_url, ADD_USAGE, cost, run)
        listed = {run["id"]: run for run in (await server.get("runs"))["items"]}
        costs = [listed[str(run)]["cost_usd"] for run in (root, child, other, leaf)]
        assert costs == [None, 10, None, 8]
        assert [run["usage"] for run in listed.values()] == 4 * [
            {
                "turns": 1,
                "input_tokens": 1,
                "output_tokens": 2,
                "cache_creation_input_tokens": 7,
                "cache_read_input_tokens": 5,
            }
        ]
        rows = [
            sql(clone.owner_url, "select private.cost_of_run(%s) as cost", run["id"])[0]["cost"]
            for run in listed.values()
        ]
        assert rows == [run["cost_usd"] for run in listed.values()]
