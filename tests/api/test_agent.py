"""/api/agent: what starts a run, how it is waited for or watched, and what is refused before it begins."""

from __future__ import annotations

import asyncio
import json
from uuid import uuid4

import httpx
import psycopg
import pytest
from answers import events, problem

from extraction_case import sql, until
from fieldmark.offline_model.messages import call, text
from fieldmark.testing.script import Script, repeat_forever
from running_server import PATIENCE

pytestmark = pytest.mark.anyio

DONE = Script([repeat_forever([text("Done.")])])
SAVE = call("extract_fields", {"fields": {"number": "1"}, "confidences": {"number": 0.9}})
RESULT = ["run_id", "thread_id", "status", "extraction", "answer", "result"]
RESULT += ["cost_usd", "usage", "waits_for", "error", "code"]
SSE = {"accept": "text/event-stream"}


def count(clone, table: str) -> int:
    with psycopg.connect(clone.owner_url) as conn:
        row = conn.execute(f"select count(*) from public.{table}").fetchone()
    assert row is not None
    return row[0]


def blocked(clone) -> int:
    """How many statements that insert a run wait for another transaction."""
    return len(
        sql(
            clone.owner_url,
            """select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'
               and query ilike 'insert into public.runs%'""",
        )
    )


async def ended(http: httpx.AsyncClient, run_id: str) -> dict[str, object]:
    async def run() -> dict[str, object] | None:
        found = (await http.get(f"/api/runs/{run_id}")).json()
        return None if found["status"] in ("queued", "running") else found

    return await until(run, PATIENCE)


async def test_the_same_run_as_json_and_as_events(serve, clone):
    async with serve(Script([[SAVE], [call("complete_extraction", {})], [text("Done.")]])) as server:
        document_id = str(await server.upload_text())
        # There are no deltas in JSON.
        answer = await server.http.post("/api/agent/extract?deltas=true", json={"document_id": document_id})
        assert answer.status_code == 200 and answer.headers["content-type"] == "application/json"
        result = answer.json()
        assert list(result) == RESULT
        stored = await server.get(f"extractions/{result['extraction']['id']}")
        assert result["extraction"] == stored
        assert (result["status"], result["answer"], result["error"], result["code"]) == (
            "completed",
            "Done.",
            None,
            None,
        )
        assert result["extraction"]["document_id"] == document_id
        assert result["extraction"]["extracted_fields"] == {"number": "1"}
        assert result["usage"]["turns"] == 3 and result["usage"]["input_tokens"] > 0
        run = await server.get(f"runs/{result['run_id']}")
        assert {name: run[name] for name in ("status", "answer", "usage", "cost_usd", "error")} == {
            name: result[name] for name in ("status", "answer", "usage", "cost_usd", "error")
        }
        assert (run["id"], run["task"], run["attempt"], run["error_code"]) == (result["run_id"], "extract", 1, None)

        answer = await server.http.post("/api/agent/extract", json={"document_id": document_id}, headers=SSE)
        assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/event-stream")
        assert "no-cache" in answer.headers["cache-control"]
        numbers, said = zip(*events(answer.text), strict=True)
        assert numbers == tuple(range(1, len(said) + 1))
        assert said[0].keys() == {"type", "run_id", "extraction_id"} and said[0]["run_id"] != result["run_id"]
        assert [one["status"] for one in said if one.get("tool_result") == "extract_fields"] == ["complete"]
        assert [one["version"] for one in said if "changed" in one] == [1]
        assert said[-1] == {
            "type": "complete",
            "complete": True,
            "extraction_id": said[0]["extraction_id"],
            "cost": result["cost_usd"],
            "usage": said[-1]["usage"],
        }


HELD_WHEN_IT_FAILS = """create function public.hold() returns trigger language plpgsql as $$
    begin perform pg_advisory_xact_lock(1); return null; end $$;
    create trigger hold before update of error_code on public.documents
    for each statement execute function public.hold()"""
"""A reader that found a file broken waits for the advisory lock before it says so."""


async def test_a_run_waits_for_the_reading_of_its_document_and_fails_with_it(serve, clone):
    """One that is read well is waited for in test_reading_progress.py."""
    sql(clone.owner_url, HELD_WHEN_IT_FAILS)
    async with serve(DONE) as server:
        http = server.http
        async with await psycopg.AsyncConnection.connect(clone.owner_url) as conn:
            await conn.execute("select pg_advisory_xact_lock(1)")
            file = ("a.pdf", b"%PDF-1.7 broken")
            document_id = (await http.post("/api/documents", files={"file": file})).json()["id"]
            body = {"document_id": document_id}
            asked = [
                asyncio.create_task(http.post("/api/agent/extract", json=body, headers=headers))
                for headers in ({}, SSE)
            ]
            # Their runs are there, or wait for the reader, which may have come to the rows before them.
            await until(lambda: count(clone, "runs") + blocked(clone) == 2, PATIENCE)
            assert (await server.get(f"documents/{document_id}"))["status"] == "reading"
        as_json, as_events = await asyncio.gather(*asked)
        reason = (await server.get(f"documents/{document_id}"))["error"]
        assert problem(as_json, 409, "document_failed") == reason
        if as_events.status_code == 200:  # else its run was launched when the document had failed
            last = events(as_events.text)[-1][1]
            assert (last["type"], last["error"], last["code"]) == ("error", reason, "document_failed")


async def test_a_schema_that_is_none_is_refused_with_the_nearest(serve, clone):
    async with serve(DONE) as server:
        asked = {"document_id": str(await server.upload_text()), "schema": {"total": "number"}}
        answer = await server.http.post("/api/agent/extract", json=asked)
        problem(answer, 422, "invalid_schema")
        response = answer.json()
        assert [(one["path"], one["code"]) for one in response["errors"]] == [("total", "unknown_keyword")]
        again = await server.http.post("/api/agent/extract", json=asked | {"schema": response["suggestion"]})
        assert again.json()["status"] == "completed"


async def test_what_cannot_be_done_is_refused_before_it_begins(serve, clone):
    async with serve(DONE) as server:
        document_id = str(await server.upload_text())
        for options, said in (
            ({"approval": "perhaps"}, "approval"),
            ({"auto_approved_tools": ["delete_everything"]}, "delete_everything"),
            ({"schema": {"$ref": "file:///etc/passwd"}}, "file:///etc/passwd"),
            ({"schema": "{}"}, "schema"),
            ({"model": "--resume"}, "model"),
            ({"max_cost_usd": 0}, "max_cost_usd"),
            ({"max_turns": 1001}, "max_turns"),
            ({"instructions": "a\0b"}, "instructions"),
            ({"org_id": str(uuid4())}, "org_id"),
        ):
            answer = await server.http.post("/api/agent/extract", json={"document_id": document_id, **options})
            code = "invalid_schema" if isinstance(options.get("schema"), dict) else "invalid"
            assert said in problem(answer, 422, code), options
        problem(await server.http.post("/api/agent/extract", json={"document_id": str(uuid4())}), 404)
        for body, status in (
            ({"extraction_id": str(uuid4()), "message": "set a to b"}, 404),
            ({"extraction_id": str(uuid4()), "message": ""}, 422),
        ):
            problem(await server.http.post("/api/agent/correct", json=body), status)
        long_key = {"idempotency-key": "x" * 201}
        body = {"document_id": document_id}
        problem(await server.http.post("/api/agent/extract", json=body, headers=long_key), 422)
        assert (count(clone, "runs"), count(clone, "extractions")) == (0, 0)

        options = {"approval": "auto", "auto_approved_tools": ["update_field"], "instructions": "", "max_cost_usd": 1.5}
        options["schema"] = {"$defs": {"a": {"type": "string"}}, "properties": {"a": {"$ref": "#/$defs/a"}}}
        assert (await server.http.post("/api/agent/extract", json={**body, **options})).json()["status"] == "completed"


async def test_an_idempotency_key_starts_one_run(serve, clone):
    async with serve(DONE) as server:
        body = {"document_id": str(await server.upload_text())}
        key = {"idempotency-key": "order 66"}
        at_once = await asyncio.gather(
            *(server.http.post("/api/agent/extract", json=body, headers=key) for _ in range(5))
        )
        again = await server.http.post("/api/agent/extract", json=body, headers=key)
        stream = await server.http.post("/api/agent/extract", json=body, headers={**key, **SSE})
        [run_id] = {answer.json()["run_id"] for answer in [*at_once, again]}
        assert events(stream.text)[0][1]["run_id"] == run_id
        assert again.json() == at_once[0].json()
        assert (count(clone, "runs"), count(clone, "extractions")) == (1, 1)
        # The same key for something else is a mistake of whoever sends it.
        for more in (
            {"instructions": "Only the total."},
            {"max_turns": 3},
            {"document_id": str(await server.upload_text())},
        ):
            changed = await server.http.post("/api/agent/extract", json={**body, **more}, headers=key)
            assert (changed.status_code, changed.json()["code"]) == (422, "idempotency_key_reused")
        other = await server.http.post("/api/agent/extract", json=body, headers={"idempotency-key": "order 67"})
        assert other.json()["run_id"] != run_id
        # A key belongs to its user: somebody else's run is not found by it.
        async with server.client() as stranger:
            theirs = (await stranger.post("/api/documents", files={"file": ("a.txt", b"Total: 1")})).json()["id"]
            answer = await stranger.post("/api/agent/extract", json={"document_id": theirs}, headers=key)
            assert answer.json()["run_id"] != run_id
        assert (count(clone, "runs"), count(clone, "extractions")) == (3, 3)


@pytest.mark.real_cli("the model is sent the id of each")
async def test_a_run_goes_on_when_its_reader_goes_away(serve):
    let_go = asyncio.Event()

    async def held(_: object) -> list[object]:
        await let_go.wait()
        return [SAVE]

    async with serve(Script([held, [call("complete_extraction", {})], [text("Done.")]])) as server:
        first, second = (
            {"document_id": str(await server.upload_text())},
            {"document_id": str(await server.upload_text())},
        )
        async with server.http.stream("POST", "/api/agent/extract", json=first, headers=SSE) as stream:
            async for line in stream.aiter_lines():
                if line.startswith("data: "):
                    break
            watched = json.loads(line[6:])["run_id"]
        key = {"idempotency-key": "waited"}
        waiting = asyncio.create_task(server.http.post("/api/agent/extract", json=second, headers=key))
        while len(server.model.requests) < 2:
            await asyncio.sleep(0.02)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert (await server.get(f"runs/{watched}"))["status"] == "running"
        let_go.set()
        result = (await server.http.post("/api/agent/extract", json=second, headers=key)).json()
        assert (result["status"], result["extraction"]["extracted_fields"]) == ("completed", {"number": "1"})
        run = await ended(server.http, watched)
        assert (run["status"], run["attempt"]) == ("completed", 1)
        assert len({request["metadata"]["user_id"] for request in server.model.requests}) == 2
