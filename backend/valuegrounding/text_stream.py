"""Join words into one searchable text, and map a match in that text back to its words."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, count
from operator import add
from typing import Final

BREAK: Final = -1  # in an order: a gap that no match may cross, such as the end of a column


@dataclass(frozen=True, slots=True, eq=False)
class TextStream:
    """The folded text of some words, in one reading order.

    Word `order[n]` starts at character `starts[n]` of `text`. `fold` is the function that folded the words, and `gap`
    is the number of characters between two words.
    """

    text: str
    starts: Sequence[int]
    order: Sequence[int]
    fold: Callable[[str], str]
    gap: int

    @classmethod
    def of(
        cls, folded_words: Sequence[str], order: Sequence[int], fold: Callable[[str], str], gap: str = ""
    ) -> TextStream:
        """Create a stream of folded words; `order` holds their indexes."""
        parts = folded_words
        if not isinstance(order, range):
            parts = ["\0" if index == BREAK else folded_words[index] for index in order]
        starts = list(accumulate(map(len, parts), initial=0))
        starts.pop()
        if gap:
            starts = list(map(add, starts, count(0, len(gap))))
        return cls(gap.join(parts), starts, order, fold, len(gap))

    def span(self, start: int, end: int) -> Span:
        """Return the words under the characters start..end-1."""
        first = bisect_right(self.starts, start) - 1
        last = bisect_right(self.starts, end - 1, lo=first) - 1
        return Span(self, first, last, start - self.starts[first], end - self.starts[last], self.order[first])


@dataclass(frozen=True, slots=True)
class Span:
    """A match in a stream: from character `start_in_word` of the word at position `first`, to before character
    `end_in_word` of the word at position `last`. Both characters are counted in the folded text."""

    stream: TextStream
    first: int
    last: int
    start_in_word: int
    end_in_word: int
    first_word: int  # index of its first word in the document

    def word_indexes(self) -> Sequence[int]:
        return self.stream.order[self.first : self.last + 1]

    @property
    def key(self) -> tuple[int, int]:
        """Return where the span starts, which distinguishes it from other spans on the same words."""
        return self.first_word, self.start_in_word
