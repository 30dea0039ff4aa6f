"""Pages of a document as PNGs, drawn in the locked-down subprocess that reads documents."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from pathlib import Path

from fieldmark.documents.reading.jobs import WHOLE_PAGE, DrawJob
from fieldmark.documents.reading.pages import Limits
from fieldmark.documents.reading.sandbox import MAX_CONTENT_BYTES, draw_pages
from fieldmark.errors import OverLimit

# Pixels. A larger image would only fill the browser's memory.
LONGEST_SIDE = 4000

MIN_MARGIN = 0.005  # of the page
MAX_CACHED_BYTES = 32 * 1024 * 1024


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


async def render_page(
    path: Path,
    media_type: str,
    number: int,
    limits: Limits,
    *,
    dpi: float = 144,
    box: Sequence[float] = WHOLE_PAGE,
    width: int | None = None,
) -> bytes:
    """Return page `number` (from 1) of a document as a PNG.

    `media_type` is the type detected by reading. An image keeps its pixels and a PDF is drawn at `dpi`; both are
    reduced to 16 megapixels and 4,000 pixels a side. Documents without pages are set in Courier. `box` is the part of
    the page that is drawn; `width` is its width in pixels and overrides `dpi`. Raise NotFound for a page or a media
    type that does not exist, and Unreadable like `read_file`.
    """
    job = DrawJob(media_type, [number], dpi, LONGEST_SIDE, MAX_CONTENT_BYTES, box, width)
    drawn = await draw_pages(path, job, limits)
    if not drawn:
        raise OverLimit("The page's image is too large.")
    return drawn[0]


def with_margin(box: Sequence[float]) -> tuple[float, float, float, float]:
    """Return a box enlarged by its height above and below, and by twice its height on both sides, within the page."""
    x0, y0, x1, y1 = box
    margin = max(y1 - y0, MIN_MARGIN)
    return max(0.0, x0 - 2 * margin), max(0.0, y0 - margin), min(1.0, x1 + 2 * margin), min(1.0, y1 + margin)
