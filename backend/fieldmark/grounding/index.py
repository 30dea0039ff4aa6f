"""A document's words, folded once, and the ways to look them up: as one text, as words, numbers and dates, by page and
line, and in other orders of reading."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from operator import add
from typing import Final

from fieldmark.domain import folding
from fieldmark.grounding import dates, layout, numbers
from fieldmark.grounding.layout import Word
from fieldmark.grounding.strand import Span, Strand, strand

LONGEST_WORD: Final = 2_000  # characters; a longer run without a space is no word, and grounds nothing
MOST_CHARACTERS: Final = 20_000_000  # of a document; what comes after grounds nothing
MOST_PLACES: Final = 10_000  # of one value that are kept and counted
MOST_PAGES: Final = 4  # that are read in other orders too for one value
MOST_TOKENS: Final = 200  # words of one value by which its page is sought

_SPACE: Final = 0.75  # in heights of a line: the widest space within a number


@dataclass(frozen=True, slots=True)
class PageWords:
    """A page: its number, and its words as `document_pages.words` holds them: [text, x0, y0, x1, y1] and, from OCR, a
    confidence 0..1. Boxes are in parts of the page, words in reading order."""

    number: int
    words: Sequence[Word]


class Index:
    """`words` are all of the document's, in reading order; `plain` and `bones` their texts folded so, by word. A page
    is meant by its position in `pages`, which holds the numbers; `page_of` is by word."""

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
        if joined.count("\n") != len(texts) - 1 or len(joined) > MOST_CHARACTERS or max(map(len, texts)) > LONGEST_WORD:
            texts = _bounded(texts)
            joined = "\n".join(texts)
        folded = folding.plain(joined)
        self.plain: list[str] = folded.split("\n") if texts else []
        bones = folding.bones(folded)
        self.bones: list[str] = bones.split("\n") if texts else []
        self._lined = f"\n{bones}\n"
        self._tokens: dict[str, list[int]] = {}
        self._lines: dict[int, dict[int, int]] = {}
        self._orders: dict[int, list[Strand]] = {}

    @cached_property
    def reading(self) -> Strand:
        """The bones of all words in reading order, without anything between them."""
        return strand(self.bones, range(len(self.bones)), folding.bones_of)

    @cached_property
    def printed(self) -> Strand:
        """The plain words in reading order, a line each."""
        return strand(self.plain, range(len(self.plain)), folding.plain, gap="\n")

    @cached_property
    def _lined_starts(self) -> list[int]:
        return list(map(add, self.reading.starts, count()))

    def standing(self, token: str) -> list[int]:
        """The words that are nothing but a token, and those that begin with it and a colon ("Date:12/03/2024")."""
        if token not in self._tokens:
            printed = self.printed
            found = {bisect_left(self._lined_starts, at) for at in _every(self._lined, f"\n{token}\n")}
            found.update(bisect_left(printed.starts, at) for at in _every("\n" + printed.text, f"\n{token}:"))
            self._tokens[token] = sorted(found)
        return self._tokens[token]

    # Numbers and dates, by where they stand in `printed`

    @cached_property
    def numbers(self) -> numbers.Numbers:
        printed = self.printed
        starts = printed.starts

        def joined(at: int) -> bool:
            if printed.text[at] != "\n":
                return True
            index = bisect_right(starts, at) - 1
            return self.are_close(index, index + 1)

        return numbers.Numbers(printed.text, joined)

    @cached_property
    def dates(self) -> dict[dates.Day, list[tuple[int, int]]]:
        found: defaultdict[dates.Day, list[tuple[int, int]]] = defaultdict(list)
        for start, end, days in dates.scan(self.printed.text):
            for day in days:
                found[day].append((start, end))
        return found

    @cached_property
    def clocks(self) -> list[tuple[int, int, tuple[dates.Clock, ...]]]:
        return list(dates.clocks(self.printed.text))

    # How words stand to each other

    def are_close(self, a: int, b: int) -> bool:
        """Whether two words follow each other on one line, as the groups of one number do."""
        return layout.near(self.words[a], self.words[b], _SPACE)

    def on_one_page(self, span: Span) -> bool:
        indexes = span.indexes()
        return self.page_of[indexes[0]] == self.page_of[indexes[-1]]

    def of_page(self, page: int) -> range:
        return range(self._firsts[page], self._firsts[page + 1] if page + 1 < len(self._firsts) else len(self.words))

    def line(self, word: int) -> tuple[int, int]:
        """On which line of which page a word stands, as (page, number of the line)."""
        page = self.page_of[word]
        if page not in self._lines:
            own = self.of_page(page)
            found = layout.lines(self.words, own.start, own.stop)
            self._lines[page] = {index: number for number, line in enumerate(found) for index in line}
        return page, self._lines[page][word]

    # Other orders of reading

    def likely(self, value: str, least: float = 0.5) -> list[int]:
        """The pages that hold most of a value's words, at least such a part of them; all pages of a short document."""
        if len(self.pages) <= MOST_PAGES:
            return list(range(len(self.pages)))
        counts: Counter[int] = Counter()
        tokens = {folding.bones_of(token) for token in value.split()[:MOST_TOKENS]}
        for token in tokens:
            counts.update({self.page_of[index] for index in self.standing(token)})
        return [page for page, count in counts.most_common(MOST_PAGES) if count >= least * len(tokens)]

    def other_orders(self, value: str) -> Iterator[Strand]:
        """The likely pages of a value by columns and, where a word is written so, from the right."""
        for page in self.likely(value):
            yield from self.orders_of(page)[1:]

    def orders_of(self, page: int) -> list[Strand]:
        """A page alone in all orders, the reader's first; none of a page without words."""
        own = self.of_page(page)
        if own and page not in self._orders:
            orders = [own, layout.by_columns(self.words, own.start, own.stop)]
            reverse = layout.from_the_right(self.words, own.start, own.stop)
            if reverse:
                orders.append(reverse)
            self._orders[page] = [strand(self.bones, list(order), folding.bones_of) for order in orders]
        return self._orders.get(page, [])


def _bounded(texts: Sequence[str]) -> list[str]:
    left = MOST_CHARACTERS
    found: list[str] = []
    for text in texts:
        left -= len(text)
        found.append(text.replace("\n", " ") if len(text) <= LONGEST_WORD and left >= 0 else "")
    return found


def _every(text: str, part: str) -> Iterator[int]:
    """Where a part stands in a text, at most MOST_PLACES times; it may overlap itself by a character."""
    at = text.find(part)
    for _ in range(MOST_PLACES):
        if at < 0:
            return
        yield at
        at = text.find(part, at + len(part) - 1)
