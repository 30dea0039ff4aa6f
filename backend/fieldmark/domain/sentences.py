"""Values and numbers in a sentence: short, on one line, whoever wrote them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, cast


def shown(value: Any, limit: int = 80) -> str:
    """`value` as JSON, cut at `limit` characters; objects and lists by what they are."""
    if isinstance(value, dict):
        return f"an object of {len(cast('dict[str, Any]', value))} fields"
    if isinstance(value, list):
        return f"a list of {len(cast('list[Any]', value))} items"
    if isinstance(value, str):
        return json.dumps(value[:limit], ensure_ascii=False) + ("…" if len(value) > limit else "")
    return json.dumps(value)[:limit]


def ranges(numbers: Iterable[int]) -> str:
    """Numbers in rising order, with their runs drawn together: `3, 7–9`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ", ".join("–".join(map(str, run)) for run in runs)
