"""Check which values a field may store: bounded size, depth and digits, and characters that Postgres accepts."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator

from pydantic import JsonValue

from fieldmark.domain.invisible import find_invisible
from fieldmark.domain.numbers import MAX_EXACT_DIGITS, digit_count, is_number
from valuegrounding.decimals import MAX_DIGITS, to_decimal

MAX_DEPTH = 32
MAX_BYTES = 256 * 1024
MAX_KEY_CHARACTERS = 200

# A Postgres text cannot hold NUL, and UTF-8 cannot hold half of a surrogate pair.
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def value_problem(value: JsonValue) -> str | None:
    """Return why a value cannot be stored, or None if it can.

    Limits: 256 KB of JSON, 32 levels, numbers of 40 digits, keys of 1 to 200 characters.
    """
    for problem in _problems(value, "value", 1):
        return problem
    size = len(canonical(value))
    if size > MAX_BYTES:
        return f"The value has {size:,} bytes as JSON, at most {MAX_BYTES:,} are allowed: write it in parts."
    return None


def _problems(value: JsonValue, where: str, depth: int) -> Iterator[str]:
    if depth > MAX_DEPTH:
        yield f"The value is nested more than {MAX_DEPTH} levels deep."
    elif isinstance(value, str):
        if _UNSTORABLE.search(value):
            yield f"The text at {where} contains a NUL or half of a surrogate pair, which cannot be stored."
    elif isinstance(value, bool) or value is None:
        return
    elif isinstance(value, int):
        if abs(value) >= 10**MAX_DIGITS:
            yield f"The number at {where} has more than {MAX_DIGITS} digits: write it as text."
    elif isinstance(value, float):
        if not math.isfinite(value):
            yield f"The number at {where} is not finite."
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _problems(item, f"{where}[{index}]", depth + 1)
    else:
        for key, item in value.items():
            if not 1 <= len(key) <= MAX_KEY_CHARACTERS:
                yield f"A key at {where} has {len(key)} characters, 1 to {MAX_KEY_CHARACTERS} are allowed."
            if _UNSTORABLE.search(key):
                yield f"A key at {where} contains a NUL or half of a surrogate pair, which cannot be stored."
            yield from _problems(item, f"{where}.{key[:40]}", depth + 1)


def rounded_number_problem(value: JsonValue) -> str | None:
    """Return why a value from the agent's process cannot be used, or None if it can. The process is written in
    JavaScript, which keeps 15 digits of a number, and may have rounded one that has more."""
    if isinstance(value, list | dict):
        problems = map(rounded_number_problem, value if isinstance(value, list) else value.values())
        return next((problem for problem in problems if problem), None)
    if is_number(value) and digit_count(to_decimal(value)) > MAX_EXACT_DIGITS:
        return f"The number {value} has more than {MAX_EXACT_DIGITS} digits, so some may be lost: write it as text."
    return None


def invisible_problem(value: JsonValue, where: str = "value") -> str | None:
    """Return a message with the first invisible character of a value and its position, or None."""
    if isinstance(value, str):
        found = find_invisible(value)
        return None if found is None else f"The text at {where} contains the invisible character {found}. Remove it."
    if isinstance(value, list):
        items = (invisible_problem(item, f"{where}[{index}]") for index, item in enumerate(value))
        return next((sentence for sentence in items if sentence), None)
    if isinstance(value, dict):
        for key, item in value.items():
            if found := find_invisible(key, key=True):
                return f"A key at {where} contains the invisible character {found}. Remove it."
            if sentence := invisible_problem(item, f"{where}.{key[:40]}"):
                return sentence
    return None


def canonical(value: JsonValue) -> bytes:
    """Return the value as canonical JSON: sorted keys, no spaces, ASCII only, so that encoding never fails."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()
