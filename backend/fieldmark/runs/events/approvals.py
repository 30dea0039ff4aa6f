"""Formats the changes of a pending call for the person who decides it: old → new for each path."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from uuid import UUID

from pydantic import JsonValue

from fieldmark.domain.events import ApprovalEvent, ProposedCall, ShownChange

Changed = Mapping[str, JsonValue]
"""A change as stored in the ledger: {path, old, new, added?, removed?}."""

MAX_SHOWN_CHARACTERS = 2000
"""A longer value is cut. The call itself contains all of it."""
MAX_SHOWN_CHANGES = 500


def approval_event(
    run_id: UUID, call_id: str, tool: str, arguments: dict[str, JsonValue], message: str, changes: Sequence[Changed]
) -> ApprovalEvent:
    """Return the event of a run that awaits approval. `message` is a summary of the call."""
    return ApprovalEvent(
        run_id=run_id,
        approval=ProposedCall(
            call_id=call_id, tool=tool, input=arguments, message=message, changes=shown_changes(changes)
        ),
        text=f"Waiting for a person's decision: {message}",
    )


def shown_changes(changes: Sequence[Changed]) -> list[ShownChange]:
    """Return changes for display. Control, bidi and zero-width characters are escaped. A long value is cut, marked
    `shortened`, and ends in "… (shortened)".

    >>> shown_changes([{"path": "total", "old": "1\\u202e2", "new": 3}])[0].old
    '1\\\\u202e2'
    """
    shown: list[ShownChange] = []
    for change in changes[:MAX_SHOWN_CHANGES]:
        (path, long_path), (old, long_old), (new, long_new) = (
            _shorten_for_display(change.get(key)) for key in ("path", "old", "new")
        )
        shown.append(
            ShownChange(
                path=str(path),
                old=old,
                new=new,
                added=True if change.get("added") else None,
                removed=True if change.get("removed") else None,
                shortened=True if long_path or long_old or long_new else None,
            )
        )
    if len(changes) > MAX_SHOWN_CHANGES:
        rest = f"… ({len(changes) - MAX_SHOWN_CHANGES} more changes: shortened)"
        shown.append(ShownChange(path=rest, old=None, new=None, shortened=True))
    return shown


def visible(text: str) -> str:
    """Return text with all invisible and control characters escaped."""
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


def _shorten_for_display(value: JsonValue) -> tuple[JsonValue, bool]:
    """Return a value for display, and whether it was cut. A long list or object is returned as text: its JSON, cut."""
    if isinstance(value, str):
        text = visible(value[: MAX_SHOWN_CHARACTERS + 1])
        is_long = len(value) > MAX_SHOWN_CHARACTERS
        return (f"{text[:MAX_SHOWN_CHARACTERS]}… (shortened)", True) if is_long else (text, False)
    if not isinstance(value, list | dict):
        return value, False
    text = json.dumps(value, ensure_ascii=False)
    if len(text) > MAX_SHOWN_CHARACTERS:
        return f"{visible(text[:MAX_SHOWN_CHARACTERS])}… (shortened)", True
    return _all_visible(value), False


def _all_visible(value: JsonValue) -> JsonValue:
    match value:
        case str():
            return visible(value)
        case list():
            return [_all_visible(one) for one in value]
        case dict():
            return {visible(key): _all_visible(one) for key, one in value.items()}
        case _:
            return value
