"""The status of a field, written a second time and in another way than `private.field_status`, for the tests."""

from __future__ import annotations

Status = tuple[str, str | None]


def field_status(
    kind: str,
    state: str | None,
    confidence: float | None,
    doubt: str | None,
    is_locked: bool,
    is_proposed: bool,
    problem: str | None,
    min_confidence: float,
    is_audit: bool,
    accepted: str | None,
) -> Status:
    """Return the status and its reason."""
    status = _status(kind, state, confidence, doubt, is_locked, is_proposed, problem, min_confidence, is_audit)
    if status[0] in ("needs_review", "unclear") and status[1] == accepted:
        return "accepted", accepted
    return status


def _status(
    kind: str,
    state: str | None,
    confidence: float | None,
    doubt: str | None,
    is_locked: bool,
    is_proposed: bool,
    problem: str | None,
    min_confidence: float,
    is_audit: bool,
) -> Status:
    if kind == "container":
        # Its values have the proposals and the locks. A doubt is one of the whole list or item.
        if problem:
            return "needs_review", problem
        if is_locked:
            return "confirmed", _of_lock(is_locked, state)
        is_doubted = confidence is not None and confidence < 0.5
        return ("unclear", doubt or "low_confidence") if is_doubted else ("found", None)
    if is_proposed:
        return "needs_review", "proposal"
    if kind == "blank" and is_locked:
        return "blank", "person"
    if problem:
        return "needs_review", problem
    if is_locked:
        return "confirmed", _of_lock(is_locked, state)
    if kind == "blank":
        return ("blank" if state == "blank" else "not_written"), None
    if state not in ("found", "message"):
        return "needs_review", "not_found"
    # The list item of a value with the doubt `row` is what a person is asked; a yes or no never has more than 0.7.
    is_enough = doubt == "row" or kind == "boolean"
    least_needed = 0.5 if is_enough and min_confidence <= 1 else max(min_confidence, 0.5)
    if confidence is not None and confidence < least_needed:
        asked = "low_confidence" if confidence < 0.5 else "often_corrected" if min_confidence > 1 else "below_threshold"
        return "unclear", doubt or asked
    if is_audit:
        return "unclear", "audit"
    return "found", "message" if state == "message" else None


def _of_lock(is_locked: bool, state: str | None) -> str | None:
    return "person" if is_locked and state != "found" else None
