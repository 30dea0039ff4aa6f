"""PDF: the words of each page's text layer and where they stand, read with PDFium."""

from __future__ import annotations

import ctypes
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

import pypdfium2.raw  # pyright: ignore[reportMissingTypeStubs]

from fieldmark.documents.reading.layout import compose
from fieldmark.documents.reading.pages import Limits, Page, Piece, clean
from fieldmark.errors import Unreadable

pdfium: Any = pypdfium2.raw  # C functions without types

_RIGHT, _DOWN, _LEFT, _UP = range(4)
# PDFium's marks for a hyphen at which it joined two lines into one word, and the soft hyphen: on a PDF page that is
# a glyph somebody drew, often the producer's name for a plain hyphen.
_HYPHENS = {0x2: "-", 0xFFFE: "-", 0xAD: "-"}
_LINE_HYPHENS = frozenset({0x2, 0xFFFE})


class Pdf:
    """An open PDF. Points everywhere, origin top left, as the page is shown (crop box and rotation applied)."""

    def __init__(self, data: bytes, limits: Limits) -> None:
        """Raises Unreadable for what is encrypted, damaged, empty or over the limit of pages."""
        self._limits = limits
        self._data = data  # PDFium reads from this memory as long as the document is open.
        pdfium.FPDF_InitLibrary()
        self._document: Any = pdfium.FPDF_LoadMemDocument64(data, len(data), None)
        if not self._document:
            if pdfium.FPDF_GetLastError() in (pdfium.FPDF_ERR_PASSWORD, pdfium.FPDF_ERR_SECURITY):
                raise Unreadable("The PDF is protected with a password.")
            raise Unreadable("The PDF is damaged or cut off: it cannot be opened.")
        self.page_count = int(pdfium.FPDF_GetPageCount(self._document))
        if self.page_count < 1:
            raise Unreadable("The PDF has no pages.")
        if self.page_count > limits.max_pages:
            raise Unreadable(f"The PDF has {self.page_count} pages; the limit is {limits.max_pages}.")
        self._has_form = pdfium.FPDF_GetFormType(self._document) != pdfium.FORMTYPE_NONE

    def read_page(self, number: int) -> Page | None:
        """The page's text layer; None when it has no words but something is drawn, so that OCR may find some."""
        with self._page(number) as (page, width, height):
            groups = self._words(page, width, height)
            if not groups and pdfium.FPDFPage_CountObjects(page) > 0:
                return None
            return compose(number, width, height, groups, "pdf")

    def size(self, number: int) -> tuple[float, float]:
        """Width and height of a page in points."""
        with self._page(number) as (_, width, height):
            return width, height

    def draw_page(self, number: int, dpi: float, max_pixels: int) -> tuple[bytes, int, int]:
        """The page as RGBX bytes and its width and height in pixels, coarser than `dpi` where it has too many."""
        with self._page(number) as (page, width, height):
            scale = min(dpi / 72, (max_pixels / (width * height)) ** 0.5)
            columns, rows = max(1, int(width * scale)), max(1, int(height * scale))
            bitmap: Any = pdfium.FPDFBitmap_CreateEx(columns, rows, pdfium.FPDFBitmap_BGRx, None, 0)
            if not bitmap:
                raise MemoryError
            try:
                pdfium.FPDFBitmap_FillRect(bitmap, 0, 0, columns, rows, 0xFFFFFFFF)
                flags = pdfium.FPDF_ANNOT | pdfium.FPDF_REVERSE_BYTE_ORDER
                pdfium.FPDF_RenderPageBitmap(bitmap, page, 0, 0, columns, rows, 0, flags)
                size = pdfium.FPDFBitmap_GetStride(bitmap) * rows
                return ctypes.string_at(pdfium.FPDFBitmap_GetBuffer(bitmap), size), columns, rows
            finally:
                pdfium.FPDFBitmap_Destroy(bitmap)

    @contextmanager
    def _page(self, number: int) -> Generator[tuple[Any, float, float]]:
        page: Any = pdfium.FPDF_LoadPage(self._document, number - 1)
        if not page:
            raise Unreadable(f"Page {number} of the PDF is damaged.")
        if self._has_form and pdfium.FPDFPage_GetAnnotCount(page) > 0:
            # What was typed into a form is no part of the page's content until the form is flattened into it.
            pdfium.FPDFPage_Flatten(page, pdfium.FLAT_NORMALDISPLAY)
            pdfium.FPDF_ClosePage(page)
            page = pdfium.FPDF_LoadPage(self._document, number - 1)
            if not page:
                raise Unreadable(f"Page {number} of the PDF is damaged.")
        try:
            width, height = float(pdfium.FPDF_GetPageWidthF(page)), float(pdfium.FPDF_GetPageHeightF(page))
            if not (width > 0 and height > 0):
                raise Unreadable(f"Page {number} of the PDF has no area.")
            if width * height > self._limits.max_pixels:
                raise Unreadable(
                    f"Page {number} of the PDF measures {width:,.0f} × {height:,.0f} points; "
                    f"the limit is {self._limits.max_pixels:,} square points."
                )
            yield page, width, height
        finally:
            pdfium.FPDF_ClosePage(page)

    def _words(self, page: Any, width: float, height: float) -> list[tuple[int, list[Piece]]]:
        """The page's words by direction, each with the box of its first and last character together.

        Asking PDFium for the boxes of those two only, not of every character, halves the time of a page.
        """
        layer: Any = pdfium.FPDFText_LoadPage(page)
        if not layer:
            return []
        try:
            get_unicode = pdfium.FPDFText_GetUnicode
            codes: list[int] = [get_unicode(layer, i) for i in range(pdfium.FPDFText_CountChars(layer))]
            box = _Boxes(page, layer, width, height)
            groups: dict[int, list[Piece]] = {}
            direction = _RIGHT
            for start, end, text in _runs(codes):
                x0, y0, x1, y1 = first = box.of(start)
                if end - start > 1:
                    last = box.of(end - 1)
                    direction = _direction(first, last)
                    x0, y0 = min(x0, last[0]), min(y0, last[1])
                    x1, y1 = max(x1, last[2]), max(y1, last[3])
                # A single character has no direction of its own: it goes with the one before it.
                if x1 > 0 and y1 > 0 and x0 < width and y0 < height:  # outside the crop box nobody sees it
                    groups.setdefault(direction, []).append(Piece(text, x0, y0, x1, y1))
            return sorted(groups.items())
        finally:
            pdfium.FPDFText_ClosePage(layer)


def _runs(codes: list[int]) -> Iterator[tuple[int, int, str]]:
    """Start, end and text of each word among the characters; a word hyphenated over a line's end is two."""
    text = "".join([_HYPHENS[code] if code in _HYPHENS else chr(code) if code <= 0x10FFFF else " " for code in codes])
    breaks = [index + 1 for index, code in enumerate(codes) if code in _LINE_HYPHENS]
    breaks.append(len(text))
    at = 0
    for stop in breaks:
        for word in text[at:stop].split():
            start = text.index(word, at)
            at = start + len(word)
            if cleaned := clean(word):
                yield start, at, cleaned
        at = stop


def _direction(first: tuple[float, float, float, float], last: tuple[float, float, float, float]) -> int:
    right = (last[0] + last[2]) - (first[0] + first[2])
    down = (last[1] + last[3]) - (first[1] + first[3])
    if abs(right) >= abs(down):
        return _RIGHT if right >= 0 else _LEFT
    return _DOWN if down > 0 else _UP


class _Boxes:
    """Where a page's characters stand on the page as it is shown."""

    def __init__(self, page: Any, layer: Any, width: float, height: float) -> None:
        self._layer = layer
        self._rectangle: Any = pdfium.FS_RECTF()
        self._reference: Any = ctypes.byref(self._rectangle)
        bounds: Any = pdfium.FS_RECTF()
        pdfium.FPDF_GetPageBoundingBox(page, ctypes.byref(bounds))
        self._left, self._top = float(bounds.left), float(bounds.top)
        self._right, self._bottom = float(bounds.right), float(bounds.bottom)
        self._turns = int(pdfium.FPDFPage_GetRotation(page))
        self._get = pdfium.FPDFText_GetLooseCharBox

    def of(self, index: int) -> tuple[float, float, float, float]:
        """Left, top, right, bottom of one character in points, the height being that of its font."""
        self._get(self._layer, index, self._reference)
        box = self._rectangle
        left, right, top, bottom = box.left, box.right, box.top, box.bottom
        if self._turns == 0:
            return left - self._left, self._top - top, right - self._left, self._top - bottom
        if self._turns == 1:
            return bottom - self._bottom, left - self._left, top - self._bottom, right - self._left
        if self._turns == 2:
            return self._right - right, bottom - self._bottom, self._right - left, top - self._bottom
        return self._top - top, self._right - right, self._top - bottom, self._right - left
