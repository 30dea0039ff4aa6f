"""Whether HTML shows an element's text to a person: styles, style sheets in the file, and the attributes before CSS."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

from PIL import ImageColor

Colour = tuple[int, int, int]

# Pixels, 96 to an inch. What is lower is a line to a person; what lies so far left or above is on no screen.
SMALLEST = 2.0
FAR = -300.0
LEVELS = 16  # of 255; the same bound as for a PDF
MAX_RULES = 5_000
MAX_SELECTOR_PARTS = 8

_COMMENT = re.compile(r"/\*.*?\*/", re.S)
_BRACE = re.compile(r"([{}])")
_FONT = re.compile(r"(?:\A|\s)([\d.]+(?:px|pt|em|rem|%)?)\s*(?:/|\s)", re.I)
_ON_SCREEN = re.compile(r"@media\s+(?:only\s+)?(?:all|screen)\s*\Z|@(?:layer|supports)\b", re.I)
_COMPOUND = re.compile(r"([a-z][a-z0-9]*|\*)?((?:[.#][\w-]+)*)", re.I)
_LENGTH = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(px|pt|em|rem|%|in|cm|mm|)\Z", re.I)
_PIXELS = {"px": 1.0, "": 1.0, "pt": 96 / 72, "rem": 16.0, "in": 96.0, "cm": 96 / 2.54, "mm": 96 / 25.4}
_SIZES = {"xx-small": 9, "x-small": 10, "small": 13, "medium": 16, "large": 18, "x-large": 24, "xx-large": 32}
_NO_CLIP = re.compile(r"rect\(\s*(?:0(?:px)?|1px)(?:[\s,]+(?:0(?:px)?|1px)){3}\s*\)|inset\(\s*(?:50|100)%")
_COLOUR = re.compile(r"#[0-9a-f]{3,8}\b|(?:rgb|hsl)a?\([^()]*\)|\b[a-z]+\b", re.I)
_NOT_COLOURS = frozenset({"none", "repeat", "no", "scroll", "fixed", "center", "top", "left", "right", "bottom"})
_MOVED = re.compile(r"(translate|scale)[xy]?\(\s*(-?[\d.]+)", re.I)


@dataclass(frozen=True, slots=True)
class Look:
    """How an element's own text looks. `gone` holds for all that stands in it, the rest until it is set anew.

    `ground` is None where it cannot be known: a picture, a gradient, a style sheet elsewhere.
    """

    gone: bool = False
    visible: bool = True
    size: float = 16.0
    colour: Colour | None = (0, 0, 0)
    clear: bool = False  # the colour is transparent
    ground: Colour | None = (255, 255, 255)

    @property
    def seen(self) -> bool:
        """Whether a person can see it."""
        if self.gone or not self.visible or self.size < SMALLEST or self.clear:
            return False
        return differs(self.colour, self.ground)


def differs(colour: Colour | None, ground: Colour | None) -> bool:
    """Whether a person can tell the two apart; also where one of them is not known."""
    if colour is None or ground is None:
        return True
    return any(abs(ours - behind) >= LEVELS for ours, behind in zip(colour, ground, strict=True))


class _Rule(NamedTuple):
    order: tuple[int, int, int, int]  # ids, classes, tags, place in the sheet
    steps: tuple[tuple[str, str, frozenset[str], frozenset[str]], ...]  # combinator, tag, ids, classes; last first
    style: dict[str, str]


class Styles:
    """The style sheets in a file, as far as their rules are of tags, classes and ids within one another.

    Rules with anything else in their selectors, and all that depend on the medium, are left out.
    """

    def __init__(self, root: Any) -> None:
        self._rules: list[_Rule] = []
        self._known = True
        for node in root.iter("style", "link"):
            if node.tag == "link":
                self._known &= "stylesheet" not in (node.get("rel") or "").lower()
                continue
            sheet = _COMMENT.sub(" ", node.text or "").replace("<!--", " ").replace("-->", " ")
            self._known &= "@import" not in sheet
            for selectors, body in _rules(sheet):
                style = _declarations(body)
                for selector in selectors.split(",") if style else ():
                    if len(self._rules) < MAX_RULES and (rule := _rule(selector, style, len(self._rules))):
                        self._rules.append(rule)
        self._rules.sort(key=lambda rule: rule.order)
        # Those whose last step names a class or an id are asked only where one stands.
        self._by_mark: dict[str, list[_Rule]] = {}
        for rule in self._rules:
            _, tag, ids, classes = rule.steps[0]
            mark = next((f"#{name}" for name in ids), next((f".{name}" for name in classes), tag))
            self._by_mark.setdefault(mark, []).append(rule)

    def outermost(self) -> Look:
        """How text looks that nothing is said about."""
        return Look(ground=(255, 255, 255) if self._known else None)

    def look(self, node: Any, around: Look) -> Look:
        """How an element's text looks that stands in one which looks like `around`."""
        style = self._style(node)
        look = around
        if node.get("hidden") is not None or (node.tag == "dialog" and node.get("open") is None) or _away(style):
            return replace(look, gone=True)
        if "visibility" in style:
            look = replace(look, visible=style["visibility"] not in ("hidden", "collapse"))
        short = _FONT.search(style.get("font", ""))
        if size := style.get("font-size") or (short and short[1]):
            look = replace(look, size=_size(size, look.size))
        ground = style.get("background-color") or style.get("background") or node.get("bgcolor")
        if (
            node.get("background")
            or "url(" in (ground or "")
            or "gradient(" in (ground or "")
            or (style.get("background-image", "none") != "none")
        ):
            look = replace(look, ground=None)
        elif ground:
            colour, clear = _colour(ground)
            if not clear:
                look = replace(look, ground=colour)
        ink = style.get("color") or (node.get("color") if node.tag == "font" else None)
        if node.tag == "body" and not ink:
            ink = node.get("text")
        if ink and ink not in ("inherit", "initial", "unset"):
            colour, clear = _colour(ink)
            look = replace(look, colour=colour, clear=clear)
        return look

    def _style(self, node: Any) -> dict[str, str]:
        classes = frozenset((node.get("class") or "").split())
        marks = ["*", str(node.tag), *(f".{name}" for name in classes), f"#{node.get('id')}"]
        rules = [rule for mark in marks for rule in self._by_mark.get(mark, ()) if _matches(rule, node)]
        rules.sort(key=lambda rule: rule.order)
        own = [rule.style for rule in rules]
        if inline := node.get("style"):
            own.append(_declarations(inline))
        style: dict[str, str] = {}
        important: dict[str, str] = {}
        for declared in own:
            for name, value in declared.items():
                if value.endswith("!important"):
                    important[name] = value.removesuffix("!important").strip()
                else:
                    style[name] = value
        return style | important


def _rules(sheet: str) -> Iterator[tuple[str, str]]:
    """Selectors and body of each rule that holds on any screen."""
    open_blocks: list[str] = []
    text = ""
    for piece in _BRACE.split(sheet):
        if piece == "{":
            open_blocks.append(text.rsplit(";", 1)[-1].strip())
            text = ""
        elif piece == "}":
            head = open_blocks.pop() if open_blocks else "@"
            if not head.startswith("@") and all(_ON_SCREEN.match(block) for block in open_blocks):
                yield head, text
            text = ""
        else:
            text = piece


@lru_cache(maxsize=1024)
def _declarations(body: str) -> dict[str, str]:
    style: dict[str, str] = {}
    for part in _COMMENT.sub(" ", body).split(";"):
        name, colon, value = part.partition(":")
        if colon:
            style[name.strip().lower()] = re.sub(r"\s*!\s*important", "!important", " ".join(value.lower().split()))
    return style


def _rule(selector: str, style: dict[str, str], place: int) -> _Rule | None:
    parts = selector.replace(">", " > ").split()
    if not parts or len(parts) > MAX_SELECTOR_PARTS:
        return None
    steps: list[tuple[str, str, frozenset[str], frozenset[str]]] = []
    combinator = " "
    counts = [0, 0, 0]
    for part in reversed(parts):
        if part == ">":
            combinator = ">"
            continue
        match = _COMPOUND.fullmatch(part)
        if not match:
            return None
        tag, marks = (match[1] or "*").lower(), re.findall(r"[.#][\w-]+", match[2])
        ids = frozenset(mark[1:] for mark in marks if mark[0] == "#")
        classes = frozenset(mark[1:] for mark in marks if mark[0] == ".")
        steps.append((combinator, tag, ids, classes))
        combinator = " "
        counts[0] += len(ids)
        counts[1] += len(classes)
        counts[2] += tag != "*"
    return _Rule((counts[0], counts[1], counts[2], place), tuple(steps), style) if steps else None


def _matches(rule: _Rule, node: Any) -> bool:
    _, tag, ids, classes = rule.steps[0]
    if not _fits(node, tag, ids, classes):
        return False
    at = node.getparent()
    # The combinator of a step says how the one before it, further in, stands in it.
    for combinator, tag, ids, classes in rule.steps[1:]:
        while at is not None and not _fits(at, tag, ids, classes):
            if combinator == ">":
                return False
            at = at.getparent()
        if at is None:
            return False
        at = at.getparent()
    return True


def _fits(node: Any, tag: str, ids: frozenset[str], classes: frozenset[str]) -> bool:
    if tag not in ("*", node.tag) or not ids <= {node.get("id")}:
        return False
    return not classes or classes <= set((node.get("class") or "").split())


def _away(style: dict[str, str]) -> bool:
    """Whether an element, with all in it, is shown nowhere."""
    if style.get("display") == "none" or _number(style.get("opacity")) < LEVELS / 255:
        return True
    if _NO_CLIP.search(style.get("clip", "") + " " + style.get("clip-path", "")):
        return True
    if style.get("position") in ("absolute", "fixed", "relative") and any(
        _length(style.get(side)) <= FAR for side in ("left", "top")
    ):
        return True
    sides = [style.get(name) for name in ("text-indent", "margin-left", "margin-top")]
    if any(_length(side) <= FAR for side in (*sides, *style.get("margin", "").split())):
        return True
    cuts = style.get("overflow", "").startswith(("hidden", "clip")) or style.get("overflow-y") == "hidden"
    room = [style.get(name) for name in ("height", "width", "max-height", "max-width")]
    if cuts and any(_length(measure) < SMALLEST for measure in room):
        return True
    for kind, amount in _MOVED.findall(style.get("transform", "")):
        value = _number(amount)
        if (kind.lower() == "scale" and abs(value) < 0.1) or (kind.lower() == "translate" and value <= FAR):
            return True
    return False


def _number(text: str | None) -> float:
    """The number, of per cent too; 1 for what is none."""
    try:
        return float((text or "").rstrip("%")) / (100 if (text or "").endswith("%") else 1)
    except ValueError:
        return 1.0


def _length(text: str | None) -> float:
    """Pixels; 100 for what is no length or depends on what stands around."""
    match = _LENGTH.match(text or "")
    if not match:
        return 100.0
    unit = match[2].lower()
    return float(match[1]) * (_PIXELS.get(unit) or 16.0)


def _size(text: str, around: float) -> float:
    match = _LENGTH.match(text)
    if not match:
        return float(_SIZES.get(text, around))
    unit = match[2].lower()
    return float(match[1]) * ({"em": around, "%": around / 100}.get(unit) or _PIXELS[unit])


def _colour(text: str) -> tuple[Colour | None, bool]:
    """The colour, None for one that is not known; and whether it is transparent."""
    for word in _COLOUR.findall(text):
        if word.lower() in ("transparent", "none", "initial", "unset", "inherit"):
            return None, True
        if word.lower() in _NOT_COLOURS:
            continue
        named = re.sub(r"\s*/\s*|\s*,\s*|\s+", ",", word.replace("( ", "(").replace(" )", ")"))
        alpha = 1.0
        if inner := re.fullmatch(r"(rgb|hsl)a?\((.*)\)", named, re.I):
            parts = inner[2].split(",")
            alpha = _number(parts[3]) if len(parts) > 3 else 1.0
            named = f"{inner[1]}({','.join(parts[:3])})"
        try:
            red, green, blue, *rest = ImageColor.getrgb(named)
        except ValueError:
            return None, False
        return (red, green, blue), (rest[0] / 255 if rest else alpha) < LEVELS / 255
    return None, False
