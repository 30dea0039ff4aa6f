"""Printed lines that look like rows of a list and are in none of its items. Only a hint: no value depends on it."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Final

from valuegrounding.evidence import UnmappedValue
from valuegrounding.found_values import row_of
from valuegrounding.list_checks import TOTAL
from valuegrounding.page import Box
from valuegrounding.paths import Path
from valuegrounding.unmapped import numbers_and_dates_on
from valuegrounding.word_index import WordIndex

MAX_ROWS: Final = 50
"""Lines that are returned."""

_MIN_ROWS: Final = 3  # of a page, that show where the columns are
_MIN_COLUMNS: Final = 2
_MOST_ROWS: Final = 2_000  # of a list on a page
_USUAL: Final = 0.8  # of the rows have a value in a column
_EDGE: Final = 0.01  # of the page's width
_REACH: Final = 1.6  # rows, from one to the next
_SAME_LINE: Final = 0.45  # of the height of a word
_SELECTION: Final = 0.25  # of the rows: if more lines are left out, the list is a selection of them
_NUMBER = re.compile(
    r"[(+\-−<]{0,3}[^\w\s]{0,2}\s?[A-Z]{0,3}\s?[+\-−]?\d[\d.,'’ \u00a0]{0,40}\s?[)>%\-]?\s?[^\w\s]{0,2}[A-Z]{0,3}"
)
_DAY = re.compile(r"\d{1,4}\.\d{1,2}\.\d{1,4}")
_CENTS = re.compile(r"[.,]\d\d(?!\d)")


@dataclass(frozen=True, slots=True)
class LocatedValue:
    """A value of an extraction with its location and its text as printed."""

    path: Path
    page: int
    boxes: Sequence[Box]
    quote: str


@dataclass(frozen=True, slots=True)
class PrintedCell:
    """The text of a line in a column. `value`: the number, or the date as YYYY-MM-DD, if the text is one."""

    text: str
    value: UnmappedValue


@dataclass(frozen=True, slots=True)
class MissingRow:
    """A printed line that looks like a row of the list at `path` and is in no item. `cells` is keyed by the path below
    the item."""

    path: Path
    page: int
    box: Box
    text: str
    cells: Mapping[Path, PrintedCell]


@dataclass(slots=True)
class _Cell:
    box: Box
    quote: str

    @property
    def middle(self) -> float:
        return (self.box[1] + self.box[3]) / 2


@dataclass(slots=True)
class _Column:
    """Where the cells of a column are on a page, and what they look like: `shape` is of most of them."""

    name: Path
    left: float
    right: float
    edges: Mapping[int, float]  # that its cells share: at 0 the left, at 2 the right one, as in a box
    shape: tuple[bool, bool, bool] | None
    is_usual: bool

    @classmethod
    def of(cls, name: Path, cells: Sequence[_Cell], rows: int) -> _Column:
        edges = {side: median(one.box[side] for one in cells) for side in (0, 2)}
        counts = {side: sum(abs(one.box[side] - at) <= _EDGE for one in cells) for side, at in edges.items()}
        most = max(counts.values())
        shared = {side: at for side, at in edges.items() if counts[side] == most >= _USUAL * len(cells)}
        shape, count = Counter(_shape(one.quote) for one in cells).most_common(1)[0]
        return cls(
            name,
            min(one.box[0] for one in cells),
            max(one.box[2] for one in cells),
            shared,
            shape if count >= _USUAL * len(cells) else None,
            len({one.box for one in cells}) >= _USUAL * rows,
        )

    @property
    def is_number(self) -> bool:
        return self.shape is not None and self.shape[0]

    def words_in(self, index: WordIndex, line: Sequence[int]) -> list[int]:
        """Return the words of a line in this column, or none if they do not look like the column's other cells."""
        low, high = 2 * (self.left - _EDGE), 2 * (self.right + _EDGE)
        own = [at for at in line if low <= index.words[at][1] + index.words[at][3] <= high]
        if not own:
            return []
        text, box = _text(index, own), _box(index, own)
        is_placed = not self.edges or any(abs(box[side] - at) <= _EDGE for side, at in self.edges.items())
        is_alike = self.shape is None or self.shape == _shape(text)
        return own if is_placed and is_alike and any(map(str.isalnum, text)) else []


def _shape(text: str) -> tuple[bool, bool, bool]:
    """Return whether a text is a number, has two decimals, and is a day."""
    is_number = _NUMBER.fullmatch(text.strip()) is not None
    return is_number, is_number and _CENTS.search(text) is not None, _DAY.search(text) is not None


def missing_rows(index: WordIndex, values: Iterable[LocatedValue]) -> list[MissingRow]:
    """Return the printed lines that look like rows of the lists that `values` are in, and that no value covers."""
    cells: defaultdict[tuple[Path, int], defaultdict[Path, dict[Path, _Cell]]] = defaultdict(lambda: defaultdict(dict))
    covered: defaultdict[int, list[Box]] = defaultdict(list)
    for one in values:
        covered[one.page] += one.boxes
        row = row_of(one.path)
        if row and row != one.path and len(one.boxes) == 1:
            cells[row[:-1], one.page][row][one.path[len(row) :]] = _Cell(one.boxes[0], one.quote)
    pages = {number: at for at, number in enumerate(index.pages)}
    free_lines: dict[int, list[list[int]]] = {}
    counts: Counter[Path] = Counter()
    found: defaultdict[Path, list[MissingRow]] = defaultdict(list)
    for (path, page), rows in cells.items():
        if page not in pages:
            continue
        counts[path] += len(rows)
        if page not in free_lines:
            lines = _lines(index, pages[page])
            free_lines[page] = [line for line in lines if not _is_covered(index, line, covered[page])]
        found[path] += _on_page(index, path, page, list(rows.values())[:_MOST_ROWS], free_lines[page])
    return [one for path, some in found.items() if len(some) <= max(1, _SELECTION * counts[path]) for one in some][
        :MAX_ROWS
    ]


def _on_page(
    index: WordIndex, path: Path, page: int, rows: Sequence[Mapping[Path, _Cell]], lines: Sequence[Sequence[int]]
) -> Iterator[MissingRow]:
    rows = [row for row in rows if len(row) >= _MIN_COLUMNS]
    if len(rows) < _MIN_ROWS:
        return
    names = {name: None for row in rows for name in row}
    columns = [_Column.of(name, [row[name] for row in rows if name in row], len(rows)) for name in names]
    usual = [one for one in columns if one.is_usual]
    if len(usual) < _MIN_COLUMNS or len({one.is_number for one in usual}) < 2:
        return
    heights = sorted(median(cell.middle for cell in row.values()) for row in rows)
    pitch = median(b - a for a, b in pairwise(heights))
    low, high = heights[0] - _REACH * pitch, heights[-1] + _REACH * pitch
    read: dict[frozenset[int], UnmappedValue] | None = None
    for line in lines:
        box = _box(index, line)
        middle = (box[1] + box[3]) / 2
        if not low <= middle <= high:
            continue
        words = {one.name: one.words_in(index, line) for one in columns}
        text = _text(index, line)
        if TOTAL.search(text) or not all(words[one.name] for one in usual):
            continue
        high = max(high, middle + _REACH * pitch)
        if read is None:
            read = {frozenset(some): value for some, value in numbers_and_dates_on(index, page)}
        cells = {name: PrintedCell(_text(index, own), read.get(frozenset(own))) for name, own in words.items() if own}
        yield MissingRow(path, page, box, text, cells)


def _text(index: WordIndex, words: Iterable[int]) -> str:
    return " ".join(index.words[at][0] for at in words)


def _box(index: WordIndex, words: Iterable[int]) -> Box:
    lefts, tops, rights, bottoms = zip(*(index.words[at][1:5] for at in words), strict=True)
    return min(lefts), min(tops), max(rights), max(bottoms)


def _lines(index: WordIndex, page: int) -> list[list[int]]:
    """Return the lines of a page from top to bottom, each from left to right."""
    found: list[tuple[float, list[int]]] = []
    words = index.words
    for at in sorted(index.words_of_page(page), key=lambda at: words[at][2] + words[at][4]):
        middle = (words[at][2] + words[at][4]) / 2
        if found and abs(found[-1][0] - middle) <= _SAME_LINE * (words[at][4] - words[at][2]):
            found[-1][1].append(at)
        else:
            found.append((middle, [at]))
    return [sorted(line, key=lambda at: words[at][1]) for _, line in found]


def _is_covered(index: WordIndex, line: Sequence[int], boxes: Sequence[Box]) -> bool:
    _, top, _, bottom = _box(index, line)
    near = [box for box in boxes if box[1] < bottom and box[3] > top]
    return any(
        min(word[3], box[2]) > max(word[1], box[0]) and box[1] <= (word[2] + word[4]) / 2 <= box[3]
        for word in (index.words[at] for at in line)
        for box in near
    )
