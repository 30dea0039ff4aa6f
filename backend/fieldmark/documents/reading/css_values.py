"""Values of CSS properties: lengths in pixels, numbers, colours, and the variables in them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple, overload

import tinycss2  # pyright: ignore[reportMissingTypeStubs]
import tinycss2.color4  # pyright: ignore[reportMissingTypeStubs]

from fieldmark.documents.reading.colour import Colour
from fieldmark.documents.reading.media_queries import PIXELS, SCREEN_HEIGHT, SCREEN_WIDTH

css: Any = tinycss2  # without types
_parse_color: Any = tinycss2.color4.parse_color  # pyright: ignore

MAX_SUBSTITUTED = 2_000  # characters of a value with its variables in it
MAX_VARIABLES = 20  # within one another

_UNSET = frozenset({"inherit", "initial", "unset", "revert", "revert-layer"})
_LENGTH = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)([a-z]*|%)\Z")
_VARIABLE = re.compile(r"var\(\s*(--[^\s,()]+)\s*(?:,((?:[^()]|\((?:[^()]|\([^()]*\))*\))*))?\)")
_COMPONENT = re.compile(r"(?:[^\s()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))+")
_SYSTEM_COLOURS = frozenset(
    """accentcolor accentcolortext activetext buttonborder buttonface buttontext canvas canvastext field fieldtext
    graytext highlight highlighttext linktext mark marktext selecteditem selecteditemtext visitedtext""".split()  # noqa: SIM905
)
_COLOUR_FUNCTIONS = re.compile(
    r"(?:color-mix|light-dark|color|device-cmyk|contrast-color|rgba?|hsla?|hwb|(?:ok)?l(?:ab|ch))\("
)


class ParsedColour(NamedTuple):
    """A colour with its opacity (0 to 1). The colour is None where it is valid but not known, as `canvas`."""

    colour: Colour | None
    alpha: float

    def over(self, background: Colour | None) -> Colour | None:
        """The colour as it looks on a background."""
        if self.colour is None or self.alpha >= 1:
            return self.colour
        if background is None:
            return None
        red, green, blue = (
            round(ours * self.alpha + behind * (1 - self.alpha))
            for ours, behind in zip(self.colour, background, strict=True)
        )
        return red, green, blue


@lru_cache(maxsize=4096)
def parse_colour(text: str) -> ParsedColour | None:
    """The colour that a value names. None for what is no colour."""
    if text == "transparent":
        return ParsedColour(None, 0.0)
    if text == "currentcolor" or text in _SYSTEM_COLOURS:
        return ParsedColour(None, 1.0)
    try:
        found = _parse_color(text)
        if found is None:
            # What a newer browser may understand is not known here.
            return ParsedColour(None, 1.0) if _COLOUR_FUNCTIONS.match(text) else None
        red, green, blue = (min(max(round((part or 0) * 255), 0), 255) for part in _in_srgb(found))
        alpha = 1.0 if found.alpha is None else float(found.alpha)
    except (ValueError, TypeError, ArithmeticError, NotImplementedError, AttributeError, RecursionError):
        return ParsedColour(None, 1.0)
    return ParsedColour((red, green, blue), alpha)


def _in_srgb(colour: Any) -> list[float]:
    """Red, green and blue (0 to 1) of a colour in any space that tinycss2 can convert from."""
    match colour.space:
        case "lab" | "lch" | "xyz-d50":
            xyz, rows = colour.to("xyz-d50").coordinates, _FROM_D50
        case "oklab" | "oklch" | "xyz-d65" | "xyz":
            xyz, rows = colour.to("xyz-d65").coordinates, _FROM_D65
        case _:
            return list(colour.to("srgb").coordinates)
    linear = [sum(factor * part for factor, part in zip(row, xyz, strict=True)) for row in rows]
    return [12.92 * part if part <= 0.0031308 else 1.055 * part ** (1 / 2.4) - 0.055 for part in linear]


# From CIE XYZ to linear sRGB, for the two white points (CSS Color 4, section 17).
_FROM_D65 = ((3.24097, -1.53738, -0.49861), (-0.96924, 1.87597, 0.04156), (0.05563, -0.20398, 1.05697))
_FROM_D50 = ((3.13414, -1.61739, -0.49063), (-0.97880, 1.91626, 0.03344), (0.07195, -0.22898, 1.40539))


def is_unset(value: str) -> bool:
    """Whether the value is one of the keywords that every property takes, such as `inherit`."""
    return value in _UNSET


def components(value: str) -> list[str]:
    """The parts of a value between spaces. What stands in parentheses is one part."""
    return _COMPONENT.findall(value)


def substituted(value: str, variables: Mapping[str, str]) -> str:
    """The value with each `var(--name, fallback)` replaced. Empty if it then is too long, or refers to itself."""
    for _ in range(MAX_VARIABLES):
        if "var(" not in value:
            return " ".join(value.split())
        value = _VARIABLE.sub(lambda match: _variable(match, variables), value)
        if len(value) > MAX_SUBSTITUTED:
            break
    return ""


def _variable(match: re.Match[str], variables: Mapping[str, str]) -> str:
    found = variables.get(match[1])
    return found if found is not None else (match[2] or "").strip()


@overload
def number(text: str) -> float: ...
@overload
def number(text: str, otherwise: float | None) -> float | None: ...
def number(text: str, otherwise: float | None = 1.0) -> float | None:
    """The number, also of a percentage. `otherwise` for anything else."""
    match = _LENGTH.match(text.strip())
    if not match or match[2] not in ("", "%"):
        return otherwise
    return float(match[1]) / (100 if match[2] else 1)


def length(text: str, *, font_size: float, percent_of: float = 300.0) -> float | None:
    """The length in pixels, also of `calc()`, `min()`, `max()` and `clamp()`. None for anything else.

    What a percentage is of is mostly not known. So 100% counts as 300 pixels: far enough to leave the page.
    """
    match = _LENGTH.match(text)
    if match:
        return _in_pixels(float(match[1]), match[2], font_size, percent_of)
    if not text.endswith(")") or len(text) > MAX_SUBSTITUTED:
        return None
    try:
        return _Calculation(font_size, percent_of).of(css.parse_one_component_value(text))
    except (RecursionError, OverflowError):
        return None


def _in_pixels(amount: float, unit: str, font_size: float, percent_of: float) -> float | None:
    match unit:
        case "":
            return amount
        case "%":
            return amount / 100 * percent_of
        case "em" | "ex" | "ch" | "lh" | "cap" | "ic":
            return amount * font_size * (0.5 if unit in ("ex", "ch") else 1)
        case "rem" | "rlh":
            return amount * 16
        case "vw" | "svw" | "lvw" | "dvw" | "vi" | "vmax":
            return amount * SCREEN_WIDTH / 100
        case "vh" | "svh" | "lvh" | "dvh" | "vb" | "vmin":
            return amount * SCREEN_HEIGHT / 100
        case _:
            return amount * PIXELS[unit] if unit in PIXELS else None


class _Calculation:
    """Computes `calc()` and its kin in pixels."""

    def __init__(self, font_size: float, percent_of: float) -> None:
        self._font_size = font_size
        self._percent_of = percent_of

    def of(self, token: Any) -> float | None:
        """The value of a number, a length, an expression in parentheses or a function."""
        if token.type == "number":
            return float(token.value)
        if token.type == "percentage":
            return _in_pixels(float(token.value), "%", self._font_size, self._percent_of)
        if token.type == "dimension":
            return _in_pixels(float(token.value), token.lower_unit, self._font_size, self._percent_of)
        if token.type == "() block":
            return self._sum(token.content)
        if token.type != "function":
            return None
        arguments: list[list[Any]] = [[]]
        for part in token.arguments:
            if part.type == "literal" and part.value == ",":
                arguments.append([])
            else:
                arguments[-1].append(part)
        values = [value for value in map(self._sum, arguments) if value is not None]
        if len(values) != len(arguments):
            return None
        match token.lower_name, len(values):
            case "calc" | "-webkit-calc", 1:
                return values[0]
            case "min", _:
                return min(values)
            case "max", _:
                return max(values)
            case "clamp", 3:
                return max(values[0], min(values[1], values[2]))
            case _:
                return None

    def _sum(self, tokens: list[Any]) -> float | None:
        """The value of `a + b * c - d`: products are computed as they come, and then added up."""
        terms: list[float] = []
        sign, operation = 1.0, "+"
        for token in tokens:
            if token.type in ("whitespace", "comment"):
                continue
            if token.type == "literal" and token.value in ("+", "-", "*", "/"):
                if operation:
                    return None
                operation, sign = token.value, -1.0 if token.value == "-" else 1.0
                continue
            value = self.of(token)
            if value is None or not operation:
                return None
            if operation in ("+", "-"):
                terms.append(sign * value)
            elif operation == "*":
                terms[-1] *= value
            elif value == 0:
                return None
            else:
                terms[-1] /= value
            operation = ""
        return sum(terms) if terms and not operation else None
