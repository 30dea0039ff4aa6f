"""From spans to what is printed there: which characters of which words, their quote and their boxes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fieldmark.domain import folding
from fieldmark.grounding import layout
from fieldmark.grounding.evidence import Match, Place
from fieldmark.grounding.index import Index
from fieldmark.grounding.layout import Box, Word
from fieldmark.grounding.strand import Span

_LEADING = re.compile(r"^[\W_]*")
_TRAILING = re.compile(r"[\W_]*$")


@dataclass(frozen=True, slots=True)
class Candidates:
    """All places of a value that match equally well. `sought` is its text, for what punctuation belongs to it."""

    match: Match
    spans: Sequence[Span]
    sought: str = ""
    beside: Mapping[Span, Span] | None = None  # a date's time, where it is printed apart


def place(index: Index, candidates: Candidates, span: Span) -> Place:
    """What stands at one of the candidates' spans."""
    sought = candidates.sought
    pieces = _pieces(index, span, sought)
    beside = candidates.beside.get(span) if candidates.beside else None
    if beside is not None and beside.strand is span.strand and beside.first == span.last:  # 2024-03-12T20:13
        whole = Span(span.strand, span.first, beside.last, span.head, beside.tail, span.word)
        pieces = _pieces(index, whole, sought)
    elif beside is not None:
        apart = _pieces(index, beside, sought)
        pieces = pieces + apart if beside.word > span.word else apart + pieces
    words = index.words
    quote = " ".join([words[at][0][start:end] for at, start, end in pieces])
    match = "exact" if quote == sought and candidates.match != "quote" else candidates.match
    sure = min([words[at][5] for at, _, _ in pieces if len(words[at]) > 5], default=1.0)
    boxes = _line_boxes([(words[at], start, end) for at, start, end in pieces])
    return Place(index.pages[index.page_of[pieces[0][0]]], boxes, quote, match, sure, len(candidates.spans))


def covered(index: Index, span: Span, sought: str) -> str:
    """The characters under a span, without the spaces between words."""
    return "".join(index.words[at][0][start:end] for at, start, end in _pieces(index, span, sought))


def _pieces(index: Index, span: Span, sought: str) -> list[tuple[int, int, int]]:
    """The words under a span as (word, first character, after the last); of the punctuation around the text only what
    was sought too."""
    fold, words = span.strand.fold, index.words
    indexes = [at for at in span.indexes() if index.plain[at]]
    first, last = words[indexes[0]][0], words[indexes[-1]][0]
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
    pieces = [(at, 0, len(words[at][0])) for at in indexes]
    pieces[0] = (pieces[0][0], begin, pieces[0][2])
    pieces[-1] = (pieces[-1][0], pieces[-1][1], end)
    return pieces


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
