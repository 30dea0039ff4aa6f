"""Find the check boxes and radio buttons drawn on a PDF page, and whether they are ticked."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from math import cos, inf, pi, sin
from typing import Any, NamedTuple

from PIL import Image

from pagewords.symbols import UNKNOWN

Box = tuple[float, float, float, float]

SIDE_RANGE = (5.0, 28.0)  # points, including the outline
MAX_OUTLINES = 500  # a page with more is a drawing
MAX_LABEL_GAP, MAX_FAR_LABEL_GAP = (
    1.6,
    4.0,
)  # maximum distance of the label, relative to the box's side: of any box, and of a box among equal ones
TICK_GLYPHS = frozenset("xX×✓✔✕✖✗✘☑☒✅\uf0fb\uf0fc\uf0fd\uf0fe\u2022●■" + UNKNOWN)
_SYMBOLS = {"¨": "☐", "o": "☐", "q": "☐", "ý": "☒", "þ": "☒"}
_SYMBOLS_2 = {"£": "☐", "R": "☒", "S": "☒", "T": "☒"}
SYMBOLS = {
    code: {"wingdings": _SYMBOLS.get(glyph, code), "wingdings2": _SYMBOLS_2.get(glyph, code)}
    for glyph in {**_SYMBOLS, **_SYMBOLS_2}
    for code in (glyph, chr(0xF000 + ord(glyph)))
}
"""The check boxes that characters of two symbol fonts show, by the font's name."""
_CONTRAST = 32  # of 255 levels, between a line and the paper
_MIN_OUTLINE_SHARE = 0.85  # share of an outline that must be visible
_INSET = 0.25  # of a side: where the inside of a box begins
_MARK_SHARES = (0.03, 0.7)  # share of the inside that a mark covers
_TENTHS = range(1, 10)


class CheckBox(NamedTuple):
    """A check box, in points. `is_ticked` is None if it must be read from the picture of the page."""

    box: Box
    is_round: bool
    is_ticked: bool | None

    @property
    def text(self) -> str:
        return UNKNOWN if self.is_ticked is None else ("○●" if self.is_round else "☐☒")[self.is_ticked]

    def looks_like(self, other: CheckBox) -> bool:
        """Return whether another check box looks the same, apart from its state."""
        return self.is_round == other.is_round and _are_equal(self.box, other.box)

    def contains_center(self, box: Box) -> bool:
        """Return whether the centre of another box is in this one."""
        x, y = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
        return self.box[0] <= x <= self.box[2] and self.box[1] <= y <= self.box[3]


def is_candidate(box: Box) -> bool:
    across, down = box[2] - box[0], box[3] - box[1]
    return (
        SIDE_RANGE[0] <= across <= SIDE_RANGE[1]
        and SIDE_RANGE[0] <= down <= SIDE_RANGE[1]
        and 0.8 <= across / down <= 1.25
    )


def find_candidates(outlines: Sequence[Box], words: Sequence[Box]) -> dict[Box, bool]:
    """Return the distinct outlines that may be check boxes, and whether a word is directly beside each.

    An outline without such a word needs an equal outline, and either a word not far from it, or its row and its column
    as in a table of questions. A row of outlines is excluded: it is for writing letters into.
    """
    found: list[Box] = []
    outlines = sorted(outlines, key=lambda box: (box[0] - box[2]) * (box[3] - box[1]))[:MAX_OUTLINES]
    for box in outlines:
        if not any(CheckBox(other, False, None).contains_center(box) for other in found):
            found.append(box)
    level = sorted(words, key=lambda box: box[1] + box[3])
    middles = [(box[1] + box[3]) / 2 for box in level]

    def distance(box: Box) -> float:
        """Return the distance of the nearest word in the same row, relative to the box's side."""
        side, half = box[2] - box[0], (box[3] - box[1]) / 2
        middle = box[1] + half
        near = level[bisect_left(middles, middle - half) : bisect_right(middles, middle + half)]
        gaps = (max(other[0] - box[2], box[0] - other[2]) / side for other in near if other[3] - other[1] < 3 * side)
        return min((gap for gap in gaps if gap >= -0.2), default=inf)

    gaps = {box: distance(box) for box in found if not any(_are_cells(box, other, 0.6) for other in found)}
    candidates: dict[Box, bool] = {}
    for box, gap in gaps.items():
        if gap <= MAX_LABEL_GAP:
            candidates[box] = True
        elif gap < inf:
            equal = [other for other in gaps if other is not box and gaps[other] < inf and _are_equal(box, other)]
            is_placed = gap <= MAX_FAR_LABEL_GAP or any(abs(box[0] - other[0]) < 1 for other in equal)
            if equal and is_placed and not any(_are_cells(box, other, MAX_LABEL_GAP) for other in equal):
                candidates[box] = False
    return candidates


def _are_equal(first: Box, second: Box) -> bool:
    return abs((first[2] - first[0]) - (second[2] - second[0])) < 0.1 * (first[2] - first[0])


def _are_cells(first: Box, second: Box, min_gap: float) -> bool:
    side = first[2] - first[0]
    gap = max(first[0] - second[2], second[0] - first[2])
    return first is not second and abs(first[1] - second[1]) < 0.2 * side and gap < min_gap * side


def read_box(picture: Image.Image, box: Box, is_curved: bool, is_beside_word: bool) -> tuple[bool, bool | None] | None:
    """Return whether a box in a grey picture is round, and whether it is ticked (None if unclear). Return None if it is
    not a check box. A box that is not beside a word must have nothing to its left and right."""
    if not is_beside_word and not _is_isolated(picture, box):
        return None
    if (ground := _paper_level_around_square(picture, box)) is not None:
        return False, _square_state(picture, box, ground)
    if is_curved and (ground := _paper_level_around_circle(picture, box)) is not None:
        return True, _circle_state(picture, box, ground)
    return None


def has_mark(picture: Image.Image, box: Box) -> bool:
    """Return whether a picture shows something inside a box."""
    left, top, right, bottom = box
    across, down = right - left, bottom - top
    inside = _sorted_levels(picture, (left + _INSET * across, top + _INSET * down,
                               right - _INSET * across, bottom - _INSET * down))  # fmt: skip
    return inside[-1] - inside[0] >= _CONTRAST


def has_block(picture: Image.Image, box: Box) -> bool:
    """Return whether most of the inside of a box is filled, but not all of it."""
    left, top, right, bottom = box
    across, down = right - left, bottom - top
    filled = sorted(_ring_levels(picture, box, 0.3))[12]

    def levels_along(inset: float) -> list[int]:
        spots = [inset + (1 - 2 * inset) * n / 10 for n in _TENTHS]
        ends = (inset, 1 - inset)
        shares = [(x, y) for x in ends for y in spots] + [(x, y) for x in spots for y in ends]
        return [_pixel_level(picture, left + x * across, top + y * down) for x, y in shares]

    inside = _sorted_levels(picture, (left + _INSET * across, top + _INSET * down,
                               right - _INSET * across, bottom - _INSET * down))  # fmt: skip
    if inside[int(0.9 * len(inside))] >= filled + _CONTRAST:
        return True
    return any(min(levels_along(inset)) >= filled + _CONTRAST for inset in (0.1, 0.13, 0.16, 0.19, 0.22))


def _is_isolated(picture: Image.Image, box: Box) -> bool:
    """Return whether nothing is drawn to the left and right of a box, unlike at the markers of a chart's lines."""
    levels = _ring_levels(picture, box, 1.5)
    beside = [*levels[:3], *levels[10:15], *levels[22:]]
    return min(beside) > sorted(levels)[12] - _CONTRAST


def _paper_level_around_square(picture: Image.Image, box: Box) -> int | None:
    """Return the level of the paper around a box, or None if it has no square outline of its own."""
    left, top, right, bottom = box
    across, down = right - left, bottom - top
    ground = _background_level(picture, [(left - 0.3 * across, top + down * n / 10) for n in _TENTHS]
                     + [(right + 0.3 * across, top + down * n / 10) for n in _TENTHS])  # fmt: skip
    reach = max(2, round(0.12 * across))
    edges = [(left + across * n / 10, y, 0, 1) for n in _TENTHS for y in (top, bottom)]
    edges += [(x, top + down * n / 10, 1, 0) for n in _TENTHS for x in (left, right)]
    if sum(_darkest_across(picture, *edge, reach) <= ground - _CONTRAST for edge in edges) < _MIN_OUTLINE_SHARE * len(
        edges
    ):
        return None
    # The lines of a table continue beyond the corners of a cell. A line parallel to the box does not count.
    far, x, y = 0.2 * across + 2, (left + right) / 2, (top + bottom) / 2
    beyond = [[(at, end, 1, 0) for at in (left, x, right)] for end in (top - far, bottom + far)]
    beyond += [[(end, at, 0, 1) for at in (top, y, bottom)] for end in (left - far, right + far)]
    dark = [[_darkest_across(picture, *point, reach) <= ground - _CONTRAST for point in side] for side in beyond]
    is_cell = sum(one + other for one, between, other in dark if not between) > 1
    return None if is_cell else ground


def _square_state(picture: Image.Image, box: Box, ground: int) -> bool | None:
    left, top, right, bottom = box
    across, down = right - left, bottom - top
    inside = _sorted_levels(picture, (left + _INSET * across, top + _INSET * down,
                               right - _INSET * across, bottom - _INSET * down))  # fmt: skip
    paper = inside[int(0.85 * len(inside))]
    if paper < ground - _CONTRAST:
        return None
    share = sum(level <= paper - _CONTRAST for level in inside) / len(inside)
    return None if share > _MARK_SHARES[1] else share > _MARK_SHARES[0]


def _paper_level_around_circle(picture: Image.Image, box: Box) -> int | None:
    """Return the level of the paper around a circle, or None if there is no circle."""
    ground = sorted(_ring_levels(picture, box, 1.5))[12]
    rings = [_ring_levels(picture, box, share) for share in (0.8, 0.84, 0.88, 0.92, 0.96, 1.0)]
    line = [min(levels) for levels in zip(*rings, strict=True)]
    return ground if sum(level <= ground - _CONTRAST for level in line) >= _MIN_OUTLINE_SHARE * len(line) else None


def _circle_state(picture: Image.Image, box: Box, ground: int) -> bool | None:
    """Return None for a circle with anything but a central dot in it: it is an icon, not a radio button."""
    dark = [
        sum(level <= ground - _CONTRAST for level in _ring_levels(picture, box, share)) / 24
        for share in (0.62, 0.3, 0.0)
    ]
    if dark[0] > 1 - _MIN_OUTLINE_SHARE:
        return None
    return False if max(dark) < 0.1 else True if min(dark[1:]) > _MIN_OUTLINE_SHARE else None


def _ring_levels(picture: Image.Image, box: Box, share: float) -> list[int]:
    """Return 24 levels on a circle around the centre of a box. `share` is relative to half its width."""
    left, top, right, bottom = box
    x, y, radius = (left + right) / 2, (top + bottom) / 2, share * (right - left) / 2
    return [_pixel_level(picture, x + radius * cos(n * pi / 12), y + radius * sin(n * pi / 12)) for n in range(24)]


def _background_level(picture: Image.Image, points: Sequence[tuple[float, float]]) -> int:
    return sorted(_pixel_level(picture, *point) for point in points)[len(points) // 2]


def _pixel_level(picture: Image.Image, x: float, y: float) -> int:
    at: Any = min(max(int(x), 0), picture.width - 1), min(max(int(y), 0), picture.height - 1)
    level: Any = picture.getpixel(at)
    return level


def _darkest_across(picture: Image.Image, x: float, y: float, across: int, down: int, reach: int) -> int:
    """Return the darkest level on a short line across a point."""
    return min(_pixel_level(picture, x + across * n, y + down * n) for n in range(-reach, reach + 1))


def _sorted_levels(picture: Image.Image, box: Box) -> bytes:
    left, top, right, bottom = (int(side) for side in box)
    return bytes(sorted(picture.crop((left, top, max(right, left + 1), max(bottom, top + 1))).tobytes()))
