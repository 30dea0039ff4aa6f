"""TextSearch: find a text by its letters and digits: as written, in another reading order, or misread by OCR."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from itertools import chain, pairwise
from typing import Final

import regex

from valuegrounding import folding, fuzzy, layout, units
from valuegrounding.conventions import may_be_other_dollar
from valuegrounding.dates import DATE_AFTER, DATE_BEFORE
from valuegrounding.locations import Candidates
from valuegrounding.text_stream import BREAK, Span, TextStream
from valuegrounding.units import Agreement
from valuegrounding.word_index import MAX_MATCHES, MAX_REORDERED_PAGES, MAX_TOKENS, WordIndex

MAX_VALUE_CHARACTERS: Final = 20_000
_OTHER_DOLLAR_CERTAINTY: Final = 0.4  # of USD at `$` if a document hints at another country
_MAX_BLANK_WORDS: Final = 4  # between a text and the mark beside it
_MAX_MISSES: Final = 2_000  # rejected occurrences per value
_MAX_FUZZY_SEARCHES: Final = 2_000  # per document, since each takes milliseconds
_SIMILAR_CHARACTERS: Final = 100  # of a quote, used to find the most similar text

_MAX_SHORT_CHARACTERS: Final = 3  # texts this short occur inside many longer words
# From this many digits on, spaces and dashes between them are only formatting: IBANs, telephone numbers. A country
# code before them counts as digits.
_MIN_LONG_DIGITS: Final = 8
_MAX_SHORT_GROUP: Final = 4  # characters; two such groups on two lines are two numbers

_DIGITS = re.compile(r"(?:(?<![^\W_])[^\W\d_]{1,3})?\d(?:[^\w,;:]{0,3}\d)*")
_BETWEEN_DIGITS = re.compile(r"(?<=\d)[\W_]*(?=\d)")
# A rating's minus at the end of a text: AA is not AA-, nor is B1 B1-.
_RATING = re.compile(r"(?<![^\W_])[^\W\d_]{1,3}\d?-[^\w\s]*\Z")
# A minus before a number, or accounting brackets around one, within a text.
_MINUS = re.compile(r"(?<=\s)-(?=[$€£¥]?\d)|(?<=\s)\((?=[$€£¥]?\d[\d.,']*[.,]\d)")
# The unit or limit signs of a number. They matter as much as its digits.
_MARKS = re.compile(rf"[{units.SYMBOLS}%‰<>≤≥±]")
_SIGNS = re.compile(rf"[{units.SYMBOLS}]+")
_ADDRESS = re.compile(r"[^\s@]+@[^\s@]+\.[^\s@]+")
_YEARS = re.compile(r"(?:19|20)(?<![\d-]\d\d)\d\d\s?[-/]\s?(?:19|20)\d\d(?![\d-])")
_NUMBER_MARKS = frozenset(".,'·:")
_SEPARATORS = frozenset("*|~;=")  # between two digits these separate two tokens, as in EDI and text tables
_SHORT_PART = re.compile(r"[^\W\d_][^\W_]{0,2}(?![^\W_])")
_LETTERS_END = re.compile(r"[^\W\d_]{0,6}\Z")
_ALPHANUMERIC = regex.compile(r"[\p{L}\p{M}\p{N}]")
_INITIAL_POINT = re.compile(r"\.[^\W\d_]")
_MARK = regex.compile(r"\p{M}")


class TextSearch:
    def __init__(self, index: WordIndex) -> None:
        self._index = index
        self._fuzzy_searches_left = _MAX_FUZZY_SEARCHES
        self._quotes: dict[tuple[str, int | None], Candidates | None] = {}

    def find_quote(self, quote: str, page: int | None) -> Candidates | None:
        """Return the candidates for a quote on the page with this number, or on any page if that page has none."""
        # Cached, because each leaf of a list looks up the list's quote, and fuzzy searches are limited.
        if (quote, page) not in self._quotes:
            self._quotes[quote, page] = self._find_quote(quote, page)
        return self._quotes[quote, page]

    def _find_quote(self, quote: str, page: int | None) -> Candidates | None:
        index, found = self._index, self.find(quote)
        if found is None or page not in index.pages:
            return found
        page_index = index.pages.index(page)
        spans = [span for span in found.spans if index.page_of[span.first_word] == page_index]
        return replace(found, spans=spans) if spans else self.find(quote, page_index=page_index) or found

    def find(self, value: str, page_index: int | None = None) -> Candidates | None:
        """Return the candidates for a text in any reading order, or misread by OCR. `page_index` limits the search to
        one page."""
        index = self._index
        text = " ".join(value.split())
        found = self.find_in_reading_order(text) if page_index is None else None
        folded = _squeeze(folding.fold(text))
        needle = folding.alphanumeric(folded)
        if found or not needle:
            return found
        if page_index is None and (found := self._find_currency(folded, text)):
            return found
        # Another order has the same words, so all of them must be printed, unless one is hyphenated.
        if "-\n" in index.folded_stream.text or all(
            folding.alphanumeric(token) in index.alphanumeric_stream.text for token in folded.split()[:MAX_TOKENS]
        ):
            for stream in (
                index.other_reading_orders(folded) if page_index is None else index.reading_orders(page_index)
            ):
                spans = self._occurrences(stream, needle, folded)
                if spans:
                    return Candidates("normalised", spans, text)
        if not fuzzy.allowed_edits(needle) or not self._fuzzy_searches_left:
            return None
        self._fuzzy_searches_left -= 1
        everywhere = chain([index.alphanumeric_stream], index.other_reading_orders(folded))
        for stream in everywhere if page_index is None else index.reading_orders(page_index):
            hits = fuzzy.occurrences(needle, stream.text, stream.starts)
            spans = [
                span for a, b in hits if index.is_on_one_page(span := stream.span(a, b)) and self._is_from_ocr(span)
            ]
            if spans:
                return Candidates("fuzzy", spans[:MAX_MATCHES], text)
        return None

    def find_in_reading_order(self, text: str) -> Candidates | None:
        """Return the candidates for a text in the document's own reading order."""
        folded = _squeeze(folding.fold(text))
        needle = folding.alphanumeric(folded)
        if not needle or len(needle) > MAX_VALUE_CHARACTERS:
            return self._find_symbols(folded, text) if needle == "" and folded else None
        spans = self._occurrences(self._index.alphanumeric_stream, needle, folded)
        return Candidates("normalised", spans, text) if spans else None

    def most_similar(self, quote: str, page: int | None) -> Candidates | None:
        """Return the span most similar to a text, or None if more than half of the text differs everywhere. Without a
        page number, search the pages that share the most words with the text."""
        index = self._index
        needle = folding.fold_alphanumeric(quote[:MAX_VALUE_CHARACTERS])[:_SIMILAR_CHARACTERS]
        if not needle:
            return None
        page_indexes = [n for n, number in enumerate(index.pages) if page is None or number == page]
        if page is None and len(page_indexes) > MAX_REORDERED_PAGES:
            page_indexes = index.most_likely_pages(quote, min_share=0.0) or page_indexes[:MAX_REORDERED_PAGES]
        best: tuple[float, Span] | None = None
        for page_index in page_indexes:
            words = index.words_of_page(page_index)
            stream = TextStream.of(
                [index.alphanumeric[word] for word in words], range(len(words)), folding.fold_alphanumeric
            )
            found = fuzzy.most_similar(needle, stream.text, stream.starts)
            if found and (best is None or found[0] < best[0]):
                before = index.alphanumeric_stream.starts[words.start]
                best = (found[0], index.alphanumeric_stream.span(before + found[1], before + found[2]))
        return Candidates("fuzzy", [best[1]], quote) if best else None

    def _occurrences(self, stream: TextStream, needle: str, folded: str) -> list[Span]:
        index = self._index
        spans: list[Span] = []
        if len(needle) <= _MAX_SHORT_CHARACTERS and stream is index.alphanumeric_stream:
            for word in index.occurrences(needle):
                if index.alphanumeric[word] != needle:
                    continue
                span = Span(stream, word, word, 0, len(needle), word)
                if self._punctuation_agrees(span, folded, needle):
                    spans.append(span)
            if spans:
                return spans
        text, at, misses = stream.text, stream.text.find(needle), 0
        while at >= 0 and len(spans) < MAX_MATCHES and misses < _MAX_MISSES:
            span = stream.span(at, at + len(needle))
            if (
                self._covers_whole_tokens(span)
                and index.is_on_one_page(span)
                and self._punctuation_agrees(span, folded, needle)
            ):
                spans.append(span)
                at = text.find(needle, at + len(needle))
            else:
                misses += 1
                at = text.find(needle, at + 1)
        return spans

    def _covers_whole_tokens(self, span: Span) -> bool:
        index, order = self._index, span.stream.order
        if span.start_in_word and not _is_token_boundary(index.folded[order[span.first]], span.start_in_word):
            return False
        last = order[span.last]
        if span.end_in_word != len(index.alphanumeric[last]):
            return _is_token_boundary(index.folded[last], span.end_in_word)
        if self._is_hyphenated(order, span.last):
            return False
        return span.start_in_word > 0 or not self._is_hyphenated(order, span.first - 1)

    def _is_hyphenated(self, order: Sequence[int], at: int) -> bool:
        if not 0 <= at < len(order) - 1 or BREAK in (order[at], order[at + 1]):
            return False
        word, following = self._index.words[order[at]], self._index.words[order[at + 1]]
        return (
            self._index.folded[order[at]][-1:] == "-"
            and word[0][-2:-1].isalpha()
            and following[0][:1].islower()
            and not layout.on_same_line(word, following)
        )

    def _is_from_ocr(self, span: Span) -> bool:
        """Return whether all words of a span come from OCR. Text that was not read by OCR contains no misreadings."""
        return all(layout.ocr_confidence(self._index.words[word]) is not None for word in span.word_indexes())

    def _punctuation_agrees(self, span: Span, folded: str, needle: str) -> bool:
        """Return whether a span with the needle's letters and digits has the same meaning: 1.5 is not 15, and C++ is
        not C."""
        index, indexes = self._index, span.word_indexes()
        parts = [index.folded[word] for word in indexes]
        if span.end_in_word != len(index.alphanumeric[indexes[-1]]):
            parts[-1] = parts[-1][: _alphanumeric_at(parts[-1], span.end_in_word - 1) + 1]
        if span.start_in_word:
            parts[0] = parts[0][_alphanumeric_at(parts[0], span.start_in_word) :]
        printed = _squeeze(" ".join(parts))
        if printed == folded:
            return True
        if _plus_and_hash_suffixes(printed) != _plus_and_hash_suffixes(folded):
            return False
        if bool(_RATING.search(printed)) != bool(_RATING.search(folded)):
            return False
        if _ADDRESS.fullmatch(folded) and folded not in printed.replace(" ", ""):
            return False  # a-b@example.com is not ab@example.com
        if not _connectors_agree(printed, folded):
            return False
        if not any(map(str.isdigit, needle)):
            return True
        marks = _find_unit_and_limit_signs(folded)
        if marks and not any(
            marks == _find_unit_and_limit_signs(one) for one in self._with_marks_around(printed, span)
        ):
            return False
        if len(_MINUS.findall(printed)) != len(_MINUS.findall(folded)):
            return False
        if len(_YEARS.findall(printed)) != len(_YEARS.findall(folded)):
            return False  # 2024-2025 is not 20242025
        is_long, gaps = _gaps_in_long_runs(folded), _BETWEEN_DIGITS.findall(printed)
        is_decimal = sum(gap.strip() in _NUMBER_MARKS for gap in gaps) == 1
        for a, b, long in zip(_BETWEEN_DIGITS.findall(folded), gaps, is_long, strict=False):
            one, other = a.strip(), b.strip()
            if is_decimal and other in _NUMBER_MARKS and one not in _NUMBER_MARKS:
                return False  # 12.345678 is not 12-345678
            if a == b or (a and b and (one == other or long or _separator_kind(one) == _separator_kind(other))):
                continue
            if not long or (one in _NUMBER_MARKS if a else other in _NUMBER_MARKS):
                return False
            if b.isspace() and not self._continue_a_number(indexes):
                return False
        return True

    def _continue_a_number(self, words: Sequence[int]) -> bool:
        """Return whether words are close enough to be groups of one long number, which may be broken over two lines."""
        index = self._index
        breaks = [pair for pair in pairwise(words) if not index.are_close(*pair)]
        if not breaks:
            return True
        is_long = len(words) > 2 or len(index.alphanumeric[words[0]]) > _MAX_SHORT_GROUP
        return len(breaks) == 1 and is_long and index.continues_below(*breaks[0])

    def _with_marks_around(self, printed: str, span: Span) -> Iterator[str]:
        """Yield the printed text with the marks next to it on its page: `$ 5`, `5 %`. A currency sign between two
        numbers may belong to either, so the text is also yielded without it: `2 €` in `1 € 2 €`."""
        indexes = span.word_indexes()
        before, after = self._mark_beside(indexes[0], -1), self._mark_beside(indexes[-1], 1)
        yield before + printed + after
        if before and after:
            if _SIGNS.search(before):
                yield printed + after
            if _SIGNS.search(after):
                yield before + printed

    def _mark_beside(self, word: int, step: int) -> str:
        """Return the next word of the page in a direction, if it has a mark and no letters or digits. Words without any
        of these are skipped."""
        index, at = self._index, word + step
        while 0 <= at < len(index.words) and abs(at - word) < _MAX_BLANK_WORDS:
            if _MARKS.search(index.folded[at]) or _ALPHANUMERIC.search(index.folded[at]):
                break
            at += step
        if not (0 <= at < len(index.words) and index.page_of[at] == index.page_of[word]):
            return ""
        mark = index.folded[at].strip(" ")
        return "" if _ALPHANUMERIC.search(mark) else mark

    def _find_currency(self, folded: str, text: str) -> Candidates | None:
        """Return the candidates for a currency printed differently from the value: EUR at `€`. A symbol shared by
        several currencies matches only on pages that name none of the others."""
        codes = units.codes_of(folded)
        if codes is None or len(codes) > 1:
            return None
        printed = self._index.folded_stream
        for printing, how in units.currency_printings(codes).items():
            shared = how is Agreement.SHARED
            spans = [
                printed.span(*hit)
                for hit in units.find_currency(printing, printed.text)
                if not shared or not self._page_names_other_currency(codes, printing, hit[0])
            ][:MAX_MATCHES]
            if spans and shared:
                is_unclear = folded == "usd" and self._may_be_other_dollar
                return Candidates("symbol", spans, text, certainty=_OTHER_DOLLAR_CERTAINTY if is_unclear else 1.0)
            if spans:
                return Candidates("normalised", spans, text)
        return None

    @cached_property
    def _may_be_other_dollar(self) -> bool:
        return may_be_other_dollar(self._index.folded_stream.text)

    def _page_names_other_currency(self, codes: units.Codes, symbol: str, at: int) -> bool:
        index = self._index
        others = (units.codes_of(symbol) or frozenset[str]()) - codes
        page = index.page_of[index.folded_stream.span(at, at + 1).first_word]
        return any(named <= others for named in index.currencies_on(page))

    def _find_symbols(self, folded: str, text: str) -> Candidates | None:
        glued = regex.fullmatch(r"[\p{L}]*\p{Sc}", folded) is not None
        printed = self._index.folded_stream
        spans: list[Span] = []
        at = printed.text.find(folded)
        for _ in range(_MAX_MISSES):
            if at < 0 or len(spans) == MAX_MATCHES:
                break
            end = at + len(folded)
            around = printed.text[max(0, at - 1) : at] + printed.text[end : end + 1]
            if (not glued and not around.strip("\n ")) or (
                glued and not (folded[0].isalpha() and around[:1].isalpha())
            ):
                spans.append(printed.span(at, end))
            at = printed.text.find(folded, end)
        return Candidates("normalised", spans, text) if spans else None


@lru_cache(maxsize=256)
def _gaps_in_long_runs(folded: str) -> list[bool]:
    """Return for each gap between two digits whether both are part of one long number, such as an account number."""
    ends = [0] * len(folded)  # by character: the end of its long run of digits, or 0
    for run in _DIGITS.finditer(folded):
        if sum(map(str.isalnum, run[0])) >= _MIN_LONG_DIGITS:
            ends[run.start() : run.end()] = [run.end()] * len(run[0])
    return [ends[gap.start() - 1] > gap.end() for gap in _BETWEEN_DIGITS.finditer(folded)]


def _separator_kind(between: str) -> str:
    """Return the part of a separator between two digits that changes their meaning."""
    return between if between in (":", "/") else "number" if between in _NUMBER_MARKS else ""


def _connectors_agree(printed: str, folded: str) -> bool:
    """Return whether two texts with the same letters and digits have the same `&`, `/` and leading dot: R&D is not RD,
    N/A is not NA, and .NET is not NET."""
    if _INITIAL_POINT.match(printed) and not _INITIAL_POINT.match(folded):
        return False
    if _INITIAL_POINT.match(folded) and not _INITIAL_POINT.match(printed):
        return False
    if not ("&" in printed or "&" in folded or "/" in printed or "/" in folded):
        return True
    letters = _ALPHANUMERIC.findall(folded)
    gaps = zip(_ALPHANUMERIC.split(printed)[1:-1], _ALPHANUMERIC.split(folded)[1:-1], pairwise(letters), strict=False)
    for a, b, (before, after) in gaps:
        if ("&" in a) != ("&" in b):
            return False
        if not (before.isdigit() and after.isdigit()) and (("/" in a and not b) or ("/" in b and not a)):
            return False
    return True


def _alphanumeric_at(folded: str, number: int) -> int:
    return number if folded.isascii() and folded.isalnum() else _alphanumeric_offsets(folded)[number]


@lru_cache(maxsize=256)
def _alphanumeric_offsets(folded: str) -> list[int]:
    return [found.start() for found in _ALPHANUMERIC.finditer(folded)]


def _squeeze(folded: str) -> str:
    """Return a folded text without needless spaces, such as those that replace control characters."""
    return " ".join(filter(None, folded.split(" ")))


def _is_token_boundary(folded: str, number: int) -> bool:
    """Return whether a token starts at the letter or digit with this number in a folded word: at the 9 of `eur9.00`."""
    left, right = _alphanumeric_at(folded, number - 1), _alphanumeric_at(folded, number)
    a, between, b = folded[left], folded[left + 1 : right], folded[right]
    if folding.UNSPACED.match(a) or folding.UNSPACED.match(b):
        return not _MARK.match(b)
    if not between:
        # Only a currency may be glued to digits: "EUR9.00".
        if a.isdigit() == b.isdigit():
            return False
        letters = (
            re.match(r"[^\W\d_]*", folded[right : right + 6])
            if a.isdigit()
            else _LETTERS_END.search(folded, max(0, left - 5), left + 1)
        )
        return letters is not None and letters[0] in units.CURRENCY_LETTERS
    if between == "/" and (DATE_AFTER.match(folded, left + 1) or DATE_BEFORE.search(folded, 0, right)):
        return True
    if a.isdigit() and b.isdigit():
        return between in _SEPARATORS or (len(between) > 1 and not between.isspace())
    if between == "/" and a.isdigit() and (part := _SHORT_PART.match(folded, right)):
        return part[0] in units.GLUED_UNITS  # INV-001/A is not INV-001
    if between in ("-", "'", "@", "_", "&", "\\") or between == ".":
        return between == "." and not a.isdigit() and b.isdigit()
    return True


def _find_unit_and_limit_signs(text: str) -> list[str]:
    """Return the unit and limit signs of a text; `>=` is the sign ≥."""
    return _MARKS.findall(text.replace(">=", "≥").replace("<=", "≤"))


def _plus_and_hash_suffixes(text: str) -> list[str]:
    """Return the + and # after letters, as in C++, C# and B2+."""
    return re.findall(r"(?<=[^\W\d_])\d?[+#]+", text) if "+" in text or "#" in text else []
