"""From lines of text to pages: documents without pages of their own are set in a grid of equally wide characters."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence

from fieldmark.documents.reading.layout import place
from fieldmark.documents.reading.pages import Limits, Page, Piece, clean
from fieldmark.errors import Unreadable

# Points. 10-point Courier is 6 wide, so that a drawn page and its boxes agree.
CHARACTER, LINE, MARGIN, FONT_SIZE = 6.0, 12.0, 36.0, 10.0
WIDTH, HEIGHT = 595.0, 842.0  # A4, or more where the lines need it
COLUMNS = int((WIDTH - 2 * MARGIN) / CHARACTER)
MAX_COLUMNS = 200
PAGE_CHARACTERS = 4000
PAGE_ROWS = 150
MAX_CELL = 40  # a longer cell does not push the columns after it apart on every other line

_TOKEN = re.compile(r"(\s*)(\S+)")


class Part(list[str]):
    """The lines of a part of a document, and the words left out of them because a person cannot see them."""

    def __init__(self, lines: Iterable[str] = (), hidden: Iterable[str] = ()) -> None:
        super().__init__(lines)
        self.hidden = list(hidden)


def typeset(parts: Iterable[Sequence[str]], engine: str, limits: Limits) -> list[Page]:
    """Set lines as pages of about 4,000 characters; each part starts on a new page.

    The text keeps its lines; only the boxes follow the wrapping of a line that is too long for the page.
    """
    pages: list[Page] = []
    hidden: list[str] = []
    for part in parts:
        lines = [clean(line).rstrip() for line in part]
        hidden += part.hidden if isinstance(part, Part) else ()
        for page in _pages(lines, len(pages) + 1, engine):
            # What a part hides is told of its first page; what one without lines hides, of the next that there is.
            pages.append(page.leaving_out(hidden))
            hidden = []
            if len(pages) > limits.max_pages:
                raise Unreadable(f"The document's text fills more pages than the limit of {limits.max_pages}.")
    if hidden and pages:
        pages[-1] = pages[-1].leaving_out(hidden)
    return pages


def align(rows: Sequence[Sequence[str]]) -> list[str]:
    """Table rows as lines whose columns stand under each other, at least two spaces apart."""
    cells = [[" ".join(clean(cell).splitlines()).strip() for cell in row] for row in rows]
    widths: list[int] = []
    for row in cells:
        widths += [0] * (len(row) - len(widths))
        for column, cell in enumerate(row):
            widths[column] = max(widths[column], min(_width(cell), MAX_CELL))
    lines: list[str] = []
    for row in cells:
        line, column = "", 0
        for width, cell in zip(widths, row, strict=False):
            if cell:
                line += " " * max(column - _width(line), 2 if line.strip() else 0) + cell
            column += width + 3 if width else 0
        lines.append(line)
    return lines


def expand_tabs(line: str) -> str:
    """Tabs as the spaces to the next of every eighth column, never fewer than two."""
    head, *rest = line.split("\t")
    for field in rest:
        head += " " * max(2, 8 - len(head) % 8) + field
    return head


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def _pages(lines: list[str], first: int, engine: str) -> Iterator[Page]:
    # A line with columns in it should not be wrapped if a wider page can hold it.
    columns = max([COLUMNS, *(min(_width(line), MAX_COLUMNS) for line in lines if "  " in line.lstrip())])
    number, sheet = first, _Sheet(columns)
    for line in lines:
        if sheet.full(len(line) if len(line) < PAGE_CHARACTERS else 0):
            yield sheet.page(number, engine)
            number, sheet = number + 1, _Sheet(columns)
        if not line and sheet.empty:
            continue
        sheet.start_line()
        for spaces, token in _tokens(line):
            if sheet.full(len(spaces) + len(token)):
                yield sheet.page(number, engine)
                number, sheet = number + 1, _Sheet(columns)
                sheet.start_line()
            sheet.put(spaces, token)
    if not sheet.empty:
        yield sheet.page(number, engine)


def _tokens(line: str) -> Iterator[tuple[str, str]]:
    """The words of a line, each with the space before it; what is longer than half a page is cut."""
    for match in _TOKEN.finditer(line):
        spaces, token = match.groups()
        for start in range(0, len(token), PAGE_CHARACTERS // 2):
            yield spaces if start == 0 else " ", token[start : start + PAGE_CHARACTERS // 2]


class _Sheet:
    """A page while it is being set."""

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._text: list[str] = []
        self._pieces: list[Piece] = []
        self._characters = 0
        self._row = -1
        self._column = 0

    @property
    def empty(self) -> bool:
        return not self._pieces

    def full(self, more: int) -> bool:
        """Whether the page, if it holds anything, has no room for `more` characters."""
        return not self.empty and (self._row + 1 >= PAGE_ROWS or self._characters + more > PAGE_CHARACTERS)

    def start_line(self) -> None:
        self._text.append("")
        self._row += 1
        self._column = 0

    def put(self, spaces: str, token: str) -> None:
        width = _width(token)
        self._text[-1] += spaces + token
        self._characters += len(spaces) + len(token)
        self._column += len(spaces)
        if self._column + width > self._columns and self._column > 0:
            self._row += 1
            self._column = 0
        # A token longer than the page is wide fills whole rows; its box covers them all.
        rows = max(1, -(-width // self._columns))
        x, y = MARGIN + self._column * CHARACTER, MARGIN + self._row * LINE
        right = MARGIN + self._columns * CHARACTER if rows > 1 else x + width * CHARACTER
        self._pieces.append(Piece(token, x, y, right, y + rows * LINE))
        self._row += rows - 1
        self._column = self._columns if rows > 1 else self._column + width

    def page(self, number: int, engine: str) -> Page:
        width = max(WIDTH, 2 * MARGIN + self._columns * CHARACTER)
        height = max(HEIGHT, 2 * MARGIN + (self._row + 1) * LINE)
        return place(number, width, height, "\n".join(self._text).rstrip(), self._pieces, engine)
