"""Paths of fields: `vendor.name`, `items[2].price`, `["a.b"].c`, parsed from text and written in one canonical way.

A path is a tuple of steps: a `str` is a key of an object, an `int` an index of a list, from 0. A key that would not
parse as plain text is written as a JSON string in brackets. `private.child_name` in the database writes the same names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from enum import Enum
from typing import Final, TypeAlias

from fieldmark.domain.invisible import IN_A_KEY, invisible_in
from fieldmark.errors import InvalidPath

Path: TypeAlias = tuple[str | int, ...]


class Each(Enum):
    """The type of EACH, the step to every item of a list: `[]`."""

    EACH = "[]"


EACH: Final = Each.EACH

Pattern: TypeAlias = tuple[str | int | Each, ...]
"""The steps of a path that may lead to several values: `items[].total`."""

MAX_STEPS: Final = 32
MAX_CHARACTERS: Final = 1_000
MAX_INDEX: Final = 999_999_999

# A key that needs no quotes: no dot, bracket, quote, backslash or control character, and single spaces within only.
_PLAIN_CHARACTER: Final = r'[^\].\["\\\x00-\x20\x7f]'
_PLAIN: Final = re.compile(rf"{_PLAIN_CHARACTER}+(?: {_PLAIN_CHARACTER}+)*")
_INDEX: Final = re.compile(r"0|[1-9][0-9]*")
_QUOTED: Final = (
    r'"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u(?!0000|[dD][89a-fA-F])[0-9a-fA-F]{4}'
    r'|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})*"'
)
_FIRST: Final = rf"(?:{_PLAIN.pattern}|\[{_QUOTED}\])"
_NEXT: Final = rf"(?:\.{_PLAIN.pattern}|\[(?:0|[1-9][0-9]{{0,8}}|{_QUOTED})\])"
PATTERN: Final = rf"^(?!.*{IN_A_KEY}){_FIRST}{_NEXT}{{0,{MAX_STEPS - 1}}}$"
"""What `parse` takes, for those who describe it to others; also invisible characters that are written as \\uXXXX."""

_UNTIL_NEXT: Final = re.compile(r"[^.\[]*")
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")
_JSON: Final = json.JSONDecoder()


def parse(text: str) -> Path:
    """The steps of a path. Raises InvalidPath, which says what is wrong and at which character (counted from 1)."""
    return tuple(step for step in _parsed(text, several=False) if not isinstance(step, Each))


def parse_pattern(text: str) -> Pattern:
    """The steps of a path in which `[]` stands for every item of a list. Raises InvalidPath."""
    return tuple(_parsed(text, several=True))


def _parsed(text: str, *, several: bool) -> list[str | int | Each]:
    if not text:
        raise InvalidPath("The path is empty: write the name of a field, such as vendor.name.")
    if len(text) > MAX_CHARACTERS:
        raise InvalidPath(f"The path has {len(text):,} characters; {MAX_CHARACTERS:,} is the most.")
    _refuse_unstorable(text, 0)
    steps: list[str | int | Each] = []
    at = 0
    while at < len(text):
        step: str | int | Each
        if several and steps and text.startswith("[]", at):
            step, at = EACH, at + 2
        elif text[at] == "[":
            step, at = _bracketed(text, at, first=not steps)
        else:
            if steps and text[at] != ".":
                raise _wrong(text, at, "after a closing bracket comes a dot, another bracket, or the end")
            step, at = _plain(text, at + 1 if steps else at)
        steps.append(step)
        if len(steps) > MAX_STEPS:
            raise InvalidPath(f"The path has more than {MAX_STEPS} steps.")
    return steps


def name(steps: Sequence[str | int | Each]) -> str:
    """The canonical text of a path: `parse(name(path)) == path`; of a pattern in the same way."""
    text = ""
    for step in steps:
        if isinstance(step, Each):
            text += step.value
        elif isinstance(step, int):
            text += f"[{step}]"
        elif _PLAIN.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += f"[{json.dumps(step, ensure_ascii=False)}]"
    return text


def to_sql(steps: Sequence[str | int]) -> list[str]:
    """The path as the database's functions take it, `text[]`. They tell keys from indexes by the document's values."""
    return [str(step) for step in steps]


def from_sql(path: Sequence[str], steps: str) -> Path:
    """The path of a journal entry: `steps` has one letter for each step, k for a key and i for an index."""
    return tuple(int(step) if letter == "i" else step for step, letter in zip(path, steps, strict=True))


def steps_of(path: Sequence[str | int]) -> str:
    """The letters of a path for the journal: k for each key, i for each index."""
    return "".join("i" if isinstance(step, int) else "k" for step in path)


def _plain(text: str, at: int) -> tuple[str, int]:
    found = _UNTIL_NEXT.match(text, at)
    assert found is not None  # it matches nothing, too
    key, end = found[0], found.end()
    if not key:
        raise _wrong(text, at, "a name is missing here")
    if not _PLAIN.fullmatch(key):
        quoted = json.dumps(key, ensure_ascii=False)
        raise _wrong(text, at, f"this name can only stand as a JSON string in brackets, [{quoted}]")
    return key, end


def _bracketed(text: str, at: int, *, first: bool) -> tuple[str | int, int]:
    step: str | int
    if text.startswith('"', at + 1):
        key: str
        try:
            key, end = _JSON.raw_decode(text, at + 1)
        except json.JSONDecodeError as error:
            raise _wrong(text, at + 1, "this is not a complete JSON string") from error
        _refuse_unstorable(key, at)
        step = key
    else:
        found = _INDEX.match(text, at + 1)
        if found is None or not text.startswith("]", found.end()):
            raise _wrong(text, at, 'brackets hold an index counted from 0, such as [2], or a JSON string, ["a.b"]')
        if first:
            raise _wrong(text, at, "a path begins with a name, not with an index")
        if len(found[0]) > len(str(MAX_INDEX)):
            raise _wrong(text, at, f"an index is at most {MAX_INDEX:,}")
        step, end = int(found[0]), found.end()
    if not text.startswith("]", end):
        raise _wrong(text, end, "a closing bracket is missing here")
    return step, end + 1


def _refuse_unstorable(text: str, at: int) -> None:
    found = _UNSTORABLE.search(text)
    if found:
        what = "a NUL character" if found[0] == "\x00" else "half of a surrogate pair"
        raise InvalidPath(f"The path holds {what} near character {at + found.start() + 1}; no field can be named so.")
    if unseen := invisible_in(text, key=True):
        raise InvalidPath(f"The path holds an invisible character, {unseen}; no field can be named so.")


def _wrong(text: str, at: int, what: str) -> InvalidPath:
    return InvalidPath(f"Path {json.dumps(text[:200], ensure_ascii=False)}, character {at + 1}: {what}.")
