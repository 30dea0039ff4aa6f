"""Pages of a document as PNGs, drawn in the limited subprocess that reads documents."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fieldmark.documents.reading.pages import Limits
from fieldmark.documents.reading.sandbox import MAX_LINE, draw_pages

# A page image is for eyes, not for print: 100 megapixels of one would only fill the browser's memory.
LONGEST_SIDE = 4000


async def render_page(path: Path, media_type: str, number: int, limits: Limits, *, dpi: float = 144) -> bytes:
    """PNG of page `number` (from 1) of a document whose media type reading has found.

    Boxes of the page's words, which are parts of the page, fit the image. An image is given in its own pixels and a PDF
    at `dpi`, both reduced where that would be more than 16 megapixels or 4,000 pixels a side; formats without pages are
    set in Courier. Raises NotFound for a page or a media type that does not exist, Unreadable as `read_file` does.
    """
    (png,) = await draw_pages(path, media_type, [number], limits, dpi, LONGEST_SIDE, MAX_LINE)
    return png


async def render_pages(
    path: Path,
    media_type: str,
    numbers: Sequence[int],
    limits: Limits,
    *,
    dpi: float,
    longest_side: int,
    max_bytes: int,
) -> list[bytes]:
    """PNGs of some pages, in one subprocess: as many as are together no longer than `max_bytes`; `longest_side` in
    pixels. Otherwise as `render_page`."""
    return await draw_pages(path, media_type, numbers, limits, dpi, longest_side, max_bytes)
