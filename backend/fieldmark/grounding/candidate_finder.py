"""CandidateFinder: every span that could be a value, printed as a number, an amount, a date or a text."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from pydantic import JsonValue

from fieldmark.domain import folding
from fieldmark.domain.numbers import canonical_decimal
from fieldmark.grounding import answers, dates, numbers, units
from fieldmark.grounding.candidate_ranker import words_of_key
from fieldmark.grounding.evidence import Claim, Match
from fieldmark.grounding.locations import Candidates, covered
from fieldmark.grounding.numbers import Number
from fieldmark.grounding.text_search import MAX_VALUE_CHARACTERS, TextSearch
from fieldmark.grounding.text_stream import Span, TextStream
from fieldmark.grounding.units import Agreement
from fieldmark.grounding.word_index import MAX_PLACES, WordIndex

_MOST_QUOTES: Final = 100  # printings of a quote that are asked what they answer
_ENDS: Final = (".", ":", ";", "?", "!")  # of a sentence, or of what a form asks
_WORDS_BEHIND: Final = 8  # a quote that may hold its answer
_OTHER_SIGN: Final = 0.6  # how surely -75 is a debit of 75
_TAKEN_OFF: Final = """
credit credits debit debits deduction deductions discount discounts expense expenses fee fees loss losses payment
payments rebate rebates refund refunds withdrawal withdrawals withheld withholding abzug abzuge belastung gebuhr
gebuhren gutschrift rabatt skonto soll verlust debito remise retenue descuento
"""
_NAMES_TAKEN_OFF: Final = frozenset(_TAKEN_OFF.split())
_CONTINUED: Final = 0.6  # how surely a part of what is printed is the value
_RATING = re.compile(r"[A-Za-z]{1,3}\d?")
_HOUSE_NUMBER = re.compile(r"[^\W\d_].*[^\W\d_.]\.? \d{1,4}", re.DOTALL)
_HOUSE_LETTER = re.compile(r"[a-h][,.;]?")
_WORDS_OF_A_FORM: Final = 60  # on a line before and behind a quote; in a longer line no boxes of items are looked for
_WORDS_OF_A_BOX: Final = 3  # before a quote: `[ x ]`


class CandidateFinder:
    """The candidates for values of one document. It remembers the values that it was asked for."""

    def __init__(self, index: WordIndex, text_search: TextSearch) -> None:
        self._index = index
        self._text_search = text_search
        self._found: dict[tuple[type, object], Candidates | None] = {}

    def find(self, value: JsonValue, claim: Claim, label: Sequence[str | int] = ()) -> Candidates | None:
        """The candidates for a scalar, or None. A boolean is not printed: its candidates are those of its quote, where
        the page does not say otherwise there. The label (a path) may say that a printed minus is no part of the value:
        a debit of 75 is also found at -75."""
        if isinstance(value, bool):
            found = self._text_search.find_quote(claim.quote, claim.page) if claim.quote else None
            spans = [span for span in found.spans[:_MOST_QUOTES] if self._says(span, value)] if found else []
            return Candidates("quote", spans, claim.quote or "") if spans else None
        if not isinstance(value, (str, int, float)) or value == "":
            return None
        key = (type(value), value)
        if key not in self._found:
            found = self._string(value) if isinstance(value, str) else self._number(value)
            self._found[key] = self._wholes(found) if found else None
        found = self._found[key]
        if found is None and not isinstance(value, str) and value > 0 and _takes_off(label):
            below_zero = self.find(-value, claim)
            return below_zero and replace(below_zero, certainty=_OTHER_SIGN)
        return found

    def _wholes(self, found: Candidates) -> Candidates:
        """Return the candidates that nothing continues. Where something continues each, they are less certain."""
        if found.match == "date":
            return found
        wholes = [span for span in found.spans if not self._is_continued(span, found.wanted)]
        if wholes or not found.spans:
            return replace(found, spans=wholes)
        return replace(found, certainty=min(found.certainty, _CONTINUED))

    def _is_continued(self, span: Span, wanted: str) -> bool:
        """Whether a span is only a part of what is printed: some groups of an account number, the number of a house
        without its letter, a rating without its minus."""
        index = self._index
        own = span.indexes()
        first, last = own[0], own[-1]
        if index.is_part_of_identifier(first, last):
            return True
        if not (last + 1 < len(index.words) and index.are_in_one_cell(last, last + 1)):
            return False
        following, is_end = index.words[last + 1][0], not index.are_in_one_cell(last + 1, last + 2)
        if _RATING.fullmatch(wanted):
            return is_end and index.folded[last + 1] == "-"
        if not _HOUSE_NUMBER.fullmatch(wanted) or not _HOUSE_LETTER.fullmatch(following):
            return False
        return is_end or not following.isalpha() or index.folded[last + 2][:1].isdigit()

    def _says(self, span: Span, value: bool) -> bool:
        """Whether a quote says yes or no, with what denies it or answers it on its line, or below it."""
        index, own = self._index, sorted(span.indexes())
        options = self._options_around(own)
        if any(answers.is_box(index.folded[at]) for at in options):  # `☐ Yes ☒ No` says no, whichever is quoted
            return answers.answers_in(" ".join(index.folded[at] for at in options)) == {value}
        quote = " ".join(index.folded[at] for at in own)
        if not answers.answers_in(quote) and (ticked := self._is_ticked(own)):
            return ticked == {value}
        first, last = self._first_that_answers(own[0]), self._last_answer(own[-1])
        around = " ".join(index.folded[first : last + 1])
        if last == own[-1] and not answers.answers_in(around) and (behind := self._answers_behind(own)):
            around += ": " + " ".join(index.folded[at] for at in behind)
        return answers.is_evidence(value, quote, around, answers.denies(*self._sentence_around(own)))

    def _is_ticked(self, quote: Sequence[int]) -> set[bool]:
        """Whether the item of a form that a quote is in is ticked, as `answers.item_is_ticked` returns it."""
        index, first, last = self._index, quote[0], quote[-1]
        line = index.line_of(first)
        start, end = max(0, first - _WORDS_OF_A_FORM), min(len(index.words), last + 1 + _WORDS_OF_A_FORM)
        own = [at for at in range(start, end) if index.line_of(at) == line]
        if index.line_of(last) != line or (own[0] == start > 0) or own[-1] == end - 1 < len(index.words) - 1:
            return set()
        words = [index.words[at][0] if len(index.words[at][0]) == 1 else index.folded[at] for at in own]
        return answers.item_is_ticked(words, first - own[0], last - own[0])

    def _options_around(self, quote: Sequence[int]) -> Sequence[int]:
        """The answers and boxes on a line around a quote that is an answer itself. Empty for any other quote."""
        index, first, last = self._index, quote[0], quote[-1]
        line = index.line_of(first)
        if index.line_of(last) != line or not all(answers.is_answer(index.folded[at]) for at in quote):
            return ()
        while first and index.line_of(first - 1) == line and answers.is_answer(index.folded[first - 1]):
            first -= 1
        while last + 1 < len(index.words) and index.line_of(last + 1) == line:
            if not answers.is_answer(index.folded[last + 1]):
                break
            last += 1
        return range(first, last + 1)

    def _sentence_around(self, quote: Sequence[int]) -> tuple[list[str], list[str]]:
        """Return the words before and behind a quote in its sentence, its cell and its line."""
        index = self._index
        first, last = quote[0], quote[-1]
        line, end = index.line_of(first), index.line_of(last)
        while first and index.line_of(first - 1) == line and index.are_in_one_cell(first - 1, first):
            before = index.folded[first - 1]
            if before[-1:] in _ENDS or (
                first > 1 and answers.is_answer(before) and answers.is_box(index.folded[first - 2])
            ):
                break
            first -= 1
        while last + 1 < len(index.words) and index.line_of(last + 1) == end and index.are_in_one_cell(last, last + 1):
            if index.folded[last][-1:] in _ENDS:
                break
            last += 1
        return index.folded[first : quote[0]], index.folded[quote[-1] + 1 : last + 1]

    def _first_that_answers(self, word: int) -> int:
        """Return the first of the words before a quote that say yes or no to it: a box, or what denies it."""
        index = self._index
        first, line = word, index.line_of(word)
        while first and word - first < _WORDS_OF_A_BOX and index.line_of(first - 1) == line:
            before, earlier = index.folded[first - 1], index.folded[first - 2] if first > 1 else ""
            if answers.is_negation(before):
                # `Insured: no Delivery`, `☒ no Delivery` and, beyond a gap, `no   Delivery` say nothing of a delivery.
                is_answer = (earlier[-1:] in (":", "?") and earlier) or answers.is_box(earlier)
                return first if is_answer or not index.are_in_one_cell(first - 1, first) else first - 1
            if any(character.isalpha() for character in before.replace("x", "")):
                break
            first -= 1
            if before[:1] in "[(" or not (before.endswith(("]", ")")) or before == "x"):
                break
        return first

    def _last_answer(self, word: int) -> int:
        """Return the last of the answers that follow a word on its line, or the word."""
        index = self._index
        last, line = word, index.line_of(word)
        while last - word < _WORDS_BEHIND and last + 1 < len(index.words) and index.line_of(last + 1) == line:
            if not answers.is_answer(index.folded[last + 1]):
                is_text = index.words[last + 1][0][:1].islower() and index.folded[last].isalpha()
                if last > word and is_text and not index.folded[word].endswith(":"):
                    last -= 1  # "no smoking" is no answer
                break
            last += 1
        return last

    def _answers_behind(self, quote: Sequence[int]) -> Sequence[int]:
        """The answers at the end of the cell that a quote begins, in the next cell of its line, or in that below it."""
        index, at = self._index, quote[-1]
        line = index.line_of(at)
        while at - quote[-1] < _WORDS_BEHIND and at + 1 < len(index.words) and index.line_of(at + 1) == line:
            if index.folded[at][-1:] in (":", "?") or not index.are_in_one_cell(at, at + 1):
                break
            at += 1
        if (last := self._last_answer(at)) > at or at > quote[-1]:
            return range(at + 1, last + 1)
        below = index.cell_below(quote)
        return below if all(answers.is_answer(index.folded[one]) for one in below) else ()

    def _number(self, value: int | float) -> Candidates | None:
        name = canonical_decimal(value)
        found = self._numbers([name]) or self._index.numbers.find_padded(name, MAX_PLACES) if name else []
        return self._surest("number", found, str(value))

    def _surest(self, match: Match, found: Sequence[Number], text: str) -> Candidates | None:
        """The candidates at the numbers that are surest to be the value."""
        certainty = max((number.certainty for number in found), default=1.0)
        spans = [self._span(number) for number in found if number.certainty == certainty]
        return Candidates(match, spans, text, certainty=certainty) if spans else None

    def _numbers(self, names: Sequence[str], as_printed: bool = False) -> list[Number]:
        found = {number for name in names for number in self._index.numbers.find(name, MAX_PLACES, as_printed)}
        return sorted((number for number in found if not self._may_be_millions(number)), key=lambda number: number[:2])

    def _span(self, number: Number) -> Span:
        return self._index.folded_stream.span(number.start, number.end)

    def _may_be_millions(self, number: Number) -> bool:
        """Whether the letter behind a number is an upper-case M: metres have a small one."""
        printed = self._words_at_the_end(number) if number.unit == "m" else ""
        return "M" in printed and "m" not in printed

    def _words_at_the_end(self, number: Number) -> str:
        last = self._span(number).indexes()[-1]
        return " ".join(word[0] for word in self._index.words[last : last + 2])

    def _string(self, value: str) -> Candidates | None:
        text = " ".join(value.split())
        if not text or len(text) > MAX_VALUE_CHARACTERS:
            return None
        amount = numbers.parse(text)
        if amount and not (text.isdigit() and text.startswith("0")):
            found = self._amount(text, amount)
            if found or not text.isdigit():
                return found
        wanted = dates.parse(text)
        if wanted:
            written = self._text_search.find_in_reading_order(text)
            if written and wanted.time and not wanted.days:
                written = self._at_their_time(written, text, wanted.time)
            return written or self._date_and_time(text, wanted)
        if period := dates.parse_period(text):
            return self._text_search.find_in_reading_order(text) or self._surest_dates(
                self._index.periods.get(period, ()), text
            )
        if amount and not text.startswith("0"):
            return None
        # A number is never searched for as misread: a wrong digit is another value.
        return self._text_search.find_in_reading_order(text) if amount else self._text_search.find(text)

    def _amount(self, text: str, value: Number) -> Candidates | None:
        """The candidates for a text that is a number: where it is printed as it is written, else in any spelling. What
        it is a number of must be printed with it; the likeliest is where nothing else could be meant."""
        printed, folded = self._index.folded_stream, folding.fold(text)
        found = self._numbers(value.values, as_printed=value.unit in ("%", "‰"))  # "5 %" is not 0.05 %
        found = [number for number in found if not number.is_limit]  # a text can say `<5` itself
        match: Match = "number"
        if value.currency is not None or value.unit is not None:
            agreements = {number: self._agreement(text, value, number) for number in found}
            found = [number for number in found if agreements[number] is Agreement.SAME]
            if not found:
                match = "symbol"
                found = [number for number, agreement in agreements.items() if agreement is Agreement.SHARED]
        if text.isdigit():  # digits alone may be an identifier, in which leading zeros count: 123 is not 0123
            found = [number for number in found if printed.text[number.start] != "0"]
        same = [number for number in found if printed.text[number.start : number.end] == folded]
        printings = self._surest(match, same or found, text)
        written = self._text_search.find_in_reading_order(text) if not same and match == "number" else None
        if written and text.isdigit():
            spans = [span for span in written.spans if not self._is_another_number(span, text)]
            return Candidates("normalised", spans, text) if spans else None
        if written:
            # The text may include a currency: RM9.00. The same digits with another point or sign are another number.
            tight, on = folded.replace(" ", ""), {self._span(number).last for number in found}
            exactly = [
                span
                for span in written.spans
                if not on.isdisjoint(range(span.first, span.last + 1))
                and folding.fold(covered(self._index, span, text)) == tight
            ]
            if exactly:
                return Candidates("normalised", exactly, text)
        return printings

    def _agreement(self, text: str, value: Number, printed: Number) -> Agreement:
        """Compare the currency or unit of a value with that of a printed number.

        A number without either has that of its page: the one currency there, or a unit that heads a column.
        """
        index = self._index
        page = index.page_of[self._span(printed).word]
        if value.unit is not None:
            if printed.unit is None and printed.currency is None:
                is_in_head = units.heads_a_column(value.unit, index.page_text(page))
                return Agreement.SAME if is_in_head else Agreement.NONE
            own = text.rstrip("0123456789 .,")[-len(value.unit) :]
            is_cased = value.unit in units.CASED and own not in self._words_at_the_end(printed)  # mW and MW
            return Agreement.SAME if printed.unit == value.unit and not is_cased else Agreement.NONE
        currency = value.currency or frozenset()
        if printed.unit is not None and printed.currency is None and (codes := units.codes_of(printed.unit)):
            return Agreement.SHARED if codes & currency else Agreement.NONE  # `100 Ft` may be feet
        if printed.unit is not None or printed.currency is not None:
            return units.compare(currency, printed.currency or frozenset())
        named = {units.compare(currency, other) for other in index.currencies_on(page)}
        if units.names(currency, index.page_text(page)):
            named.add(Agreement.SAME)
        return Agreement.NONE if Agreement.NONE in named else min(named, default=Agreement.NONE)

    def _is_another_number(self, span: Span, digits: str) -> bool:
        """Whether printed digits are a number, but not this one: 75 in `-75`. In brackets they may be a code."""
        printed = self._index.folded_stream
        at = printed.text.find(digits, printed.starts[span.word])
        if at < 0 or (printed.text[at - 1 : at], printed.text[at + len(digits) : at + len(digits) + 1]) == ("(", ")"):
            return False
        if numbers.begins_fraction(printed.text, at):
            return True
        readings = self._index.numbers.read(at, at + len(digits))
        is_own = any(digits.lstrip("0") in number.values and not number.is_limit for number in readings)
        return bool(readings) and not is_own

    def _date_and_time(self, text: str, wanted: dates.DateAndTime) -> Candidates | None:
        """The candidates for a day in any spelling, with its time beside it if it has one, or for a time alone."""
        index = self._index
        times = [index.folded_stream.span(*hit) for hit in self._time_hits(wanted.time)] if wanted.time else []
        if not wanted.days:
            return Candidates("date", times, text) if times else None
        surest = self._surest_dates({hit for day in wanted.days for hit in index.dates.get(day, ())}, text)
        certainty = surest.certainty if surest else 1.0
        spans = surest.spans if surest else self._wrapped_dates(wanted.days)
        if not spans and len(wanted.days) == 1:
            without_year = index.days_without_year.get(wanted.days[0], ())[:MAX_PLACES]
            spans = [index.folded_stream.span(*hit) for hit in without_year]
            certainty = dates.WITHOUT_YEAR
        if wanted.time is None or not spans:
            return Candidates("date", spans, text, certainty=certainty) if spans else None
        times_of: dict[Span, Span] = {}
        for span in spans:
            at = bisect_left(times, span.word, key=lambda time: time.word)
            close = [
                time for time in times[max(0, at - 1) : at + 2] if index.page_of[time.word] == index.page_of[span.word]
            ]
            if close:
                times_of[span] = min(close, key=lambda time: abs(time.word - span.word))
        if times_of:
            return Candidates("date", [span for span in spans if span in times_of], text, times_of, certainty)
        # Midnight may only be how a program writes a date as a date with time.
        is_midnight = wanted.time[:2] == (0, 0) and not wanted.time[2]
        return Candidates("date", spans, text, certainty=certainty) if is_midnight else None

    def _at_their_time(self, written: Candidates, text: str, wanted: dates.TimeOfDay) -> Candidates | None:
        """The candidates for a time alone that is printed as it is written, without those where it is another time by
        what stands beside it: 12:30 at `12:30 AM`. Two digits for the hour may be no time: `Ratio 12:30`."""
        printed, folded = self._index.folded_stream, folding.fold(text)
        readings_at = {start: readings for start, _, readings in self._index.times}
        surely: list[Span] = []
        unsure: list[Span] = []
        for span in written.spans:
            at = printed.text.find(folded, printed.starts[span.word])
            readings = readings_at.get(at)
            if readings is None:
                (unsure if at >= 0 and folded[:2].isdigit() else surely).append(span)
            elif any(dates.is_same_time(wanted, one) for one in readings):
                surely.append(span)
        if surely or not unsure:
            return replace(written, spans=surely) if surely else None
        return replace(written, spans=unsure, certainty=dates.UNUSUAL)

    def _surest_dates(self, found: Iterable[tuple[int, int, float]], text: str) -> Candidates | None:
        """The candidates at the (start, end, certainty) that are surest to be the value."""
        hits = sorted(set(found))[:MAX_PLACES]
        certainty = max((surely for *_, surely in hits), default=1.0)
        spans = [self._index.folded_stream.span(start, end) for start, end, surely in hits if surely == certainty]
        return Candidates("date", spans, text, certainty=certainty) if spans else None

    def _wrapped_dates(self, days: Sequence[dates.Day]) -> list[Span]:
        spans: list[Span] = []
        for other in self._index.other_reading_orders(str(days[0][0])):
            printed = TextStream.of(self._index.folded, other.order, folding.fold, gap="\n")
            spans += [
                printed.span(start, end)
                for start, end, read_as, *_ in dates.find_dates(printed.text)
                if not set(days).isdisjoint(read_as)
            ]
        return spans[:MAX_PLACES]

    def _time_hits(self, wanted: dates.TimeOfDay) -> list[tuple[int, int]]:
        return [
            (start, end)
            for start, end, readings in self._index.times
            if any(dates.is_same_time(wanted, one) for one in readings)
        ][:MAX_PLACES]


def _takes_off(label: Sequence[str | int]) -> bool:
    """Whether the last key of a path names an amount that is taken off, which many pages print with a minus."""
    keys = [step for step in label if isinstance(step, str)]
    return bool(keys) and not _NAMES_TAKEN_OFF.isdisjoint(words_of_key(keys[-1]))
