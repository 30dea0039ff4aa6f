"""The approval request executes the call: when it returns, the write is stored or refused, even if the CLI ends."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager

import pytest

from child_processes import cli_processes
from extraction_case import events, sql, until
from fieldmark.offline_model.messages import call, text
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio

ITEMS = {"items": [{"name": "A", "price": 1}, {"name": "B", "price": 2}], "total": 3}


def update(path: str, value: object) -> object:
    return call("update_field", {"path": path, "value": value, "confidence": 0.9})


async def extract_until_approval(server, **options) -> dict:
    return await server.extract(await server.upload_text(), approval="ask", **options)


async def new_extraction(server, clone) -> dict[str, str]:
    """Create a document and an empty extraction. Return their ids."""
    document_id = str(await server.upload_text())
    (row,) = sql(
        clone.owner_url,
        "insert into public.extractions (org_id, document_id, created_by) values (%s, %s, %s) returning id",
        server.scope.org_id,
        document_id,
        server.scope.user_id,
    )
    return {"document_id": document_id, "extraction_id": str(row["id"])}


def set_fields(clone, result: dict, fields: dict) -> None:
    extraction_id = result["extraction"]["id"]
    sql(clone.owner_url, "select public.save_extraction_fields(%s, %s)", extraction_id, json.dumps(fields))


# A bookmark after the deferral, at the deferral: the CLI writes this in a third of the runs with approvals.
BAD_ORDER = """
insert into public.agent_sessions (org_id, session_id, entry)
select org_id, session_id, json_build_object(
  'type', 'last-prompt', 'sessionId', session_id, 'lastPrompt', 'x', 'leafUuid', entry ->> 'uuid')
from public.agent_sessions
where session_id = (select session_id::text from public.runs where id = %s)
  and entry -> 'attachment' ->> 'type' = 'hook_deferred_tool'
order by number desc limit 1
"""


@pytest.mark.long
async def test_three_approvals_are_kept_with_any_cli_bookmark(serve, clone):
    proposed = [update("a", 1), update("b", 2), update("c", 3)]
    async with serve(Script([*[[one] for one in proposed], [text("Done.")]])) as server:
        result = await extract_until_approval(server)
        await until(lambda: sql(clone.owner_url, "select 1 from public.runs where not attached"))
        assert sql(clone.owner_url, BAD_ORDER + " returning 1", result["run_id"])
        for done in ({"a": 1}, {"a": 1, "b": 2}, {"a": 1, "b": 2, "c": 3}):
            result = (await server.decide(result)).json()
            assert result["extraction"]["extracted_fields"] == done
        assert (result["status"], result["answer"]) == ("completed", "Done.")
        # Each call was proposed once and ended once.
        end_events = [
            one["call_id"] for one in events(clone.owner_url, result["run_id"]) if one.get("status") == "complete"
        ]
        assert len(end_events) == len(set(end_events)) == 3 and result["usage"]["turns"] == 4


@asynccontextmanager
async def proposed_on_items(serve, clone, proposed):
    """Yield a server, the extraction, which has `ITEMS`, and the run that waits for a decision on a call."""
    extraction = {}

    async def first(body):
        set_fields(clone, extraction, ITEMS)
        return [proposed]

    async with serve(Script([first, [text("Done.")]])) as server:
        ids = await new_extraction(server, clone)
        extraction |= {"extraction": {"id": ids["extraction_id"]}}
        yield server, extraction, await server.extract(**ids, approval="ask")


@pytest.mark.parametrize(
    ("proposed", "new_fields"),
    [
        (call("remove_field", {"path": "items[0]"}), {"items": [{"name": "B", "price": 2}]}),
        (update("total", 9), {"total": 4}),
    ],
)
async def test_changed_target_is_not_written_and_shown_again(serve, clone, proposed, new_fields):
    async with proposed_on_items(serve, clone, proposed) as (server, extraction, result):
        before = {**ITEMS, **new_fields}
        set_fields(clone, extraction, new_fields)
        refused = await server.decide(result)
        assert (refused.status_code, refused.json()["code"]) == (409, "target_changed"), refused.text
        assert refused.json()["changes"] and {"path", "old", "new", "shown"} <= refused.json()["changes"][0].keys()
        (stored,) = sql(clone.owner_url, "select extracted_fields from public.extractions")
        assert stored["extracted_fields"] == before
        # It keeps waiting, shows the current values, and can be approved with them.
        now = await server.get(f"runs/{result['run_id']}")
        assert now["status"] == "awaiting_approval" and now["waits_for"]["call_id"] == result["waits_for"]["call_id"]
        assert (await server.decide(result)).json()["status"] == "completed"
        (stored,) = sql(clone.owner_url, "select extracted_fields from public.extractions")
        assert stored["extracted_fields"] != before


@pytest.mark.parametrize(
    ("proposed", "edited_arguments", "new_fields", "code"),
    [
        (call("remove_field", {"path": "items[0]"}), {"path": "items[1]"}, {"items": ITEMS["items"][:1] * 2}, 409),
        (update("total", 9), {"value": 8}, {"items": []}, 200),
        (update("total", 9), {"path": "items[1].price"}, {}, 200),
    ],
)
async def test_edited_path_is_accepted_while_the_target_is_unchanged(
    serve, clone, proposed, edited_arguments, new_fields, code
):
    async with proposed_on_items(serve, clone, proposed) as (server, extraction, result):
        if new_fields:
            set_fields(clone, extraction, new_fields)
        changed = {**result["waits_for"]["input"], **edited_arguments}
        answer = await server.decide(result, input=changed)
        assert answer.status_code == code, answer.text
        if code == 409:
            # The edited path is shown with its current value and can be approved again.
            assert answer.json()["code"] == "target_changed"
            assert any(one["path"].startswith("items[1]") for one in answer.json()["changes"])
            (stored,) = sql(clone.owner_url, "select extracted_fields from public.extractions")
            assert stored["extracted_fields"] == {**ITEMS, **new_fields}
            answer = await server.decide(result, input=changed)
        assert answer.json()["status"] == "completed"


async def test_approval_shows_old_and_new_with_hidden_characters_escaped(serve, clone):
    hostile = "12\u202e34\u200b\n\x1b[31m" + "x" * 5000
    async with serve(Script([[update("total", hostile)], [text("Done.")]])) as server:
        result = await extract_until_approval(server)
        (change,) = result["waits_for"]["changes"]
        assert change["path"] == "total" and change["old"] is None and change["added"] and change["shortened"]
        assert all(mark not in change["new"] for mark in ("\u202e", "\u200b", "\n", "\x1b"))
        assert "\\u202e" in change["new"] and change["new"].endswith("… (shortened)")
        shown_call = events(clone.owner_url, result["run_id"])[-1]["approval"]
        assert shown_call == result["waits_for"]


@pytest.mark.real_cli("its process stays")
async def test_cli_is_kept_for_a_prompt_decision(serve, clone):
    script = Script([[update("a", 1)], [update("b", 2)], [text("Done.")]])
    async with serve(script, approval_wait_seconds=30) as server:
        result = await extract_until_approval(server)
        (cli,) = cli_processes()
        result = (await server.decide(result)).json()
        assert result["extraction"]["extracted_fields"] == {"a": 1} and cli_processes() == [cli]
        result = (await server.decide(result, approved=False, reason="No.")).json()
        assert (result["status"], result["answer"]) == ("completed", "Done.")
        run = await server.get(f"runs/{result['run_id']}")
        assert run["attempt"] == 1
        shown_call = [one for one in events(clone.owner_url, result["run_id"]) if "tool" in one["type"]]
        assert [one["status"] for one in shown_call] == ["running", "complete", "running", "error"]


@pytest.mark.real_cli("its process stays")
async def test_cli_is_released_if_the_decision_comes_later(serve):
    async with serve(Script([[update("a", 1)], [text("Done.")]]), approval_wait_seconds=0.5) as server:
        result = await extract_until_approval(server)
        await until(lambda: cli_processes() == [])
        last = (await server.decide(result)).json()
        assert (last["status"], last["extraction"]["extracted_fields"]) == ("completed", {"a": 1})
        assert (await server.get(f"runs/{result['run_id']}"))["attempt"] == 2


async def test_correction_can_write_after_completion(serve, clone):
    steps = [[call("complete_extraction")], [update("a", 1)], [text("Done.")]]
    async with serve(Script(steps)) as server:
        ids = await new_extraction(server, clone)
        body = {"extraction_id": ids["extraction_id"], "message": "Complete it, and set a to 1."}
        last = (await server.http.post("/api/agent/correct", json=body)).json()
        assert last["status"] == "completed" and last["extraction"]["extracted_fields"] == {"a": 1}


async def test_later_calls_are_approved_with_a_decision(serve):
    script = Script(
        [
            [update("net", 9)],
            [update("number", "1")],
            [update("total", 10)],
            [call("remove_field", {"path": "number"})],
            [update("total", 11)],
            [call("complete_extraction", {"summary": "Done."})],
        ]
    )
    async with serve(script) as server:
        result = await extract_until_approval(server)
        assert result["waits_for"]["input"]["path"] == "net"
        refused = await server.decide(result, approved=False, approve_rest="tool")
        assert refused.status_code == 422
        result = (await server.decide(result)).json()
        assert result["waits_for"]["input"]["path"] == "number"
        # The approved tool needs no more approval, another tool does.
        result = (await server.decide(result, approve_rest="tool")).json()
        assert result["waits_for"]["tool"] == "remove_field"
        assert result["extraction"]["extracted_fields"] == {"net": 9, "number": "1", "total": 10}
        # No tool needs approval any more.
        result = (await server.decide(result, approve_rest="all")).json()
        assert (result["status"], result["waits_for"]) == ("completed", None)
        assert result["extraction"]["extracted_fields"] == {"net": 9, "total": 11}
        # Another run still needs approval.
        assert (await extract_until_approval(server))["waits_for"]["input"]["path"] == "net"
