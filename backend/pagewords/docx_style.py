"""Text styles of office documents, as far as they hide, raise or strike out text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from pagewords.colours import BLACK, WHITE, Colour, hex_colour, is_same, theme_colour, theme_colours, tinted
from pagewords.symbols import symbol_font

MIN_FONT_POINTS = 1.5  # Word allows 1
MAX_STYLE_DEPTH = 20  # of styles based on other styles

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_W14 = "{http://schemas.microsoft.com/office/word/2010/wordml}"
_TINY_SCALES = frozenset(map(str, range(1, 10)))  # percent of a letter's width
_OFF = frozenset({"0", "false", "off", "none"})
_HIGHLIGHTS = {
    "black": "000000", "blue": "0000FF", "cyan": "00FFFF", "green": "00FF00", "magenta": "FF00FF", "red": "FF0000",
    "yellow": "FFFF00", "white": "FFFFFF", "darkBlue": "000080", "darkCyan": "008080", "darkGreen": "008000",
    "darkMagenta": "800080", "darkRed": "800000", "darkYellow": "808000", "darkGray": "808080", "lightGray": "C0C0C0",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TextStyle:
    """The properties of text that hide, raise, lower or strike it out. The size is in points."""

    hidden: bool = False
    size: float = 10.0
    is_raised: bool = False
    is_lowered: bool = False
    is_struck: bool = False
    is_in_deleted_cell: bool = False
    is_squeezed: bool = False  # so narrow that letters look like lines
    symbol_font: str = ""  # its name, if the font shows symbols instead of letters
    ink: Colour | None = None  # None if the program chooses it, or it is unknown
    ground: Colour | None = WHITE  # what is behind the text; None if that is unknown
    is_doubtful: bool = False  # a part of what decides whether it is shown is unknown

    @property
    def is_visible(self) -> bool:
        """Return whether the text is shown, as far as that is known."""
        is_readable = not self.is_squeezed and self.size >= MIN_FONT_POINTS
        return is_readable and not self.hidden and not is_same(self.ink, self.ground)

    @property
    def may_be_hidden(self) -> bool:
        """Return whether text that counts as visible may not be seen, such as white text over something unknown."""
        return self.is_visible and (self.is_doubtful or (self.ground is None and is_same(self.ink, WHITE)))


@dataclass(frozen=True, slots=True)
class Sheet:
    """The largest sizes and margins of a document's sheets, in twentieths of a point."""

    width: int = 12_240
    height: int = 16_838
    left: int = 1_440
    top: int = 1_440

    def placed(self, style: TextStyle, across: Place, down: Place) -> TextStyle:
        """Return the style of text in a frame or text box at this place."""
        gaps = [across.gap(self.width, self.left), down.gap(self.height, self.top)]
        is_empty = any(place.size is not None and place.size < 20 * MIN_FONT_POINTS for place in (across, down))
        return replace(
            style,
            hidden=style.hidden or is_empty or any(gap is True for gap in gaps),
            is_doubtful=style.is_doubtful or any(gap is None for gap in gaps),
        )


class Place(NamedTuple):
    """Where a frame or text box starts, counted from its anchor, and its size, in twentieths of a point."""

    start: int
    size: int | None
    anchor: str

    def gap(self, side: int, margin: int) -> bool | None:
        """Return whether the place is off the sheet; None if that depends on where its paragraph is."""
        end = self.start + (self.size or 0)
        base = 0 if self.anchor == "page" else margin
        if self.anchor in ("page", "margin", "column", "text"):
            return (self.start < 0 and end + base <= 0) or self.start + base >= side
        return True if end <= -side or self.start >= side else None if end <= -margin else False


class DocxStyles:
    """The styles of a Word document: their run and paragraph properties, with inheritance resolved."""

    def __init__(
        self,
        root: Any | None,
        theme: Any | None = None,
        ground: Colour | None = WHITE,
        sheet: Sheet = Sheet(),
    ) -> None:
        """`ground` is the colour of the sheets."""
        self.sheet = sheet
        self._styles: dict[str, Any] = {}
        self._normal: str | None = None
        self.theme = theme_colours(theme)
        self.default = TextStyle(ground=ground)
        for style in root.iter(f"{_W}style") if root is not None else ():
            if (name := style.get(f"{_W}styleId")) is None:
                continue  # nothing can refer to it
            self._styles[name] = style
            if style.get(f"{_W}type") == "paragraph" and style.get(f"{_W}default") in ("1", "true", "on"):
                self._normal = name
        defaults = root.find(f"{_W}docDefaults/{_W}rPrDefault/{_W}rPr") if root is not None else None
        self.default = self._with_run_properties(defaults, self.default)

    def of_paragraph(self, paragraph: Any, inherited: TextStyle) -> TextStyle:
        """Return the style of a paragraph's runs, before their own properties."""
        style = self._with_named(_value(paragraph, "pPr/{}pStyle") or self._normal, inherited)
        return self._with_paragraph_properties(paragraph.find(f"{_W}pPr"), style)

    def of_run(self, run: Any, inherited: TextStyle) -> TextStyle:
        """Return the style of a run (Word's name for text with common properties)."""
        style = self._with_named(_value(run, "rPr/{}rStyle"), inherited)
        return self._with_run_properties(run.find(f"{_W}rPr"), style)

    def of_table(self, table: Any, inherited: TextStyle) -> TextStyle:
        name = _value(table, "tblPr/{}tblStyle")
        style = self._with_named(name, inherited)
        for definition in self._chain(name):
            style = self._with_parts_of_table(definition.iterchildren(f"{_W}tblStylePr"), style)
            style = self._shaded(definition.find(f"{_W}tcPr/{_W}shd"), style)
        return self._shaded(table.find(f"{_W}tblPr/{_W}shd"), style)

    def _with_parts_of_table(self, parts: Iterable[Any], style: TextStyle) -> TextStyle:
        """Return the style of text in a table whose style has parts, such as for its first row. Which cells a part is
        for is not evaluated."""
        is_doubtful, is_shaded = style.is_doubtful, False
        for part in parts:
            shaded = self._shaded(part.find(f"{_W}tcPr/{_W}shd"), style)
            is_shaded |= shaded.ground != style.ground
            is_doubtful |= not self._with_run_properties(part.find(f"{_W}rPr"), shaded).is_visible
        return replace(style, is_doubtful=is_doubtful, ground=None if is_shaded else style.ground)

    def of_row(self, row: Any, inherited: TextStyle) -> TextStyle:
        hidden = is_on(row.find(f"{_W}trPr/{_W}hidden")) or _is_flat(row.find(f"{_W}trPr/{_W}trHeight"))
        is_deleted = row.find(f"{_W}trPr/{_W}del") is not None
        return replace(
            inherited, hidden=inherited.hidden or hidden, is_in_deleted_cell=inherited.is_in_deleted_cell or is_deleted
        )

    def of_cell(self, cell: Any, inherited: TextStyle) -> TextStyle:
        merge = cell.find(f"{_W}tcPr/{_W}vMerge")
        is_covered = merge is not None and merge.get(f"{_W}val", "continue") == "continue"
        is_deleted = cell.find(f"{_W}tcPr/{_W}cellDel") is not None
        return replace(
            self._shaded(cell.find(f"{_W}tcPr/{_W}shd"), inherited),
            hidden=inherited.hidden or is_covered,
            is_in_deleted_cell=inherited.is_in_deleted_cell or is_deleted,
        )

    def _chain(self, name: str | None) -> list[Any]:
        """Return the definitions of a style, from the one it is finally based on to its own."""
        chain: list[Any] = []
        while name in self._styles and len(chain) < MAX_STYLE_DEPTH:
            definition = self._styles[name]
            chain.append(definition)
            name = _value(definition, "basedOn")
        return chain[::-1]

    def _with_named(self, name: str | None, inherited: TextStyle) -> TextStyle:
        style = inherited
        for definition in self._chain(name):
            style = self._with_run_properties(definition.find(f"{_W}rPr"), style)
            style = self._with_paragraph_properties(definition.find(f"{_W}pPr"), style)
        return style

    def _with_paragraph_properties(self, properties: Any, style: TextStyle) -> TextStyle:
        if properties is None:
            return style
        style = self._shaded(properties.find(f"{_W}shd"), style)
        indents, spacing, frame = (properties.find(f"{_W}{name}") for name in ("ind", "spacing", "framePr"))
        if frame is not None:
            x, y, width, height = (_whole(frame.get(f"{_W}{name}")) for name in ("x", "y", "w", "h"))
            across, down = (frame.get(f"{_W}{name}Anchor", "text") for name in "hv")
            down = "line" if down == "text" else down
            style = self.sheet.placed(style, Place(x, width or None, across), Place(y, height or None, down))
        starts = (_whole(indents.get(f"{_W}{name}")) for name in ("left", "start", "firstLine") if indents is not None)
        is_off = any(abs(start) >= self.sheet.width for start in starts)
        return replace(style, hidden=style.hidden or is_off or _is_flat(spacing, "line", "lineRule"))

    def _shaded(self, shading: Any, style: TextStyle) -> TextStyle:
        if shading is None or shading.get(f"{_W}val") == "nil":
            return style
        part = "color" if shading.get(f"{_W}val") == "solid" else "fill"
        theme_part = "theme" if part == "color" else "theme_fill"
        fill = self._colour(shading, part, theme_part)
        is_plain = shading.get(f"{_W}val", "clear") in ("clear", "solid")
        if fill is None and is_plain:  # automatic
            return replace(style, ground=BLACK) if part == "color" else style
        return replace(style, ground=fill if is_plain else None)

    def _colour(self, node: Any, name: str = "val", kind: str = "theme") -> Colour | None:
        """Return a colour of Word, which overrides a written colour with one of the theme."""
        prefix = "themeFill" if kind == "theme_fill" else "theme"
        of_theme = node.get(f"{_W}{prefix if kind == 'theme_fill' else 'themeColor'}")
        colour = theme_colour(self.theme, of_theme) if of_theme else None
        if colour is None:
            return hex_colour(node.get(f"{_W}{name}"))
        for end, sign in (("Tint", 1), ("Shade", -1)):
            share = node.get(f"{_W}{prefix}{end}", "")
            if len(share) == 2 and (level := hex_colour(share * 3)) is not None:
                colour = tinted(colour, sign * (1 - level.red / 255))
        return colour

    def _with_run_properties(self, properties: Any, style: TextStyle) -> TextStyle:
        if properties is None:
            return style
        style = _with_run_properties(properties, style)
        colour, highlight, fill = (
            properties.find(name) for name in (f"{_W}color", f"{_W}highlight", f"{_W14}textFill")
        )
        if colour is not None:
            style = replace(style, ink=self._colour(colour))
        style = self._shaded(properties.find(f"{_W}shd"), style)
        if highlight is not None and (shown := hex_colour(_HIGHLIGHTS.get(highlight.get(f"{_W}val", "")))):
            style = replace(style, ground=shown)
        if fill is not None:  # an effect, which replaces the colour
            is_outlined = properties.find(f"{_W14}textOutline/{_W14}solidFill") is not None
            written = fill.find(f"{_W14}solidFill/{_W14}srgbClr")
            alpha = fill.find(f".//{_W14}alpha")
            is_clear = alpha is not None and _whole(alpha.get(f"{_W14}val")) >= 95_000
            is_gone = (is_clear or fill.find(f"{_W14}noFill") is not None) and not is_outlined
            ink = None if written is None else hex_colour(written.get(f"{_W14}val"))
            style = replace(style, hidden=style.hidden or is_gone, ink=ink if written is not None else style.ink)
        return style


def _value(node: Any, path: str) -> str | None:
    found = node.find(_W + path.format(_W))
    return None if found is None else found.get(f"{_W}val")


def _with_run_properties(properties: Any, style: TextStyle) -> TextStyle:
    if properties is None:
        return style
    vanish, size, scale, alignment = (properties.find(f"{_W}{name}") for name in ("vanish", "sz", "w", "vertAlign"))
    if scale is not None:
        style = replace(style, is_squeezed=scale.get(f"{_W}val", "").rstrip("%") in _TINY_SCALES)
    if vanish is not None:
        style = replace(style, hidden=is_on(vanish))
    if size is not None:
        style = replace(style, size=_half_points(size.get(f"{_W}val"), style.size))
    if alignment is not None:
        place = alignment.get(f"{_W}val")
        style = replace(style, is_raised=place == "superscript", is_lowered=place == "subscript")
    if (position := properties.find(f"{_W}position")) is not None:
        shift = position.get(f"{_W}val", "0").strip()
        is_shifted = any("1" <= character <= "9" for character in shift)
        if is_shifted or alignment is None:
            style = replace(style, is_raised=is_shifted and shift[0] != "-", is_lowered=is_shifted and shift[0] == "-")
    if (fonts := properties.find(f"{_W}rFonts")) is not None:
        names = [fonts.get(f"{_W}{name}") for name in ("ascii", "hAnsi", "asciiTheme", "hAnsiTheme")]
        if given := [name for name in names if name]:
            style = replace(style, symbol_font=symbol_font(given[0]))
    for name in ("strike", "dstrike"):
        if (mark := properties.find(f"{_W}{name}")) is not None:
            style = replace(style, is_struck=is_on(mark))
    return style


def is_on(mark: Any) -> bool:
    """Return whether a boolean Word property is present and not off."""
    return mark is not None and mark.get(f"{_W}val", "true") not in _OFF


def _half_points(text: str | None, default: float) -> float:
    return float(text) / 2 if text and text.isascii() and text.isdigit() else default


def _is_flat(height: Any, name: str = "val", rule: str = "hRule") -> bool:
    """Return whether a row or line has a fixed height in which no text fits, in twentieths of a point."""
    value = "" if height is None or height.get(f"{_W}{rule}") != "exact" else height.get(f"{_W}{name}", "")
    return value.isdigit() and int(value) < 20 * MIN_FONT_POINTS


def _whole(text: str | None) -> int:
    """Return a whole number; 0 for any other text."""
    digits = (text or "").strip()
    return int(digits) if len(digits) < 10 and digits.lstrip("-").isdecimal() and digits.isascii() else 0
