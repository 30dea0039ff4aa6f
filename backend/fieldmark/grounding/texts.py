"""Where a text stands, by its letters and digits: as it is written, in another order of reading, or misread by OCR."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain, pairwise
from typing import Final

import regex

from fieldmark.domain import folding
from fieldmark.grounding import fuzzy, layout, numbers
from fieldmark.grounding.index import MOST_PAGES, MOST_PLACES, MOST_TOKENS, Index
from fieldmark.grounding.places import Candidates
from fieldmark.grounding.strand import BREAK, Span, Strand, strand

LONGEST_VALUE: Final = 20_000  # characters
_HITS: Final = 2_000  # occurrences of one value's characters, cut off from longer words, that are looked at
_MISREADINGS: Final = 2_000  # texts of a document's fields that are looked for as misread: each costs milliseconds
_NEAREST_LENGTH: Final = 100  # characters of a quote by which what is most like it is sought

_SHORT: Final = 3  # characters; so few stand in very many longer words
# From so many characters on, a grouping of digits by spaces or dashes is only a way of writing: IBAN, telephone.
_LONG: Final = 8

_JUNCTION = re.compile(r"(?<=\d)[\W_]*(?=\d)")
_POINTS = frozenset(".,'·:")
_LETTERS_END = re.compile(r"[^\W\d_]*\Z")
_BONE = regex.compile(r"[\p{L}\p{M}\p{N}]")
_MARK = regex.compile(r"\p{M}")

# Signs of one currency only: a $ may be many.
_SIGNS: Final = {
    "EUR": "€",
    "GBP": "£",
    "INR": "₹",
    "KRW": "₩",
    "ILS": "₪",
    "RUB": "₽",
    "TRY": "₺",
    "UAH": "₴",
    "VND": "₫",
    "THB": "฿",
    "PHP": "₱",
    "NGN": "₦",
    "USD": "us$",
    "BRL": "r$",
}


class Texts:
    """The texts of one document."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._misreadings = _MISREADINGS  # left
        self._quotes: dict[tuple[str, int | None], Candidates | None] = {}

    def quoted(self, quote: str, page: int | None) -> Candidates | None:
        """Where it stands on the page of this number, also in another order or misread; if nowhere there, anywhere."""
        # Once: the quote of a list is asked for by each of its leaves, and misreadings are counted.
        if (quote, page) not in self._quotes:
            self._quotes[quote, page] = self._quoted(quote, page)
        return self._quotes[quote, page]

    def _quoted(self, quote: str, page: int | None) -> Candidates | None:
        index, found = self._index, self.find(quote)
        if found is None or page not in index.pages:
            return found
        at = index.pages.index(page)
        spans = [span for span in found.spans if index.page_of[span.word] == at]
        return replace(found, spans=spans) if spans else self.find(quote, on=at) or found

    def find(self, value: str, on: int | None = None) -> Candidates | None:
        """In any order of reading, or misread; anywhere, or on one page alone."""
        index = self._index
        text = " ".join(value.split())
        found = self.as_written(text) if on is None else None
        folded = folding.plain(text)
        needle = folding.bones(folded)
        if found or not needle:
            return found
        if on is None and text in _SIGNS and (found := self._signs(_SIGNS[text], text)):
            return found
        # In another order the same words stand, but for those that are broken at the end of a line.
        if "-\n" in index.printed.text or all(
            folding.bones(token) in index.reading.text for token in folded.split()[:MOST_TOKENS]
        ):
            for other in index.other_orders(folded) if on is None else index.orders_of(on):
                spans = self._stands(other, needle, folded)
                if spans:
                    return Candidates("normalised", spans, text)
        if not fuzzy.allowed(needle) or not self._misreadings:
            return None
        self._misreadings -= 1
        for one in chain([index.reading], index.other_orders(folded)) if on is None else index.orders_of(on):
            hits = fuzzy.stands(needle, one.text, one.starts)
            spans = [span for a, b in hits if index.on_one_page(span := one.span(a, b)) and self._is_recognised(span)]
            if spans:
                return Candidates("fuzzy", spans[:MOST_PLACES], text)
        return None

    def as_written(self, text: str) -> Candidates | None:
        """In reading order."""
        folded = folding.plain(text)
        needle = folding.bones(folded)
        if not needle or len(needle) > LONGEST_VALUE:
            return self._signs(folded, text) if needle == "" and text else None
        spans = self._stands(self._index.reading, needle, folded)
        return Candidates("normalised", spans, text) if spans else None

    def nearest(self, quote: str, page: int | None) -> Candidates | None:
        """The one place on the page of this number (or a likely page) that is most like a text, if it is more alike
        than not."""
        index = self._index
        needle = folding.bones_of(quote[:LONGEST_VALUE])[:_NEAREST_LENGTH]
        if not needle:
            return None
        at = [n for n, number in enumerate(index.pages) if page is None or number == page]
        if page is None and len(at) > MOST_PAGES:
            at = index.likely(quote, least=0.0) or at[:MOST_PAGES]
        best: tuple[float, Span] | None = None
        for one in at:
            words = index.of_page(one)
            own = strand([index.bones[word] for word in words], range(len(words)), folding.bones_of)
            ranked = fuzzy.most_like(needle, own.text, own.starts)
            if ranked and (best is None or ranked[0] < best[0]):
                before = index.reading.starts[words.start]
                best = (ranked[0], index.reading.span(before + ranked[1], before + ranked[2]))
        return Candidates("fuzzy", [best[1]], quote) if best else None

    def _stands(self, on: Strand, needle: str, folded: str) -> list[Span]:
        """Where the needle stands as whole tokens."""
        index = self._index
        spans: list[Span] = []
        if len(needle) <= _SHORT and on is index.reading:
            for word in index.standing(needle):
                if index.bones[word] != needle:
                    continue
                span = Span(on, word, word, 0, len(needle), word)
                if self._agrees(span, folded, needle):
                    spans.append(span)
            if spans:
                return spans
        text, at, misses = on.text, on.text.find(needle), 0
        while at >= 0 and len(spans) < MOST_PLACES and misses < _HITS:
            span = on.span(at, at + len(needle))
            if self._whole(span) and index.on_one_page(span) and self._agrees(span, folded, needle):
                spans.append(span)
                at = text.find(needle, at + len(needle))
            else:
                misses += 1
                at = text.find(needle, at + 1)
        return spans

    def _whole(self, span: Span) -> bool:
        """Whether the span cuts no token at its ends."""
        index, order = self._index, span.strand.order
        if span.head and not _separable(index.plain[order[span.first]], span.head):
            return False
        last = order[span.last]
        if span.tail != len(index.bones[last]):
            return _separable(index.plain[last], span.tail)
        return not self._goes_on(order, span.last) and (span.head > 0 or not self._goes_on(order, span.first - 1))

    def _goes_on(self, order: Sequence[int], at: int) -> bool:
        """Whether the word at a position is the first half of one that a line's end breaks."""
        if not 0 <= at < len(order) - 1 or BREAK in (order[at], order[at + 1]):
            return False
        word, following = self._index.words[order[at]], self._index.words[order[at + 1]]
        return (
            self._index.plain[order[at]][-1:] == "-"
            and word[0][-2:-1].isalpha()
            and following[0][:1].islower()
            and not layout.level(word, following)
        )

    def _is_recognised(self, span: Span) -> bool:
        """Whether its words come from OCR, which misreads: what a file says of itself in letters is not misread."""
        return all(len(self._index.words[word]) > 5 for word in span.indexes())

    def _agrees(self, span: Span, folded: str, needle: str) -> bool:
        """Whether text of the same letters and digits says the same: 1.5 is not 15, nor C++ C."""
        index, indexes = self._index, span.indexes()
        parts = [index.plain[word] for word in indexes]
        if span.tail != len(index.bones[indexes[-1]]):
            parts[-1] = parts[-1][: _bone_at(parts[-1], span.tail - 1) + 1]
        if span.head:
            parts[0] = parts[0][_bone_at(parts[0], span.head) :]
        printed = " ".join(parts)
        if printed == folded:
            return True
        if ("+" in printed or "#" in printed or "+" in folded or "#" in folded) and _languages(printed) != _languages(
            folded
        ):
            return False
        if not any(map(str.isdigit, needle)):
            return True
        long = len(needle) >= _LONG
        for a, b in zip(_JUNCTION.findall(folded), _JUNCTION.findall(printed), strict=False):
            one, other = a.strip(), b.strip()
            if a == b or (a and b and (one == other or long or (one in _POINTS) == (other in _POINTS))):
                continue
            if not long or (one in _POINTS if a else other in _POINTS):
                return False
            if b.isspace() and not all(index.are_close(*pair) for pair in pairwise(indexes)):
                return False
        return True

    def _signs(self, folded: str, text: str) -> Candidates | None:
        """Where text without letters or digits stands: a currency's sign anywhere, the rest only as a word."""
        glued = regex.fullmatch(r"[\p{L}]*\p{Sc}", folded) is not None
        printed = self._index.printed
        spans: list[Span] = []
        at = printed.text.find(folded)
        for _ in range(_HITS):
            if at < 0 or len(spans) == MOST_PLACES:
                break
            end = at + len(folded)
            around = printed.text[max(0, at - 1) : at] + printed.text[end : end + 1]
            if (not glued and not around.strip("\n")) or (glued and not (folded[0].isalpha() and around[:1].isalpha())):
                spans.append(printed.span(at, end))
            at = printed.text.find(folded, end)
        return Candidates("normalised", spans, text) if spans else None


def _bone_at(plain: str, number: int) -> int:
    """Where in a plain word its letter or digit of a number (from 0) stands."""
    return number if plain.isascii() and plain.isalnum() else _bones_at(plain)[number]


@lru_cache(maxsize=256)
def _bones_at(plain: str) -> list[int]:
    return [bone.start() for bone in _BONE.finditer(plain)]


def _separable(plain: str, bone: int) -> bool:
    """Whether a word's text may be parted before one of its letters or digits without cutting a token."""
    left, right = _bone_at(plain, bone - 1), _bone_at(plain, bone)
    a, between, b = plain[left], plain[left + 1 : right], plain[right]
    if folding.UNSPACED.match(a) or folding.UNSPACED.match(b):
        return not _MARK.match(b)
    if not between:
        # "EUR9.00": a currency may be glued to its amount.
        if a.isdigit() == b.isdigit():
            return False
        letters = (
            re.match(r"[^\W\d_]*", plain[right : right + 6])
            if a.isdigit()
            else _LETTERS_END.search(plain, max(0, left - 5), left + 1)
        )
        return letters is not None and letters[0] in numbers.CURRENCIES
    if a.isdigit() and b.isdigit():
        return len(between) > 1 and not between.isspace()
    if between in ("-", "'", "@", "_", "&", "\\") or between == ".":
        return between == "." and not a.isdigit() and b.isdigit()
    return True


def _languages(text: str) -> list[str]:
    return re.findall(r"(?<=[^\W\d_])[+#]+", text)
