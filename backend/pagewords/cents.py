"""Restore the decimal point in forms with a ruled line before the cents, which OCR does not read:
1854┊67 is 1854.67."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import Any, Final

from pagewords.pages import PlacedWord

_MIN_AMOUNTS: Final = 3  # in a column: fewer may be crossed by an unrelated line
# Range of the line's position, in digit widths left of the amounts' right edge. It may touch the digit before it.
_LINE_LEFT, _LINE_RIGHT = 2.8, 1.6
_CONTRAST: Final = 12.0  # of 255: a dotted line is half paper
_MARGIN: Final = 0.22  # of a line's height
_MAX_GAP: Final = 3.0  # heights of a line between two amounts
_MAX_CONFIDENCE: Final = 0.9  # of an amount with a restored decimal point


def restore_decimal_points(words: Sequence[PlacedWord], grey: Any) -> list[PlacedWord]:
    """Return the words with a decimal point in amounts that a vertical line crosses before their last two digits.
    `grey` is the image as an array of grey levels; the word boxes are in its pixels."""
    found = list(words)
    amounts = [index for index, word in enumerate(words) if len(word.text) > 2 and word.text.isdecimal()]
    while amounts:
        anchor = words[amounts[0]]
        width = (anchor.x1 - anchor.x0) / len(anchor.text)
        column = [index for index in amounts if abs(words[index].x1 - anchor.x1) < 0.7 * width]
        amounts = [index for index in amounts if index not in column]
        if len(column) >= _MIN_AMOUNTS and _has_line([words[index] for index in column], grey):
            for index in column:
                text, confidence = words[index].text, min(_MAX_CONFIDENCE, words[index].confidence or 0.0)
                found[index] = words[index]._replace(text=f"{text[:-2]}.{text[-2:]}", confidence=confidence)
    return found


def _has_line(column: Sequence[PlacedWord], grey: Any) -> bool:
    """Return whether a vertical line runs between all rows of a column. A line over the whole page, such as a scanner
    streak, does not count."""
    rows = sorted(column, key=lambda word: word.y0)
    right = median(word.x1 for word in rows)
    digit = median((word.x1 - word.x0) / len(word.text) for word in rows)
    line = median(word.y1 - word.y0 for word in rows)
    left, end = int(right - (_LINE_LEFT + 1.5) * digit), int(right - (_LINE_RIGHT - 1.0) * digit)
    # The boxes of words are larger than their ink.
    gaps = [(int(a.y1 - _MARGIN * line), int(b.y0 + _MARGIN * line) + 1) for a, b in pairwise(rows)]
    if left < 0 or any(bottom - top < 3 or bottom - top > _MAX_GAP * line for top, bottom in gaps):
        return False
    darkness = [_darkness(grey[top:bottom, left:end]) for top, bottom in gaps]
    means = [sum(values) / len(gaps) for values in zip(*darkness, strict=True)]
    index = max(range(len(means)), key=means.__getitem__)
    is_before_cents = right - _LINE_LEFT * digit <= left + index <= right - _LINE_RIGHT * digit
    is_throughout = all(max(levels[max(0, index - 1) : index + 2]) >= _CONTRAST for levels in darkness)
    beyond = grey[: max(0, int(rows[0].y0 - 4 * line)), left:end], grey[int(rows[-1].y1 + 4 * line) :, left:end]
    on_page = [_darkness(part)[index] > 0.5 * means[index] for part in beyond if len(part) > 2]
    is_streak = bool(on_page) and all(on_page)
    return is_before_cents and is_throughout and not is_streak


def _darkness(rows: Any) -> list[float]:
    means = [float(value) for value in rows.mean(axis=0)]
    paper = median(means)
    return [paper - value for value in means]
