"""An ordinary document takes one call of the model: its text stands in the first message, and the run ends with the
call that completes it. The real CLI, a scripted model, a real Postgres."""

from __future__ import annotations

import asyncio
import json

import psycopg
import pytest

from desk import laid_out, until
from fieldmark.agents.extraction.offline import answer as answer_by_rules
from fieldmark.errors import Unavailable
from fieldmark.offline_model.messages import Call, call, raw_call, text
from fieldmark.runs.lifecycle.decisions import Decision, decide
from fieldmark.stores import extractions
from fieldmark.testing.script import Script, endless
from kept import kept
from living import clis

pytestmark = pytest.mark.anyio

IDENTIFY = {"document_type": "invoice", "confidence": 0.9}
FIELDS = {"fields": {"number": "1", "total": 10.0}, "confidences": {"number": 0.9, "total": 0.8}}


def whole(summary: str | None = "Two fields.", **fields) -> list[Call]:
    """All that an extraction takes, as one message."""
    return [
        call("identify_document", IDENTIFY),
        call("extract_fields", FIELDS | fields),
        call("complete_extraction", {} if summary is None else {"summary": summary}),
    ]


def first(worked) -> str:
    return json.dumps(worked.requests[0]["messages"], ensure_ascii=False)


def statuses(worked) -> dict[str, str]:
    return {entry["tool"]: entry["status"] for entry in worked.ledger}


@pytest.mark.story
async def test_one_message_of_the_model_is_the_whole_run(desk):
    worked = await desk.work(Script([whole()]))
    assert len(worked.requests) == 1 and "Vendor: Acme GmbH" in first(worked)
    assert (worked.state["status"], worked.state["answer"]) == ("completed", "Two fields.")
    assert set(statuses(worked).values()) == {"done"}
    stored = desk.extraction()
    assert (stored["status"], stored["extracted_fields"]) == ("completed", {"number": "1", "total": 10.0})
    ended = [(event.get("tool_result"), event.get("text"), event.get("complete")) for event in worked.events[-3:]]
    assert ended == [("complete_extraction", None, None), (None, "Two fields.", None), (None, None, True)]


async def test_without_a_summary_the_model_has_the_last_word(desk):
    worked = await desk.work(Script([whole(None), [text("Done.")]]))
    assert len(worked.requests) == 2
    assert (worked.state["status"], worked.state["answer"]) == ("completed", "Done.")


async def test_what_stands_behind_a_refused_call_is_refused_with_that_reason(desk):
    bad = call("extract_fields", {"fields": {"a": 1}, "confidences": {"b": 1.0}})
    script = Script([[whole()[0], bad, whole()[2]], whole()[1:]])
    worked = await desk.work(script)
    assert worked.state["status"] == "completed" and len(worked.requests) == 2
    (_, first_failed), (why, second_failed), (behind, third_failed) = worked.results
    assert (first_failed, second_failed, third_failed) == (False, True, True)
    assert "holds no value there" in why and "behind_refused" in behind and "extract_fields" in behind
    assert [entry["status"] for entry in worked.ledger] == ["done", "failed", "refused", "done", "done"]


@pytest.mark.parametrize(
    "bad",
    [
        raw_call("update_field", '{"path": "a", '),
        call("drop_table"),
        call("update_field", {"path": "a"}),
        call("get_document_text", {"pages": "900"}),
    ],
    ids=["no JSON", "no tool", "no value", "no such page"],
)
async def test_a_run_does_not_end_over_a_call_that_was_refused_by_whomever(desk, bad):
    worked = await desk.work(Script([[bad, whole()[2]], [text("Stopped.")]]))
    assert worked.state["answer"] == "Stopped." and desk.extraction()["status"] == "in_progress"
    assert "behind_refused" in worked.results[1][0]


async def test_a_run_does_not_end_over_an_answer_that_nobody_has_seen(desk):
    await desk.put({"total": 1})
    worked = await desk.work(Script([[call("search_document", {"query": "Acme"}), whole()[2]], [whole()[2]]]))
    assert "answer_unread" in worked.results[1][0]
    assert len(worked.requests) == 2 and worked.state["status"] == "completed"


async def test_a_write_behind_a_refused_one_could_find_another_row(desk):
    await desk.put({"items": ["a", "b", "c"]})
    gone = call("remove_field", {"path": "items[7]"})
    then, again = (call("update_field", {"path": "items[0]", "value": "z", "confidence": 1.0}) for _ in range(2))
    worked = await desk.work(Script([[gone, call("get_current_extraction"), then], [again], [text("Done.")]]))
    assert [failed for _, failed in worked.results] == [True, False, True, False]
    assert desk.extraction()["extracted_fields"] == {"items": ["z", "b", "c"]}


async def test_nothing_is_done_behind_the_call_that_ends_the_run(desk):
    late = call("update_field", {"path": "late", "value": 1, "confidence": 1.0})
    worked = await desk.work(Script([[*whole(), late, call("get_document_text")]]))
    assert worked.state["status"] == "completed" and "late" not in desk.extraction()["extracted_fields"]
    assert late.id not in [entry["id"] for entry in worked.ledger]


async def test_a_refused_completion_tells_all_faults_at_once(database, clone, make_user):
    scope = await make_user()
    async with laid_out(database, clone.owner_url, scope, ["Number: 1\nTotal: 10.00", "x" * 90_000, "Last."]) as desk:
        schema = {
            "type": "object",
            "required": ["number", "vendor"],
            "properties": {"number": {"type": "string"}, "total": {"type": "number", "x-grounded": True}},
        }
        desk.sql(
            "update public.extractions set schema = %s::json where id = %s", json.dumps(schema), desk.extraction_id
        )
        worked = await desk.work(Script([whole(), [text("Stopped.")]]))
        told, failed = worked.results[2]
        assert failed and "unread_pages" in told and "vendor" in told and "2" in told


async def test_a_correction_does_not_end_over_a_change_that_became_a_proposal(desk):
    await desk.put({"vendor": "Acme", "total": 3})
    async with desk.database.as_user(desk.scope) as conn:
        await extractions.update_field(conn, desk.extraction_id, ["vendor"], "Acme Ltd", {}, {})
    change = call("update_field", {"path": "vendor", "value": "Acne", "confidence": 1.0})
    script = Script([[change, whole("Set the vendor to Acne.")[2]], [text("The vendor stays.")]])
    worked = await desk.work(script, task="correct", instructions="the total is 3")
    assert "not_stored" in worked.results[0][0] and "answer_unread" in worked.results[1][0]
    assert worked.state["answer"] == "The vendor stays."


async def test_a_person_is_asked_for_one_call_at_a_time(desk):
    worked = await desk.work(answer_by_rules, approval="ask")
    assert worked.state["status"] == "awaiting_approval"
    assert statuses(worked) == {"identify_document": "done", "extract_fields": "pending"}
    assert worked.requests[0]["tool_choice"]["disable_parallel_tool_use"] is True


@pytest.mark.parametrize("approved", [True, False])
async def test_approval_of_the_values_is_the_only_one_and_a_completion_without_one_asks(desk, approved):
    await desk.put({"note": "x"})
    kind, save, done = call("identify_document", {"document_type": "invoice"}), *whole()[1:]
    script = Script([[kind], [save], [done]])
    waiting = await desk.work(script, approval="ask")
    await decide(desk.database, desk.scope, waiting.run_id, Decision(save.id, approved=approved))
    ended = await desk.work(script, waiting.run_id)
    assert desk.extraction()["document_type"] == "invoice"
    assert (ended.state["status"], desk.extraction()["status"]) == (
        ("completed", "completed") if approved else ("awaiting_approval", "in_progress")
    )


async def test_change_of_a_type_that_is_set_asks(desk):
    desk.sql("update public.extractions set document_type = 'receipt' where id = %s", desk.extraction_id)
    worked = await desk.work(Script([[call("identify_document", {"document_type": "invoice"})]]), approval="ask")
    assert statuses(worked) == {"identify_document": "pending"}


async def test_an_approved_completion_ends_the_run_without_the_model(desk):
    await desk.put({"total": 1})
    script = Script([whole()[2:]])
    waiting = await desk.work(script, approval="ask")
    assert waiting.state["status"] == "awaiting_approval"
    seen = waiting.ledger[0]
    decision = Decision(seen["id"], approved=True)
    await decide(desk.database, desk.scope, waiting.run_id, decision)
    ended = await desk.work(script, waiting.run_id)
    assert (ended.state["status"], ended.state["answer"], ended.requests) == ("completed", "Two fields.", [])
    assert [event["text"] for event in ended.events if "text" in event] == ["Two fields."]


@pytest.mark.real_cli("it is killed")
async def test_a_worker_that_dies_between_two_calls_of_a_message(desk):
    """The message's second call waits for a lock when the CLI is killed: the next attempt does what is left."""
    calls = whole()
    with psycopg.connect(desk.owner_url) as conn:
        conn.execute("lock table public.extraction_journal in exclusive mode")
        working = asyncio.create_task(desk.work(Script([calls])))
        run_id = await until(lambda: next(iter(desk.sql("select id from public.runs")), None))
        entered = ["done", "approved"]
        await until(lambda: [one["status"] for one in desk.ledger(run_id["id"])] == entered)
        for cli in clis():
            cli.kill()
        with pytest.raises(Unavailable):
            await working
    later = await desk.work(Script([calls, endless(lambda body: whole("Again."))]), run_id["id"])
    assert later.state["status"] == "completed" and later.state["answer"] == "Again."
    assert desk.extraction()["version"] == 1
    assert [row["path"] for row in desk.journal()] == [["number"], ["total"]]


async def test_a_worker_that_dies_behind_the_completion_needs_no_model_any_more(desk):
    await desk.put({"total": 1})
    context = await desk.context()
    await desk.call(context, "get_document_text")
    await desk.call(context, "complete_extraction", summary="It was done.")
    worked = await desk.work(Script([]), context.run_id)
    assert (worked.state["status"], worked.state["answer"], worked.requests) == ("completed", "It was done.", [])


def longest_common(one: str, other: str) -> str:
    return one[: next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), None)]


def as_cached(worked) -> str:
    """A request in the order in which the model's service keeps it: tools, prompt, messages."""
    (request,) = worked.requests
    return json.dumps([request["tools"], request["system"], request["messages"]], ensure_ascii=False)


@pytest.mark.real_cli("what it caches")
async def test_what_many_runs_share_comes_first(database, clone, make_user):
    """Documents of one schema share all up to the document; those of two schemas all up to the schema."""
    schemas = [{"type": "object", "title": title, "properties": {"number": {}}} for title in ("Bill", "Order")]
    sent = []
    async with kept(Script([whole()])) as warm:
        scope = await make_user()
        for page, schema in (("One.", 0), ("Two.", 0), ("One.", 1), ("Three.", 0)):
            async with laid_out(database, clone.owner_url, scope, [page]) as desk:
                told = json.dumps(schemas[schema])
                desk.sql("update public.extractions set schema = %s::json where id = %s", told, desk.extraction_id)
                worked = await warm.work(desk, instructions="Read it well.")
                sent.append(worked)
    # The first run's CLI was not cleared yet: its conversation begins without the notes of that.
    _, two, three, four = map(as_cached, sent)
    assert two.index("Bill") < two.index("Read it well.") < two.index("Two.")
    assert len(longest_common(two, four)) > two.index("Read it well.")
    assert two.index("Bill") >= len(longest_common(two, three)) > two.index("Extract all fields")
    for worked in sent:
        asked = worked.requests[0]
        assert (asked["output_config"]["effort"], asked["thinking"]["type"]) == ("medium", "disabled")
    marks = [json.dumps(worked.requests[0]).count("cache_control") for worked in sent]
    assert max(marks) <= 4  # more are refused
    (block,) = [block for message in sent[1].requests[0]["messages"] for block in message["content"]
                if isinstance(block, dict) and "Bill" in block["text"]]  # fmt: skip
    assert "cache_control" in block and "Read it well." not in block["text"]
