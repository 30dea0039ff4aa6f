"""A document's words one after the other as one folded text, and the way back from its characters to the words."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, count
from operator import add
from typing import Final

BREAK: Final = -1  # in an order: nothing stands on both sides of it


@dataclass(frozen=True, slots=True, eq=False)
class Strand:
    """`text` begins word `order[n]` at character `starts[n]`. `fold` made it of the words' own text; between two words
    stand `gap` characters."""

    text: str
    starts: Sequence[int]
    order: Sequence[int]
    fold: Callable[[str], str]
    gap: int

    def span(self, start: int, end: int) -> Span:
        first = bisect_right(self.starts, start) - 1
        last = bisect_right(self.starts, end - 1, lo=first) - 1
        return Span(self, first, last, start - self.starts[first], end - self.starts[last], self.order[first])

    def size(self, position: int) -> int:
        """How many characters the word at a position has here."""
        following = self.starts[position + 1] - self.gap if position + 1 < len(self.starts) else len(self.text)
        return following - self.starts[position]


@dataclass(frozen=True, slots=True)
class Span:
    """From character `head` of the word at position `first` to before character `tail` of the word at `last`, both
    counted in the strand's text."""

    strand: Strand
    first: int
    last: int
    head: int
    tail: int
    word: int  # the first it covers, as the document counts them

    def indexes(self) -> Sequence[int]:
        """The words it covers, as the document counts them."""
        return self.strand.order[self.first : self.last + 1]

    @property
    def where(self) -> tuple[int, int]:
        """What tells it from other spans on the same words."""
        return self.word, self.head


def strand(parts: Sequence[str], order: Sequence[int], fold: Callable[[str], str], gap: str = "") -> Strand:
    """Lay folded words, `parts` by index, in an order."""
    laid = parts if isinstance(order, range) else ["\0" if index == BREAK else parts[index] for index in order]
    starts = list(accumulate(map(len, laid), initial=0))
    starts.pop()
    if gap:
        starts = list(map(add, starts, count(0, len(gap))))
    return Strand(gap.join(laid), starts, order, fold, len(gap))
