"""The outcome of a run for each result of the CLI."""

from __future__ import annotations

import pytest

from fieldmark.runs.message_parts import (
    AssistantBlocks,
    ConversationResult,
    MessageDelta,
    MessageStarted,
    ServiceRetry,
    TextBlock,
)
from fieldmark.runs.outcome import KEY_REFUSED, OutcomeObserver, RunEnded, outcome_of_result


def result(**changes) -> ConversationResult:
    success = {"stop_reason": "end_turn", "text": " Done. ", "terminal_reason": "completed"}
    return ConversationResult(**(success | changes))


@pytest.mark.parametrize(
    "changes", [{}, {"stop_reason": "stop_sequence"}, {"terminal_reason": None}], ids=["end", "stop", "older"]
)
def test_successful_results(changes):
    outcome = outcome_of_result(result(**changes), None)
    assert (outcome.status, outcome.answer, outcome.error, outcome.code) == ("completed", "Done.", None, None)


API_ERROR = {"is_error": True, "stop_reason": "stop_sequence", "terminal_reason": "api_error"}


@pytest.mark.parametrize(
    ("status", "text", "message"),
    [
        (500, 'API Error: 500 {"error": {"message": "litellm: no \\"chat\\"\\n model"}}', 'litellm: no "chat" model'),
        (500, "API Error: 500 upstream broke", "500 upstream broke"),
        (500, "something else", None),
        (400, 'API Error: 400 {"message":"' + "x" * 999 + '"}', "x" * 250),
        (404, 'API Error: 404 {"detail": {"message": "no model x"}}', "no model x"),
        (422, "API Error: 422 max_tokens is too large", "422 max_tokens is too large"),
        (401, 'API Error: 401 {"message":"expired key=sk-1"}', "expired key=…"),
        (403, 'API Error: 403 {"message":"wrong key 0123456789abcdef0123456789, team blue"}', "wrong key … team blue"),
    ],
)
def test_a_gateways_own_message_reaches_the_error_without_what_may_be_a_key(status, text, message):
    error = outcome_of_result(result(**API_ERROR | {"api_error_status": status, "text": text})).error
    assert error is not None and len(error) < 600 and "sk-1" not in error
    assert (message in error) if message else ("Its message" not in error)


@pytest.mark.parametrize(
    ("changes", "api_error", "code"),
    [
        (API_ERROR | {"api_error_status": 400}, "invalid_request", "model_refused_request"),
        (API_ERROR | {"api_error_status": 400}, "billing_error", "model_unpaid"),
        (API_ERROR | {"api_error_status": 402}, None, "model_unpaid"),
        (API_ERROR | {"api_error_status": 400, "terminal_reason": "prompt_too_long"}, None, "document_too_long"),
        (API_ERROR | {"api_error_status": 401}, "authentication_failed", "model_refused_key"),
        (API_ERROR | {"api_error_status": 404}, "invalid_request", "model_unknown"),
        (API_ERROR | {"api_error_status": 429}, "rate_limit", "model_busy"),
        (API_ERROR | {"api_error_status": 529}, "server_error", "model_busy"),
        (API_ERROR | {"api_error_status": 422}, None, "model_refused_request"),
        (API_ERROR | {"api_error_status": 503}, None, "model_unavailable"),
        # The CLI may report success here: the status decides.
        ({"api_error_status": 500}, None, "model_unavailable"),
        (API_ERROR, "server_error", "model_unreachable"),
        (API_ERROR, "max_output_tokens", "answer_too_long"),
        (API_ERROR | {"stop_reason": "refusal"}, "invalid_request", "model_declined"),
        ({"subtype": "error_max_turns", "is_error": True, "stop_reason": "tool_use"}, None, "max_turns"),
        ({"subtype": "error_during_execution"}, None, "agent_stopped"),
        ({"stop_reason": None}, None, "agent_stopped"),
        ({"stop_reason": "refusal"}, None, "model_declined"),
        ({"terminal_reason": "aborted_streaming"}, None, "agent_stopped"),
    ],
)
def test_every_other_result_is_a_failure_with_a_code(changes, api_error, code):
    outcome = outcome_of_result(result(**changes), api_error)
    assert (outcome.status, outcome.code, outcome.answer) == ("failed", code, None)
    assert outcome.error


def test_unstorable_characters_of_an_answer_are_replaced():
    assert outcome_of_result(result(text="a\0b\ud800c"), None).answer == "a\ufffdb\ufffdc"
    assert outcome_of_result(result(text=None), None).answer == ""


def test_deferred_call_awaits_approval_unless_the_cli_failed():
    assert outcome_of_result(result(deferred_call="c")).status == "awaiting_approval"
    assert outcome_of_result(result(deferred_call="c", is_error=True)).status == "failed"


def test_refused_key_ends_the_run_at_the_first_401():
    observer = OutcomeObserver()
    for status in (429, None):
        observer.on_part(ServiceRetry(0.5, status))
    with pytest.raises(RunEnded) as ended:
        observer.on_part(ServiceRetry(0.5, 401))
    assert ended.value.outcome == KEY_REFUSED and KEY_REFUSED.code == "model_refused_key"


def test_only_the_last_model_api_error_is_reported():
    failing, recovered, without_result = OutcomeObserver(), OutcomeObserver(), OutcomeObserver()
    cut_off = AssistantBlocks((TextBlock("And"),), error="max_output_tokens")
    for part in (AssistantBlocks(()), cut_off, result(is_error=True)):
        failing.on_part(part)
    for part in (cut_off, AssistantBlocks((TextBlock("Done."),)), result()):
        recovered.on_part(part)
    without_result.on_part(AssistantBlocks((TextBlock("Done."),)))
    # The last message decides whether the model API was reachable.
    interrupted, completed, retried = OutcomeObserver(), OutcomeObserver(), OutcomeObserver()
    for observer, parts in (
        (interrupted, []),
        (completed, [MessageDelta("tool_use")]),
        (retried, [ServiceRetry(1, None)]),
    ):
        for part in (MessageStarted("m", "model"), *parts, result(**API_ERROR)):
            observer.on_part(part)
    assert interrupted.outcome.code == "model_unavailable"
    assert completed.outcome.code == retried.outcome.code == "model_unreachable"
    assert (failing.outcome.code, recovered.outcome.code) == ("answer_too_long", None)
    assert (without_result.outcome.status, without_result.outcome.code) == ("failed", "agent_process")
