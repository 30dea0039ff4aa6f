"""Every place that a value could stand at: as a number, an amount, a date or a text."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from pydantic import JsonValue

from fieldmark.domain import folding
from fieldmark.grounding import dates, numbers
from fieldmark.grounding.evidence import Claim
from fieldmark.grounding.index import MOST_PLACES, Index
from fieldmark.grounding.places import Candidates, covered
from fieldmark.grounding.strand import Span, strand
from fieldmark.grounding.texts import LONGEST_VALUE, Texts


class Search:
    """The values sought so far on one document, and where they could stand."""

    def __init__(self, index: Index, texts: Texts) -> None:
        self._index = index
        self._texts = texts
        self._found: dict[tuple[type, object], Candidates | None] = {}

    def candidates(self, value: JsonValue, claim: Claim) -> Candidates | None:
        """Of a scalar. A boolean is printed nowhere: it stands where its quote does."""
        if isinstance(value, bool):
            found = self._texts.quoted(claim.quote, claim.page) if claim.quote else None
            return Candidates("quote", found.spans, claim.quote or "") if found else None
        if not isinstance(value, (str, int, float)) or value == "":
            return None
        key = (type(value), value)
        if key not in self._found:
            self._found[key] = self._string(value) if isinstance(value, str) else self._number(value)
        return self._found[key]

    def _number(self, value: int | float) -> Candidates | None:
        name = numbers.canonical(value)
        spans = [self._index.printed.span(*hit) for hit in self._number_hits([name])] if name else []
        return Candidates("number", spans, str(value)) if spans else None

    def _number_hits(self, names: Sequence[str]) -> list[tuple[int, int]]:
        return sorted({hit for name in names for hit in self._index.numbers.find(name, MOST_PLACES)})

    def _string(self, value: str) -> Candidates | None:
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
            return self._texts.as_written(text) or self._moment(text, moment)
        # Digits are never taken for others that look like them.
        return self._texts.as_written(text) if meant else self._texts.find(text)

    def _amount(self, text: str, meant: Sequence[str]) -> Candidates | None:
        """A text that is a number: as it is written if it is printed so, else in any printing."""
        printed, folded = self._index.printed, folding.plain(text)
        hits = self._number_hits(meant)
        if text.isdigit():  # an identifier has no leading noughts to spare
            hits = [hit for hit in hits if printed.text[hit[0]] != "0"]
        same = [hit for hit in hits if printed.text[hit[0] : hit[1]] == folded]
        spans = [printed.span(*hit) for hit in same or hits]
        written = self._texts.as_written(text) if not same else None
        if written and not text.isdigit():
            # With its currency, RM9.00. The same digits with another point or sign are another number.
            tight, on = folded.replace(" ", ""), {span.last for span in spans}
            exactly = [
                span
                for span in written.spans
                if not on.isdisjoint(range(span.first, span.last + 1))
                and folding.plain(covered(self._index, span, text)) == tight
            ]
            written = Candidates("normalised", exactly, text) if exactly else None
        if written:
            return written
        return Candidates("number", spans, text) if spans else None

    def _moment(self, text: str, moment: dates.Moment) -> Candidates | None:
        """A day in any printing, with its time beside it if it has one; or a time alone."""
        index = self._index
        times = [index.printed.span(*hit) for hit in self._clock_hits(moment.clock)] if moment.clock else []
        if not moment.days:
            return Candidates("date", times, text) if times else None
        hits = sorted({hit for day in moment.days for hit in index.dates.get(day, ())})[:MOST_PLACES]
        spans = [index.printed.span(*hit) for hit in hits] or self._wrapped(moment.days)
        if moment.clock is None or not spans:
            return Candidates("date", spans, text) if spans else None
        beside: dict[Span, Span] = {}
        for span in spans:
            at = bisect_left(times, span.word, key=lambda time: time.word)
            close = [
                time for time in times[max(0, at - 1) : at + 2] if index.page_of[time.word] == index.page_of[span.word]
            ]
            if close:
                beside[span] = min(close, key=lambda time: abs(time.word - span.word))
        if beside:
            return Candidates("date", [span for span in spans if span in beside], text, beside)
        # Midnight is how a date becomes a date with time.
        return Candidates("date", spans, text) if moment.clock[:2] == (0, 0) and not moment.clock[2] else None

    def _wrapped(self, days: Sequence[dates.Day]) -> list[Span]:
        """Where a day is printed over the end of a line within a column."""
        spans: list[Span] = []
        for other in self._index.other_orders(str(days[0][0])):
            printed = strand(self._index.plain, other.order, folding.plain, gap="\n")
            spans += [
                printed.span(start, end)
                for start, end, meant in dates.scan(printed.text)
                if not set(days).isdisjoint(meant)
            ]
        return spans[:MOST_PLACES]

    def _clock_hits(self, clock: dates.Clock) -> list[tuple[int, int]]:
        return [
            (start, end) for start, end, read in self._index.clocks if any(dates.same_time(clock, one) for one in read)
        ][:MOST_PLACES]
