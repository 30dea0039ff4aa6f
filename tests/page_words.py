"""Page words with boxes, laid out from plain text in a fixed-width font."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pagewords import Page, Word
from valuegrounding import DocumentIndex, PageWords

PITCH = 0.01
LINE = 0.03
HEIGHT = 0.02


def words_of(text: str, confidence: float | None = None) -> list[list[Any]]:
    """Return the words of `text` with their boxes. Each character is PITCH wide."""
    return [
        [
            found[0],
            round(0.01 + found.start() * PITCH, 5),
            round(0.02 + row * LINE, 5),
            round(0.01 + found.end() * PITCH, 5),
            round(0.02 + row * LINE + HEIGHT, 5),
            *([] if confidence is None else [confidence]),
        ]
        for row, line in enumerate(text.split("\n"))
        for found in re.finditer(r"\S+", line)
    ]


def text_page(number: int, text: str, engine: str = "text") -> Page:
    return Page(number, 600, 800, text, [Word(*word) for word in words_of(text)], engine)


def document_index(*pages: str, confidence: float | None = None) -> DocumentIndex:
    return DocumentIndex(PageWords(number, words_of(page, confidence)) for number, page in enumerate(pages, 1))


def index_of_lines(*lines: Sequence[tuple[str, float]]) -> DocumentIndex:
    """Return the index of one page. Each line is a list of (word, left edge)."""
    return DocumentIndex(
        [
            PageWords(
                1,
                [
                    [word, x, 0.02 + row * LINE, x + len(word) * PITCH, 0.02 + row * LINE + HEIGHT]
                    for row, line in enumerate(lines)
                    for word, x in line
                ],
            )
        ]
    )
