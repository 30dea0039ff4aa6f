"""/api/overview and /api/schemas/{id}/quality: cost and quality of a period, each from one rule."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from answers import assert_problem

from checked_documents import FIELDS, read_document, schema_named, script, set_value

pytestmark = pytest.mark.anyio


async def test_costs_by_day_table_and_model_have_the_same_sum(serve):
    async with serve(script()) as server:
        invoices, receipts = await schema_named(server, "Invoices"), await schema_named(server, "Receipts")
        opus = {"model": "claude-opus-5"}
        for schema_id, options in ((invoices, {}), (invoices, opus), (receipts, {}), (None, {})):
            await read_document(server, schema_id, **options)
        await server.ask("What did Acme charge?")
        cost = (await server.get("overview"))["cost"]
        used = await server.get("usage")
        assert cost["total"]["documents_read"] == 4
        assert cost["total"]["cost_usd"] == pytest.approx(sum(one["cost_usd"] for one in used["items"]))
        for part in ("by_day", "by_table", "by_model"):
            for column, total in cost["total"].items():
                assert sum(one["share"][column] for one in cost[part]) == pytest.approx(total), (part, column)
        tables = {(one["table"], one["agent"]): one["share"]["documents_read"] for one in cost["by_table"]}
        assert tables == {("Invoices", None): 2, ("Receipts", None): 1, (None, "extraction"): 1, (None, "library"): 0}
        async with server.client() as stranger:
            assert (await stranger.get("/api/overview")).json()["cost"]["by_table"] == []


async def test_checks_of_people_are_counted_by_field_with_the_exact_bound(serve, clone):
    async with serve(script()) as server:
        schema_id = await schema_named(server, "Invoices")
        first, second = [(await read_document(server, schema_id))["extraction"]["id"] for _ in range(2)]
        await set_value(server, first, "total", 11)
        await set_value(server, first, "vendor", "Acme")
        await set_value(server, first, "number", "A-1")
        await set_value(server, second, "total", 10)
        quality = (await server.get("overview"))["quality"]
        assert (quality["checks"]["checked"], quality["checks"]["corrected"]) == (3, 1)
        assert quality["checks"]["at_most"] == pytest.approx(0.8646, abs=1e-4)
        assert (quality["found"], quality["missing"]) == (1, 1)
        assert (quality["work"]["people"], quality["work"]["documents"]) == (1, 2)
        fields = {one["pattern"]: one for one in quality["fields"]}
        assert list(fields) == ["total", "number", "vendor"] and fields["total"]["table"] == "Invoices"
        assert (fields["total"]["checks"]["checked"], fields["total"]["checks"]["corrected"]) == (2, 1)
        assert (fields["number"]["found"], fields["number"]["missing"]) == (1, 1)
        table = await server.get(f"schemas/{schema_id}/quality")
        assert table["checks"] == quality["checks"] and table["documents"] == 2
        columns = {one["path"]: one for one in table["columns"]}
        assert columns["total"]["checks"] == fields["total"]["checks"]
        assert [columns[name]["filled"] for name in ("total", "vendor", "number")] == [2, 2, 1]
        (week,) = table["weeks"]
        assert week["checks"] == table["checks"] and [one["number"] for one in table["versions"]] == [1]
        (correction,) = (await server.get(f"schemas/{schema_id}/corrections"))["items"]
        assert (correction["path"], correction["was"], correction["now"]) == ("total", "10", "11")
        assert (await server.get(f"schemas/{schema_id}/corrections?column=vendor"))["items"] == []
        # Behind each number are its values.
        counted = {
            kind: await _counted(server, schema_id, kind) for kind in ("confirmed", "corrected", "found", "checked")
        }
        assert counted == {
            "confirmed": [("total", "10"), ("vendor", "Acme")],
            "corrected": [("total", "11")],
            "found": [("number", "A-1")],
            "checked": [("total", "10"), ("vendor", "Acme"), ("total", "11")],
        }
        # With their location, if it is one: a front end may store any evidence.
        confirmed = f"schemas/{schema_id}/quality/values?show=confirmed&column=total"
        (total,) = (await server.get(confirmed))["items"]
        stored = (await server.extraction(second))["evidence"]["total"]
        assert (total["page"], total["box"]) == (stored["page"], stored["boxes"][0])
        with psycopg.connect(clone.owner_url) as owner:
            owner.execute(
                "update extractions set evidence = "
                "jsonb_set(jsonb_set(evidence, '{total,boxes}', '[[0, \"x\", 1, 1]]'), '{total,page}', '\"x\"')"
            )
        assert [(one["page"], one["box"]) for one in (await server.get(confirmed))["items"]] == [(None, None)]
        assert len(await _counted(server, schema_id, "filled")) == table["filled"] == 5
        assert await _counted(server, schema_id, "filled", "number") == [("number", "A-1")]
        assert await _counted(server, schema_id, "missing") == [("number", None)]
        today = await server.get("overview/work")
        (day,) = today["done"]
        assert (day["confirmed"], day["corrected"], day["found"], day["absent"]) == (2, 1, 1, 0)
        assert today["filling"] == [] and today["reading"] == 0
        # Another period has none of it.
        last = datetime.now(UTC).date() - timedelta(days=2)
        other = await server.get(f"overview?since={last}&until={last}")
        assert other["quality"]["checks"] == {"checked": 0, "corrected": 0, "at_most": None}
        async with server.client() as stranger:
            assert (await stranger.get("/api/overview")).json()["quality"]["fields"] == []
            assert_problem(await stranger.get(f"/api/schemas/{schema_id}/quality"), 404)
            assert_problem(await stranger.get(f"/api/schemas/{schema_id}/corrections"), 404)


async def _counted(server, schema_id, kind, column=None):
    query = {"show": kind} | ({} if column is None else {"column": column})
    answer = await server.http.get(f"/api/schemas/{schema_id}/quality/values", params=query)
    assert answer.status_code == 200, answer.text
    return [(one["path"], one["now"]) for one in answer.json()["items"]]


async def test_time_of_people_has_no_breaks(serve, clone):
    async with serve(script()) as server:
        extraction = (await read_document(server))["extraction"]["id"]
        for path, value in FIELDS.items():
            await set_value(server, extraction, path, value)
        with psycopg.connect(clone.owner_url) as owner:
            for path, seconds in (("total", 0), ("vendor", 8)):
                owner.execute(
                    "update fields set checked_at = date_trunc('day', now() at time zone 'utc') at time zone 'utc' "
                    "+ make_interval(secs => %s) where path = %s",
                    [seconds, path],
                )
        work = (await server.get("overview/work"))["work"]
        assert (work["gaps"], work["seconds"], work["median_seconds"]) == (1, 8, 8)
        with psycopg.connect(clone.owner_url) as owner:
            owner.execute("update fields set checked_at = checked_at + interval '6 minutes' where path = 'vendor'")
        work = (await server.get("overview/work"))["work"]
        assert (work["gaps"], work["seconds"], work["documents"], work["median_seconds"]) == (0, 0, 1, None)


@pytest.mark.parametrize(("seconds", "is_hasty"), [(2, True), (4, False)])
async def test_person_who_looks_at_a_value_every_two_seconds_is_named(serve, clone, seconds, is_hasty):
    async with serve(script()) as server:
        schema_id = await schema_named(server, "Invoices")
        extraction = (await read_document(server, schema_id))["extraction"]["id"]
        await set_value(server, extraction, "codes", [f"A{number}" for number in range(22)])
        with psycopg.connect(clone.owner_url) as owner:
            owner.execute(
                "update fields set checked_at = date_trunc('day', now() at time zone 'utc') at time zone 'utc' "
                "+ indexes[1] * make_interval(secs => %s) where pattern = 'codes[]'",
                [seconds],
            )
        work = (await server.get(f"schemas/{schema_id}/quality"))["work"]
        assert work["hasty"] == ([str(server.scope.user_id)] if is_hasty else [])


async def test_an_invalid_period_is_refused(serve):
    async with serve(script()) as server:
        for query in ({"since": "2026-02-01", "until": "2026-01-31"}, {"since": "2024-01-01", "until": "2026-01-01"}):
            assert_problem(await server.http.get("/api/overview", params=query), 422)
