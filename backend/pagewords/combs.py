"""Join the characters of a form that has a cell for each character."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from math import inf

from pagewords.pages import PlacedWord

MIN_CELLS = 3
MAX_PITCH = 1.8  # of a character's height: the cells of a table are wider
_PITCHES = (0.6, 1.4)  # of the first pitch in a row of cells

Box = tuple[float, float, float, float]
HasDivider = Callable[[float, float, float, float], bool]
"""Returns whether a vertical line is drawn within a box."""


def join_cells(words: Sequence[PlacedWord], has_divider: HasDivider, fields: Sequence[Box] = ()) -> list[PlacedWord]:
    """Return the words of upright lines, with each row of cells as one word. Cells are equally wide, and have a line
    between them; punctuation may be drawn between two rows. `fields` are form fields with a cell for each character,
    which may have no lines."""
    single = [word for word in words if len(word.text) == 1]
    joined: list[list[PlacedWord]] = []
    for field in fields:
        inside = [word for word in single if _is_inside(word, field)]
        joined += [row for line in _lines(inside) for row in _rows(line, inf) if len(row) > 1]
    in_fields = {id(word) for row in joined for word in row}
    for line in _lines([word for word in single if id(word) not in in_fields]):
        # A date may have two cells for the day, two for the month, and two for the year.
        cells = [row for row in _rows(line, MAX_PITCH) if len(row) > 1 and _are_cells(row, has_divider)]
        if sum(word.text.isalnum() for row in cells for word in row) >= MIN_CELLS:
            joined += cells
    parts = {id(word) for row in joined for word in row}
    return [word for word in words if id(word) not in parts] + list(map(_join, joined))


def _is_inside(word: PlacedWord, box: Box) -> bool:
    x, y = _middle(word), (word.y0 + word.y1) / 2
    return min(box[0], box[2]) <= x <= max(box[0], box[2]) and min(box[1], box[3]) <= y <= max(box[1], box[3])


def _lines(single: Sequence[PlacedWord]) -> list[list[PlacedWord]]:
    lines: list[list[PlacedWord]] = []
    for word in sorted(single, key=lambda word: word.y0 + word.y1):
        if lines and abs(word.y1 - lines[-1][-1].y1) < 0.3 * (word.y1 - word.y0):
            lines[-1].append(word)
        else:
            lines.append([word])
    return lines


def _rows(line: Sequence[PlacedWord], max_pitch: float) -> Iterator[list[PlacedWord]]:
    """Yield the rows of equally distant characters."""
    row: list[PlacedWord] = []
    for word in sorted(line, key=lambda word: word.x0):
        if row and not _is_next(row, word, max_pitch):
            yield row
            row = []
        row.append(word)
    if row:
        yield row


def _is_next(row: Sequence[PlacedWord], word: PlacedWord, max_pitch: float) -> bool:
    pitch = _middle(word) - _middle(row[-1])
    if not 0 < pitch <= max_pitch * (word.y1 - word.y0):
        return False
    first = _middle(row[1]) - _middle(row[0]) if len(row) > 1 else pitch
    return _PITCHES[0] * first <= pitch <= _PITCHES[1] * first


def _are_cells(row: Sequence[PlacedWord], has_divider: HasDivider) -> bool:
    first, last = row[0], row[-1]
    top, bottom = first.y0 + 0.8 * (first.y1 - first.y0), first.y1 - 0.1 * (first.y1 - first.y0)
    pitch = _middle(row[1]) - _middle(first)
    spans = [(left.x1, right.x0) for left, right in pairwise(row)]
    spans += [(_middle(first) - 0.8 * pitch, first.x0), (last.x1, _middle(last) + 0.8 * pitch)]
    return all(has_divider(left, top, right, bottom) for left, right in spans)


def _middle(word: PlacedWord) -> float:
    return (word.x0 + word.x1) / 2


def _join(row: Sequence[PlacedWord]) -> PlacedWord:
    text = "".join(word.text for word in row)
    return PlacedWord(text, row[0].x0, min(word.y0 for word in row), row[-1].x1, max(word.y1 for word in row))
