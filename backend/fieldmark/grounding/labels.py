"""Labels: the words that a field's label is made of, and how near a value stands to a printed label."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from fieldmark.domain.folding import fold_alphanumeric
from fieldmark.grounding.layout import Word, on_same_line

_WORD_BREAK = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[\W_]+")
# In heights of the label's line: a value this far below its label is still under it.
_MAX_BELOW = 3.0


def label_words(path: Sequence[str | int]) -> list[tuple[str, ...]]:
    """The words of a path's last two keys, the last key first: `vendor.taxNumber` gives (tax, number), (vendor,)."""
    keys = [step for step in path if isinstance(step, str)][-2:]
    return [words for key in reversed(keys) if (words := _words(key))]


@lru_cache(maxsize=1024)
def _words(key: str) -> tuple[str, ...]:
    return tuple(folded for word in _WORD_BREAK.split(key) if (folded := fold_alphanumeric(word)))


def distance(label: Word, value: Word) -> tuple[int, float] | None:
    """How far a value is from a label on the same page; the smaller, the nearer.

    (0, …): right of the label on its line, or just below it. (1, …): further down in its column, or left of it on its
    line. None: anywhere else.
    """
    height = max(label[4] - label[2], 1e-6)
    if on_same_line(label, value):
        # Boxes are in parts of the page, so widths and heights cannot be compared. About two letters are a height.
        unit = max((label[3] - label[1]) * 2 / max(len(label[0]), 1), 1e-6)
        if value[1] >= label[3] - unit:
            return (0, max(value[1] - label[3], 0.0) / unit * 0.1)
        return (1, (label[1] - value[3]) / unit)
    below = (value[2] - label[4]) / height
    if below < -0.5 or min(label[3], value[3]) - max(label[1], value[1]) <= 0:
        return None
    return (0, below) if below <= _MAX_BELOW else (1, below)
