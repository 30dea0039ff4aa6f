"""Runs on one extraction are sequential. A stopping service ends its runs and leaves no process."""

from __future__ import annotations

import asyncio

import pytest

from extraction_case import sql, until, update_call
from fieldmark.offline_model.messages import text
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio


@pytest.mark.story
async def test_runs_on_one_extraction_are_sequential_others_are_not(serve, clone):
    go_on = asyncio.Event()
    extracting = Script([[update_call("first")], [text("Done.")]])

    async def answer_slowly(body):
        await go_on.wait()
        return [text("Corrected.")]

    scripts = {
        "slowly": Script([[update_call("second")], answer_slowly]),
        "quickly": Script([[update_call("third")], [text("Corrected.")]]),
    }

    async def model(body):
        said = str(body["messages"][0])
        chosen = next((script for word, script in scripts.items() if word in said), extracting)
        return await chosen(body)

    def run_states():
        rows = sql(clone.owner_url, "select input, status from public.runs where task = 'correct'")
        return {row["input"]["message"]: row["status"] for row in rows}

    async with serve(model) as server:
        document_id = str(await server.upload_text())
        first = await server.extract(document_id)
        extraction_id = first["extraction"]["id"]

        def correct(message):
            body = {"extraction_id": extraction_id, "message": message}
            return asyncio.create_task(server.http.post("/api/agent/correct", json=body))

        slowly = correct("slowly")
        await until(lambda: run_states().get("slowly") == "running")
        quickly = correct("quickly")
        await until(lambda: "quickly" in run_states())
        # A run on another extraction of the same document runs before both.
        other = await server.extract(document_id)
        assert other["status"] == "completed"
        assert run_states() == {"slowly": "running", "quickly": "queued"}
        go_on.set()
        results = [(await task).json() for task in (slowly, quickly)]
        assert [result["status"] for result in results] == ["completed", "completed"]
        assert results[0]["extraction"]["extracted_fields"].keys() >= {"first", "second"}
        assert results[1]["extraction"]["extracted_fields"] == {"first": 1, "second": 1, "third": 1}
        assert results[1]["extraction"]["version"] == 3
