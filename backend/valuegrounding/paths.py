"""The leaves of any JSON value, and the names of their paths: `vendor.name`, `items[2].price`, `["a.b"].c`.

A path is a tuple of steps: a `str` is a key of an object, an `int` an index of a list, from 0. A key with a dot, a
bracket or anything else that would be ambiguous is written as a JSON string in brackets.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from pydantic import JsonValue

Path: TypeAlias = tuple[str | int, ...]

# A key that needs no quotes: no dot, bracket, quote, backslash or control character, and single spaces within only.
_PLAIN_CHARACTER: Final = r'[^\].\["\\\x00-\x20\x7f]'
PLAIN_KEY: Final = re.compile(rf"{_PLAIN_CHARACTER}+(?: {_PLAIN_CHARACTER}+)*")


def name(path: Sequence[str | int]) -> str:
    """Return the canonical text of a path. Different paths have different names."""
    text = ""
    for step in path:
        text = child_name(text, step)
    return text


def child_name(parent: str, step: str | int) -> str:
    """Return the name of the path that has one more step than that of `parent`."""
    if isinstance(step, int):
        return f"{parent}[{step}]"
    if PLAIN_KEY.fullmatch(step):
        return f"{parent}.{step}" if parent else step
    return f"{parent}[{json.dumps(step, ensure_ascii=False)}]"


def walk(value: JsonValue, parent: Path = ()) -> Iterator[tuple[Path, JsonValue]]:
    """Yield (path, value) of every leaf, in document order. A leaf is a scalar, an empty object or an empty list."""
    if isinstance(value, dict) and (value or not parent):
        for key, child in value.items():
            yield from walk(child, (*parent, key))
    elif isinstance(value, list) and value:
        for index, child in enumerate(value):
            yield from walk(child, (*parent, index))
    else:
        yield parent, value
