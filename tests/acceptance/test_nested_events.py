"""Events of child runs appear among the parent's events: live, later, and from any event number."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

from extraction_case import until
from fieldmark.offline_model.messages import text
from fieldmark.testing.script import Script, pause_midway
from running_server import PATIENCE
from two_agent_model import EXTRACTS, chat_script, extraction_call

pytestmark = pytest.mark.anyio


async def start_chat(server, **more: Any) -> dict[str, Any]:
    body = {"document_id": str(await server.upload_text()), "message": "extract", "approval": "auto", "wait": False}
    answer = await server.http.post("/api/agent/chat", json={**body, **more})
    assert answer.status_code == 202, answer.text
    return answer.json()


async def read(http: httpx.AsyncClient, run_id: str, after: int = 0) -> list[tuple[int | None, dict[str, Any]]]:
    headers = {"last-event-id": str(after)} if after else {}
    answer = await http.get(f"/api/runs/{run_id}/events", headers=headers)
    assert answer.status_code == 200
    blocks = [dict(line.split(": ", 1) for line in block.splitlines()) for block in answer.text.split("\n\n")]
    numbered = [(int(one["id"]) if "id" in one else None, one) for one in blocks if "data" in one]
    return [(number, json.loads(one["data"])) for number, one in numbered]


def child_events(events: list) -> list[dict[str, Any]]:
    return [event["event"] for _, event in events if event["type"] == "child"]


@pytest.mark.story
async def test_child_events_have_the_same_order_live_and_later(serve):
    async with serve(chat_script([extraction_call()], [text("Done.")])) as server:
        parent = (await start_chat(server))["run_id"]
        live = await asyncio.wait_for(read(server.http, parent), PATIENCE)
        kept = [one for one in live if one[0] is not None]
        later = await read(server.http, parent)
        assert kept == later and [number for number, _ in later] == list(range(1, len(later) + 1))
        for after in range(len(later)):
            assert await read(server.http, parent, after) == later[after:]

        nested = [event for _, event in later if event["type"] == "child"]
        (child,) = {event["run_id"] for event in nested}
        assert child_events(later) == [event for _, event in await read(server.http, child)]
        assert (child_events(later)[0]["type"], child_events(later)[-1]["type"]) == ("run", "complete")
        # All child events are between start and end of the call that started the child run.
        places = [n for n, (_, event) in enumerate(later) if event["type"] in ("tool", "tool_result")]
        (began, ended) = places
        assert later[began][1]["status"] == "running" and later[ended][1]["status"] == "complete"
        assert {event["parent_call_id"] for event in nested} == {later[began][1]["call_id"]}
        inside = [n for n, (_, event) in enumerate(later) if event["type"] == "child"]
        assert began < inside[0] and inside[-1] < ended
        # The parent has one end event of its own.
        assert [event["type"] for _, event in later if event["type"] in ("complete", "error")] == ["complete"]


async def test_no_event_follows_the_end_of_the_parent(serve):
    asked = asyncio.Event()

    async def silent(body: Any) -> Any:
        asked.set()
        await asyncio.sleep(600)

    async with serve(chat_script([extraction_call()], extracts=silent)) as server:
        parent = (await start_chat(server))["run_id"]
        await asyncio.wait_for(asked.wait(), PATIENCE)
        await server.http.post(f"/api/runs/{parent}/cancel")
        stream_events = await read(server.http, parent)
        assert stream_events[-1][1]["type"] == "error" and stream_events[-1][1]["code"] == "cancelled"
        (child,) = {event["run_id"] for _, event in stream_events if event["type"] == "child"}
        assert (await read(server.http, child))[-1][1]["code"] == "cancelled"


async def test_next_turn_waits_for_a_running_child_run(serve):
    """The next message continues the same conversation, so it waits until the turn has ended."""
    goes_on = asyncio.Event()
    extracts = Script([pause_midway(goes_on.wait, text("I look."), EXTRACTS[0][0]), *EXTRACTS[1:]])
    async with serve(chat_script([extraction_call()], [text("Done.")], [text("Second.")], extracts=extracts)) as server:
        first = await start_chat(server)

        async def waits_for_child() -> bool:
            return (await server.get(f"runs/{first['run_id']}"))["status"] == "awaiting_runs"

        await until(waits_for_child)
        body = {"document_id": first["document_id"], "thread_id": first["thread_id"], "message": "And?", "wait": False}
        second = (await server.http.post("/api/agent/chat", json=body)).json()
        assert second["waits_behind"] == first["run_id"]
        await asyncio.sleep(0.5)
        assert (await server.get(f"runs/{second['run_id']}"))["status"] == "queued"
        goes_on.set()
        ends = [(await read(server.http, one["run_id"]))[-2][1].get("text") for one in (first, second)]
        assert ends == ["Done.", "Second."]
        sent = json.dumps(server.model.requests[-1]["messages"])
        assert sent.index("Done.") < sent.index("And?")
