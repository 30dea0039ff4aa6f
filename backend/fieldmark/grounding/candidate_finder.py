"""CandidateFinder: every span that could be a value, printed as a number, an amount, a date or a text."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from pydantic import JsonValue

from fieldmark.domain import folding
from fieldmark.domain.numbers import canonical_decimal
from fieldmark.grounding import dates, numbers
from fieldmark.grounding.evidence import Claim
from fieldmark.grounding.places import Candidates, covered
from fieldmark.grounding.text_search import MAX_VALUE_CHARACTERS, TextSearch
from fieldmark.grounding.text_stream import Span, TextStream
from fieldmark.grounding.word_index import MAX_PLACES, WordIndex


class CandidateFinder:
    """The candidates for values of one document. It remembers the values that it was asked for."""

    def __init__(self, index: WordIndex, text_search: TextSearch) -> None:
        self._index = index
        self._text_search = text_search
        self._found: dict[tuple[type, object], Candidates | None] = {}

    def find(self, value: JsonValue, claim: Claim) -> Candidates | None:
        """The candidates for a scalar, or None. A boolean is never printed: its candidates are those of its quote."""
        if isinstance(value, bool):
            found = self._text_search.find_quote(claim.quote, claim.page) if claim.quote else None
            return Candidates("quote", found.spans, claim.quote or "") if found else None
        if not isinstance(value, (str, int, float)) or value == "":
            return None
        key = (type(value), value)
        if key not in self._found:
            self._found[key] = self._string(value) if isinstance(value, str) else self._number(value)
        return self._found[key]

    def _number(self, value: int | float) -> Candidates | None:
        name = canonical_decimal(value)
        spans = [self._index.folded_stream.span(*hit) for hit in self._number_hits([name])] if name else []
        return Candidates("number", spans, str(value)) if spans else None

    def _number_hits(self, names: Sequence[str]) -> list[tuple[int, int]]:
        return sorted({hit for name in names for hit in self._index.numbers.find(name, MAX_PLACES)})

    def _string(self, value: str) -> Candidates | None:
        text = " ".join(value.split())
        if not text or len(text) > MAX_VALUE_CHARACTERS:
            return None
        readings = numbers.parse(text)
        if readings and not (text.isdigit() and text.startswith("0")):
            found = self._amount(text, readings)
            if found:
                return found
        if readings and not text.isdigit():
            return None
        wanted = dates.parse(text)
        if wanted:
            return self._text_search.find_in_reading_order(text) or self._date_and_time(text, wanted)
        # A number is never searched for as misread: a wrong digit is another value.
        return self._text_search.find_in_reading_order(text) if readings else self._text_search.find(text)

    def _amount(self, text: str, readings: Sequence[str]) -> Candidates | None:
        """The candidates for a text that is a number: where it is printed as it is written, else in any spelling."""
        printed, folded = self._index.folded_stream, folding.fold(text)
        hits = self._number_hits(readings)
        if text.isdigit():  # digits alone may be an identifier, in which leading zeros count: 123 is not 0123
            hits = [hit for hit in hits if printed.text[hit[0]] != "0"]
        same = [hit for hit in hits if printed.text[hit[0] : hit[1]] == folded]
        spans = [printed.span(*hit) for hit in same or hits]
        written = self._text_search.find_in_reading_order(text) if not same else None
        if written and not text.isdigit():
            # The text may include a currency: RM9.00. The same digits with another point or sign are another number.
            tight, on = folded.replace(" ", ""), {span.last for span in spans}
            exactly = [
                span
                for span in written.spans
                if not on.isdisjoint(range(span.first, span.last + 1))
                and folding.fold(covered(self._index, span, text)) == tight
            ]
            written = Candidates("normalised", exactly, text) if exactly else None
        if written:
            return written
        return Candidates("number", spans, text) if spans else None

    def _date_and_time(self, text: str, wanted: dates.DateAndTime) -> Candidates | None:
        """The candidates for a day in any spelling, with its time beside it if it has one, or for a time alone."""
        index = self._index
        times = [index.folded_stream.span(*hit) for hit in self._time_hits(wanted.time)] if wanted.time else []
        if not wanted.days:
            return Candidates("date", times, text) if times else None
        hits = sorted({hit for day in wanted.days for hit in index.dates.get(day, ())})[:MAX_PLACES]
        spans = [index.folded_stream.span(*hit) for hit in hits] or self._wrapped_dates(wanted.days)
        if wanted.time is None or not spans:
            return Candidates("date", spans, text) if spans else None
        times_of: dict[Span, Span] = {}
        for span in spans:
            at = bisect_left(times, span.word, key=lambda time: time.word)
            close = [
                time for time in times[max(0, at - 1) : at + 2] if index.page_of[time.word] == index.page_of[span.word]
            ]
            if close:
                times_of[span] = min(close, key=lambda time: abs(time.word - span.word))
        if times_of:
            return Candidates("date", [span for span in spans if span in times_of], text, times_of)
        # Midnight may only be how a program writes a date as a date with time.
        return Candidates("date", spans, text) if wanted.time[:2] == (0, 0) and not wanted.time[2] else None

    def _wrapped_dates(self, days: Sequence[dates.Day]) -> list[Span]:
        """The spans of a day that wraps at the end of a line within a column."""
        spans: list[Span] = []
        for other in self._index.other_reading_orders(str(days[0][0])):
            printed = TextStream.of(self._index.folded, other.order, folding.fold, gap="\n")
            spans += [
                printed.span(start, end)
                for start, end, read_as in dates.find_dates(printed.text)
                if not set(days).isdisjoint(read_as)
            ]
        return spans[:MAX_PLACES]

    def _time_hits(self, wanted: dates.TimeOfDay) -> list[tuple[int, int]]:
        return [
            (start, end)
            for start, end, readings in self._index.times
            if any(dates.is_same_time(wanted, one) for one in readings)
        ][:MAX_PLACES]
