"""HTML: the text that a person sees, line by line, with table rows as rows. Nothing is fetched, and no script runs."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from functools import partial
from typing import Any
from urllib.parse import unquote

import lxml.etree  # pyright: ignore[reportMissingTypeStubs]

from fieldmark.documents.reading.formula import gap, mathml_line
from fieldmark.documents.reading.html_hidden import Visibility, VisibilityResolver
from fieldmark.documents.reading.list_numbers import write_number
from fieldmark.documents.reading.pages import clean
from fieldmark.documents.reading.pagination import Part, align, superscript
from fieldmark.documents.reading.pictures import Picture, points
from fieldmark.documents.reading.text import decode, encoding_warnings
from fieldmark.errors import Damaged

etree: Any = lxml.etree  # pyright: ignore

_TEXTLESS_TAGS = frozenset(
    """script style template noscript title meta link desc metadata defs annotation iframe object embed audio video
    canvas map datalist""".split()  # noqa: SIM905
)
_INLINE_TAGS = frozenset(
    """a abbr acronym b bdi bdo big button cite code data del dfn em font i img input ins kbd label mark nobr optgroup
    option output q s samp select small span strike strong sub sup time tspan tt u var wbr
    math""".split()  # noqa: SIM905
)
_EMBEDDED = re.compile(
    r"""((?<=["'])data:image/[a-z.+-]{1,30};base64,)([a-z0-9+/=%\s]++)(?=["'])"""
    r"|(data:image/[a-z.+-]{1,30};base64,)([a-z0-9+/=%]++)",
    re.I,
)
_TAKEN_OUT = re.compile(r"data:image/[a-z.+-]{1,30};base64,(\d{1,9})", re.I)
_CHARSET = re.compile(rb"<meta[^>]{0,300}?charset\s*=\s*[\"']?([A-Za-z0-9_.:-]{2,40})", re.I)
_PROLOGUE = re.compile(r"\A\s*<\?xml[^>]*>")


def html_parts(data: bytes) -> list[Part]:
    """The lines of an HTML file."""
    match = _CHARSET.search(data[:4096])
    declared = match[1].decode("ascii") if match else None
    if declared and declared.lower().startswith("utf-16"):
        declared = "utf-8"  # it could not be read otherwise
    part = html_lines(decode(data, declared))
    part.warnings += encoding_warnings(data, declared, part)
    return [part]


def html_lines(text: str) -> Part:
    """The lines of HTML that a person can see, with the hidden words. Raises Unreadable."""
    parser: Any = etree.HTMLParser(
        encoding="utf-8", no_network=True, remove_comments=True, remove_pis=True, huge_tree=False
    )
    embedded: list[str] = []  # the base64 of images, of which the parser takes 10 MB at most

    def take_out(match: re.Match[str]) -> str:
        embedded.append(match[2] or match[4])
        return f"{match[1] or match[3]}{len(embedded) - 1}"

    source = _EMBEDDED.sub(take_out, _PROLOGUE.sub("", text).replace("\0", ""))
    try:
        root: Any = etree.fromstring(source.encode("utf-8", "replace"), parser)
    except etree.XMLSyntaxError as error:
        raise Damaged("The HTML is damaged: it cannot be parsed.") from error
    if root is None:
        return Part()
    page = _Page(VisibilityResolver(root), embedded)
    block = _Block()
    page.walk(root, block, False, page.initial)
    return Part(block.lines(), page.hidden, (), page.pictures, page.struck)


class _Block:
    def __init__(self) -> None:
        self._lines: list[str] = []
        self.open_line = ""

    def add(self, text: str, keep_space: bool) -> None:
        if keep_space:
            head, *rest = text.split("\n")
            self.open_line += head
            for line in rest:
                self.end(blank=True)
                self.open_line = line
            return
        words = " ".join(text.split())
        if text[:1].isspace() and self.open_line and not self.open_line.endswith(" "):
            self.open_line += " "
        self.open_line += words
        if words and text[-1].isspace():
            self.open_line += " "

    def end(self, blank: bool = False) -> None:
        if self.open_line.strip() or blank:
            self._lines.append(self.open_line.rstrip())
        self.open_line = ""

    def extend(self, lines: Sequence[str]) -> None:
        self.end()
        self._lines.extend(lines)

    def lines(self) -> list[str]:
        self.end()
        return self._lines


class _Page:
    """Walks through a page. The words of hidden text are collected in `hidden`."""

    def __init__(self, resolver: VisibilityResolver, embedded: Sequence[str]) -> None:
        self._embedded = embedded
        self.pictures: list[Picture] = []
        self._resolver = resolver
        self.initial = resolver.initial
        self.hidden: list[str] = []
        self.struck: list[str] = []
        self._numbers: dict[Any, int] = {}  # of the last item of each list
        self._in_formulas: dict[Any, Visibility] = {}

    def walk(self, node: Any, block: _Block, keep_space: bool, parent: Visibility) -> None:
        tag: Any = node.tag
        if not isinstance(tag, str) or tag in _TEXTLESS_TAGS:
            return
        if tag == "input" and node.get("type", "").lower() in ("hidden", "password"):
            return
        if tag == "option" and not _is_chosen(node):
            return
        visibility = self._resolver.compute(node, parent)
        if tag == "br":
            block.end(blank=visibility.is_visible)
            return
        if tag == "table":
            block.extend(self._table(node, visibility))
            return
        if tag == "math":
            formula = self._formula(node, visibility)
            block.open_line += gap(block.open_line, formula) + formula
            return
        if tag == "input" and node.get("type", "").lower() in ("checkbox", "radio"):
            self._add(block, f" {'☐' if node.get('checked') is None else '☒'} ", False, visibility)
        if tag in ("input", "button") and node.get("value") and node.get("type", "text") not in ("checkbox", "radio"):
            self._add(block, f" {node.get('value')} ", False, visibility)
        if tag in ("img", "image"):
            self._add(block, f" {node.get('alt') or ''} ", False, visibility)
            if visibility.is_visible and (picture := self._picture(node)):
                self.pictures.append(picture)
        keep_space = keep_space or tag in ("pre", "textarea")
        inline = tag in _INLINE_TAGS
        if not inline:
            block.end()
        if tag == "li" and visibility.is_visible:
            block.add(f"{self._item_mark(node)} ", True)
        self._inside(node, block, keep_space, visibility)
        if tag in ("td", "th", "dt"):
            block.add("  ", True)  # outside a table, as in a broken one
        elif not inline:
            block.end()

    def _inside(self, node: Any, block: _Block, keep_space: bool, visibility: Visibility) -> None:
        self._add(block, node.text, keep_space, visibility)
        for child in node:
            self.walk(child, block, keep_space, visibility)
            if child.tag == "math" and child.tail:
                block.open_line += gap(block.open_line, child.tail)
            self._add(block, child.tail, keep_space, visibility)

    def _formula(self, formula: Any, visibility: Visibility) -> str:
        self._in_formulas[formula] = visibility

        def within(node: Any) -> Visibility:
            if node not in self._in_formulas:
                self._in_formulas[node] = self._resolver.compute(node, within(node.getparent()))
            return self._in_formulas[node]

        def token(node: Any) -> str:
            block = _Block()
            if node is formula:
                self._inside(node, block, False, visibility)
            else:
                self.walk(node, block, False, within(node.getparent()))
            return " ".join(block.lines())

        return mathml_line(formula, token)

    def _add(self, block: _Block, text: str | None, keep_space: bool, visibility: Visibility) -> None:
        if text and visibility.is_visible and visibility.is_struck:
            self.struck.extend(clean(text).split())
        elif text and visibility.is_visible and visibility.script:
            block.add(superscript(text, block.open_line, is_lowered=visibility.script < 0), keep_space)
        elif text and visibility.is_visible:
            block.add(text, keep_space)
        elif text:
            self.hidden.extend(clean(text).split())

    def _item_mark(self, item: Any) -> str:
        parent = item.getparent()
        if parent is None or parent.tag != "ol":
            return "•"
        given = item.get("value") or (parent.get("start") if parent not in self._numbers else None)
        number = int(given) if given and re.fullmatch(r"-?\d{1,6}", given) else self._numbers.get(parent, 0) + 1
        self._numbers[parent] = number
        kind = parent.get("type") or "1"
        return f"{write_number(number, kind if kind in ('1', 'a', 'A', 'i', 'I') else '1')}."

    def _picture(self, node: Any) -> Picture | None:
        source = (node.get("src") or node.get("href") or node.get("xlink:href") or "").strip()
        width, height = (points(node.get(side)) for side in ("width", "height"))
        if not source or source.lower().startswith(("cid:", "data:image/svg")):
            return None  # a mail's own pictures come with it, and what is drawn in place is an icon
        if match := _TAKEN_OUT.fullmatch(source):
            number = int(match[1])
            if number < len(self._embedded):
                content = self._embedded[number]
                return Picture(
                    hashlib.sha256(content.encode()).hexdigest(), partial(_from_base64, content), width, height
                )
        return Picture(source, None, width, height)

    def _table(self, table: Any, visibility: Visibility) -> list[str]:
        """The rows of a table as aligned lines.

        If the cells of a row differ in their number of lines, the table lays out the page: its cells follow each other.
        """
        lines: list[str] = []
        rows: list[list[str]] = []
        for row, around in self._rows(table, visibility):
            cells: list[list[str]] = []
            for cell in row:
                if isinstance(cell.tag, str) and cell.tag in ("td", "th", "caption"):
                    block = _Block()
                    self._inside(cell, block, False, self._resolver.compute(cell, around))
                    cells.append([line for line in block.lines() if line])
            tall = {len(cell) for cell in cells} - {0}
            if len(tall) == 1:
                filled = [cell or [""] * max(tall) for cell in cells]
                rows.extend([cell[index] for cell in filled] for index in range(max(tall)))
            elif tall:
                lines.extend(align(rows))
                rows = []
                lines.extend(line for cell in cells for line in cell)
        return [*lines, *align(rows)]

    def _rows(self, table: Any, visibility: Visibility) -> list[tuple[Any, Visibility]]:
        found: list[tuple[Any, Visibility]] = []
        for child in table:
            if not isinstance(child.tag, str):
                continue
            own = self._resolver.compute(child, visibility)
            if child.tag == "tr":
                found.append((child, own))
            elif child.tag in ("thead", "tbody", "tfoot"):
                found.extend((row, self._resolver.compute(row, own)) for row in child if row.tag == "tr")
            elif child.tag == "caption":
                found.append(([child], visibility))
        return found


def _from_base64(text: str) -> bytes:
    return base64.b64decode(unquote(text))


def _is_chosen(option: Any) -> bool:
    lists: list[Any] = list(option.iterancestors("select"))
    if not lists or lists[0].get("multiple") is not None:
        return option.get("selected") is not None
    options: list[Any] = list(lists[0].iter("option"))
    chosen = [each for each in options if each.get("selected") is not None]
    return option is (chosen[-1] if chosen else options[0])
