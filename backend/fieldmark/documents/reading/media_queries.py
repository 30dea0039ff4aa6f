"""Media queries, answered for one screen: that of a desk, which is how most people look at a page or a mail."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from typing import Any

import tinycss2  # pyright: ignore[reportMissingTypeStubs]

css: Any = tinycss2  # without types

SCREEN_WIDTH, SCREEN_HEIGHT = 1280.0, 800.0  # pixels, 96 to an inch
MAX_DEPTH = 20  # of conditions in parentheses

PIXELS = {"px": 1.0, "pt": 96 / 72, "pc": 16.0, "in": 96.0, "cm": 96 / 2.54, "mm": 96 / 25.4, "q": 96 / 101.6}
_FONT_UNITS = {"em": 16.0, "rem": 16.0, "ex": 8.0, "ch": 8.0}
_TYPES = frozenset({"all", "screen"})
_NUMBERS = {
    "width": SCREEN_WIDTH,
    "height": SCREEN_HEIGHT,
    "device-width": SCREEN_WIDTH,
    "device-height": SCREEN_HEIGHT,
    "aspect-ratio": SCREEN_WIDTH / SCREEN_HEIGHT,
    "resolution": 1.0,
    "-webkit-device-pixel-ratio": 1.0,
    "color": 8.0,
    "monochrome": 0.0,
    "grid": 0.0,
}
_KEYWORDS = {
    "orientation": "landscape",
    "hover": "hover",
    "any-hover": "hover",
    "pointer": "fine",
    "any-pointer": "fine",
    "update": "fast",
    "scripting": "enabled",
    "prefers-color-scheme": "light",
    "prefers-reduced-motion": "no-preference",
    "prefers-contrast": "no-preference",
    "forced-colors": "none",
    "inverted-colors": "none",
    "display-mode": "browser",
    "overflow-block": "scroll",
    "overflow-inline": "scroll",
    "color-gamut": "srgb",
}
_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
}
_BOUNDS = {"min-": ">=", "max-": "<=", "": "="}
_NAME = re.compile(r"(-webkit-)?(min-|max-)?(.*)", re.S)
_RANGE = re.compile(r"(<=|>=|<|>|=)")
_NUMBER = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)\s*([a-z]*)\Z")


def applies_on_screen(query: str | Sequence[Any] | None) -> bool:
    """Whether a list of media queries holds on the screen. So does an empty one.

    `query` is the text of an attribute `media`, or what stands between `@media` and its block. A feature that is not
    known does not hold, and neither does its negation.
    """
    tokens: list[Any] = css.parse_component_value_list(query) if isinstance(query, str) else list(query or ())
    queries: list[list[Any]] = [[]]
    for token in tokens:
        if token.type == "literal" and token.value == ",":
            queries.append([])
        elif token.type not in ("whitespace", "comment"):
            queries[-1].append(token)
    return queries == [[]] or any(_holds(tokens) for tokens in queries)


def _holds(tokens: list[Any]) -> bool:
    """Whether one media query holds: `[not|only] type [and condition]`, or a condition alone."""
    words = [token.lower_value if token.type == "ident" else "" for token in tokens]
    if not tokens:
        return False
    is_negated = words[0] == "not" and len(words) > 1 and words[1] != ""
    at = 1 if is_negated or words[0] == "only" else 0
    if at >= len(words) or not words[at] or words[at] == "not":
        return _condition(tokens, 0) is True
    holds: bool | None = words[at] in _TYPES
    if len(tokens) > at + 1:
        rest = _condition(tokens[at + 2 :], 0) if words[at + 1] == "and" else None
        holds = False if holds is False else rest
    return holds is not None and holds is not is_negated


def _condition(tokens: list[Any], depth: int) -> bool | None:
    """Whether a condition holds, such as `(width > 600px) and (not (hover))`. None if that is not known."""
    if not tokens or depth > MAX_DEPTH:
        return None
    if tokens[0].type == "ident" and tokens[0].lower_value == "not":
        inner = _condition(tokens[1:], depth + 1)
        return None if inner is None else not inner
    values = [_in_parentheses(token, depth) for token in tokens[::2]]
    joints = {token.lower_value if token.type == "ident" else "" for token in tokens[1::2]}
    if len(tokens) % 2 == 0 or len(joints) > 1 or not joints <= {"and", "or"}:
        return None
    if joints == {"or"}:
        return True if True in values else None if None in values else False
    return False if False in values else None if None in values else True


def _in_parentheses(token: Any, depth: int) -> bool | None:
    if token.type != "() block":
        return None
    inner = [part for part in token.content if part.type not in ("whitespace", "comment")]
    if inner and (inner[0].type == "() block" or (inner[0].type == "ident" and inner[0].lower_value == "not")):
        return _condition(inner, depth + 1)
    try:
        return _feature(" ".join(css.serialize(token.content).lower().split()))
    except RecursionError:
        return None


def _feature(text: str) -> bool | None:
    """Whether a feature holds: `name`, `name: value` or a range such as `400px <= width < 900px`."""
    name, colon, value = (part.strip() for part in text.partition(":"))
    if colon:
        if name in _KEYWORDS:
            return _KEYWORDS[name] == value
        vendor, bound, bare = _NAME.fullmatch(name).groups("")  # pyright: ignore — it matches any text
        ours, theirs = _NUMBERS.get(vendor + bare), _number(value)
        return _COMPARISONS[_BOUNDS[bound]](ours, theirs) if ours is not None and theirs is not None else None
    parts = [part.strip() for part in _RANGE.split(text)]
    if len(parts) == 1:
        return _KEYWORDS[name] != "none" if name in _KEYWORDS else bool(_NUMBERS[name]) if name in _NUMBERS else None
    sides = [_NUMBERS[part] if part in _NUMBERS else _number(part) for part in parts[::2]]
    if len(sides) > 3 or None in sides:
        return None
    return all(
        _COMPARISONS[sign](left, right)
        for left, sign, right in zip(sides, parts[1::2], sides[1:], strict=False)
        if left is not None and right is not None
    )


def _number(text: str) -> float | None:
    """A length in pixels, a ratio, a resolution in pixels a pixel, or a bare number."""
    if "/" in text:
        above, _, below = text.partition("/")
        first, second = _number(above.strip()), _number(below.strip())
        return first / second if first is not None and second else None
    match = _NUMBER.match(text)
    if not match:
        return None
    number, unit = float(match[1]), match[2]
    if unit in ("", "dppx", "x"):
        return number
    if unit in ("dpi", "dpcm"):
        return number / (96 if unit == "dpi" else 96 / 2.54)
    scale = PIXELS.get(unit) or _FONT_UNITS.get(unit)
    return number * scale if scale else None
