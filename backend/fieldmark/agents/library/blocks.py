"""Blocks: the parts of a page that search results show and citations name. They depend only on the page's words, so
their numbers are stable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from valuegrounding import Word
from valuegrounding.layout import group_lines

MAX_CHARACTERS: Final = 700
_GAP: Final = 0.9
"""In heights of a line: where the gap above one is wider, a block begins."""


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive lines of a page: its words from `first` to before `end`. `text` is a single line."""

    number: int
    first: int
    end: int
    text: str


def text_blocks(words: Sequence[Word]) -> list[Block]:
    """Return the blocks of a page in reading order, numbered from 1. A block ends at a vertical gap and at
    MAX_CHARACTERS."""
    begins, size, bottom = [0], 0, 0.0
    for line in group_lines(words, 0, len(words)):
        top, low = min(words[at][2] for at in line), max(words[at][4] for at in line)
        height = low - top
        is_apart = top - bottom > _GAP * height or top < bottom - height
        length = sum(len(words[at][0]) + 1 for at in line)
        if size and (is_apart or size + length > MAX_CHARACTERS):
            begins.append(line[0])
            size = 0
        bottom = low
        for at in line:
            letters = len(words[at][0]) + 1
            if size and size + letters > MAX_CHARACTERS:
                begins.append(at)
                size = 0
            size += letters
    ends = [*begins[1:], len(words)]
    return [
        Block(number, first, end, _text(words[first:end]))
        for number, (first, end) in enumerate(zip(begins, ends, strict=True), 1)
        if end > first
    ]


def _text(words: Sequence[Word]) -> str:
    # All kinds of line break are removed, so a document's text can't start a line of its own in a prompt.
    return " ".join(" ".join(str(word[0]).split()) for word in words)
