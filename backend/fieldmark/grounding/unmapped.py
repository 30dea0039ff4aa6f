"""Unmapped text: the numbers and dates of pages that no value of an extraction covers.

A *number* has digits and is not a date: an amount, a count, an identifier.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import regex

from fieldmark.domain.folding import UNSPACED
from fieldmark.grounding.dates import find_dates
from fieldmark.grounding.layout import Box
from fieldmark.grounding.locations import Candidates, WordPart, boxes_of_parts, word_parts
from fieldmark.grounding.numbers import BODY, Number
from fieldmark.grounding.word_index import WordIndex

Kind: TypeAlias = Literal["number", "date"]
Value: TypeAlias = str | int | float | None

MOST_UNMAPPED: Final = 1000  # told at once
MOST_SPANS: Final = 200_000  # places of values; what further ones would claim is told as unmapped
_MOST_DIGITS: Final = 15  # of a JSON number that every reader keeps
_DIGIT = re.compile(r"\d")
# What is written as one: `INV/2023/03`, `20:13`, `a.b@c1`. Not across scripts without spaces, where a line is one word.
_TOKEN = regex.compile(
    rf"(?V1)[\p{{L}}\p{{M}}\p{{N}}--{UNSPACED.pattern}]+"
    rf"(?:(?:[-/.,'_·&@+]|(?<=\p{{Nd}}):(?=\p{{Nd}}))[\p{{L}}\p{{M}}\p{{N}}--{UNSPACED.pattern}]+)*"
)


@dataclass(frozen=True, slots=True)
class Unmapped:
    """A number or date on a page that no value covers.

    `text` is as printed; `first` and `last` are its words, counted on the page from 0. `value` is the number, or the
    day (YYYY-MM-DD), where only one is possible.
    """

    page: int
    kind: Kind
    text: str
    value: Value
    boxes: tuple[Box, ...]
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class UnmappedPart:
    """Whole pages of what no value stands on, the items of one page cut where it alone has too many. `counts` are those
    of these pages: (page, how many). `next` is the page from which on others follow, None at the end."""

    items: Sequence[Unmapped]
    counts: Sequence[tuple[int, int]]
    next: int | None


class ClaimedWords:
    """The characters of words on which values stand."""

    def __init__(self, index: WordIndex) -> None:
        self._index = index
        self._ranges: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        self._left = MOST_SPANS

    def add(self, candidates: Candidates) -> None:
        """A value stands at all of these."""
        for span in candidates.spans[: self._left]:
            self._left -= 1
            time = candidates.times.get(span) if candidates.times else None
            for one in (span, time) if time is not None else (span,):
                for word, start, end in word_parts(self._index, one, candidates.wanted):
                    self._ranges[word].append((start, end))

    def has(self, some: Iterable[WordPart]) -> bool:
        """Whether a value stands on any character of these."""
        return any(
            start < other_end and other_start < end
            for word, start, end in some
            for other_start, other_end in self._ranges.get(word, ())
        )


def unmapped(index: WordIndex, claimed: ClaimedWords, since_page: int, most: int) -> UnmappedPart:
    """What no value stands on, from a page on, in the order of the words. Further pages are not looked at."""
    items: list[Unmapped] = []
    counts: list[tuple[int, int]] = []
    for page, number in enumerate(index.pages):
        found = _of_page(index, claimed, page) if number >= since_page else []
        if found and items and len(items) + len(found) > most:
            return UnmappedPart(items, counts, number)
        if found:
            counts.append((number, len(found)))
            items += [_told(index, *one) for one in found[:most]]
    return UnmappedPart(items, counts, None)


def _of_page(index: WordIndex, claimed: ClaimedWords, page: int) -> list[tuple[Kind, list[WordPart], Value]]:
    own = index.words_of_page(page)
    if not own:
        return []
    found: list[tuple[Kind, list[WordPart], Value]] = []
    for kind, start, end, value in _numbers_and_dates(index, claimed, own):
        under = _pieces_of(index, start, end)
        if under and not claimed.has(under):
            found.append((kind, under, value))
    found.sort(key=lambda one: one[1][0])
    return found


def _told(index: WordIndex, kind: Kind, own: list[WordPart], value: Value) -> Unmapped:
    page = index.page_of[own[0][0]]
    first = index.words_of_page(page).start
    text = " ".join(index.words[word][0][start:end] for word, start, end in own)
    boxes = boxes_of_parts(index, own)
    return Unmapped(index.pages[page], kind, text, value, boxes, own[0][0] - first, own[-1][0] - first)


def _pieces_of(index: WordIndex, start: int, end: int) -> list[WordPart]:
    return word_parts(index, index.folded_stream.span(start, end), "")


def _numbers_and_dates(index: WordIndex, claimed: ClaimedWords, own: range) -> Iterator[tuple[Kind, int, int, Value]]:
    """Yield the numbers and dates of consecutive words, by their offsets in the folded text.

    Longer ones come first, and none overlaps another.
    """
    text, starts = index.folded_stream.text, index.folded_stream.starts
    first, last = starts[own[0]], starts[own[-1]] + len(index.folded[own[-1]])
    over: list[tuple[int, int]] = []

    dated = sorted(find_dates(text[first:last]), key=lambda one: (one.start, -one.end))
    for start, end, days in ((first + one.start, first + one.end, one.days) for one in dated):
        if (not over or start >= over[-1][1]) and index.is_read_together(start, end):
            (year, month, day), *others = days
            yield "date", start, end, None if others else f"{year:04}-{month:02}-{day:02}"
            over.append((start, end))

    identifiers = [
        (starts[one], starts[other] + len(index.folded[other]))
        for one, other in index.identifiers
        if own[0] <= one and other <= own[-1]
    ]
    identifiers = [span for span in identifiers if not _is_over(over, *span)]
    for span in identifiers:
        yield "number", *span, None
    over = sorted(over + identifiers)

    grouped: list[tuple[int, int]] = []
    groups = index.numbers.groups
    for start, end in groups[bisect_left(groups, (first, 0)) : bisect_left(groups, (last, 0))]:
        # `2 100` may be two numbers: one of them in a value leaves the other.
        if not _is_over(over, start, end) and not claimed.has(_pieces_of(index, start, end)):
            for number in index.numbers.read(start, end)[:1]:
                yield "number", number.start, number.end, _value_of(number)
                grouped.append((start, end))
    over = sorted(over + grouped)

    for at in own:
        word, begin = index.folded[at], starts[at]
        if _DIGIT.search(word) is None:
            continue
        for token in _TOKEN.finditer(word):
            start, end = begin + token.start(), begin + token.end()
            bodies = [body.span() for body in BODY.finditer(text, start, end)]
            if not bodies or _is_over(over, start, end):
                continue
            numbers = [index.numbers.read(*body) for body in bodies]
            if all(numbers):
                for number, *_ in numbers:
                    yield "number", number.start, number.end, _value_of(number)
            else:
                yield "number", start, end, None


def _is_over(over: list[tuple[int, int]], start: int, end: int) -> bool:
    at = bisect_left(over, (end, end))
    return at > 0 and over[at - 1][1] > start


def _value_of(number: Number) -> int | float | None:
    """The one number that it can be, as JSON; None where it can be several, is a limit, or no reader would keep its
    digits."""
    readings = number.values or number.shifted
    if len(readings) != 1 or number.is_limit or sum(map(str.isdigit, readings[0])) > _MOST_DIGITS:
        return None
    return float(readings[0]) if "." in readings[0] else int(readings[0])
