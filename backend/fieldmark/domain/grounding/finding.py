"""Where values stand: a document's words, and for each value the place that its field most likely means.

All work is bounded: see the limits below, and those in fuzzy.py and numbers.py.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import chain, count, islice, pairwise
from operator import add
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import regex
from pydantic import JsonValue

from fieldmark.domain import fields as walking
from fieldmark.domain import paths
from fieldmark.domain.grounding import dates, folding, fuzzy, labels, layout, numbers
from fieldmark.domain.grounding.layout import Box, Word
from fieldmark.domain.grounding.strand import BREAK, Span, Strand, strand

Match: TypeAlias = Literal["exact", "normalised", "number", "date", "fuzzy", "quote"]
State: TypeAlias = Literal["found", "blank", "not_found"]
_Labels: TypeAlias = Mapping[int, Sequence[tuple[int, int, int, Word]]]

# How sure a place is by the way it matched, before what OCR says of its words.
WEIGHTS: Final[Mapping[Match, float]] = {
    "exact": 1.0,
    "normalised": 0.99,  # the same letters and digits; only case, spaces, forms or punctuation differ
    "number": 0.98,  # the same value; 1.250 can be read both ways
    "date": 0.97,  # the same day; 02/03/2024 can be read both ways
    "fuzzy": 0.85,  # up to one character in ten differs
    "quote": 0.7,  # only what the model quotes is there, not the value
}

LONGEST_WORD = 2_000  # characters; a longer run without a space is no word, and grounds nothing
LONGEST_VALUE = 20_000  # characters
MOST_CHARACTERS = 20_000_000  # of a document; what comes after grounds nothing
_HITS = 2_000  # occurrences of one value's characters, cut off from longer words, that are looked at
_MISREADINGS = 2_000  # texts of a document's fields that are looked for as misread: each costs milliseconds
_PLACES = 10_000  # places of one value that are kept and counted
_LABELS = 16  # printings of one label on a page that are looked at
_NEAR = 200  # places of one value of which the nearest to the label is sought
_PAGES = 4  # pages that are read in other orders too for one value

_TOKENS = 200  # words of one value by which its page is sought

_JUNCTION = re.compile(r"(?<=\d)[\W_]*(?=\d)")
_POINTS = frozenset(".,'·:")
_LETTERS_END = re.compile(r"[^\W\d_]*\Z")
_BONE = regex.compile(r"[\p{L}\p{M}\p{N}]")
_MARK = regex.compile(r"\p{M}")
_LEADING = re.compile(r"^[\W_]*")
_TRAILING = re.compile(r"[\W_]*$")
# From so many characters on, a grouping of digits by spaces or dashes is only a way of writing: IBAN, telephone.
_LONG = 8

# Signs of one currency only: a $ may be many.
_SIGNS: Final[Mapping[str, str]] = {
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


@dataclass(frozen=True, slots=True)
class PageWords:
    """A page: its number, and its words as `document_pages.words` holds them: [text, x0, y0, x1, y1] and, from OCR, a
    confidence 0..1. Boxes are in parts of the page, words in reading order."""

    number: int
    words: Sequence[Word]


@dataclass(frozen=True, slots=True)
class Claim:
    """What the model says of a value; a person's write has no claim."""

    quote: str | None = None
    page: int | None = None
    confidence: float | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value stands. `boxes` are one a line, in parts of the page; `quote` is what they cover, as printed;
    `places` is in how many places the value could stand; `word_confidence` that of the least sure word."""

    page: int
    boxes: tuple[Box, ...]
    quote: str
    match: Match
    word_confidence: float
    places: int

    @property
    def confidence(self) -> float:
        return round(WEIGHTS[self.match] * self.word_confidence, 4)


@dataclass(frozen=True, slots=True)
class Finding:
    """What became of a leaf: `found` with its place; `blank`: no value, and the label is printed; else `not_found`."""

    state: State
    place: Place | None

    @property
    def confidence(self) -> float:
        """What is shown for the value: 0 where it was not found."""
        return self.place.confidence if self.place else 0.0

    def as_json(self, claim: Claim | None = None) -> dict[str, Any]:
        """The evidence as `extractions.evidence` keeps it."""
        place = self.place
        return {
            "state": self.state,
            "match": place.match if place else None,
            "page": place.page if place else None,
            "boxes": [list(box) for box in place.boxes] if place else [],
            "quote": place.quote if place else None,
            "places": place.places if place else 0,
            "claim": None
            if claim is None
            else {"confidence": claim.confidence, "quote": claim.quote, "page": claim.page},
        }


@dataclass(frozen=True, slots=True)
class _Found:
    """All places of a value that match equally well. `sought` is its text, for what punctuation belongs to it."""

    match: Match
    spans: Sequence[Span]
    sought: str = ""
    beside: Mapping[Span, Span] | None = None  # a date's time, where it is printed apart


class _Ranked(NamedTuple):
    """A place with what speaks against it, the smaller the likelier."""

    outside: bool  # of the quote
    kind: float  # of nearness to the label; _NOWHERE if not near it
    elsewhere: bool  # than on the claimed page
    distance: float
    number: int
    span: Span


class Grounds:
    """The words of one document, to find values on."""

    def __init__(self, pages: Iterable[PageWords]) -> None:
        self._words: list[Word] = []
        self._pages: list[int] = []  # numbers
        self._firsts: list[int] = []  # index of each page's first word
        self._page_of: list[int] = []  # by word: the index of its page
        for page in pages:
            self._page_of += [len(self._pages)] * len(page.words)
            self._pages.append(page.number)
            self._firsts.append(len(self._words))
            self._words.extend(page.words)
        texts: list[str] = [word[0] for word in self._words]
        joined = "\n".join(texts)
        if joined.count("\n") != len(texts) - 1 or len(joined) > MOST_CHARACTERS or max(map(len, texts)) > LONGEST_WORD:
            texts = _bounded(texts)
            joined = "\n".join(texts)
        folded = folding.plain(joined)
        self._plain: list[str] = folded.split("\n") if texts else []
        bones = folding.bones(folded)
        self._bones: list[str] = bones.split("\n") if texts else []
        self._lined = f"\n{bones}\n"
        self._tokens: dict[str, list[int]] = {}
        self._found: dict[tuple[type, object], _Found | None] = {}
        self._misreadings = _MISREADINGS
        self._label_hits: dict[tuple[tuple[str, ...], ...], _Labels] = {}
        self._lines: dict[int, dict[int, int]] = {}
        self._orders: dict[int, list[Strand]] = {}

    def find(
        self,
        value: JsonValue,
        *,
        label: Sequence[str | int] = (),
        quote: str | None = None,
        page: int | None = None,
    ) -> Place | None:
        """Where a scalar stands, or None. Of several places the one within the quote (on the page, if it stands there),
        else nearest to the label, else on the page, else the first."""
        return self._choose(self._candidates(value, quote, page), label, quote, page)

    def find_quote(self, quote: str, page: int | None = None) -> Place | None:
        """Where text stands as it is, by its letters and digits (exact, normalised or fuzzy), or None. On another page
        than the given one only if it does not stand there at all."""
        return self._choose(self._quote(quote, page), (), None, page)

    def ground(self, fields: Mapping[str, JsonValue], claims: Mapping[str, Claim]) -> dict[str, Finding]:
        """A finding for every leaf of the fields, by path name. The leaves of a row prefer one line, and different rows
        different lines. `claims` are by path name too."""
        return self.ground_leaves(walking.leaves(dict(fields)), claims)

    def ground_leaves(self, leaves: Iterable[tuple[str, JsonValue]], claims: Mapping[str, Claim]) -> dict[str, Finding]:
        """As `ground`, for leaves by path name, which need not be all of their document."""
        found: dict[str, Finding] = {}
        rows: dict[paths.Path, list[tuple[paths.Path, str, JsonValue]]] = {}
        for name, value in leaves:
            path = paths.parse(name) if name else ()
            depth = max((n for n, step in enumerate(path, 1) if isinstance(step, int)), default=0)
            found[name] = Finding("not_found", None)  # keeps the order of the leaves
            rows.setdefault(path[:depth], []).append((path, name, value))
        lists: dict[paths.Path, _Rows] = {}
        for row, members in rows.items():
            among = None
            if row:
                above = [lists[row[:n]] for n in range(len(row) - 1) if row[:n] in lists]
                among = lists.setdefault(row[:-1], _Rows(above[-1].last if above else (-1, -1)))
            found.update(self._row(members, claims, among))
        return found

    def nearest(self, quote: str, page: int | None = None) -> str | None:
        """What the page (or the likeliest page) prints that is most like a quote which is not there, or None if nothing
        is more alike than not."""
        needle = folding.bones_of(quote[:LONGEST_VALUE])[:_NEAREST_LENGTH]
        if not needle:
            return None
        at = [n for n, number in enumerate(self._pages) if page is None or number == page]
        if page is None and len(at) > _PAGES:
            at = self._likely(quote, least=0.0) or at[:_PAGES]
        best: tuple[float, Span] | None = None
        for index in at:
            own = strand(self._bones, self._range(index), folding.bones_of)
            if isinstance(own.order, range):
                own = strand([self._bones[n] for n in own.order], range(len(own.order)), folding.bones_of)
            ranked = fuzzy.most_like(needle, own.text, own.starts)
            if ranked and (best is None or ranked[0] < best[0]):
                span = own.span(ranked[1], ranked[2])
                first = self._firsts[index]
                reading = self._reading
                start = reading.starts[first + span.first] + span.head
                end = reading.starts[first + span.last] + span.tail
                best = (ranked[0], reading.span(start, end))
        return self._place(_Found("fuzzy", [best[1]], quote), best[1]).quote if best else None

    # What the words are, folded

    @cached_property
    def _reading(self) -> Strand:
        return strand(self._bones, range(len(self._bones)), folding.bones_of)

    @cached_property
    def _printed(self) -> Strand:
        return strand(self._plain, range(len(self._plain)), folding.plain, gap="\n")

    @cached_property
    def _lined_starts(self) -> list[int]:
        return list(map(add, self._reading.starts, count()))

    def _standing(self, token: str) -> list[int]:
        """The words that are nothing but a token, and those that begin with it and a colon ("Date:12/03/2024")."""
        if token not in self._tokens:
            printed = self._printed
            found = {bisect_left(self._lined_starts, at) for at in _every(self._lined, f"\n{token}\n")}
            found.update(bisect_left(printed.starts, at) for at in _every("\n" + printed.text, f"\n{token}:"))
            self._tokens[token] = sorted(found)
        return self._tokens[token]

    @cached_property
    def _numbers(self) -> numbers.Numbers:
        printed, words = self._printed, self._words
        starts = printed.starts

        def joined(at: int) -> bool:
            if printed.text[at] != "\n":
                return True
            index = bisect_right(starts, at) - 1
            return layout.near(words[index], words[index + 1], _SPACE)

        return numbers.Numbers(printed.text, joined)

    @cached_property
    def _dates(self) -> dict[dates.Day, list[tuple[int, int]]]:
        found: defaultdict[dates.Day, list[tuple[int, int]]] = defaultdict(list)
        for start, end, days in dates.scan(self._printed.text):
            for day in days:
                found[day].append((start, end))
        return found

    @cached_property
    def _clocks(self) -> list[tuple[int, int, tuple[dates.Clock, ...]]]:
        return list(dates.clocks(self._printed.text))

    # Every place that a value could stand at

    def _candidates(self, value: JsonValue, quote: str | None, page: int | None) -> _Found | None:
        if isinstance(value, bool):
            found = self._quote(quote, page) if quote else None
            return _Found("quote", found.spans, quote or "") if found else None
        if not isinstance(value, (str, int, float)) or value == "":
            return None
        key = (type(value), value)
        if key not in self._found:
            self._found[key] = self._string(value) if isinstance(value, str) else self._number(value)
        return self._found[key]

    def _number(self, value: int | float) -> _Found | None:
        name = numbers.canonical(value)
        spans = [self._printed.span(*hit) for hit in self._number_hits([name])] if name else []
        return _Found("number", spans, str(value)) if spans else None

    def _number_hits(self, names: Sequence[str]) -> list[tuple[int, int]]:
        return sorted({hit for name in names for hit in self._numbers.find(name, _PLACES)})

    def _string(self, value: str) -> _Found | None:
        text = " ".join(value.split())
        if not text or len(text) > LONGEST_VALUE:
            return None
        meant = numbers.typed(text)
        if meant and not (text.isdigit() and text.startswith("0")):
            found = self._amount(text, meant)
            if found:
                return found
        if meant and not text.isdigit():
            return None
        moment = dates.typed(text)
        if moment:
            return self._as_written(text) or self._moment(text, moment)
        # Digits are never taken for others that look like them.
        return self._as_written(text) if meant else self._text(text)

    def _amount(self, text: str, meant: Sequence[str]) -> _Found | None:
        """A text that is a number: as it is written if it is printed so, else in any printing."""
        printed, folded = self._printed, folding.plain(text)
        hits = self._number_hits(meant)
        if text.isdigit():  # an identifier has no leading noughts to spare
            hits = [hit for hit in hits if printed.text[hit[0]] != "0"]
        same = [hit for hit in hits if printed.text[hit[0] : hit[1]] == folded]
        spans = [printed.span(*hit) for hit in same or hits]
        written = self._as_written(text) if not same else None
        if written and not text.isdigit():
            # With its currency, RM9.00. The same digits with another point or sign are another number.
            tight, on = folded.replace(" ", ""), {span.last for span in spans}
            exactly = [
                span
                for span in written.spans
                if not on.isdisjoint(range(span.first, span.last + 1))
                and folding.plain(self._covered(span, text)) == tight
            ]
            written = _Found("normalised", exactly, text) if exactly else None
        if written:
            return written
        return _Found("number", spans, text) if spans else None

    def _moment(self, text: str, moment: dates.Moment) -> _Found | None:
        printed = self._printed
        if not moment.days:
            assert moment.clock is not None
            spans = [printed.span(a, b) for a, b in self._clock_hits(moment.clock)]
            return _Found("date", spans, text) if spans else None
        hits = sorted({hit for day in moment.days for hit in self._dates.get(day, ())})[:_PLACES]
        spans = [printed.span(*hit) for hit in hits] or self._wrapped(moment.days)
        if moment.clock is None or not spans:
            return _Found("date", spans, text) if spans else None
        times = [printed.span(a, b) for a, b in self._clock_hits(moment.clock)]
        beside: dict[Span, Span] = {}
        for span in spans:
            at = bisect_left(times, span.word, key=lambda time: time.word)
            close = [
                time for time in times[max(0, at - 1) : at + 2] if self._page_of[time.word] == self._page_of[span.word]
            ]
            if close:
                beside[span] = min(close, key=lambda time: abs(time.word - span.word))
        if beside:
            return _Found("date", [span for span in spans if span in beside], text, beside)
        # Midnight is how a date becomes a date with time.
        return _Found("date", spans, text) if moment.clock[:2] == (0, 0) and not moment.clock[2] else None

    def _wrapped(self, days: Sequence[dates.Day]) -> list[Span]:
        """Where a day is printed over the end of a line within a column."""
        spans: list[Span] = []
        for index in self._likely(str(days[0][0])):
            for other in self._other_orders(index):
                printed = strand(self._plain, other.order, folding.plain, gap="\n")
                spans += [
                    printed.span(start, end)
                    for start, end, meant in dates.scan(printed.text)
                    if not set(days).isdisjoint(meant)
                ]
        return spans[:_PLACES]

    def _clock_hits(self, clock: dates.Clock) -> list[tuple[int, int]]:
        return [(a, b) for a, b, read in self._clocks if any(dates.same_time(clock, one) for one in read)][:_PLACES]

    def _as_written(self, text: str) -> _Found | None:
        """Text in reading order, by its letters and digits."""
        folded = folding.plain(text)
        needle = folding.bones(folded)
        if not needle or len(needle) > LONGEST_VALUE:
            return self._signs(folded, text) if needle == "" and text else None
        spans = self._stands(self._reading, needle, folded)
        return _Found("normalised", spans, text) if spans else None

    def _quote(self, quote: str, page: int | None) -> _Found | None:
        """Text in its places on a page, also in another order or misread there; if it has none, everywhere."""
        found = self._text(quote)
        if found is None or page not in self._pages:
            return found
        index = self._pages.index(page)
        spans = [span for span in found.spans if self._page_of[span.word] == index]
        return replace(found, spans=spans) if spans else self._text(quote, on=index) or found

    def _text(self, value: str, on: int | None = None) -> _Found | None:
        """Text in any order of reading, or misread; anywhere, or on one page (its index) alone."""
        text = " ".join(value.split())
        found = self._as_written(text) if on is None else None
        folded = folding.plain(text)
        needle = folding.bones(folded)
        if found or not needle:
            return found
        if on is None and text in _SIGNS and (found := self._signs(_SIGNS[text], text)):
            return found
        # In another order the same words stand, but for those that are broken at the end of a line.
        if "-\n" in self._printed.text or all(
            folding.bones(token) in self._reading.text for token in folded.split()[:_TOKENS]
        ):
            for other in self._in_other_orders(folded) if on is None else self._orders_of(on):
                spans = self._stands(other, needle, folded)
                if spans:
                    return _Found("normalised", spans, text)
        if not fuzzy.allowed(needle) or not self._misreadings:
            return None
        self._misreadings -= 1
        for one in chain([self._reading], self._in_other_orders(folded)) if on is None else self._orders_of(on):
            hits = fuzzy.stands(needle, one.text, one.starts)
            spans = [span for a, b in hits if self._on_one_page(span := one.span(a, b)) and self._is_recognised(span)]
            if spans:
                return _Found("fuzzy", spans[:_PLACES], text)
        return None

    def _orders_of(self, index: int) -> list[Strand]:
        return [strand(self._bones, list(self._range(index)), folding.bones_of), *self._other_orders(index)]

    def _in_other_orders(self, value: str) -> Iterator[Strand]:
        for index in self._likely(value):
            yield from self._other_orders(index)

    def _stands(self, on: Strand, needle: str, folded: str) -> list[Span]:
        """Where the needle stands as whole tokens."""
        spans: list[Span] = []
        if len(needle) <= _SHORT and on is self._reading:
            for index in self._standing(needle):
                if self._bones[index] != needle:
                    continue
                span = Span(on, index, index, 0, len(needle), index)
                if self._agrees(span, folded, needle):
                    spans.append(span)
            if spans:
                return spans
        text, at, misses = on.text, on.text.find(needle), 0
        while at >= 0 and len(spans) < _PLACES and misses < _HITS:
            span = on.span(at, at + len(needle))
            if self._whole(span) and self._on_one_page(span) and self._agrees(span, folded, needle):
                spans.append(span)
                at = text.find(needle, at + len(needle))
            else:
                misses += 1
                at = text.find(needle, at + 1)
        return spans

    def _whole(self, span: Span) -> bool:
        """Whether the span cuts no token at its ends."""
        order = span.strand.order
        if span.head and not _separable(self._plain[order[span.first]], span.head):
            return False
        last = order[span.last]
        if span.tail != len(self._bones[last]):
            return _separable(self._plain[last], span.tail)
        return not self._goes_on(order, span.last) and (span.head > 0 or not self._goes_on(order, span.first - 1))

    def _goes_on(self, order: Sequence[int], at: int) -> bool:
        """Whether the word at a position is the first half of one that a line's end breaks."""
        if not 0 <= at < len(order) - 1 or BREAK in (order[at], order[at + 1]):
            return False
        word, following = self._words[order[at]], self._words[order[at + 1]]
        return (
            self._plain[order[at]][-1:] == "-"
            and word[0][-2:-1].isalpha()
            and following[0][:1].islower()
            and not layout.level(word, following)
        )

    def _is_recognised(self, span: Span) -> bool:
        """Whether its words come from OCR, which misreads: what a file says of itself in letters is not misread."""
        return all(len(self._words[index]) > 5 for index in span.indexes())

    def _on_one_page(self, span: Span) -> bool:
        indexes = span.indexes()
        return self._page_of[indexes[0]] == self._page_of[indexes[-1]]

    def _agrees(self, span: Span, folded: str, needle: str) -> bool:
        """Whether text of the same letters and digits says the same: 1.5 is not 15, nor C++ C."""
        indexes = span.indexes()
        parts = [self._plain[index] for index in indexes]
        if span.tail != len(self._bones[indexes[-1]]):
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
            if b.isspace() and not self._compact(indexes):
                return False
        return True

    def _compact(self, indexes: Sequence[int]) -> bool:
        """Whether the words follow each other on one line, as the groups of one number do."""
        return all(layout.near(self._words[a], self._words[b], _SPACE) for a, b in pairwise(indexes))

    def _signs(self, folded: str, text: str) -> _Found | None:
        """Where text without letters or digits stands: a currency's sign anywhere, the rest only as a word."""
        glued = regex.fullmatch(r"[\p{L}]*\p{Sc}", folded) is not None
        printed = self._printed
        spans: list[Span] = []
        at = printed.text.find(folded)
        for _ in range(_HITS):
            if at < 0 or len(spans) == _PLACES:
                break
            end = at + len(folded)
            around = printed.text[max(0, at - 1) : at] + printed.text[end : end + 1]
            if (not glued and not around.strip("\n")) or (glued and not (folded[0].isalpha() and around[:1].isalpha())):
                spans.append(printed.span(at, end))
            at = printed.text.find(folded, end)
        return _Found("normalised", spans, text) if spans else None

    # Other orders of reading

    def _likely(self, value: str, least: float = 0.5) -> list[int]:
        """The pages that hold most of a value's words, as indexes; all pages of a short document."""
        if len(self._pages) <= _PAGES:
            return list(range(len(self._pages)))
        counts: Counter[int] = Counter()
        tokens = {folding.bones_of(token) for token in value.split()[:_TOKENS]}
        for token in tokens:
            counts.update({self._page_of[index] for index in self._standing(token)})
        return [page for page, count in counts.most_common(_PAGES) if count >= least * len(tokens)]

    def _other_orders(self, index: int) -> list[Strand]:
        if index not in self._orders:
            own = self._range(index)
            if not own:
                return []
            orders = [layout.by_columns(self._words, own.start, own.stop)]
            reverse = layout.from_the_right(self._words, own.start, own.stop)
            if reverse:
                orders.append(reverse)
            self._orders[index] = [strand(self._bones, order, folding.bones_of) for order in orders]
        return self._orders[index]

    def _range(self, page: int) -> range:
        return range(self._firsts[page], self._firsts[page + 1] if page + 1 < len(self._firsts) else len(self._words))

    # Which place the field means

    def _choose(
        self, found: _Found | None, label: Sequence[str | int], quote: str | None, page: int | None
    ) -> Place | None:
        if found is None:
            return None
        span = found.spans[0]
        if len(found.spans) > 1:
            span = self._likeliest([(one[:4], one.span) for one in self._ranked(found.spans, label, quote, page)])
        return self._place(found, span)

    def _likeliest(self, keyed: Sequence[tuple[tuple[Any, ...], Span]]) -> Span:
        """The span with the least key; of equal ones the first that has no letters on it."""
        least = min(key for key, _ in keyed)
        equal = [span for key, span in keyed if key == least]
        return next((span for span in equal[:_LABELS] if not self._is_glued(span)), equal[0])

    def _ranked(
        self, spans: Sequence[Span], label: Sequence[str | int], quote: str | None, page: int | None
    ) -> list[_Ranked]:
        quoted = self._quoted(quote, page)
        if len(spans) > _RANKED:
            spans = self._fewer(spans, quoted, label, page)
        near = self._near_label(spans, label, page)
        ranked: list[_Ranked] = []
        for number, span in enumerate(spans):
            outside = not quoted or not any(first <= span.word <= last for first, last in quoted)
            kind, distance = near.get(number, (_NOWHERE, 0.0))
            elsewhere = page is not None and self._pages[self._page_of[span.word]] != page
            ranked.append(_Ranked(outside, kind, elsewhere, distance, number, span))
        return ranked

    def _fewer(
        self, spans: Sequence[Span], quoted: Sequence[tuple[int, int]], label: Sequence[str | int], page: int | None
    ) -> Sequence[Span]:
        """Of very many places those in the quote, else on the claimed page, else on pages with the label, else the
        first."""
        labelled = self._labels(labels.label_words(label))
        for those in (
            (span for span in spans if any(first <= span.word <= last for first, last in quoted)),
            (span for span in spans if self._pages[self._page_of[span.word]] == page),
            (span for span in spans if self._page_of[span.word] in labelled),
        ):
            fewer = list(islice(those, _RANKED))
            if fewer:
                return fewer
        return spans[:_RANKED]

    def _is_glued(self, span: Span) -> bool:
        """Whether a number or date has letters on it, such as a unit: one that stands alone is likelier meant."""
        if span.strand.fold is not folding.plain:
            return False
        text, start = span.strand.text, span.strand.starts[span.first] + span.head
        end = span.strand.starts[span.last] + span.tail
        return text[start - 1 : start].isalnum() or text[end : end + 1].isalnum()

    def _quoted(self, quote: str | None, page: int | None) -> list[tuple[int, int]]:
        found = self._quote(quote, page) if quote else None
        if not found or len(found.spans) > _PAGES:
            return []
        return [(min(span.indexes()), max(span.indexes())) for span in found.spans]

    def _near_label(
        self, spans: Sequence[Span], label: Sequence[str | int], page: int | None
    ) -> dict[int, tuple[float, float]]:
        """By number of the span: how near it is to the label, if it is (kind of nearness, distance in heights)."""
        names = labels.label_words(label)
        if not names:
            return {}
        printed = self._labels(names)
        best: dict[int, tuple[float, float]] = {}
        numbered = list(enumerate(spans))
        if len(numbered) > _NEAR:
            at = self._page_of
            numbered.sort(key=lambda one: (self._pages[at[one[1].word]] != page, at[one[1].word] not in printed))
        for number, span in numbered[:_NEAR]:
            index = span.word
            before = ""
            if span.head and span.strand.fold is not folding.plain:
                before = self._bones[index][: span.head]
            elif span.head:
                before = folding.bones(self._plain[index][: span.head])
            if before and before.endswith(names[0][-1]):
                best[number] = (0.0, 0.0)  # "Date:12/03/2024" in one word
                continue
            word = self._words[index]
            for weakness, first, last, box in printed.get(self._page_of[index], ()):
                how = None if first <= index <= last else labels.distance(box, word)
                if how is not None:
                    key = (how[0] + weakness / 10, how[1])
                    if number not in best or key < best[number]:
                        best[number] = key
        return best

    def _labels(self, names: Sequence[tuple[str, ...]]) -> _Labels:
        """Where the label is printed, by page: (0 for its whole last key, then weaker, first word, last word, box)."""
        key = tuple(names)
        if key not in self._label_hits:
            hits: defaultdict[int, list[tuple[int, int, int, Word]]] = defaultdict(list)
            for weakness, words in enumerate(names):
                whole = [
                    (4 * weakness, index, index + len(words) - 1)
                    for index in self._standing(words[0])
                    if len(words) == 1 or tuple(self._bones[index : index + len(words)]) == words
                ]
                parts = [(4 * weakness + 2, n, n) for word in words for n in self._standing(word)] if words[1:] else []
                for weak, first, last in whole + parts:
                    on = hits[self._page_of[first]]
                    if len(on) < _LABELS:
                        on.append((weak, first, last, _union(self._words[first : last + 1])))
            self._label_hits[key] = hits
        return self._label_hits[key]

    def _is_printed(self, label: Sequence[str | int]) -> bool:
        names = labels.label_words(label)[:1]
        return any(hit[0] == 0 for hits in self._labels(names).values() for hit in hits) if names else False

    # Rows

    def _row(
        self, leaves: Sequence[tuple[paths.Path, str, JsonValue]], claims: Mapping[str, Claim], among: _Rows | None
    ) -> dict[str, Finding]:
        found = {name: self._candidates(value, *_said(claims.get(name))) for _, name, value in leaves}
        rare = {
            name: self._ranked(candidates.spans, path, *_said(claims.get(name)))
            for path, name, _ in leaves
            if (candidates := found[name]) is not None and len(candidates.spans) <= _ROW_PLACES
        }
        line = self._line_of(list(rare.values()), among) if among is not None else None
        taken: set[tuple[int, int]] = among.spans if among is not None else set()
        result: dict[str, Finding] = {}
        for path, name, value in leaves:
            candidates = found[name]
            if candidates is None:
                blank = value in (None, "", [], {}) and not isinstance(value, (bool, int)) and self._is_printed(path)
                result[name] = Finding("blank" if blank else "not_found", None)
                continue
            quote, page = _said(claims.get(name))
            if name in rare:
                ranked = rare[name]
            elif line is None or quote:
                ranked = self._ranked(candidates.spans, path, quote, page)
            else:
                ranked = self._ranked(self._about(candidates.spans, line), path, quote, page)
            if line is None:
                span = self._likeliest([(one[:4], one.span) for one in ranked])
            else:
                span = self._likeliest(
                    [
                        ((one.outside, *self._from_line(one.span, line), one.span.where in taken, *one[1:4]), one.span)
                        for one in ranked
                    ]
                )
                taken.add(span.where)
            result[name] = Finding("found", self._place(candidates, span))
        return result

    def _line_of(self, leaves: Sequence[Sequence[_Ranked]], among: _Rows) -> tuple[int, int] | None:
        """The line (page, number) that most leaves of a row can stand on, each in a place of its own, rare ones and
        those below their label counting more; of equal ones the next after the row before."""
        scores: defaultdict[tuple[int, int], float] = defaultdict(float)
        places: defaultdict[tuple[int, int], set[tuple[int, int]]] = defaultdict(set)
        wanted: Counter[tuple[int, int]] = Counter()
        for ranked in leaves:
            on: dict[tuple[int, int], float] = {}
            for one in ranked:
                line = self._line(one.span.word)
                places[line].add(one.span.where)
                likely = (0.5 if one.kind < _NOWHERE else 0.0) + (0.0 if one.outside else 1.0) - 0.5 * one.elsewhere
                on[line] = max(on.get(line, likely), likely)
            for line, likely in on.items():
                scores[line] += 1 + likely + 1 / len(on)
            wanted.update(on)
        if not scores:
            return None
        for line, places_there in places.items():
            scores[line] -= max(0, wanted[line] - len(places_there))
        free = scores.keys() - among.lines if len(leaves) > 1 else set(scores)
        best = min(free or scores, key=lambda line: (-scores[line], line < among.last, line))
        among.lines.add(best)
        among.last = best
        return best

    def _about(self, spans: Sequence[Span], line: tuple[int, int]) -> Sequence[Span]:
        """Of very many places those about a line."""
        at = bisect_left(spans, line, key=lambda span: self._line(span.word))
        return spans[max(0, at - _ABOUT // 2) : at + _ABOUT // 2]

    def _from_line(self, span: Span, line: tuple[int, int]) -> tuple[bool, int]:
        """How far a span is from a row's line: below it counts as nearer than above."""
        page, number = self._line(span.word)
        away = number - line[1]
        return page != line[0], 2 * away if away >= 0 else -3 * away

    def _line(self, word: int) -> tuple[int, int]:
        page = self._page_of[word]
        if page not in self._lines:
            own = self._range(page)
            found = layout.lines(self._words, own.start, own.stop)
            self._lines[page] = {index: number for number, line in enumerate(found) for index in line}
        return page, self._lines[page][word]

    # From a span to what is printed there

    def _place(self, found: _Found, span: Span) -> Place:
        pieces = self._pieces(span, found.sought)
        beside = found.beside.get(span) if found.beside else None
        if beside is not None and beside.strand is span.strand and beside.first == span.last:  # 2024-03-12T20:13
            whole = Span(span.strand, span.first, beside.last, span.head, beside.tail, span.word)
            pieces = self._pieces(whole, found.sought)
        elif beside is not None:
            apart = self._pieces(beside, found.sought)
            pieces = pieces + apart if beside.word > span.word else apart + pieces
        words = self._words
        quote = " ".join([words[index][0][start:end] for index, start, end in pieces])
        match = "exact" if quote == found.sought and found.match != "quote" else found.match
        sure = min([words[index][5] for index, _, _ in pieces if len(words[index]) > 5], default=1.0)
        boxes = _line_boxes([(words[index], start, end) for index, start, end in pieces])
        return Place(self._pages[self._page_of[pieces[0][0]]], boxes, quote, match, sure, len(found.spans))

    def _covered(self, span: Span, sought: str) -> str:
        return "".join(self._words[index][0][start:end] for index, start, end in self._pieces(span, sought))

    def _pieces(self, span: Span, sought: str) -> list[tuple[int, int, int]]:
        """The words under a span as (index, first character, after the last); of the punctuation around the text only
        what was sought too."""
        fold = span.strand.fold
        indexes = [index for index in span.indexes() if self._plain[index]]
        first, last = self._words[indexes[0]][0], self._words[indexes[-1]][0]
        if (fold is not folding.plain and first.isalnum() and first.isascii()) or not first:
            begin = span.head
        else:
            begin = folding.origins(first, fold)[span.head][0]
        if (fold is not folding.plain and last.isalnum() and last.isascii()) or not last:
            end = span.tail
        else:
            end = folding.origins(last, fold)[span.tail - 1][1]
        if fold is not folding.plain:
            if begin:
                begin -= _common_end(first[:begin], _match(_LEADING, sought))
            if end < len(last):
                end += _common_start(last[end:], _match(_TRAILING, sought))
        words = self._words
        pieces = [(index, 0, len(words[index][0])) for index in indexes]
        pieces[0] = (pieces[0][0], begin, pieces[0][2])
        pieces[-1] = (pieces[-1][0], pieces[-1][1], end)
        return pieces


class _Rows:
    """Which lines and places the rows of one list have taken. `last` is the line after which the next is looked for: of
    a list within a row, that row's."""

    def __init__(self, last: tuple[int, int]) -> None:
        self.lines: set[tuple[int, int]] = set()
        self.spans: set[tuple[int, int]] = set()
        self.last = last


_NOWHERE: Final = 2
_SPACE: Final = 0.75  # in heights of a line: the widest space within a number
_SHORT: Final = 3
_ROW_PLACES: Final = 400
_ABOUT: Final = 64
_RANKED: Final = 400
_NEAREST_LENGTH: Final = 100


def _bounded(texts: Sequence[str]) -> list[str]:
    left = MOST_CHARACTERS
    found: list[str] = []
    for text in texts:
        left -= len(text)
        found.append(text.replace("\n", " ") if len(text) <= LONGEST_WORD and left >= 0 else "")
    return found


def _said(claim: Claim | None) -> tuple[str | None, int | None]:
    return (claim.quote, claim.page) if claim else (None, None)


def _every(text: str, part: str) -> Iterator[int]:
    """Where a part stands in a text, at most _PLACES times; it may overlap itself by a character."""
    at = text.find(part)
    for _ in range(_PLACES):
        if at < 0:
            return
        yield at
        at = text.find(part, at + len(part) - 1)


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


def _match(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return found[0] if found else ""


def _common_end(printed: str, sought: str) -> int:
    return _common_start(printed[::-1], sought[::-1])


def _common_start(printed: str, sought: str) -> int:
    size = 0
    while size < min(len(printed), len(sought)) and folding.plain(printed[size]) == folding.plain(sought[size]):
        size += 1
    return size


def _union(words: Sequence[Word]) -> Word:
    text = " ".join(word[0] for word in words)
    return [
        text,
        min(word[1] for word in words),
        min(word[2] for word in words),
        max(word[3] for word in words),
        max(word[4] for word in words),
    ]


def _line_boxes(pieces: Sequence[tuple[Word, int, int]]) -> tuple[Box, ...]:
    boxes: list[Box] = []
    previous: Word | None = None
    for word, start, end in pieces:
        x0, y0, x1, y1 = word[1:5] if start == 0 and end == len(word[0]) else layout.part(word, start, end)
        if previous is not None and (layout.level(previous, word) or layout.upright(previous, word)):
            a0, b0, a1, b1 = boxes[-1]
            boxes[-1] = (
                a0 if a0 < x0 else x0,
                b0 if b0 < y0 else y0,
                a1 if a1 > x1 else x1,
                b1 if b1 > y1 else y1,
            )
        else:
            boxes.append((x0, y0, x1, y1))
        previous = word
    return tuple([(_edge(x0), _edge(y0), _edge(x1), _edge(y1)) for x0, y0, x1, y1 in boxes])


def _edge(value: float) -> float:
    return round(0.0 if value < 0.0 else 1.0 if value > 1.0 else value, 5)
