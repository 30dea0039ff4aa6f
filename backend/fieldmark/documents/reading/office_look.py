"""What a person sees of the text of a Word document or a sheet: hidden by mark, by size, or by its colour."""

from __future__ import annotations

import re
import zipfile
from dataclasses import dataclass, replace
from typing import Any

import lxml.etree  # pyright: ignore[reportMissingTypeStubs]

from fieldmark.documents.reading.style import Colour, differs

etree: Any = lxml.etree  # pyright: ignore

SMALLEST = 1.5  # points: Word goes down to 1
MAX_STYLES = 20  # in one chain of styles

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_S = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_OFF = frozenset({"0", "false", "off", "none"})
_WHITE, _BLACK = (255, 255, 255), (0, 0, 0)


@dataclass(frozen=True, slots=True)
class WordLook:
    """How text looks; the ground is None where a style of tables or a shape paints it."""

    vanished: bool = False
    size: float = 10.0
    colour: Colour | None = _BLACK
    ground: Colour | None = _WHITE

    @property
    def seen(self) -> bool:
        """Whether a person can see it."""
        # Word prints automatic colour so that it stands out.
        return not self.vanished and self.size >= SMALLEST and differs(self.colour, self.ground)

    def on_unknown(self) -> WordLook:
        """The same on a ground that is not known."""
        return replace(self, ground=None)


class WordStyles:
    """The styles of a Word document: what their run and paragraph properties say, with those they are based on."""

    def __init__(self, root: Any | None) -> None:
        self._styles: dict[str, Any] = {}
        self._normal: str | None = None
        self.outermost = WordLook()
        for style in root.iter(f"{_W}style") if root is not None else ():
            self._styles[style.get(f"{_W}styleId")] = style
            if style.get(f"{_W}type") == "paragraph" and style.get(f"{_W}default") in ("1", "true", "on"):
                self._normal = style.get(f"{_W}styleId")
        defaults = root.find(f"{_W}docDefaults/{_W}rPrDefault/{_W}rPr") if root is not None else None
        self.outermost = _marked(defaults, self.outermost)

    def of_paragraph(self, paragraph: Any, look: WordLook) -> WordLook:
        """How a paragraph's runs look, before what they say of themselves."""
        named = paragraph.find(f"{_W}pPr/{_W}pStyle")
        look = self._styled(named.get(f"{_W}val") if named is not None else self._normal, look)
        return _shaded(paragraph.find(f"{_W}pPr/{_W}shd"), look)

    def of_run(self, run: Any, look: WordLook) -> WordLook:
        """How a run looks."""
        properties = run.find(f"{_W}rPr")
        if properties is None:
            return look
        named = properties.find(f"{_W}rStyle")
        return _marked(properties, self._styled(named.get(f"{_W}val"), look) if named is not None else look)

    def of_table(self, table: Any, look: WordLook) -> WordLook:
        """How a table's text looks: most styles of tables paint some of the cells."""
        if table.find(f"{_W}tblPr/{_W}tblStyle") is not None:
            look = look.on_unknown()
        return _shaded(table.find(f"{_W}tblPr/{_W}shd"), look)

    def of_row(self, row: Any, look: WordLook) -> WordLook:
        """How the text of a row looks."""
        hidden = row.find(f"{_W}trPr/{_W}hidden")
        return replace(look, vanished=look.vanished or _on(hidden))

    def of_cell(self, cell: Any, look: WordLook) -> WordLook:
        """How the text of a cell looks."""
        return _shaded(cell.find(f"{_W}tcPr/{_W}shd"), look)

    def _styled(self, name: str | None, look: WordLook) -> WordLook:
        chain: list[Any] = []
        while name in self._styles and len(chain) < MAX_STYLES:
            style = self._styles[name]
            chain.append(style)
            base = style.find(f"{_W}basedOn")
            name = base.get(f"{_W}val") if base is not None else None
        for style in reversed(chain):
            look = _shaded(style.find(f"{_W}pPr/{_W}shd"), _marked(style.find(f"{_W}rPr"), look))
        return look


def _marked(properties: Any, look: WordLook) -> WordLook:
    if properties is None:
        return look
    vanish, size, colour = (properties.find(f"{_W}{name}") for name in ("vanish", "sz", "color"))
    if vanish is not None:
        look = replace(look, vanished=_on(vanish))
    if size is not None:
        look = replace(look, size=_halves(size.get(f"{_W}val"), look.size))
    if colour is not None:
        # What is automatic is black or white, whichever stands out.
        look = replace(look, colour=_hex(colour.get(f"{_W}val")))
    highlight = properties.find(f"{_W}highlight")
    if highlight is not None and highlight.get(f"{_W}val") != "none":
        look = look.on_unknown() if highlight.get(f"{_W}val") != "white" else replace(look, ground=_WHITE)
    return _shaded(properties.find(f"{_W}shd"), look)


def _shaded(shading: Any, look: WordLook) -> WordLook:
    if shading is None:
        return look
    if shading.get(f"{_W}val", "clear") not in ("clear", "nil"):
        return look.on_unknown()  # a pattern of two colours
    fill = shading.get(f"{_W}fill", "auto")
    return look if fill == "auto" else replace(look, ground=_hex(fill))


def _on(mark: Any) -> bool:
    return mark is not None and mark.get(f"{_W}val", "true") not in _OFF


def _halves(text: str | None, otherwise: float) -> float:
    return float(text) / 2 if text and text.isascii() and text.isdigit() else otherwise


def _hex(text: str | None) -> Colour | None:
    """A colour in six or eight digits; None for any other."""
    digits = (text or "")[-6:]
    try:
        return (int(digits[:2], 16), int(digits[2:4], 16), int(digits[4:], 16)) if len(digits) == 6 else None
    except ValueError:
        return None


Range = tuple[int, int, int, int]


def table_ranges(archive: zipfile.ZipFile) -> list[Range]:
    """The cells of a workbook's tables: their styles paint them. First and last column and row of each."""
    found: list[Range] = []
    for name in archive.namelist():
        if re.fullmatch(r"xl/tables/[^/]+\.xml", name):
            root = etree.fromstring(archive.read(name), etree.XMLParser(resolve_entities=False, no_network=True))
            found += _ranges(root.get("ref"))
    return found


def _ranges(text: str | None) -> list[Range]:
    from openpyxl.utils import range_boundaries

    found: list[Range] = []
    for part in (text or "").split():
        try:
            bounds = range_boundaries(part)
        except ValueError:
            continue
        if all(isinstance(bound, int) for bound in bounds):
            found.append(bounds)  # pyright: ignore
    return found


class SheetShape:
    """Which cells of a sheet are shown: rows, columns, formats of numbers, colours."""

    def __init__(self, archive: zipfile.ZipFile, sheet: Any, painted: list[Range]) -> None:
        """`sheet` as openpyxl opens it to read only; there it knows neither rows nor columns as such."""
        self._rows: set[int] = set()
        self._columns: list[tuple[int, int]] = []
        self._painted = list(painted)
        self._looks: dict[Any, bool | None] = {}
        path = sheet._worksheet_path.lstrip("/")
        hide_all = False
        with archive.open(path) as source:
            place = 0
            for event, node in etree.iterparse(
                source, events=("start", "end"), resolve_entities=False, no_network=True, huge_tree=False
            ):
                if event == "end":
                    if node.tag == f"{_S}row":
                        node.clear()
                        while node.getprevious() is not None:
                            del node.getparent()[0]
                    continue
                if node.tag == f"{_S}row":
                    number = node.get("r", "")
                    place = int(number) if number.isdigit() else place + 1
                    shown = node.get("hidden") in (None, "0", "false") and not _nothing(node.get("ht"))
                    if not shown or (hide_all and node.get("hidden") is None):
                        self._rows.add(place)
                elif node.tag == f"{_S}sheetFormatPr":
                    hide_all = node.get("zeroHeight") in ("1", "true")
                elif node.tag == f"{_S}col":
                    if node.get("hidden") in ("1", "true") or _nothing(node.get("width")):
                        self._columns.append((int(node.get("min")), int(node.get("max"))))
                elif node.tag == f"{_S}conditionalFormatting":
                    self._painted += _ranges(node.get("sqref"))

    def shows(self, cell: Any) -> bool:
        """Whether a person can see the value of a cell that has one."""
        if cell.row in self._rows or any(first <= cell.column <= last for first, last in self._columns):
            return False
        if not cell.has_style:
            return True
        style = cell.style_array if hasattr(cell, "style_array") else cell._style_id
        section = _section(cell.value)
        key = (str(style), section)
        if key not in self._looks:
            self._looks[key] = self._look(cell, section)
        look = self._looks[key]
        if look is None:
            # As white as the sheet, if nothing else paints the cell.
            return any(
                left <= cell.column <= right and top <= cell.row <= bottom for left, top, right, bottom in self._painted
            )
        return look

    def _look(self, cell: Any, section: int | None) -> bool | None:
        """None where the text has the colour of an unpainted sheet."""
        sections = cell.number_format.split(";")
        if section is not None and len(sections) > max(section, 1) and not sections[section].strip():
            return False
        font, fill = cell.font, cell.fill
        if font is not None and font.sz is not None and font.sz < SMALLEST:
            return False
        colour = _cell_colour(font.color) if font is not None and font.color is not None else _BLACK
        if fill is not None and fill.fill_type == "solid":
            return differs(colour, _cell_colour(fill.fgColor))
        if fill is not None and fill.fill_type:
            return True
        return None if not differs(colour, _WHITE) else True


def _section(value: object) -> int | None:
    """Which section of a number format shows a value: positive; negative; nought; text. None where it always shows."""
    if isinstance(value, str):
        return 3
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return 0 if value > 0 else 1 if value < 0 else 2
    return 0


def _nothing(measure: str | None) -> bool:
    """Whether a height or width is given and is as good as none."""
    try:
        return measure is not None and float(measure) < 0.5
    except ValueError:
        return False


def _cell_colour(colour: Any) -> Colour | None:
    if colour is None:
        return None
    if colour.type == "rgb":
        return _hex(colour.rgb)
    if colour.type == "indexed":
        return {0: _BLACK, 8: _BLACK, 64: _BLACK, 1: _WHITE, 9: _WHITE, 65: _WHITE}.get(colour.indexed)
    # The first colours of a theme are, in every theme that Office brings, the sheet's white and the ink's black.
    return {0: _WHITE, 1: _BLACK}.get(colour.theme) if not colour.tint else None
