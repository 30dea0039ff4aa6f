"""Restore the decimal point in forms with a ruled line before the cents, which OCR does not read:
1854┊67 is 1854.67."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import Any, Final

from fieldmark.documents.reading.pages import PlacedWord

_MIN_AMOUNTS: Final = 3  # in a column: fewer may be crossed by any line
# Where the line may be, in widths of a digit from the right edge of the amounts: it may touch the digit before it.
_FROM, _TO = 2.8, 1.6
_CONTRAST: Final = 12.0  # of 255: a dotted line is half paper
_MARGIN: Final = 0.22  # of a line's height
_MAX_GAP: Final = 3.0  # heights of a line between two amounts
_MAX_CONFIDENCE: Final = 0.9  # maximum confidence of such an amount


def with_cents(words: Sequence[PlacedWord], grey: Any) -> list[PlacedWord]:
    """Return the words, with a decimal point in amounts that a line crosses before their last two digits.

    `grey` is the image as an array of grey levels; the word boxes are in its pixels.
    """
    found = list(words)
    amounts = [index for index, word in enumerate(words) if len(word.text) > 2 and word.text.isdecimal()]
    while amounts:
        last = words[amounts[0]]
        width = (last.x1 - last.x0) / len(last.text)
        column = [index for index in amounts if abs(words[index].x1 - last.x1) < 0.7 * width]
        amounts = [index for index in amounts if index not in column]
        if len(column) >= _MIN_AMOUNTS and _has_line([words[index] for index in column], grey):
            for index in column:
                text, sure = words[index].text, min(_MAX_CONFIDENCE, words[index].confidence or 0.0)
                found[index] = words[index]._replace(text=f"{text[:-2]}.{text[-2:]}", confidence=sure)
    return found


def _has_line(column: Sequence[PlacedWord], grey: Any) -> bool:
    """Return whether a vertical line runs between all rows of a column, but not over the whole page like a scanner
    streak."""
    rows = sorted(column, key=lambda word: word.y0)
    right = median(word.x1 for word in rows)
    digit = median((word.x1 - word.x0) / len(word.text) for word in rows)
    line = median(word.y1 - word.y0 for word in rows)
    left, end = int(right - (_FROM + 1.5) * digit), int(right - (_TO - 1.0) * digit)
    # The boxes of words are larger than their ink.
    gaps = [(int(a.y1 - _MARGIN * line), int(b.y0 + _MARGIN * line) + 1) for a, b in pairwise(rows)]
    if left < 0 or any(bottom - top < 3 or bottom - top > _MAX_GAP * line for top, bottom in gaps):
        return False
    darkness = [_darkness(grey[top:bottom, left:end]) for top, bottom in gaps]
    means = [sum(of_column) / len(gaps) for of_column in zip(*darkness, strict=True)]
    at = max(range(len(means)), key=means.__getitem__)
    is_before_cents = right - _FROM * digit <= left + at <= right - _TO * digit
    is_throughout = all(max(one[max(0, at - 1) : at + 2]) >= _CONTRAST for one in darkness)
    beyond = grey[: max(0, int(rows[0].y0 - 4 * line)), left:end], grey[int(rows[-1].y1 + 4 * line) :, left:end]
    on_page = [_darkness(part)[at] > 0.5 * means[at] for part in beyond if len(part) > 2]
    is_streak = bool(on_page) and all(on_page)
    return is_before_cents and is_throughout and not is_streak


def _darkness(rows: Any) -> list[float]:
    means = [float(value) for value in rows.mean(axis=0)]
    paper = median(means)
    return [paper - value for value in means]
