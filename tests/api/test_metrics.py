"""/metrics: values and access."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from answers import assert_problem
from prometheus_client.parser import text_string_to_metric_families

from extraction_case import until
from fieldmark.api.app import create_monitoring_app
from fieldmark.offline_model.messages import call, text
from fieldmark.testing.script import Script
from running_server import METRICS_TOKEN, SCRAPER

pytestmark = pytest.mark.anyio

TOTAL = {"path": "total", "value": 10, "confidence": 0.9}


async def read_metrics(http: httpx.AsyncClient) -> dict[tuple, float]:
    """Return the samples as {(name, label values sorted by label name …): value}."""
    answer = await http.get("/metrics", headers=SCRAPER)
    assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    samples = [sample for family in text_string_to_metric_families(answer.text) for sample in family.samples]
    return {(sample.name, *(sample.labels[name] for name in sorted(sample.labels))): sample.value for sample in samples}


async def read_when_present(http: httpx.AsyncClient, *key: str) -> dict[tuple, float]:
    """Wait for a sample and return all. The end of a run is published before it is counted."""

    async def samples_with_key() -> dict[tuple, float] | None:
        samples = await read_metrics(http)
        return samples if samples.get(key) else None

    return await until(samples_with_key)


async def test_runs_calls_and_tokens_are_counted(serve):
    refused = call("update_field", {**TOTAL, "confidence": 7})
    failing = call("remove_field", {"path": "nowhere"})
    cli_processes = []

    async def count_clis(body):
        cli_processes.append((await read_metrics(server.http))["fieldmark_live_clis",])
        return [text("Done.")]

    script = Script([[call("get_document_text")], [call("update_field", TOTAL)], [refused], [failing], count_clis])
    async with serve(script) as server:
        assert ("fieldmark_runs_total", "extraction", "completed") not in await read_metrics(server.http)
        body = {"document_id": str(await server.upload_text())}
        assert (await server.extract(**body))["status"] == "completed"
        found = await read_when_present(server.http, "fieldmark_runs_total", "extraction", "completed")
        assert found["fieldmark_runs_total", "extraction", "completed"] == 1
        assert found["fieldmark_run_seconds_count", "extraction", "completed"] == 1
        assert found["fieldmark_run_seconds_sum", "extraction", "completed"] > 0
        calls = {key[1:]: value for key, value in found.items() if key[0] == "fieldmark_tool_calls_total"}
        assert calls == {
            ("done", "get_document_text"): 1,
            ("done", "update_field"): 1,
            ("refused", "update_field"): 1,
            ("failed", "remove_field"): 1,
        }
        assert found["fieldmark_model_tokens_total", "input"] > found["fieldmark_model_tokens_total", "output"] > 0
        assert cli_processes == [1] and found["fieldmark_live_clis",] == 0
        assert found["fieldmark_pool_connections", "idle"] + found["fieldmark_pool_connections", "busy"] >= 1
        assert found["fieldmark_pool_waiting",] == 0
        assert found["process_resident_memory_bytes",] > 1e6


async def test_stream_readers_and_queued_jobs_are_counted(serve):
    silent = asyncio.Event()

    async def wait(body):
        await silent.wait()
        return [text("Done.")]

    async with serve(wait, max_live_agents=1) as server:
        bodies = [{"document_id": str(await server.upload_text())} for _ in range(2)]
        streams = {"Accept": "text/event-stream"}
        async with (
            server.http.stream("POST", "/api/agent/extract", json=bodies[0], headers=streams) as first,
            server.http.stream("POST", "/api/agent/extract", json=bodies[1], headers=streams) as second,
        ):
            assert first.status_code == second.status_code == 200
            found = await read_when_present(server.http, "fieldmark_queue_jobs", "runs", "doing")
            assert found["fieldmark_event_stream_readers",] == 2
            assert found["fieldmark_queue_jobs", "runs", "doing"] == found["fieldmark_queue_jobs", "runs", "todo"] == 1
            silent.set()
            await first.aread(), await second.aread()

        async def no_readers() -> bool:
            return (await read_metrics(server.http))["fieldmark_event_stream_readers",] == 0

        await until(no_readers)


async def test_without_a_token_metrics_are_local_and_on_their_own_port(serve):
    async with serve(metrics_token=None) as server:
        # On the API's port a local proxy would make every client local.
        async with httpx.AsyncClient(base_url=server.base_url) as anonymous:
            assert_problem(await anonymous.get("/metrics"), 401)
        app = create_monitoring_app(server.runtime, None)
        for host, status in (("127.0.0.1", 200), ("::1", 200), ("10.0.0.1", 401)):
            transport = httpx.ASGITransport(app, client=(host, 4711))
            async with httpx.AsyncClient(transport=transport, base_url="http://here") as http:
                assert (await http.get("/metrics")).status_code == status


async def test_metrics_token_gives_access_to_metrics_only(serve):
    async with serve() as server, httpx.AsyncClient(base_url=server.base_url) as scraper:
        assert_problem(await scraper.get("/metrics"), 401)
        assert_problem(await server.http.get("/metrics"), 401)  # a user's token
        for wrong in (METRICS_TOKEN[:-1], METRICS_TOKEN + "x", "ä"):
            assert_problem(
                await scraper.get("/metrics", headers={b"Authorization": f"Bearer {wrong}".encode("latin-1")}), 401
            )
        response = await scraper.get("/metrics", headers=SCRAPER | {"X-Forwarded-For": "8.8.8.8"})
        assert response.status_code == 200 and "fieldmark_pool_waiting" in response.text
        assert_problem(await scraper.get("/api/runs", headers=SCRAPER), 401)
