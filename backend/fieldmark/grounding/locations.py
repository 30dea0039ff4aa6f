"""Places: the quote and the boxes of a span, by the characters of the words that it covers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from fieldmark.domain import folding
from fieldmark.grounding import layout
from fieldmark.grounding.evidence import Location, Match
from fieldmark.grounding.layout import Box, Word
from fieldmark.grounding.text_stream import Span
from fieldmark.grounding.word_index import WordIndex

WordPart: TypeAlias = tuple[int, int, int]
"""Characters start..end-1 of a word, as it was given: (word, start, end)."""

_PART_OF_CELL = 0.98  # how surely a text is whole that others continue
_LEADING = re.compile(r"^[\W_]*")
_TRAILING = re.compile(r"[\W_]*$")


@dataclass(frozen=True, slots=True)
class Candidates:
    """All spans that match a value equally well. `wanted` is its text, which says what punctuation belongs to it."""

    match: Match
    spans: Sequence[Span]
    wanted: str = ""
    times: Mapping[Span, Span] | None = None  # of dates: the span of the time that is printed beside each
    certainty: float = 1.0  # below 1 where what is printed may mean something else, as 02/03/2024 may


def locate(index: WordIndex, candidates: Candidates, span: Span) -> Location:
    """The place of one of the candidates' spans."""
    wanted = candidates.wanted
    pieces = word_parts(index, span, wanted)
    time = candidates.times.get(span) if candidates.times else None
    if time is not None and time.stream is span.stream and time.first == span.last:  # 2024-03-12T20:13
        both = Span(span.stream, span.first, time.last, span.start_in_word, time.end_in_word, span.word)
        pieces = word_parts(index, both, wanted)
    elif time is not None:
        of_time = word_parts(index, time, wanted)
        pieces = pieces + of_time if time.word > span.word else of_time + pieces
    words = index.words
    quote = " ".join([words[at][0][start:end] for at, start, end in pieces])
    match = "exact" if quote == wanted and candidates.match != "quote" else candidates.match
    word_confidence = min([words[at][5] for at, _, _ in pieces if len(words[at]) > 5], default=1.0)
    boxes = boxes_of_parts(index, pieces)
    page = index.pages[index.page_of[pieces[0][0]]]
    certainty = candidates.certainty
    is_text = candidates.match in ("normalised", "fuzzy") and any(map(str.isalpha, wanted))
    if is_text and _is_part_of_cell(index, span):
        certainty *= _PART_OF_CELL
    return Location(page, boxes, quote, match, word_confidence, len(candidates.spans), certainty)


def _is_part_of_cell(index: WordIndex, span: Span) -> bool:
    """Whether other words are directly before or behind a text, and no colon, comma or other line is between."""
    indexes = sorted(span.indexes())
    return any(
        0 <= a < b < len(index.words)
        and index.line_of(a) == index.line_of(b)
        and index.folded[a][-1:] not in (":", ",")
        and index.are_in_one_cell(a, b)
        for a, b in ((indexes[0] - 1, indexes[0]), (indexes[-1], indexes[-1] + 1))
    )


def boxes_of(words: Sequence[Word]) -> tuple[Box, ...]:
    """One box for each line of some words that follow each other."""
    return _line_boxes([(word, 0, len(word[0])) for word in words])


def boxes_of_parts(index: WordIndex, pieces: Sequence[WordPart]) -> tuple[Box, ...]:
    """One box for each line that the pieces are on."""
    return _line_boxes([(index.words[at], start, end) for at, start, end in pieces])


def covered(index: WordIndex, span: Span, wanted: str) -> str:
    """The characters that a span covers, without the spaces between words."""
    return "".join(index.words[at][0][start:end] for at, start, end in word_parts(index, span, wanted))


def word_parts(index: WordIndex, span: Span, wanted: str) -> list[WordPart]:
    """The (word, start, end) of the characters that a span covers. Punctuation around them is included only where the
    wanted text has it too."""
    fold, words = span.stream.fold, index.words
    indexes = [at for at in span.indexes() if index.folded[at]]
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
            begin -= _common_end(first[:begin], _match(_LEADING, wanted))
        if end < len(last):
            end += _common_start(last[end:], _match(_TRAILING, wanted))
    pieces = [(at, 0, len(words[at][0])) for at in indexes]
    pieces[0] = (pieces[0][0], begin, pieces[0][2])
    pieces[-1] = (pieces[-1][0], pieces[-1][1], end)
    return pieces


def _match(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return found[0] if found else ""


def _common_end(printed: str, wanted: str) -> int:
    return _common_start(printed[::-1], wanted[::-1])


def _common_start(printed: str, wanted: str) -> int:
    size = 0
    while size < min(len(printed), len(wanted)) and folding.fold(printed[size]) == folding.fold(wanted[size]):
        size += 1
    return size


def _line_boxes(pieces: Sequence[tuple[Word, int, int]]) -> tuple[Box, ...]:
    boxes: list[Box] = []
    previous: Word | None = None
    for word, start, end in pieces:
        x0, y0, x1, y1 = word[1:5] if start == 0 and end == len(word[0]) else layout.part_box(word, start, end)
        if previous is not None and (
            layout.on_same_line(previous, word) or layout.in_same_vertical_line(previous, word)
        ):
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
