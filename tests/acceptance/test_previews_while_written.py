"""Previews of values while the model writes them: the real CLI, a slow model, over HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from uuid import uuid4

import httpx
import pytest

from extraction_case import cli_conversation, until
from fieldmark.offline_model.messages import Call, call, text
from fieldmark.runs.engine.binding import RunBinding
from fieldmark.runs.engine.options import CliKind, ModelService, agent_options
from fieldmark.testing.script import Script, stream_in_steps
from fieldmark.tools.toolset import Toolset
from running_server import PATIENCE

pytestmark = pytest.mark.anyio

IDENTIFIED = call("identify_document", {"document_type": "invoice", "confidence": 0.9})
COMPLETE = call("complete_extraction", {"summary": "Two fields."})
SSE = {"accept": "text/event-stream"}


def extract_fields_call(**fields: Any) -> Call:
    return call("extract_fields", {"fields": fields, "confidences": dict.fromkeys(fields, 0.9)})


class PausingWriter:
    """Pauses the model's output after each of these texts until `go_on` is called."""

    def __init__(self, *pauses_after: str) -> None:
        self._stops = {words: asyncio.Event() for words in pauses_after}

    async def __call__(self, written: str) -> None:
        for words, goes_on in self._stops.items():
            if words in written:
                await goes_on.wait()

    def continue_writing(self) -> None:
        """Continue until the next pause."""
        next(one for one in self._stops.values() if not one.is_set()).set()


class StreamReader:
    """Collects the events of a stream."""

    def __init__(self) -> None:
        self.with_eager_arguments: list[tuple[int | None, dict[str, Any]]] = []

    def previews(self, **wanted: Any) -> list[dict[str, Any]]:
        return [
            event
            for number, event in self.with_eager_arguments
            if number is None and event["type"].startswith("preview") and wanted.items() <= event.items()
        ]

    @property
    def stored_events(self) -> list[dict[str, Any]]:
        return [event for number, event in self.with_eager_arguments if number is not None]

    async def read(self, stream: httpx.Response) -> None:
        part: dict[str, str] = {}
        async for line in stream.aiter_lines():
            if line.startswith(("id: ", "data: ")):
                part |= [line.split(": ", 1)]
            elif not line and part:
                self.with_eager_arguments.append((int(part["id"]) if "id" in part else None, json.loads(part["data"])))
                part = {}


@asynccontextmanager
async def reading_stream(
    http: httpx.AsyncClient, method: str, path: str, *, deltas: bool = True, **asked: Any
) -> AsyncIterator[StreamReader]:
    """Read a stream in the background. The block's end waits for the end of the stream."""
    watcher = StreamReader()
    async with (
        asyncio.timeout(PATIENCE),
        http.stream(method, path, params={"deltas": str(deltas).lower()}, headers=SSE, **asked) as stream,
    ):
        assert stream.is_success, await stream.aread()
        reading = asyncio.create_task(watcher.read(stream))
        try:
            yield watcher
            await reading
        finally:
            reading.cancel()


@pytest.mark.story
async def test_each_field_is_previewed_and_replaced_by_its_stored_value(serve):
    pen = PausingWriter('"number": "1"', '"total": 10.0}')
    fields = extract_fields_call(number="1", total=10.0)
    async with serve(Script([stream_in_steps(pen, IDENTIFIED, fields, COMPLETE)])) as server:
        body = {"document_id": str(await server.upload_text())}
        async with reading_stream(server.http, "POST", "/api/agent/extract", json=body) as live:
            await until(live.previews)
            (number,) = live.previews()
            assert (number["call_id"], number["path"], number["value"]) == (fields.id, "number", "1")
            # More clients connect: one later, one without deltas, and one of another organisation.
            at = f"/api/runs/{live.stored_events[0]['run_id']}/events"
            stranger = server.client()
            assert (await stranger.get(at, params={"deltas": "true"}, headers=SSE)).status_code == 404
            await stranger.aclose()
            async with (
                reading_stream(server.http, "GET", at) as late,
                reading_stream(server.http, "GET", at, deltas=False) as plain,
            ):
                await until(lambda: late.stored_events)
                pen.continue_writing()
                await until(lambda: len(live.previews()) == 2 and late.previews())
                assert late.previews() == live.previews()[1:] and not any(map(_is_field_change, live.stored_events))
                assert live.previews()[1]["path"] == "total"
                pen.continue_writing()
        assert live.stored_events == late.stored_events == plain.stored_events and not plain.previews()
        (changed,) = [event for event in live.stored_events if event["type"] == "changed"]
        assert {one["path"]: one["value"] for one in changed["changed"]} == {"number": "1", "total": 10.0}
        # No preview follows its stored value, and none was withdrawn.
        last = max(at for at, (_, event) in enumerate(live.with_eager_arguments) if event["type"] == "preview")
        assert last < next(at for at, (_, event) in enumerate(live.with_eager_arguments) if _is_field_change(event))
        assert len(live.previews()) == 2 and live.stored_events[-1]["complete"]
        assert "preview" not in (await server.http.get(at)).text


def _is_field_change(event: dict[str, Any]) -> bool:
    return event["type"] == "changed"


@pytest.mark.parametrize("eager", ["true", ""])
@pytest.mark.real_cli("its request's details")
async def test_cli_requests_eager_argument_streaming_if_enabled(case, eager):
    def with_eager_arguments(options):
        return replace(options, env={**options.env, "FIELDMARK_EAGER_ARGUMENTS": eager})

    async with cli_conversation(case, Script([[text("Done.")]]), change=with_eager_arguments) as talk:
        await talk.all()
        tools = talk.model.requests[0]["tools"]
        assert tools and {one.get("eager_input_streaming", False) for one in tools} == {bool(eager)}


@pytest.mark.parametrize(("base_url", "eager"), [(None, "true"), ("http://127.0.0.1:1", "")])
def test_eager_streaming_is_enabled_only_for_anthropics_service(tmp_path, base_url, eager):
    kind = CliKind("a", "", Toolset(), "m", 1)
    service = ModelService(base_url, "k", None)
    options = agent_options(kind, RunBinding(uuid4()), tmp_path, service=service, cpu_seconds=1)
    assert options.env["FIELDMARK_EAGER_ARGUMENTS"] == eager
