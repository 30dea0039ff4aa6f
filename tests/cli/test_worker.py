"""The health endpoint of `fieldmark worker --port`."""

from __future__ import annotations

import signal

import httpx
import pytest
from commands import read_until, wait_ended

from fieldmark.testing.script import Script
from running_server import PATIENCE

pytestmark = pytest.mark.anyio


async def test_worker_health_endpoint_reports_only_health(local_commands):
    async with local_commands(Script([])) as fieldmark:
        process = await fieldmark.start("worker", "--port", "0")
        try:
            url = (await read_until(process, "/metrics at")).split()[-1]
            async with httpx.AsyncClient(base_url=url, timeout=PATIENCE) as http:
                assert (await http.get("/healthz")).json()["status"] == "ok"
                assert (await http.get("/readyz")).json()["status"] == "ready"
                assert "fieldmark_live_clis 0.0" in (await http.get("/metrics")).text
                for path in ("/api/runs", "/docs", "/openapi.json"):
                    assert (await http.get(path)).status_code == 404
        finally:
            process.send_signal(signal.SIGTERM)
            await wait_ended(process)
        assert process.returncode == 0
