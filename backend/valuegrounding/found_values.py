"""Found values with their words on the page, as the checks compare them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from pydantic import JsonValue

from valuegrounding.evidence import Finding
from valuegrounding.measures import Measure
from valuegrounding.page import Box
from valuegrounding.paths import Path

_MAX_CELLS: Final = 40  # of a row, that show its line


@dataclass(slots=True)
class FoundValue:
    """A found value with its words on the page. `row` is the path of the list item that it is in, or empty."""

    path: Path
    name: str
    value: JsonValue | Measure
    finding: Finding
    page: int
    boxes: Sequence[Box]
    row: Path
    words: list[int] = field(default_factory=list[int])

    @property
    def is_single(self) -> bool:
        """Whether it is printed once, on one line: what shows where a row is."""
        location = self.finding.location
        return location is not None and location.location_count == 1 and len(self.boxes) == 1

    @property
    def middle(self) -> float:
        return sum(y0 + y1 for _, y0, _, y1 in self.boxes) / 2 / len(self.boxes)

    @property
    def line_height(self) -> float:
        return self.boxes[0][3] - self.boxes[0][1]


def row_of(path: Path) -> Path:
    """Return the path of the innermost list item that a path is in, or ()."""
    return path[: max((n for n, step in enumerate(path, 1) if isinstance(step, int)), default=0)]


def number_of(value: JsonValue | Measure) -> int | float | None:
    """Return the number of a value, or None."""
    value = value.value if isinstance(value, Measure) else value
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def main_line(members: Sequence[FoundValue]) -> tuple[int, float] | None:
    """Return the page and height of the line that has the most values of a row, at least two."""
    single = [(one.page, one.middle, one.line_height) for one in members if len(one.boxes) == 1]
    best, most = None, 1
    for page, middle, height in single[:_MAX_CELLS]:
        count = sum(other == page and abs(line - middle) <= 0.5 * height for other, line, _ in single)
        if count > most:
            best, most = (page, middle), count
    return best
