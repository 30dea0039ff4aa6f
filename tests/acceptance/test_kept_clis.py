"""The whole service with CLIs that live on: later runs get those of their organisation, and all else is as ever."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from desk import until
from fieldmark.offline_model.messages import Turn, call, text
from fieldmark.testing.script import Script
from living import clis
from standing import SCRAPER

pytestmark = [pytest.mark.anyio, pytest.mark.real_cli("its processes end, or live on")]

FIELDS = {"fields": {"vendor": "Acme"}, "confidences": {"vendor": 0.9}}
USED = {"input_tokens": 100, "output_tokens": 10, "cache_read_input_tokens": 4_000}


def turns(*blocks) -> list[Turn]:
    return [Turn([block], usage=USED) for block in blocks]


async def told(served, name: str) -> dict[str, float]:
    """{label: value} of a metric."""
    families = text_string_to_metric_families((await served.http.get("/metrics", headers=SCRAPER)).text)
    return {
        next(iter(sample.labels.values())): sample.value
        for family in families
        for sample in family.samples
        if sample.name == f"fieldmark_{name}"
    }


async def test_runs_share_clis_within_their_organisation_and_nothing_else(serve):
    script = Script(
        turns(call("get_document_text"), call("extract_fields", FIELDS), call("complete_extraction"), text("Done."))
    )
    async with serve(script, max_live_agents=2, warm_spares=1) as served, served.client() as other:
        assert (await served.http.get("/readyz")).status_code == 200  # with or without what is connected in advance
        await until(lambda: len(clis()) == 1)
        spare = clis()[0].pid
        runs = []
        for http, word in ((served.http, "one"), (other, "two"), (served.http, "three")):
            document = (await http.post("/api/documents", files={"file": ("a.txt", f"Canary-{word}".encode())})).json()
            before = len(served.model.requests)
            ended = await http.post("/api/agent/extract", json={"document_id": document["id"]})
            assert ended.json()["status"] == "completed", ended.text
            sent = str(served.model.requests[before:])
            assert f"Canary-{word}" in sent and sent.count("Canary-") == sent.count(f"Canary-{word}")
            runs.append((http, ended.json()))
        taken = await told(served, "clis_taken_total")
        assert taken["used_before"] == 1 and taken["spare"] >= 1
        assert spare in {cli.pid for cli in clis()}
        for http, run in runs:
            shown = (await http.get(f"/api/runs/{run['run_id']}")).json()
            assert (shown["usage"]["turns"], shown["usage"]["cache_read_input_tokens"]) == (4, 16_000)
        for http, count in ((served.http, 2), (other, 1)):
            (used,) = (await http.get("/api/usage")).json()["items"]
            assert (used["messages"], used["cache_read_input_tokens"]) == (4 * count, 16_000 * count)
    assert clis() == []  # told to end, it leaves none
