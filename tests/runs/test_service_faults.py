"""Faults of the model API are retried or fail the run. None becomes a success."""

from __future__ import annotations

import asyncio

import pytest

from child_processes import cli_processes
from extraction_case import FinishedRun, tool_results
from fieldmark.errors import ModelServiceDown
from fieldmark.offline_model.messages import Turn, call, text
from fieldmark.offline_model.server import OfflineModel
from fieldmark.runs.billing.prices import Prices, TokenUsage
from fieldmark.runs.engine.options import ModelService
from fieldmark.runs.engine.pool import CliPool
from fieldmark.runs.run import MODEL_WAIT_SECONDS, Runner
from fieldmark.stores import extractions
from fieldmark.testing.script import Script, drop_connection, http_error, repeat_forever, stall_connection

pytestmark = pytest.mark.anyio

UPDATE = call("update_field", {"path": "total", "value": 1, "confidence": 1.0})


def assert_consistent(finished: FinishedRun) -> FinishedRun:
    """Return a finished run after checking it: one last event, an end for each started call, no unfinished call."""
    state, events = finished.state, finished.events
    assert state["finished_at"] is not None and set(events[0]) == {"type", "run_id", "extraction_id"}
    last = [event for event in events if event["type"] in ("complete", "error")]
    assert last == [events[-1]]
    if state["status"] == "completed":
        assert events[-1]["complete"] is True and state["error"] is None
    else:
        assert (events[-1]["code"], events[-1]["error"]) == (state["error_code"], state["error"])
        assert state["status"] == "failed"
    started = [event["call_id"] for event in events if event.get("status") == "running"]
    finished_calls = [event["call_id"] for event in events if event.get("status") in ("complete", "error")]
    assert sorted(started) == sorted(finished_calls) and len(set(started)) == len(started)
    for event in events:
        if "retry" in event:
            assert set(event) == {"type", "retry", "code", "wait_s"} and event["wait_s"] >= 0
    assert {entry["status"] for entry in finished.ledger} <= {"done", "failed", "refused"}
    assert finished.case.extraction()["version"] == max([row["version"] for row in finished.case.journal()], default=0)
    return finished


@pytest.mark.real_cli("its texts for refused requests")
async def test_permanent_failure_ends_the_run_with_a_code(case):
    async with OfflineModel(Script([])) as model:
        pass  # the port is closed again

    async def unreachable(case) -> FinishedRun:
        run_id = await case.queue_run()
        await case.runner(model).execute(run_id)
        return FinishedRun(case, run_id, [])

    failures = {
        "model_refused_key": [[UPDATE], *[http_error(401)] * 9],
        "document_too_long": [http_error(400, message="prompt is too long: 250000 tokens > 200000 maximum")] * 9,
        "answer_too_long": [Turn([text("And")], "max_tokens")] * 9,
    }
    executions = [(await case.another_extraction()).execute_run(Script(steps)) for steps in failures.values()]
    unreachable_run, *failed = map(assert_consistent, await asyncio.gather(unreachable(case), *executions))
    assert cli_processes() == []
    assert unreachable_run.state["error_code"] == "model_unreachable"
    assert [set(event) for event in unreachable_run.events[1:-1]] == [{"type", "retry", "code", "wait_s"}] * 3
    for finished, code in zip(failed, failures, strict=True):
        assert not [event for event in finished.events if "retry" in event]  # not retried
        assert (finished.state["status"], finished.state["error_code"], finished.state["answer"]) == (
            "failed",
            code,
            None,
        )
        # Earlier writes stay.
        assert finished.case.extraction()["extracted_fields"] == ({"total": 1} if finished.ledger else {})
        # The CLI's own text about the error is not an answer of the agent.
        assert not [event for event in finished.events if "API Error" in str(event) or "script says so" in str(event)]


async def test_temporary_service_fault_is_retried_permanent_one_ends_the_run(case):
    # Concurrently: each of three retries waits.
    flaky = Script(
        [[UPDATE], http_error(429, retry_after=2), http_error(500), drop_connection(text("Almost")), [text("Done.")]]
    )
    permanent = {
        "model_busy": Script([http_error(529)] * 9),
        "model_unavailable": Script([stall_connection(0.2, text("Almost"))] * 9),
    }
    recovered, *failed = await asyncio.gather(
        case.execute_run(flaky),
        *[(await case.another_extraction()).execute_run(script) for script in permanent.values()],
    )
    assert_consistent(recovered)
    assert (recovered.state["status"], recovered.state["answer"]) == ("completed", "Done.")
    waits = [event["wait_s"] for event in recovered.events if "retry" in event]
    assert len(waits) == 3 and waits[0] >= 2 and case.extraction()["version"] == 1  # the retry-after of the API
    assert tool_results(recovered.requests[-1])[0][1] is False
    assert "Almost" not in str(recovered.events)
    assert [finished.state["error_code"] for finished in failed] == list(permanent)
    for finished in map(assert_consistent, failed):
        assert finished.state["status"] == "failed" and finished.ledger == []
        assert [set(event) for event in finished.events[1:-1]] == [{"type", "retry", "code", "wait_s"}] * 3


@pytest.mark.real_cli("what it stores of a conversation whose next request failed")
async def test_background_run_waits_while_the_model_is_down_and_then_continues(case):
    run_id = await case.queue_run(background=True)
    with pytest.raises(ModelServiceDown):
        await case.execute_run(Script([[UPDATE], *[http_error(529)] * 4]), run_id=run_id)
    state, last = case.state(run_id), case.events(run_id)[-1]
    assert (state["status"], state["consecutive_failures"]) == ("running", 0)
    assert (last["type"], last["code"], last["wait_s"]) == ("retry", "busy", MODEL_WAIT_SECONDS)
    # The conversation goes on after the call.
    finished = assert_consistent(await case.execute_run(Script([repeat_forever([text("Done.")])]), run_id=run_id))
    assert (finished.state["status"], case.extraction()["extracted_fields"]) == ("completed", {"total": 1})
    assert "tool_result" in str(finished.requests[0]["messages"])
    assert [entry["status"] for entry in finished.ledger] == ["done"]


async def test_background_run_fails_if_the_model_is_down_for_a_day_or_breaks_its_answers(case):
    waited, broken = await case.queue_run(background=True), await case.another_extraction()
    case.sql("update public.runs set started_at = now() - interval '25 hours' where id = %s", waited)
    finished = await asyncio.gather(
        case.execute_run(Script([http_error(503)] * 4), run_id=waited),
        broken.execute_run(Script([stall_connection(0.2, text("Almost"))] * 9), background=True),
    )
    assert [one.state["error_code"] for one in map(assert_consistent, finished)] == ["model_unavailable"] * 2


@pytest.mark.real_cli("interrupted calls")
async def test_call_interrupted_in_mid_stream_is_retried_and_executed_once(case):
    other = call("update_field", {"path": "number", "value": "1", "confidence": 1.0})
    script = Script([drop_connection(UPDATE), [UPDATE], stall_connection(0.5, other), [other], [text("Done.")]])
    finished = assert_consistent(await case.execute_run(script))
    assert (finished.state["status"], finished.state["answer"]) == ("completed", "Done.")
    assert len([event for event in finished.events if "retry" in event]) == 2
    assert [entry["id"] for entry in finished.ledger] == [UPDATE.id, other.id]
    written = [(row["path"], row["call_id"]) for row in case.journal()]
    assert written == [(["total"], UPDATE.id), (["number"], other.id)]


@pytest.mark.real_cli("an answer that stalls after a complete block")
async def test_text_before_an_interrupted_stream_is_reported_once(case):
    """The CLI keeps complete blocks and discards incomplete ones."""
    finished = assert_consistent(
        await case.execute_run(Script([stall_connection(0.5, text("I write."), UPDATE), [UPDATE], [text("Done.")]]))
    )
    assert finished.state["status"] == "completed"
    assert [event["text"] for event in finished.events if "text" in event] == ["I write.", "Done."]
    assert [event["wait_s"] for event in finished.events if "retry" in event] == [0.0]
    assert len(case.journal()) <= 1 and {entry["id"] for entry in finished.ledger} <= {UPDATE.id}


@pytest.mark.real_cli("the fallback model")
async def test_fallback_model_answers_for_an_overloaded_model_and_is_charged(case):
    def answer(body):
        if body["model"] == "claude-sonnet-5":
            return http_error(529)
        return Turn([text("Done.")] if tool_results(body) else [UPDATE], usage={"input_tokens": 9})

    run_id = await case.queue_run()
    async with OfflineModel(answer) as model:
        service = ModelService(model.base_url, "test-key", None, fallback_model="claude-haiku-4-5")
        prices = Prices("claude-sonnet-5", fallback="claude-haiku-4-5")
        pool = CliPool(service, seconds=60)
        limits = {"max_turns": 5, "seconds": 60, "prices": prices}
        await Runner(case.database, pool, model="claude-sonnet-5", **limits).execute(run_id)
    assert (case.state(run_id)["status"], case.state(run_id)["answer"]) == ("completed", "Done.")
    retries = [event["retry"] for event in case.events(run_id) if "retry" in event]
    assert "claude-sonnet-5" in retries[-1] and "claude-haiku-4-5" in retries[-1]
    charged, _ = case.sql("select * from public.usage where run_id = %s order by created_at", run_id)
    tokens = TokenUsage(charged["input_tokens"], charged["output_tokens"])
    assert charged["model"] == "claude-haiku-4-5"
    assert charged["cost_usd"] == prices.of("claude-haiku-4-5").of(tokens) != prices.of("claude-sonnet-5").of(tokens)
    # The journal names the answering model. A user's change has no model.
    await case.set_fields({"total": 2})
    async with case.database.as_user(case.scope) as conn:
        journal, _ = await extractions.history(conn, case.extraction_id, path=None, limit=5, before=None)
    assert [(entry.actor, entry.model) for entry in journal] == [("user", None), ("agent", "claude-haiku-4-5")]
