"""Pictures inside documents without pages of their own: choose those that become pages, to be read by OCR."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from pagewords import sniff
from pagewords.errors import OverLimit, Unsupported
from pagewords.image import Images
from pagewords.pages import Limits

MIN_AREA = 10_000  # square points, 2 % of a sheet: a smaller picture is a logo, an icon or a line
MIN_LINE_RATIO, MIN_LINE_HEIGHT = 3, 8.0  # points: a smaller picture of this shape may be a line of text
MAX_PICTURES, MAX_LINES = 100, 10
_POINTS_PER_PIXEL = 0.75
_UNITS = {"pt": 1.0, "px": 0.75, "in": 72.0, "cm": 72 / 2.54, "mm": 72 / 25.4, "pc": 12.0, "emu": 1 / 12700}


class Picture(NamedTuple):
    """A picture in a document. `read` returns its file; it is None if the file is not in the document.

    Pictures with the same `key` have the same file. Width and height are in points, if the document gives them.
    """

    key: str
    read: Callable[[], bytes] | None
    width: float | None = None
    height: float | None = None


class PictureChooser:
    """Chooses the pictures of one document that become pages: large enough, readable, and each file once."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._seen = set[str]()
        self._count = 0
        self._lines = 0
        self._bytes = 0
        self._pixels = 0

    def choose(self, pictures: Iterable[Picture]) -> tuple[list[bytes], int]:
        """Return the files of the chosen pictures, and the number of visible pictures that cannot be read."""
        chosen: list[bytes] = []
        unread = 0
        for picture in pictures:
            if picture.key in self._seen or is_decoration(picture.width, picture.height):
                continue
            self._seen.add(picture.key)
            try:
                if (content := self._read(picture)) is not None:
                    chosen.append(content)
            except Exception:  # noqa: BLE001 — whatever is wrong with one picture, the document is read
                unread += 1
        return chosen, unread

    def _read(self, picture: Picture) -> bytes | None:
        if picture.read is None:
            raise Unsupported
        if self._count >= MAX_PICTURES:
            raise OverLimit
        content = picture.read()
        kind = sniff.media_type(content, "")
        if kind not in sniff.IMAGES:
            raise Unsupported
        width, height = Images(content, kind, self._limits).size
        sides = picture.width, picture.height
        if None in sides:
            sides = width * _POINTS_PER_PIXEL, height * _POINTS_PER_PIXEL
        if is_decoration(*sides):
            return None
        is_line = _is_small(*sides)
        if is_line and self._lines >= MAX_LINES:
            raise OverLimit
        limits = self._limits
        total_bytes, total_pixels = self._bytes + len(content), self._pixels + width * height
        if len(content) > limits.max_bytes or total_bytes > limits.max_decoded_bytes:
            raise OverLimit
        if width * height > limits.max_pixels or total_pixels > 4 * limits.max_pixels:
            raise OverLimit
        self._count, self._bytes, self._pixels = self._count + 1, total_bytes, total_pixels
        self._lines += is_line
        return content


def points(length: str | None, default_unit: str = "px") -> float | None:
    """Return a length such as `2.5cm` in points, or None if it is not understood."""
    number = (length or "").strip().lower()
    unit = next((unit for unit in _UNITS if number.endswith(unit)), "")
    try:
        return float(number.removesuffix(unit)) * _UNITS[unit or default_unit]
    except ValueError:
        return None


def is_decoration(width: float | None, height: float | None) -> bool:
    """Return whether a picture is too small to read and is not shaped like a line of text. Sizes are in points."""
    if width is None or height is None or not _is_small(width, height):
        return False
    return height < MIN_LINE_HEIGHT or width < MIN_LINE_RATIO * height


def is_text_line(image: tuple[int, int]) -> bool:
    """Return whether a picture is small and shaped like a line of text. `image` is its width and height in pixels."""
    width, height = (side * _POINTS_PER_PIXEL for side in image)
    return _is_small(width, height) and not is_decoration(width, height)


def _is_small(width: float | None, height: float | None) -> bool:
    return width is not None and height is not None and width * height < MIN_AREA
