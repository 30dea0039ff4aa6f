"""Translate patterns of JSON Schema, which are ECMA-262 regular expressions with the flag `u`, for the library `regex`.

The two dialects share most of their syntax, with other meanings: `$`, `.`, `\\d`, `\\w`, `\\s` and `\\b`. A construct
that only `regex` knows is refused, since other programs that read the schema would refuse or misread it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

import regex

_SPACE: Final = r"[\t-\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff]"
_CLASSES: Final = {"d": "[0-9]", "w": "[A-Za-z0-9_]", "s": _SPACE}
_WORD: Final = _CLASSES["w"]
_ASSERTIONS: Final = {
    "^": r"\A",
    "$": r"\Z",
    r"\b": f"(?:(?<={_WORD})(?!{_WORD})|(?<!{_WORD})(?={_WORD}))",
    r"\B": f"(?:(?<={_WORD})(?={_WORD})|(?<!{_WORD})(?!{_WORD}))",
}
_CONTROLS: Final = {"t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r", "0": "\0"}
_QUANTIFIER: Final = re.compile(r"(?:[*+?]|\{[0-9]+(?:,[0-9]*)?\})\??")
_GROUP: Final = re.compile(r"\((?:\?(?::|<?[=!]|<(?![=!])[^>]*>))?(?!\?)")
_ESCAPE: Final = re.compile(
    r"""\\(?: (?P<property>[pP]\{[A-Za-z0-9_]+(?:=[A-Za-z0-9_]+)?\}) | (?P<class>[dDwWsS])
    | (?P<pair>u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})
    | (?:x(?P<x>[0-9a-fA-F]{2}) | u(?P<u>[0-9a-fA-F]{4}) | u\{(?P<braced>0*[0-9a-fA-F]{1,6})\})
    | c(?P<control>[A-Za-z]) | (?P<plain>[tnvfr]|0(?![0-9])|[^\w\s]) )""",
    re.ASCII | re.VERBOSE,
)
_REFERENCE: Final = re.compile(r"\\(?:k<(?P<name>[^>]+)>|(?P<number>[1-9][0-9]*))")


class PatternError(ValueError):
    """A pattern is not an ECMA-262 regular expression, or cannot be translated. The message is the reason."""


@lru_cache(maxsize=1000)
def compile_pattern(pattern: str) -> regex.Pattern[str]:
    """Return the pattern for `regex`, whose `search` takes a timeout. Raise PatternError."""
    try:
        return regex.compile(_translate(pattern), regex.VERSION1)
    except regex.error as error:
        raise PatternError(str(error)) from None


def _translate(pattern: str) -> str:
    parts: list[str] = []
    at, repeatable = 0, False
    while at < len(pattern):
        character, start = pattern[at], at
        if found := _QUANTIFIER.match(pattern, at):
            if not repeatable:
                raise PatternError(f"there is nothing to repeat at position {at}")
            parts.append(found[0])
            at, repeatable = found.end(), False
            continue
        assertion = pattern[at : at + 2] if character == "\\" else character
        repeatable = True
        if assertion in _ASSERTIONS:
            at, repeatable = at + len(assertion), False
            parts.append(_ASSERTIONS[assertion])
        elif character == "(":
            if not (found := _GROUP.match(pattern, at)):
                raise PatternError(f"ECMA-262 has no group {pattern[at : at + 4]!r}")
            at, repeatable = found.end(), False
            parts.append(found[0])
        elif character == "[":
            text, at = _character_class(pattern, at + 1)
            parts.append(text)
        elif found := _REFERENCE.match(pattern, at):
            # In ECMA-262, a reference to a group that took no part matches the empty text.
            at, group = found.end(), found["name"] or found["number"]
            parts.append(f"(?({group})(?P={group}))")
        elif character == "\\":
            text, _, at = _atom(pattern, at)
            parts.append(text)
        elif character in "{}]":
            raise PatternError(f"write \\{character} for the character {character!r} at position {start}")
        else:
            at, repeatable = at + 1, character != "|"
            parts.append(r"[^\n\r\u2028\u2029]" if character == "." else character)
    return "".join(parts)


def _character_class(pattern: str, at: int) -> tuple[str, int]:
    """Return the class that begins behind a bracket at `at`, and the position behind it."""
    negated = pattern.startswith("^", at)
    at += negated
    items: list[str] = []
    while not pattern.startswith("]", at):
        text, single, at = _atom(pattern, at)
        if pattern.startswith("-", at) and not pattern.startswith("-]", at):
            last, last_single, at = _atom(pattern, at + 1)
            if not (single and last_single):
                raise PatternError(f"a range in brackets goes from one character to another; write \\- for '-' ({at})")
            text = f"{text}-{last}"
        items.append(text)
    if not items:
        return (r"[\x00-\U0010ffff]" if negated else "(?!)"), at + 1
    return f"[{'^' * negated}{''.join(items)}]", at + 1


def _atom(pattern: str, at: int) -> tuple[str, bool, int]:
    """Return one character or set of characters, whether it is one character, and the position behind it."""
    if at >= len(pattern):
        raise PatternError("a bracket is not closed")
    if pattern[at] != "\\":
        return _literal(pattern[at]), True, at + 1
    if pattern.startswith(r"\b", at):
        return r"\x08", True, at + 2  # only in brackets: outside it is an assertion
    found = _ESCAPE.match(pattern, at)
    if found is None:
        raise PatternError(f"ECMA-262 has no escape {pattern[at : at + 2]!r}")
    if found["property"]:
        return found[0], False, found.end()
    if letter := found["class"]:
        text = _CLASSES[letter.lower()]
        return (text if letter.islower() else f"[^{text}]"), False, found.end()
    return _literal(_character(found)), True, found.end()


def _character(escape: re.Match[str]) -> str:
    if pair := escape["pair"]:
        return (int(pair[1:5], 16).to_bytes(2, "big") + int(pair[7:], 16).to_bytes(2, "big")).decode("utf-16-be")
    if digits := escape["x"] or escape["u"] or escape["braced"]:
        if (code := int(digits, 16)) > 0x10FFFF:
            raise PatternError(f"Unicode has no character {digits}")
        return chr(code)
    if control := escape["control"]:
        return chr(ord(control) % 32)
    return _CONTROLS.get(escape["plain"], escape["plain"])


def _literal(character: str) -> str:
    return f"\\U{ord(character):08x}" if not character.isalnum() else character
