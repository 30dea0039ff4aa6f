"""WordIndex: the words of a document, folded once, and looked up as text, numbers, dates, lines and reading orders."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from operator import add
from typing import Final

from fieldmark.domain import folding
from fieldmark.grounding import dates, layout, numbers, units
from fieldmark.grounding.layout import Word
from fieldmark.grounding.text_stream import Span, TextStream

MAX_WORD_CHARACTERS: Final = 2_000  # of a word; nothing is found in a longer one
MAX_CHARACTERS: Final = 20_000_000  # of a document; nothing is found behind them
MAX_PLACES: Final = 10_000  # of one value; no more are kept or counted
MAX_REORDERED_PAGES: Final = 4  # pages that are also read in other orders for one value
MAX_TOKENS: Final = 200  # words of one value that help to choose those pages

_MAX_YEARS: Final = 20  # in which a day without one may be
_MAX_WORDS_BETWEEN: Final = 60  # a word and the cell below it
_WIDEST_SPACE_IN_A_NUMBER: Final = 0.75  # in heights of a line
_WIDEST_SPACE_TO_A_UNIT: Final = 4.0

# Account, card and telephone numbers, which are printed in groups: one identifier, if their words are close. (In the
# text a word is a line.)
_GROUPED = re.compile(
    r"(?<![^\n])[a-z]{2}\d\d(?:\n[a-z\d]{4}){2,7}(?:\n[a-z\d]{1,3})?(?![^\n.,;])"
    r"|(?<![^\n])(?!(?:(?:19|20)\d\d(?!\d)\n?)+(?!\d))\d{4}(?:\n\d{4}){2,4}(?:\n\d{1,4})?(?![^\n.,;])"
    r"|(?<![^\n(])\+\d{1,4}(?:\n[(\d][\d()/-]*)+(?![^\n.,;])(?![.,]\d)"
    r"|(?<![^\n])\(\d{2,5}\)\n?\d+-\d+(?![^\n.,;])"
    r"|(?<![^\n(])\(?0\d{2,5}\)?(?:\n[\d/-][\d()/-]*)+(?![^\n.,;])(?![.,]\d)"
)


@dataclass(frozen=True, slots=True)
class PageWords:
    """One page: its number, and its words in reading order.

    A word is [text, x0, y0, x1, y1], as in `document_pages.words`, with a confidence 0..1 behind it if OCR read it. The
    box is in parts of the page's width and height. A page `for_machines` is part of the file, and shown to nobody.
    """

    number: int
    words: Sequence[Word]
    is_xml: bool = False


class WordIndex:
    """All words of a document in reading order, and what can be looked up in them.

    `words`, `folded`, `alphanumeric` and `page_of` have an entry for each word: as it was given, its two folded forms,
    and its page. A page is a position in `pages`, which holds the page numbers.
    """

    def __init__(self, pages: Iterable[PageWords]) -> None:
        self.words: list[Word] = []
        self.pages: list[int] = []
        self.page_of: list[int] = []
        self._firsts: list[int] = []  # the first word of each page
        for page in pages:
            self.page_of += [len(self.pages)] * len(page.words)
            self.pages.append(page.number)
            self._firsts.append(len(self.words))
            self.words.extend(page.words)
        texts: list[str] = [word[0] for word in self.words]
        joined = "\n".join(texts)
        longest = max(map(len, texts), default=0)
        if joined.count("\n") != len(texts) - 1 or len(joined) > MAX_CHARACTERS or longest > MAX_WORD_CHARACTERS:
            texts = _within_limits(texts)
            joined = "\n".join(texts)
        folded = folding.fold(joined)
        self.folded: list[str] = folded.split("\n") if texts else []
        alphanumeric = folding.alphanumeric(folded)
        self.alphanumeric: list[str] = alphanumeric.split("\n") if texts else []
        self._alphanumeric_lines = f"\n{alphanumeric}\n"  # a word each
        self._tokens: dict[str, list[int]] = {}
        self._lines: dict[int, dict[int, int]] = {}
        self._orders: dict[int, list[TextStream]] = {}
        self._page_texts: dict[int, str] = {}
        self._currencies: dict[int, set[units.Codes]] = {}

    @cached_property
    def alphanumeric_stream(self) -> TextStream:
        """The letters and digits of all words in reading order, with nothing between two words."""
        return TextStream.of(self.alphanumeric, range(len(self.alphanumeric)), folding.fold_alphanumeric)

    @cached_property
    def folded_stream(self) -> TextStream:
        """The folded words in reading order, each on a line of its own."""
        return TextStream.of(self.folded, range(len(self.folded)), folding.fold, gap="\n")

    @cached_property
    def _alphanumeric_line_starts(self) -> list[int]:
        return list(map(add, self.alphanumeric_stream.starts, count()))

    def occurrences(self, token: str) -> list[int]:
        """The indexes of the words that are this token alone, or that begin with it and a colon ("Date:12/03/2024")."""
        if token not in self._tokens:
            printed = self.folded_stream
            found = {
                bisect_left(self._alphanumeric_line_starts, at)
                for at in _find_all(self._alphanumeric_lines, f"\n{token}\n")
            }
            found.update(bisect_left(printed.starts, at) for at in _find_all("\n" + printed.text, f"\n{token}:"))
            self._tokens[token] = sorted(found)
        return self._tokens[token]

    # Numbers and dates, by their offsets in `folded_stream`.

    @cached_property
    def numbers(self) -> numbers.NumberIndex:
        printed = self.folded_stream
        starts = printed.starts

        def joined(at: int) -> bool:
            if printed.text[at] != "\n":
                return True
            index = bisect_right(starts, at) - 1
            return self.are_close(index, index + 1)

        def near(at: int) -> bool:
            if printed.text[at] != "\n":
                return True
            index = bisect_right(starts, at) - 1
            return index + 1 < len(self.words) and layout.are_adjacent(
                self.words[index], self.words[index + 1], _WIDEST_SPACE_TO_A_UNIT
            )

        return numbers.NumberIndex(printed.text, joined, near)

    @cached_property
    def dates(self) -> dict[dates.Day, list[tuple[int, int, float]]]:
        """The (start, end, certainty) of the dates that may mean a day."""
        found: defaultdict[dates.Day, list[tuple[int, int, float]]] = defaultdict(list)
        together = (
            one for one in dates.find_dates(self.folded_stream.text) if self.is_read_together(one.start, one.end)
        )
        for one, day, certainty in dates.certainties(together):
            found[day].append((one.start, one.end, certainty))
        return found

    @cached_property
    def days_without_year(self) -> dict[dates.Day, list[tuple[int, int]]]:
        """The (start, end) of the days that are printed without a year, in each year that is printed anywhere."""
        found: defaultdict[dates.Day, list[tuple[int, int]]] = defaultdict(list)
        years = sorted(dates.years_in(self.folded_stream.text))[:_MAX_YEARS]
        for start, end, month, day in dates.find_without_year(self.folded_stream.text) if years else ():
            if self.is_read_together(start, end):
                for year in years:
                    found[year, month, day].append((start, end))
        return found

    @cached_property
    def periods(self) -> dict[dates.Period, list[tuple[int, int, float]]]:
        """The (start, end, certainty) of the months and quarters of a year."""
        found: defaultdict[dates.Period, list[tuple[int, int, float]]] = defaultdict(list)
        for start, end, period, certainty in dates.find_periods(self.folded_stream.text):
            if self.is_read_together(start, end):
                found[period].append((start, end, certainty))
        return found

    @cached_property
    def times(self) -> list[tuple[int, int, tuple[dates.TimeOfDay, ...]]]:
        return list(dates.find_times(self.folded_stream.text))

    @cached_property
    def identifiers(self) -> list[tuple[int, int]]:
        """The first and the last words of the account, card and telephone numbers that are printed in groups."""
        found: list[tuple[int, int]] = []
        for group in _GROUPED.finditer(self.folded_stream.text):
            words = self.folded_stream.span(*group.span()).indexes()
            if self.page_of[words[0]] == self.page_of[words[-1]] and all(
                self.are_close(at, at + 1) for at in range(words[0], words[-1])
            ):
                found.append((words[0], words[-1]))
        return found

    def is_part_of_identifier(self, first: int, last: int) -> bool:
        """Whether words first..last are some, and not all, of those of an identifier in groups."""
        at = bisect_right(self.identifiers, (first, len(self.words))) - 1
        return at >= 0 and last <= self.identifiers[at][1] and (first, last) != self.identifiers[at]

    def is_read_together(self, start: int, end: int) -> bool:
        """Whether the words of a folded text are next to each other, and not in two cells of a line or on two pages."""
        printed = self.folded_stream
        first, last = bisect_right(printed.starts, start) - 1, bisect_right(printed.starts, end - 1) - 1
        return self.page_of[first] == self.page_of[last] and all(
            not layout.on_same_line(self.words[at], self.words[at + 1])
            or layout.are_adjacent(self.words[at], self.words[at + 1], _WIDEST_SPACE_TO_A_UNIT)
            for at in range(first, last)
        )

    def page_text(self, page: int) -> str:
        """The folded words of a page, with a space between two."""
        if page not in self._page_texts:
            own = self.words_of_page(page)
            self._page_texts[page] = " ".join(self.folded[own.start : own.stop])
        return self._page_texts[page]

    def currencies_on(self, page: int) -> set[units.Codes]:
        """The currencies that a page names."""
        if page not in self._currencies:
            self._currencies[page] = units.currencies_in(self.page_text(page))
        return self._currencies[page]

    # Words, lines and pages.

    def are_close(self, a: int, b: int) -> bool:
        """Whether two words are as close on one line as the groups of one number: `1 250,00`."""
        return layout.are_adjacent(self.words[a], self.words[b], _WIDEST_SPACE_IN_A_NUMBER)

    def wraps(self, a: int, b: int) -> bool:
        """Whether a word begins the line below that of another, in its column."""
        one, other = self.words[a], self.words[b]
        height = one[4] - one[2]
        is_below = 0 <= other[2] - one[4] + height / 2 <= 2 * height and other[1] < one[3]
        return is_below and self.page_of[a] == self.page_of[b] and not layout.on_same_line(one, other)

    def are_in_one_cell(self, a: int, b: int) -> bool:
        """Whether only a space is between two words of one line."""
        return b < len(self.words) and layout.are_adjacent(self.words[a], self.words[b], layout.CELL_GAP)

    def cell_below(self, words: Sequence[int]) -> Sequence[int]:
        """The words of the cell right below some words of a line; none if there is only paper."""
        above = layout.merge([self.words[at] for at in words])
        height = above[4] - above[2]
        end = self.words_of_page(self.page_of[words[0]]).stop
        for at in range(words[-1] + 1, min(words[-1] + 1 + _MAX_WORDS_BETWEEN, end)):
            word = self.words[at]
            is_under = word[1] < above[3] and above[1] < word[3] and 0 <= word[2] - above[4] + height / 2 <= 2 * height
            if is_under and not layout.on_same_line(above, word):
                last = at
                while last + 1 < end and self.are_in_one_cell(last, last + 1):
                    last += 1
                return range(at, last + 1)
        return ()

    def is_on_one_page(self, span: Span) -> bool:
        indexes = span.indexes()
        return self.page_of[indexes[0]] == self.page_of[indexes[-1]]

    def words_of_page(self, page: int) -> range:
        return range(self._firsts[page], self._firsts[page + 1] if page + 1 < len(self._firsts) else len(self.words))

    def line_of(self, word: int) -> tuple[int, int]:
        """The (page, number of the line) of a word."""
        page = self.page_of[word]
        if page not in self._lines:
            own = self.words_of_page(page)
            found = layout.group_lines(self.words, own.start, own.stop)
            self._lines[page] = {index: number for number, line in enumerate(found) for index in line}
        return page, self._lines[page][word]

    # Other reading orders.

    def likely_pages(self, value: str, least: float = 0.5) -> list[int]:
        """The pages that have the most of a value's words, and at least this share of them. All pages of a short
        document."""
        if len(self.pages) <= MAX_REORDERED_PAGES:
            return list(range(len(self.pages)))
        counts: Counter[int] = Counter()
        tokens = {folding.fold_alphanumeric(token) for token in value.split()[:MAX_TOKENS]}
        for token in tokens:
            counts.update({self.page_of[index] for index in self.occurrences(token)})
        return [page for page, count in counts.most_common(MAX_REORDERED_PAGES) if count >= least * len(tokens)]

    def other_reading_orders(self, value: str) -> Iterator[TextStream]:
        """The likely pages of a value, read by columns and, if a word is written so, from right to left."""
        for page in self.likely_pages(value):
            yield from self.reading_orders(page)[1:]

    def reading_orders(self, page: int) -> list[TextStream]:
        """One page in all reading orders, the order of its words first. Nothing for a page without words."""
        own = self.words_of_page(page)
        if own and page not in self._orders:
            orders = [own, layout.column_order(self.words, own.start, own.stop)]
            reverse = layout.right_to_left_order(self.words, own.start, own.stop)
            if reverse:
                orders.append(reverse)
            self._orders[page] = [
                TextStream.of(self.alphanumeric, list(order), folding.fold_alphanumeric) for order in orders
            ]
        return self._orders.get(page, [])


def _within_limits(texts: Sequence[str]) -> list[str]:
    left = MAX_CHARACTERS
    found: list[str] = []
    for text in texts:
        left -= len(text)
        found.append(text.replace("\n", " ") if len(text) <= MAX_WORD_CHARACTERS and left >= 0 else "")
    return found


def _find_all(text: str, part: str) -> Iterator[int]:
    at = text.find(part)
    for _ in range(MAX_PLACES):
        if at < 0:
            return
        yield at
        at = text.find(part, at + len(part) - 1)
