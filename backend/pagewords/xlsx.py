"""XLSX: the cells of each sheet with their addresses, and their last calculated values."""

from __future__ import annotations

import contextlib
import re
import warnings
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from openpyxl import load_workbook
from openpyxl.cell.rich_text import CellRichText, TextBlock
from openpyxl.chartsheet import Chartsheet
from openpyxl.styles.colors import COLOR_INDEX
from openpyxl.utils import column_index_from_string, range_boundaries

from pagewords.archive import open_archive, rewritten
from pagewords.charts import drawing_lines, paragraphs
from pagewords.colours import BLACK, WHITE, Colour, hex_colour, is_same, theme_colours, tinted
from pagewords.docx_style import MIN_FONT_POINTS
from pagewords.number_format import Date, contains_value, format_colour, format_value, stored_text
from pagewords.open_xml import (
    CONTENT_TYPES,
    etree,
    main_part,
    parse_xml,
    part_targets,
    picture_files,
    related_parts,
    theme_of,
)
from pagewords.pages import Limits, clean
from pagewords.pagination import Part, row_lines, superscript
from pagewords.pictures import Picture, points
from pagewords.reading_warnings import MAX_EXCERPT, ReadingWarning, WarningCode

_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_COMPATIBLE = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_DRAWING = "{http://schemas.openxmlformats.org/drawingml/2006/spreadsheetDrawing}"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_S = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_STYLES = "xl/styles.xml"
_PROPERTIES = "docProps/core.xml"
_NO_PROPERTIES = b'<coreProperties xmlns="http://schemas.openxmlformats.org/package/2006/metadata/core-properties"/>'
_WORKBOOK = "xl/workbook.xml"
_THREADS = "{http://schemas.microsoft.com/office/spreadsheetml/2018/threadedcomments}"
_ADDRESS = re.compile(r"([A-Z]{1,3})([0-9]{1,7})")
_THEME_ORDER = (
    "lt1", "dk1", "lt2", "dk2", "accent1", "accent2", "accent3", "accent4", "accent5", "accent6", "hlink", "folHlink"
)  # fmt: skip
_FORMAT_COLOURS = {
    "black": "000000", "blue": "0000FF", "cyan": "00FFFF", "green": "00FF00", "magenta": "FF00FF", "red": "FF0000",
    "white": "FFFFFF", "yellow": "FFFF00",
}  # fmt: skip
_DEFAULT_WIDTH = 8.43  # of a column, in digits
_NUMBER = re.compile(r"-?\d{1,9}(?:\.\d{1,20})?")
_NUMBERS = dict.fromkeys(("theme", "indexed", "tint"), _NUMBER)
_COLOUR_VALUES = {"rgb": re.compile("(?:[0-9A-Fa-f]{2}){3,4}"), **_NUMBERS}
# What is kept of styles that openpyxl refuses: attributes and their values by the names of the elements.
_KEPT_VALUES: dict[str, dict[str, re.Pattern[str]]] = {
    **{name: {} for name in ("font", "fill", "dxf")},
    **dict.fromkeys(("color", "fgColor", "bgColor"), _COLOUR_VALUES),
    "strike": {"val": re.compile("[01]|true|false")},
    "sz": {"val": _NUMBER},
    "vertAlign": {"val": re.compile("superscript|subscript|baseline")},
    "patternFill": {"patternType": re.compile("none|solid|gray125")},
    "numFmt": {"numFmtId": _NUMBER, "formatCode": re.compile("(?s:.{0,300})")},
}
# A header consists of codes (font, size, colour, section, field) and text.
_CODES = re.compile(r'(&(?:"[^"]{0,200}"?|\d{1,3}|K(?:\d\d[+-]\d{3}|[\dA-Fa-f]{6})|.|\Z))|([^&]+)', re.S)


def xlsx_parts(data: bytes, limits: Limits) -> Sequence[Part]:
    """Return a part for each visible sheet: its name, then a line per row with `A1: value` for each cell with a value.

    The texts of its drawings, its cell notes, and its printed headers and footers follow. A value is formatted as the
    sheet shows it. If the stored value differs, it follows in square brackets: round brackets would make it a negative
    amount. A formula gives its last calculated value; a formula without one gives a warning. Formulas are never
    evaluated.
    """
    archive = open_archive(data, limits)
    main = main_part(archive) or _WORKBOOK
    archive = _with_one_workbook(archive, main)
    if _STYLES in archive.namelist() and b"AlternateContent" in archive.read(_STYLES):
        archive = _with_few_styles(archive)
    try:
        book = _open_book(archive)
    except (TypeError, ValueError, LookupError, AttributeError, SyntaxError):
        archive = _with_few_styles(archive)
        book = _open_book(archive)
    parts: list[Part] = []
    hidden: list[str] = []
    declared = _declared_sheets(archive, main)
    colours = _Colours(book, theme_colours(theme_of(archive, main)))
    for sheet in book._sheets:
        is_visible = sheet.sheet_state == "visible"
        if isinstance(sheet, Chartsheet):
            part, state = declared.get(sheet.title, ("", ""))
            is_visible = state == "visible"
            drawn, pictures = _drawings(archive, part)
            if is_visible:
                parts.append(Part([f"Sheet: {sheet.title}", *drawn], hidden, [], pictures, []))
                hidden = []
            else:
                hidden.extend(clean(" ".join(drawn)).split())
            continue
        # openpyxl would pad every row to the dimensions that the file declares.
        sheet.reset_dimensions()  # pyright: ignore
        visibility = _SheetVisibility(archive, sheet, colours)
        lines = [f"Sheet: {sheet.title}"]
        struck: list[str] = []
        doubtful: list[str] = []
        drawn, pictures = _drawings(archive, sheet._worksheet_path.lstrip("/"))
        for row in sheet.iter_rows():
            cells: list[tuple[str, str]] = []
            cell: Any
            for cell in row:
                value = visibility.inline_texts.get(cell.coordinate, cell.value) if cell.value is not None else None
                if isinstance(value, CellRichText):
                    value = _plain_text(value, hidden, struck, colours, cell)
                if value is None or not (stored := stored_text(value)):
                    continue
                shown = " ".join(format_value(value, cell.number_format).split())
                sight = visibility.sight(cell, value, shown) if is_visible and shown else False
                if sight is False:
                    hidden.extend(clean(stored).split())
                elif cell.font is not None and cell.font.strike:
                    struck.extend(clean(shown).split())
                else:
                    if sight is None:
                        doubtful.extend(clean(shown).split())
                    is_whole = isinstance(value, bool) or contains_value(shown, value)
                    cells.append((cell.coordinate, shown if is_whole else f"{shown} [{stored}]"))
            lines += row_lines(cells)
        notes: list[str] = []
        for address, note in _notes(archive, sheet):
            text = " ".join(_plain_text(note, hidden, struck).split()) if is_visible else str(note)
            if text and is_visible and visibility.is_address_visible(address):
                notes.append(f"Note at {address}: {text}")
            else:
                hidden.extend(clean(text).split())
        if is_visible:
            heads, feet = (
                [f"{label}: {line}" for line in _header_lines(texts, sheet.title, hidden, struck)]
                for label, texts in (("Header", visibility.headers), ("Footer", visibility.footers))
            )
            lines = [*lines[:1], *heads, *lines[1:], *drawn, *notes, *feet]
            missing_values = _missing_values_warnings(visibility.formulas_without_values)
            parts.append(Part(lines, hidden, missing_values, pictures, struck, doubtful))
            hidden = []  # the words of a hidden sheet are reported with the next visible one
    if hidden and parts:
        parts[-1].hidden += hidden
    missing = [name for name in declared if name not in book.sheetnames]
    if missing and parts:
        excerpt = clean(", ".join(missing))[:MAX_EXCERPT]
        parts[-1].warnings.append(ReadingWarning(WarningCode.SHEETS_NOT_READ, None, len(missing), excerpt))
    return parts


def _with_one_workbook(archive: zipfile.ZipFile, main: str) -> zipfile.ZipFile:
    """Return the archive so that openpyxl reads the main part and its styles: it takes the first part with the type of
    a workbook, and the styles with the usual name."""
    styles = related_parts(archive, main, "styles")[:1]
    renamed = {styles[0]: _STYLES} if styles and styles[0] != _STYLES else {}
    types: Any = parse_xml(archive.read(CONTENT_TYPES)) if CONTENT_TYPES in archive.namelist() else []
    declared = [node for node in types if node.get("PartName") and node.get("ContentType", "").endswith("main+xml")]
    others = [node for node in declared if node.get("PartName", "").lstrip("/") != main]
    for node in others[len(others) == len(declared) :]:
        types.remove(node)
    if others and len(others) == len(declared):
        others[0].set("PartName", f"/{main}")
    if not others and not renamed:
        return archive
    content = etree.tostring(types)
    return rewritten(archive, {CONTENT_TYPES: lambda _: content}, renamed)


def _declared_sheets(archive: zipfile.ZipFile, main: str) -> dict[str, tuple[str, str]]:
    """Return the part and the state (`visible`) of each sheet that a workbook names, by its name. A sheet without
    contents has an empty part."""
    if main not in archive.namelist():
        return {}
    targets = part_targets(archive, main)
    sheets = parse_xml(archive.read(main)).iterfind(f"{_S}sheets/{_S}sheet")
    return {
        sheet.get("name", ""): (targets.get(sheet.get(f"{_R}id", ""), ""), sheet.get("state", "visible"))
        for sheet in sheets
    }


def _open_book(archive: zipfile.ZipFile) -> Any:
    source: Any = archive.fp
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about styles, and parts that are not read
        return load_workbook(source, read_only=True, data_only=True, keep_links=False, rich_text=True)


def _with_few_styles(archive: zipfile.ZipFile) -> zipfile.ZipFile:
    """Return a copy of a workbook without its title and author, and with only the styles that are needed: number
    formats, fonts and fills. openpyxl refuses styles and attributes that it does not know, which Excel ignores, and
    miscounts alternative fonts."""

    def with_few_styles(content: bytes) -> bytes:
        root = parse_xml(content)
        for choice in root.findall(f".//{_COMPATIBLE}AlternateContent"):
            for fallback in choice.iterfind(f"{_COMPATIBLE}Fallback/*"):
                choice.addprevious(fallback)
            choice.getparent().remove(choice)
        for part in list(root):
            if etree.QName(part).localname not in ("numFmts", "fonts", "fills", "cellXfs", "dxfs"):
                root.remove(part)
        for name in ("fonts", "fills", "dxfs"):
            for node in root.iterfind(f"{_S}{name}/*"):
                _keep_known(node)
        for node in root.iterfind(f"{_S}cellXfs/{_S}xf"):
            needed = {name: node.get(name) for name in ("numFmtId", "fontId", "fillId") if node.get(name)}
            node.clear()
            node.attrib.update(needed)
        return etree.tostring(root)

    return rewritten(archive, {_STYLES: with_few_styles, _PROPERTIES: lambda _: _NO_PROPERTIES})


def _keep_known(node: Any) -> None:
    """Remove what is not needed of a style."""
    name = etree.QName(node).localname
    if name == "patternFill" and node.get("patternType", "none") not in ("none", "solid"):
        node.set("patternType", "gray125")  # its colour is unknown
    for attribute, value in node.attrib.items():
        pattern = _KEPT_VALUES.get(name, {}).get(attribute)
        if pattern is None or pattern.fullmatch(value) is None:
            del node.attrib[attribute]
    for item in list(node):
        if not isinstance(item.tag, str) or etree.QName(item).localname not in _KEPT_VALUES:
            node.remove(item)
        else:
            _keep_known(item)
            if etree.QName(item).localname in ("color", "fgColor", "bgColor") and not set(item.attrib) - {"tint"}:
                node.remove(item)
                if name == "patternFill":
                    node.set("patternType", "gray125")
    if name == "fill" and not len(node):
        etree.SubElement(node, f"{_S}patternFill", patternType="gray125")


class _Colours:
    """The colours of a workbook's cells."""

    def __init__(self, book: Any, theme: Mapping[str, Colour]) -> None:
        self._theme = theme
        self._palette: Sequence[str] = getattr(book, "_colors", None) or COLOR_INDEX
        self._rules: Sequence[Any] = getattr(getattr(book, "_differential_styles", None), "styles", ())

    def colour(self, given: Any) -> Colour | None:
        """Return a colour of a font or fill; None if it is not given or unknown."""
        found: Colour | None = None
        if given is None:
            return None
        if given.type == "rgb":
            found = hex_colour(given.value)
        elif given.type == "theme" and given.value < len(_THEME_ORDER):
            found = self._theme.get(_THEME_ORDER[int(given.value)])
        elif given.type == "indexed":
            number: int = given.value
            found = BLACK if number == 64 else WHITE if number == 65 else self._indexed(number)
        return found if found is None or not given.tint else tinted(found, given.tint)

    def _indexed(self, number: int) -> Colour | None:
        return hex_colour(self._palette[number]) if 0 <= number < len(self._palette) else None

    def ground(self, fill: Any) -> Colour | None:
        """Return the colour of a fill; None if it is unknown."""
        kind = getattr(fill, "fill_type", None)
        if fill is None or kind is None:
            return WHITE
        return (self.colour(fill.fgColor) or WHITE) if kind == "solid" else None

    def ink(self, cell: Any, value: object, font: Any = None) -> Colour | None:
        """Return the colour of a value in a cell, or of a part of it with a font of its own."""
        name = format_colour(value, cell.number_format)
        if name:
            is_named = name in _FORMAT_COLOURS
            return hex_colour(_FORMAT_COLOURS[name]) if is_named else self._indexed(int(name[5:]) + 7)
        given = font if font is not None and font.color is not None else cell.font
        return None if given is None else self.colour(given.color)

    def sight(self, ink: Colour | None, ground: Colour | None) -> bool | None:
        """Return whether text is seen; None if that depends on an unknown background."""
        return False if is_same(ink, ground) else None if ground is None and is_same(ink, WHITE) else True

    def sight_by_rule(self, rule: _Rule, cell: Any, value: object) -> bool | None:
        """Return whether a value is seen where a rule of conditional formatting applies; None if the rule does not
        decide it."""
        ink, ground = self.ink(cell, value), self.ground(cell.fill)
        if rule.colours:
            return not any(is_same(ink or BLACK, each) for each in rule.colours)
        if rule.style is None or rule.style >= len(self._rules):
            return None
        style = self._rules[rule.style]
        if style.numFmt is not None and not format_value(value, style.numFmt.formatCode).strip():
            return False
        if style.font is not None and style.font.color is not None:
            ink = self.colour(style.font.color)
        fill = style.fill
        is_filled = fill is not None and (fill.fill_type or fill.bgColor.value != "00000000")  # openpyxl's for none
        if is_filled and (colour := self.colour(getattr(fill, "bgColor", None))) is not None:
            ground = colour
        return not is_same(ink or BLACK, ground)


class _Rule(NamedTuple):
    """A rule of conditional formatting: its style, whether it always applies, and the colours of a scale."""

    style: int | None
    is_constant: bool
    colours: Sequence[Colour] = ()


def _plain_text(
    value: CellRichText, hidden: list[str], struck: list[str], colours: _Colours | None = None, cell: Any = None
) -> str:
    """Return the text of a rich-text cell. Text that is not seen, and struck-out text, goes to the lists."""
    text = ""
    for part in value:
        font = part.font if isinstance(part, TextBlock) else None
        piece = str(part)
        is_tiny = font is not None and font.sz is not None and font.sz < MIN_FONT_POINTS
        if is_tiny or (colours is not None and is_same(colours.ink(cell, piece, font), colours.ground(cell.fill))):
            hidden.extend(clean(piece).split())
        elif font is not None and font.strike:
            struck.extend(clean(piece).split())
        elif font is not None and font.vertAlign in ("superscript", "subscript"):
            text += superscript(piece, text, is_lowered=font.vertAlign == "subscript")
        else:
            text += piece
    return text


def _notes(archive: zipfile.ZipFile, sheet: Any) -> Iterator[tuple[str, CellRichText]]:
    path = sheet._worksheet_path.lstrip("/")
    threads = [
        (node.get("ref", ""), node.findtext(f"{_THREADS}text") or "")
        for part in related_parts(archive, path, "threadedComment")
        for node in parse_xml(archive.read(part)).iter(f"{_THREADS}threadedComment")
    ]
    # A thread is also stored as an old note, which only asks the reader to update Excel.
    in_threads = {address for address, _ in threads}
    for part in related_parts(archive, path, "comments"):
        for node in parse_xml(archive.read(part)).iter(f"{_S}comment"):
            text = node.find(f"{_S}text")
            if text is not None and node.get("ref", "") not in in_threads:
                yield node.get("ref", ""), CellRichText.from_tree(text)
    for address, text in threads:
        yield address, CellRichText(text)


def _header_lines(texts: Sequence[str], title: str, hidden: list[str], struck: list[str]) -> list[str]:
    """Return the lines of headers or footers. Page number, date and file name are left out: only printing fills them
    in."""
    lines: dict[str, None] = {}
    for text in texts:
        section, size, script, is_struck = "", 10, "", False
        for code, plain in _CODES.findall(text):
            if code in ("&L", "&C", "&R"):
                section, size, script, is_struck = f"{section}\n", 10, "", False
            elif code[1:].isdecimal():
                size = int(code[1:])
            elif code == "&S":
                is_struck = not is_struck
            elif code in ("&X", "&Y"):
                script = "" if script == code else code
            shown = title if code == "&A" else "&" if code == "&&" else plain
            if size < MIN_FONT_POINTS or is_struck:
                (struck if is_struck else hidden).extend(clean(shown).split())
            else:
                section += superscript(shown, section, is_lowered=script == "&Y") if script else shown
        lines.update(dict.fromkeys(" ".join(line.split()) for line in section.splitlines()))
    return [line for line in lines if line]


def _drawings(archive: zipfile.ZipFile, sheet: str) -> tuple[list[str], list[Picture]]:
    """Return the lines of text, including those of charts, and the pictures over the cells of a sheet's part."""
    lines: list[str] = []
    pictures: list[Picture] = []
    for part in related_parts(archive, sheet, "drawing"):
        picture_file = picture_files(archive, part)
        root = parse_xml(archive.read(part))
        lines += paragraphs(root)
        for chart in related_parts(archive, part, "chart"):
            lines += drawing_lines(archive.read(chart))
        for picture in root.iter(f"{_DRAWING}pic"):
            for image in picture.iter(f"{_A}blip"):
                extent = picture.find(f"{_DRAWING}spPr/{_A}xfrm/{_A}ext")
                size = (None, None) if extent is None else (points(extent.get(side), "emu") for side in ("cx", "cy"))
                pictures.append(Picture(*picture_file(image.get(f"{_R}embed") or image.get(f"{_R}link")), *size))
    return lines, pictures


def _missing_values_warnings(addresses: Sequence[str]) -> list[ReadingWarning]:
    if not addresses:
        return []
    excerpt = clean(" ".join(addresses[:20]))[:MAX_EXCERPT]
    return [ReadingWarning(WarningCode.FORMULAS_WITHOUT_VALUES, None, len(addresses), excerpt)]


class _SheetVisibility:
    """Which cells of one sheet a person can see."""

    def __init__(self, archive: zipfile.ZipFile, sheet: Any, colours: _Colours) -> None:
        """Store which rows, columns and cells are hidden. `sheet` must be opened read-only by openpyxl, which gives it
        no row and column properties."""
        self._hidden_rows: set[int] = set()
        self._hidden_columns: list[tuple[int, int]] = []
        self.formulas_without_values: list[str] = []
        self.inline_texts: dict[str, Any] = {}  # strings with fonts, which openpyxl reads from shared strings only
        path = sheet._worksheet_path.lstrip("/")
        self.headers: list[str] = []
        self.footers: list[str] = []
        merged: list[tuple[int, int, int, int]] = []
        self._colours = colours
        self._widths: list[tuple[int, int, float]] = []
        self._default_width = _DEFAULT_WIDTH
        self._shows_zeros = self._shows_values = True
        self._rules: list[tuple[list[_Area], list[_Rule]]] = []
        self._rules_here: list[tuple[list[_Area], list[_Rule]]] = []
        self._row_of_rules = 0
        self._tables = [
            area
            for part in related_parts(archive, path, "table")
            if (table := parse_xml(archive.read(part))).find(f"{_S}tableStyleInfo") is not None
            for area in _areas(table.get("ref", ""))
        ]
        with archive.open(path) as source:
            number_of_row = 0
            for event, node in etree.iterparse(
                source, events=("start", "end"), resolve_entities=False, no_network=True, huge_tree=False
            ):
                if event == "end":
                    if node.tag == f"{_S}headerFooter":
                        self.headers, self.footers = (
                            [node.findtext(f"{_S}{name}{kind}") or "" for name in _printed_page_kinds(node)]
                            for kind in ("Header", "Footer")
                        )
                    elif node.tag == f"{_S}conditionalFormatting":
                        rules = list(_rules(node))
                        self._rules += [(list(_areas(node.get("sqref", ""))), rules)]
                    elif node.tag == f"{_S}row":
                        if number_of_row not in self._hidden_rows:
                            self.formulas_without_values += _formulas_without_values(node)
                        for text in node.iterfind(f"{_S}c/{_S}is"):
                            if text.find(f"{_S}r") is not None:
                                self.inline_texts[text.getparent().get("r", "")] = CellRichText.from_tree(text)
                        node.clear()
                        while node.getprevious() is not None:
                            del node.getparent()[0]
                    continue
                if node.getparent() is None and etree.QName(node).localname != "worksheet":
                    raise ValueError(
                        "The part of a sheet holds no worksheet."
                    )  # its cells would be lost without a word
                if node.tag == f"{_S}row":
                    number = node.get("r", "")
                    number_of_row = int(number) if number.isdigit() else number_of_row + 1
                    # `zeroHeight` of the sheet hides only rows that the file does not list.
                    if node.get("hidden") not in (None, "0", "false") or _is_zero(node.get("ht")):
                        self._hidden_rows.add(number_of_row)
                elif node.tag == f"{_S}sheetView":
                    self._shows_zeros = node.get("showZeros") not in ("0", "false")
                    self._shows_values = node.get("showFormulas") not in ("1", "true")
                elif node.tag == f"{_S}sheetFormatPr":
                    self._default_width = _number(node.get("defaultColWidth")) or _DEFAULT_WIDTH
                elif node.tag == f"{_S}mergeCell":
                    left, top, right, bottom = range_boundaries(node.get("ref", ""))
                    merged.append((top or 1, left or 1, bottom or 1, right or 1))
                elif node.tag == f"{_S}col":
                    columns = int(node.get("min")), int(node.get("max"))
                    if node.get("hidden") in ("1", "true") or _is_zero(node.get("width")):
                        self._hidden_columns.append(columns)
                    elif (width := _number(node.get("width"))) is not None:
                        self._widths.append((*columns, width))
        self._merged = sorted(merged, reverse=True)
        self._merged_below = self._merged[:]  # the last one comes next
        self._merged_here: list[tuple[int, int, int, int]] = []

    def is_address_visible(self, address: str) -> bool:
        """Return whether a cell is shown. True for content that is not in a cell."""
        if (match := _ADDRESS.fullmatch(address)) is None:
            return True
        row, column = int(match[2]), column_index_from_string(match[1])
        is_covered = any(
            top <= row <= bottom and left <= column <= right and (row, column) != (top, left)
            for top, left, bottom, right in self._merged
        )
        return self._is_position_visible(row, column) and not is_covered

    def _is_position_visible(self, row: int, column: int) -> bool:
        return row not in self._hidden_rows and not any(one <= column <= two for one, two in self._hidden_columns)

    def _is_covered(self, row: int, column: int) -> bool:
        """Return whether a merged cell that starts elsewhere covers this one."""
        while self._merged_below and self._merged_below[-1][0] <= row:
            self._merged_here.append(self._merged_below.pop())
        if any(bottom < row for _, _, bottom, _ in self._merged_here):
            self._merged_here = [area for area in self._merged_here if area[2] >= row]
        return any(
            left <= column <= right and (row, column) != (top, left) for top, left, _, right in self._merged_here
        )

    def sight(self, cell: Any, value: object, shown: str) -> bool | None:
        """Return whether a person sees the value of a cell; None if that is uncertain. Rows must be asked for in
        order."""
        row, column = cell.row, cell.column
        if not self._is_position_visible(row, column) or self._is_covered(row, column):
            return False
        if not self._shows_zeros and value == 0 and not isinstance(value, bool):
            return False
        font = cell.font
        if cell.has_style and font is not None and font.sz is not None and font.sz < MIN_FONT_POINTS:
            return False
        is_in_table = any(area.contains(row, column) for area in self._tables)
        ground = self._colours.ground(cell.fill)
        sight = self._colours.sight(self._colours.ink(cell, value), None if is_in_table and ground == WHITE else ground)
        if self._row_of_rules != row:  # sheets may have thousands of areas
            self._row_of_rules = row
            in_row = [([area for area in areas if area.top <= row <= area.bottom], each) for areas, each in self._rules]
            self._rules_here = [(areas, rules) for areas, rules in in_row if areas]
        for areas, rules in self._rules_here:
            if any(area.left <= column <= area.right for area in areas):
                for rule in rules:
                    by_rule = self._colours.sight_by_rule(rule, cell, value)
                    if by_rule is not None and by_rule != sight:
                        sight = by_rule if rule.is_constant else None
        is_replaced = not self._shows_values or self._is_too_narrow(cell, value, shown)
        return None if sight and is_replaced else sight

    def _is_too_narrow(self, cell: Any, value: object, shown: str) -> bool:
        """Return whether the sheet shows `####` in place of a number or date, since its column is too narrow."""
        if isinstance(value, bool) or not isinstance(value, int | float | Date):
            return False
        row, column = cell.row, cell.column
        width = next((width for one, two, width in self._widths if one <= column <= two), self._default_width)
        size = (getattr(cell.font, "sz", None) or 11) / 11
        digits = sum(map(str.isdigit, shown.split(".")[0] if cell.number_format == "General" else shown)) * size
        if digits <= width + 1 or (cell.number_format == "General" and width >= 5) or cell.alignment.shrink_to_fit:
            return False
        return not any(left == column and top == row for top, left, _, _ in self._merged)


class _Area(NamedTuple):
    left: int
    top: int
    right: int
    bottom: int

    def contains(self, row: int, column: int) -> bool:
        return self.top <= row <= self.bottom and self.left <= column <= self.right


def _areas(references: str) -> Iterator[_Area]:
    """Yield the areas that a sheet refers to, without those that do not exist, such as `#REF!`."""
    for reference in references.split():
        with contextlib.suppress(ValueError):
            left, top, right, bottom = range_boundaries(reference)
            yield _Area(left or 1, top or 1, right or 1 << 14, bottom or 1 << 20)


def _rules(node: Any) -> Iterator[_Rule]:
    for rule in node.iterchildren(f"{_S}cfRule"):
        style = rule.get("dxfId", "")
        formulas = [(each.text or "").strip().upper() for each in rule.iterchildren(f"{_S}formula")]
        is_constant = rule.get("type") == "expression" and formulas in (["TRUE"], ["1"], ["TRUE()"])
        scale = [hex_colour(each.get("rgb")) for each in rule.iterfind(f"{_S}colorScale/{_S}color")]
        is_number = re.fullmatch("[0-9]{1,9}", style) is not None
        yield _Rule(int(style) if is_number else None, is_constant, [each for each in scale if each])


def _printed_page_kinds(node: Any) -> list[str]:
    flags = (("first", "differentFirst"), ("odd", ""), ("even", "differentOddEven"))
    return [kind for kind, flag in flags if not flag or node.get(flag) in ("1", "true")]


def _formulas_without_values(row: Any) -> list[str]:
    found: list[str] = []
    for cell in row.iterchildren(f"{_S}c"):
        value = cell.find(f"{_S}v")
        is_empty = value is None or (not value.text and cell.get("t") != "str")
        if is_empty and cell.find(f"{_S}f") is not None and cell.find(f"{_S}is") is None:
            found.append(cell.get("r", ""))
    return found


def _is_zero(measure: str | None) -> bool:
    number = _number(measure)
    return number is not None and number < 0.5


def _number(measure: str | None) -> float | None:
    try:
        return None if measure is None else float(measure)
    except ValueError:
        return None
