"""What a person is shown of a call that waits: old → new for each path, fit to be looked at."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from uuid import UUID

from pydantic import JsonValue

from fieldmark.tools.toolset import Toolset

MAX_SHOWN_CHARACTERS = 2000
"""How much of a value is shown. The call itself has all of it."""
MAX_SHOWN_CHANGES = 500


def approval_event(
    run_id: UUID,
    call_id: str,
    tool: str,
    arguments: Mapping[str, JsonValue],
    toolset: Toolset,
    changes: Sequence[Mapping[str, JsonValue]],
) -> dict[str, JsonValue]:
    """The event of a run that waits for a person."""
    shown: list[JsonValue] = list(shown_changes(changes))
    return {
        "type": "approval",
        "approval": {
            "call_id": call_id,
            "tool": tool,
            "input": dict(arguments),
            "message": toolset.summary(tool, arguments),
            "changes": shown,
        },
        "run_id": str(run_id),
    }


def shown_changes(changes: Sequence[Mapping[str, JsonValue]]) -> list[dict[str, JsonValue]]:
    """Changes as people see them: what a screen would obey or hide is spelt out (control, bidi and zero-width
    characters), what is too long is cut, marked `shortened`, and ends in "… (shortened)".

    >>> shown_changes([{"path": "total", "old": "1\\u202e2", "new": 3}])
    [{'path': 'total', 'old': '1\\\\u202e2', 'new': 3}]
    """
    shown: list[dict[str, JsonValue]] = []
    for change in changes[:MAX_SHOWN_CHANGES]:
        path, old, new = (_shown(change.get(key)) for key in ("path", "old", "new"))
        one: dict[str, JsonValue] = {**change, "path": path[0], "old": old[0], "new": new[0]}
        if path[1] or old[1] or new[1]:
            one["shortened"] = True
        shown.append(one)
    if len(changes) > MAX_SHOWN_CHANGES:
        rest = f"… ({len(changes) - MAX_SHOWN_CHANGES} more changes: shortened)"
        shown.append({"path": rest, "old": None, "new": None, "shortened": True})
    return shown


def visible(text: str) -> str:
    """Text with every character spelt out that nobody would see, or that would move what others see."""
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


def _shown(value: JsonValue) -> tuple[JsonValue, bool]:
    """A value to be looked at, and whether it was cut. What is no text and is too long becomes its JSON, cut."""
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
