"""Paths of fields: `vendor.name`, `items[2].price`, `["a.b"].c`, parsed from text and written in one canonical way.

`valuegrounding.paths` defines paths and their names. `private.child_name` in the database writes the same names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from enum import Enum
from typing import Final, TypeAlias

from fieldmark.domain.invisible import INVISIBLE_IN_KEY, find_invisible
from fieldmark.errors import InvalidPath
from valuegrounding import paths as names

Path: TypeAlias = names.Path


class Each(Enum):
    """The type of EACH, the step to every item of a list: `[]`."""

    EACH = "[]"


EACH: Final = Each.EACH

Pattern: TypeAlias = tuple[str | int | Each, ...]
"""The steps of a path that may lead to several values: `items[].total`."""

MAX_STEPS: Final = 32
MAX_CHARACTERS: Final = 1_000
MAX_INDEX: Final = 999_999_999

_PLAIN: Final = names.PLAIN_KEY.pattern
_QUOTED: Final = (
    r'"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u(?!0000|[dD][89a-fA-F])[0-9a-fA-F]{4}'
    r'|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})*"'
)
_FIRST: Final = rf"(?:{_PLAIN}|\[{_QUOTED}\])"
_NEXT: Final = rf"(?:\.{_PLAIN}|\[(?:0|[1-9][0-9]{{0,8}}|{_QUOTED})\])"
PATTERN: Final = rf"^(?!.*{INVISIBLE_IN_KEY}){_FIRST}{_NEXT}{{0,{MAX_STEPS - 1}}}$"
"""What `parse` accepts, for JSON Schemas of requests. Also matches invisible characters escaped as \\uXXXX."""

_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")
_STEP: Final = re.compile(
    rf"(?P<dot>\.)?(?P<plain>{_PLAIN})"
    rf"|\[(?:(?P<index>0|[1-9][0-9]{{0,8}})|(?P<quoted>{_QUOTED})|(?P<each>))\]"
)


def parse(text: str) -> Path:
    """Return the steps of a path. Raise InvalidPath, which names the first wrong character, counted from 1."""
    return tuple(step for step in _parse_steps(text, allow_each=False) if not isinstance(step, Each))


def parse_pattern(text: str) -> Pattern:
    """Return the steps of a path in which `[]` means every item of a list. Raise InvalidPath."""
    return tuple(_parse_steps(text, allow_each=True))


def _parse_steps(text: str, *, allow_each: bool) -> list[str | int | Each]:
    if not text:
        raise InvalidPath("The path is empty: write the name of a field, such as vendor.name.")
    if len(text) > MAX_CHARACTERS:
        raise InvalidPath(f"The path has {len(text):,} characters; the limit is {MAX_CHARACTERS:,}.")
    _check_characters(text)
    steps: list[str | int | Each] = []
    at = 0
    while at < len(text):
        found = _STEP.match(text, at)
        step = None if found is None else _step(found, is_first=not steps)
        if found is None or step is None or (step is EACH and not allow_each):
            raise InvalidPath(
                f"Path {json.dumps(text[:200], ensure_ascii=False)} is malformed at character {at + 1}: write names "
                "with dots between them, an index from 0 in brackets, and any other name as a JSON string in "
                'brackets: items[2]["a.b"].x.'
            )
        steps.append(step)
        at = found.end()
        if len(steps) > MAX_STEPS:
            raise InvalidPath(f"The path has more than {MAX_STEPS} steps.")
    return steps


def _step(found: re.Match[str], *, is_first: bool) -> str | int | Each | None:
    """Return the matched step, or None if it is misplaced: a dot joins names, and a path begins with a name."""
    if found["plain"] is not None:
        return found["plain"] if is_first == (found["dot"] is None) else None
    if found["quoted"] is not None:
        key: str = json.loads(found["quoted"])
        _check_characters(key)
        return key
    if is_first:
        return None
    return EACH if found["index"] is None else int(found["index"])


def name(steps: Sequence[str | int | Each]) -> str:
    """Return the canonical text of a path or pattern: `parse(name(path)) == path`."""
    text = ""
    for step in steps:
        text = child_name(text, step)
    return text


def child_name(parent: str, step: str | int | Each) -> str:
    """Return the name of the path that has one more step than that of `parent`."""
    return parent + step.value if isinstance(step, Each) else names.child_name(parent, step)


def shared_lists(pattern: Pattern, other: Pattern) -> int:
    """Return the number of list levels that two patterns share. `items[].total` and `items[].name` share 1."""
    shared = 0
    for step, other_step in zip(pattern, other, strict=False):
        if step != other_step:
            break
        shared += not isinstance(step, str)
    return shared


def to_sql(steps: Sequence[str | int]) -> list[str]:
    """Return the path as a SQL `text[]`. SQL functions distinguish keys from indexes by the value at each step."""
    return [str(step) for step in steps]


def from_sql(path: Sequence[str], steps: str) -> Path:
    """Return the path of a journal entry. `steps` has one letter for each step: k for a key, i for an index."""
    return tuple(int(step) if letter == "i" else step for step, letter in zip(path, steps, strict=True))


def step_letters(path: Sequence[str | int]) -> str:
    """Return the letters of a path for the journal: k for each key, i for each index."""
    return "".join("i" if isinstance(step, int) else "k" for step in path)


def _check_characters(text: str) -> None:
    if _UNSTORABLE.search(text):
        raise InvalidPath("The path contains a NUL character or half of a surrogate pair. Remove it.")
    if invisible := find_invisible(text, key=True):
        raise InvalidPath(f"The path contains the invisible character {invisible}. Remove it.")
