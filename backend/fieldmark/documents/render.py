"""A page of a document as a PNG, drawn in the limited subprocess that reads documents."""

from __future__ import annotations

from pathlib import Path

from fieldmark.documents.reading.pages import Limits
from fieldmark.documents.reading.sandbox import draw_page


async def render_page(path: Path, media_type: str, number: int, limits: Limits, *, dpi: float = 144) -> bytes:
    """PNG of page `number` (from 1) of a document whose media type reading has found.

    Boxes of the page's words, which are parts of the page, fit the image. An image is given in its own pixels and a PDF
    at `dpi`, both reduced where that would be more than 16 megapixels or 4,000 pixels a side; formats without pages are
    set in Courier. Raises NotFound for a page or a media type that does not exist, Unreadable as `read_file` does.
    """
    return await draw_page(path, media_type, number, limits, dpi)
