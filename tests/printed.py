"""Pages of words as a reader would give them, laid out from text in a fixed pitch."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from fieldmark.grounding import DocumentIndex, PageWords

PITCH = 0.01
LINE = 0.03
HEIGHT = 0.02


def words_of(text: str, confidence: float | None = None) -> list[list[Any]]:
    """The words of some lines, each character PITCH wide."""
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


def document_index(*pages: str, confidence: float | None = None) -> DocumentIndex:
    return DocumentIndex(PageWords(number, words_of(page, confidence)) for number, page in enumerate(pages, 1))


def laid_out(*lines: Sequence[tuple[str, float]]) -> DocumentIndex:
    """One page of (word, left edge) by line."""
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
