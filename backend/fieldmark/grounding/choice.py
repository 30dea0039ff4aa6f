"""Which of several places a field means: the one in its quote, else nearest to its label, else on the claimed page."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias

from fieldmark.domain import folding
from fieldmark.grounding import labels, layout
from fieldmark.grounding.evidence import Claim
from fieldmark.grounding.index import Index
from fieldmark.grounding.layout import Word
from fieldmark.grounding.strand import Span
from fieldmark.grounding.texts import Texts

NOWHERE: Final = 2  # as a kind of nearness: not near the label
_PRINTINGS: Final = 16  # of one label on a page that are looked at
_RANKED: Final = 400  # places of one value that are weighed
_NEAR: Final = 200  # places of one value of which the nearest to the label is sought
_QUOTES: Final = 4  # places of a quote: one that stands in more tells none from others
_EQUAL: Final = 16  # equally likely places of which one that stands alone is sought

# By page: (0 for its whole last key, then weaker, first word, last word, box).
_Printings: TypeAlias = Mapping[int, Sequence[tuple[int, int, int, Word]]]


class Ranked(NamedTuple):
    """A place with what speaks against it, the smaller the likelier."""

    outside: bool  # of the quote
    kind: float  # of nearness to the label; NOWHERE if not near it
    elsewhere: bool  # than on the claimed page
    distance: float
    number: int
    span: Span


class Choice:
    """Chooses on one document, and keeps where its labels are printed."""

    def __init__(self, index: Index, texts: Texts) -> None:
        self._index = index
        self._texts = texts
        self._printings: dict[tuple[tuple[str, ...], ...], _Printings] = {}

    def choose(self, spans: Sequence[Span], label: Sequence[str | int], claim: Claim) -> Span:
        """The likeliest of a value's places; of equal ones the first."""
        if len(spans) == 1:
            return spans[0]
        return self.likeliest([(one[:4], one.span) for one in self.ranked(spans, label, claim)])

    def likeliest(self, keyed: Sequence[tuple[tuple[Any, ...], Span]]) -> Span:
        """The span with the least key; of equal ones the first that has no letters on it."""
        least = min(key for key, _ in keyed)
        equal = [span for key, span in keyed if key == least]
        return next((span for span in equal[:_EQUAL] if not _is_glued(span)), equal[0])

    def ranked(self, spans: Sequence[Span], label: Sequence[str | int], claim: Claim) -> list[Ranked]:
        """The spans, of very many the likelier ones, in their order."""
        index, quoted, page = self._index, self._quoted(claim), claim.page
        if len(spans) > _RANKED:
            spans = self._fewer(spans, quoted, label, page)
        near = self._near_label(spans, label, page)
        ranked: list[Ranked] = []
        for number, span in enumerate(spans):
            outside = not quoted or not any(first <= span.word <= last for first, last in quoted)
            kind, distance = near.get(number, (NOWHERE, 0.0))
            elsewhere = page is not None and index.pages[index.page_of[span.word]] != page
            ranked.append(Ranked(outside, kind, elsewhere, distance, number, span))
        return ranked

    def is_printed(self, label: Sequence[str | int]) -> bool:
        """Whether the last key is printed anywhere, whole."""
        names = labels.label_words(label)[:1]
        return any(hit[0] == 0 for hits in self._printed(names).values() for hit in hits) if names else False

    def _quoted(self, claim: Claim) -> list[tuple[int, int]]:
        """From which word to which the quote stands, in each of its places."""
        found = self._texts.quoted(claim.quote, claim.page) if claim.quote else None
        if not found or len(found.spans) > _QUOTES:
            return []
        return [(min(span.indexes()), max(span.indexes())) for span in found.spans]

    def _fewer(
        self, spans: Sequence[Span], quoted: Sequence[tuple[int, int]], label: Sequence[str | int], page: int | None
    ) -> Sequence[Span]:
        """Of very many places those in the quote, else on the claimed page, else on pages with the label, else the
        first."""
        index, labelled = self._index, self._printed(labels.label_words(label))
        for those in (
            (span for span in spans if any(first <= span.word <= last for first, last in quoted)),
            (span for span in spans if index.pages[index.page_of[span.word]] == page),
            (span for span in spans if index.page_of[span.word] in labelled),
        ):
            fewer = list(islice(those, _RANKED))
            if fewer:
                return fewer
        return spans[:_RANKED]

    def _near_label(
        self, spans: Sequence[Span], label: Sequence[str | int], page: int | None
    ) -> dict[int, tuple[float, float]]:
        """By number of the span: how near it is to the label, if it is (kind of nearness, distance in heights)."""
        names = labels.label_words(label)
        if not names:
            return {}
        index, printed = self._index, self._printed(names)
        best: dict[int, tuple[float, float]] = {}
        numbered = list(enumerate(spans))
        if len(numbered) > _NEAR:
            page_of = index.page_of
            numbered.sort(
                key=lambda one: (index.pages[page_of[one[1].word]] != page, page_of[one[1].word] not in printed)
            )
        for number, span in numbered[:_NEAR]:
            at = span.word
            before = ""
            if span.head and span.strand.fold is not folding.plain:
                before = index.bones[at][: span.head]
            elif span.head:
                before = folding.bones(index.plain[at][: span.head])
            if before and before.endswith(names[0][-1]):
                best[number] = (0.0, 0.0)  # "Date:12/03/2024" in one word
                continue
            word = index.words[at]
            for weakness, first, last, box in printed.get(index.page_of[at], ()):
                how = None if first <= at <= last else labels.distance(box, word)
                if how is not None:
                    key = (how[0] + weakness / 10, how[1])
                    if number not in best or key < best[number]:
                        best[number] = key
        return best

    def _printed(self, names: Sequence[tuple[str, ...]]) -> _Printings:
        """Where a label of these words is printed."""
        key = tuple(names)
        if key not in self._printings:
            index = self._index
            hits: defaultdict[int, list[tuple[int, int, int, Word]]] = defaultdict(list)
            for weakness, words in enumerate(names):
                whole = [
                    (4 * weakness, at, at + len(words) - 1)
                    for at in index.standing(words[0])
                    if len(words) == 1 or tuple(index.bones[at : at + len(words)]) == words
                ]
                parts = [(4 * weakness + 2, n, n) for word in words for n in index.standing(word)] if words[1:] else []
                for weak, first, last in whole + parts:
                    on = hits[index.page_of[first]]
                    if len(on) < _PRINTINGS:
                        on.append((weak, first, last, layout.union(index.words[first : last + 1])))
            self._printings[key] = hits
        return self._printings[key]


def _is_glued(span: Span) -> bool:
    """Whether a number or date has letters on it, such as a unit: one that stands alone is likelier meant."""
    if span.strand.fold is not folding.plain:
        return False
    text, start = span.strand.text, span.strand.starts[span.first] + span.head
    end = span.strand.starts[span.last] + span.tail
    return text[start - 1 : start].isalnum() or text[end : end + 1].isalnum()
