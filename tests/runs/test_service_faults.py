"""What the model's service does wrong ends the run as failed, or is waited out; never as a success."""

from __future__ import annotations

import asyncio
import time

import pytest

from desk import Worked, tool_results
from fieldmark.offline_model.messages import Turn, call, raw_call, text
from fieldmark.offline_model.server import OfflineModel
from fieldmark.testing.script import Script, drop, http_error, stall
from living import clis

pytestmark = pytest.mark.anyio

UPDATE = call("update_field", {"path": "total", "value": 1, "confidence": 1.0})


def in_order(worked: Worked) -> Worked:
    """A run that has ended, and what it leaves: one last event, an end for each beginning, and no call half done."""
    state, events = worked.state, worked.events
    assert state["finished_at"] is not None and set(events[0]) == {"type", "run_id", "extraction_id"}
    last = [event for event in events if "complete" in event or "code" in event]
    assert last == [events[-1]]
    if state["status"] == "completed":
        assert events[-1]["complete"] is True and state["error"] is None
    else:
        assert (events[-1]["code"], events[-1]["error"]) == (state["error_code"], state["error"])
        assert state["status"] == "failed"
    begun = [event["call_id"] for event in events if event.get("status") == "running"]
    ended = [event["call_id"] for event in events if event.get("status") in ("complete", "error")]
    assert sorted(begun) == sorted(ended) and len(set(begun)) == len(begun)
    for event in events:
        if "retry" in event:
            assert set(event) == {"type", "retry", "wait_s"} and event["wait_s"] >= 0
    assert {entry["status"] for entry in worked.ledger} <= {"done", "failed", "refused"}
    assert worked.desk.extraction()["version"] == max([row["version"] for row in worked.desk.journal()], default=0)
    return worked


@pytest.mark.parametrize(
    ("steps", "code"),
    [
        ([http_error(401)] * 9, "model_refused_key"),
        ([http_error(400, message="prompt is too long: 250000 tokens > 200000 maximum")] * 9, "document_too_long"),
        ([Turn([text("And")], "max_tokens")] * 9, "answer_too_long"),
    ],
    ids=["401", "too-long", "max-tokens"],
)
async def test_a_failure_ends_the_run_at_once(desk, steps, code):
    worked = in_order(await desk.work(Script(steps)))
    assert clis() == []
    assert not [event for event in worked.events if "retry" in event]  # none of them passes by being waited for
    assert (worked.state["status"], worked.state["error_code"], worked.state["answer"]) == ("failed", code, None)
    # What the CLI says of the service in the agent's name is not the agent's answer.
    assert not [event for event in worked.events if "API Error" in str(event) or "The script says so" in str(event)]


@pytest.mark.long
async def test_what_passes_is_waited_out_and_what_does_not_ends_the_run(desk):
    """All beside each other, because the CLI waits 0.5, 1 and 2 seconds before its three retries."""
    flaky = Script([[UPDATE], http_error(429, retry_after=2), http_error(500), drop(text("Almost")), [text("Done.")]])
    lasting = {
        "model_busy": [Script([http_error(429)] * 9), Script([http_error(529)] * 9)],
        "model_unavailable": [
            Script([http_error(500)] * 9),
            Script([drop(text("Almost"))] * 9),
            Script([stall(0.2, text("Almost"))] * 9),
        ],
    }
    asked: list[float] = []

    async def noting(body):
        asked.append(time.monotonic())
        return await flaky(body)

    recovered, *failed = await asyncio.gather(
        desk.work(noting), *[(await desk.beside()).work(script) for scripts in lasting.values() for script in scripts]
    )
    assert clis() == []
    in_order(recovered)
    assert (recovered.state["status"], recovered.state["answer"]) == ("completed", "Done.")
    waits = [event["wait_s"] for event in recovered.events if "retry" in event]
    assert len(waits) == 3 and waits[0] >= 2 and desk.extraction()["version"] == 1
    assert asked[2] - asked[1] > 1.9  # as long as the service asked for
    assert tool_results(recovered.requests[-1])[0][1] is False
    assert "Almost" not in str(recovered.events)
    codes = [worked.state["error_code"] for worked in failed]
    assert codes == ["model_busy"] * 2 + ["model_unavailable"] * 3
    for worked in map(in_order, failed):
        assert worked.state["status"] == "failed"
        assert [set(event) for event in worked.events[1:-1]] == [{"type", "retry", "wait_s"}] * 3
        assert worked.ledger == []


async def test_a_call_that_breaks_off_in_mid_stream_is_asked_for_again_and_done_once(desk):
    other = call("update_field", {"path": "number", "value": "1", "confidence": 1.0})

    def breaking_off(cut) -> Script:
        return Script([cut(UPDATE), [UPDATE], http_error(529), cut(other), [other], [text("Done.")]])

    dropped, stalled = breaking_off(drop), breaking_off(lambda *blocks: stall(0.5, *blocks))
    for worked in await asyncio.gather(desk.work(dropped), (await desk.beside()).work(stalled)):
        in_order(worked)
        assert (worked.state["status"], worked.state["answer"]) == ("completed", "Done.")
        assert len([event for event in worked.events if "retry" in event]) == 3
        assert [entry["id"] for entry in worked.ledger] == [UPDATE.id, other.id]
        written = [(row["path"], row["call_id"]) for row in worked.desk.journal()]
        assert written == [(["total"], UPDATE.id), (["number"], other.id)]


async def test_what_was_said_before_a_stream_broke_off_is_not_said_again(desk):
    """The CLI keeps a block that came whole and has the model go on from there; what came in half is nothing."""
    worked = in_order(await desk.work(Script([stall(0.5, text("I write."), UPDATE), [UPDATE], [text("Done.")]])))
    assert worked.state["status"] == "completed"
    assert [event["text"] for event in worked.events if "text" in event] == ["I write.", "Done."]
    assert [event["wait_s"] for event in worked.events if "retry" in event] == [0.0]
    assert len(desk.journal()) <= 1 and {entry["id"] for entry in worked.ledger} <= {UPDATE.id}


async def test_what_the_model_itself_does_wrong_it_is_told_and_may_mend(desk):
    a, b = [call("update_field", {"path": path, "value": 1, "confidence": 1.0}) for path in "ab"]
    steps = [[raw_call("update_field", '{"path": "total", "val')], [call("drop_table")], [a, b], [UPDATE]]
    worked = in_order(await desk.work(Script([*steps, [text("Done.")]])))
    assert worked.state["status"] == "completed"
    told = [event["error"] for event in worked.events if event.get("status") == "error"]
    assert len(told) == 2 and "could not be parsed as JSON" in told[0] and "No such tool available" in told[1]
    assert desk.extraction()["extracted_fields"] == {"a": 1, "b": 1, "total": 1} and len(desk.journal()) == 3


async def test_no_service_at_all_ends_the_run(desk):
    async with OfflineModel(Script([])) as model:
        pass  # nobody listens there any more
    run_id = await desk.run()
    await desk.runner(model).execute(run_id)
    worked = in_order(Worked(desk, run_id, []))
    assert worked.state["error_code"] == "model_unreachable" and clis() == []
    assert [set(event) for event in worked.events[1:-1]] == [{"type", "retry", "wait_s"}] * 3


async def test_what_was_written_before_a_failure_stays(desk):
    worked = in_order(await desk.work(Script([[UPDATE], *[http_error(400)] * 9])))
    assert worked.state["status"] == "failed" and desk.extraction()["extracted_fields"] == {"total": 1}
    assert [entry["status"] for entry in worked.ledger] == ["done"]
