"""Format values, texts and page numbers for messages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import accumulate

from pydantic import JsonValue


def short_json(value: JsonValue, limit: int = 80) -> str:
    """Return a value as JSON, cut to `limit` characters. An object or list is shown by size: `a list of 3 items`."""
    if isinstance(value, dict):
        return f"an object of {len(value)} fields"
    if isinstance(value, list):
        return f"a list of {len(value)} items"
    if isinstance(value, str):
        return json.dumps(value[:limit], ensure_ascii=False) + ("…" if len(value) > limit else "")
    return json.dumps(value)[:limit]


def value_text(value: object) -> str:
    """Return a text as it is, and any other value as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def cut_text(text: str, max_characters: int) -> str:
    return text if len(text) <= max_characters else f"{text[:max_characters].rstrip()}…"


def list_names(names: Sequence[str], *, characters: int, most: int) -> str:
    """Return names separated by commas, and the number of those that have no room: `total, vendor and 3 more`.

    >>> list_names(["total", "vendor", "date"], characters=12, most=6)
    'total and 2 more'
    """
    shown = list(accumulate(names[:most], "{}, {}".format))
    count = sum(len(text) <= characters for text in shown)
    if count == 0 and names:
        shown, count = [cut_text(names[0], characters)], 1
    rest = len(names) - count
    return (shown[count - 1] if shown else "") + (f" and {rest} more" if rest else "")


def format_ranges(numbers: Iterable[int]) -> str:
    """Format ascending numbers, joining consecutive ones: `3, 7–9`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ", ".join("–".join(map(str, run)) for run in runs)


def counted(count: int, noun: str) -> str:
    """Return a number with its noun: `1 page`, `2 pages`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
