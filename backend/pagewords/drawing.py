"""Draw pages as PNGs, and draw text pages for documents that have no pages of their own."""

from __future__ import annotations

import ctypes
import io
import unicodedata
from collections.abc import Sequence
from typing import Any

from PIL import Image

from pagewords.jobs import WHOLE_PAGE
from pagewords.pages import Page
from pagewords.pagination import CHARACTER, FONT_SIZE, LINE
from pagewords.pdfium import pdfium, saved

_BASELINE = 9.5  # points below the top of a line


def draw_text_page(page: Page) -> bytes:
    """Return a one-page PDF with the words in Courier at their boxes. PDFium includes Courier. It covers Western
    European letters; any other is drawn as a question mark, while the page's text keeps the right characters."""
    pdfium.FPDF_InitLibrary()
    document: Any = pdfium.FPDF_CreateNewDocument()
    try:
        sheet: Any = pdfium.FPDFPage_New(document, 0, page.width, page.height)
        font: Any = pdfium.FPDFText_LoadStandardFont(document, b"Courier")
        for word in page.words:
            left, top = word.x0 * page.width, word.y0 * page.height
            columns = max(1, round((word.x1 - word.x0) * page.width / CHARACTER))
            rows = round((word.y1 - word.y0) * page.height / LINE)
            for row in range(rows):
                text = word.text[row * columns : (row + 1) * columns] if rows > 1 else word.text
                put_text(document, sheet, font, text, left, page.height - (top + row * LINE + _BASELINE))
        pdfium.FPDFPage_GenerateContent(sheet)
        pdfium.FPDF_ClosePage(sheet)
        drawn = saved(document, pdfium.FPDF_NO_INCREMENTAL)
        if drawn is None:
            raise MemoryError
        return drawn
    finally:
        pdfium.FPDF_CloseDocument(document)


def png(pixels: bytes, width: int, height: int) -> bytes:
    """Return RGBX pixels as a PNG."""
    return image_png(Image.frombytes("RGB", (width, height), pixels, "raw", "RGBX"))


def image_png(image: Image.Image) -> bytes:
    """Return an image as a PNG, compressed for speed and not for size."""
    out = io.BytesIO()
    image.save(out, "PNG", compress_level=3)
    return out.getvalue()


def crop_and_resize(image: Image.Image, box: Sequence[float], width: int | None) -> Image.Image:
    """Return a box of an image, given in fractions of its sides. `width` is in pixels; an image is enlarged at most
    four times."""
    if tuple(box) != WHOLE_PAGE:
        x0, y0, x1, y1 = (at * side for at, side in zip(box, image.size * 2, strict=True))
        left, top = min(int(x0), image.width - 1), min(int(y0), image.height - 1)
        image = image.crop((left, top, max(left + 1, round(x1)), max(top + 1, round(y1))))
    if width is None or width == image.width:
        return image
    width = min(width, 4 * image.width)
    return image.resize((width, max(1, round(image.height * width / image.width))))


def put_text(document: Any, sheet: Any, font: Any, text: str, x: float, y: float, size: float = FONT_SIZE) -> Any:
    """Draw a line of text on a page, with its baseline starting at x and y in page coordinates. Return the object."""
    shown = unicodedata.normalize("NFC", text).encode("cp1252", "replace").decode("cp1252", "replace")
    units = (shown + "\0").encode("utf-16-le")
    label: Any = pdfium.FPDFPageObj_CreateTextObj(document, font, size)
    pdfium.FPDFText_SetText(label, (ctypes.c_ushort * (len(units) // 2)).from_buffer_copy(units))
    pdfium.FPDFPageObj_Transform(label, 1, 0, 0, 1, x, y)
    pdfium.FPDFPage_InsertObject(sheet, label)
    return label
