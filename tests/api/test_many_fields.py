"""PATCH …/fields with a list: several fields as one version, all of them or none."""

from __future__ import annotations

import pytest
from answers import problem

from fieldmark.offline_model.messages import call, text
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio

FIELDS = {"vendor": {"name": "Acme"}, "items": [{"n": "A"}], "total": 10}
EXTRACT = [call("extract_fields", {"fields": FIELDS, "confidences": {"total": 0.9}})]


async def an_extraction(server) -> str:
    document_id = str(await server.upload_text())
    run = (await server.http.post("/api/agent/extract", json={"document_id": document_id})).json()
    assert run["extraction"]["version"] == 1
    return f"/api/extractions/{run['extraction']['id']}"


async def test_several_fields_are_one_version_with_evidence_and_locks(serve):
    async with serve(Script([EXTRACT, [text("Done.")]])) as server:
        at = await an_extraction(server)
        body = [
            {"path": "total", "value": 10},
            {"path": "vendor.name", "value": "Acme GmbH"},
            {"path": "items[1].n", "value": "B"},
            {"path": "items[2].n", "value": "C"},
        ]
        changed = (await server.http.patch(f"{at}/fields", json=body, headers={"if-match": '"1"'})).json()
        assert changed["version"] == 2
        assert changed["extracted_fields"]["items"] == [{"n": "A"}, {"n": "B"}, {"n": "C"}]
        # Each that was set is locked, also the one that was right already.
        assert set(changed["locks"]) == {"total", "vendor.name", "items[1].n", "items[2].n"}
        assert changed["evidence"]["total"]["state"] == "found"
        entries = (await server.http.get(f"{at}/history")).json()["items"]
        assert {entry["path"] for entry in entries if entry["version"] == 2} == {
            "vendor.name",
            "items[1].n",
            "items[2].n",
        }


async def test_if_one_cannot_be_set_none_is(serve):
    async with serve(Script([EXTRACT, [text("Done.")]])) as server:
        at = await an_extraction(server)
        for body in (
            [{"path": "total", "value": 1}, {"path": "items[7].n", "value": "x"}],
            [{"path": "total", "value": 1}, {"path": "total", "value": 2}],
            [{"path": "vendor", "value": {}}, {"path": "vendor.name", "value": "x"}],
            [],
            [{"path": f"a{n}", "value": n} for n in range(201)],
        ):
            problem(await server.http.patch(f"{at}/fields", json=body), 422)
        refused = await server.http.patch(f"{at}/fields", json=[{"path": "a", "value": 1}, {"path": "b"}])
        problem(refused, 422)
        assert refused.json()["errors"] == [{"path": "[1].value", "code": "missing", "message": "Field required"}]
        seen = [{"path": "total", "value": 1}]
        problem(await server.http.patch(f"{at}/fields", json=seen, headers={"if-match": "0"}), 409)
        found = (await server.http.get(at)).json()
        assert (found["version"], found["extracted_fields"], found["locks"]) == (1, FIELDS, {})
