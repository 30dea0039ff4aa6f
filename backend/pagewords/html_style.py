"""How a browser shows the elements of an HTML page: hidden or not, as a block or inline, raised, struck out.

Hidden means: the attribute `hidden` or `popover`, a closed `dialog`, `display: none`, `visibility: hidden`, zero
opacity, a tiny font, the colour of the background, a place left of or above the page, or clipping to nothing, in an
element's `style` or in a style sheet inside the file. Other ways to hide text (other elements, scripts, external style
sheets) and unsupported CSS features are not evaluated: such text is read.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, NamedTuple

import cssselect2  # pyright: ignore[reportMissingTypeStubs]
import tinycss2  # pyright: ignore[reportMissingTypeStubs]
from tinycss2.color4 import parse_color as _parse_color  # pyright: ignore

from pagewords.colours import BLACK, WHITE, Colour, is_same, mixed

css: Any = tinycss2  # without types
parse_color: Any = _parse_color
selectors: Any = cssselect2
_ElementWrapper: Any = cssselect2.ElementWrapper  # pyright: ignore

MIN_FONT_PIXELS = 2.0
MIN_OPACITY = 0.05
SCREEN_WIDTH = 1280.0  # pixels: media queries are evaluated for a desktop screen
MAX_NESTED_BLOCKS = 20  # deeper ones are ignored
MIN_SIDE = 1.0  # pixels: a box that is cut off at this size shows nothing
OFF_PAGE = 500.0  # pixels left of or above where an element would be
MAX_COLUMNS = 40  # items of a flex container on one line

_MIN_GAP, _MIN_SHIFT, _MIN_SHIFT_OF_SMALL, _SMALL = 0.2, 0.3, 0.1, 0.9  # of the font size around


class Display(StrEnum):
    """How an element is laid out among its siblings."""

    INLINE = "inline"
    BLOCK = "block"
    LIST_ITEM = "list-item"
    CONTENTS = "contents"
    TABLE = "table"
    ROW_GROUP = "row-group"
    ROW = "row"
    CELL = "cell"
    CAPTION = "caption"
    ITEMS = "items"  # a flex or grid container


_LINE_PROPERTIES = ("text-decoration", "text-decoration-line")
_SIDES = ("top", "right", "bottom", "left")
_GAPS = (("margin-left", "padding-left"), ("margin-right", "padding-right"))
_LOGICAL = {
    f"{kind}-inline-{logical}": f"{kind}-{side}"
    for kind in ("margin", "padding")
    for logical, side in (("start", "left"), ("end", "right"))
}
_PROPERTIES = frozenset(
    """display visibility content-visibility opacity font-size font vertical-align baseline-shift position float top
    bottom left margin margin-left margin-right margin-top margin-inline padding padding-left padding-right
    padding-inline white-space list-style list-style-type flex-direction flex-flow grid-template-columns width height
    background background-image content color background-color background-clip -webkit-background-clip text-shadow
    -webkit-text-fill-color color-scheme text-indent right transform scale translate filter clip clip-path overflow
    overflow-x overflow-y max-width max-height line-height""".split()  # noqa: SIM905
) | {*_LINE_PROPERTIES, *_LOGICAL}
_DISPLAYS = {
    "inline": Display.INLINE, "inline-block": Display.INLINE, "inline-flex": Display.INLINE,
    "inline-grid": Display.INLINE, "ruby": Display.INLINE, "contents": Display.CONTENTS,
    "block": Display.BLOCK, "flow-root": Display.BLOCK, "-webkit-box": Display.BLOCK,
    "list-item": Display.LIST_ITEM, "table": Display.TABLE, "inline-table": Display.TABLE,
    "table-row-group": Display.ROW_GROUP, "table-header-group": Display.ROW_GROUP,
    "table-footer-group": Display.ROW_GROUP, "table-row": Display.ROW, "table-cell": Display.CELL,
    "table-caption": Display.CAPTION, "flex": Display.ITEMS, "-webkit-flex": Display.ITEMS,
    "-ms-flexbox": Display.ITEMS, "grid": Display.ITEMS,
}  # fmt: skip
_TAG_DISPLAYS = {
    tag: display
    for display, tags in (
        (
            Display.BLOCK,
            """address article aside blockquote body center dd details dialog dir div dl dt fieldset figcaption figure
            footer form frameset h1 h2 h3 h4 h5 h6 header hgroup hr html legend listing main marquee menu nav ol p
            plaintext pre search section summary textarea ul xmp text foreignobject head noscript""",
        ),
        (Display.LIST_ITEM, "li"),
        (Display.TABLE, "table"),
        (Display.ROW_GROUP, "thead tbody tfoot"),
        (Display.ROW, "tr"),
        (Display.CELL, "td th"),
        (Display.CAPTION, "caption"),
    )
    for tag in tags.split()
}
_SEPARATE_TAGS = frozenset(["button", "input", "select", "option", "svg", "img"])
_TAG_VALUES: dict[str, dict[str, str]] = {
    **{tag: {"text-decoration": "line-through"} for tag in ("s", "strike", "del")},
    "sup": {"vertical-align": "super", "font-size": "smaller"},
    "sub": {"vertical-align": "sub", "font-size": "smaller"},
    "small": {"font-size": "smaller"},
    "big": {"font-size": "larger"},
    "ul": {"list-style-type": "disc"},
    **{tag: {"white-space": "pre"} for tag in ("pre", "textarea", "listing", "xmp", "plaintext")},
    "noscript": {"display": "none"},  # browsers run scripts, so they hide it
    **{
        tag: {"color": "black", "background-color": "white"}
        for tag in ("input", "textarea", "select", "option", "button")
    },
    "mark": {"color": "black", "background-color": "yellow"},
    "a": {"color": "?"},  # of a link, which depends on whether it was visited
    "svg": {"color": "?", "background-color": "?"},  # drawings have colours of their own
}
_DRAWN_TAGS = frozenset(["svg", "g", "text", "tspan", "textpath", "a", "switch", "image", "use", "foreignobject"])
_DRAWN_ATTRIBUTES = ("display", "visibility", "opacity", "font-size", "text-decoration", "baseline-shift")
_COLOUR_ATTRIBUTES: dict[str, dict[str, str]] = {
    "font": {"color": "color"},
    "body": {"text": "color", "bgcolor": "background-color", "background": "background-image"},
    **{
        tag: {"bgcolor": "background-color", "background": "background-image"}
        for tag in ("table", "thead", "tbody", "tfoot", "tr", "td", "th")
    },
}
_MARKERS = {
    "none": "", "decimal": "1", "decimal-leading-zero": "01", "lower-alpha": "a", "lower-latin": "a",
    "upper-alpha": "A", "upper-latin": "A", "lower-roman": "i", "upper-roman": "I", "disc": "•", "circle": "•",
    "square": "•",
}  # fmt: skip
_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)", re.S)
_DEFAULT_FONT_PIXELS = 16.0
_PIXELS = {"px": 1.0, "pt": 4 / 3, "pc": 16.0, "in": 96.0, "cm": 96 / 2.54, "mm": 96 / 25.4, "rem": 16.0}
_FONT_SIZES = {"xx-small": 9.0, "x-small": 10.0, "small": 13.0, "large": 18.0, "x-large": 24.0, "xx-large": 32.0}
_SIZE = re.compile(r"(\d+(?:\.\d*)?|\.\d+)([a-z]+|%)?")
_SIZE_IN_FONT = re.compile(r"(?:^|\s)((?:\d+(?:\.\d*)?|\.\d+)(?:[a-z]+|%)|0+)(?=[\s/])")
_NUMBER = re.compile(r"(-?(?:\d+(?:\.\d*)?|\.\d+))(%?)")
_LENGTH = re.compile(r"([-+]?(?:\d+(?:\.\d*)?|\.\d+))([a-z]+|%)?")
_CLIP = re.compile(r"rect\((.{0,80})\)")
_CLIP_PATH = re.compile(r"(?:circle|ellipse)\( ?0[^.]|inset\( ?(?:[5-9]\d|1\d\d)(?:\.\d{1,9})?%|polygon\([ 0,]{1,99}\)")
_SHRUNK = re.compile(r"scale(?:x|y|3d)?\( ?0?\.?0{1,9} ?[,)]")
_MOVED = re.compile(r"translate(?:3d|x|y)?\( ?([^,)]{1,20})(?:, ?([^,)]{1,20}))?")
_REPEAT = re.compile(r"repeat\( ?(\d{1,4}) ?,")
_PRIVATE_USE = re.compile("[\ue000-\uf8ff\U000f0000-\U0010ffff]")
_MEDIA_TYPE = re.compile(r"(not |only )?([a-z]+)(?: and (?=\())?")
_WIDTH = re.compile(r"\((?:(min|max)-(?:device-)?width ?:|width ?([<>])=?) ?(\d+(?:\.\d*)?)(px|em|rem) ?\)")


@dataclass(frozen=True, slots=True)
class ElementStyle:
    """The inherited style of an element's text."""

    is_removed: bool = False  # with all its children
    is_hidden: bool = False  # a child may be visible again
    font_pixels: float = _DEFAULT_FONT_PIXELS
    is_struck: bool = False
    script: int = 0  # 1 for raised text, -1 for lowered text
    keeps_space: bool = False
    marker: str = "•"  # of a list item: its number 1, a bullet, or nothing
    ink: Colour | None = None  # None if no style gives it, or it is unknown
    ground: Colour | None = WHITE  # what is behind the text; None if that is unknown

    @property
    def is_visible(self) -> bool:
        """Return whether the element's own text is shown, as far as that is known."""
        is_shown = not self.is_removed and not self.is_hidden and self.font_pixels >= MIN_FONT_PIXELS
        return is_shown and not is_same(self.ink, self.ground)

    @property
    def may_be_hidden(self) -> bool:
        """Return whether text that counts as visible may not be seen."""
        is_white_on_unknown = self.ground is None and is_same(self.ink, WHITE)
        return is_white_on_unknown or (self.ink is None and is_same(self.ground, BLACK))


class ElementBox(NamedTuple):
    """How an element is laid out. Gaps are the spaces around it on a line; sizes are in pixels."""

    display: Display = Display.INLINE
    gap_before: int = 0
    gap_after: int = 0
    columns: int = 1  # items of a flex or grid container on one line
    has_items: bool = False  # its children are separate boxes on one line
    images: tuple[str, ...] = ()
    width: float | None = None
    height: float | None = None
    before: Mapping[str, Declaration] | None = None
    after: Mapping[str, Declaration] | None = None


class Declaration(NamedTuple):
    name: str
    value: str
    is_important: bool
    tokens: Sequence[Any] = ()  # for values that contain text or URLs


_Values = Mapping[str, str]
_NO_DECLARATIONS: dict[str, Declaration] = {}
_TAG_BOXES = {
    **{tag: ElementBox(display) for tag, display in _TAG_DISPLAYS.items()},
    **dict.fromkeys(_SEPARATE_TAGS, ElementBox(Display.INLINE, 1, 1)),
    **dict.fromkeys(("td", "th"), ElementBox(Display.CELL, 2, 2)),
}
_INLINE_BOX = ElementBox()


class StyleResolver:
    """Computes the styles of elements from their attributes and the page's style sheets."""

    def __init__(self, root: Any) -> None:
        # What a style sheet that is not in the file declares is unknown.
        sheets = (node.get("rel") or "" for node in root.iter("link"))
        is_styled_elsewhere = any("stylesheet" in kind.lower() for kind in sheets)
        self.initial = ElementStyle(ground=None if is_styled_elsewhere else WHITE)
        self._matcher: Any = selectors.Matcher()
        self._elements: dict[Any, Any] = {}
        # Caches: many elements have the same declarations and styles.
        self._cascades: dict[Any, tuple[Mapping[str, Declaration], ...]] = {}
        self._resolved: dict[Any, tuple[ElementStyle, ElementBox]] = {}
        for node in root.iter("style"):
            is_inert = any(ancestor.tag in ("template", "noscript") for ancestor in node.iterancestors())
            is_css = (node.get("type") or "text/css").strip().lower() == "text/css"
            if is_css and not is_inert and applies_on_screen(node.get("media") or ""):
                text = (node.text or "").replace("<!--", " ").replace("-->", " ")
                self._add_rules(css.parse_stylesheet(text, skip_comments=True, skip_whitespace=True))
        if self._matcher.order:
            self._elements = {each.etree_element: each for each in _Element.from_html_root(root).iter_subtree()}

    def compute(self, node: Any, parent: ElementStyle) -> tuple[ElementStyle, ElementBox]:
        """Return the style and box of an element whose parent has the style `parent`."""
        tag: str = node.tag
        default = _TAG_BOXES.get(tag, _INLINE_BOX)
        if parent.is_removed:
            return parent, default
        values = dict(_TAG_VALUES.get(tag, {}))
        if tag == "ol":
            values["list-style-type"] = next((k for k, v in _MARKERS.items() if v == node.get("type")), "decimal")
        if (hidden := node.get("hidden")) is not None:
            values["content-visibility" if hidden.strip().lower() == "until-found" else "display"] = (
                "hidden" if hidden.strip().lower() == "until-found" else "none"
            )
        if node.get("popover") is not None or (tag == "dialog" and node.get("open") is None):
            values["display"] = "none"
        for name, property_name in _COLOUR_ATTRIBUTES.get(tag, {}).items():
            if given := node.get(name):
                values[property_name] = given.strip().lower()
        if tag in _DRAWN_TAGS:
            values.update({name: given.strip().lower() for name in _DRAWN_ATTRIBUTES if (given := node.get(name))})
        declared, before, after = self._declared(node)
        values.update({name: each.value for name, each in declared.items()})
        if not values:
            return parent, default._replace(before=before, after=after) if before or after else default
        style, box = self._resolve(values, parent, default)
        images = tuple(_picture_urls(declared["background-image"].tokens)) if "background-image" in declared else ()
        return style, box._replace(images=images, before=before, after=after)

    def generate(
        self, node: Any, declared: Mapping[str, Declaration], parent: ElementStyle
    ) -> tuple[ElementStyle, ElementBox, str] | None:
        """Return style, box and text of an element's `::before` or `::after`."""
        if "content" not in declared or declared["content"].value in ("none", "normal"):
            return None
        tokens = declared["content"].tokens
        style, box = self._resolve({name: each.value for name, each in declared.items()}, parent, _INLINE_BOX)
        background = declared["background-image"].tokens if "background-image" in declared else ()
        return style, box._replace(images=tuple(_picture_urls([*tokens, *background]))), _generated_text(tokens, node)

    def _declared(self, node: Any) -> tuple[Mapping[str, Declaration], ...]:
        """Return the winning declaration of each property, for the element and its generated content.

        Important declarations win, then `style`, then the more specific selector.
        """
        matches: list[tuple[Any, int, str | None, list[Declaration]]] = []
        if self._elements:
            with contextlib.suppress(ValueError):  # `:local-link` on an address that cannot be parsed
                matches = self._matcher.match(self._elements[node])
        style = node.get("style") or ""
        if not matches and not style:
            return _NO_DECLARATIONS, _NO_DECLARATIONS, _NO_DECLARATIONS
        key = style, *(order for _, order, _, _ in matches)
        if key not in self._cascades:
            self._cascades[key] = _cascade(matches, style)
        return self._cascades[key]

    def _resolve(self, values: _Values, parent: ElementStyle, default: ElementBox) -> tuple[ElementStyle, ElementBox]:
        key = parent, default, *values.items()
        if key not in self._resolved:
            self._resolved[key] = _resolve(values, parent, default)
        return self._resolved[key]

    def _add_rules(self, rules: Iterable[Any], depth: int = 0) -> None:
        for rule in rules:
            if rule.type == "qualified-rule":
                self._add_rule(rule)
            elif rule.type == "at-rule" and rule.content is not None and depth < MAX_NESTED_BLOCKS:
                condition = _css_text(rule.prelude)
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
    """A cssselect2 element whose `previous_siblings` needs no recursion and no tuple per element."""

    @property
    def previous_siblings(self) -> Iterator[Any]:
        element = self.previous
        while element is not None:
            yield element
            element = element.previous


def _declarations(nodes: Iterable[Any]) -> Iterator[Declaration]:
    for node in nodes:
        if node.type != "declaration" or node.lower_name not in _PROPERTIES or not (value := _css_text(node.value)):
            continue
        name, important = _LOGICAL.get(node.lower_name, node.lower_name), bool(node.important)
        if name in ("content", "background", "background-image"):
            yield Declaration("content" if name == "content" else "background-image", value, important, node.value)
            if name == "background":
                colours = (css.serialize([token]).strip() for token in node.value)
                colour = next((each for each in colours if each and _css_colour(each.lower())), None)
                unknown = "inherit" if value == "inherit" else "?" if "var(" in value else "transparent"
                yield Declaration("background-color", colour.lower() if colour else unknown, important)
        elif name in ("margin", "padding"):
            sides = value.split()
            right, left = sides[min(1, len(sides) - 1)], sides[3] if len(sides) == 4 else sides[min(1, len(sides) - 1)]
            yield Declaration(f"{name}-right", right, important)
            yield Declaration(f"{name}-left", left, important)
            yield Declaration(f"{name}-top", sides[0], important)
        elif name in ("margin-inline", "padding-inline"):
            kind, sides = name.removesuffix("-inline"), value.split()
            yield Declaration(f"{kind}-left", sides[0], important)
            yield Declaration(f"{kind}-right", sides[-1], important)
        elif name == "font":
            size = _SIZE_IN_FONT.search(f"{value} ")
            yield Declaration("font-size", value if value == "inherit" else size[1] if size else "medium", important)
        elif name in ("list-style", "list-style-type"):
            kind = next((word for word in value.split() if word in _MARKERS), "disc" if name == "list-style" else value)
            yield Declaration("list-style-type", kind, important)
        elif name in ("flex-direction", "flex-flow"):
            yield Declaration("flex-direction", value, important)
        else:
            yield Declaration(name, value, important)


def _cascade(
    matches: Iterable[tuple[Any, int, str | None, list[Declaration]]], style: str
) -> tuple[Mapping[str, Declaration], ...]:
    ranked: dict[str, list[tuple[tuple[Any, ...], Declaration]]] = {"": [], "before": [], "after": []}
    for specificity, order, pseudo_element, declarations in matches:
        ranks = ranked.setdefault(pseudo_element or "", [])
        ranks += [((each.is_important, False, specificity, order), each) for each in declarations]
    if style:
        own = _declarations(css.parse_declaration_list(style, skip_comments=True, skip_whitespace=True))
        ranked[""] += [((each.is_important, True), each) for each in own]
    for ranks in ranked.values():
        ranks.sort(key=lambda pair: pair[0])
    return tuple({each.name: each for _, each in ranked[name]} for name in ("", "before", "after"))


def _resolve(values: _Values, parent: ElementStyle, default: ElementBox) -> tuple[ElementStyle, ElementBox]:
    size = _font_pixels(values["font-size"], parent.font_pixels) if "font-size" in values else parent.font_pixels
    box = _make_box(values, default, size)
    visibility = values.get("visibility", "inherit")
    is_apart = box.gap_before > 0 and box.gap_after > 0
    script = _raised_or_lowered(values, size, parent.font_pixels, is_apart) if box.display is Display.INLINE else 0
    space = values.get("white-space", "inherit")
    is_free = values.get("position") in ("absolute", "fixed")
    ground = _ground(values, None if is_free and parent.ground == WHITE else parent.ground)
    style = ElementStyle(
        is_removed=(
            parent.is_removed
            or values.get("display") == "none"
            or values.get("content-visibility") == "hidden"
            or _opacity(values.get("opacity", "1")) < MIN_OPACITY
            or _is_off_page(values, size, is_free)
            or _is_cut_off(values, size, box.display, is_free)
        ),
        is_hidden=parent.is_hidden if visibility in ("inherit", "unset") else visibility in ("hidden", "collapse"),
        font_pixels=size,
        is_struck=parent.is_struck or any("line-through" in values.get(name, "") for name in _LINE_PROPERTIES),
        script=script or parent.script,
        keeps_space=parent.keeps_space if space in ("inherit", "unset") else space.startswith(("pre", "break-spaces")),
        marker=_MARKERS.get(values.get("list-style-type", ""), parent.marker),
        ink=_ink(values, parent.ink, ground),
        ground=ground,
    )
    return style, box


def _ground(values: _Values, behind: Colour | None) -> Colour | None:
    """Return what is behind the text of an element; None if that is unknown."""
    image = values.get("background-image", "none")
    if any(name in image for name in ("url(", "gradient", "image", "var(", "element(")) or "/" in image:
        return None
    if "dark" in values.get("color-scheme", ""):
        behind = None
    given = values.get("background-color", "transparent")
    if given in ("inherit", "unset", "initial", "none"):
        return behind
    colour = _css_colour(given)
    if colour is None:
        return None
    over, opacity = colour
    return over if opacity >= 1 else behind if behind is None or opacity <= 0 else mixed(over, behind, opacity)


def _ink(values: _Values, inherited: Colour | None, ground: Colour | None) -> Colour | None:
    """Return the colour of an element's text; None if no style gives it, or it is unknown. Clear text has the colour
    of its background."""
    given = values.get("-webkit-text-fill-color") or values.get("color", "inherit")
    if given in ("inherit", "unset", "currentcolor"):
        return inherited
    clips = values.get("background-clip", ""), values.get("-webkit-background-clip", "")
    if "text" in clips or values.get("text-shadow", "none") != "none":
        return None
    colour = _css_colour(given)
    if colour is None:
        return None
    ink, opacity = colour
    return ink if opacity >= 1 else mixed(ink, ground or WHITE, opacity)


@lru_cache(maxsize=2000)
def _css_colour(text: str) -> tuple[Colour, float] | None:
    """Return a colour and its opacity; None if it is unknown."""
    for written in (text, f"#{text}"):  # attributes of old pages may have no sign before the digits
        with contextlib.suppress(ValueError, NotImplementedError, RecursionError):
            parsed: Any = parse_color(written)
            if parsed is not None and not isinstance(parsed, str):
                red, green, blue = (255 * min(max(level or 0, 0), 1) for level in parsed.to("srgb")[:3])
                return Colour(red, green, blue), parsed.alpha
    return None


def _is_off_page(values: _Values, size: float, is_free: bool) -> bool:
    """Return whether an element is moved left of the page or above it."""
    starts = [values.get(name) for name in ("text-indent", "margin-left", "margin-top")]
    if is_free or values.get("position") == "relative":
        starts += [values.get("left"), values.get("top")]
        if _shift(values.get("right"), size) <= -2 * OFF_PAGE or _shift(values.get("left"), size) >= 4 * SCREEN_WIDTH:
            return True
    if moved := _MOVED.search(f"{values.get('transform', '')} translate({values.get('translate', '0')})"):
        # Percent are of the element's own size, as in `translate(-50%)`, which centres it.
        starts += [each for each in (moved[1], moved[2]) if each and not each.endswith("%")]
    return any(_shift(start, size) <= -OFF_PAGE for start in starts)


def _is_cut_off(values: _Values, size: float, display: Display, is_free: bool) -> bool:
    """Return whether an element is clipped or scaled to nothing."""
    if _SHRUNK.search(values.get("transform", "")) or values.get("scale", "1").split(" ")[0] in ("0", "0%"):
        return True
    if "opacity(0)" in values.get("filter", "").replace(" ", "") or _CLIP_PATH.search(values.get("clip-path", "")):
        return True
    if is_free and (clip := _CLIP.fullmatch(values.get("clip", ""))):
        sides = [_LENGTH.fullmatch(side) for side in clip[1].replace(",", " ").split()]
        if len(sides) == 4 and all(sides):
            top, right, bottom, left = (_pixels(side[0] if side else "", size) for side in sides)
            return right - left <= MIN_SIDE or bottom - top <= MIN_SIDE
    overflow = " ".join(values.get(name, "") for name in ("overflow", "overflow-x", "overflow-y"))
    is_box = is_free or display not in (Display.INLINE, Display.CELL, Display.ROW, Display.ROW_GROUP, Display.CONTENTS)
    if not is_box and values.get("display") != "inline-block" and values.get("float", "none") == "none":
        return False
    if "hidden" not in overflow and "clip" not in overflow:
        return False
    if _shift(values.get("text-indent"), size) >= OFF_PAGE:
        return True
    lengths = [values.get(name, "") for name in ("width", "height", "max-width", "max-height")]
    lengths += [values["line-height"]] if values.get("line-height", "")[:2] in ("0", "0p") else []
    return any(_LENGTH.fullmatch(each) and _pixels(each, size) <= MIN_SIDE for each in lengths)


def _shift(length: str | None, size: float) -> float:
    """Return a distance in pixels, in which percent are of an element of half the screen's width."""
    match = _LENGTH.fullmatch((length or "").strip())
    is_share = match is not None and match[2] in ("%", "vw", "vh")
    return float(match[1]) / 200 * SCREEN_WIDTH if match and is_share else _pixels((length or "").strip(), size)


def _make_box(values: _Values, default: ElementBox, size: float) -> ElementBox:
    given = values.get("display", "")
    display = _DISPLAYS.get(given, default.display)
    before, after = (default.gap_before, default.gap_after) if display is default.display else (0, 0)
    has_items = given in ("inline-flex", "inline-grid")
    if display is Display.CELL:
        before = after = 2
    elif display is Display.INLINE:
        is_apart = values.get("float", "none") != "none" or values.get("position") in ("absolute", "fixed")
        if is_apart or (given == "inline-block" and default.display is not Display.INLINE):
            before = after = 2
        elif given.startswith("inline-"):
            before = after = 1
        elif given or default.display is Display.INLINE:
            left = _pixels(values.get("left"), size) if values.get("position") == "relative" else 0.0
            moved = (left, 0.0)
            before, after = (
                1 if gap or sum(_pixels(values.get(name), size) for name in names) + offset >= _MIN_GAP * size else 0
                for gap, names, offset in zip((before, after), _GAPS, moved, strict=True)
            )
    sizes = [values.get(side, "") for side in ("width", "height")]
    width, height = [None if each.endswith("%") else _pixels(each, size) or None for each in sizes]
    return ElementBox(display, before, after, _items_per_line(values, given), has_items, (), width, height)


def _items_per_line(values: _Values, display: str) -> int:
    if display == "grid":
        tracks = values.get("grid-template-columns", "none")
        if repeated := _REPEAT.match(tracks):
            return max(1, min(int(repeated[1]), MAX_COLUMNS))
        if tracks == "none" or "repeat(" in tracks:
            return 1
        return min(_count_tracks(tracks), MAX_COLUMNS)
    return 1 if "column" in values.get("flex-direction", "") else MAX_COLUMNS


def _count_tracks(tracks: str) -> int:
    depth = count = 0
    for word in tracks.replace("(", " ( ").replace(")", " ) ").split():
        if word == "(":
            depth += 1
        elif word == ")":
            depth -= 1
        elif not depth and not word.startswith("[") and not word.endswith("]"):
            count += 1
    return max(count, 1)


def _picture_urls(tokens: Iterable[Any]) -> Iterator[str]:
    for token in tokens:
        if token.type == "url":
            yield token.value
        elif token.type == "function" and token.lower_name == "url":
            yield from [each.value for each in token.arguments if each.type == "string"][:1]
        elif token.type == "function" and token.lower_name.endswith("image-set"):
            # Take its first image: the others are the same in another resolution.
            for each in token.arguments:
                if each.type in ("url", "string"):
                    yield each.value
                    break
                if each.type == "function" and each.lower_name == "url":
                    yield from [inner.value for inner in each.arguments if inner.type == "string"][:1]
                    break


def _generated_text(tokens: Iterable[Any], node: Any) -> str:
    pieces: list[str] = []
    for token in tokens:
        if token.type == "string":
            pieces.append(token.value)
        elif token.type == "function" and token.lower_name == "attr":
            name = next((each.value for each in token.arguments if each.type == "ident"), "")
            with contextlib.suppress(ValueError):  # not an attribute name
                pieces.append(node.get(name.lower()) or "")
        elif token.type == "ident":
            pieces.append({"open-quote": "“", "close-quote": "”"}.get(token.lower_value, ""))
        elif token.type == "literal" and token.value == "/":
            break  # alternative text follows, for screen readers
    return _PRIVATE_USE.sub("", "".join(pieces))


def _css_text(tokens: Iterable[Any]) -> str:
    """Return tokens as lower-case CSS without comments; `?` if they are nested too deeply."""
    try:
        return " ".join(_COMMENT.sub(" ", css.serialize(tokens)).lower().split())
    except RecursionError:
        return "?"


def applies_on_screen(queries: str) -> bool:
    """Return whether a list of media queries matches a desktop screen. Unsupported queries don't match."""
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


def _raised_or_lowered(values: _Values, size: float, parent_size: float, is_apart: bool) -> int:
    """Return 1 for raised inline text, -1 for lowered, else 0. For an inline block, only `sub` and `super` count: other
    properties position the box itself."""
    is_small = size <= _SMALL * parent_size
    alignment = values.get("vertical-align") or values.get("baseline-shift") or ""
    if alignment.startswith(("sup", "sub")):
        return 1 if alignment.startswith("sup") else -1
    if is_apart:
        return 0
    if alignment in ("top", "text-top"):
        return 1 if is_small else 0
    if shift := _pixels(alignment, size):
        return 1 if shift > 0 else -1
    if values.get("position") == "relative":
        shift = -_pixels(values.get("top"), size) or _pixels(values.get("bottom"), size)
        if abs(shift) >= (_MIN_SHIFT_OF_SMALL if is_small else _MIN_SHIFT) * parent_size:
            return 1 if shift > 0 else -1
    return 0


def _pixels(length: str | None, size: float) -> float:
    """Return a length in pixels, for a font of `size` pixels; 0 if it is not understood."""
    match = _LENGTH.fullmatch(length or "")
    if match is None:
        return 0.0
    number, unit = float(match[1]), match[2] or "px"
    if unit in ("em", "%"):
        return size * number / (100 if unit == "%" else 1)
    return number * (_PIXELS.get(unit, size / 2) if unit != "px" else 1.0)


def _font_pixels(value: str, parent_size: float) -> float:
    if value in ("inherit", "unset"):
        return parent_size
    if value in ("smaller", "larger"):
        return parent_size / 1.2 if value == "smaller" else parent_size * 1.2
    match = _SIZE.fullmatch(value)
    if match is None:
        return _FONT_SIZES.get(value, _DEFAULT_FONT_PIXELS)
    number, unit = float(match[1]), match[2] or "px"
    if unit in ("em", "%"):
        return parent_size * number / (100 if unit == "%" else 1)
    return number * _PIXELS[unit] if unit in _PIXELS else _DEFAULT_FONT_PIXELS if number else 0.0
