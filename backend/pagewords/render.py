"""Pages of a document as PNGs, drawn in the locked-down subprocess that reads documents."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pagewords.errors import OverLimit
from pagewords.jobs import WHOLE_PAGE, DrawJob
from pagewords.pages import Limits
from pagewords.sandbox import MAX_CONTENT_BYTES, draw_pages

# Pixels. A larger image would only fill the browser's memory.
LONGEST_SIDE = 4000


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
    the page that is drawn; `width` is its width in pixels and overrides `dpi`. Raise NoSuchPage for a page or a media
    type that does not exist, and Unreadable like `read_file`.
    """
    job = DrawJob(media_type, [number], dpi, LONGEST_SIDE, MAX_CONTENT_BYTES, box, width)
    drawn = await draw_pages(path, job, limits)
    if not drawn:
        raise OverLimit("The page's image is too large.")
    return drawn[0]
