"""The layout of words on a page: lines, boxes of parts of words, and alternative reading orders."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from valuegrounding.folding import RIGHT_TO_LEFT
from valuegrounding.page import Box, Word
from valuegrounding.text_stream import BREAK

# In line heights: a wider gap separates two cells; a narrower one is a space within text.
CELL_GAP: Final = 1.05
_LINE_DISTANCE = 1.5
# Typical character widths, relative to a digit.
_WIDTHS = {
    **dict.fromkeys("'|", 0.35),
    **dict.fromkeys("ijl", 0.45),
    **dict.fromkeys(".,:;!()[]{}/\\-`tfI", 0.55),
    **dict.fromkeys("%@mwMW", 1.5),
}


def ocr_confidence(word: Word) -> float | None:
    """Return the confidence of a word that OCR read, else None."""
    return word[5] if len(word) > 5 else None


def on_same_line(a: Word, b: Word) -> bool:
    """Return whether two words are on one line: they share at least half of the smaller height."""
    top, bottom, other_top, other_bottom = a[2], a[4], b[2], b[4]
    high, other_high = bottom - top, other_bottom - other_top
    shared = (bottom if bottom < other_bottom else other_bottom) - (top if top > other_top else other_top)
    return shared >= 0.5 * (high if high < other_high else other_high)


def in_same_vertical_line(a: Word, b: Word) -> bool:
    """Return whether two words are on one line of vertical text."""
    return (
        min(a[3], b[3]) - max(a[1], b[1]) >= 0.5 * min(a[3] - a[1], b[3] - b[1])
        and a[4] - a[2] > a[3] - a[1]
        and b[4] - b[2] > b[3] - b[1]
        and len(a[0]) > 1
    )


def are_adjacent(a: Word, b: Word, heights: float) -> bool:
    """Return whether two words are on one line with a gap of at most this many line heights.

    Boxes are fractions of the page, so widths and heights cannot be compared. The width of two characters is taken as
    the height of the line.
    """
    characters = max(1, len(a[0]) + len(b[0]))
    width = max(a[3] - a[1] + b[3] - b[1], 0.0) / characters
    gap = max(a[1], b[1]) - min(a[3], b[3])
    return on_same_line(a, b) and gap <= heights * 2 * width


def group_lines(words: Sequence[Word], first: int, last: int) -> list[list[int]]:
    """Return the indexes first..last-1, grouped by line. The words must be in reading order."""
    found: list[list[int]] = []
    line: list[int] = []
    runs_left = False  # whether the line has a word in a right-to-left script
    for index in range(first, last):
        word = words[index]
        is_right_to_left = not word[0].isascii() and RIGHT_TO_LEFT.search(word[0]) is not None
        is_onward = line and (runs_left or is_right_to_left or word[1] >= words[index - 1][1])
        if is_onward and on_same_line(words[index - 1], word):
            line.append(index)
            runs_left |= is_right_to_left
        else:
            line, runs_left = [index], is_right_to_left
            found.append(line)
    return found


def column_order(words: Sequence[Word], first: int, last: int) -> list[int]:
    """Return the indexes first..last-1, column by column, with a BREAK after each column.

    Words without a wide gap between them form a run. A run continues in the run directly below it, if there is one.
    """
    runs: list[list[int]] = []
    for line in group_lines(words, first, last):
        for index in line:
            if index != line[0] and are_adjacent(words[index - 1], words[index], CELL_GAP):
                runs[-1].append(index)
            else:
                runs.append([index])
    order: list[int] = []
    open_runs: list[list[int]] = []  # chains whose last run may still continue
    closed: list[list[int]] = []
    tails: list[Box] = []
    for run in runs:
        box = _bounding_box([words[index] for index in run])
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
        # Runs come from top to bottom. Chains that ended far above are closed, which keeps the time linear.
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


def right_to_left_order(words: Sequence[Word], first: int, last: int) -> list[int] | None:
    """Return the indexes first..last-1 with every line from right to left, or None if no word is in such a script."""
    if not any(RIGHT_TO_LEFT.search(word[0]) for word in words[first:last] if not word[0].isascii()):
        return None
    order: list[int] = []
    for line in group_lines(words, first, last):
        order += sorted(line, key=lambda index: -words[index][3])
    return order


def merge(words: Sequence[Word]) -> Word:
    """Return several words as one, with a box around them."""
    return [" ".join(word[0] for word in words), *_bounding_box(words)]


def part_box(word: Word, start: int, end: int) -> Box:
    """Return the box of the characters start..end-1 of a word, estimated from typical character widths."""
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


def boxes_of(words: Sequence[Word]) -> tuple[Box, ...]:
    """Return one box for each line of consecutive words."""
    return line_boxes([(word, 0, len(word[0])) for word in words])


def line_boxes(parts: Sequence[tuple[Word, int, int]]) -> tuple[Box, ...]:
    boxes: list[Box] = []
    previous: Word | None = None
    for word, start, end in parts:
        x0, y0, x1, y1 = word[1:5] if start == 0 and end == len(word[0]) else part_box(word, start, end)
        if previous is not None and (on_same_line(previous, word) or in_same_vertical_line(previous, word)):
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


def _width(character: str) -> float:
    if character in _WIDTHS:
        return _WIDTHS[character]
    if character.isascii():
        return 1.0
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0.0
    return 2.0 if unicodedata.east_asian_width(character) in "WF" else 1.0


def _bounding_box(words: Sequence[Word]) -> Box:
    return (
        min(word[1] for word in words),
        min(word[2] for word in words),
        max(word[3] for word in words),
        max(word[4] for word in words),
    )
