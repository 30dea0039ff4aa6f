"""HTML: the text that a person sees, line by line, with table rows as rows. Nothing is downloaded, and
no script runs."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import unquote, unquote_to_bytes

import lxml.etree  # pyright: ignore[reportMissingTypeStubs]

from pagewords.errors import Damaged, OverLimit
from pagewords.formula import gap, mathml_line
from pagewords.html_style import Declaration, Display, ElementBox, ElementStyle, StyleResolver
from pagewords.list_numbers import write_number
from pagewords.pages import clean
from pagewords.pagination import Part, align, superscript
from pagewords.pictures import Picture, is_decoration, points
from pagewords.text import decode, encoding_warnings

etree: Any = lxml.etree  # pyright: ignore

_TEXTLESS_TAGS = frozenset(
    """script style title meta link desc metadata defs annotation annotation-xml audio canvas map datalist
    noframes noembed""".split()  # noqa: SIM905
)
_FALLBACK_TAGS = frozenset(["progress", "meter"])  # shown as bars; their text is for browsers that don't support them
_TEXTLESS_INPUTS = frozenset(["range", "color", "file"])
_URL_ATTRIBUTES = {"object": "data", "video": "poster"}
_INLINE_DISPLAYS = (Display.INLINE, Display.CONTENTS, Display.CELL)
_EMBEDDED_IMAGE = re.compile(
    r"""((?<=["'])data:image/[a-z.+-]{1,30};base64,)([a-z0-9+/=%\s]++)(?=["'])"""
    r"|(data:image/[a-z.+-]{1,30};base64,)([a-z0-9+/=%]++)",
    re.I,
)
_REPLACED_DATA_URL = re.compile(r"data:(image/[a-z.+-]{1,30});base64,(\d{1,9})", re.I)
_DATA = re.compile(r"data:([a-z0-9.+/-]{0,60})((?:;[^,;]{0,60}){0,5}),", re.I)
_CHARSET = re.compile(rb"<meta[^>]{0,300}?charset\s*=\s*[\"']?([A-Za-z0-9_.:-]{2,40})", re.I)
_PROLOGUE = re.compile(r"\A\s*<\?xml[^>]*>")
_SVG, _HTML = "image/svg+xml", ("text/html", "application/xhtml+xml")
_PLUGIN = re.compile(r"application/(?:x-|java|vnd\.adobe\.flash)|[^?#]{0,2000}\.(?:swf|class|jar)", re.I)
_POINTS_PER_PIXEL = 0.75
_NO_FILES_SCHEMES = ("cid:", "about:", "javascript:", "#")  # a mail's own pictures come with it
_OFFSET = re.compile(r"\s*([-+]?(?:\d+\.?\d*|\.\d+))(em)?")
_NEW_LINE_SHIFT = 0.8  # of the font size: drawn text moved down by more is on a new line
MAX_GENERATED = 1_000_000  # characters
MAX_SPANNED = 100_000  # places in a table that cells fill beside and below their own
MAX_NESTED_PAGES = 3  # pages within pages; deeper ones count as unread pictures


def html_parts(data: bytes) -> list[Part]:
    """Return the lines of an HTML file."""
    match = _CHARSET.search(data[:4096])
    declared = match[1].decode("ascii") if match else None
    if declared and declared.lower().startswith("utf-16"):
        declared = "utf-8"  # the declaration itself is readable as ASCII, so it is false
    part = html_lines(decode(data, declared))
    part.warnings += encoding_warnings(data, declared, part)
    return [part]


def html_lines(text: str) -> Part:
    """Return the visible lines of HTML, and the hidden words. Raise Unreadable if it is damaged or over a limit."""
    files = _EmbeddedFiles()
    root = _parse(files.replace_images(text))
    if root is None:
        return Part()
    page = _PageWalker(StyleResolver(root), files)
    block = _LineBuilder()
    page.walk(root, block, page.initial)
    return Part(block.lines(), page.hidden, (), page.pictures, page.struck, page.doubtful)


def _parse(source: str) -> Any:
    parser: Any = etree.HTMLParser(
        encoding="utf-8", no_network=True, remove_comments=True, remove_pis=True, huge_tree=False
    )
    source = _PROLOGUE.sub("", source).replace("\0", "")
    if not source.strip():
        return None
    try:
        return etree.fromstring(source.encode("utf-8", "replace"), parser)
    except etree.XMLSyntaxError as error:
        raise Damaged("The HTML is damaged: it cannot be parsed.") from error


class _EmbeddedFile(NamedTuple):
    key: str
    media_type: str
    read: Callable[[], bytes]


class _EmbeddedFiles:
    """Files embedded in a page as data URLs. Images are cut out before parsing: the parser accepts at most 10 MB."""

    def __init__(self) -> None:
        self._contents: list[str] = []
        self._keys: dict[int, str] = {}
        self.read_drawings = set[str]()
        self.backgrounds = set[str]()
        self.generated = 0  # characters

    def replace_images(self, text: str) -> str:
        def number(match: re.Match[str]) -> str:
            self._contents.append(match[2] or match[4])
            return f"{match[1] or match[3]}{len(self._contents) - 1}"

        return _EMBEDDED_IMAGE.sub(number, text)

    def find(self, address: str) -> _EmbeddedFile | None:
        if (match := _REPLACED_DATA_URL.fullmatch(address)) and (number := int(match[2])) < len(self._contents):
            content = self._contents[number]
            if number not in self._keys:
                self._keys[number] = hashlib.sha256(content.encode()).hexdigest()
            return _EmbeddedFile(self._keys[number], match[1].lower(), partial(_from_base64, content))
        if match := _DATA.match(address):
            is_base64 = match[2].lower().endswith(";base64")
            read = partial(_from_base64 if is_base64 else unquote_to_bytes, address[match.end() :])
            return _EmbeddedFile(address, match[1].lower() or "text/plain", read)
        return None


class _LineBuilder:
    """Collects text into lines."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._pieces: list[str] = []
        self._gap = 0

    @property
    def last(self) -> str:
        return "" if not self._pieces else " " if self._gap else self._pieces[-1][-1]

    def gap(self, spaces: int = 1) -> None:
        """Separate the following text from the current line."""
        if self._pieces:
            self._gap = max(self._gap, spaces)

    def add(self, text: str, keep_space: bool) -> None:
        if keep_space:
            head, *rest = text.split("\n")
            self._add_text(head)
            for line in rest:
                self.end(blank=True)
                self._add_text(line)
            return
        if text[:1].isspace():
            self.gap()
        if words := " ".join(text.split()):
            self._add_text(words)
            if text[-1].isspace():
                self.gap()

    def _add_text(self, text: str) -> None:
        if text:
            if self._gap:
                self._pieces.append(" " * (self._gap - self._pieces[-1][-1].isspace()))
                self._gap = 0
            self._pieces.append(text)

    def end(self, blank: bool = False) -> None:
        line = "".join(self._pieces).rstrip()
        if line or blank:
            self._lines.append(line)
        self._pieces, self._gap = [], 0

    def extend(self, lines: Sequence[str]) -> None:
        self.end()
        self._lines.extend(lines)

    def lines(self) -> list[str]:
        self.end()
        return self._lines


class _PageWalker:
    """Walks through a page and collects its lines, hidden words, struck-out words and pictures."""

    def __init__(self, resolver: StyleResolver, files: _EmbeddedFiles, depth: int = 0) -> None:
        self._files = files
        self._depth = depth
        self._resolver = resolver
        self.initial = resolver.initial
        self.pictures: list[Picture] = []
        self.hidden: list[str] = []
        self.struck: list[str] = []
        self.doubtful: list[str] = []
        self._numbers: dict[Any, int] = {}  # number of the last item of each list
        self._readings: list[_LineBuilder] = []  # the ruby text of each open `ruby`
        self._in_formulas: dict[Any, ElementStyle] = {}
        self._chosen: dict[Any, list[Any]] = {}  # the options that each select shows
        self._shift = 0.0  # of drawn text: pixels below the start of its line
        self._y: str | None = None

    def walk(self, node: Any, block: _LineBuilder, parent: ElementStyle) -> None:
        tag: Any = node.tag
        if self._is_textless(node):
            return
        style, box = self._resolver.compute(node, parent)
        if tag == "br":
            if not style.is_removed:
                block.end(blank=style.is_visible)
            return
        if tag == "math":
            self._add_formula(block, self._formula(node, style, box))
            return
        if tag == "rt" and self._readings:
            block = self._readings[-1]
        _begin_box(block, box)
        self._add_backgrounds(node, block, style, box)
        if box.display in (Display.TABLE, Display.ITEMS):
            self._add_generated(node, block, style, box.before)
            is_table = box.display is Display.TABLE
            block.extend(
                _align_cells(
                    _spread(_clip_to_group(self._rows(node, style)))
                    if is_table
                    else self._items(node, style, box.columns)
                )
            )
            self._add_generated(node, block, style, box.after)
            return
        if box.display is Display.LIST_ITEM and style.is_visible and style.marker:
            block.add(f"{self._item_marker(node, style.marker)} ", True)
        if tag in ("text", "tspan"):
            self._position_drawn_text(node, block, style)
        if not self._add_replaced(node, block, style, box):
            self._walk_content(node, block, style, box)
        _end_box(block, box)
        if tag == "text":
            self._shift, self._y = 0.0, None

    def _walk_content(self, node: Any, block: _LineBuilder, style: ElementStyle, box: ElementBox) -> None:
        tag = node.tag
        if tag in _FALLBACK_TAGS:
            style = replace(style, is_removed=True)
        if tag == "ruby":
            self._readings.append(_LineBuilder())
        self._add_generated(node, block, style, box.before)
        if tag == "q" and style.is_visible:
            block.add("“", False)
        is_closed = tag == "details" and node.get("open") is None
        within = replace(style, is_removed=True) if is_closed else style
        if tag != "rp":
            self._add(block, node.text, within)
        for child in node:
            around = within
            if is_closed and child.tag == "summary":
                is_closed, around = False, style
            if box.has_items:
                block.gap(2)
            self.walk(child, block, around)
            if box.has_items:
                block.gap(2)
            if child.tag == "math" and child.tail and gap(block.last, child.tail):
                block.gap()
            if tag != "rp":
                self._add(block, child.tail, within)
        if tag == "q" and style.is_visible:
            block.add("”", False)
        self._add_generated(node, block, style, box.after)
        if tag == "ruby" and (reading := " ".join(self._readings.pop().lines())):
            block.gap()
            block.add(f"({reading})", False)

    def _add_formula(self, block: _LineBuilder, formula: str) -> None:
        if gap(block.last, formula):
            block.gap()
        block.add(formula, True)

    def _formula(self, formula: Any, style: ElementStyle, box: ElementBox) -> str:
        self._in_formulas[formula] = style

        def within(node: Any) -> ElementStyle:
            if node not in self._in_formulas:
                self._in_formulas[node], _ = self._resolver.compute(node, within(node.getparent()))
            return self._in_formulas[node]

        def token(node: Any) -> str:
            block = _LineBuilder()
            if node is formula:
                self._walk_content(node, block, style, box)
            else:
                self.walk(node, block, within(node.getparent()))
            return " ".join(block.lines())

        return mathml_line(formula, token)

    def _add_generated(
        self, node: Any, block: _LineBuilder, parent: ElementStyle, declared: Mapping[str, Declaration] | None
    ) -> None:
        """Add the text of an element's `::before` or `::after`."""
        if not declared or (generated := self._resolver.generate(node, declared, parent)) is None:
            return
        style, box, text = generated
        self._files.generated += len(text)
        if self._files.generated > MAX_GENERATED:
            raise OverLimit("The style sheets of the page generate more text than a document may have.")
        if not style.is_visible and not any(map(str.isalnum, text)):
            return  # an old technique to end floats
        _begin_box(block, box)
        self._add_backgrounds(None, block, style, box)
        self._add(block, text, style)
        _end_box(block, box)

    def _add(self, block: _LineBuilder, text: str | None, style: ElementStyle) -> None:
        if not text:
            return
        if not style.is_visible:
            self.hidden.extend(clean(text).split())
            return
        if style.may_be_hidden:
            self.doubtful.extend(clean(text).split())
        if style.is_struck:
            self.struck.extend(clean(text).split())
            block.gap()
        elif script := style.script or (self._shift < 0) - (self._shift > 0):
            block.add(superscript(text, block.last, is_lowered=script < 0), style.keeps_space)
        else:
            block.add(text, style.keeps_space)

    def _position_drawn_text(self, node: Any, block: _LineBuilder, style: ElementStyle) -> None:
        """Separate positioned text of an SVG drawing from its other text. Text moved up or down slightly is raised or
        lowered."""
        x, y = node.get("x"), node.get("y")
        across, down = (_offset_pixels(node.get(name), style) for name in ("dx", "dy"))
        if node.tag == "text":
            self._shift, self._y = 0.0, y
        elif (y is not None and y != self._y) or abs(down) >= _NEW_LINE_SHIFT * style.font_pixels or (x and down):
            block.end()
            self._shift, self._y = 0.0, y or self._y
        else:
            self._shift += down
            if abs(self._shift) < 0.1 * style.font_pixels:
                self._shift = 0.0
            if x is not None:
                block.gap(2)
            elif across >= 0.2 * style.font_pixels:
                block.gap()

    def _item_marker(self, item: Any, marker: str) -> str:
        if not marker.isalnum():
            return marker
        parent = item.getparent()
        given = item.get("value") or (parent.get("start") if parent not in self._numbers else None)
        number = int(given) if given and re.fullmatch(r"-?\d{1,6}", given) else self._numbers.get(parent, 0) + 1
        self._numbers[parent] = number
        return f"{write_number(number, marker)}."

    def _add_replaced(self, node: Any, block: _LineBuilder, style: ElementStyle, box: ElementBox) -> bool:
        """Add what a replaced element shows: a value, a check box, a picture or another page. Return whether its
        children are not shown."""
        tag = node.tag
        if tag == "input":
            kind = node.get("type", "").strip().lower()
            if kind in ("checkbox", "radio"):
                self._add(block, f" {'☐' if node.get('checked') is None else '☒'} ", style)
            elif kind == "image":
                self._add(block, f" {node.get('alt') or ''} ", style)
                self._add_file(node.get("src"), node, block, style, box)
            elif kind not in _TEXTLESS_INPUTS and node.get("value"):
                self._add(block, f" {node.get('value')} ", style)
        elif tag in ("img", "image"):
            self._add(block, f" {node.get('alt') or ''} ", style)
            self._add_file(_image_address(node), node, block, style, box)
        elif tag in ("iframe", "frame", "video", "object", "embed"):
            block.gap()
            page = node.get("srcdoc") if tag == "iframe" else None
            address = node.get(_URL_ATTRIBUTES.get(tag, "src"))
            is_plugin = bool(_PLUGIN.match(node.get("type") or "") or _PLUGIN.match(address or ""))
            if page is not None:
                self._add_page(page, block, style)
            elif not is_plugin:
                self._add_file(address, node, block, style, box)
            block.gap()
            return tag != "embed" and (tag != "object" or (bool(address) and not is_plugin))
        return False

    def _add_backgrounds(self, node: Any, block: _LineBuilder, style: ElementStyle, box: ElementBox) -> None:
        if not style.is_visible:
            return
        given = None if node is None else node.get("background")
        for address in (*box.images, *([given] if given else ())):
            # A background has its own size, but shows no more than its element.
            sides = [None if side is None else side * _POINTS_PER_PIXEL for side in (box.width, box.height)]
            if address not in self._files.backgrounds and not is_decoration(*sides):
                self._files.backgrounds.add(address)
                self._add_file(address, None, block, style, ElementBox())

    def _add_file(
        self, address: str | None, node: Any, block: _LineBuilder, style: ElementStyle, box: ElementBox
    ) -> None:
        address = (address or "").strip()
        if (
            not style.is_visible
            or not address
            or address[:12].lower().startswith(("cid:", "about:", "#", "javascript:"))
        ):
            return  # a mail's own pictures come with it
        sizes: list[float | None] = [
            given * _POINTS_PER_PIXEL if given is not None else None if node is None else points(node.get(side))
            for side, given in (("width", box.width), ("height", box.height))
        ]
        width, height = sizes
        file = self._files.find(address)
        if file is None:
            self.pictures.append(Picture(address, None, width, height))
        elif file.media_type == _SVG or file.media_type in _HTML:
            self._add_markup_file(file, width, height, block, style)
        else:
            self.pictures.append(Picture(file.key, file.read, width, height))

    def _add_markup_file(
        self, file: _EmbeddedFile, width: float | None, height: float | None, block: _LineBuilder, style: ElementStyle
    ) -> None:
        if file.key in self._files.read_drawings:
            return
        self._files.read_drawings.add(file.key)
        try:
            source = decode(file.read())
        except ValueError:
            self.pictures.append(Picture(file.key, None, width, height))
            return
        root = self._add_page(self._files.replace_images(source), block, style)
        if root is not None and file.media_type == _SVG:
            svg = next(root.iter("svg"), root)
            width, height = width or points(svg.get("width")), height or points(svg.get("height"))
            if width is not None and height is not None:  # else it is an icon
                self.pictures.append(Picture(file.key, None, width, height))

    def _add_page(self, source: str, block: _LineBuilder, style: ElementStyle) -> Any:
        """Add the text of an embedded page. Return its root if it has neither text nor pictures."""
        if self._depth >= MAX_NESTED_PAGES:
            self.pictures.append(Picture(source, None))
            return None
        try:
            root = _parse(source)
        except Damaged:
            self.pictures.append(Picture(source, None))
            return None
        if root is None:
            return None
        page = _PageWalker(StyleResolver(root), self._files, self._depth + 1)
        inner = _LineBuilder()
        page.walk(root, inner, replace(page.initial, is_removed=not style.is_visible))
        lines = inner.lines()
        if len(lines) == 1:
            block.gap()
            block.add(lines[0], True)
            block.gap()
        elif lines:
            block.extend(lines)
        self.hidden += page.hidden
        self.struck += page.struck
        self.doubtful += page.doubtful
        self.pictures += page.pictures
        return None if lines or page.pictures or page.struck else root

    def _items(self, node: Any, style: ElementStyle, columns: int) -> list[list[list[str]]]:
        """Return the lines of each item of a flex or grid container, `columns` items to a row."""
        items: list[list[str]] = []

        def add_text(text: str | None) -> None:
            if text and text.strip():
                block = _LineBuilder()
                self._add(block, text, style)
                items.append(_non_empty_lines(block))

        add_text(node.text)
        for child in node:
            if not self._is_textless(child):
                if self._resolver.compute(child, style)[1].display is Display.CONTENTS:
                    inner, _ = self._resolver.compute(child, style)
                    items += [item for row in self._items(child, inner, 1) for item in row]
                else:
                    block = _LineBuilder()
                    self.walk(child, block, style)
                    items.append(_non_empty_lines(block))
            add_text(child.tail)
        items = [item for item in items if item]
        return [items[start : start + columns] for start in range(0, len(items), columns)]

    def _rows(self, node: Any, style: ElementStyle, is_row: bool = False) -> list[list[list[str]]]:
        """Return the rows of a table or row group, each a list of the lines of its cells.

        As in a browser, cells outside a row form a row, and other content outside a cell is a cell.
        """
        rows: list[list[list[str]]] = []
        cells: list[list[str]] = []  # outside a row

        def add_text(text: str | None) -> None:
            if text and text.strip():
                block = _LineBuilder()
                self._add(block, text, style)
                cells.append(_non_empty_lines(block))

        add_text(node.text)
        for child in node:
            if not self._is_textless(child):
                child_style, box = self._resolver.compute(child, style)
                block = _LineBuilder()
                self._add_backgrounds(child, block, child_style, box)
                if box.display is Display.CELL or (box.display is Display.CAPTION and is_row):
                    self._walk_content(child, block, child_style, box)
                    cells.append(_Cell(_non_empty_lines(block), _span(child, "colspan"), _span(child, "rowspan", 0)))
                elif box.display is Display.CAPTION:
                    self._walk_content(child, block, child_style, box)
                    rows += [cells, [_non_empty_lines(block)]]
                    cells = []
                elif child.tag == "form" and is_row:
                    cells += [cell for row in self._rows(child, child_style, is_row=True) for cell in row]
                elif not is_row and (box.display in (Display.ROW, Display.ROW_GROUP) or child.tag == "form"):
                    within = self._rows(child, child_style, box.display is Display.ROW)
                    within = within if box.display is Display.ROW else _clip_to_group(within)
                    rows += [cells, [_non_empty_lines(block)], *within]
                    cells = []
                else:
                    block = _LineBuilder()
                    self.walk(child, block, style)
                    if lines := _non_empty_lines(block):
                        cells.append(lines)
            add_text(child.tail)
        return [*rows, cells]

    def _is_textless(self, node: Any) -> bool:
        tag: Any = node.tag
        if not isinstance(tag, str) or tag in _TEXTLESS_TAGS:
            return True
        if tag == "template":
            return node.get("shadowrootmode") is None
        if tag == "input":
            return node.get("type", "").strip().lower() in ("hidden", "password")
        return tag == "option" and not self._is_chosen(node)

    def _is_chosen(self, option: Any) -> bool:
        select = next(option.iterancestors("select"), None)
        if select is None or select.get("multiple") is not None:
            return option.get("selected") is not None
        if select not in self._chosen:
            options: list[Any] = list(select.iter("option"))
            self._chosen[select] = [each for each in options if each.get("selected") is not None][-1:] or options[:1]
        return option in self._chosen[select]


class _Cell(list[str]):
    """The lines of a table cell, which fills `columns` by `rows` places of the table."""

    def __init__(self, lines: list[str], columns: int, rows: int) -> None:
        super().__init__(lines)
        self.columns = columns
        self.rows = rows


def _span(cell: Any, name: str, least: int = 1) -> int:
    written = (cell.get(name) or "").strip()
    return max(least, min(int(written), MAX_SPANNED)) if re.fullmatch(r"[0-9]{1,9}", written) else 1


def _clip_to_group(rows: list[list[list[str]]]) -> list[list[list[str]]]:
    """Return the rows of a table or row group, past which no cell reaches. A row span of 0 reaches its end."""
    left = 0
    for row in reversed(rows):
        cells = [cell for cell in row if isinstance(cell, _Cell)]
        left += bool(cells)
        for cell in cells:
            cell.rows = min(cell.rows or left, left)
    return rows


def _spread(rows: Iterable[list[list[str]]]) -> Iterator[list[list[str]]]:
    """Yield the rows with an empty cell at each place that a cell fills beside or below its own."""
    room = MAX_SPANNED
    below: dict[int, int] = {}  # rows that a cell of a row above still fills, by column
    for row in rows:
        if not any(isinstance(cell, _Cell) for cell in row):
            yield row
            continue
        cells: list[list[str]] = []
        next_below: dict[int, int] = {column: count - 1 for column, count in below.items() if count > 1}
        for cell in row:
            while len(cells) in below:
                cells.append([])
            columns, height = (cell.columns, cell.rows) if isinstance(cell, _Cell) else (1, 1)
            columns = min(columns, room + 1)
            room -= columns - 1
            if height > 1 and columns <= room:
                room -= columns
                next_below |= dict.fromkeys(range(len(cells), len(cells) + columns), height - 1)
            cells += [cell, *([[]] * (columns - 1))]
        below = next_below
        yield cells


def _align_cells(rows: Iterable[Sequence[list[str]]]) -> list[str]:
    """Return rows of cells as aligned lines.

    If the cells of a row have different numbers of lines, the table is a page layout: its cells follow each other.
    """
    lines: list[str] = []
    aligned: list[list[str]] = []
    for cells in rows:
        tall = {len(cell) for cell in cells} - {0}
        if len(tall) == 1:
            filled = [cell or [""] * max(tall) for cell in cells]
            aligned.extend([cell[index] for cell in filled] for index in range(max(tall)))
        elif tall:
            lines.extend(align(aligned))
            aligned = []
            lines.extend(line for cell in cells for line in cell)
    return [*lines, *align(aligned)]


def _non_empty_lines(block: _LineBuilder) -> list[str]:
    return [line for line in block.lines() if line]


def _begin_box(block: _LineBuilder, box: ElementBox) -> None:
    if box.display in _INLINE_DISPLAYS:
        block.gap(box.gap_before)
    else:
        block.end()


def _end_box(block: _LineBuilder, box: ElementBox) -> None:
    if box.display in _INLINE_DISPLAYS:
        block.gap(box.gap_after)
    else:
        block.end()


def _image_address(node: Any) -> str:
    """Return the URL of an image, or else the first one in its `srcset` or in the `picture` around it."""
    for name in ("src", "href", "xlink:href"):
        if address := (node.get(name) or "").strip():
            return address
    candidates = [node.get("srcset")]
    parent = node.getparent()
    if parent is not None and parent.tag == "picture":
        parent = parent[0]
    if parent is not None and parent.tag == "source":  # the parser may not treat it as an empty element
        candidates.append(parent.get("srcset"))
    return next((each.split(None, 1)[0].rstrip(",") for each in candidates if each and each.strip()), "")


def _offset_pixels(text: str | None, style: ElementStyle) -> float:
    match = _OFFSET.match(text or "")
    return float(match[1]) * (style.font_pixels if match[2] else 1) if match else 0.0


def _from_base64(text: str) -> bytes:
    return base64.b64decode(unquote(text))
