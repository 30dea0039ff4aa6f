"""Unmapped text: the numbers and dates of a document that no value of an extraction covers.

A *number* here is any text with digits that is not a date: an amount, a count, an identifier.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

import regex

from valuegrounding.dates import find_dates
from valuegrounding.evidence import Unmapped, UnmappedKind, UnmappedPart, UnmappedValue
from valuegrounding.folding import UNSPACED
from valuegrounding.layout import on_same_line
from valuegrounding.locations import Candidates, WordPart, boxes_of_parts, word_parts
from valuegrounding.numbers import BODY, Number
from valuegrounding.word_index import WordIndex

MAX_UNMAPPED: Final = 1000  # items returned at once
_MAX_SPANS: Final = 200_000  # spans of values; text covered only by further spans is returned as unmapped
_MAX_WORDS_BEFORE: Final = 20
_MAX_JSON_DIGITS: Final = 15  # digits that every JSON reader preserves
_DIGIT = re.compile(r"\d")
# One token: `INV/2023/03`, `20:13`, `a.b@c1`. A script without spaces ends a token.
_TOKEN = regex.compile(
    rf"(?V1)[\p{{L}}\p{{M}}\p{{N}}--{UNSPACED.pattern}]+"
    rf"(?:(?:[-/.,'_·&@+]|(?<=\p{{Nd}}):(?=\p{{Nd}}))[\p{{L}}\p{{M}}\p{{N}}--{UNSPACED.pattern}]+)*"
)


class CoveredText:
    """The characters of words that values cover."""

    def __init__(self, index: WordIndex) -> None:
        self._index = index
        self._ranges: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        self._left = _MAX_SPANS

    def add(self, candidates: Candidates) -> None:
        """Mark the spans of all candidates of a value as covered."""
        for span in candidates.spans[: self._left]:
            self._left -= 1
            time = candidates.times.get(span) if candidates.times else None
            for one in (span, time) if time is not None else (span,):
                for word, start, end in word_parts(self._index, one, candidates.text):
                    self._ranges[word].append((start, end))

    def covers(self, parts: Iterable[WordPart]) -> bool:
        """Return whether a value covers any character of these."""
        return any(
            start < other_end and other_start < end
            for word, start, end in parts
            for other_start, other_end in self._ranges.get(word, ())
        )


def unmapped(index: WordIndex, covered: CoveredText, since_page: int, limit: int) -> UnmappedPart:
    """Return the unmapped text from a page on, in reading order. Pages after the limit are not searched."""
    items: list[Unmapped] = []
    counts: list[tuple[int, int]] = []
    for page, number in enumerate(index.pages):
        found = _find_on_page(index, covered, page) if number >= since_page else []
        if found and items and len(items) + len(found) > limit:
            return UnmappedPart(items, counts, number)
        if found:
            counts.append((number, len(found)))
            items += [_as_unmapped(index, *one) for one in found[:limit]]
    return UnmappedPart(items, counts, None)


def numbers_and_dates_on(index: WordIndex, page: int) -> Iterator[tuple[list[int], UnmappedValue]]:
    """Yield the words of each number and date on a page, and its value."""
    for _, parts, value in _find_on_page(index, CoveredText(index), index.pages.index(page)):
        yield [word for word, _, _ in parts], value


def _find_on_page(
    index: WordIndex, covered: CoveredText, page: int
) -> list[tuple[UnmappedKind, list[WordPart], UnmappedValue]]:
    words = index.words_of_page(page)
    if not words:
        return []
    found: list[tuple[UnmappedKind, list[WordPart], UnmappedValue]] = []
    for kind, start, end, value in _numbers_and_dates(index, covered, words):
        under = _parts_between(index, start, end)
        if under and not covered.covers(under):
            found.append((kind, under, value))
    found.sort(key=lambda one: one[1][0])
    return found


def _as_unmapped(index: WordIndex, kind: UnmappedKind, words: list[WordPart], value: UnmappedValue) -> Unmapped:
    page = index.page_of[words[0][0]]
    first = index.words_of_page(page).start
    text = " ".join(index.words[word][0][start:end] for word, start, end in words)
    boxes = boxes_of_parts(index, words)
    before = _text_before(index, first, words[0][0])
    return Unmapped(index.pages[page], kind, text, value, boxes, words[0][0] - first, words[-1][0] - first, before)


def _text_before(index: WordIndex, first: int, word: int) -> str:
    """Return the words to the left of a word on its line, among those that are read shortly before it."""
    at = index.words[word]
    left = [
        other
        for other in index.words[max(first, word - _MAX_WORDS_BEFORE) : word]
        if other[3] <= at[1] and on_same_line(other, at)
    ]
    return " ".join(other[0] for other in left)


def _parts_between(index: WordIndex, start: int, end: int) -> list[WordPart]:
    return word_parts(index, index.folded_stream.span(start, end), "")


def _numbers_and_dates(
    index: WordIndex, covered: CoveredText, words: range
) -> Iterator[tuple[UnmappedKind, int, int, UnmappedValue]]:
    """Yield the (kind, start, end, value) of numbers and dates in consecutive words. Offsets are in the folded text.
    Longer matches come first, and matches never overlap."""
    text, starts = index.folded_stream.text, index.folded_stream.starts
    first, last = starts[words[0]], starts[words[-1]] + len(index.folded[words[-1]])
    taken: list[tuple[int, int]] = []

    dated = sorted(find_dates(text[first:last]), key=lambda one: (one.start, -one.end))
    for start, end, days in ((first + one.start, first + one.end, one.days) for one in dated):
        if (not taken or start >= taken[-1][1]) and index.are_read_together(start, end):
            (year, month, day), *others = days
            yield "date", start, end, None if others else f"{year:04}-{month:02}-{day:02}"
            taken.append((start, end))

    identifiers = [
        (starts[one], starts[other] + len(index.folded[other]))
        for one, other in index.identifiers
        if words[0] <= one and other <= words[-1]
    ]
    identifiers = [span for span in identifiers if not _overlaps_any(taken, *span)]
    for span in identifiers:
        yield "number", *span, None
    taken = sorted(taken + identifiers)

    grouped: list[tuple[int, int]] = []
    groups = index.numbers.groups
    for start, end in groups[bisect_left(groups, (first, 0)) : bisect_left(groups, (last, 0))]:
        # `2 100` may be two numbers: if a value covers one, the other is still unmapped.
        if not _overlaps_any(taken, start, end) and not covered.covers(_parts_between(index, start, end)):
            for number in index.numbers.read(start, end)[:1]:
                yield "number", number.start, number.end, _value_of(number)
                grouped.append((start, end))
    taken = sorted(taken + grouped)

    for at in words:
        word, begin = index.folded[at], starts[at]
        if _DIGIT.search(word) is None:
            continue
        for token in _TOKEN.finditer(word):
            start, end = begin + token.start(), begin + token.end()
            bodies = [body.span() for body in BODY.finditer(text, start, end)]
            if not bodies or _overlaps_any(taken, start, end):
                continue
            numbers = [index.numbers.read(*body) for body in bodies]
            if all(numbers):
                for number, *_ in numbers:
                    yield "number", number.start, number.end, _value_of(number)
            else:
                yield "number", start, end, None


def _overlaps_any(taken: list[tuple[int, int]], start: int, end: int) -> bool:
    at = bisect_left(taken, (end, end))
    return at > 0 and taken[at - 1][1] > start


def _value_of(number: Number) -> int | float | None:
    """Return the number as JSON, or None if it has several readings, is a limit, or has more digits than JSON readers
    keep."""
    readings = number.values or number.shifted
    if len(readings) != 1 or number.is_limit or sum(map(str.isdigit, readings[0])) > _MAX_JSON_DIGITS:
        return None
    return float(readings[0]) if "." in readings[0] else int(readings[0])
