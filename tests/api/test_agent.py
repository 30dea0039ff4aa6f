"""/api/agent: starting runs, waiting for them, streaming them, and invalid requests."""

from __future__ import annotations

import asyncio
import json
from uuid import uuid4

import httpx
import psycopg
import pytest
from answers import assert_problem, parse_events

from extraction_case import sql, until
from fieldmark.offline_model.messages import call, text
from fieldmark.testing.script import Script, repeat_forever
from running_server import PATIENCE

pytestmark = pytest.mark.anyio

DONE = Script([repeat_forever([text("Done.")])])
SAVE = call("extract_fields", {"fields": {"number": "1"}, "confidences": {"number": 0.9}})
RESULT_KEYS = ["run_id", "external_id", "metadata", "thread_id", "status", "extraction", "answer", "result"]
RESULT_KEYS += ["second_reading", "cost_usd", "usage", "waits_for", "error", "code"]
SSE = {"accept": "text/event-stream"}


def count_rows(clone, table: str) -> int:
    with psycopg.connect(clone.owner_url) as conn:
        row = conn.execute(f"select count(*) from public.{table}").fetchone()
    assert row is not None
    return row[0]


def count_blocked_inserts(clone) -> int:
    return len(
        sql(
            clone.owner_url,
            """select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'
               and query ilike 'insert into public.runs%'""",
        )
    )


async def wait_for_end(http: httpx.AsyncClient, run_id: str) -> dict[str, object]:
    async def run() -> dict[str, object] | None:
        found = (await http.get(f"/api/runs/{run_id}")).json()
        return None if found["status"] in ("queued", "running") else found

    return await until(run, PATIENCE)


async def test_run_result_as_json_matches_its_events(serve, clone):
    async with serve(Script([[SAVE], [call("complete_extraction", {})], [text("Done.")]])) as server:
        document_id = str(await server.upload_text())
        # There are no deltas in JSON.
        answer = await server.http.post("/api/agent/extract?deltas=true", json={"document_id": document_id})
        assert answer.status_code == 200 and answer.headers["content-type"] == "application/json"
        result = answer.json()
        assert list(result) == RESULT_KEYS
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
        numbers, bodies = zip(*parse_events(answer.text), strict=True)
        assert numbers == tuple(range(1, len(bodies) + 1))
        assert bodies[0].keys() == {"type", "run_id", "extraction_id"} and bodies[0]["run_id"] != result["run_id"]
        assert [one["status"] for one in bodies if one.get("tool_result") == "extract_fields"] == ["complete"]
        assert [one["version"] for one in bodies if "changed" in one] == [1]
        assert bodies[-1] == {
            "type": "complete",
            "complete": True,
            "extraction_id": bodies[0]["extraction_id"],
            "cost": result["cost_usd"],
            "usage": bodies[-1]["usage"],
        }


BLOCK_FAILED_READING = """create function public.hold() returns trigger language plpgsql as $$
    begin perform pg_advisory_xact_lock(1); return null; end $$;
    create trigger hold before update of error_code on public.documents
    for each statement execute function public.hold()"""
"""Blocks the worker on an advisory lock before it records that a file is damaged."""


async def test_run_waits_for_its_document_and_fails_if_reading_fails(serve, clone):
    sql(clone.owner_url, BLOCK_FAILED_READING)
    async with serve(DONE) as server:
        http = server.http
        async with await psycopg.AsyncConnection.connect(clone.owner_url) as conn:
            await conn.execute("select pg_advisory_xact_lock(1)")
            file = ("a.pdf", b"%PDF-1.7 broken")
            document_id = (await http.post("/api/documents", files={"file": file})).json()["id"]
            body = {"document_id": document_id}
            requests = [
                asyncio.create_task(http.post("/api/agent/extract", json=body, headers=headers))
                for headers in ({}, SSE)
            ]
            # The runs are inserted, or wait for the worker, which may have locked the rows first.
            await until(lambda: count_rows(clone, "runs") + count_blocked_inserts(clone) == 2, PATIENCE)
            assert (await server.get(f"documents/{document_id}"))["status"] == "reading"
        as_json, as_events = await asyncio.gather(*requests)
        reason = (await server.get(f"documents/{document_id}"))["error"]
        assert assert_problem(as_json, 409, "document_failed") == reason
        if as_events.status_code == 200:  # otherwise the run was started after the document had failed
            last = parse_events(as_events.text)[-1][1]
            assert (last["type"], last["error"], last["code"]) == ("error", reason, "document_failed")


async def test_invalid_schema_gets_422_with_the_path_of_each_error(serve, clone):
    async with serve(DONE) as server:
        asked = {"document_id": str(await server.upload_text()), "schema": {"total": "number"}}
        answer = await server.http.post("/api/agent/extract", json=asked)
        assert_problem(answer, 422, "invalid_schema")
        response = answer.json()
        assert [(one["path"], one["code"]) for one in response["errors"]] == [("total", "unknown_keyword")]


async def test_invalid_requests_start_no_run(serve, clone):
    async with serve(DONE) as server:
        document_id = str(await server.upload_text())
        for options in (
            {"approval": "perhaps"},
            {"auto_approved_tools": ["delete_everything"]},
            {"schema": {"$ref": "file:///etc/passwd"}},
            {"model": "--resume"},
            {"max_cost_usd": 0},
            {"max_turns": 1001},
            {"instructions": "a\0b"},
            {"org_id": str(uuid4())},
        ):
            answer = await server.http.post("/api/agent/extract", json={"document_id": document_id, **options})
            is_schema = isinstance(options.get("schema"), dict)
            assert_problem(answer, 422, "invalid_schema" if is_schema else "invalid")
            assert {error["path"] for error in answer.json().get("errors", [])} <= options.keys()
        assert_problem(await server.http.post("/api/agent/extract", json={"document_id": str(uuid4())}), 404)
        for body, status in (
            ({"extraction_id": str(uuid4()), "message": "set a to b"}, 404),
            ({"extraction_id": str(uuid4()), "message": ""}, 422),
        ):
            assert_problem(await server.http.post("/api/agent/correct", json=body), status)
        long_key = {"idempotency-key": "x" * 201}
        body = {"document_id": document_id}
        assert_problem(await server.http.post("/api/agent/extract", json=body, headers=long_key), 422)
        assert (count_rows(clone, "runs"), count_rows(clone, "extractions")) == (0, 0)

        options = {"approval": "auto", "auto_approved_tools": ["update_field"], "instructions": "", "max_cost_usd": 1.5}
        options["schema"] = {"$defs": {"a": {"type": "string"}}, "properties": {"a": {"$ref": "#/$defs/a"}}}
        assert (await server.http.post("/api/agent/extract", json={**body, **options})).json()["status"] == "completed"


async def test_idempotency_key_starts_one_run(serve, clone):
    async with serve(DONE) as server:
        body = {"document_id": str(await server.upload_text())}
        key = {"idempotency-key": "order 66"}
        at_once = await asyncio.gather(
            *(server.http.post("/api/agent/extract", json=body, headers=key) for _ in range(5))
        )
        again = await server.http.post("/api/agent/extract", json=body, headers=key)
        stream = await server.http.post("/api/agent/extract", json=body, headers={**key, **SSE})
        [run_id] = {answer.json()["run_id"] for answer in [*at_once, again]}
        assert parse_events(stream.text)[0][1]["run_id"] == run_id
        assert again.json() == at_once[0].json()
        assert (count_rows(clone, "runs"), count_rows(clone, "extractions")) == (1, 1)
        # The same key with a different request is an error.
        for more in (
            {"instructions": "Only the total."},
            {"max_turns": 3},
            {"document_id": str(await server.upload_text())},
        ):
            changed = await server.http.post("/api/agent/extract", json={**body, **more}, headers=key)
            assert (changed.status_code, changed.json()["code"]) == (422, "idempotency_key_reused")
        other = await server.http.post("/api/agent/extract", json=body, headers={"idempotency-key": "order 67"})
        assert other.json()["run_id"] != run_id
        # Keys are per user.
        async with server.client() as stranger:
            theirs = (await stranger.post("/api/documents", files={"file": ("a.txt", b"Total: 1")})).json()["id"]
            answer = await stranger.post("/api/agent/extract", json={"document_id": theirs}, headers=key)
            assert answer.json()["run_id"] != run_id
        assert (count_rows(clone, "runs"), count_rows(clone, "extractions")) == (3, 3)


@pytest.mark.real_cli("each CLI sends its id to the model service")
async def test_run_continues_after_its_client_disconnects(serve):
    released = asyncio.Event()

    async def wait_for_release(_: object) -> list[object]:
        await released.wait()
        return [SAVE]

    async with serve(Script([wait_for_release, [call("complete_extraction", {})], [text("Done.")]])) as server:
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
        released.set()
        result = (await server.http.post("/api/agent/extract", json=second, headers=key)).json()
        assert (result["status"], result["extraction"]["extracted_fields"]) == ("completed", {"number": "1"})
        run = await wait_for_end(server.http, watched)
        assert (run["status"], run["attempt"]) == ("completed", 1)
        assert len({request["metadata"]["user_id"] for request in server.model.requests}) == 2


async def test_models_to_choose_from_have_the_prices_of_the_list_and_of_the_settings(serve):
    second = {"second_model": "gpt-6", "second_api_key": "key", "second_model_price": "1/2"}
    async with serve(with_worker=False, model="own-model", model_price="0.015/0.06", **second) as server:
        listed = await server.get("agent/models")
    assert listed["second"] == {"name": "gpt-6", "input_usd": 1, "output_usd": 2, "is_same_vendor": None}
    first, *others = listed["items"]
    assert (listed["default"], first) == ("own-model", {"name": "own-model", "input_usd": 0.015, "output_usd": 0.06})
    assert {one["name"]: (one["input_usd"], one["output_usd"]) for one in others}["claude-haiku-4-5"] == (1, 5)
