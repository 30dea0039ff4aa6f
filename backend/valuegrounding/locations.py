"""Turn a span of words into a location: the quote and the boxes of the characters that it covers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from valuegrounding import folding, layout
from valuegrounding.evidence import Location, Match
from valuegrounding.layout import ocr_confidence
from valuegrounding.page import Box
from valuegrounding.text_stream import Span
from valuegrounding.word_index import WordIndex

WordPart: TypeAlias = tuple[int, int, int]
"""Characters start..end-1 of a word, as it was given: (word, start, end)."""

_PART_OF_CELL_CERTAINTY = 0.98  # of a text that is followed or preceded by other text in its cell
_LEADING = re.compile(r"^[\W_]*")
_TRAILING = re.compile(r"[\W_]*$")


@dataclass(frozen=True, slots=True)
class Candidates:
    """All spans that match a value equally well."""

    match: Match
    spans: Sequence[Span]
    text: str = ""
    times: Mapping[Span, Span] | None = None  # for dates: the span of the time printed beside each
    certainty: float = 1.0  # below 1 if ambiguous, like 02/03/2024


def locate(index: WordIndex, candidates: Candidates, span: Span) -> Location:
    """Return the location of one of the candidates' spans."""
    text = candidates.text
    parts = word_parts(index, span, text)
    time = candidates.times.get(span) if candidates.times else None
    if time is not None and time.stream is span.stream and time.first == span.last:  # 2024-03-12T20:13
        both = Span(span.stream, span.first, time.last, span.start_in_word, time.end_in_word, span.first_word)
        parts = word_parts(index, both, text)
    elif time is not None:
        time_parts = word_parts(index, time, text)
        parts = parts + time_parts if time.first_word > span.first_word else time_parts + parts
    words = index.words
    quote = " ".join([words[at][0][start:end] for at, start, end in parts])
    match = "exact" if quote == text and candidates.match != "quote" else candidates.match
    of_ocr = (ocr_confidence(words[at]) for at, _, _ in parts)
    word_confidence = min((one for one in of_ocr if one is not None), default=1.0)
    boxes = boxes_of_parts(index, parts)
    page = index.pages[index.page_of[parts[0][0]]]
    certainty = candidates.certainty
    is_text = candidates.match in ("normalised", "fuzzy") and any(map(str.isalpha, text))
    if is_text and _is_only_part_of_cell(index, span):
        certainty *= _PART_OF_CELL_CERTAINTY
    return Location(page, boxes, quote, match, word_confidence, len(candidates.spans), certainty)


def _is_only_part_of_cell(index: WordIndex, span: Span) -> bool:
    """Return whether other words are directly before or after a span in its cell, without a colon or comma between."""
    indexes = sorted(span.word_indexes())
    return any(
        0 <= a < b < len(index.words)
        and index.line_of(a) == index.line_of(b)
        and index.folded[a][-1:] not in (":", ",")
        and index.are_in_one_cell(a, b)
        for a, b in ((indexes[0] - 1, indexes[0]), (indexes[-1], indexes[-1] + 1))
    )


def boxes_of_parts(index: WordIndex, parts: Sequence[WordPart]) -> tuple[Box, ...]:
    return layout.line_boxes([(index.words[at], start, end) for at, start, end in parts])


def covered_text(index: WordIndex, span: Span, text: str) -> str:
    """Return the characters that a span covers, without the spaces between words."""
    return "".join(index.words[at][0][start:end] for at, start, end in word_parts(index, span, text))


def word_parts(index: WordIndex, span: Span, text: str) -> list[WordPart]:
    """Return the part of each word that a span covers. Punctuation around the span is included only if the value's text
    has it too."""
    fold, words = span.stream.fold, index.words
    indexes = [at for at in span.word_indexes() if index.folded[at]]
    first, last = words[indexes[0]][0], words[indexes[-1]][0]
    if (fold is not folding.fold and first.isalnum() and first.isascii()) or not first:
        begin = span.start_in_word
    else:
        begin = folding.source_ranges(first, fold)[span.start_in_word][0]
    if (fold is not folding.fold and last.isalnum() and last.isascii()) or not last:
        end = span.end_in_word
    else:
        end = folding.source_ranges(last, fold)[span.end_in_word - 1][1]
    if fold is not folding.fold:
        if begin:
            begin -= _common_end(first[:begin], _match(_LEADING, text))
        if end < len(last):
            end += _common_start(last[end:], _match(_TRAILING, text))
    parts = [(at, 0, len(words[at][0])) for at in indexes]
    parts[0] = (parts[0][0], begin, parts[0][2])
    parts[-1] = (parts[-1][0], parts[-1][1], end)
    return parts


def _match(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return found[0] if found else ""


def _common_end(printed: str, text: str) -> int:
    return _common_start(printed[::-1], text[::-1])


def _common_start(printed: str, text: str) -> int:
    size = 0
    while size < min(len(printed), len(text)) and folding.fold(printed[size]) == folding.fold(text[size]):
        size += 1
    return size
