"""What a second reading may do: its mode, its budget, its end with the run, and that it cannot write."""

from __future__ import annotations

import pytest
from test_second_reading import FIRST, PAGE, extracts, reads, two_models

from extraction_case import document_with_pages
from fieldmark.offline_model.messages import call
from fieldmark.stores import runs

pytestmark = pytest.mark.anyio


@pytest.fixture
async def case(database, clone, make_user):
    async with document_with_pages(database, clone.owner_url, await make_user(), [PAGE]) as case:
        yield case


async def test_cancelled_run_cancels_its_second_reading_and_keeps_the_first(case):
    async with two_models(case, [extracts()], []) as both:
        run_id = await case.queue_run(second_reading="all")
        await both.runner().execute(run_id)
        assert case.state(run_id)["status"] == "awaiting_runs"
        async with case.database.as_user(case.scope) as conn:
            await runs.cancel(conn, run_id, "Cancelled.")
        assert [row["status"] for row in case.sql("select status from public.runs")] == ["cancelled", "cancelled"]
        assert (case.extraction()["extracted_fields"], both.second.requests) == (FIRST, [])


@pytest.mark.parametrize(
    ("organisation", "schema", "run", "expected"),
    [
        ("all", None, None, "all"),
        ("all", "unsure", None, "unsure"),
        ("all", "off", None, None),
        ("off", "all", "off", "off"),
        ("off", "off", "all", "all"),
        ("off", None, None, None),
    ],
)
async def test_run_overrides_schema_and_schema_overrides_organisation(case, organisation, schema, run, expected):
    case.sql("update public.organisations set second_reading = %s", organisation)
    followed = await case.another_extraction({"x-fieldmark": {"second_reading": schema}} if schema else None)
    run_id = await followed.queue_run(second_reading=run)
    assert case.state(run_id)["input"].get("second_reading") == expected


async def test_second_model_cannot_write(case):
    wrong = [call("extract_fields", {"fields": {"total": 1.9}})]
    async with two_models(case, [extracts()], [wrong, reads({"total": 10})]) as both:
        run = await both.run()
        assert (run["result"]["code"], run["result"]["agrees"]) == (None, 1), run
        row = case.extraction()
        assert (row["extracted_fields"], row["version"]) == (FIRST, 1)
        assert [one["tool"] for one in case.ledger(run["result"]["run_id"])] == ["submit_reading"]
