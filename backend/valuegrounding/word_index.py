"""WordIndex: the words of a document, folded once, with lookups by text, number, date, line and reading order."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, count, islice
from operator import add
from typing import Final, NamedTuple

from valuegrounding import dates, folding, layout, numbers, units
from valuegrounding.page import Box, SearchablePage, Word
from valuegrounding.qualifiers import Qualifier, find_qualifier
from valuegrounding.text_stream import Span, TextStream

MAX_WORD_CHARACTERS: Final = 2_000  # longer words are not searched
MAX_CHARACTERS: Final = 20_000_000  # later text of a document is not searched
MAX_MATCHES: Final = 10_000  # of one value; further matches are not counted
MAX_REORDERED_PAGES: Final = 4  # pages that are also read in other orders for one value
MAX_TOKENS: Final = 200  # words of one value used to choose those pages

_MAX_YEARS: Final = 20  # years that are tried for a date without a year
_MAX_WORDS_TO_CELL_BELOW: Final = 60
_MAX_HEADINGS: Final = 200  # of a page that name a currency or unit
_MAX_HEADING_WORDS: Final = 4
_MAX_QUALIFYING_WORDS: Final = 4  # on either side of a number
_MAX_QUALIFYING_CHARACTERS: Final = 40
_SCALABLE = re.compile(r"\d[.,'’]\d{1,3}(?!\d)|\d{3}")
_MAX_PAGE_DIGITS: Final = 4
_MARGIN: Final = 0.1  # of a page's height: where its number is
_MAX_WORDS_OF_LINE: Final = 40
_REFERENCE_WORDS: Final = """
note notes page pages p pp no nr seite anhang anm erl ziffer abschnitt section chapter kapitel nota notas pagina bilag
noot ref § #
"""
_REFERENCES: Final = frozenset(_REFERENCE_WORDS.split())
_COUNTED_WORDS: Final = """
employee employees staff people persons headcount customers members subscribers units pieces items stores branches
shares days weeks months years hours mitarbeiter mitarbeitende beschaftigte personen kunden mitglieder stuck stk
filialen aktien anteile tage wochen monate jahre stunden salaries employes personnes clients membres unites
actions jours mois annees ans heures empleados personas clientes unidades acciones dias meses anos horas dipendenti
persone azioni giorni mesi anni ore medewerkers personen klanten aandelen dagen maanden jaar uur
"""
_COUNTED: Final = frozenset(_COUNTED_WORDS.split())
"""What a number counts that no scale of amounts shifts."""
_PER_SHARE = re.compile(
    r"(?<![^\W_])(?:eps|(?:per|pro|je|par|por)(?: [^\W_]{1,20}){0,2} (?:shares?|aktien?|anteil|actions?|accion|acciones"
    r"|azione|acao|aandeel|unit|employee|mitarbeiter))(?![^\W_])"
)
_MAX_GAP_IN_NUMBER: Final = 0.75  # in line heights
_MAX_GAP_TO_UNIT: Final = 4.0

# Account, card and telephone numbers printed in groups, in text with one word per line. They are one identifier if
# their words are close.
_GROUPED = re.compile(
    r"(?<![^\n])[a-z]{2}\d\d(?:\n[a-z\d]{4}){2,7}(?:\n[a-z\d]{1,3})?(?![^\n.,;])"
    r"|(?<![^\n])(?!(?:(?:19|20)\d\d(?!\d)\n?)+(?!\d))\d{4}(?:\n\d{4}){2,4}(?:\n\d{1,4})?(?![^\n.,;])"
    r"|(?<![^\n(])\+\d{1,4}(?:\n[(\d][\d()/-]*)+(?![^\n.,;])(?![.,]\d)"
    r"|(?<![^\n])\(\d{2,5}\)\n?\d+-\d+(?![^\n.,;])"
    r"|(?<![^\n(])\(?0\d{2,5}\)?(?:\n[\d/-][\d()/-]*)+(?![^\n.,;])(?![.,]\d)"
)


class _Heading(NamedTuple):
    """A cell without digits that names currencies, units or a scale."""

    box: Word
    currencies: set[units.Codes]
    units: set[str]
    scale: int  # places of the decimal point


class _DeclaredScale(NamedTuple):
    """A text such as `(in thousands)`. A general one, such as `Amounts in TEUR` or below all numbers of its page, also
    holds for what is above it."""

    box: Word
    places: int
    is_general: bool


class WordIndex:
    """All words of a document in reading order, with lookups.

    `words`, `folded`, `alphanumeric` and `page_of` have one entry per word: the word as given, its two folded forms,
    and its page. A page is an index into `pages`, which holds the page numbers.
    """

    def __init__(self, pages: Iterable[SearchablePage]) -> None:
        self.words: list[Word] = []
        self.pages: list[int] = []
        self.page_of: list[int] = []
        self._firsts: list[int] = []  # the first word of each page
        for page in pages:
            self.page_of += [len(self.pages)] * len(page.words)
            self.pages.append(page.number)
            self._firsts.append(len(self.words))
            self.words.extend(page.words)
        texts: list[str] = [word[0] for word in self.words]
        joined = "\n".join(texts)
        longest = max(map(len, texts), default=0)
        if joined.count("\n") != len(texts) - 1 or len(joined) > MAX_CHARACTERS or longest > MAX_WORD_CHARACTERS:
            texts = _within_limits(texts)
            joined = "\n".join(texts)
        folded = folding.fold(joined.replace(folding.HARD_SPACE, " "))  # printed, it is a control character
        self.folded: list[str] = folded.split("\n") if texts else []
        alphanumeric = folding.alphanumeric(folded)
        self.alphanumeric: list[str] = alphanumeric.split("\n") if texts else []
        self._alphanumeric_lines = f"\n{alphanumeric}\n"  # one word per line
        self._tokens: dict[str, list[int]] = {}
        self._lines: dict[int, dict[int, int]] = {}
        self._orders: dict[int, list[TextStream]] = {}
        self._page_texts: dict[int, str] = {}
        self._currencies: dict[int, set[units.Codes]] = {}
        self._units: dict[int, set[str]] = {}
        self._headings: dict[int, list[_Heading]] = {}
        self._scales: dict[int, list[_DeclaredScale]] = {}  # by page

    @cached_property
    def alphanumeric_stream(self) -> TextStream:
        """Return the letters and digits of all words in reading order, joined without gaps."""
        return TextStream.of(self.alphanumeric, range(len(self.alphanumeric)), folding.fold_alphanumeric)

    @cached_property
    def folded_stream(self) -> TextStream:
        """Return the folded words in reading order, each on a line of its own."""
        return TextStream.of(self.folded, range(len(self.folded)), folding.fold, gap="\n")

    @cached_property
    def _alphanumeric_line_starts(self) -> list[int]:
        return list(map(add, self.alphanumeric_stream.starts, count()))

    def occurrences(self, token: str) -> list[int]:
        """Return the indexes of the words that are exactly this token, or start with it and a colon
        ("Date:12/03/2024")."""
        if token not in self._tokens:
            printed = self.folded_stream
            found = {
                bisect_left(self._alphanumeric_line_starts, at)
                for at in _find_all(self._alphanumeric_lines, f"\n{token}\n")
            }
            found.update(bisect_left(printed.starts, at) for at in _find_all("\n" + printed.text, f"\n{token}:"))
            self._tokens[token] = sorted(found)
        return self._tokens[token]

    def words_beside(self, at: int, limit: int) -> range:
        """Return the words on the line of a word, as far as they are read together: at most `limit` on each side."""
        first = last = at
        while at - first < limit and first > 0 and self._are_on_one_line(first - 1, at):
            first -= 1
        while last - at < limit and last + 1 < len(self.words) and self._are_on_one_line(last + 1, at):
            last += 1
        return range(first, last + 1)

    def qualifier_of(self, words: Sequence[int], quote: str) -> Qualifier | None:
        """Return what is printed beside a number and changes it. `quote` is the number as printed in these words."""
        first, last = words[0], words[-1]
        own = " ".join(self.words[at][0] for at in words)
        start = own.find(quote)
        if start < 0:
            return None
        before, after = own[:start], own[start + len(quote) :]
        while words[0] - first < _MAX_QUALIFYING_WORDS and first > 0 and (gap := self._gap(first - 1, first)):
            first -= 1
            before = self.words[first][0] + gap + before
        while last - words[-1] < _MAX_QUALIFYING_WORDS and (gap := self._gap(last, last + 1)):
            last += 1
            after += gap + self.words[last][0]
        return find_qualifier(before[-_MAX_QUALIFYING_CHARACTERS:], quote, after[:_MAX_QUALIFYING_CHARACTERS])

    def _gap(self, first: int, second: int) -> str:
        """Return a space between two words of a cell, a tab between cells that are near, else an empty text."""
        if self.are_in_one_cell(first, second):
            return " "
        is_near = second < len(self.words) and layout.are_adjacent(
            self.words[first], self.words[second], _MAX_GAP_TO_UNIT
        )
        return "\t" if is_near and self.page_of[first] == self.page_of[second] else ""

    def _are_on_one_line(self, one: int, other: int) -> bool:
        return self.page_of[one] == self.page_of[other] and layout.on_same_line(self.words[one], self.words[other])

    # Numbers and dates, by their offsets in `folded_stream`.

    @cached_property
    def numbers(self) -> numbers.NumberIndex:
        printed = self.folded_stream
        starts = printed.starts

        def are_joined(at: int) -> bool:
            if printed.text[at] != "\n":
                return True
            index = bisect_right(starts, at) - 1
            return self.are_close(index, index + 1)

        def are_near(at: int) -> bool:
            if printed.text[at] != "\n":
                return True
            index = bisect_right(starts, at) - 1
            return index + 1 < len(self.words) and layout.are_adjacent(
                self.words[index], self.words[index + 1], _MAX_GAP_TO_UNIT
            )

        def are_in_cell(at: int) -> bool:
            if printed.text[at] != "\n":
                return True
            index = bisect_right(starts, at) - 1
            return self.are_in_one_cell(index, index + 1)

        return numbers.NumberIndex(printed.text, are_joined, are_near, are_in_cell)

    @cached_property
    def dates(self) -> dict[dates.Day, list[tuple[int, int, float]]]:
        """Return the (start offset, end offset, certainty) of each printed date in `folded_stream`, by the days it may
        mean."""
        found: defaultdict[dates.Day, list[tuple[int, int, float]]] = defaultdict(list)
        date_matches = (
            date for date in dates.find_dates(self.folded_stream.text) if self.are_read_together(date.start, date.end)
        )
        for date, day, certainty in dates.certainties(date_matches, self.folded_stream.text):
            found[day].append((date.start, date.end, certainty))
        return found

    @cached_property
    def unusual_days(self) -> dict[dates.Day, list[tuple[int, int, float]]]:
        """Return the (start offset, end offset, certainty) of days printed without a year or separators, by the days
        that they may mean. A day without a year is of the only year that other dates show. If they show several, or the
        page only prints other years, the day is unsure."""
        found: defaultdict[dates.Day, list[tuple[int, int, float]]] = defaultdict(list)
        text = self.folded_stream.text
        shown = self._years_of_dates
        years = sorted(shown | dates.years_in(text), key=lambda year: (year not in shown, year))[:_MAX_YEARS]
        is_known = len(shown or years) == 1
        starts = {start for hits in self.dates.values() for start, *_ in hits}  # of a range: `28 Dec to 3 Jan 2024`
        for start, end, month, day, certainty in dates.find_without_year(text) if years else ():
            if start not in starts and self.are_read_together(start, end):
                for year in years:
                    is_sure = is_known and year == years[0]
                    sure = certainty if is_sure else min(certainty, dates.AMBIGUOUS_CERTAINTY)
                    found[year, month, day].append((start, end, sure))
        for start, end, day, certainty in dates.find_compact(text):
            found[day].append((start, end, certainty))
        return found

    @cached_property
    def _years_of_dates(self) -> frozenset[int]:
        sure = {day[0] for day, hits in self.dates.items() for *_, each in hits if each > dates.AMBIGUOUS_CERTAINTY}
        periods = {period[0] for period, hits in self.periods.items() if any(each == 1.0 for *_, each in hits)}
        by_span: defaultdict[tuple[int, int], set[int]] = defaultdict(set)
        for day, hits in self.dates.items():
            for start, end, _ in hits:
                by_span[start, end].add(day[0])
        return frozenset(sure | periods | {years.pop() for years in by_span.values() if len(years) == 1})

    @cached_property
    def periods(self) -> dict[dates.Period, list[tuple[int, int, float]]]:
        """Return the (start offset, end offset, certainty) of each printed month or quarter of a year, by period."""
        found: defaultdict[dates.Period, list[tuple[int, int, float]]] = defaultdict(list)
        for start, end, period, certainty in dates.find_periods(self.folded_stream.text):
            if self.are_read_together(start, end):
                found[period].append((start, end, certainty))
        return found

    @cached_property
    def times(self) -> list[tuple[int, int, tuple[dates.TimeOfDay, ...]]]:
        return list(dates.find_times(self.folded_stream.text))

    @cached_property
    def identifiers(self) -> list[tuple[int, int]]:
        """Return the first and last word of each account, card and telephone number that is printed in groups."""
        found: list[tuple[int, int]] = []
        for group in _GROUPED.finditer(self.folded_stream.text):
            words = self.folded_stream.span(*group.span()).word_indexes()
            if self.page_of[words[0]] == self.page_of[words[-1]] and all(
                self.are_close(at, at + 1) for at in range(words[0], words[-1])
            ):
                found.append((words[0], words[-1]))
        return found

    def is_part_of_identifier(self, first: int, last: int) -> bool:
        """Return whether words first..last are part, but not all, of an identifier printed in groups."""
        at = bisect_right(self.identifiers, (first, len(self.words))) - 1
        return at >= 0 and last <= self.identifiers[at][1] and (first, last) != self.identifiers[at]

    def are_read_together(self, start: int, end: int) -> bool:
        """Return whether the words of `folded_stream[start:end]` are on one page, without a wide gap (a column of a
        table) between two words of a line."""
        printed = self.folded_stream
        first, last = bisect_right(printed.starts, start) - 1, bisect_right(printed.starts, end - 1) - 1
        return self.page_of[first] == self.page_of[last] and all(
            not layout.on_same_line(self.words[at], self.words[at + 1])
            or layout.are_adjacent(self.words[at], self.words[at + 1], _MAX_GAP_TO_UNIT)
            for at in range(first, last)
        )

    def page_text(self, page: int) -> str:
        if page not in self._page_texts:
            own = self.words_of_page(page)
            self._page_texts[page] = " ".join(self.folded[own.start : own.stop])
        return self._page_texts[page]

    def heading_currencies(self, word: int) -> set[units.Codes]:
        """Return the currencies named by the nearest column heading above a word that names any."""
        named = [heading for heading in self._headings_above(word) if heading.currencies]
        return max(named, key=lambda heading: heading.box[4]).currencies if named else set()

    def heading_units(self, word: int) -> set[str]:
        """Return the units named by other cells of a word's line, else by the nearest column heading above it."""
        own = self.words[word]
        named = [heading for heading in self._headings_of(self.page_of[word]) if heading.units]
        beside = set[str]().union(*(heading.units for heading in named if layout.on_same_line(heading.box, own)))
        above = [heading for heading in self._headings_above(word) if heading.units]
        return beside or (max(above, key=lambda heading: heading.box[4]).units if above else set())

    def governing_units(self, word: int) -> set[str]:
        """Return the units of a word's heading, else those that its page names anywhere. Empty if the page's headings
        name several units, but none of them for this word."""
        page = self.page_of[word]
        if named := self.heading_units(word):
            return named
        if len(set[str]().union(*(heading.units for heading in self._headings_of(page)))) > 1:
            return set()
        if page not in self._units:
            self._units[page] = units.column_units(self.page_text(page))
        return self._units[page]

    def scale_of(self, word: int) -> int:
        """Return by how many places the decimal point of a number is shifted by the nearest heading above it that names
        a scale, or by a line such as `(in thousands)` on its page; 0 if none does."""
        page = self.page_of[word]
        named = [heading for heading in self._headings_above(word) if heading.scale]
        declared = self._declared_scales(page) if _SCALABLE.search(str(self.words[word][0])) else []
        above = [one for one in declared if one.box[2] < self.words[word][4]]
        if named:
            places = max(named, key=lambda heading: heading.box[4]).scale
        elif above:
            places = max(above, key=lambda one: one.box[2]).places
        else:
            places = next((one.places for one in declared if one.is_general), 0)
        return places if places and not self._is_unscaled(word) else 0

    def _is_unscaled(self, word: int) -> bool:
        """Return whether a number is not an amount of its page: a percentage, a count of something, a reference to a
        note or page, an amount per share, or the page's own number."""
        text = self.folded[word].strip(".,()")
        following = self.folded[word + 1].strip(".,;:()") if self.are_in_one_cell(word, word + 1) else ""
        preceding = self.folded[word - 1].strip(".,;:()") if word and self.are_in_one_cell(word - 1, word) else ""
        if "%" in text + following or preceding in _REFERENCES or "%" in self.heading_units(word):
            return True
        if following in _COUNTED:
            return True
        line = [at for at in self.words_beside(word, _MAX_WORDS_OF_LINE) if at != word]
        if _PER_SHARE.search(" ".join(self.folded[at] for at in line if at < word)):
            return True
        return text.isdigit() and len(text) <= _MAX_PAGE_DIGITS and not line and self._is_page_number(word)

    def _is_page_number(self, word: int) -> bool:
        """Return whether a word is in the upper or lower margin of its page, above or below all others."""
        own, page = self.words[word], self.words_of_page(self.page_of[word])
        others = [self.words[at] for at in page if at != word]
        return (own[4] < _MARGIN and all(other[2] >= own[4] for other in others)) or (
            own[2] > 1 - _MARGIN and all(other[4] <= own[2] for other in others)
        )

    def scales(self) -> set[int]:
        """Return the scales that headings and lines of the document name."""
        pages = range(len(self.pages))
        found = {heading.scale for page in pages for heading in self._headings_of(page)}
        return (found | {one.places for page in pages for one in self._declared_scales(page)}) - {0}

    def word_at(self, page: int, box: Box) -> int | None:
        """Return the first word of a page, by its number, whose middle is in a box."""
        if page not in self.pages:
            return None
        x0, y0, x1, y1 = box
        for at in self.words_of_page(self.pages.index(page)):
            _, left, top, right, bottom = self.words[at][:5]
            if x0 - 1e-4 <= (left + right) / 2 <= x1 + 1e-4 and y0 - 1e-4 <= (top + bottom) / 2 <= y1 + 1e-4:
                return at
        return None

    def _declared_scales(self, page: int) -> list[_DeclaredScale]:
        if page not in self._scales:
            own = self.words_of_page(page)
            starts = [*accumulate((len(self.folded[at]) + 1 for at in own), initial=0)]
            last = max((self.words[at][2] for at in own if _SCALABLE.search(str(self.words[at][0]))), default=0.0)
            found = [
                (self.words[own[bisect_right(starts, offset) - 1]], places, is_general)
                for offset, places, is_general in units.declared_scales(self.page_text(page))
            ]
            self._scales[page] = [
                _DeclaredScale(box, places, is_general or last < box[4]) for box, places, is_general in found
            ]
        return self._scales[page]

    def _headings_above(self, word: int) -> list[_Heading]:
        own = self.words[word]
        return [
            heading
            for heading in self._headings_of(self.page_of[word])
            if heading.box[4] <= own[4] and min(heading.box[3], own[3]) > max(heading.box[1], own[1])
        ]

    def _headings_of(self, page: int) -> list[_Heading]:
        if page not in self._headings:
            self._headings[page] = list(islice(self._find_headings(page), _MAX_HEADINGS))
        return self._headings[page]

    def _find_headings(self, page: int) -> Iterator[_Heading]:
        own, first = self.words_of_page(page), 0
        for at in own:
            first = at if at == own.start or not self.are_in_one_cell(at - 1, at) else first
            is_end = at + 1 == own.stop or not self.are_in_one_cell(at, at + 1)
            if is_end and at - first < _MAX_HEADING_WORDS:
                text = " ".join(self.folded[first : at + 1])
                if not any(map(str.isdigit, text.replace("000", ""))):
                    named = units.heading_currencies(text), units.column_units(text), units.heading_scale(text)
                    if any(named):
                        yield _Heading(layout.merge(self.words[first : at + 1]), *named)

    def currencies_on(self, page: int) -> set[units.Codes]:
        if page not in self._currencies:
            self._currencies[page] = units.currencies_in(self.page_text(page))
        return self._currencies[page]

    # Words, lines and pages.

    def are_close(self, first: int, second: int) -> bool:
        """Return whether two words are as close on one line as the groups of one number: `1 250,00`."""
        return layout.are_adjacent(self.words[first], self.words[second], _MAX_GAP_IN_NUMBER)

    def continues_below(self, first: int, second: int) -> bool:
        """Return whether a word starts the line below another word, in its column."""
        one, other = self.words[first], self.words[second]
        height = one[4] - one[2]
        is_below = 0 <= other[2] - one[4] + height / 2 <= 2 * height and other[1] < one[3]
        return is_below and self.page_of[first] == self.page_of[second] and not layout.on_same_line(one, other)

    def are_in_one_cell(self, first: int, second: int) -> bool:
        """Return whether only a space separates two words of one line."""
        return second < len(self.words) and layout.are_adjacent(self.words[first], self.words[second], layout.CELL_GAP)

    def cell_below(self, words: Sequence[int]) -> Sequence[int]:
        """Return the words of the cell directly below some words of a line, if there is one."""
        above = layout.merge([self.words[at] for at in words])
        height = above[4] - above[2]
        end = self.words_of_page(self.page_of[words[0]]).stop
        for at in range(words[-1] + 1, min(words[-1] + 1 + _MAX_WORDS_TO_CELL_BELOW, end)):
            word = self.words[at]
            is_under = word[1] < above[3] and above[1] < word[3] and 0 <= word[2] - above[4] + height / 2 <= 2 * height
            if is_under and not layout.on_same_line(above, word):
                last = at
                while last + 1 < end and self.are_in_one_cell(last, last + 1):
                    last += 1
                return range(at, last + 1)
        return ()

    def is_on_one_page(self, span: Span) -> bool:
        indexes = span.word_indexes()
        return self.page_of[indexes[0]] == self.page_of[indexes[-1]]

    def words_of_page(self, page: int) -> range:
        return range(self._firsts[page], self._firsts[page + 1] if page + 1 < len(self._firsts) else len(self.words))

    def line_of(self, word: int) -> tuple[int, int]:
        """Return the (page, line number) of a word."""
        page = self.page_of[word]
        if page not in self._lines:
            own = self.words_of_page(page)
            found = layout.group_lines(self.words, own.start, own.stop)
            self._lines[page] = {index: number for number, line in enumerate(found) for index in line}
        return page, self._lines[page][word]

    # Other reading orders.

    def most_likely_pages(self, value: str, min_share: float = 0.5) -> list[int]:
        """Return the pages that contain the most of a value's words, and at least this share of them. For a short
        document, return all pages."""
        if len(self.pages) <= MAX_REORDERED_PAGES:
            return list(range(len(self.pages)))
        counts: Counter[int] = Counter()
        tokens = {folding.fold_alphanumeric(token) for token in value.split()[:MAX_TOKENS]}
        for token in tokens:
            counts.update({self.page_of[index] for index in self.occurrences(token)})
        return [page for page, count in counts.most_common(MAX_REORDERED_PAGES) if count >= min_share * len(tokens)]

    def other_reading_orders(self, value: str) -> Iterator[TextStream]:
        """Yield the value's most likely pages in other reading orders: by column and, for right-to-left scripts, from
        the right."""
        for page in self.most_likely_pages(value):
            yield from self.reading_orders(page)[1:]

    def reading_orders(self, page: int) -> list[TextStream]:
        """Return one page in all its reading orders, the given order first. Empty for a page without words."""
        own = self.words_of_page(page)
        if own and page not in self._orders:
            orders = [own, layout.column_order(self.words, own.start, own.stop)]
            reverse = layout.right_to_left_order(self.words, own.start, own.stop)
            if reverse:
                orders.append(reverse)
            self._orders[page] = [
                TextStream.of(self.alphanumeric, list(order), folding.fold_alphanumeric) for order in orders
            ]
        return self._orders.get(page, [])


def _within_limits(texts: Sequence[str]) -> list[str]:
    left = MAX_CHARACTERS
    found: list[str] = []
    for text in texts:
        left -= len(text)
        found.append(text.replace("\n", " ") if len(text) <= MAX_WORD_CHARACTERS and left >= 0 else "")
    return found


def _find_all(text: str, part: str) -> Iterator[int]:
    at = text.find(part)
    for _ in range(MAX_MATCHES):
        if at < 0:
            return
        yield at
        at = text.find(part, at + len(part) - 1)
