"""How a run ended, told from the SDK's last message. Success is what is proven to be one."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from claude_agent_sdk import ResultMessage


@dataclass(frozen=True, slots=True)
class Outcome:
    """`status` is completed or failed; `error` and `code` say why it failed, `answer` what the agent said last."""

    status: str
    answer: str | None = None
    error: str | None = None
    code: str | None = None
    cost_usd: Decimal | None = None
    usage: dict[str, Any] = field(default_factory=dict[str, Any])


_BY_HTTP_STATUS = {
    400: ("model_refused_request", "The model's service refused the request: it may be too long for this model."),
    401: ("model_refused_key", "The model's service refused the key: check ANTHROPIC_API_KEY."),
    403: ("model_refused_key", "The model's service does not allow this key to use the model."),
    404: ("model_unknown", "The model's service does not know the model: check FIELDMARK_MODEL."),
    413: ("model_refused_request", "The request is too large for the model's service."),
    429: ("model_busy", "The model's service is at its rate limit; try again later."),
    529: ("model_busy", "The model's service is overloaded; try again later."),
}
_BY_SUBTYPE = {
    "error_max_turns": ("max_turns", "The agent used all the turns it may take (FIELDMARK_MAX_TURNS)."),
    "error_max_budget_usd": ("max_cost", "The run reached its limit of cost (max_cost_usd)."),
}
_BY_STOP_REASON = {
    "max_tokens": ("answer_too_long", "The model's answer was cut off at its greatest length."),
    "model_context_window_exceeded": ("document_too_long", "The conversation outgrew the model's context window."),
    "refusal": ("model_declined", "The model declined to work on this document."),
}
_ENDED_WELL = ("end_turn", "stop_sequence")


def outcome_of(result: ResultMessage, *, offline: bool) -> Outcome:
    """API failures arrive as subtype `success`, so success takes all of: no error, that subtype, a stop reason that
    means it, and a loop that completed."""
    usage = _usage(result)
    cost = Decimal(0) if offline else _cost(result)
    if (
        not result.is_error
        and result.subtype == "success"
        and result.api_error_status is None
        and result.stop_reason in _ENDED_WELL
        and result.terminal_reason in (None, "completed")
    ):
        return Outcome("completed", answer=(result.result or "").strip(), cost_usd=cost, usage=usage)
    code, error = _why(result)
    return Outcome("failed", error=error, code=code, cost_usd=cost, usage=usage)


def _why(result: ResultMessage) -> tuple[str, str]:
    if result.api_error_status is not None:
        return _BY_HTTP_STATUS.get(
            result.api_error_status,
            ("model_unavailable", f"The model's service answered with an error ({result.api_error_status})."),
        )
    if result.subtype in _BY_SUBTYPE:
        return _BY_SUBTYPE[result.subtype]
    if result.stop_reason in _BY_STOP_REASON:
        return _BY_STOP_REASON[result.stop_reason]
    if result.is_error:
        return "model_unavailable", "The model's service could not be reached, or broke off in the middle of an answer."
    return "agent_stopped", "The agent stopped before it was done."


def _usage(result: ResultMessage) -> dict[str, Any]:
    given = result.usage or {}
    names = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    return {**{name: int(given.get(name) or 0) for name in names}, "turns": result.num_turns}


def _cost(result: ResultMessage) -> Decimal | None:
    """US dollars by list price; None where the CLI knows no price, since it then invents one."""
    used = result.model_usage or {}
    if result.total_cost_usd is None or any(model.get("costBasis") != "list" for model in used.values()):
        return None
    return Decimal(str(result.total_cost_usd)).quantize(Decimal("0.000001"))
