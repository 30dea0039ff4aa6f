"""PNG, JPEG, TIFF, WebP, BMP, GIF: decode the frames, upright. The size is checked before decoding."""

from __future__ import annotations

import io
import warnings
from typing import Any

from PIL import Image, ImageOps

from pagewords.errors import OverLimit
from pagewords.pages import Limits
from pagewords.sniff import BMP, GIF, JPEG, PNG, TIFF, WEBP

_FORMATS = {PNG: "PNG", JPEG: "JPEG", TIFF: "TIFF", WEBP: "WEBP", BMP: "BMP", GIF: "GIF"}
_SWAPS_SIDES = frozenset({5, 6, 7, 8})  # EXIF orientations that turn the image by a quarter


class Images:
    """The frames of an image file. Only TIFF files have several pages: further frames of other formats
    are animation."""

    def __init__(self, data: bytes, media_type: str, limits: Limits) -> None:
        """Raise Unreadable if the file is damaged or has more pages than the limit."""
        warnings.simplefilter("ignore")  # Pillow's limit on pixels is lower than MAX_PIXELS and only warns.
        Image.MAX_IMAGE_PIXELS = None
        self._limits = limits
        self._kind = _FORMATS[media_type]
        self._image = Image.open(io.BytesIO(data), formats=[self._kind])
        self.page_count = 1
        self.is_animated: bool = self._kind in ("GIF", "PNG", "WEBP") and getattr(self._image, "is_animated", False)
        if self._kind == "TIFF":
            self.page_count = self._count_pages()

    def _count_pages(self) -> int:
        # n_frames would follow the whole chain before the limit is looked at.
        count = 0
        while count <= self._limits.max_pages:
            try:
                self._image.seek(count)
            except EOFError:
                break
            count += 1
        if count > self._limits.max_pages:
            raise OverLimit(f"The TIFF has more than {self._limits.max_pages} pages.")
        return count

    @property
    def size(self) -> tuple[int, int]:
        """Return width and height of the first frame in pixels, without decoding it."""
        return self._image.size

    def frame(self, number: int, longest_side: int) -> tuple[Image.Image, int, int]:
        """Return one frame as RGB on white, with its full width and height. It is rotated as its EXIF data requires,
        and reduced to `longest_side` pixels."""
        image: Any = self._image
        if self._kind == "TIFF":
            image.seek(number - 1)
        width, height = image.size
        if width * height > self._limits.max_pixels:
            raise OverLimit(
                f"Page {number} has {width * height / 1e6:,.0f} megapixels ({width:,} × {height:,}); "
                f"the limit is {self._limits.max_pixels / 1e6:,.0f}."
            )
        orientation = image.getexif().get(0x0112, 1)
        shrink = max(width, height) / longest_side
        if self._kind == "JPEG" and shrink > 2:
            image.draft("RGB", (int(width / shrink), int(height / shrink)))  # unpacks a half, quarter or eighth
        image.load()
        image = _in_levels(image)
        shrink = max(image.size) / longest_side
        if shrink >= 2:
            image = image.reduce(int(shrink))
        image = _on_white(image)
        if max(image.size) > longest_side:
            image.thumbnail((longest_side, longest_side))
        if orientation != 1:
            image.getexif()[0x0112] = orientation
            image = ImageOps.exif_transpose(image)
        return image, *((height, width) if orientation in _SWAPS_SIDES else (width, height))


def _in_levels(image: Any) -> Any:
    """Return an image whose pixels are levels of 8 bits, which can be averaged: not bits, indexes of a palette, or deep
    levels."""
    if image.mode == "1":
        return image.convert("L")
    if image.mode in ("P", "PA"):
        return image.convert("RGBA" if image.has_transparency_data else "RGB")
    if image.mode in ("I", "F", "I;16", "I;16B", "I;16L"):
        low, high = image.getextrema()
        scale = 255 / ((high - low) or 1)

        def to_8_bits(value: Any) -> Any:
            return value * scale - low * scale

        return image.convert("F").point(to_8_bits).convert("L")
    return image


def _on_white(image: Any) -> Any:
    if image.has_transparency_data:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(white, image).convert("RGB")
    return image.convert("RGB")
