"""Which elements of an HTML page are explicitly hidden.

Hidden means: the attribute `hidden`, a closed `dialog`, `display: none`, `visibility: hidden`, no opacity, or a tiny
font. These count in an element's `style` and in a style sheet inside the file. Anything else that hides text in a
browser (colour, position, clipping, scripts, style sheets elsewhere) is not evaluated, and neither are CSS features
that are not understood: such text is read.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import cssselect2  # pyright: ignore[reportMissingTypeStubs]
import tinycss2  # pyright: ignore[reportMissingTypeStubs]

css: Any = tinycss2  # without types
selectors: Any = cssselect2
_ElementWrapper: Any = cssselect2.ElementWrapper  # pyright: ignore

MIN_FONT_PIXELS = 2.0
MIN_OPACITY = 0.05
SCREEN_WIDTH = 1280.0  # pixels: media queries are answered for the screen of a desk
MAX_NESTED_BLOCKS = 20  # deeper ones are ignored

_LINES = ("text-decoration", "text-decoration-line")
_PROPERTIES = frozenset(
    {"display", "visibility", "content-visibility", "opacity", "font-size", "font", "vertical-align", *_LINES}
)
_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)", re.S)
_DEFAULT_FONT_PIXELS = 16.0
_PIXELS = {"px": 1.0, "pt": 4 / 3, "pc": 16.0, "in": 96.0, "cm": 96 / 2.54, "mm": 96 / 25.4, "rem": 16.0}
_SIZE = re.compile(r"(\d+(?:\.\d*)?|\.\d+)([a-z]+|%)?")
_SIZE_IN_FONT = re.compile(r"(?:^|\s)((?:\d+(?:\.\d*)?|\.\d+)(?:[a-z]+|%)|0+)(?=[\s/])")
_NUMBER = re.compile(r"(-?(?:\d+(?:\.\d*)?|\.\d+))(%?)")
_SHIFT = re.compile(r"(-?)(\d+\.?\d*|\.\d+)")
_MEDIA_TYPE = re.compile(r"(not |only )?([a-z]+)(?: and (?=\())?")
_WIDTH = re.compile(r"\((?:(min|max)-(?:device-)?width ?:|width ?([<>])=?) ?(\d+(?:\.\d*)?)(px|em|rem) ?\)")


@dataclass(frozen=True, slots=True)
class Visibility:
    """What decides whether an element's text is shown. An element starts with the visibility of the one around it."""

    is_removed: bool = False  # with everything inside
    is_hidden: bool = False  # an element inside may be visible again
    font_pixels: float = _DEFAULT_FONT_PIXELS
    is_struck: bool = False
    script: int = 0  # 1 for raised text, -1 for lowered text

    @property
    def is_visible(self) -> bool:
        """Whether the element's own text is shown."""
        return not self.is_removed and not self.is_hidden and self.font_pixels >= MIN_FONT_PIXELS


class VisibilityResolver:
    """Computes the visibility of a page's elements from its attributes and style sheets."""

    def __init__(self, root: Any) -> None:
        self.initial = Visibility()
        self._matcher: Any = selectors.Matcher()
        self._elements: dict[Any, Any] = {}
        for node in root.iter("style"):
            is_inert = any(ancestor.tag in ("template", "noscript") for ancestor in node.iterancestors())
            is_css = (node.get("type") or "text/css").strip().lower() == "text/css"
            if is_css and not is_inert and applies_on_screen(node.get("media") or ""):
                text = (node.text or "").replace("<!--", " ").replace("-->", " ")
                self._add_rules(css.parse_stylesheet(text, skip_comments=True, skip_whitespace=True))
        if self._matcher.order:
            self._elements = {each.etree_element: each for each in _Element.from_html_root(root).iter_subtree()}

    def compute(self, node: Any, parent: Visibility) -> Visibility:
        """Return the visibility of an element inside one of visibility `parent`."""
        values = {"display": "none"} if node.get("hidden") is not None else {}
        if node.tag == "dialog" and node.get("open") is None:
            values["display"] = "none"
        if node.tag in ("s", "strike", "del"):
            values["text-decoration"] = "line-through"
        if node.tag in ("sup", "sub"):
            values["vertical-align"] = node.tag
        values.update(self._declared(node))
        if not values or parent.is_removed:
            return parent
        is_removed = (
            values.get("display") == "none"
            or values.get("content-visibility") == "hidden"
            or _opacity(values.get("opacity", "1")) < MIN_OPACITY
        )
        visibility = values.get("visibility", "inherit")
        is_hidden = parent.is_hidden if visibility in ("inherit", "unset") else visibility in ("hidden", "collapse")
        size = _font_pixels(values["font-size"], parent.font_pixels) if "font-size" in values else parent.font_pixels
        is_struck = parent.is_struck or any("line-through" in values.get(name, "") for name in _LINES)
        script = _script(values["vertical-align"]) if "vertical-align" in values else parent.script
        return replace(
            parent, is_removed=is_removed, is_hidden=is_hidden, font_pixels=size, is_struck=is_struck, script=script
        )

    def _declared(self, node: Any) -> dict[str, str]:
        """The last declaration of each property: important ones win, then `style`, then the more specific selector."""
        ranked: list[tuple[tuple[Any, ...], _Declaration]] = []
        if self._elements:
            matches: list[tuple[Any, int, str | None, list[_Declaration]]] = []
            with contextlib.suppress(ValueError):  # `:local-link` on an address that cannot be parsed
                matches = self._matcher.match(self._elements[node])
            for specificity, order, pseudo_element, declarations in matches:
                if pseudo_element is None:
                    ranked += [((each.is_important, False, specificity, order), each) for each in declarations]
        if style := node.get("style"):
            own = _declarations(css.parse_declaration_list(style, skip_comments=True, skip_whitespace=True))
            ranked += [((each.is_important, True), each) for each in own]
        ranked.sort(key=lambda pair: pair[0])
        return {each.name: each.value for _, each in ranked}

    def _add_rules(self, rules: Iterable[Any], depth: int = 0) -> None:
        for rule in rules:
            if rule.type == "qualified-rule":
                self._add_rule(rule)
            elif rule.type == "at-rule" and rule.content is not None and depth < MAX_NESTED_BLOCKS:
                condition = _text(rule.prelude)
                match rule.lower_at_keyword:
                    case "media":
                        is_used = applies_on_screen(condition)
                    case "supports":
                        is_used = not condition.startswith("not")
                    case "layer":
                        is_used = True
                    case _:
                        is_used = False
                if is_used:
                    inner = css.parse_rule_list(rule.content, skip_comments=True, skip_whitespace=True)
                    self._add_rules(inner, depth + 1)

    def _add_rule(self, rule: Any) -> None:
        nodes = css.parse_blocks_contents(rule.content, skip_comments=True, skip_whitespace=True)
        declarations = list(_declarations(nodes))
        if not declarations:
            return
        try:
            compiled = selectors.compile_selector_list(rule.prelude)
        except Exception:  # noqa: BLE001
            # Mostly a SelectorError. cssselect2 turns selectors into Python, so an odd one may fail in other ways.
            return
        for selector in compiled:
            self._matcher.add_selector(selector, declarations)


class _Element(_ElementWrapper):
    """cssselect2's element. Its own `previous_siblings` keeps a tuple for each element and recurses through them."""

    @property
    def previous_siblings(self) -> Iterator[Any]:
        element = self.previous
        while element is not None:
            yield element
            element = element.previous


class _Declaration(NamedTuple):
    name: str
    value: str
    is_important: bool


def _declarations(nodes: Iterable[Any]) -> Iterator[_Declaration]:
    for node in nodes:
        if node.type == "declaration" and node.lower_name in _PROPERTIES and (value := _text(node.value)):
            name = node.lower_name
            if name == "font":
                size = _SIZE_IN_FONT.search(f"{value} ")
                name, value = "font-size", value if value == "inherit" else size[1] if size else "medium"
            yield _Declaration(name, value, bool(node.important))


def _text(tokens: Iterable[Any]) -> str:
    """Return tokens as lower-case CSS without comments, or `?` if they are nested too deeply for any real value."""
    try:
        return " ".join(_COMMENT.sub(" ", css.serialize(tokens)).lower().split())
    except RecursionError:
        return "?"


def applies_on_screen(queries: str) -> bool:
    """Whether a list of media queries is true on a desktop screen. A query that is not understood is false."""
    queries = " ".join(queries.lower().split())
    return not queries or any(_is_true_on_screen(query.strip()) for query in queries.split(","))


def _is_true_on_screen(query: str) -> bool:
    if media := _MEDIA_TYPE.match(query):
        is_screen = media[2] in ("all", "screen")
        query = query[media.end() :]
        if media[1] == "not ":
            return not is_screen and not query
        if not is_screen:
            return False
    return not query or all(map(_is_wide_enough, query.split(" and ")))


def _is_wide_enough(condition: str) -> bool:
    match = _WIDTH.fullmatch(condition.strip())
    if match is None:
        return False
    width = float(match[3]) * _PIXELS.get(match[4], _DEFAULT_FONT_PIXELS)
    return width <= SCREEN_WIDTH if match[1] == "min" or match[2] == ">" else width >= SCREEN_WIDTH


def _opacity(value: str) -> float:
    match = _NUMBER.fullmatch(value)
    return float(match[1]) / (100 if match[2] else 1) if match else 1.0


def _script(alignment: str) -> int:
    """Whether text is raised (1) or lowered (-1)."""
    if alignment.startswith(("sup", "sub")):
        return 1 if alignment.startswith("sup") else -1
    match = _SHIFT.match(alignment)
    return 0 if match is None or not float(match[2]) else -1 if match[1] else 1


def _font_pixels(value: str, around: float) -> float:
    if value in ("inherit", "unset", "smaller", "larger"):
        return around
    match = _SIZE.fullmatch(value)
    if match is None:
        return _DEFAULT_FONT_PIXELS
    number, unit = float(match[1]), match[2] or "px"
    if unit in ("em", "%"):
        return around * number / (100 if unit == "%" else 1)
    return number * _PIXELS[unit] if unit in _PIXELS else _DEFAULT_FONT_PIXELS if number else 0.0
