"""ODT, ODS, ODP: paragraphs and tables in order, cells with their addresses, slides with their notes."""

from __future__ import annotations

import posixpath
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from openpyxl.utils import get_column_letter

from pagewords.archive import open_archive
from pagewords.colours import hex_colour
from pagewords.docx_style import MAX_STYLE_DEPTH, TextStyle
from pagewords.errors import OverLimit, PasswordProtected, WrongType
from pagewords.formula import MATHML, gap, mathml_line
from pagewords.list_numbers import write_number
from pagewords.open_xml import etree, parse_xml
from pagewords.pages import Limits, clean
from pagewords.pagination import Part, align, expand_tabs, row_lines, superscript
from pagewords.pictures import Picture, points

MAX_REPEATS = 10_000  # repeats of a cell

_NAMES = "urn:oasis:names:tc:opendocument:xmlns:"
_TEXT, _TABLE, _DRAW, _STYLE = (f"{{{_NAMES}{name}:1.0}}" for name in ("text", "table", "drawing", "style"))
_FO, _OFFICE = f"{{{_NAMES}xsl-fo-compatible:1.0}}", f"{{{_NAMES}office:1.0}}"
_SVG, _XLINK = f"{{{_NAMES}svg-compatible:1.0}}", "{http://www.w3.org/1999/xlink}"
_PRESENTATION = f"{{{_NAMES}presentation:1.0}}"
_SKIPPED_TAGS = frozenset(
    {f"{_TEXT}tracked-changes", f"{_OFFICE}annotation", f"{_OFFICE}forms", f"{_TEXT}note-citation"}
)
# Only printing fills these in.
_PRINTED_FIELDS = tuple(
    f"{_TEXT}{name}" for name in ("page-number", "page-count", "date", "time", "sheet-name", "title", "file-name")
)
_TABLE_GROUPS = frozenset(
    f"{_TABLE}table-{name}"
    for name in ("rows", "row-group", "header-rows", "columns", "column-group", "header-columns")
)
_HIDDEN_TAGS = frozenset({f"{_TEXT}hidden-text", f"{_TEXT}hidden-paragraph"})


def opendocument_parts(data: bytes, limits: Limits) -> list[Part]:
    """Return the lines of a document, with one part for each visible sheet of a workbook or each slide."""
    archive = open_archive(data, limits)
    names = set(archive.namelist())
    if "META-INF/manifest.xml" in names and b"encryption-data" in archive.read("META-INF/manifest.xml"):
        raise PasswordProtected("The OpenDocument file is protected with a password; save it without one.")
    if "content.xml" not in names:
        raise WrongType("The file is not an OpenDocument: its content is missing.")
    roots = [parse_xml(archive.read(name)) for name in ("styles.xml", "content.xml") if name in names]
    body = roots[-1].find(f"{_OFFICE}body")
    if body is None or not len(body):
        raise WrongType("The file is not an OpenDocument: its content is missing.")
    reader = _LineCollector(roots, archive)
    layouts = (layout for root in roots for layout in root.iter(f"{_STYLE}page-layout-properties"))
    is_plain = all(layout.get(f"{_FO}background-color", "transparent") == "transparent" for layout in layouts)
    page_style = TextStyle() if is_plain else TextStyle(ground=None)
    masters = roots[0].find(f"{_OFFICE}master-styles") if len(roots) > 1 else None
    if body[0].tag == f"{_OFFICE}spreadsheet":
        return reader.sheets(body[0], masters)
    # Page headers come first, page footers last.
    styled = masters if masters is not None and body[0].tag == f"{_OFFICE}text" else ()
    heads, feet = (
        [part for end in ("", "-first", "-left") for master in styled for part in master.iter(f"{_STYLE}{kind}{end}")]
        for kind in ("header", "footer")
    )
    for part in (*heads, body[0], *feet):
        reader.add_blocks(part, page_style)
    return reader.parts()


class _LineCollector:
    """Collects the lines of a document."""

    def __init__(self, roots: list[Any], archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self._styles = {
            (element.get(f"{_STYLE}family"), element.get(f"{_STYLE}name")): element
            for root in roots
            for element in root.iter(f"{_STYLE}style")
        }
        self._parts = [Part()]
        self._hidden: list[str] = []
        self._struck: list[str] = []
        self._doubtful: list[str] = []
        self._comments: list[str] = []
        self._formulas: dict[str, str] = {}  # by file name
        self._list_levels = {
            (element.get(f"{_STYLE}name"), int(level.get(f"{_TEXT}level", "1"))): level
            for root in roots
            for element in root.iter(f"{_TEXT}list-style")
            for level in element.iterchildren(f"{_TEXT}list-level-style-number")
        }
        self._list_counts: dict[tuple[str | None, int], int] = {}

    def parts(self) -> list[Part]:
        parts = [part for part in self._parts if part or part.pictures] or [Part()]
        parts[0].hidden, parts[0].struck, parts[0].doubtful = self._hidden, self._struck, self._doubtful
        parts[-1] += self._comments
        return parts

    def add_blocks(self, parent: Any, style: TextStyle) -> None:
        for node in parent:
            tag = node.tag
            if tag == f"{_OFFICE}annotation":
                self._add_comment(node, style)
            if tag in _SKIPPED_TAGS or not isinstance(tag, str):
                continue
            if tag in (f"{_TEXT}p", f"{_TEXT}h"):
                self._add_paragraph(node, style)
            elif tag == f"{_TABLE}table":
                rows = [[" ".join(cell) for cell in row] for row in self._rows(node, style)]
                self._parts[-1] += [*align(rows), ""]
            elif tag == f"{_TEXT}list":
                self._add_list(node, style, None, 1)
            elif tag == f"{_TEXT}soft-page-break":
                self._parts.append(Part())
            elif tag == f"{_DRAW}page":
                self._parts.append(Part())
                style = replace(style, ground=None)  # of the slide, or of a shape
                drawn = self._properties("drawing-page", node.get(f"{_DRAW}style-name"), "drawing-page")
                is_hidden = drawn.get(f"{_PRESENTATION}visibility") == "hidden"
                self.add_blocks(node, replace(style, hidden=True) if is_hidden else style)
            elif tag == f"{_PRESENTATION}notes":
                self._parts[-1].append("Notes:")
                self.add_blocks(node, style)
            else:  # sections, frames, text boxes and groups contain blocks
                is_hidden = node.get(f"{_TEXT}display") in ("none", "condition")
                if tag == f"{_DRAW}frame" and (formula := self._formula(node)):
                    if style.is_visible and not is_hidden:
                        self._parts[-1].append(formula)
                    else:
                        self._hidden.extend(clean(formula).split())
                    continue
                if tag == f"{_DRAW}frame" and style.is_visible:
                    self._parts[-1].pictures += self._pictures(node)
                self.add_blocks(node, replace(style, hidden=True) if is_hidden else style)

    def _add_list(self, node: Any, style: TextStyle, name: str | None, level: int) -> None:
        name = node.get(f"{_TEXT}style-name") or name
        if node.get(f"{_TEXT}continue-numbering") != "true":
            self._list_counts.pop((name, level), None)
        for item in node:
            part, at = self._parts[-1], len(self._parts[-1])
            number = self._list_number(item, name, level) if item.tag == f"{_TEXT}list-item" else ""
            for child in item:
                if child.tag == f"{_TEXT}list":
                    self._add_list(child, style, name, level + 1)
                else:
                    self.add_blocks([child], style)
            if number and len(part) > at and part[at].strip():
                part[at] = f"{number} {part[at]}"

    def _list_number(self, item: Any, name: str | None, level: int) -> str:
        definition = self._list_levels.get((name, level))
        kind = "" if definition is None else definition.get(f"{_STYLE}num-format", "")
        if definition is None or not kind:
            return ""
        first = item.get(f"{_TEXT}start-value") or (
            definition.get(f"{_TEXT}start-value", "1") if (name, level) not in self._list_counts else None
        )
        number = int(first) if first and first.isdecimal() else self._list_counts.get((name, level), 0) + 1
        self._list_counts[name, level] = number
        prefix, suffix = (definition.get(f"{_STYLE}num-{end}", "") for end in ("prefix", "suffix"))
        return f"{prefix}{write_number(number, kind)}{suffix}"

    def sheets(self, body: Any, masters: Any) -> list[Part]:
        """Return a part for each visible sheet: its name, then a line per row with `A1: value` for each cell with a
        value. Its comments, and its printed headers and footers follow."""
        parts: list[Part] = []
        for table in body.iter(f"{_TABLE}table"):
            shown = self._properties("table", table.get(f"{_TABLE}style-name"), "table")
            is_hidden = shown.get(f"{_TABLE}display") == "false"
            part = Part([f"Sheet: {table.get(f'{_TABLE}name')}"])
            for number, row in enumerate(self._rows(table, TextStyle(hidden=is_hidden)), 1):
                values = [" ".join(" ".join(cell).split()) for cell in row]
                cells = [(f"{get_column_letter(n)}{number}", value) for n, value in enumerate(values, 1) if value]
                part += row_lines(cells)
            # Pictures lie over the cells, or in them; so do formulas.
            part.pictures = [picture for frame in table.iter(f"{_DRAW}frame") for picture in self._pictures(frame)]
            part += self._comments
            self._comments.clear()
            if not is_hidden:
                style = self._styles.get(("table", table.get(f"{_TABLE}style-name")))
                part += self._printed_lines(masters, None if style is None else style.get(f"{_STYLE}master-page-name"))
                part.hidden, self._hidden = self._hidden, []
                part.struck, self._struck = self._struck, []
                part.doubtful, self._doubtful = self._doubtful, []
                parts.append(part)
        if parts:
            parts[-1].hidden += self._hidden
        return parts

    def _printed_lines(self, masters: Any, name: str | None) -> list[str]:
        """Return the lines of the headers and footers of a page style."""
        lines: dict[str, None] = {}
        for master in () if masters is None or name is None else masters:
            for part in master if master.get(f"{_STYLE}name") == name else ():
                label = etree.QName(part).localname.split("-")[0].capitalize()
                if label in ("Header", "Footer") and part.get(f"{_STYLE}display") != "false":
                    etree.strip_elements(part, *_PRINTED_FIELDS, with_tail=False)
                    found = self._lines_within(part, TextStyle())
                    lines |= dict.fromkeys(f"{label}: {line.strip()}" for line in found)
        return list(lines)

    def _add_comment(self, node: Any, style: TextStyle) -> None:
        self._comments += [f"Comment: {line.strip()}" for line in self._lines_within(node, style)]

    def _rows(self, table: Any, style: TextStyle) -> Iterator[list[list[str]]]:
        left = MAX_REPEATS
        columns = [
            column.get(f"{_TABLE}visibility") in ("collapse", "filter")
            for column in _iterate_table(table, "table-column")
            for _ in range(min(_repeats(column, "columns"), MAX_REPEATS))
        ][:MAX_REPEATS]
        empty = 0
        for row in _iterate_table(table, "table-row"):
            hidden_row = row.get(f"{_TABLE}visibility") in ("collapse", "filter")
            cells: list[list[str]] = []
            for cell in row:
                if cell.tag not in (f"{_TABLE}table-cell", f"{_TABLE}covered-table-cell"):
                    continue
                is_covered = cell.tag == f"{_TABLE}covered-table-cell"  # by a merged cell
                is_hidden = hidden_row or is_covered or (len(cells) < len(columns) and columns[len(cells)])
                lines = self._cell(cell, replace(style, hidden=style.hidden or is_hidden))
                count = _repeats(cell, "columns")
                if any(lines):
                    left -= count - 1
                    if left < 0:
                        raise OverLimit(
                            f"The file repeats cells more than {MAX_REPEATS:,} times. Delete the unused cells."
                        )
                cells += [lines] * min(count, MAX_REPEATS)
            count = _repeats(row, "rows")
            if not any(any(lines) for lines in cells):
                empty += min(count, 1 << 21)  # the maximum number of rows of a sheet
                continue
            left -= (count - 1) * len(cells)
            if left < 0 or empty > MAX_REPEATS:
                raise OverLimit(f"The file repeats cells more than {MAX_REPEATS:,} times.")
            for _ in range(empty):
                yield []
            empty = 0
            for _ in range(count):
                yield cells

    def _cell(self, cell: Any, style: TextStyle) -> list[str]:
        return self._lines_within(cell, self._with_named("table-cell", cell.get(f"{_TABLE}style-name"), style))

    def _lines_within(self, node: Any, style: TextStyle) -> list[str]:
        inner = self._inner()
        inner.add_blocks(node, style)
        self._hidden += inner._hidden
        self._struck += inner._struck
        self._doubtful += inner._doubtful
        self._parts[-1].pictures += [picture for part in inner._parts for picture in part.pictures]
        return [line for part in inner._parts for line in part if line.strip()]

    def _inner(self) -> _LineCollector:
        inner = _LineCollector([], self._archive)
        inner._styles, inner._list_levels, inner._formulas = self._styles, self._list_levels, self._formulas
        inner._comments = self._comments
        return inner

    def _add_paragraph(self, paragraph: Any, style: TextStyle) -> None:
        name = paragraph.get(f"{_TEXT}style-name")
        if self._properties("paragraph", name, "paragraph").get(f"{_FO}break-before") == "page":
            self._parts.append(Part())
        pieces: list[str] = []
        boxes: list[tuple[Any, TextStyle]] = []
        self._inline(paragraph, self._with_named("paragraph", name, style), pieces, boxes)
        self._parts[-1] += [expand_tabs(line) for line in "".join(pieces).split("\n")]
        for box, inherited in boxes:
            self.add_blocks([box], inherited if box.tag == f"{_TEXT}note" else replace(inherited, ground=None))

    def _inline(self, node: Any, style: TextStyle, pieces: list[str], boxes: list[tuple[Any, TextStyle]]) -> None:
        def add(text: str | None) -> None:
            words = (text or "").replace("\n", " ")
            if not style.is_visible:
                self._hidden.extend(clean(words).split())
                return
            if style.may_be_hidden:
                self._doubtful.extend(clean(words).split())
            if style.is_struck:
                self._struck.extend(clean(words).split())
            elif style.is_raised or style.is_lowered:
                pieces.append(superscript(words, "".join(pieces[-1:]), is_lowered=style.is_lowered))
            else:
                pieces.append(words)

        add(node.text)
        for child in node:
            tag = child.tag
            if tag == f"{_TEXT}s":
                add(" " * min(int(child.get(f"{_TEXT}c", "1")), 200))
            elif tag == f"{_TEXT}tab":
                add("\t")
            elif tag == f"{_TEXT}line-break":
                pieces.append("\n")
            elif tag in _HIDDEN_TAGS:
                self._inline(child, replace(style, hidden=True), pieces, boxes)
            elif tag == f"{_DRAW}frame" and (formula := self._formula(child)):
                add(gap("".join(pieces[-1:]), formula) + formula + gap(formula, child.tail or ""))
            elif tag == f"{_TEXT}note" or (isinstance(tag, str) and tag.startswith(_DRAW) and tag != f"{_DRAW}a"):
                boxes.append((child, style))
            elif tag == f"{_TEXT}ruby-text":
                if "".join(child.itertext()).strip():
                    add("(")
                    self._inline(child, style, pieces, boxes)
                    add(")")
            elif tag == f"{_OFFICE}annotation":
                self._add_comment(child, style)
            elif tag not in _SKIPPED_TAGS and isinstance(tag, str):
                self._inline(child, self._with_named("text", child.get(f"{_TEXT}style-name"), style), pieces, boxes)
            add(child.tail)

    def _formula(self, frame: Any) -> str:
        shown = frame.find(f"{_DRAW}object")
        if shown is None:
            return ""
        formula = shown.find(f"{MATHML}math")
        name = posixpath.normpath(posixpath.join(shown.get(f"{_XLINK}href", ""), "content.xml"))
        if formula is None and name in self._archive.NameToInfo:
            if name not in self._formulas:
                root = parse_xml(self._archive.read(name))
                self._formulas[name] = "" if root.tag != f"{MATHML}math" else mathml_line(root, _text)
            return self._formulas[name]
        return "" if formula is None else mathml_line(formula, _text)

    def _pictures(self, frame: Any) -> list[Picture]:
        image = frame.find(f"{_DRAW}image")
        if image is None or self._formula(frame):
            return []
        name = posixpath.normpath(image.get(f"{_XLINK}href", ""))
        is_inside = name in self._archive.NameToInfo
        size = (points(frame.get(f"{_SVG}{side}")) for side in ("width", "height"))
        return [Picture(name, partial(self._archive.read, name) if is_inside else None, *size)]

    def _properties(self, family: str, name: str | None, kind: str) -> Any:
        found = self._styles.get((family, name))
        properties = None if found is None else found.find(f"{_STYLE}{kind}-properties")
        return {} if properties is None else properties

    def _with_named(self, family: str, name: str | None, style: TextStyle) -> TextStyle:
        chain: list[Any] = []
        while (found := self._styles.get((family, name))) is not None and len(chain) < MAX_STYLE_DEPTH:
            chain.append(found)
            name = found.get(f"{_STYLE}parent-style-name")
        for one in reversed(chain):
            for kind in ("paragraph", "table-cell", "text"):
                properties = one.find(f"{_STYLE}{kind}-properties")
                if properties is not None:
                    style = _with_properties(properties, style)
        return style


def _with_properties(properties: Any, style: TextStyle) -> TextStyle:
    if (display := properties.get(f"{_TEXT}display")) is not None:
        style = replace(style, hidden=style.hidden or display == "none")
    size = properties.get(f"{_FO}font-size", "")
    if size.endswith("%"):
        style = replace(style, size=style.size * (points(size[:-1], "pt") or 100.0) / 100)
    elif (height := points(size, "pt")) is not None:
        style = replace(style, size=height)
    if (ink := properties.get(f"{_FO}color")) is not None:
        style = replace(style, ink=hex_colour(ink))
    if properties.get(f"{_STYLE}use-window-font-color") == "true":
        style = replace(style, ink=None)
    if (ground := properties.get(f"{_FO}background-color", "transparent")) != "transparent":
        style = replace(style, ground=hex_colour(ground))
    if (position := properties.get(f"{_STYLE}text-position")) is not None:
        sunk = position.startswith(("sub", "-"))
        style = replace(style, is_raised=not sunk and position.split()[:1] != ["0%"], is_lowered=sunk)
    for name in ("text-line-through-style", "text-line-through-type"):
        if (line := properties.get(f"{_STYLE}{name}")) is not None:
            style = replace(style, is_struck=line != "none")
    return style


def _text(node: Any) -> str:
    return "".join(node.itertext())


def _iterate_table(table: Any, name: str) -> Iterator[Any]:
    for node in table:
        if node.tag == f"{_TABLE}{name}":
            yield node
        elif node.tag in _TABLE_GROUPS:
            yield from _iterate_table(node, name)


def _repeats(node: Any, what: str) -> int:
    said = node.get(f"{_TABLE}number-{what}-repeated", "1")
    return max(1, int(said)) if said.isascii() and said.isdigit() and len(said) < 10 else 1
