"""How words lie on a page: which stand on one line, and in which other orders the page may be read."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, TypeAlias

from fieldmark.domain.folding import RIGHT_TO_LEFT
from fieldmark.grounding.strand import BREAK

Word: TypeAlias = Sequence[Any]  # text, x0, y0, x1, y1(, confidence)
Box: TypeAlias = tuple[float, float, float, float]

# In heights of the line: a gap wider than this ends a column's cell, a narrower one is a space within text.
_CELL_GAP = 1.2
_LINE_DISTANCE = 1.5
# In widths of a digit.
_WIDTHS = {
    **dict.fromkeys("'|", 0.35),
    **dict.fromkeys("ijl", 0.45),
    **dict.fromkeys(".,:;!()[]{}/\\-`tfI", 0.55),
    **dict.fromkeys("%@mwMW", 1.5),
}


def level(a: Word, b: Word) -> bool:
    """Whether two words stand on one line."""
    top, bottom, other_top, other_bottom = a[2], a[4], b[2], b[4]
    high, other_high = bottom - top, other_bottom - other_top
    shared = (bottom if bottom < other_bottom else other_bottom) - (top if top > other_top else other_top)
    return shared >= 0.5 * (high if high < other_high else other_high)


def upright(a: Word, b: Word) -> bool:
    """Whether two words follow each other in one column of vertical text."""
    return (
        min(a[3], b[3]) - max(a[1], b[1]) >= 0.5 * min(a[3] - a[1], b[3] - b[1])
        and a[4] - a[2] > a[3] - a[1]
        and b[4] - b[2] > b[3] - b[1]
        and len(a[0]) > 1
    )


def near(a: Word, b: Word, heights: float) -> bool:
    """Whether two words of a line are no further apart than so many of its heights. Boxes are in parts of the page, so
    a height is taken as the width of as many characters as make it; two characters are about as wide as high."""
    characters = max(1, len(a[0]) + len(b[0]))
    width = max(a[3] - a[1] + b[3] - b[1], 0.0) / characters
    gap = max(a[1], b[1]) - min(a[3], b[3])
    return level(a, b) and gap <= heights * 2 * width


def lines(words: Sequence[Word], first: int, last: int) -> list[list[int]]:
    """The words first..last-1, in reading order, by line."""
    found: list[list[int]] = []
    line: list[int] = []
    for index in range(first, last):
        if line and words[index][1] >= words[index - 1][1] and level(words[index - 1], words[index]):
            line.append(index)
        else:
            line = [index]
            found.append(line)
    return found


def by_columns(words: Sequence[Word], first: int, last: int) -> list[int]:
    """The words of a page column by column: each run of words goes on in the run right below it, if there is one."""
    runs: list[list[int]] = []
    for line in lines(words, first, last):
        for index in line:
            if index != line[0] and near(words[index - 1], words[index], _CELL_GAP):
                runs[-1].append(index)
            else:
                runs.append([index])
    order: list[int] = []
    open_runs: list[list[int]] = []  # chains whose last run may still be followed
    closed: list[list[int]] = []
    tails: list[Box] = []
    for run in runs:
        box = _around([words[index] for index in run])
        best, least = -1, 0.0
        for chain, tail in enumerate(tails):
            distance = box[1] - tail[3]
            height = min(box[3] - box[1], tail[3] - tail[1])
            shared = min(box[2], tail[2]) - max(box[0], tail[0])
            if -0.5 * height <= distance <= _LINE_DISTANCE * height and shared > 0:
                closeness = shared / max(box[2] - box[0], tail[2] - tail[0], 1e-9)
                if closeness > least:
                    best, least = chain, closeness
        if best < 0:
            open_runs.append(list(run))
            tails.append(box)
        else:
            open_runs[best] += run
            tails[best] = box
        # Runs come from the top down: what ended far above is not followed any more, which keeps this linear.
        if len(tails) > 64:
            keep = [
                n for n, tail in enumerate(tails) if box[1] - tail[3] <= 4 * max(tail[3] - tail[1], box[3] - box[1])
            ]
            keep = keep[-32:]
            kept = set(keep)
            closed += [chain for n, chain in enumerate(open_runs) if n not in kept]
            open_runs, tails = [open_runs[n] for n in keep], [tails[n] for n in keep]
    for chain in (*closed, *open_runs):
        order += [*chain, BREAK]
    return order


def from_the_right(words: Sequence[Word], first: int, last: int) -> list[int] | None:
    """The words of a page with every line read from right to left, or None if no word is written so."""
    if not any(RIGHT_TO_LEFT.search(word[0]) for word in words[first:last] if not word[0].isascii()):
        return None
    order: list[int] = []
    for line in lines(words, first, last):
        order += sorted(line, key=lambda index: -words[index][3])
    return order


def union(words: Sequence[Word]) -> Word:
    """Words as one."""
    return [" ".join(word[0] for word in words), *_around(words)]


def part(word: Word, start: int, end: int) -> Box:
    """The box of some characters of a word, by what characters of their kind are wide in most type."""
    text, x0, y0, x1, y1 = word[:5]
    size = len(text)
    if not size or (start <= 0 and end >= size):
        return (x0, y0, x1, y1)
    ends = list(accumulate(map(_width, text), initial=0.0))
    a, b = ends[start] / (ends[-1] or 1.0), ends[end] / (ends[-1] or 1.0)
    if y1 - y0 > 4 * (x1 - x0) and size > 1:  # vertical text
        return (x0, y0 + (y1 - y0) * a, x1, y0 + (y1 - y0) * b)
    if RIGHT_TO_LEFT.search(text):
        a, b = 1.0 - b, 1.0 - a
    return (x0 + (x1 - x0) * a, y0, x0 + (x1 - x0) * b, y1)


def _width(character: str) -> float:
    if character in _WIDTHS:
        return _WIDTHS[character]
    if character.isascii():
        return 1.0
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0.0
    return 2.0 if unicodedata.east_asian_width(character) in "WF" else 1.0


def _around(words: Sequence[Word]) -> Box:
    return (
        min(word[1] for word in words),
        min(word[2] for word in words),
        max(word[3] for word in words),
        max(word[4] for word in words),
    )
