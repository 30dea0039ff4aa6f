"""How a run ended, told from the agent's last words. Success is what is proven to be one."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from fieldmark.domain.answers import FallbackCode
from fieldmark.domain.json_values import JsonObject
from fieldmark.domain.statuses import RunError
from fieldmark.runs.parts import AssistantBlocks, ConversationResult, MessageDelta, MessageStarted, Part, ServiceRetry
from fieldmark.tools.toolset import Answer


@dataclass(frozen=True, slots=True)
class Outcome:
    """`status` is completed, failed, awaiting_approval or awaiting_runs. `error` and `code` say why it failed, `answer`
    is what the agent said last."""

    status: str
    answer: str | None = None
    error: str | None = None
    code: RunError | None = None
    # Whether a call has ended the run: its answer is nobody's words yet. With that what it is for programs.
    by_call: bool = False
    result: JsonObject | None = None
    # Why the agent gave up, where it did so by a call.
    gave_up: FallbackCode | None = None

    @property
    def is_answer(self) -> bool:
        """Whether the agent has answered by a call, as a task with a fallback asks for."""
        return self.by_call and self.gave_up is None

    @property
    def may_fall_back(self) -> bool:
        """Whether a fallback may stand in for the missing answer. Faults of the service itself are reported instead."""
        is_own_fault = self.code in (RunError.UNSEALED, RunError.INTERNAL, RunError.SESSION)
        return self.status in ("completed", "failed") and not self.is_answer and not is_own_fault

    @property
    def model_can_be_asked(self) -> bool:
        """Whether the model is reachable and there is money to ask it once more."""
        return self.code is None or self.code in _MODEL_CAN_BE_ASKED


_MODEL_CAN_BE_ASKED = frozenset(
    {
        *(RunError.DEADLINE, RunError.MAX_TURNS, RunError.AGENT_STOPPED, RunError.AGENT_PROCESS),
        *(RunError.DOCUMENT_TOO_LONG, RunError.ANSWER_TOO_LONG),
    }
)
_BY_HTTP_STATUS = {
    400: (RunError.MODEL_REFUSED_REQUEST, "The model's service refused the request."),
    401: (RunError.MODEL_REFUSED_KEY, "The model's service refused the key: check ANTHROPIC_API_KEY."),
    403: (RunError.MODEL_REFUSED_KEY, "The model's service does not allow this key to use the model."),
    404: (RunError.MODEL_UNKNOWN, "The model's service does not know the model: check FIELDMARK_MODEL."),
    413: (RunError.MODEL_REFUSED_REQUEST, "The request is too large for the model's service."),
    429: (RunError.MODEL_BUSY, "The model's service is at its rate limit; try again later."),
    529: (RunError.MODEL_BUSY, "The model's service is overloaded; try again later."),
}
_UNREACHABLE = (
    RunError.MODEL_UNREACHABLE,
    "The model's service could not be reached. Check ANTHROPIC_BASE_URL and the network.",
)
_BROKE_OFF = (RunError.MODEL_UNAVAILABLE, "The model's service failed, or broke off in the middle of an answer.")
_TOO_LONG = (
    RunError.DOCUMENT_TOO_LONG,
    "The document is too long for the model: the conversation outgrew its context window.",
)
_CUT_OFF = (
    RunError.ANSWER_TOO_LONG,
    "The model's answer was cut off several times: at its greatest length, or at the end of its context window.",
)
_DECLINED = (RunError.MODEL_DECLINED, "The model declined to work on this document.")
_ENDED_WELL = ("end_turn", "stop_sequence")
_ENDED_BY_HOOK = "hook_stopped"

# What a Postgres text cannot hold.
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


class RunEnded(Exception):
    """Ends a conversation in the middle: there is no money or no turn left, or the model's service refuses the key."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome


_NO_TURNS = (RunError.MAX_TURNS, "The agent used all the turns it may take (max_turns, FIELDMARK_MAX_TURNS).")
NO_TURNS_LEFT = Outcome("failed", code=_NO_TURNS[0], error=_NO_TURNS[1])
KEY_REFUSED = Outcome("failed", code=_BY_HTTP_STATUS[401][0], error=_BY_HTTP_STATUS[401][1])


NO_ANSWER = Outcome("failed", error="The agent came to no answer that is proven.", code=RunError.AGENT_STOPPED)
NO_RESULT = Outcome("failed", error="The agent's process ended without a result.", code=RunError.AGENT_PROCESS)


class OutcomeObserver:
    """Sees a conversation through to its result: `outcome` is how it ended.

    `answer` gives the run's answer, once a call has ended it. Raises RunEnded at the first 401: the CLI would ask
    three times more, each time with the same key."""

    def __init__(self, answer: Callable[[], Answer | None] = lambda: None) -> None:
        self._answer = answer
        self._api_error: str | None = None
        self._is_answering = False
        self._result: ConversationResult | None = None

    @property
    def outcome(self) -> Outcome:
        """How it ended; a failure while it has not. What a call has ended is in the database: whatever the CLI made of
        it afterwards, the run is completed."""
        if (answer := self._answer()) is not None:
            return ended_by_call(answer)
        return NO_RESULT if self._result is None else outcome_of(self._result, self._api_error, self._is_answering)

    def on_part(self, part: Part) -> None:
        match part:
            case ServiceRetry(status=401):
                raise RunEnded(KEY_REFUSED)
            case MessageStarted():
                self._is_answering = True
            case MessageDelta() | ServiceRetry():
                self._is_answering = False
            case AssistantBlocks():
                self._api_error = part.error
            case ConversationResult():
                self._result = part
            case _:
                pass


def outcome_of(result: ConversationResult, api_error: str | None = None, is_answering: bool = False) -> Outcome:
    """How the run ended. `api_error` is what the CLI says of the last answer, if that was a failure of the service;
    `is_answering` whether an answer has begun and is not whole.

    API failures arrive as subtype `success`, so success takes all of: no error, that subtype, a stop reason that
    means it, and a loop that completed; or one that our own hook has stopped behind a call that ends the run."""
    if result.deferred_call is not None and not result.is_error:
        return Outcome("awaiting_approval")
    if (
        not result.is_error
        and result.subtype == "success"
        and result.api_error_status is None
        and (
            (result.stop_reason in _ENDED_WELL and result.terminal_reason in (None, "completed"))
            or result.terminal_reason == _ENDED_BY_HOOK
        )
    ):
        return Outcome("completed", answer=_storable(result.text or ""))
    code, error = _why(result, api_error, is_answering)
    return Outcome("failed", error=error, code=code)


def ended_by_call(answer: Answer) -> Outcome:
    """How a run ended that a call of its own has ended."""
    return Outcome(
        "completed", answer=_storable(answer.text), by_call=True, result=answer.result, gave_up=answer.gave_up
    )


def _storable(text: str) -> str:
    return _UNSTORABLE.sub("\ufffd", text.strip())


def _why(result: ConversationResult, api_error: str | None, is_answering: bool) -> tuple[RunError, str]:
    if result.terminal_reason == "prompt_too_long":  # status 400, as other faults of a request
        return _TOO_LONG
    if result.api_error_status is not None:
        return _BY_HTTP_STATUS.get(
            result.api_error_status,
            (RunError.MODEL_UNAVAILABLE, f"The model's service answered with an error ({result.api_error_status})."),
        )
    if result.subtype == "error_max_turns":
        return _NO_TURNS
    if result.stop_reason == "refusal":
        return _DECLINED
    if api_error == "max_output_tokens":
        return _CUT_OFF
    if result.is_error:
        return _BROKE_OFF if is_answering or result.terminal_reason != "api_error" else _UNREACHABLE
    return RunError.AGENT_STOPPED, "The agent stopped before it was done."
