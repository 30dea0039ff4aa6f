"""Following a run of a remote service that restarts or rejects requests."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from uuid import uuid4

import httpx
import pytest
from rich.console import Console

from fieldmark.cli.client import Client, ErrorResponse
from fieldmark.cli.follow import Follower, StartedRuns
from fieldmark.settings import Settings

pytestmark = pytest.mark.anyio

RUN = str(uuid4())
FIRST = 'id: 1\ndata: {"type": "text", "text": "a"}\n\n'
LAST = 'id: 2\ndata: {"type": "text", "text": "b"}\n\n'
COMPLETED = {"id": RUN, "status": "completed", "extraction_id": None, "waits_for": None}


@contextlib.asynccontextmanager
async def client_with_responses(*answers: httpx.Response | Exception) -> AsyncIterator[tuple[Client, list[str]]]:
    """Return a client whose requests get these responses in order, and the requests it made."""
    asked: list[str] = []
    responses: Iterator[httpx.Response | Exception] = iter(answers)

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(f"{request.url.path} {request.headers.get('Last-Event-ID', '')}".strip())
        found = next(responses)
        if isinstance(found, Exception):
            raise found
        return found

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer), base_url="http://elsewhere") as http:
        yield Client(http, contextlib.nullcontext, Settings(), ""), asked


def stream(text: str) -> httpx.Response:
    return httpx.Response(200, headers={"Content-Type": "text/event-stream"}, text=text)


def problem(status: int, code: str) -> httpx.Response:
    return httpx.Response(status, text=json.dumps({"code": code, "detail": "No."}))


async def test_restarting_service_is_retried():
    answers = (
        stream(FIRST),  # the stream ends because the service stops
        httpx.ConnectError("refused"),
        httpx.Response(502, text="<html>Bad Gateway</html>"),
        httpx.Response(200, json={**COMPLETED, "status": "running"}),
        problem(503, "unavailable"),
        stream(LAST),
        httpx.Response(200, json=COMPLETED),
    )
    async with client_with_responses(*answers) as (client, asked):
        seen = await StartedRuns(client, Console(stderr=True).status("")).follow_to_end(RUN)
    assert seen.run == COMPLETED
    run = f"/api/runs/{RUN}"
    assert asked == [f"{run}/events", run, run, run, f"{run}/events 1", f"{run}/events 1", run]


@pytest.mark.parametrize(("status", "code"), [(404, "not_found"), (410, "events_forgotten"), (401, "key_revoked")])
async def test_permanent_error_is_not_retried(status, code):
    async with client_with_responses(problem(status, code)) as (client, asked):
        with pytest.raises(ErrorResponse) as refused:
            await StartedRuns(client, Console(stderr=True).status("")).follow_to_end(RUN)
    assert refused.value.reason == code and len(asked) == 1


async def test_full_queue_is_retried_and_a_closed_one_is_not():
    answers = problem(429, "queue_full"), httpx.Response(202, json={"run_id": RUN}), problem(409, "queue_closed")
    async with client_with_responses(*answers) as (client, asked):
        runs = StartedRuns(client, Console(stderr=True).status(""))
        assert await runs.start("extract", {}) == RUN
        with pytest.raises(ErrorResponse) as refused:
            await runs.start("extract", {})
    assert refused.value.reason == "queue_closed" and len(asked) == 3


async def test_question_of_a_child_run_is_waited_for():
    child = str(uuid4())
    call = {"call_id": "c", "tool": "update_field", "input": {}, "message": "Updating", "changes": []}
    event = {"type": "child", "run_id": child, "event": {"type": "approval", "approval": call}}
    answers = (
        stream(f"id: 1\ndata: {json.dumps(event)}\n\n"),
        httpx.Response(200, json={**COMPLETED, "status": "awaiting_runs"}),
        httpx.Response(200, json={**COMPLETED, "id": child, "status": "awaiting_approval", "waits_for": call}),
    )
    async with client_with_responses(*answers) as (client, asked):
        follower = Follower(client, Console(stderr=True).status(""), RUN)
        await follower.follow()
    assert follower.waiting is not None and follower.waiting.run_id == child
    assert asked == [f"/api/runs/{RUN}/events", f"/api/runs/{RUN}", f"/api/runs/{child}"]
