"""Where the boxes of values are drawn on the page."""

from __future__ import annotations

from typing import Any


async def shown_box(rect: Any) -> tuple[int, list[float]]:
    """Return the page number of a box, and the box in fractions of that page's picture."""
    # All at once: the page may be scrolling.
    number, box = await rect.evaluate(
        """one => {
          const sheet = one.closest('[data-page]');
          const [outer, inner] = [sheet, one].map((element) => element.getBoundingClientRect());
          const x = (value) => (value - outer.x) / outer.width;
          const y = (value) => (value - outer.y) / outer.height;
          return [sheet.dataset.page, [x(inner.left), y(inner.top), x(inner.right), y(inner.bottom)]];
        }"""
    )
    return int(number), box


def surrounds(box: list[float], word: list[float]) -> bool:
    """Whether a box is drawn close around a word, not over its letters."""
    gaps = (word[0] - box[0], word[1] - box[1], box[2] - word[2], box[3] - word[3])
    return all(0 < gap < 0.02 for gap in gaps)
