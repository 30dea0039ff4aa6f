"""The computed style of an HTML element, as far as it decides whether a person can see the element's text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fieldmark.documents.reading.colour import BLACK, LEAST_CONTRAST, WHITE, Colour, is_distinct
from fieldmark.documents.reading.css_values import (
    components,
    is_unset,
    length,
    number,
    parse_colour,
    substituted,
)
from fieldmark.documents.reading.stylesheets import Declaration, StyleSheets

SMALLEST_PIXELS = 2.0  # what is lower is a line to a person
FAR_AWAY = -300.0  # pixels; so far to the left or above, nothing can be scrolled into view
FAR_RIGHT = 9000.0  # pixels from the right edge or the bottom: that is far to the left or above, too

INLINE_TAGS = frozenset(
    """a abbr acronym b bdi bdo big button cite code data del dfn em font i img input ins kbd label mark nobr output q s
    samp small span strike strong sub sup time tt u var wbr""".split()  # noqa: SIM905
)

_DISPLAYS = frozenset(
    """none contents block inline inline-block flex inline-flex grid inline-grid flow-root list-item run-in ruby
    ruby-base ruby-text table inline-table table-row table-cell table-column table-caption table-row-group
    table-header-group table-footer-group table-column-group -webkit-box -webkit-inline-box -webkit-flex
    -webkit-inline-flex -ms-flexbox -ms-grid flow math""".split()  # noqa: SIM905
)
_KEYWORDS = {
    "visibility": frozenset({"visible", "hidden", "collapse"}),
    "position": frozenset({"static", "relative", "absolute", "fixed", "sticky", "-webkit-sticky"}),
    "content-visibility": frozenset({"visible", "hidden", "auto"}),
}
_FONT_SIZES = {
    "xx-small": 9, "x-small": 10, "small": 13, "medium": 16, "large": 18, "x-large": 24, "xx-large": 32,
    "xxx-large": 48,
}  # fmt: skip
_PICTURE = re.compile(r"(?:url|image|image-set|element|cross-fade|paint|[a-z-]*gradient)\(")
_FUNCTION = re.compile(r"([a-z0-9]+)\(((?:[^()]|\([^()]*\))*)\)")
_CLIPPED = re.compile(r"inset\(\s*(?:[5-9]\d|\d{3,})(?:\.\d+)?%\s*\)|(?:circle|ellipse)\(\s*0(?![.\d]*[1-9])")
_BARE_HEX = re.compile(r"[0-9a-f]{6}\Z", re.I)


@dataclass(frozen=True, slots=True)
class ComputedStyle:
    """How an element's own text looks.

    `is_gone` holds for all that stands in the element, whatever its own style. The rest is inherited until it is set
    anew. `background` is what lies behind the text. It is None where that is not known, as for a picture, a gradient or
    a style sheet elsewhere.
    """

    is_gone: bool = False
    visibility: bool = True
    opacity: float = 1.0  # with that of all elements around
    font_size: float = 16.0
    colour: Colour | None = BLACK
    is_transparent: bool = False
    fill: tuple[Colour | None, bool] | None = None  # colour and transparency of -webkit-text-fill-color, where set
    background: Colour | None = WHITE
    variables: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def is_visible(self) -> bool:
        """Whether a person can see the text."""
        if self.is_gone or not self.visibility or self.font_size < SMALLEST_PIXELS:
            return False
        colour, is_transparent = self.fill or (self.colour, self.is_transparent)
        return not is_transparent and is_distinct(colour, self.background)


class StyleResolver:
    """Computes the styles of a page's elements, each from the style of the element around it."""

    def __init__(self, root: Any) -> None:
        """Raises Unreadable for style sheets beyond a limit."""
        self._sheets = StyleSheets(root)
        self.initial = ComputedStyle(background=WHITE if self._sheets.is_complete else None)

    def compute(self, node: Any, parent: ComputedStyle) -> ComputedStyle:
        """The style of an element that stands in one of the style `parent`. Raises Unreadable beyond a limit."""
        declared = self._sheets.declarations(node)
        style = parent
        custom = {name: value for name, value, _ in declared if name.startswith("--")}
        if custom:
            style = replace(style, variables={**style.variables, **custom})
        values = _values(declared, style.variables)
        _add_hints(values, node)
        if not values:
            return style
        style = _with_font_size(values.get("font-size"), style)
        if _hides_content(values, node, style.font_size):
            return replace(style, is_gone=True)
        if "opacity" in values:
            opacity = 1.0 if is_unset(values["opacity"]) else min(max(number(values["opacity"]), 0.0), 1.0)
            style = replace(style, opacity=style.opacity * opacity)
            if style.opacity < LEAST_CONTRAST / 255:
                return replace(style, is_gone=True)
        visibility = values.get("visibility", "inherit")
        if visibility not in ("inherit", "unset"):
            style = replace(style, visibility=visibility not in ("hidden", "collapse"))
        style = _with_colour(values, style, parent)
        return _with_background(values, style)


def _values(declared: Iterable[Declaration], variables: Mapping[str, str]) -> dict[str, str]:
    """The value of each property: that of its last declaration which is valid. Shorthands are taken apart."""
    values: dict[str, str] = {}
    for name, text, _ in declared:
        if name.startswith("--"):
            continue
        has_variable = "var(" in text
        value = substituted(text, variables) if has_variable else text
        for longhand, part in _longhands(name, value):
            if _is_valid(longhand, part):
                values[longhand] = part
            elif has_variable:
                values[longhand] = "unset"  # found out too late for the declaration before it to hold
    return values


def _longhands(name: str, value: str) -> Iterator[tuple[str, str]]:
    if name == "all":
        inherited = value if value == "initial" else "inherit"
        yield from (
            (longhand, inherited) for longhand in ("color", "visibility", "font-size", "-webkit-text-fill-color")
        )
        yield from ((each, "unset") for each in _NOT_INHERITED)
    elif name == "font":
        size = next((part for part in components(value.replace("/", " ")) if _is_font_size(part)), None)
        if is_unset(value):
            yield "font-size", value
        elif size is not None:
            yield "font-size", size
    elif name == "background":
        # Of several layers the last one has the colour.
        parts = components(value.replace(",", " ") if "(" not in value else value)
        colours = [part for part in parts if parse_colour(part.rstrip(",")) is not None]
        if not parts:
            return
        yield "background-color", value if is_unset(value) else colours[-1].rstrip(",") if colours else "transparent"
        yield "background-image", "url(" if _PICTURE.search(value) else "none"
    elif name in ("margin", "inset"):
        sides = components(value)
        if 1 <= len(sides) <= 4:
            yield ("margin-top" if name == "margin" else "top"), sides[0]
            yield ("margin-left" if name == "margin" else "left"), (sides * 4)[{1: 0, 2: 1, 3: 1, 4: 3}[len(sides)]]
    elif name == "overflow":
        sides = components(value)
        if sides:
            yield "overflow-x", sides[0]
            yield "overflow-y", sides[-1]
    else:
        yield name, value


_NOT_INHERITED = (
    "display", "opacity", "content-visibility", "background-color", "background-image", "position", "left", "top",
    "right", "bottom", "text-indent", "margin-left", "margin-top", "overflow-x", "overflow-y", "height", "width",
    "max-height", "max-width", "clip", "clip-path", "transform", "scale", "translate", "filter", "float", "zoom",
)  # fmt: skip


def _is_valid(name: str, value: str) -> bool:
    """Whether a browser takes the declaration. It drops one that is not valid, and the one before it holds."""
    if is_unset(value):
        return True
    if name in _KEYWORDS:
        return value in _KEYWORDS[name]
    if name == "display":
        return all(word in _DISPLAYS for word in value.split()) and bool(value)
    if name in ("color", "background-color", "-webkit-text-fill-color"):
        return parse_colour(value) is not None
    if name == "font-size":
        return _is_font_size(value)
    if name == "opacity":
        return number(value, otherwise=None) is not None
    return bool(value)


def _is_font_size(value: str) -> bool:
    if value in _FONT_SIZES or value in ("smaller", "larger", "math"):
        return True
    # A bare number is none: in `font: 700 12px serif` it is the weight.
    if value.replace(".", "", 1).isdigit() and float(value) != 0:
        return False
    return length(value, font_size=16.0, percent_of=16.0) is not None


def _add_hints(values: dict[str, str], node: Any) -> None:
    """What attributes say, as far as no style sheet says otherwise."""
    if (hidden := node.get("hidden")) is not None:
        if hidden.lower() == "until-found":
            values.setdefault("content-visibility", "hidden")
        else:
            values.setdefault("display", "none")
    if node.tag == "dialog" and node.get("open") is None:
        values.setdefault("display", "none")
    if colour := node.get("bgcolor"):
        values.setdefault("background-color", _attribute_colour(colour))
    if node.get("background") and node.tag in ("body", "table", "thead", "tbody", "tfoot", "tr", "td", "th"):
        values.setdefault("background-image", "url(")
    ink = node.get("color") if node.tag == "font" else node.get("text") if node.tag == "body" else None
    if ink:
        values.setdefault("color", _attribute_colour(ink))


def _attribute_colour(text: str) -> str:
    text = text.strip().lower()
    if _BARE_HEX.match(text):
        return f"#{text}"
    return text


def _with_font_size(value: str | None, style: ComputedStyle) -> ComputedStyle:
    if value is None or value in ("inherit", "unset"):
        return style
    around = style.font_size
    if value in ("initial", "revert", "revert-layer"):
        size: float | None = 16.0
    elif value in ("smaller", "larger"):
        size = around / 1.2 if value == "smaller" else around * 1.2
    else:
        size = float(_FONT_SIZES[value]) if value in _FONT_SIZES else length(value, font_size=around, percent_of=around)
    return style if size is None else replace(style, font_size=max(size, 0.0))


def _with_colour(values: dict[str, str], style: ComputedStyle, parent: ComputedStyle) -> ComputedStyle:
    ink = values.get("color", "inherit")
    if ink in ("initial", "revert", "revert-layer"):
        style = replace(style, colour=BLACK, is_transparent=False)
    elif ink not in ("inherit", "unset", "currentcolor") and (parsed := parse_colour(ink)):
        style = replace(style, colour=parsed.colour, is_transparent=parsed.alpha < LEAST_CONTRAST / 255)
    fill = values.get("-webkit-text-fill-color", "inherit")
    if fill in ("initial", "currentcolor", "revert", "revert-layer"):
        style = replace(style, fill=None)
    elif fill not in ("inherit", "unset") and (parsed := parse_colour(fill)):
        style = replace(style, fill=(parsed.colour, parsed.alpha < LEAST_CONTRAST / 255))
    return style


def _with_background(values: dict[str, str], style: ComputedStyle) -> ComputedStyle:
    if _PICTURE.search(values.get("background-image", "none")) or values.get("background-image") == "url(":
        return replace(style, background=None)
    text = values.get("background-color", "transparent")
    if is_unset(text) or text == "transparent":
        return style
    if text == "currentcolor":
        return replace(style, background=style.colour)
    parsed = parse_colour(text)
    if parsed is None or parsed.alpha < LEAST_CONTRAST / 255:
        return style
    return replace(style, background=parsed.over(style.background))


def _hides_content(values: dict[str, str], node: Any, font_size: float) -> bool:
    """Whether the element is shown nowhere, with all that stands in it."""
    get = values.get
    if get("display") == "none" or get("content-visibility") == "hidden":
        return True

    def pixels(name: str, otherwise: float = 100.0) -> float:
        found = length(get(name, ""), font_size=font_size)
        return otherwise if found is None else found

    position = get("position", "static")
    is_out_of_flow = position in ("absolute", "fixed")
    if position in ("absolute", "fixed", "relative") and min(pixels("left"), pixels("top")) <= FAR_AWAY:
        return True
    if is_out_of_flow and max(pixels("right"), pixels("bottom")) >= FAR_RIGHT:
        return True
    if min(pixels("text-indent"), pixels("margin-left"), pixels("margin-top")) <= FAR_AWAY:
        return True
    if (is_out_of_flow and _is_empty_clip(get("clip", ""), font_size)) or _is_empty_shape(get("clip-path", "")):
        return True
    if any(number(amount) < LEAST_CONTRAST / 255 for amount in re.findall(r"opacity\(([^()]*)\)", get("filter", ""))):
        return True
    has_box = is_out_of_flow or node.tag not in INLINE_TAGS or get("float", "none") != "none"
    if not has_box and get("display", "inline") == "inline":
        return False  # boxes of lines have no height to cut, and nothing moves them
    cuts = any(get(name, "visible") not in ("visible", "unset", "initial") for name in ("overflow-x", "overflow-y"))
    if cuts and min(map(pixels, ("height", "width", "max-height", "max-width"))) < SMALLEST_PIXELS:
        return True
    return _is_moved_away(get("transform", ""), get("scale", ""), get("translate", ""), font_size)


def _is_empty_clip(value: str, font_size: float) -> bool:
    """Whether `clip: rect(top, right, bottom, left)` leaves nothing."""
    match = re.match(r"rect\(([^()]*)\)", value)
    sides = [length(side, font_size=font_size) for side in re.split(r"[\s,]+", match[1].strip())] if match else []
    if len(sides) != 4:
        return False
    top, right, bottom, left = sides
    return (top is not None and bottom is not None and bottom - top < SMALLEST_PIXELS) or (
        left is not None and right is not None and right - left < SMALLEST_PIXELS
    )


def _is_empty_shape(value: str) -> bool:
    """Whether `clip-path` leaves nothing: `inset(50%)`, `circle(0)` or a polygon of one point."""
    if _CLIPPED.search(value):
        return True
    match = re.match(r"polygon\(([^()]*)\)", value)
    points = {tuple(point.split()) for point in match[1].split(",")} if match else set[tuple[str, ...]]()
    return len(points) == 1


def _is_moved_away(transform: str, scale: str, translate: str, font_size: float) -> bool:
    """Whether the element is scaled to nothing, turned on its edge or moved out of the page."""
    functions = [(kind, inner.split(",")) for kind, inner in _FUNCTION.findall(transform)]
    functions += [("scale", components(scale)), ("translate", components(translate))]
    for kind, arguments in functions:
        if kind.startswith("scale") and any(
            (amount := number(each.strip(), otherwise=None)) is not None and abs(amount) < 0.1 for each in arguments[:2]
        ):
            return True
        if kind.startswith("translate") and any(
            (moved := length(each.strip(), font_size=font_size, percent_of=0.0)) is not None and moved <= FAR_AWAY
            for each in arguments[:2]
        ):
            return True
        if kind in ("rotatex", "rotatey") and arguments[0].strip() in ("90deg", "-90deg", "270deg", "0.25turn"):
            return True
        if kind == "matrix" and all(number(each.strip()) == 0 for each in arguments[:4]):
            return True
    return False
