"""Text styles of office documents, as far as they hide, raise or strike out text."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from pagewords.symbols import symbol_font

MIN_FONT_POINTS = 1.5  # Word allows 1
MAX_STYLE_DEPTH = 20  # of styles based on other styles

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_TINY_SCALES = frozenset(map(str, range(1, 10)))  # percent of a letter's width
_OFF = frozenset({"0", "false", "off", "none"})


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

    @property
    def is_visible(self) -> bool:
        """Return whether the text is shown. Its colour is ignored."""
        return not self.hidden and not self.is_squeezed and self.size >= MIN_FONT_POINTS


class DocxStyles:
    """The styles of a Word document: their run and paragraph properties, with inheritance resolved."""

    def __init__(self, root: Any | None) -> None:
        self._styles: dict[str, Any] = {}
        self._normal: str | None = None
        self.default = TextStyle()
        for style in root.iter(f"{_W}style") if root is not None else ():
            if (name := style.get(f"{_W}styleId")) is None:
                continue  # nothing can refer to it
            self._styles[name] = style
            if style.get(f"{_W}type") == "paragraph" and style.get(f"{_W}default") in ("1", "true", "on"):
                self._normal = name
        defaults = root.find(f"{_W}docDefaults/{_W}rPrDefault/{_W}rPr") if root is not None else None
        self.default = _with_run_properties(defaults, self.default)

    def of_paragraph(self, paragraph: Any, inherited: TextStyle) -> TextStyle:
        """Return the style of a paragraph's runs, before their own properties."""
        return self._with_named(_value(paragraph, "pPr/{}pStyle") or self._normal, inherited)

    def of_run(self, run: Any, inherited: TextStyle) -> TextStyle:
        """Return the style of a run (Word's name for text with common properties)."""
        style = self._with_named(_value(run, "rPr/{}rStyle"), inherited)
        return _with_run_properties(run.find(f"{_W}rPr"), style)

    def of_table(self, table: Any, inherited: TextStyle) -> TextStyle:
        return self._with_named(_value(table, "tblPr/{}tblStyle"), inherited)

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
            inherited,
            hidden=inherited.hidden or is_covered,
            is_in_deleted_cell=inherited.is_in_deleted_cell or is_deleted,
        )

    def _with_named(self, name: str | None, inherited: TextStyle) -> TextStyle:
        chain: list[Any] = []
        while name in self._styles and len(chain) < MAX_STYLE_DEPTH:
            definition = self._styles[name]
            chain.append(definition)
            name = _value(definition, "basedOn")
        style = inherited
        for definition in reversed(chain):
            style = _with_run_properties(definition.find(f"{_W}rPr"), style)
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


def _is_flat(height: Any) -> bool:
    """Return whether a row has a fixed height in which no text fits, in twentieths of a point."""
    value = "" if height is None or height.get(f"{_W}hRule") != "exact" else height.get(f"{_W}val", "")
    return value.isdigit() and int(value) < 20 * MIN_FONT_POINTS
