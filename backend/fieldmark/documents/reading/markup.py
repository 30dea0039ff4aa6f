"""HTML: the text a reader would see, line by line, with table rows as rows. Nothing is fetched and no script runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import lxml.etree  # pyright: ignore[reportMissingTypeStubs]

from fieldmark.documents.reading.grid import align
from fieldmark.documents.reading.text import decode
from fieldmark.errors import Unreadable

etree: Any = lxml.etree  # pyright: ignore

_HIDDEN_TAGS = frozenset(
    """script style template noscript head title meta link svg math iframe object embed audio video canvas map datalist
    select""".split()  # noqa: SIM905
)
_INLINE_TAGS = frozenset(
    """a abbr acronym b bdi bdo big button cite code data del dfn em font i img input ins kbd label mark nobr output q s
    samp small span strike strong sub sup time tt u var wbr""".split()  # noqa: SIM905
)
_HIDDEN_STYLE = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)|font-size\s*:\s*0(?![.\d]*[1-9])|opacity\s*:\s*0(?![.\d]*[1-9])",
    re.I,
)
_CHARSET = re.compile(rb"<meta[^>]{0,300}?charset\s*=\s*[\"']?([A-Za-z0-9_.:-]{2,40})", re.I)
_PROLOGUE = re.compile(r"\A\s*<\?xml[^>]*>")


def html_parts(data: bytes) -> list[Sequence[str]]:
    """The lines of an HTML file."""
    declared = _CHARSET.search(data[:4096])
    return [html_lines(decode(data, declared[1].decode("ascii") if declared else None))]


def html_lines(text: str) -> list[str]:
    """The visible lines of HTML. Hidden means by tag, attribute or inline style; style sheets are not applied."""
    parser: Any = etree.HTMLParser(
        encoding="utf-8", no_network=True, remove_comments=True, remove_pis=True, huge_tree=False
    )
    source = _PROLOGUE.sub("", text).replace("\0", "")
    try:
        root: Any = etree.fromstring(source.encode("utf-8", "replace"), parser)
    except etree.XMLSyntaxError as error:
        raise Unreadable("The HTML is damaged: it cannot be parsed.") from error
    if root is None:
        return []
    block = _Block()
    _walk(root, block, keep_space=False)
    return block.lines()


class _Block:
    """Lines in the making: text runs on until something ends the line."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._open = ""

    def add(self, text: str, keep_space: bool) -> None:
        if keep_space:
            head, *rest = text.split("\n")
            self._open += head
            for line in rest:
                self.end(blank=True)
                self._open = line
            return
        words = " ".join(text.split())
        if text[:1].isspace() and self._open and not self._open.endswith(" "):
            self._open += " "
        self._open += words
        if words and text[-1].isspace():
            self._open += " "

    def end(self, blank: bool = False) -> None:
        if self._open.strip() or blank:
            self._lines.append(self._open.rstrip())
        self._open = ""

    def extend(self, lines: Sequence[str]) -> None:
        self.end()
        self._lines.extend(lines)

    def lines(self) -> list[str]:
        self.end()
        return self._lines


def _walk(node: Any, block: _Block, keep_space: bool) -> None:
    tag: Any = node.tag
    if not isinstance(tag, str) or tag in _HIDDEN_TAGS or _hidden(node):
        return
    if tag == "br":
        block.end(blank=True)
        return
    if tag == "table":
        block.extend(_table(node))
        return
    if tag in ("input", "button") and node.get("value") and node.get("type", "text") not in ("checkbox", "radio"):
        block.add(f" {node.get('value')} ", False)
    if tag == "img" and node.get("alt"):
        block.add(f" {node.get('alt')} ", False)
    keep_space = keep_space or tag in ("pre", "textarea")
    inline = tag in _INLINE_TAGS
    if not inline:
        block.end()
    if tag == "li":
        block.add("• ", True)
    if node.text:
        block.add(node.text, keep_space)
    for child in node:
        _walk(child, block, keep_space)
        if child.tail:
            block.add(child.tail, keep_space)
    if tag in ("td", "th", "dt"):
        block.add("  ", True)  # outside a table, as in a broken one
    elif not inline:
        block.end()


def _hidden(node: Any) -> bool:
    if node.get("hidden") is not None:
        return True
    if node.tag == "input" and node.get("type", "").lower() in ("hidden", "password"):
        return True
    style = node.get("style")
    return bool(style and _HIDDEN_STYLE.search(style))


def _table(table: Any) -> list[str]:
    """Rows as aligned lines. Where cells differ in lines, a table lays out the page: one cell comes after the other."""
    lines: list[str] = []
    rows: list[list[str]] = []
    for row in _rows(table):
        cells: list[list[str]] = []
        for cell in row:
            if isinstance(cell.tag, str) and cell.tag in ("td", "th", "caption") and not _hidden(cell):
                block = _Block()
                if cell.text:
                    block.add(cell.text, False)
                for child in cell:
                    _walk(child, block, False)
                    if child.tail:
                        block.add(child.tail, False)
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


def _rows(table: Any) -> list[Any]:
    found: list[Any] = []
    for child in table:
        if not isinstance(child.tag, str) or _hidden(child):
            continue
        if child.tag == "tr":
            found.append(child)
        elif child.tag in ("thead", "tbody", "tfoot"):
            found.extend(row for row in child if row.tag == "tr" and not _hidden(row))
        elif child.tag == "caption":
            found.append([child])
    return found
