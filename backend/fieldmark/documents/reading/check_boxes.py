"""Find the check boxes and radio buttons drawn on a PDF page, and whether they are ticked."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from math import cos, pi, sin
from typing import Any, NamedTuple

from PIL import Image

Box = tuple[float, float, float, float]

SIDES = (5.0, 21.0)  # points, including the outline
MAX_OUTLINES = 500  # a page with more is a drawing
BESIDE = 1.6  # maximum distance of the label, relative to the box's side
TICK_GLYPHS = frozenset("xX×✓✔✕✖✗✘☑☒✅\uf0fb\uf0fc\uf0fd\uf0fe\u2022●■")
_SYMBOLS = {"¨": "☐", "o": "☐", "q": "☐", "ý": "☒", "þ": "☒"}
_SYMBOLS_2 = {"£": "☐", "R": "☒", "S": "☒", "T": "☒"}
SYMBOLS = {
    code: {"wingdings": _SYMBOLS.get(glyph, code), "wingdings2": _SYMBOLS_2.get(glyph, code)}
    for glyph in {**_SYMBOLS, **_SYMBOLS_2}
    for code in (glyph, chr(0xF000 + ord(glyph)))
}
"""What the characters of two fonts show, by the font's name: boxes to tick."""
_CONTRAST = 32  # of 255 levels, between a line and the paper
_OUTLINED = 0.85  # of an outline that must be seen
_INSET = 0.25  # of a side: where the inside of a box begins
_MARKED = (0.03, 0.65)  # share of the inside that a mark covers
_STEPS = range(1, 10)


class CheckBox(NamedTuple):
    """A check box, in points. `is_ticked` is None if only the page's picture can show it."""

    box: Box
    is_round: bool
    is_ticked: bool | None

    @property
    def text(self) -> str:
        return ("○●" if self.is_round else "☐☒")[bool(self.is_ticked)]

    def holds(self, box: Box) -> bool:
        """Return whether the centre of another box is in this one."""
        x, y = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
        return self.box[0] <= x <= self.box[2] and self.box[1] <= y <= self.box[3]


def is_candidate(box: Box) -> bool:
    """Return whether the box around a path has the shape and size of a check box."""
    across, down = box[2] - box[0], box[3] - box[1]
    return SIDES[0] <= across <= SIDES[1] and SIDES[0] <= down <= SIDES[1] and 0.8 <= across / down <= 1.25


def beside_words(outlines: Sequence[Box], words: Sequence[Box]) -> list[Box]:
    """Return the distinct outlines that have a word beside them. A row of outlines is excluded: it is for writing
    letters into."""
    found: list[Box] = []
    outlines = sorted(outlines, key=lambda box: (box[0] - box[2]) * (box[3] - box[1]))[:MAX_OUTLINES]
    for box in outlines:
        if not any(CheckBox(other, False, None).holds(box) for other in found):
            found.append(box)
    level = sorted(words, key=lambda box: box[1] + box[3])
    middles = [(box[1] + box[3]) / 2 for box in level]

    def has_label(box: Box) -> bool:
        side, half = box[2] - box[0], (box[3] - box[1]) / 2
        middle = box[1] + half
        near = level[bisect_left(middles, middle - half) : bisect_right(middles, middle + half)]
        gaps = (max(other[0] - box[2], box[0] - other[2]) for other in near if other[3] - other[1] < 3 * side)
        return any(-0.2 * side <= gap <= BESIDE * side for gap in gaps)

    return [box for box in found if has_label(box) and not any(_are_cells(box, other) for other in found)]


def _are_cells(one: Box, other: Box) -> bool:
    side = one[2] - one[0]
    gap = max(one[0] - other[2], other[0] - one[2])
    return one is not other and abs(one[1] - other[1]) < 0.2 * side and gap < 0.6 * side


def read_box(picture: Image.Image, box: Box, is_curved: bool) -> tuple[bool, bool] | None:
    """Return whether a box in a grey picture is round and whether it is ticked, or None if it is not a check box."""
    if (state := _read_square(picture, box)) is not None:
        return False, state
    if is_curved and (state := _read_circle(picture, box)) is not None:
        return True, state
    return None


def has_mark(picture: Image.Image, box: Box) -> bool:
    """Return whether a picture shows something inside a box."""
    left, top, right, bottom = box
    across, down = right - left, bottom - top
    inside = _levels(picture, (left + _INSET * across, top + _INSET * down,
                               right - _INSET * across, bottom - _INSET * down))  # fmt: skip
    return inside[-1] - inside[0] >= _CONTRAST


def _read_square(picture: Image.Image, box: Box) -> bool | None:
    left, top, right, bottom = box
    across, down = right - left, bottom - top
    ground = _ground(picture, [(left - 0.3 * across, top + down * n / 10) for n in _STEPS]
                     + [(right + 0.3 * across, top + down * n / 10) for n in _STEPS])  # fmt: skip
    reach = max(2, round(0.12 * across))
    edges = [(left + across * n / 10, y, 0, 1) for n in _STEPS for y in (top, bottom)]
    edges += [(x, top + down * n / 10, 1, 0) for n in _STEPS for x in (left, right)]
    if sum(_darkest(picture, *edge, reach) <= ground - _CONTRAST for edge in edges) < _OUTLINED * len(edges):
        return None
    # The lines of a table go on beyond the corners of a cell.
    far = 0.2 * across + 2
    beyond = [(x, y, 1, 0) for x in (left, right) for y in (top - far, bottom + far)]
    beyond += [(x, y, 0, 1) for x in (left - far, right + far) for y in (top, bottom)]
    if sum(_darkest(picture, *point, reach) <= ground - _CONTRAST for point in beyond) > 1:
        return None
    inside = _levels(picture, (left + _INSET * across, top + _INSET * down,
                               right - _INSET * across, bottom - _INSET * down))  # fmt: skip
    paper = inside[int(0.8 * len(inside))]
    if paper < ground - _CONTRAST:
        return None
    share = sum(level <= paper - _CONTRAST for level in inside) / len(inside)
    return None if share > _MARKED[1] else share > _MARKED[0]


def _read_circle(picture: Image.Image, box: Box) -> bool | None:
    """Like `_read_square`. A circle with anything but a central dot in it is an icon, not a radio button."""
    left, top, right, bottom = box
    x, y, radius = (left + right) / 2, (top + bottom) / 2, (right - left) / 2
    ways = [(cos(n * pi / 12), sin(n * pi / 12)) for n in range(24)]

    def ring(share: float) -> Iterator[int]:
        return (_level(picture, x + share * radius * a, y + share * radius * b) for a, b in ways)

    ground = sorted(ring(1.5))[12]
    line = [min(levels) for levels in zip(ring(0.8), ring(0.87), ring(0.94), ring(1.0), strict=True)]
    if sum(level <= ground - _CONTRAST for level in line) < _OUTLINED * len(line):
        return None
    dark = [sum(level <= ground - _CONTRAST for level in ring(share)) / 24 for share in (0.62, 0.3, 0.0)]
    if dark[0] > 1 - _OUTLINED:
        return None
    return False if max(dark) < 0.1 else True if min(dark[1:]) > _OUTLINED else None


def _ground(picture: Image.Image, points: Sequence[tuple[float, float]]) -> int:
    return sorted(_level(picture, *point) for point in points)[len(points) // 2]


def _level(picture: Image.Image, x: float, y: float) -> int:
    at: Any = min(max(int(x), 0), picture.width - 1), min(max(int(y), 0), picture.height - 1)
    level: Any = picture.getpixel(at)
    return level


def _darkest(picture: Image.Image, x: float, y: float, across: int, down: int, reach: int) -> int:
    """Return the darkest level on a short line across a point."""
    return min(_level(picture, x + across * n, y + down * n) for n in range(-reach, reach + 1))


def _levels(picture: Image.Image, box: Box) -> bytes:
    left, top, right, bottom = (int(side) for side in box)
    return bytes(sorted(picture.crop((left, top, max(right, left + 1), max(bottom, top + 1))).tobytes()))
