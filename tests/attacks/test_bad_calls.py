"""Any call the model sends: an error it can correct or a clear refusal, and the extraction unchanged."""

from __future__ import annotations

import asyncio
import json

import pytest

from fieldmark.offline_model.messages import Call, call, raw_call, text
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio

LONG = "x" * 300_000
FIELDS = {"vendor": {"name": "Acme"}, "items": [{"price": 1}], "total": 10}


def update(**differing) -> Call:
    return call("update_field", {"path": "total", "value": 1, "confidence": 1.0} | differing)


def raw(arguments: str) -> Call:
    return raw_call("update_field", arguments)


def nested_lists_call(depth: int) -> str:
    return '{"path": "total", "confidence": 1, "value": %s}' % ("[" * depth + "]" * depth)


# (call, text in the model's result, recorded status; None if it never reached the hook)
INVALID_CALLS = {
    "broken JSON": (raw('{"path": "total", "value": '), "could not be parsed as JSON", None),
    "NaN": (raw('{"path": "total", "value": NaN, "confidence": 1}'), "could not be parsed as JSON", None),
    "a list": (raw("[1, 2]"), "path: Field required.", "refused"),
    "a text": (raw('"x"'), "path: Field required.", "refused"),
    "an unknown tool": (call("drop_table", {}), "No such tool available", None),
    "another server's tool": (call("mcp__other__update_field", {}), "No such tool available", None),
    "Bash": (call("Bash", {"command": "cat /etc/passwd"}), "No such tool available", None),
    "another tenant": (update(org_id="0"), "org_id: there is no such argument", "refused"),
    "a prototype": (raw('{"path": "a", "value": 1, "confidence": 7, "__proto__": {}}'), "got 7", "refused"),
    "confidence 7": (update(confidence=7), "less than or equal to 1, got 7", "refused"),
    "confidence in words": (update(confidence="high"), "valid number", "refused"),
    "33 levels": (raw(nested_lists_call(33)), "more than 32 levels deep", "refused"),
    "NUL": (raw('{"path": "total", "value": "a\\u0000", "confidence": 1}'), "contains a NUL", "refused"),
    "half a surrogate": (raw('{"path": "total", "value": "\\ud800", "confidence": 1}'), "surrogate", "refused"),
    "digits that the CLI rounds": (
        raw('{"path": "total", "value": [12345678901234567.89], "confidence": 1}'), "more than 15 digits", "refused"),
    "an empty key": (update(value={"": 1}), "has 0 characters", "refused"),
    "a long key": (update(value={"k" * 201: 1}), "has 201 characters", "refused"),
    "300 KB": (update(value=LONG), "at most 262,144 are allowed", "refused"),
    "an invalid path": (update(path="a..b"), "character 2", "failed"),
    "a path through a value": (update(path="total.net"), "already contains the value 10", "failed"),
    "past the end": (update(path="items[5]"), "past the end", "failed"),
    "nothing to remove": (call("remove_field", {"path": "vendor.phone"}), "There is no value at path", "failed"),
    "no fields": (call("extract_fields", {"fields": {}, "confidences": {}}), "at least 1 item", "refused"),
    "fields as text": (call("extract_fields", {"fields": "all", "confidences": {}}), "valid dictionary", "refused"),
    "a score for nothing": (
        call("extract_fields", {"fields": {"a": 1}, "confidences": {"b": 1.0}}), "holds no value there", "failed"),
}  # fmt: skip


@pytest.mark.real_cli("what it makes of malformed calls")
async def test_invalid_calls_change_nothing_and_return_a_reason(case):
    await case.set_fields(FIELDS)
    before = case.extraction()
    finished = await case.execute_run(Script([*[[bad] for bad, _, _ in INVALID_CALLS.values()], [text("Done.")]]))
    assert finished.state["status"] == "completed"
    answers = dict(zip(INVALID_CALLS, finished.results, strict=True))
    for what, (_, reason, _) in INVALID_CALLS.items():
        said, is_error = answers[what]
        assert is_error and reason in said, (what, said)
    recorded_status = {entry["id"]: entry for entry in finished.ledger}
    for what, (bad, reason, status) in INVALID_CALLS.items():
        entry = recorded_status.pop(bad.id, None)
        assert (entry and entry["status"]) == status, what
        if entry:
            assert reason in (entry["reason"] or entry["result"]), what
    assert not recorded_status
    assert case.extraction() == before and len(case.journal()) == 3  # the events at the start
    # Stream readers get the same message, without the CLI's markup and without the arguments.
    ended = [event for event in finished.events if event.get("status") == "error"]
    assert len(ended) == len(INVALID_CALLS) and not [event for event in ended if "PreToolUse" in event["error"]]
    assert LONG[:10_000] not in json.dumps(finished.events)


@pytest.mark.real_cli("what it makes of malformed calls")
async def test_invalid_calls_in_one_message_do_not_end_the_run(case):
    await case.set_fields(FIELDS)
    before = case.extraction()
    at_once = [*(bad for bad, _, _ in INVALID_CALLS.values()), call("complete_extraction", {"summary": "Done."})]
    finished = await case.execute_run(Script([at_once, [text("Stopped.")]]))
    assert (finished.state["status"], finished.state["answer"]) == ("completed", "Stopped.")
    assert len(finished.results) == len(at_once) and all(failed for _, failed in finished.results)
    assert {entry["status"] for entry in finished.ledger} <= {"refused", "failed"}
    assert case.extraction() == before and len(case.journal()) == 3


UNUSUAL_CALLS = {
    "a number": (update(value=12.5), 12.5),
    "32 levels at most": (raw(nested_lists_call(31)), json.loads("[" * 31 + "]" * 31)),
    "a pair of surrogates": (raw('{"path": "total", "value": "\\ud83d\\ude00", "confidence": 1}'), "😀"),
    # The CLI converts it to a number, as the tool's schema says.
    "a confidence as text": (update(value=3, confidence="0.9"), 3),
    # Changed by the CLI before it reaches us: the result returns the stored value.
    "a number beyond a double": (raw('{"path": "total", "value": 1e999, "confidence": 1}'), None),
    "the second of two equal keys": (raw('{"path": "total", "value": {"a": 1, "a": 2}, "confidence": 1}'), {"a": 2}),
    "250 KB": (update(value="y" * 250_000), "y" * 250_000),
}  # fmt: skip


@pytest.mark.real_cli("what it makes of malformed calls")
async def test_unusual_but_valid_values_are_stored_exactly(case):
    stored = []

    def read_back(then):
        async def step(body):
            stored.append((await asyncio.to_thread(case.extraction))["extracted_fields"].get("total"))
            return then

        return step

    steps = [[good] for good, _ in UNUSUAL_CALLS.values()]
    finished = await case.execute_run(
        Script([steps[0], *[read_back(step) for step in steps[1:]], read_back([text("Done.")])])
    )
    assert stored == [value for _, value in UNUSUAL_CALLS.values()]
    assert case.extraction()["version"] == len(UNUSUAL_CALLS)
    for (what, (_, value)), (said, is_error) in zip(UNUSUAL_CALLS.items(), finished.results, strict=True):
        result_text = json.dumps({"total": value}, ensure_ascii=False)
        assert (
            not is_error and f"Stored, version {list(UNUSUAL_CALLS).index(what) + 1}: {result_text[:20_000]}" in said
        ), what


async def test_writes_of_one_message_run_in_order_and_once(case):
    calls = [update(path=name, value=number) for number, name in enumerate("abcdef")]
    read_call = call("get_current_extraction")
    finished = await case.execute_run(Script([[*calls[:3], read_call, *calls[3:]], [text("Done.")]]))
    assert finished.state["status"] == "completed"
    assert [entry["status"] for entry in finished.ledger] == ["done"] * 6
    changed = [(row["version"], row["path"], row["call_id"]) for row in case.journal()]
    assert changed == [(n + 1, [name], calls[n].id) for n, name in enumerate("abcdef")]
    read = finished.results[3][0]
    assert '"c": 2' in read and '"d"' not in read  # read between the two writes
    said = finished.events
    ended = [event["call_id"] for event in said if event.get("tool_result") == "update_field"]
    assert ended == [one.id for one in calls]
    assert [event["version"] for event in said if "changed" in event] == [1, 2, 3, 4, 5, 6]
