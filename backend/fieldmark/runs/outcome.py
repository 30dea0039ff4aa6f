"""Decides from the last message of a conversation how the run ended. A run succeeded only if all checks agree."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass

from fieldmark.domain.answers import FallbackCode
from fieldmark.domain.formatting import cut_text
from fieldmark.domain.json_values import JsonObject
from fieldmark.domain.statuses import RunError
from fieldmark.runs.message_parts import (
    AssistantBlocks,
    ConversationResult,
    MessageDelta,
    MessagePart,
    MessageStarted,
    ServiceRetry,
    ToolReturned,
)
from fieldmark.tools.toolset import RunAnswer


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended, or why it waits. `status` is completed, failed, awaiting_approval or awaiting_runs. `error` and
    `code` are set if it failed; `answer` is the agent's last text."""

    status: str
    answer: str | None = None
    error: str | None = None
    code: RunError | None = None
    # Whether a tool call ended the run. Its text is not in a text event yet, and `result` is the structured answer.
    ended_by_tool: bool = False
    result: JsonObject | None = None
    # Why the agent has no answer, if it reported that with a call.
    fallback_code: FallbackCode | None = None
    # Whether the model's service refused a request at the moment, so that the same request may succeed later.
    is_service_down: bool = False

    @property
    def ended_with_answer_call(self) -> bool:
        """Whether the agent answered with a call. Tasks with a fallback require this."""
        return self.ended_by_tool and self.fallback_code is None

    @property
    def needs_fallback(self) -> bool:
        """Whether the answer is missing and the task's fallback may provide one. Faults of Fieldmark itself are
        reported instead."""
        is_own_fault = self.code in (RunError.UNSEALED, RunError.INTERNAL, RunError.SESSION)
        return self.status in ("completed", "failed") and not self.ended_with_answer_call and not is_own_fault

    @property
    def can_ask_again(self) -> bool:
        """Whether the failure, if any, still allows another request to the model."""
        return self.code is None or self.code in _CAN_ASK_AGAIN


_CAN_ASK_AGAIN = frozenset(
    {
        *(RunError.DEADLINE, RunError.MAX_TURNS, RunError.AGENT_STOPPED, RunError.AGENT_PROCESS),
        *(RunError.DOCUMENT_TOO_LONG, RunError.ANSWER_TOO_LONG, RunError.CALL_UNREADABLE),
    }
)
_UNPAID = (
    RunError.MODEL_UNPAID,
    "The account with the model's service has no credit left. Add credit there, then start the run again.",
)
_BY_HTTP_STATUS = {
    400: (RunError.MODEL_REFUSED_REQUEST, "The model's service rejected the request as invalid."),
    401: (
        RunError.MODEL_REFUSED_KEY,
        "The model's service rejected the API key. Check ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN, for a second "
        "reading FIELDMARK_SECOND_API_KEY or FIELDMARK_SECOND_AUTH_TOKEN, and the key that a gateway uses.",
    ),
    402: _UNPAID,
    403: (
        RunError.MODEL_REFUSED_KEY,
        "The API key may not use this model. Use another key, or another model (FIELDMARK_MODEL).",
    ),
    404: (RunError.MODEL_UNKNOWN, "The model's service does not have this model. Check FIELDMARK_MODEL."),
    413: (RunError.MODEL_REFUSED_REQUEST, "The request is too large for the model's service. Split the document."),
    429: (RunError.MODEL_BUSY, "The rate limit of the model's service is reached. Try again later."),
    529: (RunError.MODEL_BUSY, "The model's service is overloaded. Try again later."),
}
_UNREACHABLE = (
    RunError.MODEL_UNREACHABLE,
    "The model's service could not be reached. Check ANTHROPIC_BASE_URL and the network.",
)
_INTERRUPTED = (
    RunError.MODEL_UNAVAILABLE,
    "The model's service failed, or stopped in the middle of an answer. Try again later.",
)
_TOO_LONG = (
    RunError.DOCUMENT_TOO_LONG,
    "The document is too long for the model: the conversation exceeds its context window. Split the document.",
)
_CUT_OFF = (
    RunError.ANSWER_TOO_LONG,
    "The model's answer was cut off several times, at its maximum length or at the end of its context window.",
)
_DECLINED = (RunError.MODEL_DECLINED, "The model declined to work on this document.")
_SUCCESS_STOP_REASONS = ("end_turn", "stop_sequence")
_STOPPED_BY_HOOK = "hook_stopped"

_QUOTED_MESSAGE = re.compile(r'"message"\s*:\s*("(?:[^"\\]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*")')

_MAY_BE_A_KEY = re.compile(r"\bsk-[^\s\"']*|[^\s\"'=:]{20,}")

# Characters that Postgres cannot store as text.
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


class RunEnded(Exception):
    """Ends a conversation early: the run's budget or turns are used up, or the model's service refuses the key."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome


_NO_TURNS = (
    RunError.MAX_TURNS,
    "The agent used all its turns before it was done; what it wrote is kept. In a conversation send another message to "
    "continue. Otherwise start the run again, with a higher max_turns or FIELDMARK_MAX_TURNS.",
)
NO_TURNS_LEFT = Outcome("failed", code=_NO_TURNS[0], error=_NO_TURNS[1])
_REFUSED_TOO_OFTEN = Outcome(
    "failed", error="The model's calls were refused too often. Choose another model.", code=RunError.AGENT_STOPPED
)
KEY_REFUSED = Outcome("failed", code=_BY_HTTP_STATUS[401][0], error=_BY_HTTP_STATUS[401][1])


NO_ANSWER = Outcome(
    "failed",
    error="The agent found no answer that is proven by the documents. Rephrase the question.",
    code=RunError.AGENT_STOPPED,
)
NO_RESULT = Outcome(
    "failed", error="The agent's process ended without a result. Start the run again.", code=RunError.AGENT_PROCESS
)


class OutcomeObserver:
    """An observer that determines how the run ended.

    `answer` returns the run's answer once a tool call has ended the run. Raises RunEnded at the first 401: the CLI
    would retry with the same key."""

    def __init__(self, answer: Callable[[], RunAnswer | None] = lambda: None) -> None:
        self._answer = answer
        self._api_error: str | None = None
        self._is_streaming = False
        self._result: ConversationResult | None = None

    @property
    def outcome(self) -> Outcome:
        """How the run ended; a failure if the conversation has no result. A run that was ended by a tool call is
        completed, however the CLI ends afterwards: its answer is already stored."""
        if (answer := self._answer()) is not None:
            return completed_by_tool(answer)
        return (
            NO_RESULT if self._result is None else outcome_of_result(self._result, self._api_error, self._is_streaming)
        )

    def on_part(self, part: MessagePart) -> None:
        match part:
            case ServiceRetry(status=401):
                raise RunEnded(KEY_REFUSED)
            case MessageStarted():
                self._is_streaming = True
            case MessageDelta() | ServiceRetry():
                self._is_streaming = False
            case AssistantBlocks():
                self._api_error = part.error
            case ConversationResult():
                self._result = part
            case _:
                pass


class RefusalLimit:
    """An observer that raises RunEnded after so many refused calls, if there is a limit."""

    def __init__(self, limit: int | None) -> None:
        self._left = limit

    def on_part(self, part: MessagePart) -> None:
        if self._left is not None and isinstance(part, ToolReturned) and part.is_error:
            self._left -= 1
            if not self._left:
                raise RunEnded(_REFUSED_TOO_OFTEN)


def outcome_of_result(result: ConversationResult, api_error: str | None = None, is_streaming: bool = False) -> Outcome:
    """Return how the run ended. `api_error` is the CLI's error code if its last message reported a failure of the
    service; `is_streaming` is true if a message started and is not complete.

    The CLI reports API failures with the subtype `success`. So a run succeeded only if there is no error, the subtype
    and the stop reason are those of success, and the conversation completed or our hook stopped it after a call that
    ends the run."""
    if result.deferred_call is not None and not result.is_error:
        return Outcome("awaiting_approval")
    if (
        not result.is_error
        and result.subtype == "success"
        and result.api_error_status is None
        and (
            (result.stop_reason in _SUCCESS_STOP_REASONS and result.terminal_reason in (None, "completed"))
            or result.terminal_reason == _STOPPED_BY_HOOK
        )
    ):
        return Outcome("completed", answer=_storable(result.text or ""))
    code, error = _failure(result, api_error, is_streaming)
    status = result.api_error_status
    is_down = code is RunError.MODEL_UNREACHABLE or (status is not None and (status == 429 or status >= 500))
    return Outcome("failed", error=error, code=code, is_service_down=is_down)


def completed_by_tool(answer: RunAnswer) -> Outcome:
    """Return the outcome of a run that was ended by a tool call."""
    return Outcome(
        "completed",
        answer=_storable(answer.text),
        ended_by_tool=not answer.is_reported,
        result=answer.result,
        fallback_code=answer.fallback_code,
    )


def _storable(text: str) -> str:
    return _UNSTORABLE.sub("\ufffd", text.strip())


def _service_message(text: str) -> str:
    """Return the sentence of the model's service in the CLI's report of its error, cut to 300 characters."""
    quoted = _QUOTED_MESSAGE.search(text)
    message = json.loads(quoted[1], strict=False) if quoted else text.partition("API Error:")[2]
    return cut_text(" ".join(_storable(message).split()), 300)


def _failure(result: ConversationResult, api_error: str | None, is_streaming: bool) -> tuple[RunError, str]:
    if result.terminal_reason == "prompt_too_long":  # its status is 400, like that of other bad requests
        return _TOO_LONG
    if api_error == "billing_error":  # the Anthropic API uses the status of a bad request
        return _UNPAID
    if result.api_error_status is not None:
        status = result.api_error_status
        unknown = f"The model's service returned HTTP status {status}."
        code, error = _BY_HTTP_STATUS.get(status) or (
            (RunError.MODEL_REFUSED_REQUEST, unknown)
            if 400 <= status < 500
            else (RunError.MODEL_UNAVAILABLE, f"{unknown} Try again later.")
        )
        message = _service_message(result.text or "")
        if code is RunError.MODEL_REFUSED_KEY:  # the message may repeat the key
            message = _MAY_BE_A_KEY.sub("…", message)
        return code, f"{error} Its message: {message}" if message else error
    if result.subtype == "error_max_turns":
        return _NO_TURNS
    if result.stop_reason == "refusal":
        return _DECLINED
    if api_error == "max_output_tokens":
        return _CUT_OFF
    if result.is_error:
        return _INTERRUPTED if is_streaming or result.terminal_reason != "api_error" else _UNREACHABLE
    return RunError.AGENT_STOPPED, "The agent stopped before it was done. Start the run again."
