"""Which values a person is asked to look at, and the claim about the others, over the API."""

from __future__ import annotations

import pytest
from answers import assert_problem

from checked_documents import read_document, schema_named, set_value
from fieldmark.offline_model.messages import Turn, call, text
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio


def _script() -> Script:
    save = call("extract_fields", {"fields": {"total": 10, "vendor": "Acme"}, "confidences": {}, "evidence": {}})
    return Script([Turn([save]), Turn([call("complete_extraction", {"summary": "Done."})]), Turn([text("Done.")])])


async def _set_goal(server, max_error):
    answer = await server.http.patch(f"/api/organisations/{server.scope.org_id}", json={"max_error": max_error})
    assert (answer.status_code, answer.json()["max_error"]) == (200, max_error)


async def _rule(server, schema_id):
    return (await server.get(f"schemas/{schema_id}/quality"))["review"]


async def test_table_has_the_goal_of_the_organisation_or_its_own(serve):
    async with serve(_script()) as server:
        schema_id = await schema_named(server, "Invoices")
        url = f"/api/schemas/{schema_id}/max_error"
        await _set_goal(server, 0.02)
        rule = await _rule(server, schema_id)
        assert (rule["claim"]["max_error"], rule["own_max_error"], rule["claim"]["needed"]) == (0.02, None, 149)
        assert (rule["min_confidence"], rule["model"], rule["claim"]["at_most"]) == (0.95, None, None)
        own = (await server.http.put(url, json={"max_error": 0.005})).json()
        assert (own["claim"]["max_error"], own["own_max_error"], own["claim"]["needed"]) == (0.005, 0.005, 598)
        assert (await server.http.put(url, json={"max_error": None})).json() == rule
        for wrong in (0, 1.5, "1 %"):
            assert_problem(await server.http.put(url, json={"max_error": wrong}), 422)
        async with server.client() as stranger:
            assert_problem(await stranger.put(url, json={"max_error": 1}), 404)


async def test_drawn_values_are_asked_and_the_others_counted(serve):
    async with serve(_script()) as server:
        made = await server.http.post("/api/schemas", json={"name": "Invoices", "schema": {"type": "object"}})
        schema_id = made.json()["id"]
        await _set_goal(server, 0.01)
        read = [(await read_document(server, schema_id))["extraction"] for _ in range(3)]
        rule = await _rule(server, schema_id)
        statuses = [one["statuses"] for extraction in read for one in [await server.extraction(extraction["id"])]]
        asked = [name for one in statuses for name, field in one.items() if field["reason"] == "audit"]
        assert rule["model"] and rule["claim"]["values"] + rule["claim"]["waiting"] == 6
        # No one has looked at any, so that the claim covers nothing. The second document has an audit at least.
        assert 1 <= len(asked) == rule["claim"]["waiting"] == rule["claim"]["of_new_layouts"]
        assert rule["claim"]["uncovered_values"] == rule["claim"]["values"]
        assert (rule["claim"]["uncovered_layouts"], rule["claim"]["at_most"]) == (1, None)
        # A look at another value takes it out of the values that no one looked at.
        name = next(name for name in ("total", "vendor") if statuses[0][name]["reason"] is None)
        await set_value(server, read[0]["id"], name, {"total": 10, "vendor": "Acme"}[name])
        assert (await _rule(server, schema_id))["claim"]["values"] == rule["claim"]["values"] - 1
