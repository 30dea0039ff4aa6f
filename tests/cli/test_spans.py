"""Traces: spans for runs, model requests, tools and transactions, without document content."""

from __future__ import annotations

import asyncio
import gzip
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import uvicorn
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from child_processes import cli_processes, environment
from fieldmark.offline_model.messages import call, text
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio

CANARY = "zanzibar"


@asynccontextmanager
async def collector(received: list[bytes]) -> AsyncIterator[str]:
    """Serve an OTLP over HTTP endpoint that stores the bodies it receives."""

    async def app(scope, receive, send) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message["body"], message.get("more_body", False)
        assert scope["path"] == "/v1/traces"
        received.append(gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, lifespan="off", log_config=None, access_log=False))
    running = asyncio.create_task(server._serve([listener]))
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await running


def attributes(span: Span) -> dict:
    return {a.key: getattr(a.value, a.value.WhichOneof("value")) for a in span.attributes}


def parse_spans(received: list[bytes]) -> list[Span]:
    requests = [ExportTraceServiceRequest.FromString(body) for body in received]
    return [s for r in requests for rs in r.resource_spans for ss in rs.scope_spans for s in ss.spans]


@pytest.mark.real_cli("its environment")
async def test_trace_has_spans_for_run_model_calls_tools_and_transactions(local_commands):
    environments = []

    def first(body):
        environments.extend(found for cli in cli_processes() if (found := environment(cli)))
        return [call("get_document_text")]

    refused = call("remove_field", {"path": f"{CANARY}.nothing"})
    update = call("update_field", {"path": CANARY, "value": CANARY, "confidence": 0.9})
    received: list[bytes] = []
    async with collector(received) as url:
        script = Script([first, [update], [refused], [text(f"Done, {CANARY}.")]])
        settings = {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "FIELDMARK_MODEL": "claude-haiku-5-5"}
        async with local_commands(script, **settings) as fieldmark:
            file = fieldmark.file(f"Vendor: {CANARY}\n", f"{CANARY}.txt")
            ended = await fieldmark.run("extract", file, "--instructions", f"Look for {CANARY}.")
            assert ended.code == 4 and fieldmark.fields() == {CANARY: CANARY}
            run = fieldmark.only_run()

    assert received and CANARY.encode() not in b"".join(received)
    resource = ExportTraceServiceRequest.FromString(received[0]).resource_spans[0].resource
    assert "fieldmark" in [a.value.string_value for a in resource.attributes if a.key == "service.name"]
    spans = parse_spans(received)
    by_id = {span.span_id: span for span in spans}

    (whole,) = [span for span in spans if span.name == "run"]
    span_attributes = attributes(whole)
    assert (span_attributes["fieldmark.run_id"], span_attributes["fieldmark.status"]) == (str(run["id"]), "completed")
    of_run = [span for span in spans if span.trace_id == whole.trace_id]
    calls = [span for span in of_run if span.name == "tool call"]
    assert [attributes(span)["fieldmark.tool"] for span in calls] == [
        "get_document_text",
        "update_field",
        "remove_field",
    ]
    assert [span.status.code for span in calls] == [0, 0, 2]
    answers = [span for span in of_run if span.name == "model call"]
    assert len(answers) == 4 and all(span.parent_span_id == whole.span_id for span in answers)
    assert all(attributes(span)["gen_ai.usage.output_tokens"] > 0 for span in answers)
    assert {attributes(span)["gen_ai.request.model"] for span in answers} == {"claude-haiku-5-5"}
    inside = [span for span in of_run if span.name == "transaction" and by_id[span.parent_span_id].name == "tool call"]
    assert len(inside) >= 3

    # The SDK sets trace variables in the environment of the CLI. Our launcher removes them.
    assert environments and all(environment["HOME"] for environment in environments)
    names = {name for environment in environments for name in environment}
    assert not [name for name in names if "TRACE" in name.upper() or name.startswith("OTEL")]


async def test_unreachable_trace_collector_delays_nothing(local_commands):
    with socket.socket() as closed_port:
        closed_port.bind(("127.0.0.1", 0))  # bound but not listening, so it refuses connections
        url = f"http://127.0.0.1:{closed_port.getsockname()[1]}"
        async with local_commands(Script([]), OTEL_EXPORTER_OTLP_ENDPOINT=url) as fieldmark:
            assert (await fieldmark.run("documents")).code == 0
