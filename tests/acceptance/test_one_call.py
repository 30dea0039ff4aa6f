"""An ordinary document needs one call of the model: its text is in the first message, and a call with the fields and a
summary ends the run."""

from __future__ import annotations

import asyncio
import json

import psycopg
import pytest

from child_processes import cli_processes
from extraction_case import document_with_pages, until
from fieldmark.agents.extraction.offline import answer as answer_by_rules
from fieldmark.errors import Unavailable
from fieldmark.offline_model.messages import Call, call, raw_call, text
from fieldmark.runs.lifecycle.decisions import ApprovalDecision, decide
from fieldmark.stores import extractions
from fieldmark.testing.script import Script, repeat_forever
from warm_pool import warm_pool

pytestmark = pytest.mark.anyio

IDENTIFY = {"document_type": "invoice", "confidence": 0.9}
FIELDS = {"fields": {"number": "1", "total": 10.0}, "confidences": {"number": 0.9, "total": 0.8}}


def whole_extraction(summary: str = "Two fields.", **fields) -> Call:
    """Return the one call that makes an extraction."""
    return call("extract_fields", {"document_type": "invoice", **FIELDS, **fields, "summary": summary})


def extraction_calls(summary: str | None = "Two fields.", **fields) -> list[Call]:
    """Return an extraction as a call for each step, in one message."""
    return [
        call("identify_document", IDENTIFY),
        call("extract_fields", FIELDS | fields),
        call("complete_extraction", {} if summary is None else {"summary": summary}),
    ]


def first_message_text(finished) -> str:
    return json.dumps(finished.requests[0]["messages"], ensure_ascii=False)


def call_statuses(finished) -> dict[str, str]:
    return {entry["tool"]: entry["status"] for entry in finished.ledger}


@pytest.mark.story
async def test_run_needs_one_call_of_the_model(case):
    finished = await case.execute_run(Script([[whole_extraction()]]))
    assert len(finished.requests) == 1 and "Vendor: Acme GmbH" in first_message_text(finished)
    assert (finished.state["status"], finished.state["answer"]) == ("completed", "Two fields.")
    assert call_statuses(finished) == {"extract_fields": "done"}
    stored = case.extraction()
    assert (stored["status"], stored["extracted_fields"]) == ("completed", {"number": "1", "total": 10.0})
    assert stored["document_type"] == "invoice"
    ended = [(event.get("tool_result"), event.get("text"), event.get("complete")) for event in finished.events[-3:]]
    assert ended == [("extract_fields", None, None), (None, "Two fields.", None), (None, None, True)]


async def test_run_may_make_a_call_for_each_step(case):
    finished = await case.execute_run(Script([extraction_calls()]))
    assert len(finished.requests) == 1 and set(call_statuses(finished).values()) == {"done"}
    assert (finished.state["status"], finished.state["answer"]) == ("completed", "Two fields.")
    assert case.extraction()["status"] == "completed"


async def test_only_the_last_of_two_calls_with_a_summary_ends_the_run(case):
    more = whole_extraction("Three fields.", fields={"vendor": "Acme GmbH"}, confidences={})
    finished = await case.execute_run(Script([[whole_extraction(), more]]))
    assert (finished.state["status"], finished.state["answer"]) == ("completed", "Three fields.")
    assert len(finished.requests) == 1 and [entry["status"] for entry in finished.ledger] == ["done", "done"]
    stored = {"number": "1", "total": 10.0, "vendor": "Acme GmbH"}
    assert (case.extraction()["status"], case.extraction()["extracted_fields"]) == ("completed", stored)


async def test_model_completes_what_its_one_call_could_not(case):
    schema = json.dumps({"type": "object", "required": ["vendor"], "properties": {"vendor": {"type": "string"}}})
    case.sql("update public.extractions set schema = %s where id = %s", schema, case.extraction_id)
    vendor = whole_extraction("All fields.", fields={"vendor": "Acme GmbH"}, confidences={})
    finished = await case.execute_run(Script([[whole_extraction()], [vendor]]))
    ((answer, failed),) = finished.results
    assert "vendor" in answer and "schema_violation" in answer and not failed
    assert (finished.state["status"], finished.state["answer"]) == ("completed", "All fields.")
    assert case.extraction()["extracted_fields"] == {"number": "1", "total": 10.0, "vendor": "Acme GmbH"}


async def test_model_writes_the_answer_without_a_summary(case):
    finished = await case.execute_run(Script([extraction_calls(None), [text("Done.")]]))
    assert len(finished.requests) == 2
    assert (finished.state["status"], finished.state["answer"]) == ("completed", "Done.")


async def test_calls_after_a_refused_call_are_refused(case):
    failing_call = call("extract_fields", {"fields": {"a": 1}, "confidences": {"b": 1.0}})
    script = Script([[extraction_calls()[0], failing_call, extraction_calls()[2]], extraction_calls()[1:]])
    finished = await case.execute_run(script)
    assert finished.state["status"] == "completed" and len(finished.requests) == 2
    (_, first_failed), (why, second_failed), (later_calls, third_failed) = finished.results
    assert (first_failed, second_failed, third_failed) == (False, True, True)
    assert "holds no value there" in why and "behind_refused" in later_calls and "extract_fields" in later_calls
    assert [entry["status"] for entry in finished.ledger] == ["done", "failed", "refused", "done", "done"]


@pytest.mark.parametrize(
    "failing_call",
    [
        raw_call("update_field", '{"path": "a", '),
        call("drop_table"),
        call("update_field", {"path": "a"}),
        call("get_document_text", {"pages": "900"}),
    ],
    ids=["no JSON", "no tool", "no value", "no such page"],
)
async def test_completion_after_a_refused_call_is_refused(case, failing_call):
    finished = await case.execute_run(Script([[failing_call, extraction_calls()[2]], [text("Stopped.")]]))
    assert finished.state["answer"] == "Stopped." and case.extraction()["status"] == "in_progress"
    assert "behind_refused" in finished.results[1][0]


async def test_completion_after_an_unread_result_is_refused(case):
    await case.set_fields({"total": 1})
    finished = await case.execute_run(
        Script([[call("search_document", {"query": "Acme"}), extraction_calls()[2]], [extraction_calls()[2]]])
    )
    assert "answer_unread" in finished.results[1][0]
    assert len(finished.requests) == 2 and finished.state["status"] == "completed"


async def test_write_after_a_refused_write_does_not_hit_another_row(case):
    await case.set_fields({"items": ["a", "b", "c"]})
    gone = call("remove_field", {"path": "items[7]"})
    then, again = (call("update_field", {"path": "items[0]", "value": "z", "confidence": 1.0}) for _ in range(2))
    finished = await case.execute_run(Script([[gone, call("get_current_extraction"), then], [again], [text("Done.")]]))
    assert [failed for _, failed in finished.results] == [True, False, True, False]
    assert case.extraction()["extracted_fields"] == {"items": ["z", "b", "c"]}


async def test_calls_after_the_ending_call_are_refused(case):
    late = call("update_field", {"path": "late", "value": 1, "confidence": 1.0})
    finished = await case.execute_run(Script([[*extraction_calls(), late, call("get_document_text")]]))
    assert finished.state["status"] == "completed" and "late" not in case.extraction()["extracted_fields"]
    assert late.id not in [entry["id"] for entry in finished.ledger]


async def test_refused_completion_lists_all_faults(database, clone, make_user):
    scope = await make_user()
    async with document_with_pages(
        database, clone.owner_url, scope, ["Number: 1\nTotal: 10.00", "x" * 90_000, "Last."]
    ) as case:
        schema = {
            "type": "object",
            "required": ["number", "vendor"],
            "properties": {"number": {"type": "string"}, "total": {"type": "number", "x-grounded": True}},
        }
        case.sql(
            "update public.extractions set schema = %s::json where id = %s", json.dumps(schema), case.extraction_id
        )
        finished = await case.execute_run(Script([extraction_calls(), [text("Stopped.")]]))
        text_sent, failed = finished.results[2]
        assert failed and "unread_pages" in text_sent and "vendor" in text_sent and "2" in text_sent


async def test_correction_does_not_end_after_a_write_became_a_proposal(case):
    await case.set_fields({"vendor": "Acme", "total": 3})
    async with case.database.as_user(case.scope) as conn:
        await extractions.update_field(conn, case.extraction_id, ["vendor"], "Acme Ltd", {}, {})
    change = call("update_field", {"path": "vendor", "value": "Acne", "confidence": 1.0})
    script = Script([[change, extraction_calls("Set the vendor to Acne.")[2]], [text("The vendor stays.")]])
    finished = await case.execute_run(script, task="correct", instructions="the total is 3")
    assert "not_stored" in finished.results[0][0] and "answer_unread" in finished.results[1][0]
    assert finished.state["answer"] == "The vendor stays."


async def test_one_call_at_a_time_awaits_approval(case):
    finished = await case.execute_run(answer_by_rules, approval="ask")
    assert finished.state["status"] == "awaiting_approval"
    assert call_statuses(finished) == {"extract_fields": "pending"}
    assert finished.requests[0]["tool_choice"]["disable_parallel_tool_use"] is True


@pytest.mark.parametrize("approved", [True, False])
async def test_completion_asks_unless_the_values_were_approved(case, approved):
    await case.set_fields({"note": "x"})
    kind, save, done = call("identify_document", {"document_type": "invoice"}), *extraction_calls()[1:]
    script = Script([[kind], [save], [done]])
    waiting = await case.execute_run(script, approval="ask")
    await decide(case.database, case.scope, waiting.run_id, ApprovalDecision(save.id, approved=approved))
    ended = await case.execute_run(script, waiting.run_id)
    assert case.extraction()["document_type"] == "invoice"
    assert (ended.state["status"], case.extraction()["status"]) == (
        ("completed", "completed") if approved else ("awaiting_approval", "in_progress")
    )


async def test_changing_a_set_document_type_asks(case):
    case.sql("update public.extractions set document_type = 'receipt' where id = %s", case.extraction_id)
    finished = await case.execute_run(
        Script([[call("identify_document", {"document_type": "invoice"})]]), approval="ask"
    )
    assert call_statuses(finished) == {"identify_document": "pending"}


async def test_an_approved_completion_ends_the_run_without_the_model(case):
    await case.set_fields({"total": 1})
    script = Script([extraction_calls()[2:]])
    waiting = await case.execute_run(script, approval="ask")
    assert waiting.state["status"] == "awaiting_approval"
    seen = waiting.ledger[0]
    decision = ApprovalDecision(seen["id"], approved=True)
    await decide(case.database, case.scope, waiting.run_id, decision)
    ended = await case.execute_run(script, waiting.run_id)
    assert (ended.state["status"], ended.state["answer"], ended.requests) == ("completed", "Two fields.", [])
    assert [event["text"] for event in ended.events if event["type"] == "text"] == ["Two fields."]


@pytest.mark.parametrize("approved", [True, False])
async def test_approved_whole_extraction_ends_the_run_without_the_model(case, approved):
    script = Script([[whole_extraction()], [text("Nothing was saved.")]])
    waiting = await case.execute_run(script, approval="ask")
    assert waiting.state["status"] == "awaiting_approval" and case.extraction()["version"] == 0
    decision = ApprovalDecision(waiting.ledger[0]["id"], approved=approved)
    await decide(case.database, case.scope, waiting.run_id, decision)
    assert case.extraction()["status"] == ("completed" if approved else "in_progress")
    ended = await case.execute_run(script, waiting.run_id)
    assert (ended.state["status"], len(ended.requests)) == ("completed", 0 if approved else 1)
    assert ended.state["answer"] == ("Two fields." if approved else "Nothing was saved.")


async def test_write_that_is_approved_in_advance_does_not_complete_without_approval(case):
    options = {"approval": "ask", "auto_approved_tools": ["extract_fields"]}
    done = call("complete_extraction", {"summary": "Two fields."})
    waiting = await case.execute_run(Script([[whole_extraction()], [done]]), **options)
    assert call_statuses(waiting) == {"extract_fields": "done", "complete_extraction": "pending"}
    assert waiting.state["status"] == "awaiting_approval" and case.extraction()["status"] == "in_progress"


@pytest.mark.real_cli("it is killed")
async def test_worker_death_between_two_calls_of_a_message_loses_nothing(case):
    """The CLI is killed while the second call waits for a lock. The next attempt executes the remaining calls."""
    calls = extraction_calls()
    with psycopg.connect(case.owner_url) as conn:
        conn.execute("lock table public.extraction_journal in exclusive mode")
        working = asyncio.create_task(case.execute_run(Script([calls])))
        run_id = await until(lambda: next(iter(case.sql("select id from public.runs")), None))
        entered = ["done", "approved"]
        await until(lambda: [one["status"] for one in case.ledger(run_id["id"])] == entered)
        for cli in cli_processes():
            cli.kill()
        with pytest.raises(Unavailable):
            await working
    later = await case.execute_run(
        Script([calls, repeat_forever(lambda body: extraction_calls("Again."))]), run_id["id"]
    )
    assert later.state["status"] == "completed" and later.state["answer"] == "Again."
    assert case.extraction()["version"] == 1
    assert [row["path"] for row in case.journal()] == [["number"], ["total"]]


@pytest.mark.parametrize(
    ("tool", "arguments"), [("complete_extraction", {}), ("extract_fields", FIELDS)], ids=["completion", "write"]
)
async def test_worker_death_after_the_completion_needs_no_model(case, tool, arguments):
    await case.set_fields({"total": 1})
    context = await case.context()
    await case.call(context, "get_document_text")
    await case.call(context, tool, **arguments, summary="It was done.")
    finished = await case.execute_run(Script([]), context.run_id)
    assert (finished.state["status"], finished.state["answer"], finished.requests) == ("completed", "It was done.", [])


def common_prefix(one: str, other: str) -> str:
    return one[: next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), None)]


def cached_text(finished) -> str:
    """Return a request in the order of prompt caching: tools, system prompt, messages."""
    (request,) = finished.requests
    return json.dumps([request["tools"], request["system"], request["messages"]], ensure_ascii=False)


@pytest.mark.real_cli("what it caches")
async def test_request_starts_with_the_shared_prefix(database, clone, make_user):
    """Documents of one schema share everything up to the document; other documents share everything up to the
    schema."""
    schemas = [{"type": "object", "title": title, "properties": {"number": {}}} for title in ("Bill", "Order")]
    sent = []
    async with warm_pool(Script([extraction_calls()])) as warm:
        scope = await make_user()
        for page, schema in (("One.", 0), ("Two.", 0), ("One.", 1), ("Three.", 0)):
            async with document_with_pages(database, clone.owner_url, scope, [page]) as case:
                text_sent = json.dumps(schemas[schema])
                case.sql("update public.extractions set schema = %s::json where id = %s", text_sent, case.extraction_id)
                finished = await warm.execute_run(case, instructions="Read it well.")
                sent.append(finished)
    # The first run's CLI was not cleared before, so its conversation has no message about clearing.
    _, two, three, four = map(cached_text, sent)
    assert two.index("Bill") < two.index("Read it well.") < two.index("Two.")
    assert len(common_prefix(two, four)) > two.index("Read it well.")
    assert two.index("Bill") >= len(common_prefix(two, three)) > two.index("Extract all fields")
    for finished in sent:
        asked = finished.requests[0]
        assert (asked["output_config"]["effort"], asked["thinking"]["type"]) == ("medium", "disabled")
    marks = [json.dumps(finished.requests[0]).count("cache_control") for finished in sent]
    assert max(marks) <= 4  # the API refuses more
    (block,) = [block for message in sent[1].requests[0]["messages"] for block in message["content"]
                if isinstance(block, dict) and "Bill" in block["text"]]  # fmt: skip
    assert "cache_control" in block and "Read it well." in block["text"]
