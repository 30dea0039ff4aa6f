"""PATCH …/fields with a list: several fields in one version, or none of them."""

from __future__ import annotations

import pytest
from answers import assert_problem

from fieldmark.offline_model.messages import call, text
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio

FIELDS = {"vendor": {"name": "Acme"}, "items": [{"n": "A"}], "total": 10}
EXTRACT = [call("extract_fields", {"fields": FIELDS, "confidences": {"total": 0.9}})]


async def extract_invoice(server) -> str:
    document_id = str(await server.upload_text())
    run = (await server.http.post("/api/agent/extract", json={"document_id": document_id})).json()
    assert run["extraction"]["version"] == 1
    return f"/api/extractions/{run['extraction']['id']}"


async def test_several_fields_become_one_version_with_evidence_and_locks(serve):
    async with serve(Script([EXTRACT, [text("Done.")]])) as server:
        url = await extract_invoice(server)
        body = [
            {"path": "total", "value": 10},
            {"path": "vendor.name", "value": "Acme GmbH"},
            {"path": "items[1].n", "value": "B"},
            {"path": "items[2].n", "value": "C"},
        ]
        changed = (await server.http.patch(f"{url}/fields", json=body, headers={"if-match": '"1"'})).json()
        assert changed["version"] == 2
        assert changed["extracted_fields"]["items"] == [{"n": "A"}, {"n": "B"}, {"n": "C"}]
        # All fields of the request are locked, changed or not.
        assert set(changed["locks"]) == {"total", "vendor.name", "items[1].n", "items[2].n"}
        assert changed["evidence"]["total"]["state"] == "found"
        entries = (await server.http.get(f"{url}/history")).json()["items"]
        assert {entry["path"] for entry in entries if entry["version"] == 2} == {
            "vendor.name",
            "items[1].n",
            "items[2].n",
        }


async def test_one_invalid_field_leaves_all_unchanged(serve):
    async with serve(Script([EXTRACT, [text("Done.")]])) as server:
        url = await extract_invoice(server)
        for body in (
            [{"path": "total", "value": 1}, {"path": "items[7].n", "value": "x"}],
            [{"path": "total", "value": 1}, {"path": "total", "value": 2}],
            [{"path": "vendor", "value": {}}, {"path": "vendor.name", "value": "x"}],
            [],
            [{"path": f"a{n}", "value": n} for n in range(201)],
        ):
            assert_problem(await server.http.patch(f"{url}/fields", json=body), 422)
        refused = await server.http.patch(f"{url}/fields", json=[{"path": "a", "value": 1}, {"path": "b"}])
        assert_problem(refused, 422)
        assert refused.json()["errors"] == [{"path": "[1].value", "code": "missing", "message": "Field required"}]
        body = [{"path": "total", "value": 1}]
        assert_problem(await server.http.patch(f"{url}/fields", json=body, headers={"if-match": "0"}), 409)
        found = (await server.http.get(url)).json()
        assert (found["version"], found["extracted_fields"], found["locks"]) == (1, FIELDS, {})
