"""DOCX: paragraphs and tables in order, with headers, notes and footers."""

from __future__ import annotations

import math
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

from pagewords.archive import open_archive
from pagewords.charts import CHART, DIAGRAM, drawing_lines
from pagewords.colours import WHITE, Colour, hex_colour, theme_colour
from pagewords.docx_style import DocxStyles, Place, Sheet, TextStyle, is_on
from pagewords.errors import PagewordsError, WrongType
from pagewords.formula import OMML, OMML_RUN, gap, omml_line
from pagewords.list_numbers import WordLists
from pagewords.mail import read_mail
from pagewords.markup import html_parts
from pagewords.open_xml import (
    PictureFile,
    main_part,
    parse_xml,
    part_targets,
    picture_files,
    related_parts,
    theme_of,
)
from pagewords.pages import Limits, clean
from pagewords.pagination import Part, align, expand_tabs, superscript
from pagewords.pictures import Picture, points
from pagewords.reading_warnings import MAX_EXCERPT, ReadingWarning, WarningCode
from pagewords.sniff import DOCX, EML, HTML, TXT, media_type
from pagewords.symbols import UNKNOWN, shown_symbols, symbol_font, unknown_symbols
from pagewords.text import plain_parts

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_RUNS = (f"{_W}r", OMML_RUN)
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_DRAWING = "{http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing}"
_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_WPS = "{http://schemas.microsoft.com/office/word/2010/wordprocessingShape}"
_VML = "{urn:schemas-microsoft-com:vml}"
_FRAMES = (f"{_DRAWING}inline", f"{_DRAWING}anchor")
_PICTURES = frozenset({"{http://schemas.openxmlformats.org/drawingml/2006/main}blip", f"{_VML}imagedata"})
_CHOICES, _CHOICE, _FALLBACK = (
    f"{{http://schemas.openxmlformats.org/markup-compatibility/2006}}{name}"
    for name in ("AlternateContent", "Choice", "Fallback")
)
# Extensions of which Word shows the content. Of any other, it shows the fallback.
_MICROSOFT = "http://schemas.microsoft.com/office"
_KNOWN_EXTENSIONS = frozenset(
    [
        *(f"{_MICROSOFT}/word/2010/wordprocessing{name}" for name in ("Shape", "Group", "Canvas", "Ink", "Drawing")),
        *(f"{_MICROSOFT}/word/{year}/wordml" for year in (2010, 2012)),
        *(f"{_MICROSOFT}/drawing/{name}" for name in ("2010/main", "2014/chartex", "2015/9/8/chartex")),
        *(f"{_MICROSOFT}/drawing/{name}" for name in ("2016/ink", "2017/model3d", "2016/5/10/chartex")),
    ]
)

_MAX_GRID_COLUMNS = 63  # of a table in Word
MAX_CHUNKS = 100  # files inserted into a document

_InlineItem: TypeAlias = tuple[str, Any, TextStyle]


def docx_parts(data: bytes, limits: Limits, *, is_chunk: bool = False) -> list[Part]:
    """Return the document's lines: headers, the body in order, then footnotes, endnotes, comments and footers.

    A page break, or a page break that Word last rendered, starts a new part.
    """
    archive = open_archive(data, limits)
    names = set(archive.namelist())
    main = main_part(archive) or "word/document.xml"
    roots = {
        kind: parse_xml(archive.read(found[0])) if (found := _parts_of(archive, main, kind)) else None
        for kind in ("styles", "numbering", "settings")
    }
    bodies = [parse_xml(archive.read(name)) for kind in ("header", "footer") for name in _parts_of(archive, main, kind)]
    bodies += [parse_xml(archive.read(main))] if main in names else []
    styles = DocxStyles(
        roots["styles"], theme_of(archive, main), _sheet_colour(bodies, roots["settings"]), _sheet(bodies)
    )
    document = _SharedState(styles, WordLists(roots["numbering"], roots["styles"]))
    document.read_docx = None if is_chunk else partial(docx_parts, limits=limits, is_chunk=True)
    if main not in names:
        raise WrongType("The file is not a Word document: its main part is missing.")

    def lines_of(kind: str) -> list[str]:
        # Variants for first and even pages mostly repeat each other.
        lines: dict[str, None] = {}
        for name in _parts_of(archive, main, kind):
            parts = read(name)
            lines.update(dict.fromkeys(line for part in parts for line in part if line))
            pictures.extend(picture for part in parts for picture in part.pictures)
        return list(lines)

    def read(name: str) -> list[Part]:
        return _PartReader(parse_xml(archive.read(name)), document, picture_files(archive, name)).parts

    pictures: list[Picture] = []
    parts = read(main)
    parts[0][:0] = lines_of("header")
    for kind in ("footnotes", "endnotes"):
        parts[-1].extend(lines_of(kind))
    parts[-1].extend(f"Comment: {line}" for line in lines_of("comments"))
    parts[-1].extend(lines_of("footer"))
    parts[0].hidden, parts[0].struck, parts[0].doubtful = document.hidden, document.struck, document.doubtful
    parts[0].warnings += [*dict.fromkeys(document.warnings), *unknown_symbols(document.unknown_symbols)]
    if document.unread_chunks:
        names = clean("; ".join(document.unread_chunks))[:MAX_EXCERPT]
        count = len(document.unread_chunks)
        parts[0].warnings.append(ReadingWarning(WarningCode.ATTACHMENTS_NOT_READ, None, count, names))
    parts[-1].pictures += pictures
    return parts


def _sheet(bodies: Iterable[Any]) -> Sheet:
    """Return the largest sizes and the margins of the sheets of all sections."""
    found: dict[str, int] = {}
    for section in (section for body in bodies for section in body.iter(f"{_W}sectPr")):
        for node, names in (("pgSz", {"w": "width", "h": "height"}), ("pgMar", {"left": "left", "top": "top"})):
            for name, field_name in names.items():
                given = section.find(f"{_W}{node}")
                text = "" if given is None else given.get(f"{_W}{name}", "")
                if re.fullmatch("[0-9]{1,6}", text):
                    found[field_name] = max(found.get(field_name, 0), int(text))
    return Sheet(**found)


def _sheet_colour(bodies: Iterable[Any], settings: Any | None) -> Colour | None:
    """Return the colour of the sheets; None if something may be behind the text."""
    for body in bodies:
        is_behind = any(anchor.get("behindDoc") in ("1", "true") for anchor in body.iter(f"{_DRAWING}anchor"))
        is_behind |= any(_declarations(shape).get("z-index", "")[:1] == "-" for shape in body.iter(f"{_VML}*"))
        if is_behind:
            return None
        background = body.find(f"{_W}background")
        if background is not None and settings is not None and is_on(settings.find(f"{_W}displayBackgroundShape")):
            return None if len(background) else hex_colour(background.get(f"{_W}color")) or WHITE
    return WHITE


def _twips(length: float | None) -> int:
    """Return points as twentieths of a point; 0 for a length that is not understood."""
    return int(20 * length) if length is not None and math.isfinite(length) else 0


def _declarations(node: Any) -> dict[str, str]:
    """Return the declarations of an old drawing's style."""
    pairs = (each.partition(":") for each in node.get("style", "").lower().split(";"))
    return {name.strip(): value.strip() for name, _, value in pairs}


def _parts_of(archive: zipfile.ZipFile, main: str, kind: str) -> list[str]:
    """Return the parts of a kind that the main part refers to; those with the usual names in a file without
    references."""
    if part_targets(archive, main):
        return sorted(related_parts(archive, main, kind))
    return sorted(name for name in archive.namelist() if re.fullmatch(rf"word/{kind}\d*\.xml", name))


@dataclass(slots=True)
class _SharedState:
    """State shared by the parts of a Word document: styles, lists, hidden words and warnings."""

    styles: DocxStyles
    lists: WordLists
    hidden: list[str] = field(default_factory=list[str])
    struck: list[str] = field(default_factory=list[str])
    doubtful: list[str] = field(default_factory=list[str])
    unknown_symbols: list[str] = field(default_factory=list[str])
    drawings: set[str] = field(default_factory=set[str])
    read_docx: Callable[[bytes], list[Part]] | None = None
    chunks: int = 0
    unread_chunks: list[str] = field(default_factory=list[str])
    warnings: list[ReadingWarning] = field(default_factory=list[ReadingWarning])


class _PartReader:
    """The lines of one XML part of a Word document. Each of `parts` starts on a new page."""

    def __init__(
        self,
        root: Any,
        document: _SharedState,
        picture_file: Callable[[str | None], PictureFile],
        inherited: TextStyle | None = None,
    ) -> None:
        self.parts: list[Part] = []
        self._lines = Part()
        self._document = document
        self._styles = document.styles
        self._picture_file = picture_file
        self._add_blocks(root, inherited or document.styles.default)
        self.parts.append(self._lines)

    def _add_blocks(self, parent: Any, inherited: TextStyle) -> None:
        for node in _shown(parent):
            if node.tag == f"{_W}p":
                self._add_paragraph(node, self._styles.of_paragraph(node, inherited))
            elif node.tag == f"{_W}tbl":
                style = self._styles.of_table(node, inherited)
                self._lines.extend(align([self._cells(row, style) for row in _rows_or_cells(node, "tr")]))
                self._lines.append("")
            elif node.tag == f"{_W}altChunk":
                self._add_chunk(node.get(f"{_R}id"))
            else:  # the body, content controls, custom XML and notes contain blocks
                is_placeholder = is_on(node.find(f"{_W}sdtPr/{_W}showingPlcHdr"))
                self._add_blocks(node, replace(inherited, is_doubtful=True) if is_placeholder else inherited)

    def _add_chunk(self, identifier: str | None) -> None:
        """Add the lines of a file inserted into the document, which Word shows in its place."""
        target, read = self._picture_file(identifier)
        self._document.chunks += 1
        parts: Sequence[Sequence[str]] | None = None
        if read is not None and self._document.chunks <= MAX_CHUNKS:
            try:
                parts = self._read_chunk(read(), target)
            except (PagewordsError, ValueError):
                parts = None
        if parts is None:
            self._document.unread_chunks.append(target.rsplit("/", 1)[-1])
        for part in parts or ():
            self._lines.extend(part)
            if isinstance(part, Part):
                self._lines.pictures += part.pictures
                self._document.warnings += part.warnings
                self._document.hidden.extend(part.hidden)
                self._document.struck.extend(part.struck)
                self._document.doubtful.extend(part.doubtful)

    def _read_chunk(self, data: bytes, name: str) -> Sequence[Sequence[str]] | None:
        kind = media_type(data, name)
        if kind == DOCX and self._document.read_docx is not None:
            return self._document.read_docx(data)
        readers = {HTML: html_parts, TXT: plain_parts}
        if kind == EML:  # a web page with its pictures
            return [part[part.index("") :] for part in read_mail(data).parts]
        return readers[kind](data) if kind in readers else None

    def _cells(self, row: Any, inherited: TextStyle) -> list[str]:
        style = self._styles.of_row(row, inherited)
        cells = [
            _PartReader(cell, self._document, self._picture_file, self._styles.of_cell(cell, style)).parts
            for cell in _rows_or_cells(row, "tc")
        ]
        self._lines.pictures += [picture for parts in cells for part in parts for picture in part.pictures]
        texts = [" ".join(line for part in parts for line in part if line.strip()) for parts in cells]
        lines = [""] * _grid_columns(row, f"{_W}trPr/{_W}gridBefore", 0)
        for cell, text in zip(_rows_or_cells(row, "tc"), texts, strict=True):
            lines += [text, *([""] * (_grid_columns(cell, f"{_W}tcPr/{_W}gridSpan", 1) - 1))]
        return lines

    def _add_paragraph(self, paragraph: Any, style: TextStyle) -> None:
        label = self._document.lists.label(paragraph)
        line = f"{label} " if label and style.is_visible else ""
        boxes: list[tuple[Any, TextStyle]] = []
        drawings: list[str | None] = []
        before = ""
        for kind, value, look in self._inline_items(paragraph, style):
            if kind == "formula" or (kind == "text" and before == "formula"):
                line += gap(line, value)
            before = kind
            if kind == "text" and look.may_be_hidden:
                self._document.doubtful.extend(clean(value).split())
            if kind == "box":
                boxes.append((value, look))
            elif not look.is_visible:
                if kind == "text":
                    self._document.hidden.extend(clean(value).split())
            elif kind == "text" and (look.is_struck or look.is_in_deleted_cell):
                self._document.struck.extend(clean(value).split())
            elif kind == "text" and (look.is_raised or look.is_lowered):
                line += superscript(value, line, is_lowered=look.is_lowered)
            elif kind in ("text", "formula"):
                line += value
            elif kind == "picture":
                self._lines.pictures.append(self._picture(value))
            elif kind == "drawing":
                drawings.append(value)
            elif kind == "line":
                self._lines.append(expand_tabs(line))
                line = ""
            else:
                if line.strip():
                    self._lines.append(expand_tabs(line))
                    line = ""
                self.parts.append(self._lines)
                self._lines = Part()
        self._lines.append(expand_tabs(line))
        for box, look in boxes:
            is_hidden = style.hidden or look.hidden
            is_doubtful = style.is_doubtful or look.is_doubtful
            self._add_blocks(box, replace(style, hidden=is_hidden, ground=look.ground, is_doubtful=is_doubtful))
        for name in drawings:
            target, read = self._picture_file(name)
            if target in self._document.drawings:
                continue
            self._document.drawings.add(target)
            if read is None:
                self._lines.pictures.append(Picture(target, None))
            else:
                self._lines.extend(drawing_lines(read()))

    def _inline_items(self, nodes: Iterable[Any], style: TextStyle) -> Iterator[_InlineItem]:
        """Yield the content of a paragraph as (kind, value, style).

        The kinds are ("text", str), ("formula", str), ("line", None), ("page", None), ("box", element) for a text box,
        ("picture", element) and ("drawing", id) for a chart or a diagram.
        """
        for child in _shown(nodes):
            tag = child.tag
            if tag in (f"{_W}t", f"{OMML}t"):
                yield "text", self._symbols(style.symbol_font, child.text or ""), style
            elif tag == f"{_W}sym":
                code = child.get(f"{_W}char", "")
                sign = chr(int(code, 16)) if re.fullmatch(r"[0-9A-Fa-f]{2,4}", code) else UNKNOWN
                yield "text", self._symbols(symbol_font(child.get(f"{_W}font")), sign), style
            elif tag == f"{_W}checkBox":
                yield "text", "☒" if _is_ticked_legacy_box(child) else "☐", style
            elif tag == f"{_W}ddList":
                yield "text", _selected_legacy_entry(child), style
            elif tag in (f"{_W}tab", f"{_W}ptab"):
                yield "text", "\t", style
            elif tag == f"{_W}noBreakHyphen":
                yield "text", "-", style
            elif tag in (f"{_W}br", f"{_W}cr"):
                yield ("page" if child.get(f"{_W}type") == "page" else "line"), None, style
            elif tag == f"{_W}lastRenderedPageBreak":
                yield "page", None, TextStyle()
            elif tag == f"{_W}txbxContent":
                yield "box", child, replace(style, ground=self._fill_of_box(child))
            elif tag in (CHART, DIAGRAM):
                yield "drawing", child.get(f"{_R}id") or child.get(f"{_R}dm"), style
            elif tag == f"{_VML}textpath":  # a watermark
                yield "text", f" {child.get('string', '')} ", style
            elif tag in _PICTURES:
                yield "picture", child, style
            elif tag == f"{_A}p":  # in a drawing of other programs
                yield "text", f" {_text_of_drawing(child)} ", style
            elif tag == f"{_W}pPr":  # contains tab stops
                continue
            elif tag in (f"{_W}del", f"{_W}moveFrom"):  # Word strikes it out or leaves it out, depending on the view
                deleted = " ".join(node.text or "" for node in child.iter(f"{_W}t", f"{_W}delText"))
                yield "text", deleted, replace(style, is_struck=True)
            elif tag == f"{_W}sdt":
                is_placeholder = is_on(child.find(f"{_W}sdtPr/{_W}showingPlcHdr"))
                content = child.iterchildren(f"{_W}sdtContent")
                yield from self._inline_items(content, replace(style, is_doubtful=True) if is_placeholder else style)
            elif tag == f"{_DRAWING}anchor":
                yield from self._inline_items(child, self._placed(child, style))
            elif isinstance(tag, str) and tag.startswith(_VML) and child.get("style"):
                yield from self._inline_items(child, self._placed_by_css(child, style))
            elif tag == f"{_W}ruby":
                yield from self._ruby(child, style)
            elif tag in _RUNS:
                yield from self._inline_items(child, self._styles.of_run(child, style))
            elif isinstance(tag, str) and tag.startswith(OMML):
                yield from self._formula(child, style)
            else:
                yield from self._inline_items(child, style)

    def _symbols(self, font: str, text: str) -> str:
        shown = shown_symbols(font, text)
        if UNKNOWN in shown:
            unknown = (sign for sign, known in zip(text, shown, strict=True) if known == UNKNOWN != sign)
            self._document.unknown_symbols += [f"{font} {ord(sign):04X}".strip() for sign in unknown]
        return shown

    def _ruby(self, ruby: Any, style: TextStyle) -> Iterator[_InlineItem]:
        """Yield a ruby text, followed by its reading in brackets. The file has the reading first."""
        base, reading = (
            [item for part in ruby.iterchildren(f"{_W}{name}") for item in self._inline_items(part, style)]
            for name in ("rubyBase", "rt")
        )
        yield from base
        if any(kind == "text" and look.is_visible and value.strip() for kind, value, look in reading):
            reading = [("text", "(", style), *reading, ("text", ")", style)]
        yield from reading

    def _formula(self, formula: Any, style: TextStyle) -> Iterator[_InlineItem]:
        """Yield a formula as one line, then other content in it, such as hidden text."""
        others: list[_InlineItem] = []

        def token(node: Any) -> str:
            line = ""
            for kind, value, look in self._inline_items((node,), style):
                if kind in ("text", "formula") and look.is_visible and not look.is_struck:
                    is_shifted = look.is_raised or look.is_lowered
                    line += superscript(value, line, is_lowered=look.is_lowered) if is_shifted else value
                elif kind != "page":
                    others.append((kind, value, look))
            return line

        if line := omml_line(formula, token):
            yield "formula", line, style
        yield from others

    def _placed(self, anchor: Any, style: TextStyle) -> TextStyle:
        """Return the style of text in a drawing that is placed on the sheet."""
        extent, shown = anchor.find(f"{_DRAWING}extent"), anchor.find(f"{_DRAWING}docPr")
        places: list[Place] = []
        for axis, side in (("H", "cx"), ("V", "cy")):
            position: Any = anchor.find(f"{_DRAWING}position{axis}")
            offset = None if position is None else position.find(f"{_DRAWING}posOffset")
            size = None if extent is None else points(extent.get(side), "emu")
            start = None if offset is None else points(offset.text, "emu")
            anchored = "page" if position is None else position.get("relativeFrom", "")
            fits_its_text = axis == "V" and next(anchor.iter(f"{_A}spAutoFit"), None) is not None
            places.append(Place(_twips(start), None if size is None or fits_its_text else _twips(size), anchored))
        style = self._styles.sheet.placed(style, *places)
        is_off = shown is not None and shown.get("hidden") in ("1", "true")
        return replace(style, hidden=style.hidden or is_off)

    def _placed_by_css(self, shape: Any, style: TextStyle) -> TextStyle:
        """Return the style of text in an old drawing, which is placed by declarations as in CSS."""
        declared = _declarations(shape)
        if any(_declarations(box).get("mso-fit-shape-to-text") == "t" for box in shape.iterfind(f"{_VML}textbox")):
            declared.pop("height", None)

        def twips(*names: str) -> int:
            return sum(_twips(points(declared.get(name))) for name in names)

        places = [
            Place(
                twips(f"margin-{side}", side),
                twips(size) if size in declared else None,
                declared.get(f"mso-position-{axis}-relative", "text" if axis == "horizontal" else "line"),
            )
            for axis, side, size in (("horizontal", "left", "width"), ("vertical", "top", "height"))
        ]
        is_hidden = declared.get("visibility") == "hidden"
        if declared.get("position") == "absolute" and shape.getparent().tag != f"{_VML}group":
            style = self._styles.sheet.placed(style, *places)
        return replace(style, hidden=style.hidden or is_hidden)

    def _fill_of_box(self, box: Any) -> Colour | None:
        """Return the colour behind the text of a text box; None if something else may be there."""
        for shape in box.iterancestors(f"{_WPS}wsp", f"{_VML}shape", f"{_VML}rect", f"{_VML}roundrect"):
            if shape.tag != f"{_WPS}wsp":
                return hex_colour(shape.get("fillcolor", "").split(" ")[0]) if shape.get("filled") != "f" else None
            fill: Any = next(iter(shape.iterfind(f"{_WPS}spPr/{_A}solidFill/*")), None)
            if fill is None or len(fill):  # with effects
                return None
            of_theme = theme_colour(self._styles.theme, fill.get("val", ""))
            return of_theme if fill.tag == f"{_A}schemeClr" else hex_colour(fill.get("val"))
        return None

    def _picture(self, node: Any) -> Picture:
        extent: Any = next((frame.find(f"{_DRAWING}extent") for frame in node.iterancestors(*_FRAMES)), None)
        width, height = (None, None) if extent is None else (points(extent.get(side), "emu") for side in ("cx", "cy"))
        name = next((node.get(f"{_R}{name}") for name in ("embed", "link", "id") if node.get(f"{_R}{name}")), None)
        return Picture(*self._picture_file(name), width, height)


def _text_of_drawing(paragraph: Any) -> str:
    return "".join(node.text or "" for node in paragraph.iter(f"{_A}t"))


def _shown(nodes: Iterable[Any]) -> Iterator[Any]:
    """Yield elements, in place of alternatives the contents of the one that Word shows."""
    for node in nodes:
        if node.tag != _CHOICES:
            yield node
            continue
        choices = (
            choice
            for choice in node.iterchildren(_CHOICE)
            if all(_is_known(choice, name) for name in choice.get("Requires", "").split())
        )
        chosen = next(choices, node.find(_FALLBACK))
        if chosen is not None:
            yield from _shown(chosen)


def _is_known(choice: Any, prefix: str) -> bool:
    name = choice.nsmap.get(prefix, "")
    return name in _KNOWN_EXTENSIONS or name.startswith("http://schemas.openxmlformats.org/")


def _is_ticked_legacy_box(box: Any) -> bool:
    marks = (box.find(f"{_W}{name}") for name in ("checked", "default"))
    return is_on(next((mark for mark in marks if mark is not None), None))


def _selected_legacy_entry(choice: Any) -> str:
    entries = [entry.get(f"{_W}val", "") for entry in choice.iterchildren(f"{_W}listEntry")]
    marks = (choice.find(f"{_W}{name}") for name in ("result", "default"))
    number = next((mark.get(f"{_W}val", "0") for mark in marks if mark is not None), "0")
    return entries[int(number)] if number.isdecimal() and int(number) < len(entries) else ""


def _grid_columns(node: Any, path: str, default: int) -> int:
    """Return how many columns of the table's grid a cell fills, or a row skips."""
    found = node.find(path)
    count = "" if found is None else found.get(f"{_W}val", "")
    return max(default, min(int(count), _MAX_GRID_COLUMNS)) if re.fullmatch("[0-9]{1,9}", count) else default


def _rows_or_cells(parent: Any, name: str) -> Iterator[Any]:
    for node in parent:
        if node.tag == f"{_W}{name}":
            yield node
        elif node.tag in (f"{_W}sdt", f"{_W}sdtContent", f"{_W}ins"):
            yield from _rows_or_cells(node, name)
