"""CLIs that stay alive between runs: reused within an organisation, with unchanged results."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from child_processes import cli_processes
from extraction_case import until
from fieldmark.offline_model.messages import Turn, call, text
from fieldmark.testing.script import Script
from running_server import SCRAPER

pytestmark = [pytest.mark.anyio, pytest.mark.real_cli("its processes end, or live on")]

FIELDS = {"fields": {"vendor": "Acme"}, "confidences": {"vendor": 0.9}}
USED = {"input_tokens": 100, "output_tokens": 10, "cache_read_input_tokens": 4_000}


def model_turns(*blocks) -> list[Turn]:
    return [Turn([block], usage=USED) for block in blocks]


async def metrics(server, name: str) -> dict[str, float]:
    """Return the values of a metric by label."""
    families = text_string_to_metric_families((await server.http.get("/metrics", headers=SCRAPER)).text)
    return {
        next(iter(sample.labels.values())): sample.value
        for family in families
        for sample in family.samples
        if sample.name == f"fieldmark_{name}"
    }


async def test_runs_share_clis_only_within_their_organisation(serve):
    script = Script(
        model_turns(
            call("get_document_text"), call("extract_fields", FIELDS), call("complete_extraction"), text("Done.")
        )
    )
    async with serve(script, max_live_agents=2, warm_spares=1) as server, server.client() as other:
        assert (await server.http.get("/readyz")).status_code == 200  # with or without spare CLIs
        await until(lambda: len(cli_processes()) == 1)
        spare = cli_processes()[0].pid
        runs = []
        for http, word in ((server.http, "one"), (other, "two"), (server.http, "three")):
            document = (await http.post("/api/documents", files={"file": ("a.txt", f"Canary-{word}".encode())})).json()
            before = len(server.model.requests)
            ended = await http.post("/api/agent/extract", json={"document_id": document["id"]})
            assert ended.json()["status"] == "completed", ended.text
            sent = str(server.model.requests[before:])
            assert f"Canary-{word}" in sent and sent.count("Canary-") == sent.count(f"Canary-{word}")
            runs.append((http, ended.json()))
        taken = await metrics(server, "clis_taken_total")
        assert taken["used_before"] == 1 and taken["spare"] >= 1
        assert spare in {cli.pid for cli in cli_processes()}
        for http, run in runs:
            shown = (await http.get(f"/api/runs/{run['run_id']}")).json()
            assert (shown["usage"]["turns"], shown["usage"]["cache_read_input_tokens"]) == (4, 16_000)
        for http, count in ((server.http, 2), (other, 1)):
            (acquired_by_source,) = (await http.get("/api/usage")).json()["items"]
            assert (acquired_by_source["messages"], acquired_by_source["cache_read_input_tokens"]) == (
                4 * count,
                16_000 * count,
            )
    assert cli_processes() == []  # no CLI remains after the end
