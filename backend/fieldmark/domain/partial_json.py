"""Parse JSON that is still being written and return its finished leaves."""

from __future__ import annotations

import json
import re
from typing import Final, TypeAlias

from pydantic import JsonValue
from pydantic_core import from_json

from fieldmark.domain.numbers import is_number
from fieldmark.domain.paths import Path
from valuegrounding.paths import walk

WrittenLeaf: TypeAlias = tuple[Path, JsonValue]
"""The path of a leaf and its value: a scalar, an empty object or an empty list."""

_NUMBER_AT_END: Final = re.compile(r"[:,\[\s][-+.0-9eE]+\Z")


def finished_leaves(text: str) -> list[WrittenLeaf]:
    """Return the finished leaves of an incomplete JSON text, in order; empty if it is not JSON. An unfinished text is
    left out. A last leaf that may continue is held back: digits at the end may be part of a longer number, and an empty
    object or list may get members."""
    try:
        found = list(walk(from_json(text, allow_partial=True)))
    except ValueError:
        return []
    if found and _may_continue(found[-1][1], text):
        found.pop()
    return found


def _may_continue(value: JsonValue, text: str) -> bool:
    if not (value in ({}, []) or (is_number(value) and _NUMBER_AT_END.search(text))):
        return False
    try:
        json.loads(text)
    except ValueError:
        return True
    return False
