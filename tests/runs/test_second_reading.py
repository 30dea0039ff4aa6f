"""A second reading by another model: what the run says, what a person has to look at, and what happens without it."""

from __future__ import annotations

import json
import socket
from contextlib import asynccontextmanager
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from extraction_case import document_with_pages
from fieldmark.domain import paths
from fieldmark.offline_model.messages import Turn, call, raw_call, text
from fieldmark.offline_model.server import OfflineModel
from fieldmark.runs.engine.options import ModelService
from fieldmark.runs.engine.pool import CliPool
from fieldmark.runs.run import Runner
from fieldmark.services.field_answers import CandidateAnswer, find_answers
from fieldmark.stores import extractions as stored_extractions
from fieldmark.testing.script import Script, drop_connection, http_error, stall_connection

pytestmark = pytest.mark.anyio

PAGE = "Number: 17\nDate: 2024-05-03\nTotal: 10.00\nTax: 1.90\nWidget 4.00\nGadget 6.00\n"
ROWS = [{"name": "Widget", "amount": 4}, {"name": "Gadget", "amount": 6}]
FIRST = {"number": "17", "date": "2024-05-03", "total": 10, "rows": ROWS}


@pytest.fixture
async def case(database, clone, make_user):
    async with document_with_pages(database, clone.owner_url, await make_user(), [PAGE]) as case:
        yield case


def extracts(fields: dict[str, Any] = FIRST) -> list[Any]:
    return [call("extract_fields", {"fields": fields, "summary": "Done."})]


def reads(fields: dict[str, Any]) -> list[Any]:
    return [call("submit_reading", {"fields": fields})]


class Readings:
    """A case whose runs are executed with two models."""

    def __init__(self, case: Any, first: OfflineModel, second: OfflineModel) -> None:
        self.case, self.first, self.second = case, first, second
        self.second_url = second.base_url
        self.second_seconds: int | None = None

    async def run(self, mode: str | None = "all", second_model: str | None = "gpt-6", **options: Any) -> dict[str, Any]:
        """Execute a run with its child runs. Return its row."""
        run_id = await self.case.queue_run(second_reading=mode, **options)
        runner = self.runner(second_model)
        while queued := self.case.sql(
            "select id, task from public.runs where status = 'queued' order by created_at desc"
        ):
            limited = self.second_seconds if queued[0]["task"] == "second_reading" else None
            await (runner if limited is None else replace(runner, seconds=limited)).execute(queued[0]["id"])
        return self.case.state(run_id)

    def runner(self, second_model: str | None = "gpt-6") -> Runner:
        pool = CliPool(
            ModelService(self.first.base_url, "first-key", None, retries=0),
            seconds=300,
            second=ModelService(self.second_url, "second-key", None, retries=0),
        )
        return Runner(
            self.case.database, pool, model="claude-sonnet-5", max_turns=20, seconds=300, second_model=second_model
        )

    def statuses(self) -> dict[str, tuple[str, str | None]]:
        rows = self.case.sql(
            "select path, status, reason from public.fields where extraction_id = %s", self.case.extraction_id
        )
        return {row["path"]: (row["status"], row["reason"]) for row in rows}

    async def answers(self, name: str) -> list[CandidateAnswer]:
        async with self.case.database.as_user(self.case.scope) as conn:
            row = await stored_extractions.get(conn, self.case.extraction_id)
        return await find_answers(self.case.database, self.case.scope, row, paths.parse(name))

    async def write(self, path: tuple[str | int, ...], value: Any) -> None:
        """Write a value as the person."""
        async with self.case.database.as_user(self.case.scope) as conn:
            await stored_extractions.update_field(conn, self.case.extraction_id, path, value, {}, {})


@asynccontextmanager
async def two_models(case: Any, first: Any, second: Any):
    async with OfflineModel(Script(first)) as one, OfflineModel(Script(second)) as other:
        yield Readings(case, one, other)


async def test_differing_value_is_to_review_with_both_values_and_boxes(case):
    read = {"number": "17", "date": "3 May 2024", "total": 1.9, "rows": ROWS}
    async with two_models(case, [extracts()], [reads(read)]) as both:
        run = await both.run()
        assert (run["status"], run["answer"]) == ("completed", "Done."), run
        found = run["result"]
        assert (found["code"], found["agrees"], found["differs"], found["rows"]) == (None, 6, 1, 0)
        assert both.statuses()["total"] == ("unclear", "second_reading")
        assert {path for path, (status, _) in both.statuses().items() if status != "found"} == {"total"}
        row = case.extraction()
        assert row["extracted_fields"] == FIRST  # nothing is written
        other = row["evidence"]["total"]["second_reading"]
        assert (other["result"], other["value"], other["quote"]) == ("differs", 1.9, "1.90")
        assert other["boxes"] != row["evidence"]["total"]["boxes"]
        assert row["evidence"]["date"]["second_reading"]["result"] == "agrees"
        # The other provider got its own key, its own model, and nothing of the first result.
        (asked,) = both.second.requests
        assert asked["model"] == "gpt-6"
        assert "extract_fields" not in json.dumps(asked)
        child = case.state(found["run_id"])
        assert (child["root_run_id"], child["model"], child["task"]) == (run["id"], "gpt-6", "second_reading")
        assert len(both.first.requests) == 1


@pytest.mark.parametrize(
    ("second", "code"),
    [
        ([http_error(529)], "model_busy"),
        ([http_error(503)], "model_unavailable"),
        ([http_error(500)], "model_unavailable"),
        ([http_error(429)], "model_busy"),
        ([http_error(401)], "model_refused_key"),
        ([drop_connection(text("The total is 10.00."))], "model_unavailable"),
        pytest.param(
            [Turn([], stop_reason="refusal")],
            "model_declined",
            marks=pytest.mark.real_cli("what it does when a model declines"),
        ),
        ([[raw_call("submit_reading", '{"fields": [1, 2')], [text("I have nothing else.")]], "no_reading"),
        ([[text("I will not read this.")]], "no_reading"),
        ([reads({"Something": {"else": 1}}), [text("I have nothing else.")]], "other_structure"),
    ],
)
async def test_first_result_stays_and_run_says_why_second_reading_is_missing(case, second, code):
    async with two_models(case, [extracts()], second) as both:
        run = await both.run()
        assert (run["status"], run["answer"], run["result"]["code"]) == ("completed", "Done.", code), run
        row = case.extraction()
        assert (row["status"], row["extracted_fields"], row["review_count"]) == ("completed", FIRST, 0)
        assert "second_reading" not in json.dumps(row["evidence"])


@pytest.mark.parametrize(
    "structure",
    [
        {"fields": {"invoice": {"total": 10}}},
        {"total": 10},
        {"fields": [{"name": "total", "value": 10}]},
    ],
    ids=["nested", "flat", "list"],
)
async def test_second_model_with_another_structure_has_three_tries(case, structure):
    wrong = [call("submit_reading", structure)]
    async with two_models(case, [extracts()], [wrong] * 9) as both:
        run = await both.run()
        assert (run["status"], run["answer"], run["result"]["code"]) == ("completed", "Done.", "other_structure"), run
        assert len(both.second.requests) in (3, 4)  # the model may have been asked again when the run ends
        row = case.extraction()
        assert (row["status"], row["extracted_fields"], row["review_count"]) == ("completed", FIRST, 0)


@pytest.mark.parametrize("has_schema", [True, False])
async def test_values_that_are_each_in_an_object_are_compared(case, has_schema):
    read = {name: {"value": value, "confidence": 0.9} for name, value in FIRST.items()}
    texts = {name: {"type": "string"} for name in ("number", "date")}
    properties = {**texts, "total": {"type": "number"}, "rows": {"type": "array", "items": {"type": "object"}}}
    if has_schema:
        case = await case.another_extraction({"type": "object", "properties": properties})
    async with two_models(case, [extracts()], [reads(read)]) as both:
        found = (await both.run())["result"]
        assert (found["code"], found["agrees"], found["differs"], found["rows"]) == (None, 7, 0, 0)


async def test_only_fields_of_the_schema_are_compared(case):
    row = {"type": "object", "properties": {"name": {"type": "string"}, "amount": {"type": "number"}}}
    properties = {"number": {"type": "string"}, "rows": {"type": "array", "items": row}}
    followed = await case.another_extraction({"type": "object", "properties": properties})
    first = {"number": "17", "rows": ROWS}
    read = {**first, "tax": 1.9, "vendor": {"name": "Widget"}, "rows": [{**one, "tax": 1.9} for one in ROWS]}
    async with two_models(followed, [extracts(first)], [reads(read)]) as both:
        run = await both.run()
        found = run["result"]
        assert (found["code"], found["agrees"], found["differs"], found["rows"]) == (None, 5, 0, 0)
        assert {status for status, _ in both.statuses().values()} == {"found"}


async def test_first_result_stays_if_the_second_model_is_down(case):
    async with two_models(case, [extracts()], []) as both:
        with socket.create_server(("127.0.0.1", 0)) as free:
            both.second_url = f"http://127.0.0.1:{free.getsockname()[1]}"
        run = await both.run()
        assert (run["status"], run["answer"], run["result"]["code"]) == ("completed", "Done.", "model_unreachable"), run
        assert (case.extraction()["status"], case.extraction()["extracted_fields"]) == ("completed", FIRST)


async def test_first_result_stays_if_the_second_model_takes_too_long(case):
    async with two_models(case, [extracts()], [stall_connection(600, text("Let me see."))]) as both:
        both.second_seconds = 2
        run = await both.run()
        assert (run["status"], run["answer"], run["result"]["code"]) == ("completed", "Done.", "deadline"), run
        assert (case.extraction()["status"], case.extraction()["extracted_fields"]) == ("completed", FIRST)


async def test_second_reading_stops_at_the_budget_of_its_run(case):
    cost = {"input_tokens": 1_000, "output_tokens": 100_000}
    first = Turn(extracts(), usage=cost)
    asks = Turn([call("get_document_text", {})], usage=cost)
    async with two_models(case, [first], [asks, reads(FIRST)]) as both:
        run = await both.run(second_model="claude-sonnet-5", max_cost_usd=Decimal("1.5"))
        assert (run["status"], run["answer"], run["result"]["code"]) == ("completed", "Done.", "max_cost"), run
        assert case.extraction()["extracted_fields"] == FIRST
        # Both readings count: the second one is stopped by what they cost together.
        usage = case.sql("select agent, cost_usd from public.usage order by agent")
        assert [(one["agent"], one["cost_usd"]) for one in usage] == [
            ("extraction", Decimal("1.002")),
            ("second_reading", Decimal("1.002")),
        ]


async def test_run_says_that_the_service_has_no_second_model(case):
    async with two_models(case, [extracts()], []) as both:
        run = await both.run(second_model=None)
        assert (run["status"], run["result"]["code"], run["result"]["run_id"]) == ("completed", "not_configured", None)


@pytest.mark.parametrize("mode", [None, "off"])
async def test_no_model_is_called_if_the_second_reading_is_off(case, mode):
    async with two_models(case, [extracts()], []) as both:
        run = await both.run(mode)
        assert (run["status"], run["result"], both.second.requests) == ("completed", None, [])
        assert case.sql("select count(*) from public.runs")[0]["count"] == 1
        assert [call["tool"] for call in case.ledger(run["id"])] == ["extract_fields"]


async def test_unsure_asks_for_the_doubted_fields_only(case):
    first = {**FIRST, "rows": [ROWS[0], {"name": "Gadget", "amount": 7}]}  # 7 is not printed
    # It also returns what it was not asked for.
    read = {"number": "18", "rows": [{"name": "Widget", "amount": 4}, {"name": "Gadget", "amount": 6}]}
    async with two_models(case, [extracts(first)], [reads(read)]) as both:
        run = await both.run("unsure")
        asked = json.dumps(both.second.requests[0]["messages"])
        assert "amount" in asked
        assert "name" in asked  # pairs the rows
        assert "total" not in asked.split("</schema>")[0]
        assert (run["result"]["differs"], run["result"]["agrees"]) == (1, 3)
        evidence = case.extraction()["evidence"]
        assert evidence["rows[1].amount"]["second_reading"]["value"] == 6
        assert "second_reading" not in evidence["total"] and "second_reading" not in evidence["number"]


async def test_unsure_calls_no_model_without_a_doubt(case):
    async with two_models(case, [extracts()], []) as both:
        run = await both.run("unsure")
        assert (run["status"], run["result"], both.second.requests) == ("completed", None, [])


async def test_other_rows_are_one_item_for_their_list_and_a_field_of_the_second_reading_only_is_another(case):
    first = {"number": "17", "rows": [ROWS[0], {"name": "Total", "amount": 10}]}
    async with two_models(case, [extracts(first)], [reads({"number": "17", "rows": ROWS, "tax": 1.9})]) as both:
        run = await both.run()
        assert (run["result"]["rows"], run["result"]["differs"]) == (1, 1)
        to_review = {
            path: why for path, (status, why) in both.statuses().items() if status in ("needs_review", "unclear")
        }
        assert to_review.items() >= {"rows": "second_reading", "tax": "second_reading"}.items()
        row = case.extraction()
        assert row["confidences"]["rows[1].amount"] < 0.95
        # Both answers, each with its value and its boxes: what only one reading has is printed there.
        stored, other = await both.answers("rows")
        assert (stored.code, stored.value, stored.data) == ("current", first["rows"], {"rows": "2", "only": "Total 10"})
        assert (other.code, other.value, other.data) == ("second_reading", ROWS, {"rows": "2", "only": "Gadget 6"})
        assert (stored.page, len(stored.boxes), other.page, len(other.boxes)) == (1, 2, 1, 2)
        (tax, *_) = await both.answers("tax")
        assert (tax.code, tax.value, tax.data, tax.page) == ("second_reading", 1.9, {"quote": "1.90"}, 1)
        # Once a person has confirmed the list, it stays so when the schema is checked again.
        async with case.database.as_user(case.scope) as conn:
            await stored_extractions.confirm(conn, case.extraction_id, ("rows",))
        assert both.statuses()["rows"] == ("accepted", "second_reading")


async def test_values_that_doubt_a_value_live_as_long_as_the_extraction(case):
    first = {"number": "71", "rows": [*ROWS, {"name": "Total", "amount": 10}]}
    async with two_models(case, [extracts(first)], [reads({"number": "17", "rows": ROWS, "tax": 1.9})]) as both:
        await both.run()
        case.sql("delete from public.runs")
        assert [(one.code, one.value) for one in await both.answers("number")][:2] == [
            ("current", "71"),
            ("second_reading", "17"),
        ]
        assert [one.value for one in await both.answers("rows")] == [first["rows"], ROWS]
        assert (await both.answers("tax"))[0].value == 1.9


async def test_a_changed_value_answers_neither_whether_the_rows_are_right_nor_another_field(case):
    first = {"number": "17", "rows": [*ROWS, {"name": "Total", "amount": 10}]}
    async with two_models(case, [extracts(first)], [reads({"number": "17", "rows": ROWS, "tax": 1.9})]) as both:
        await both.run()
        await both.write(("rows", 0, "amount"), 5)
        assert both.statuses()["rows"] == ("needs_review", "second_reading")
        # What a person has set stays, whichever rows are chosen.
        assert (await both.answers("rows"))[1].value == [{"name": "Widget", "amount": 5}, ROWS[1]]
        await both.write(("rows",), ROWS)
        assert both.statuses()["rows"][0] != "needs_review"
        assert both.statuses()["tax"] == ("needs_review", "second_reading")
        await both.write(("tax",), 1.9)
        assert both.statuses()["tax"][0] == "confirmed"
        assert case.extraction()["second_reading"] == {}


async def test_removed_row_moves_what_the_second_reading_has_of_later_rows(case):
    first = {"rows": [{"name": "Date"}, {"name": "Widget"}, {"name": "Gadget"}]}
    read = {"rows": [{"name": "Widget"}, {"name": "Gadget", "amount": 6}, {"name": "Date"}]}
    async with two_models(case, [extracts(first)], [reads(read)]) as both:
        await both.run()
        # The rows are in another order there.
        assert (await both.answers("rows[2].amount"))[0].value == 6
        async with case.database.as_user(case.scope) as conn:
            await stored_extractions.remove_field(conn, case.extraction_id, ("rows", 0))
        assert both.statuses()["rows[1].amount"] == ("needs_review", "second_reading")
        assert (await both.answers("rows[1].amount"))[0].value == 6


async def test_models_that_agree_on_a_value_that_is_not_printed_prove_nothing(case):
    hostile = {"number": "17", "total": 9999}
    async with two_models(case, [extracts(hostile)], [reads(hostile)]) as both:
        run = await both.run()
        assert run["result"]["agrees"] == 2
        assert both.statuses()["total"] == ("needs_review", "not_found")
        assert case.extraction()["confidences"]["total"] == 0
