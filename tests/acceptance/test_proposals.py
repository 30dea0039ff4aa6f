"""Values set by a user survive the next run: it proposes changes, and the user decides."""

from __future__ import annotations

import pytest

from fieldmark.offline_model.messages import call, text
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio


def extraction_script(total):
    fields = {"vendor": {"name": "Acme GmbH"}, "total": total}
    return [
        [call("extract_fields", {"fields": fields, "confidences": {"vendor.name": 0.8, "total": 0.9}})],
        [text("Done.")],
    ]


@pytest.mark.story
async def test_second_run_proposes_changes_to_a_persons_values_and_writes_the_rest(serve):
    first, second = Script(extraction_script(10.5)), Script(extraction_script(10))
    runs: list[Script] = [first]
    async with serve(lambda body: runs[-1](body)) as server:
        document_id = str(await server.upload_text())
        asked = {"document_id": document_id}
        before = (await server.http.post("/api/agent/extract", json=asked)).json()["extraction"]
        path = f"/api/extractions/{before['id']}"
        for name, value in (("total", 11), ("note", "paid")):
            answer = await server.http.patch(f"{path}/fields", json={"path": name, "value": value})
            assert answer.status_code == 200, answer.text
        runs.append(second)
        run = (await server.http.post("/api/agent/extract", json=asked | {"extraction_id": before["id"]})).json()
        assert run["status"] == "completed", run
        after = run["extraction"]
        assert after["id"] == before["id"]
        assert after["extracted_fields"] == {"vendor": {"name": "Acme GmbH"}, "total": 11, "note": "paid"}
        (proposal,) = after["proposals"]
        assert (proposal["path"], proposal["old"], proposal["new"]) == ("total", 11, 10)
        assert proposal["run_id"] == run["run_id"] and proposal["confidence_scores"] == {"total": 0.99}
        # The model was informed of the proposals, and no change event was sent.
        events = (await server.http.get(f"/api/runs/{run['run_id']}/events")).text
        assert 'a person set the values at [\\"total\\"]' in events and '"changed"' not in events
        body = {"decisions": [{"id": proposal["id"], "accepted": True}]}
        accepted = (await server.http.post(f"{path}/proposals", json=body)).json()
        assert accepted["extracted_fields"]["total"] == 10 and accepted["confidence_scores"]["total"] == 0.99
        assert accepted["proposals"] == [] and accepted["locks"].keys() == {"total", "note"}
        entry = (await server.http.get(f"{path}/history", params={"path": "total", "limit": 1})).json()["items"][0]
        assert (entry["actor"], entry["old"], entry["new"]) == ("user", 11, 10)
        refused = await server.http.post(
            "/api/agent/extract", json=asked | {"extraction_id": before["id"], "schema": {"type": "object"}}
        )
        assert (refused.status_code, refused.json()["code"]) == (422, "invalid")
        other = str(await server.upload_text(name="b.txt"))
        refused = await server.http.post(
            "/api/agent/extract", json={"document_id": other, "extraction_id": before["id"]}
        )
        assert refused.status_code == 404, refused.text
