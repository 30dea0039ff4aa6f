"""An ordinary document takes one call of the model: its text stands in the first message, and the run ends with the
call that completes it. The real CLI, a scripted model, a real Postgres."""

from __future__ import annotations

import json

import pytest

from desk import laid_out
from fieldmark.offline_model.messages import Call, call, raw_call, text
from fieldmark.testing.script import Script
from kept import kept

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


async def test_one_message_of_the_model_is_the_whole_run(desk):
    worked = await desk.work(Script([whole()]))
    assert len(worked.requests) == 1 and "Vendor: Acme GmbH" in first(worked)
    assert (worked.state["status"], worked.state["answer"]) == ("completed", "Two fields.")
    assert set(statuses(worked).values()) == {"done"}
    stored = desk.extraction()
    assert (stored["status"], stored["extracted_fields"]) == ("completed", {"number": "1", "total": 10.0})
    ended = [(event.get("tool"), event.get("text"), event.get("complete")) for event in worked.events[-3:]]
    assert ended == [("complete_extraction", None, None), (None, "Two fields.", None), (None, None, True)]


async def test_without_a_summary_the_run_ends_all_the_same(desk):
    worked = await desk.work(Script([whole(None)]))
    assert len(worked.requests) == 1 and worked.state["status"] == "completed" and not worked.state["answer"]


async def test_a_cli_that_was_stopped_serves_the_next_run(desk):
    async with kept(Script([whole()])) as warm:
        for _ in range(3):
            other = await desk.beside()
            worked = await warm.work(other)
            assert worked.state["status"] == "completed" and len(worked.requests) == 1
            assert other.extraction()["status"] == "completed"
        assert warm.counted()["clis_taken_total", "used_before"] == 2


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
    [raw_call("update_field", '{"path": "a", '), call("drop_table"), call("update_field", {"path": "a"})],
    ids=["no JSON", "no tool", "no value"],
)
async def test_a_run_does_not_end_over_a_call_that_was_refused_by_whomever(desk, bad):
    worked = await desk.work(Script([[bad, whole()[2]], [text("Stopped.")]]))
    assert worked.state["answer"] == "Stopped." and desk.extraction()["status"] == "in_progress"
    assert "behind_refused" in worked.results[1][0]


async def test_a_run_does_not_end_over_an_answer_that_nobody_has_seen(desk):
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


FORTY = [call("update_field", {"path": f"f{number}", "value": number, "confidence": 1.0}) for number in range(40)]


async def test_forty_calls_in_one_message_are_done_once_each_in_their_order(desk):
    worked = await desk.work(Script([[*FORTY, whole()[2]]]))
    assert worked.state["status"] == "completed" and len(worked.requests) == 1
    assert [row["call_id"] for row in desk.journal() if row["call_id"]] == [one.id for one in FORTY]
    assert desk.extraction()["version"] == 40


async def test_forty_calls_behind_a_refused_one_change_nothing(desk):
    worked = await desk.work(Script([[call("remove_field", {"path": "nothing"}), *FORTY, whole()[2]], [text("No.")]]))
    assert all(failed for _, failed in worked.results) and len(worked.results) == 42
    assert desk.extraction()["version"] == 0 and not desk.journal()
