"""CandidateRanker: choose the span that a field means: inside its quote, nearest to its label, or on its page."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias

from valuegrounding import folding, layout
from valuegrounding.evidence import Claim
from valuegrounding.folding import fold_alphanumeric
from valuegrounding.layout import on_same_line
from valuegrounding.page import Word
from valuegrounding.text_search import TextSearch
from valuegrounding.text_stream import Span
from valuegrounding.word_index import WordIndex

NOT_NEAR: Final = 2  # the nearness of a span that is not near its label
_MAX_LABEL_HITS: Final = 16  # positions of one label on a page
_MAX_RANKED: Final = 400  # spans of one value
_MAX_MEASURED: Final = 200  # spans of one value whose distance to the label is measured
_MAX_QUOTES: Final = 4  # occurrences of a quote; a more frequent quote doesn't narrow the choice
_MAX_EQUAL: Final = 16  # equally likely spans that are checked for adjacent letters

_WORD_BREAK = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[\W_]+")
# In line heights: up to this distance a value counts as just below its label.
_MAX_BELOW = 3.0

# Keyed by page: (weakness, index of the first word, index of the last, box). The path's whole last key has weakness 0.
_LabelMatches: TypeAlias = Mapping[int, Sequence[tuple[int, int, int, Word]]]


class RankedSpan(NamedTuple):
    """A span with its sort key: of two spans, the one with the smaller fields is more likely."""

    outside_quote: bool
    nearness: float  # 0 right of its label or just below it, 1 further away, NOT_NEAR if not near it
    other_page: bool  # not on the claimed page
    distance: float  # to its label, in line heights
    number: int
    span: Span


class CandidateRanker:
    """Rank the spans of one document. Label positions are cached."""

    def __init__(self, index: WordIndex, text_search: TextSearch) -> None:
        self._index = index
        self._text_search = text_search
        self._label_hits: dict[tuple[tuple[str, ...], ...], _LabelMatches] = {}

    def best(self, spans: Sequence[Span], label: Sequence[str | int], claim: Claim) -> Span:
        """Return the most likely of a value's spans; of equally likely ones the first."""
        if len(spans) == 1:
            return spans[0]
        return self.most_likely([(one[:4], one.span) for one in self.rank(spans, label, claim)])

    def most_likely(self, keyed: Sequence[tuple[tuple[Any, ...], Span]]) -> Span:
        """Return the span with the smallest key. Of equal keys, return the first that does not touch letters, as `3m`
        does."""
        least = min(key for key, _ in keyed)
        equal = [span for key, span in keyed if key == least]
        return next((span for span in equal[:_MAX_EQUAL] if not _is_next_to_letters(span)), equal[0])

    def rank(self, spans: Sequence[Span], label: Sequence[str | int], claim: Claim) -> list[RankedSpan]:
        """Return the spans in order, each with its sort key. Of more than _MAX_RANKED, only the more likely ones."""
        index, quoted, page = self._index, self._quote_ranges(claim), claim.page
        if len(spans) > _MAX_RANKED:
            spans = self._shortlist(spans, quoted, label, page)
        near = self._near_label(spans, label, page)
        ranked: list[RankedSpan] = []
        for number, span in enumerate(spans):
            outside = not quoted or not any(first <= span.first_word <= last for first, last in quoted)
            nearness, distance = near.get(number, (NOT_NEAR, 0.0))
            other_page = page is not None and index.pages[index.page_of[span.first_word]] != page
            ranked.append(RankedSpan(outside, nearness, other_page, distance, number, span))
        return ranked

    def is_label_printed(self, label: Sequence[str | int]) -> bool:
        """Return whether all words of the path's last key are printed together somewhere."""
        names = _label_words(label)[:1]
        return any(hit[0] == 0 for hits in self._find_labels(names).values() for hit in hits) if names else False

    def _quote_ranges(self, claim: Claim) -> list[tuple[int, int]]:
        found = self._text_search.find_quote(claim.quote, claim.page) if claim.quote else None
        if not found or len(found.spans) > _MAX_QUOTES:
            return []
        return [(min(span.word_indexes()), max(span.word_indexes())) for span in found.spans]

    def _shortlist(
        self, spans: Sequence[Span], quoted: Sequence[tuple[int, int]], label: Sequence[str | int], page: int | None
    ) -> Sequence[Span]:
        """Return the spans in the quote; if there are none, those on the claimed page, then those on pages with the
        label, then any."""
        index, labelled = self._index, self._find_labels(_label_words(label))
        for those in (
            (span for span in spans if any(first <= span.first_word <= last for first, last in quoted)),
            (span for span in spans if index.pages[index.page_of[span.first_word]] == page),
            (span for span in spans if index.page_of[span.first_word] in labelled),
        ):
            fewer = list(islice(those, _MAX_RANKED))
            if fewer:
                return fewer
        return spans[:_MAX_RANKED]

    def _near_label(
        self, spans: Sequence[Span], label: Sequence[str | int], page: int | None
    ) -> dict[int, tuple[float, float]]:
        """Return the (nearness, distance in line heights) of the spans near the label, keyed by their number."""
        names = _label_words(label)
        if not names:
            return {}
        index, printed = self._index, self._find_labels(names)
        best: dict[int, tuple[float, float]] = {}
        numbered = list(enumerate(spans))
        if len(numbered) > _MAX_MEASURED:
            page_of = index.page_of
            numbered.sort(
                key=lambda one: (
                    index.pages[page_of[one[1].first_word]] != page,
                    page_of[one[1].first_word] not in printed,
                )
            )
        for number, span in numbered[:_MAX_MEASURED]:
            at = span.first_word
            before = ""
            if span.start_in_word and span.stream.fold is not folding.fold:
                before = index.alphanumeric[at][: span.start_in_word]
            elif span.start_in_word:
                before = folding.alphanumeric(index.folded[at][: span.start_in_word])
            if before and before.endswith(names[0][-1]):
                best[number] = (0.0, 0.0)  # "Date:12/03/2024" in one word
                continue
            word = index.words[at]
            for weakness, first, last, box in printed.get(index.page_of[at], ()):
                away = None if first <= at <= last else _distance(box, word)
                if away is not None:
                    key = (away[0] + weakness / 10, away[1])
                    if number not in best or key < best[number]:
                        best[number] = key
        return best

    def _find_labels(self, names: Sequence[tuple[str, ...]]) -> _LabelMatches:
        key = tuple(names)
        if key not in self._label_hits:
            index = self._index
            hits: defaultdict[int, list[tuple[int, int, int, Word]]] = defaultdict(list)
            for weakness, words in enumerate(names):
                whole = [
                    (4 * weakness, at, at + len(words) - 1)
                    for at in index.occurrences(words[0])
                    if len(words) == 1 or tuple(index.alphanumeric[at : at + len(words)]) == words
                ]
                parts = (
                    [(4 * weakness + 2, n, n) for word in words for n in index.occurrences(word)] if words[1:] else []
                )
                for weak, first, last in whole + parts:
                    on = hits[index.page_of[first]]
                    if len(on) < _MAX_LABEL_HITS:
                        on.append((weak, first, last, layout.merge(index.words[first : last + 1])))
            self._label_hits[key] = hits
        return self._label_hits[key]


def is_beside_key(nearness: float) -> bool:
    """Return whether words of the path's last key are printed beside a span or above it, and not only of the one
    before."""
    return nearness < NOT_NEAR and nearness % 1 < 0.3


def _is_next_to_letters(span: Span) -> bool:
    """Return whether a number or date touches letters, such as a unit: `3m`."""
    if span.stream.fold is not folding.fold:
        return False
    text, start = span.stream.text, span.stream.starts[span.first] + span.start_in_word
    end = span.stream.starts[span.last] + span.end_in_word
    return text[start - 1 : start].isalnum() or text[end : end + 1].isalnum()


def _label_words(path: Sequence[str | int]) -> list[tuple[str, ...]]:
    """Return the words of a path's last two keys, the last key first: `vendor.taxNumber` gives (tax, number),
    (vendor,)."""
    keys = [step for step in path if isinstance(step, str)][-2:]
    return [words for key in reversed(keys) if (words := words_of_key(key))]


@lru_cache(maxsize=1024)
def words_of_key(key: str) -> tuple[str, ...]:
    """Return the folded words of a key: `taxNumber` gives (tax, number)."""
    return tuple(folded for word in _WORD_BREAK.split(key) if (folded := fold_alphanumeric(word)))


def _distance(label: Word, value: Word) -> tuple[int, float] | None:
    """Return how far a value is from a label on the same page; smaller is nearer.

    (0, …): right of the label on its line, or just below it. (1, …): further down in its column, or left of it on its
    line. None: anywhere else.
    """
    height = max(label[4] - label[2], 1e-6)
    if on_same_line(label, value):
        # Boxes are fractions of the page, so widths and heights cannot be compared. Two letters are about one height.
        unit = max((label[3] - label[1]) * 2 / max(len(label[0]), 1), 1e-6)
        if value[1] >= label[3] - unit:
            return (0, max(value[1] - label[3], 0.0) / unit * 0.1)
        return (1, (label[1] - value[3]) / unit)
    below = (value[2] - label[4]) / height
    if below < -0.5 or min(label[3], value[3]) - max(label[1], value[1]) <= 0:
        return None
    return (0, below) if below <= _MAX_BELOW else (1, below)
