"""Paginate lines of text, for documents without pages of their own, on a grid of equally wide characters."""

from __future__ import annotations

import re
import unicodedata
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from pagewords.errors import OverLimit
from pagewords.layout import make_page
from pagewords.pages import Limits, Page, PlacedWord, Word, clean
from pagewords.pictures import Picture, PictureChooser
from pagewords.reading_warnings import MAX_EXCERPT, ReadingWarning, WarningCode

# Points. Characters of 10-point Courier are 6 points wide, so the boxes match the drawn page.
CHARACTER, LINE, MARGIN, FONT_SIZE = 6.0, 12.0, 36.0, 10.0
WIDTH, HEIGHT = 595.0, 842.0  # A4; larger if the lines need it
COLUMNS = int((WIDTH - 2 * MARGIN) / CHARACTER)
MAX_COLUMNS = 200
PAGE_CHARACTERS = 4000
PAGE_ROWS = 150
MAX_ROW_CHARACTERS = 160  # a wider row of a sheet is wrapped
_GUESSED_CONFIDENCE = 0.9  # in letters beyond ASCII of an uncertain encoding
MAX_CELL = 40  # characters; a longer cell does not widen its column

_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
_TOKEN = re.compile(r"(\s*)(\S+)")


class Part(list[str]):
    """The lines of one part of a document, with its pictures and warnings, and the words that are left out of the
    lines. Left-out words are hidden or struck out. Doubtful words are in the lines, and may not be seen. The warnings
    have no page yet: they get the part's first page."""

    def __init__(
        self,
        lines: Iterable[str] = (),
        hidden: Iterable[str] = (),
        warnings: Iterable[ReadingWarning] = (),
        pictures: Iterable[Picture] = (),
        struck: Iterable[str] = (),
        doubtful: Iterable[str] = (),
    ) -> None:
        super().__init__(lines)
        self.hidden = list(hidden)
        self.warnings = list(warnings)
        self.pictures = list(pictures)
        self.struck = list(struck)
        self.doubtful = list(doubtful)

    def add_words_of(self, other: Part) -> None:
        """Add the words that another part counts, but not its lines."""
        self.hidden += other.hidden
        self.struck += other.struck
        self.doubtful += other.doubtful


class Pages(list[Page]):
    """The text pages of a document. `pictures` are its other pages: image files by page number."""

    def __init__(self) -> None:
        super().__init__()
        self.pictures: dict[int, bytes] = {}


def paginate(parts: Iterable[Sequence[str]], engine: str, limits: Limits) -> Pages:
    """Return pages of about 4,000 characters. Each part starts on a new page, followed by its pictures. The text keeps
    its lines. If a line is wider than the page, its words are placed on several rows."""
    pages: list[Page] = []
    hidden: list[str] = []
    warnings: list[ReadingWarning] = []
    chooser = PictureChooser(limits)
    pictures: list[tuple[int, bytes]] = []  # (number of text pages before it, image file)
    is_guessed = False
    for part in parts:
        lines = [clean(line).rstrip() for line in part]
        chosen: list[bytes] = []
        if isinstance(part, Part):
            hidden += part.hidden
            is_guessed |= any(one.code is WarningCode.UNCERTAIN_ENCODING for one in part.warnings)
            chosen, unread = chooser.choose(part.pictures)
            warnings += [
                *part.warnings,
                *([pictures_not_read_warning(unread)] if unread else []),
                *_words_warning(WarningCode.MAY_BE_HIDDEN, part.doubtful),
                *struck_out_warning(part.struck),
            ]
        for page in _pages(lines, len(pages) + 1, engine):
            # Warnings about a part go to its first page, or to the next page if the part has no lines.
            page_warnings = tuple(replace(warning, page=page.number) for warning in warnings)
            read = replace(page, words=[*map(_guessed, page.words)]) if is_guessed else page
            pages.append(replace(read.with_hidden_words(hidden), warnings=page_warnings))
            hidden, warnings = [], []
            if len(pages) > limits.max_pages:
                raise OverLimit(
                    f"The document's text fills more than {limits.max_pages} pages: split it into smaller files, or "
                    "raise FIELDMARK_MAX_PAGES where the service runs."
                )
        pictures += [(len(pages), content) for content in chosen]
    if len(pages) + len(pictures) > limits.max_pages:
        warnings.append(pictures_not_read_warning(len(pages) + len(pictures) - limits.max_pages))
        pictures = pictures[: limits.max_pages - len(pages)]
    if pages:
        last = pages[-1].with_hidden_words(hidden)
        page_warnings = tuple(replace(warning, page=last.number) for warning in warnings)
        pages[-1] = replace(last, warnings=(*last.warnings, *page_warnings))
    return _insert_pictures(pages, pictures)


def _guessed(word: Word) -> Word:
    return word if word.text.isascii() else word._replace(confidence=_GUESSED_CONFIDENCE)


def struck_out_warning(words: Sequence[str], page: int | None = None) -> list[ReadingWarning]:
    """Return the warning about struck-out words, if there are any."""
    return _words_warning(WarningCode.STRUCK_OUT, words, page)


def _words_warning(code: WarningCode, words: Sequence[str], page: int | None = None) -> list[ReadingWarning]:
    excerpt = " ".join(words[:MAX_EXCERPT])[:MAX_EXCERPT].strip()
    return [ReadingWarning(code, page, len(words), excerpt)] if words else []


def pictures_not_read_warning(count: int, page: int | None = None) -> ReadingWarning:
    return ReadingWarning(WarningCode.PICTURES_NOT_READ, page, count)


def _insert_pictures(pages: Sequence[Page], pictures: Sequence[tuple[int, bytes]]) -> Pages:
    """Number all pages: each picture follows the text pages that precede it."""
    numbered = Pages()
    left = deque(pictures)
    for count, page in enumerate([*pages, None]):
        while left and (left[0][0] <= count or page is None):
            numbered.pictures[len(numbered) + len(numbered.pictures) + 1] = left.popleft()[1]
        if page is not None:
            numbered.append(page.renumbered(len(numbered) + len(numbered.pictures) + 1))
    return numbered


def align(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return table rows as lines of text, with aligned columns at least two spaces apart."""
    table = [[" ".join(clean(cell).splitlines()).strip() for cell in row] for row in rows]
    widths: list[int] = []
    for row in table:
        widths += [0] * (len(row) - len(widths))
        for column, cell in enumerate(row):
            widths[column] = max(widths[column], min(_width_in_characters(cell), MAX_CELL))
    lines: list[str] = []
    for row in table:
        pieces: list[str] = []
        column = end = 0
        for width, cell in zip(widths, row, strict=False):
            if cell:
                gap = max(column - end, 2 if pieces else 0)
                pieces.append(" " * gap + cell)
                end += gap + _width_in_characters(cell)
            column += width + 3 if width else 0
        lines.append("".join(pieces))
    return lines


def row_lines(cells: Iterable[tuple[str, str]]) -> list[str]:
    """Return a row of a sheet as lines of `A1: value`, from the addresses and values of its cells."""
    lines: list[str] = []
    for address, value in cells:
        item = f"{address}: {value}"
        if lines and len(lines[-1]) + len(item) <= MAX_ROW_CHARACTERS:
            lines[-1] += f"   {item}"
        else:
            lines.append(item)
    return lines


def superscript(text: str, before: str, *, is_lowered: bool = False) -> str:
    """Return a raised or lowered text so that its digits don't merge with a number before it: `100¹`, `12⁹⁹`, `¹250`,
    but `m2`."""
    return text if before[-1:].isalpha() else text.translate(_SUBSCRIPTS if is_lowered else _SUPERSCRIPTS)


def expand_tabs(line: str) -> str:
    """Return the line with each tab as spaces up to the next eighth column, at least two."""
    head, *rest = line.split("\t")
    for field in rest:
        head += " " * max(2, 8 - len(head) % 8) + field
    return head


def _width_in_characters(text: str) -> int:
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def _pages(lines: list[str], first: int, engine: str) -> Iterator[Page]:
    # Widen the page for lines with columns, instead of wrapping them.
    columns = max([COLUMNS, *(min(_width_in_characters(line), MAX_COLUMNS) for line in lines if "  " in line.lstrip())])
    number, builder = first, _PageBuilder(columns)
    for line in lines:
        if builder.is_full(len(line) if len(line) < PAGE_CHARACTERS else 0):
            yield builder.build(number, engine)
            number, builder = number + 1, _PageBuilder(columns)
        if not line and builder.is_empty:
            continue
        builder.start_line()
        for spaces, token in _tokens(line):
            if builder.is_full(len(spaces) + len(token)):
                yield builder.build(number, engine)
                number, builder = number + 1, _PageBuilder(columns)
                builder.start_line()
            builder.add(spaces, token)
    if not builder.is_empty:
        yield builder.build(number, engine)


def _tokens(line: str) -> Iterator[tuple[str, str]]:
    """Yield the words of a line with their preceding space. Words longer than half a page are split."""
    for match in _TOKEN.finditer(line):
        spaces, token = match.groups()
        for start in range(0, len(token), PAGE_CHARACTERS // 2):
            yield spaces if start == 0 else " ", token[start : start + PAGE_CHARACTERS // 2]


class _PageBuilder:
    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._text: list[str] = []
        self._words: list[PlacedWord] = []
        self._characters = 0
        self._row = -1
        self._column = 0

    @property
    def is_empty(self) -> bool:
        return not self._words

    def is_full(self, characters: int) -> bool:
        """Return whether the page has no room for this many more characters. An empty page always has room."""
        return not self.is_empty and (self._row + 1 >= PAGE_ROWS or self._characters + characters > PAGE_CHARACTERS)

    def start_line(self) -> None:
        self._text.append("")
        self._row += 1
        self._column = 0

    def add(self, spaces: str, token: str) -> None:
        width = _width_in_characters(token)
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
        self._words.append(PlacedWord(token, x, y, right, y + rows * LINE))
        self._row += rows - 1
        self._column = self._columns if rows > 1 else self._column + width

    def build(self, number: int, engine: str) -> Page:
        width = max(WIDTH, 2 * MARGIN + self._columns * CHARACTER)
        height = max(HEIGHT, 2 * MARGIN + (self._row + 1) * LINE)
        return make_page(number, width, height, "\n".join(self._text).rstrip(), self._words, engine)
