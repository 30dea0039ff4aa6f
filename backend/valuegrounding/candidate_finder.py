"""CandidateFinder: find every span that could be a value, printed as a number, an amount, a date or a text."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Final

from pydantic import JsonValue

from valuegrounding import dates, folding, numbers, units, yes_no
from valuegrounding.candidate_ranker import words_of_key
from valuegrounding.decimals import canonical_decimal
from valuegrounding.evidence import UNCLEAR_CERTAINTY, Claim, Match
from valuegrounding.locations import Candidates, covered_text, word_parts
from valuegrounding.measures import Measure
from valuegrounding.numbers import Number
from valuegrounding.qualifiers import DEDUCTION_WORDS
from valuegrounding.text_search import MAX_VALUE_CHARACTERS, TextSearch
from valuegrounding.text_stream import Span, TextStream
from valuegrounding.units import Agreement
from valuegrounding.word_index import MAX_MATCHES, WordIndex

_MAX_QUOTE_MATCHES: Final = 100  # matches of one quote that are checked for an answer
_SENTENCE_ENDS: Final = (".", ":", ";", "?", "!")  # of a sentence or a form's question
_MAX_WORDS_TO_ANSWER: Final = 8  # words after a quote in which its answer is searched
_OPPOSITE_SIGN_CERTAINTY: Final = 0.6  # of a match with the opposite sign, such as -75 for a debit of 75
_PARTIAL_CERTAINTY: Final = 0.6  # of a match that is part of something longer
_OTHER_UNIT_CERTAINTY: Final = 0.4  # of a number that is printed without its unit, or with another one
_RATING = re.compile(r"[A-Za-z]{1,3}\d?")
_HOUSE_NUMBER = re.compile(r"[^\W\d_].*[^\W\d_.]\.? \d{1,4}", re.DOTALL)
_HOUSE_LETTER = re.compile(r"[a-h][,.;]?")
_MAX_FORM_WORDS: Final = 60  # on the line of a quote; longer lines are not checked for boxes
_MAX_BOX_WORDS: Final = 3  # words of a box before a quote: `[ x ]`


class CandidateFinder:
    """Find the candidates for values of one document. Results are cached."""

    def __init__(self, index: WordIndex, text_search: TextSearch) -> None:
        self._index = index
        self._text_search = text_search
        self._found: dict[tuple[type, object], Candidates | None] = {}

    def find(self, value: JsonValue | Measure, claim: Claim, label: Sequence[str | int] = ()) -> Candidates | None:
        """Return the candidates for a scalar, or None. The candidates for a boolean are those of its quote, unless the
        page contradicts the value there. `label` is the path of the value. If it names a deduction, a debit of 75 is
        also found at -75, with less certainty."""
        if isinstance(value, bool):
            found = self._text_search.find_quote(claim.quote, claim.page) if claim.quote else None
            spans = (
                [span for span in found.spans[:_MAX_QUOTE_MATCHES] if self._quote_confirms(span, value)]
                if found
                else []
            )
            return Candidates("quote", spans, claim.quote or "") if spans else None
        if isinstance(value, Measure):
            return self._find_measure(value, claim, label)
        if not isinstance(value, (str, int, float)) or value == "":
            return None
        key = (type(value), value)
        if key not in self._found:
            found = self._find_text(value) if isinstance(value, str) else self._find_number(value)
            self._found[key] = self._prefer_complete(found) if found else None
        found = self._found[key]
        if found is not None and not isinstance(value, str):
            return self._in_named_column(found, label)
        if found is None and not isinstance(value, str) and value > 0 and _is_deduction(label):
            negative = self.find(-value, claim)
            return negative and replace(negative, certainty=_OPPOSITE_SIGN_CERTAINTY)
        if found is None and not isinstance(value, str) and value < 0:
            return self._find_qualified(-value)
        return found

    def _find_qualified(self, value: int | float) -> Candidates | None:
        """Return the candidates for a number beside a word that may make it negative: `less 50`, `50.00 S`."""
        index, found, spans = self._index, self._find_number(value), list[Span]()
        if found is None:
            return None
        for span in found.spans[:_MAX_QUOTE_MATCHES]:
            parts = word_parts(index, span, found.text)
            quote = " ".join(index.words[at][0][start:end] for at, start, end in parts)
            qualifier = index.qualifier_of(sorted(span.word_indexes()), quote)
            if qualifier and qualifier.kind == "sign":
                spans.append(span)
        return replace(found, spans=spans, certainty=_OPPOSITE_SIGN_CERTAINTY) if spans else None

    def _in_named_column(self, found: Candidates, label: Sequence[str | int]) -> Candidates:
        """Return the candidates for a number without those under a heading with another currency or unit than the key
        names: `qty_kg`. If all are, return them with less certainty."""
        keys = [step for step in label if isinstance(step, str)]
        currencies, named_units = (
            units.named_in_key(words_of_key(keys[-1])) if keys else (set[units.Codes](), set[str]())
        )
        if not currencies and not named_units:
            return found
        index, own = self._index, list[Span]()
        for span in found.spans:
            heading = index.heading_currencies(span.first_word), index.heading_units(span.first_word)
            is_other_currency = bool(currencies and heading[0]) and not any(
                units.compare_currencies(one, other) is not Agreement.NONE for one in currencies for other in heading[0]
            )
            if not is_other_currency and not (named_units and heading[1] and named_units.isdisjoint(heading[1])):
                own.append(span)
        if own:
            return replace(found, spans=own)
        return replace(found, certainty=min(found.certainty, _OTHER_UNIT_CERTAINTY))

    def _prefer_complete(self, found: Candidates) -> Candidates:
        """Return the candidates that are not part of something longer. If all are, return them with less certainty."""
        if found.match == "date":
            return found
        complete = [span for span in found.spans if not self._is_partial(span, found.text)]
        if complete or not found.spans:
            return replace(found, spans=complete)
        return replace(found, certainty=min(found.certainty, _PARTIAL_CERTAINTY))

    def _is_partial(self, span: Span, text: str) -> bool:
        """Return whether a span is only part of what is printed: some groups of an account number, a house number
        without its letter, a rating without its minus."""
        index = self._index
        own = span.word_indexes()
        first, last = own[0], own[-1]
        if index.is_part_of_identifier(first, last):
            return True
        if not (last + 1 < len(index.words) and index.are_in_one_cell(last, last + 1)):
            return False
        following, is_end = index.words[last + 1][0], not index.are_in_one_cell(last + 1, last + 2)
        if _RATING.fullmatch(text):
            return is_end and index.folded[last + 1] == "-"
        if not _HOUSE_NUMBER.fullmatch(text) or not _HOUSE_LETTER.fullmatch(following):
            return False
        return is_end or not following.isalpha() or index.folded[last + 2][:1].isdigit()

    def _quote_confirms(self, span: Span, value: bool) -> bool:
        index, own = self._index, sorted(span.word_indexes())
        options = self._options_around(own)
        if any(yes_no.is_box(index.folded[at]) for at in options):  # `☐ Yes ☒ No` means no, whichever part is quoted
            return yes_no.answers_in(" ".join(index.folded[at] for at in options)) == {value}
        quote = " ".join(index.folded[at] for at in own)
        if yes_no.ends_before_its_box(quote):  # a match ends at the last letter: `Yes ☒ No` of `Yes ☒ No ☐`
            quote = " ".join([quote, *self._box_after(own[-1])])
        if not yes_no.answers_in(quote) and (ticked := self._find_tick_states(own)):
            return ticked == {value}
        first, last = self._first_answer(own[0]), self._last_answer(own[-1])
        around = " ".join(index.folded[first : last + 1])
        if last == own[-1] and not yes_no.answers_in(around) and (after := self._answers_after(own)):
            around += ": " + " ".join(index.folded[at] for at in after)
        return yes_no.is_evidence(value, quote, around, yes_no.is_denied(*self._sentence_around(own)))

    def _box_after(self, word: int) -> list[str]:
        index, line = self._index, self._index.line_of(word)
        end = word
        while end - word < _MAX_BOX_WORDS and end + 1 < len(index.words) and index.line_of(end + 1) == line:
            if not yes_no.is_box(index.folded[end + 1]) and index.folded[end + 1] not in ("[", "(", "x"):
                break
            end += 1
        return index.folded[word + 1 : end + 1]

    def _find_tick_states(self, quote: Sequence[int]) -> set[bool]:
        """Return {True} if the form item of a quote is ticked, {False} if not; empty or both if unclear."""
        index, first, last = self._index, quote[0], quote[-1]
        line = index.line_of(first)
        start, end = max(0, first - _MAX_FORM_WORDS), min(len(index.words), last + 1 + _MAX_FORM_WORDS)
        own = [at for at in range(start, end) if index.line_of(at) == line]
        if index.line_of(last) != line or (own[0] == start > 0) or own[-1] == end - 1 < len(index.words) - 1:
            return set()
        words = [index.words[at][0] if len(index.words[at][0]) == 1 else index.folded[at] for at in own]
        return yes_no.item_states(words, first - own[0], last - own[0])

    def _options_around(self, quote: Sequence[int]) -> Sequence[int]:
        """Return the answers and boxes around a quote that is itself an answer; for any other quote, nothing."""
        index, first, last = self._index, quote[0], quote[-1]
        line = index.line_of(first)
        if index.line_of(last) != line or not all(yes_no.is_answer(index.folded[at]) for at in quote):
            return ()
        while first and index.line_of(first - 1) == line and yes_no.is_answer(index.folded[first - 1]):
            first -= 1
        while last + 1 < len(index.words) and index.line_of(last + 1) == line:
            if not yes_no.is_answer(index.folded[last + 1]):
                break
            last += 1
        return range(first, last + 1)

    def _sentence_around(self, quote: Sequence[int]) -> tuple[list[str], list[str]]:
        """Return the words before and after a quote in its sentence, cell and line."""
        index = self._index
        first, last = quote[0], quote[-1]
        line, end = index.line_of(first), index.line_of(last)
        while first and index.line_of(first - 1) == line and index.are_in_one_cell(first - 1, first):
            before = index.folded[first - 1]
            if before[-1:] in _SENTENCE_ENDS or (
                first > 1 and yes_no.is_answer(before) and yes_no.is_box(index.folded[first - 2])
            ):
                break
            first -= 1
        while last + 1 < len(index.words) and index.line_of(last + 1) == end and index.are_in_one_cell(last, last + 1):
            if index.folded[last][-1:] in _SENTENCE_ENDS:
                break
            last += 1
        return index.folded[first : quote[0]], index.folded[quote[-1] + 1 : last + 1]

    def _first_answer(self, word: int) -> int:
        """Return the index of the first word that belongs to a quote's answer: a box or a negation before the quote."""
        index = self._index
        first, line = word, index.line_of(word)
        while first and word - first < _MAX_BOX_WORDS and index.line_of(first - 1) == line:
            before, earlier = index.folded[first - 1], index.folded[first - 2] if first > 1 else ""
            if yes_no.is_negation(before):
                # `Insured: no Delivery`, `☒ no Delivery` and, beyond a gap, `no   Delivery` say nothing about delivery.
                is_answer = (earlier[-1:] in (":", "?") and earlier) or yes_no.is_box(earlier)
                return first if is_answer or not index.are_in_one_cell(first - 1, first) else first - 1
            if any(character.isalpha() for character in before.replace("x", "")):
                break
            first -= 1
            if before[:1] in "[(" or not (before.endswith(("]", ")")) or before == "x"):
                break
        return first

    def _last_answer(self, word: int) -> int:
        index = self._index
        last, line = word, index.line_of(word)
        while last - word < _MAX_WORDS_TO_ANSWER and last + 1 < len(index.words) and index.line_of(last + 1) == line:
            if not yes_no.is_answer(index.folded[last + 1]):
                is_text = index.words[last + 1][0][:1].islower() and index.folded[last].isalpha()
                if last > word and is_text and not index.folded[word].endswith(":"):
                    last -= 1  # "no smoking" is not an answer
                break
            last += 1
        return last

    def _answers_after(self, quote: Sequence[int]) -> Sequence[int]:
        """Return the answers at the end of the quote's cell, in the next cell of its line, or in the cell below."""
        index, at = self._index, quote[-1]
        line = index.line_of(at)
        while at - quote[-1] < _MAX_WORDS_TO_ANSWER and at + 1 < len(index.words) and index.line_of(at + 1) == line:
            if index.folded[at][-1:] in (":", "?") or not index.are_in_one_cell(at, at + 1):
                break
            at += 1
        if (last := self._last_answer(at)) > at or at > quote[-1]:
            return range(at + 1, last + 1)
        below = index.cell_below(quote)
        return below if all(yes_no.is_answer(index.folded[one]) for one in below) else ()

    def _find_number(self, value: int | float) -> Candidates | None:
        name = canonical_decimal(value)
        found = self._find_numbers([name]) if name else []
        if name and all(number.reading < UNCLEAR_CERTAINTY for number in found):
            found = self._index.numbers.find_padded(name, MAX_MATCHES) or found
        if name and not found:
            found = list(self._find_scaled(name))
        return self._most_certain("number", found, str(value))

    def _find_scaled(self, name: str) -> Iterator[Number]:
        """Yield where a number is printed below a heading that scales it: 50000 at 50 below `TEUR`."""
        for places in self._index.scales():
            printed = canonical_decimal(Decimal(name).scaleb(-places))
            for number in self._find_numbers([printed], as_printed=True) if printed else ():
                if not number.shifted and self._index.scale_of(self._span_of_number(number).first_word) == places:
                    yield number

    def _find_measure(self, measure: Measure, claim: Claim, label: Sequence[str | int]) -> Candidates | None:
        """Return the candidates for a number with its unit, or for the same measure in another unit. Without any,
        return those of the number alone, with little certainty."""
        for unit, name in measure.printings():
            text = f"{name} {unit}"
            found = [
                number
                for number in self._find_numbers([name], as_printed=unit in ("%", "‰"))
                if not number.is_limit
                and self._currency_agreement(text, Number(0, 0, (), unit=unit), number) is Agreement.SAME
            ]
            if candidates := self._most_certain("number", found, text):
                return self._prefer_complete(candidates)
        alone = self.find(measure.value, claim, label)
        return alone and replace(alone, certainty=min(alone.certainty, _OTHER_UNIT_CERTAINTY))

    def _most_certain(self, match: Match, found: Sequence[Number], text: str) -> Candidates | None:
        certainties = [min(number.certainty, number.reading) for number in found]
        certainty = max(certainties, default=1.0)
        spans = [self._span_of_number(one) for one, each in zip(found, certainties, strict=True) if each == certainty]
        return Candidates(match, spans, text, certainty=certainty) if spans else None

    def _find_numbers(self, names: Sequence[str], as_printed: bool = False) -> list[Number]:
        found = {number for name in names for number in self._index.numbers.find(name, MAX_MATCHES, as_printed)}
        return sorted((number for number in found if not self._may_be_millions(number)), key=lambda number: number[:2])

    def _span_of_number(self, number: Number) -> Span:
        return self._index.folded_stream.span(number.start, number.end)

    def _may_be_millions(self, number: Number) -> bool:
        printed = self._last_words(number) if number.unit == "m" else ""
        return "M" in printed and "m" not in printed

    def _last_words(self, number: Number) -> str:
        last = self._span_of_number(number).word_indexes()[-1]
        return " ".join(word[0] for word in self._index.words[last : last + 2])

    def _find_text(self, value: str) -> Candidates | None:
        text = " ".join(value.split())
        if not text or len(text) > MAX_VALUE_CHARACTERS:
            return None
        amount = numbers.parse(text, self._index.numbers.kind)
        if amount and not (text.isdigit() and text.startswith("0")):
            found = self._find_amount(text, amount)
            if found or not text.isdigit():
                return found
        parsed = dates.parse(text)
        if parsed:
            written = self._text_search.find_in_reading_order(text)
            if written and parsed.days and dates.is_iso(text):
                written = self._without_other_days(written, parsed.days)
            if written and parsed.time and not parsed.days:
                written = self._filter_by_time(written, text, parsed.time)
            return written or self._find_date_and_time(text, parsed)
        if period := dates.parse_period(text):
            return self._text_search.find_in_reading_order(text) or self._most_certain_dates(
                self._index.periods.get(period, ()), text
            )
        if amount and not text.startswith("0"):
            return None
        # Numbers are never matched fuzzily: a wrong digit makes a different value.
        return self._text_search.find_in_reading_order(text) if amount else self._text_search.find(text)

    def _find_amount(self, text: str, value: Number) -> Candidates | None:
        """Return the candidates for a text that is a number: printed exactly like this, or else in any format. Its
        currency or unit must be printed with it; locations where it is unambiguous are preferred."""
        printed, folded = self._index.folded_stream, folding.fold(text)
        found = self._find_numbers(value.values, as_printed=value.unit in ("%", "‰"))  # "5 %" is not 0.05 %
        found = [number for number in found if not number.is_limit]  # a value that is a limit has `<5` in its text
        match: Match = "number"
        if value.currency is not None or value.unit is not None:
            agreements = {number: self._currency_agreement(text, value, number) for number in found}
            found = [number for number in found if agreements[number] is Agreement.SAME]
            if not found:
                match = "symbol"
                found = [number for number, agreement in agreements.items() if agreement is Agreement.SHARED]
        if text.isdigit():  # digits alone may be an identifier, in which leading zeros count: 123 is not 0123
            found = [number for number in found if printed.text[number.start] != "0"]
        same = [one._replace(reading=1.0) for one in found if printed.text[one.start : one.end] == folded]
        printings = self._most_certain(match, same or found, text)
        written = self._text_search.find_in_reading_order(text) if not same and match == "number" else None
        if written and text.isdigit():
            spans = [span for span in written.spans if not self._is_different_number(span, text)]
            return Candidates("normalised", spans, text) if spans else None
        if written:
            # The text may include a currency: RM9.00. With another point or sign it is a different number.
            tight, on = folded.replace(" ", ""), {self._span_of_number(number).last for number in found}
            exactly = [
                span
                for span in written.spans
                if not on.isdisjoint(range(span.first, span.last + 1))
                and folding.fold(covered_text(self._index, span, text)) == tight
            ]
            if exactly:
                certainty = max(number.certainty for number in found)
                return Candidates("normalised", exactly, text, certainty=certainty)
        return printings

    def _currency_agreement(self, text: str, value: Number, printed: Number) -> Agreement:
        """Compare the currency or unit of a value with that of a printed number. A number printed without either takes
        the currency or unit of its column's heading, else the only one of its page."""
        index = self._index
        page = index.page_of[self._span_of_number(printed).first_word]
        if value.unit is not None:
            if printed.unit is None and printed.currency is None:
                is_named = value.unit in index.governing_units(self._span_of_number(printed).first_word)
                return Agreement.SAME if is_named else Agreement.NONE
            own = text.rstrip("0123456789 .,")[-len(value.unit) :]
            is_cased = value.unit in units.CASE_SENSITIVE_UNITS and own not in self._last_words(printed)  # mW and MW
            return Agreement.SAME if printed.unit == value.unit and not is_cased else Agreement.NONE
        currency = value.currency or frozenset()
        if printed.unit is not None and printed.currency is None and (codes := units.codes_of(printed.unit)):
            return Agreement.SHARED if codes & currency else Agreement.NONE  # `100 Ft` may be feet
        if printed.unit is not None or printed.currency is not None:
            return units.compare_currencies(currency, printed.currency or frozenset())
        word = self._span_of_number(printed).first_word
        governing = index.heading_currencies(word) or units.declared_currencies(index.page_text(page))
        named = {units.compare_currencies(currency, other) for other in governing or index.currencies_on(page)}
        if not governing and units.names_currency(currency, index.page_text(page)):
            named.add(Agreement.SAME)
        return Agreement.NONE if Agreement.NONE in named else min(named, default=Agreement.NONE)

    def _is_different_number(self, span: Span, digits: str) -> bool:
        """Return whether printed digits are part of a different number: 75 in `-75`. In brackets they may be a code."""
        printed = self._index.folded_stream
        at = printed.text.find(digits, printed.starts[span.first_word])
        if at < 0 or (printed.text[at - 1 : at], printed.text[at + len(digits) : at + len(digits) + 1]) == ("(", ")"):
            return False
        if numbers.begins_fraction(printed.text, at):
            return True
        readings = self._index.numbers.read(at, at + len(digits))
        is_own = any(digits.lstrip("0") in number.values and not number.is_limit for number in readings)
        return bool(readings) and not is_own

    def _find_date_and_time(self, text: str, parsed: dates.DateAndTime) -> Candidates | None:
        """Return the candidates for a date in any format, with the time beside it, or for a time alone."""
        index = self._index
        times = [index.folded_stream.span(*hit) for hit in self._find_times(parsed.time)] if parsed.time else []
        if not parsed.days:
            return Candidates("date", times, text) if times else None
        best = self._most_certain_dates({hit for day in parsed.days for hit in index.dates.get(day, ())}, text)
        if best is not None and best.certainty == dates.CONTRADICTED_CERTAINTY:
            return None
        spans = best.spans if best else self._find_wrapped_dates(parsed.days)
        if not spans and len(parsed.days) == 1:
            best = self._most_certain_dates(index.unusual_days.get(parsed.days[0], ()), text)
            spans = best.spans if best else ()
        certainty = best.certainty if best else 1.0
        if parsed.time is None or not spans:
            return Candidates("date", spans, text, certainty=certainty) if spans else None
        times_of: dict[Span, Span] = {}
        for span in spans:
            at = bisect_left(times, span.first_word, key=lambda time: time.first_word)
            close = [
                time
                for time in times[max(0, at - 1) : at + 2]
                if index.page_of[time.first_word] == index.page_of[span.first_word]
            ]
            if close:
                times_of[span] = min(close, key=lambda time: abs(time.first_word - span.first_word))
        if times_of:
            return Candidates("date", [span for span in spans if span in times_of], text, times_of, certainty)
        # Midnight may only be how a program stores a date as a timestamp.
        is_midnight = parsed.time[:2] == (0, 0) and not parsed.time[2]
        return Candidates("date", spans, text, certainty=certainty) if is_midnight else None

    def _without_other_days(self, written: Candidates, days: Sequence[dates.Day]) -> Candidates | None:
        """Return the candidates for a date without those that mean another day: 2567-06-30 is in 2024 if it is a
        Buddhist year."""
        index = self._index
        own = {(start, end) for day in days for start, end, _ in index.dates.get(day, ())}
        others = {(start, end) for hits in index.dates.values() for start, end, _ in hits} - own
        words = {index.folded_stream.span(*hit).first_word for hit in others}
        spans = [span for span in written.spans if span.first_word not in words]
        return replace(written, spans=spans) if spans else None

    def _filter_by_time(self, written: Candidates, text: str, time: dates.TimeOfDay) -> Candidates | None:
        """Return the candidates for a time without those that are a different time in context: 12:30 at `12:30 AM`. If
        none is certainly a time, as in `Ratio 12:30`, return the rest with less certainty."""
        printed, folded = self._index.folded_stream, folding.fold(text)
        readings_at = {start: readings for start, _, readings in self._index.times}
        certain: list[Span] = []
        unsure: list[Span] = []
        for span in written.spans:
            at = printed.text.find(folded, printed.starts[span.first_word])
            readings = readings_at.get(at)
            if readings is None:
                (unsure if at >= 0 and folded[:2].isdigit() else certain).append(span)
            elif any(dates.is_same_time(time, one) for one in readings):
                certain.append(span)
        if certain or not unsure:
            return replace(written, spans=certain) if certain else None
        return replace(written, spans=unsure, certainty=dates.UNUSUAL_CERTAINTY)

    def _most_certain_dates(self, found: Iterable[tuple[int, int, float]], text: str) -> Candidates | None:
        hits = sorted(set(found))[:MAX_MATCHES]
        certainty = max((each for *_, each in hits), default=1.0)
        spans = [self._index.folded_stream.span(start, end) for start, end, each in hits if each == certainty]
        return Candidates("date", spans, text, certainty=certainty) if spans else None

    def _find_wrapped_dates(self, days: Sequence[dates.Day]) -> list[Span]:
        spans: list[Span] = []
        for other in self._index.other_reading_orders(str(days[0][0])):
            printed = TextStream.of(self._index.folded, other.order, folding.fold, gap="\n")
            spans += [
                printed.span(start, end)
                for start, end, read_as, *_ in dates.find_dates(printed.text)
                if not set(days).isdisjoint(read_as)
            ]
        return spans[:MAX_MATCHES]

    def _find_times(self, time: dates.TimeOfDay) -> list[tuple[int, int]]:
        return [
            (start, end)
            for start, end, readings in self._index.times
            if any(dates.is_same_time(time, one) for one in readings)
        ][:MAX_MATCHES]


def _is_deduction(label: Sequence[str | int]) -> bool:
    """Return whether the last key of a path names a deduction, which many documents print with a minus."""
    keys = [step for step in label if isinstance(step, str)]
    return bool(keys) and not DEDUCTION_WORDS.isdisjoint(words_of_key(keys[-1]))
