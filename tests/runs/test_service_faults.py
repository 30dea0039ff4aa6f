"""What the model's service does wrong ends the run as failed, or is waited out; never as a success."""

from __future__ import annotations

import asyncio

import pytest

from desk import tool_results
from fieldmark.offline_model.messages import Turn, call, text
from fieldmark.offline_model.script import Script, drop, http_error

pytestmark = pytest.mark.anyio

UPDATE = call("update_field", {"path": "total", "value": 1, "confidence": 1.0})


@pytest.mark.parametrize(
    ("steps", "code"),
    [
        ([http_error(401)] * 9, "model_refused_key"),
        ([http_error(403)] * 9, "model_refused_key"),
        ([http_error(404)] * 9, "model_unknown"),
        ([http_error(413)] * 9, "model_refused_request"),
        ([http_error(400, message="prompt is too long: 250000 tokens > 200000 maximum")] * 9, "document_too_long"),
        ([Turn([text("No.")], "refusal")] * 9, "model_declined"),
        ([Turn([text("And")], "max_tokens")] * 9, "answer_too_long"),
        ([Turn([text("And")], "model_context_window_exceeded")] * 9, "answer_too_long"),
        ([Turn([text("Wait")], "pause_turn")] * 9, "agent_stopped"),
    ],
    ids=["401", "403", "404", "413", "too-long", "refusal", "max-tokens", "context", "pause"],
)
async def test_a_failure_ends_the_run_at_once(desk, steps, code):
    worked = await desk.work(Script(steps))
    assert not [event for event in worked.events if "retry" in event]
    assert (worked.state["status"], worked.state["error_code"], worked.state["answer"]) == ("failed", code, None)
    assert worked.state["error"].endswith(".") and worked.events[-1]["code"] == code
    # What the CLI says of the service in the agent's name is not the agent's answer.
    assert not [event for event in worked.events if "API Error" in str(event) or "The script says so" in str(event)]


async def test_what_passes_is_waited_out_and_what_does_not_ends_the_run(desk):
    """All beside each other, because the CLI waits 0.5, 1 and 2 seconds before its three retries."""
    flaky = Script([[UPDATE], http_error(429, retry_after=2), http_error(500), drop(text("Almost")), [text("Done.")]])
    lasting = {
        "model_busy": [Script([http_error(429)] * 9), Script([http_error(529)] * 9)],
        "model_unavailable": [Script([http_error(500)] * 9), Script([drop(text("Almost"))] * 9)],
    }
    recovered, *failed = await asyncio.gather(
        desk.work(flaky), *[(await desk.beside()).work(script) for scripts in lasting.values() for script in scripts]
    )
    assert (recovered.state["status"], recovered.state["answer"]) == ("completed", "Done.")
    waits = [event["wait_s"] for event in recovered.events if "retry" in event]
    assert len(waits) == 3 and waits[0] >= 2 and desk.extraction()["version"] == 1
    assert tool_results(recovered.requests[-1])[0][1] is False
    assert "Almost" not in str(recovered.events)
    codes = [worked.state["error_code"] for worked in failed]
    assert codes == ["model_busy", "model_busy", "model_unavailable", "model_unavailable"]
    for worked in failed:
        assert worked.state["status"] == "failed"
        assert [set(event) for event in worked.events[1:-1]] == [{"retry", "wait_s"}] * 3


async def test_what_was_written_before_a_failure_stays(desk):
    worked = await desk.work(Script([[UPDATE], *[http_error(400)] * 9]))
    assert worked.state["status"] == "failed" and desk.extraction()["extracted_fields"] == {"total": 1}
    assert [entry["status"] for entry in worked.ledger] == ["done"]
