"""The parts of pages that are shown, and a cache of their images."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import Final

MAX_CACHED_BYTES: Final = 32 * 1024 * 1024
_MIN_MARGIN: Final = 0.005  # of the page


class PageImages:
    """An LRU cache of page images of at most `max_bytes`."""

    def __init__(self, max_bytes: int = MAX_CACHED_BYTES) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._images: OrderedDict[Hashable, bytes] = OrderedDict()

    def get(self, key: Hashable) -> bytes | None:
        if key in self._images:
            self._images.move_to_end(key)
        return self._images.get(key)

    def keep(self, key: Hashable, image: bytes) -> None:
        self._bytes += len(image) - len(self._images.pop(key, b""))
        self._images[key] = image
        while self._bytes > self._max_bytes:
            _, oldest = self._images.popitem(last=False)
            self._bytes -= len(oldest)


def with_margin(box: Sequence[float]) -> tuple[float, float, float, float]:
    """Return a box enlarged by its height above and below, and by twice its height on both sides, within the page."""
    x0, y0, x1, y1 = box
    margin = max(y1 - y0, _MIN_MARGIN)
    return max(0.0, x0 - 2 * margin), max(0.0, y0 - margin), min(1.0, x1 + 2 * margin), min(1.0, y1 + margin)
