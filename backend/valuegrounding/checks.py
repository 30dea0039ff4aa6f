"""Checks of grounded values against the page and each other: a value can be printed and still be the wrong one.

Each check names a doubt. A value with one is less certain than a printed value without any, but stays found.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import combinations, islice, pairwise
from operator import attrgetter, itemgetter
from statistics import median
from typing import Final

from pydantic import JsonValue

from valuegrounding import paths
from valuegrounding.candidate_ranker import words_of_key
from valuegrounding.decimals import canonical_decimal
from valuegrounding.evidence import Doubt, Finding, Support
from valuegrounding.folding import fold, fold_alphanumeric
from valuegrounding.found_values import FoundValue, main_line, number_of, row_of
from valuegrounding.layout import are_adjacent, on_same_line
from valuegrounding.list_checks import (
    LARGEST,
    SCALE,
    Row,
    are_pages_missing,
    broken_balances,
    column_sums,
    doubted_rows,
    is_specific,
    item_counts,
    numbering,
    stated_count,
)
from valuegrounding.measures import Measure
from valuegrounding.numbers import BODY, parse, possible_values
from valuegrounding.page import Box, Word
from valuegrounding.paths import Path
from valuegrounding.units import SCALES, heading_scale
from valuegrounding.word_index import WordIndex

_MAX_LEAVES: Final = 20_000  # of a write; more are not checked
_MAX_WORDS_OF_LINE: Final = 500
_MAX_AMOUNTS: Final = 400  # of a page; with more, chance finds sums
_MAX_ROWS_OF_LINE: Final = 40
_MAX_SUMMANDS: Final = 40  # numbers of the document
_CONTAINER: Final = Finding("found", None)
_LONG: Final = 64  # characters
_MANY_LINES: Final = 3
_LABEL: Final = 3  # characters of a word that can be a field's name
_STEM: Final = 6
_AS_TEXT: Final = ("exact", "normalised", "fuzzy")  # numbers and dates are read as whole expressions
_MIN_ROWS: Final = 3  # that show a column
_MIDDLE: Final = attrgetter("middle")
_EDGE: Final = 0.012  # of the page's width
_AMOUNT = re.compile(r"[\d.,'’]*\d[.,]\d\d")
_PLAIN = re.compile(r"\d{4,9}")
_YEAR = re.compile(r"(?:19|20)\d\d")
_ITEM_COUNT = re.compile(
    r"(number|no|num|count|total|anzahl|nombre)?(of|der|de)?(line|invoice|order)?(items?|lines?|rows?|positions?|articles?|positionen"
    r"|zeilen|artikel)(count|number|total)?"
)
_AROUND_NUMBER = ".)(:#"
_AROUND_AMOUNT = "€$£¥()-+*:;"
_SEPARATORS: Final = (":", ",", ";", "|")


def check(
    index: WordIndex, leaves: Sequence[tuple[Path, str, JsonValue | Measure]], found: Mapping[str, Finding]
) -> dict[str, Finding]:
    """Return the findings with their doubts."""
    if len(leaves) > _MAX_LEAVES:
        return dict(found)
    numbers = {number: at for at, number in enumerate(index.pages)}
    values = [
        FoundValue(path, name, value, one, numbers[location.page], location.boxes, row_of(path))
        for path, name, value in leaves
        if (location := (one := found[name]).location) is not None and one.state == "found" and location.page in numbers
    ]
    pages = {page: _Page(index, page) for page in {one.page for one in values}}
    for one in values:
        one.words = pages[one.page].covered(one.boxes)
    doubts: defaultdict[str, list[Doubt]] = defaultdict(list)
    supports: defaultdict[str, list[Support]] = defaultdict(list)
    lists = _lists(leaves, values)
    of_lists = _CheckedLists(index, pages, values, lists)
    not_rows = {path for path, doubt in of_lists.doubts if doubt != "incomplete_row"}
    of_values: list[tuple[str, Doubt]] = [
        *((paths.name(path), doubt) for path, doubt in of_lists.doubts),
        *_scales(pages, values),
        *_scaled_headings(index, values),
        *_qualified(index, values),
        *_rows(values),
        *_shifted_columns(index, pages, values),
        *_columns(values),
        *_spans(index, pages, values),
        *_of_doubted_items(values, {path for path, _ in of_lists.doubts}),
    ]
    for name, doubt in of_values:
        if doubt not in doubts[name]:
            doubts[name].append(doubt)
    for name, support in (*of_lists.supports, *_sums(values, lists, not_rows)):
        if support not in supports[name]:
            supports[name].append(support)
    result = dict(found)
    for name in [*doubts, *(name for name in supports if name not in doubts)]:
        one = found.get(name, _CONTAINER)
        result[name] = replace(one, doubts=tuple(doubts[name]), supports=(*one.supports, *supports[name]))
    return result


def _lists(
    leaves: Sequence[tuple[Path, str, JsonValue | Measure]], values: Sequence[FoundValue]
) -> dict[Path, list[Row]]:
    """Return the items of each list, in order."""
    rows: dict[Path, Row] = {}
    lists: defaultdict[Path, list[Row]] = defaultdict(list)
    for path, _, value in leaves:
        if (row := row_of(path)) and row != path:
            if row not in rows:
                rows[row] = Row(row)
                lists[row[:-1]].append(rows[row])
            rows[row].cells[path[len(row) :]] = value
    for one in values:
        if one.row in rows:
            rows[one.row].found.append(one)
    return {path: some for path, some in lists.items() if [row.path[-1] for row in some] == [*range(len(some))]}


class _CheckedLists:
    """The doubts of list items and lists, and what shows that a list has all its items."""

    def __init__(
        self,
        index: WordIndex,
        pages: Mapping[int, _Page],
        values: Sequence[FoundValue],
        lists: Mapping[Path, Sequence[Row]],
    ) -> None:
        self.doubts: list[tuple[Path, Doubt]] = []
        self.supports: list[tuple[str, Support]] = []
        are_missing = bool(lists) and are_pages_missing(index)
        for path, rows in lists.items():
            self.doubts += doubted_rows(rows)
            if (broken := broken_balances(rows)) is not None:
                for row in broken:
                    self.doubts.append((row, "balance"))
                if not broken:
                    self.supports.append((paths.name(path), "balance"))
            if (gaps := numbering(rows)) is not None:
                if any(pages[above.page].prints_between(above, below, number) for above, below, number in gaps):
                    self.doubts.append((path, "numbering"))
                elif not gaps:
                    self.supports.append((paths.name(path), "numbering"))
            if are_missing:
                self.doubts.append((path, "pages_missing"))
        for path, is_right in _item_counts(index, values, lists):
            if is_right:
                self.supports.append((paths.name(path), "item_count"))
            else:
                self.doubts.append((path, "item_count"))


def _of_doubted_items(values: Sequence[FoundValue], doubted: Collection[Path]) -> Iterator[tuple[str, Doubt]]:
    for one in values:
        if one.row in doubted:
            yield one.name, "row"


def _item_counts(
    index: WordIndex, values: Sequence[FoundValue], lists: Mapping[Path, Sequence[Row]]
) -> Iterator[tuple[Path, bool]]:
    """Yield the only list of a document and whether it has as many items as the document states, or the sum of their
    quantities: in a field such as `item_count`, or else in a text such as "Number of items: 24"."""
    if len(lists) != 1:
        return
    (path, rows), *_ = lists.items()
    counts = item_counts(rows)
    fields = [
        number_of(one.value)
        for one in values
        if not one.row and isinstance(one.path[-1], str) and _ITEM_COUNT.fullmatch(fold_alphanumeric(one.path[-1]))
    ]
    for number in fields:
        yield path, number in counts
    if not fields and (stated := stated_count(index)) is not None:
        count, may_be_pieces = stated
        # More may be pieces.
        if count in counts or count < len(rows) or not may_be_pieces or len(counts) > 1:
            yield path, count in counts


def _sums(
    values: Sequence[FoundValue], lists: Mapping[Path, Sequence[Row]], not_rows: Collection[Path]
) -> Iterator[tuple[str, Support]]:
    """Yield numbers of the document that are the sum of a list's column, and the list; and numbers of which one is the
    sum of the two others."""
    numbers = {
        one.name: round(number * SCALE)
        for one in values
        if not one.row and (number := number_of(one.value)) is not None and 0 < abs(number) * SCALE < LARGEST
    }
    for path, rows in lists.items():
        sums = column_sums(rows, not_rows)
        for name, number in numbers.items():
            if number in sums:
                yield name, "sum"
                yield paths.name(path), "sum"
    by_number = {number: name for name, number in numbers.items()}
    if len(by_number) <= _MAX_SUMMANDS:
        for (a, first), (b, second) in combinations(by_number.items(), 2):
            if a + b in by_number and is_specific(a + b):
                for name in (first, second, by_number[a + b]):
                    yield name, "sum"


class _Page:
    """The words of a page, found by their boxes, and the amounts on it in cents."""

    def __init__(self, index: WordIndex, page: int) -> None:
        own = index.words_of_page(page)
        self.words = index.words
        self._by_height = sorted((round((index.words[at][2] + index.words[at][4]) / 2, 5), at) for at in own)
        self.amounts: set[int] = set()
        for at in own:
            text = str(index.words[at][0]).strip(_AROUND_AMOUNT)
            if _AMOUNT.fullmatch(text):
                self.amounts.add(int(re.sub(r"\D", "", text)))

    def between(self, top: float, bottom: float) -> Iterator[int]:
        """Yield the words whose middle is between two heights."""
        at = bisect_left(self._by_height, (top, -1))
        for height, word in islice(self._by_height, at, at + _MAX_WORDS_OF_LINE):
            if height > bottom:
                return
            yield word

    def prints_between(self, above: FoundValue, below: FoundValue, number: int) -> bool:
        """Whether a number is printed between two values of a column."""
        left, right = min(above.boxes[0][0], below.boxes[0][0]), max(above.boxes[0][2], below.boxes[0][2])
        bottom = below.boxes[0][1] if below.page == above.page else 1.0
        return any(
            str(self.words[at][0]).strip(_AROUND_NUMBER) == str(number)
            and min(self.words[at][3], right) > max(self.words[at][1], left)
            for at in self.between(above.boxes[-1][3], bottom)
        )

    def covered(self, boxes: Sequence[Box]) -> list[int]:
        """Return the words that boxes cover, in reading order. A box may be only a part of a word."""
        found: set[int] = set()
        for x0, y0, x1, y1 in boxes:
            middle = (x0 + x1) / 2
            for at in self.between(y0, y1):
                word = self.words[at]
                if x0 - 1e-4 <= (word[1] + word[3]) / 2 <= x1 + 1e-4 or word[1] - 1e-4 <= middle <= word[3] + 1e-4:
                    found.add(at)
        return sorted(found)


def _scales(pages: Mapping[int, _Page], values: Sequence[FoundValue]) -> Iterator[tuple[str, Doubt]]:
    """7523 is printed where 75.23 is the sum, or where the same digits are also printed with cents."""
    for one in values:
        number, page = number_of(one.value), pages[one.page]
        if number is None or number != int(number) or not 1000 <= abs(number) < 10**9 or len(one.words) != 1:
            continue
        text = str(page.words[one.words[0]][0]).strip(_AROUND_AMOUNT)
        amounts = page.amounts
        if not _PLAIN.fullmatch(text) or not 2 <= len(amounts) <= _MAX_AMOUNTS:
            continue
        cents = int(text)
        is_sum = any(
            (cents - part in amounts and cents - part != part) or cents + part in amounts
            for part in amounts
            if part > 100
        )
        if cents in amounts or is_sum:
            yield one.name, "scale"


def _scaled_headings(index: WordIndex, values: Sequence[FoundValue]) -> Iterator[tuple[str, Doubt]]:
    """50 or 50000 is printed as 50 below a heading such as `TEUR`."""
    for one in values:
        location = one.finding.location
        value = canonical_decimal(one.value) if isinstance(one.value, int | float) else None
        if value in (None, "0") or location is None or location.match not in ("number", "exact") or not one.words:
            continue
        text = index.folded[one.words[0]]
        after = one.words[-1] + 1
        has_scale = index.are_in_one_cell(after - 1, after) and index.folded[after] in SCALES
        if (
            has_scale
            or "%" in location.quote + text
            or _YEAR.fullmatch(text)
            or not (places := index.scale_of(one.words[0]))
        ):
            continue
        printed = {each for body in BODY.findall(fold(location.quote)) for each in possible_values(body)}
        unscaled = canonical_decimal(abs(Decimal(value).scaleb(-places)))
        key = fold(" ".join(step for step in one.path if isinstance(step, str))).replace("_", " ")
        is_named = heading_scale(key) == places and value.removeprefix("-") in printed  # revenue_thousands
        if not is_named and not printed.isdisjoint((value.removeprefix("-"), unscaled)):
            yield one.name, "scale"


def _qualified(index: WordIndex, values: Sequence[FoundValue]) -> Iterator[tuple[str, Doubt]]:
    """A number beside a word, mark or digits that may change it, unless its field is named so."""
    owners: defaultdict[int, set[str]] = defaultdict(set)
    for one in values:
        for at in one.words:
            owners[at].add(one.name)
    for one in values:
        location, value = one.finding.location, one.value
        if location is None or location.match not in ("number", "exact") or not one.words:
            continue
        number = parse(value) if isinstance(value, str) else None
        if isinstance(value, str) and (number is None or not number.values):
            continue
        qualifier = index.qualifier_of(one.words, location.quote)
        if qualifier is None:
            continue
        keys = [step for step in one.path if isinstance(step, str)]
        is_negative = qualifier.kind == "sign" and str(value).startswith(("-", "(", "−"))
        beside = {one.words[0] - 1, one.words[-1] + 1} - {*one.words}
        is_other = qualifier.kind == "digits" and any(owners.get(at) for at in beside)
        if not is_negative and not is_other and not (keys and qualifier.is_named(words_of_key(keys[-1]))):
            yield one.name, "qualifier"


def _height(box: Box) -> float:
    return box[3] - box[1]


def _are_on_one_line(one: FoundValue, other: FoundValue) -> bool:
    a, b = one.boxes[0], other.boxes[0]
    return one.page == other.page and min(a[3], b[3]) - max(a[1], b[1]) >= 0.4 * min(_height(a), _height(b))


def _rows(values: Sequence[FoundValue]) -> Iterator[tuple[str, Doubt]]:
    """A value on the line of another row of its list, or a value of the document on the line of a row."""
    rows = _Rows(values)
    for one in values:
        location = one.finding.location
        if location is None or location.match == "symbol":
            continue
        if not one.row:
            if len(one.boxes) == 1 and rows.is_inside(one):
                yield one.name, "inside_row"
        elif not rows.is_shared(one) and (rows.is_on_another_line(one) or rows.is_beside_another(one)):
            yield one.name, "other_row"


class _Rows:
    """The rows of all lists: where each is printed."""

    def __init__(self, values: Sequence[FoundValue]) -> None:
        self._members: defaultdict[Path, list[FoundValue]] = defaultdict(list)
        for one in values:
            if one.row:
                self._members[one.row].append(one)
        self._cells = Counter(self._cell(one) for one in values if one.row)
        self._line = {row: line for row, some in self._members.items() if (line := main_line(some)) is not None}
        # By list and page, from top to bottom: the rows, and the values that are printed once.
        self._rows_on: defaultdict[tuple[Path, int], list[tuple[float, Path]]] = defaultdict(list)
        self._lines_on: defaultdict[int, list[float]] = defaultdict(list)
        for row, (page, middle) in self._line.items():
            self._rows_on[row[:-1], page].append((middle, row))
            self._lines_on[page].append(middle)
        self._singles_on: defaultdict[tuple[Path, int], list[FoundValue]] = defaultdict(list)
        for one in values:
            if one.row and one.is_single:
                self._singles_on[one.row[:-1], one.page].append(one)
        for rows in self._rows_on.values():
            rows.sort(key=itemgetter(0))
        for lines in self._lines_on.values():
            lines.sort()
        for singles in self._singles_on.values():
            singles.sort(key=_MIDDLE)

    @staticmethod
    def _cell(one: FoundValue) -> tuple[Path, Path, tuple[int, ...]]:
        return one.row[:-1], one.path[len(one.row) :], tuple(one.words)

    def is_shared(self, one: FoundValue) -> bool:
        """Whether several rows have this value in one cell: a text of two rows, or any value of more."""
        return self._cells[self._cell(one)] > (1 if isinstance(one.value, str) else 2)

    def is_inside(self, one: FoundValue) -> bool:
        """Whether the line of a row crosses the box of a value of the document."""
        _, top, _, bottom = one.boxes[0]
        lines = self._lines_on[one.page]
        at = bisect_left(lines, top)
        return at < len(lines) and lines[at] <= bottom

    def is_on_another_line(self, one: FoundValue) -> bool:
        """Whether a value is not on the line that most values of its row are on, but on such a line of another row."""
        own = self._line.get(one.row)
        middle, height = one.middle, one.line_height
        if own is None or (own[0] == one.page and abs(own[1] - middle) <= 0.5 * height):
            return False
        rows = self._rows_on[one.row[:-1], one.page]
        at = bisect_left(rows, middle - 0.35 * height, key=itemgetter(0))
        near = islice(rows, at, at + _MAX_ROWS_OF_LINE)
        return any(row != one.row and line <= middle + 0.35 * height for line, row in near)

    def is_beside_another(self, one: FoundValue) -> bool:
        """Whether a value is beside a value of another row, and beside none of its own, of those printed once."""
        own = [other for other in self._members[one.row] if other is not one and other.is_single]
        if len(one.boxes) != 1 or not own or any(_are_on_one_line(other, one) for other in own):
            return False
        singles = self._singles_on[one.row[:-1], one.page]
        at = bisect_left(singles, one.middle - 2 * one.line_height, key=_MIDDLE)
        near = islice(singles, at, at + _MAX_ROWS_OF_LINE)
        return any(other.row != one.row and _are_on_one_line(other, one) for other in near)


def _columns(values: Sequence[FoundValue]) -> Iterator[tuple[str, Doubt]]:
    """A value that has neither edge nor middle in common with the same field of the other rows. One other row is enough
    for a number that is printed as that of another field of its row."""
    cells = Counter((one.row, tuple(one.words)) for one in values if one.row and number_of(one.value) is not None)
    columns: defaultdict[tuple[Path, int], list[FoundValue]] = defaultdict(list)
    for one in values:
        if one.row:
            columns[tuple("*" if isinstance(step, int) else step for step in one.path), one.page].append(one)
    for some in columns.values():
        if len(some) < 2:
            continue
        edges = [(min(box[0] for box in one.boxes), max(box[2] for box in one.boxes)) for one in some]
        lefts, rights, middles = (
            sorted(side) for side in ([e[0] for e in edges], [e[1] for e in edges], [sum(e) / 2 for e in edges])
        )
        for one, (left, right) in zip(some, edges, strict=True):
            same = max(_near(lefts, left), _near(rights, right), _near(middles, (left + right) / 2)) - 1
            is_taken = number_of(one.value) is not None and cells[one.row, tuple(one.words)] > 1
            if same < 0.25 * (len(some) - 1) and (is_taken or len(some) >= _MIN_ROWS):
                yield one.name, "other_column"


def _shifted_columns(
    index: WordIndex, pages: Mapping[int, _Page], values: Sequence[FoundValue]
) -> Iterator[tuple[str, Doubt]]:
    """The numbers of a column of which two rows or more have another one on their own line, and one of those is in no
    field: it was passed over, and the numbers after it may be of other rows."""
    owned = {at for one in values for at in one.words}
    members: defaultdict[Path, list[FoundValue]] = defaultdict(list)
    columns: defaultdict[tuple[Path, Path, int], list[FoundValue]] = defaultdict(list)
    for one in values:
        if one.row:
            members[one.row].append(one)
            if number_of(one.value) is not None and len(one.boxes) == 1:
                columns[one.row[:-1], one.path[len(one.row) :], one.page].append(one)
    lines = {row: main_line(some) for row, some in members.items()}
    for some in columns.values():
        left, right = median(one.boxes[0][0] for one in some), median(one.boxes[0][2] for one in some)
        others: list[int] = []
        for one in some if len(some) >= _MIN_ROWS else ():
            line, height = lines[one.row], one.line_height
            if line is None or line[0] != one.page or abs(line[1] - one.middle) <= 0.5 * height:
                continue
            for at in pages[one.page].between(line[1] - 0.35 * height, line[1] + 0.35 * height):
                word = index.words[at]
                if min(word[3], right) > max(word[1], left) and any(map(str.isdigit, str(word[0]))):
                    others.append(at)
        if len(others) >= 2 and not owned.issuperset(others):
            for one in some:
                yield one.name, "other_row"


def _near(ordered: Sequence[float], at: float) -> int:
    return bisect_left(ordered, at + _EDGE) - bisect_left(ordered, at - _EDGE)


def _spans(index: WordIndex, pages: Mapping[int, _Page], values: Sequence[FoundValue]) -> Iterator[tuple[str, Doubt]]:
    """A text that goes on beside or below what is written, or whose words are in two cells."""
    owners: defaultdict[int, set[str]] = defaultdict(set)
    for one in values:
        for at in one.words:
            owners[at].add(one.name)
    for one in values:
        location = one.finding.location
        if not isinstance(one.value, str) or not one.words or location is None or location.match not in _AS_TEXT:
            continue
        if len(one.value) > _LONG or len(one.boxes) >= _MANY_LINES:
            yield one.name, "long_text"
        page = pages[one.page]
        words = [index.words[at] for at in one.words]
        is_text = sum(map(str.isalpha, one.value)) >= 3
        is_in_two = any(on_same_line(a, b) and not are_adjacent(a, b, 1.75) for a, b in pairwise(words))
        if is_text and (is_in_two or _has_label(words)):
            yield one.name, "two_cells"
        names = [fold_alphanumeric(step) for step in one.path if isinstance(step, str)]
        if any(_goes_on(index, page, owners, at, names) for at in one.words) or (
            is_text and (_wraps(index, page, owners, one) or _begins_above(index, page, owners, one))
        ):
            yield one.name, "goes_on"


def _has_label(words: Sequence[Word]) -> bool:
    """Whether a text has a label with a colon after its first line, and so another text."""
    return any(word[0][-1:] == ":" and not on_same_line(words[0], word) for word in words[:-1])


def _goes_on(index: WordIndex, page: _Page, owners: Mapping[int, set[str]], own: int, names: Sequence[str]) -> bool:
    """Whether a word that is in no field, and not in the field's name, is directly beside a word of a value."""
    word = index.words[own]
    for at in page.between(word[2], word[4]):
        other = index.words[at]
        if owners.get(at) or not on_same_line(word, other) or not are_adjacent(word, other, 0.8):
            continue
        is_separate = (
            other[0].endswith((*_SEPARATORS, ")")) or word[0].startswith(_SEPARATORS)
            if at < own
            else other[0].startswith((*_SEPARATORS, "(")) or word[0].endswith(_SEPARATORS)
        )
        text = index.alphanumeric[at]
        is_label = len(text) >= _LABEL and any(text[:_STEM] in name for name in names)
        if not is_separate and text and not is_label:
            return True
    return False


def _wraps(index: WordIndex, page: _Page, owners: Mapping[int, set[str]], one: FoundValue) -> bool:
    """Whether the line below, within the width of the value, starts in lower case and is in no field."""
    low, height = max(box[3] for box in one.boxes), one.line_height
    left, right = min(box[0] for box in one.boxes), max(box[2] for box in one.boxes)
    below = [
        at
        for at in page.between(low, low + 1.6 * height)
        if at not in one.words
        and 0 <= index.words[at][2] - low + 0.35 * height <= 0.95 * height
        and min(index.words[at][3], right) > max(index.words[at][1], left)
    ]
    return bool(below) and not any(owners.get(at) for at in below) and index.words[min(below)][0][:1].islower()


def _begins_above(index: WordIndex, page: _Page, owners: Mapping[int, set[str]], one: FoundValue) -> bool:
    """Whether a value starts in lower case, and the line above, within its width, is in no field."""
    left, high, right, _ = one.boxes[0]
    height = one.line_height
    above = [
        at
        for at in page.between(high - 1.6 * height, high)
        if at not in one.words
        and 0 <= high - index.words[at][4] + 0.35 * height <= 0.95 * height
        and min(index.words[at][3], right) > max(index.words[at][1], left)
    ]
    is_part = index.words[min(one.words)][0][:1].islower()
    return is_part and any(index.alphanumeric[at] for at in above) and not any(owners.get(at) for at in above)
