"""Which characters of a PDF page a person can see: those whose drawing changes the page at their position.

The page is drawn with its text and without it. The difference of the two pictures is called ink.

1. A word is visible if its box shows ink along its whole width, ignoring columns shared with other words. This decides
nearly every page, at the cost of two small drawings. 2. Any other word is doubtful: it shows a gap, or its characters
overlap. Then the text objects of the doubtful words are left out of finer drawings, layer by layer, and each character
must have ink of its own.

So it does not matter how a text was hidden: by invisible ink, background colour, zero opacity, clipping, an object over
it, a disabled layer, or a font with empty glyphs.
"""

from __future__ import annotations

import ctypes
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache, lru_cache
from itertools import pairwise, product
from math import dist
from typing import Any, NamedTuple

from PIL import (
    Image,
    ImageChops,
    ImageFile,  # noqa: F401 # pyright: ignore[reportUnusedImport] — Image needs it; nothing can be imported after lockdown
)

from pagewords.check_boxes import is_candidate
from pagewords.pages import is_right_to_left
from pagewords.pdfium import (
    CURVE,
    FORM_OBJECT,
    IMAGE_OBJECT,
    MOVE,
    PATH_OBJECT,
    TEXT_OBJECT,
    Handle,
    address,
    count_objects,
    count_parts,
    count_segments,
    destroy_bitmap,
    get_bitmap,
    get_bounds,
    get_draw_mode,
    get_fill_color,
    get_font,
    get_font_flags,
    get_image_size,
    get_matrix,
    get_object,
    get_part,
    get_point,
    get_render_mode,
    get_segment,
    get_segment_type,
    get_stroke_width,
    get_type,
    glyph_path,
    is_embedded,
    pdfium,
    set_active,
    text_object,
)

# A person does not see a change of fewer than 16 of 255 levels. Being a power of two, it can be tested by a bit mask.
MIN_CONTRAST = 16
# Letters lower than this, or on average narrower than a tenth of it, are dots and lines to a person. In points; on a
# page smaller than a sheet it is a share of the page's longer side, since such a page is shown as large as any other.
MIN_LETTER_HEIGHT = 1.5
MIN_LETTER_HEIGHT_SHARE = 1 / 500
MIN_PAGE_PIXELS = 600  # pixels of a page's longer side
MAX_PIXELS = 2_000_000
MIN_PIXELS_PER_POINT = 0.75  # pixels per point: the fewest that show words of 6 points without gaps
FINE_FACTOR = 3  # times as many pixels per point, for doubtful words
SMALL_BOX = 8.0  # points: the side of a check box that must be drawn twice as fine
MAX_LAYERS = 8  # of text over text; deeper text counts as hidden
COPY_SHIFT = 2.0  # points, between copies of a text object that PDFium gives no characters
MAX_TWIN_SHIFT = 0.14  # of its height, between two such; narrow letters, such as ll, are 0.16 apart
MIN_TWIN_OVERLAP = 0.85  # overlap from which two equal characters count as one printed twice for bold
SQUARE_PIXELS = 8  # pixels: pictures are measured in squares of the page that show an edge, as every letter does
MIN_EDGE_CONTRAST = 24  # levels, as of pale print
MIN_PICTURE_SHARE = 0.006  # of the page's squares, as of a printed line of 10 cm
MIN_LINE_SIZE = (15.0, 4.5)  # points: width and height of what may be a short line of print
MAX_LOGO_SHARE = 0.03
MIN_IMAGE_PIXELS = 4  # a smaller image contains no text
MAX_DECODED, MAX_DECODED_PIXELS = 20, 25_000_000  # images tried in order to find damaged ones
MAX_THIN_LINE, MAX_LINE_THICKNESS = 2.5, 6.0  # points
MAX_THICKNESS_SHARE = 0.5  # of the height of a word
LINE_SEGMENTS = range(2, 7)
MIN_WORD_SHARE = 0.5  # of a line that strikes out words: the rest is between words
STRUCK_SHARES = (0.4, 0.72)  # of a word's height from its top: a line between them goes through the word, not below it
MIN_DRAWN_SHARE = 0.3  # of a line: the rest may be gaps between dashes or dots
MAX_SLANTED_LINES = 300
SLANTED_SHARES = (0.25, 0.85)  # as STRUCK_SHARES, of the middle of a line that rises or falls
_TENTHS = range(1, 10)  # tenths of a line
MIN_LETTER_SEGMENTS = 6  # of a path that may be a letter
MAX_LETTER_SEGMENTS = 200  # of a path, to be looked at
MAX_LETTER_HEIGHT = 40.0  # points, of a path without curves, or of one that is read alone
MAX_DIGIT_GAP = 1.2  # of a digit's height: a comma or point, which may be no letter, is between digits of one number
MAX_LETTER_PATHS, MAX_LONE_DIGITS = 2000, 30
MIN_INK_SHARE = 0.04  # share of a letter's or digit's box; the digit 1 in a wide font covers 0.1

_VISIBLE_LEVELS = [0] * MIN_CONTRAST + [255] * (
    256 - MIN_CONTRAST
)  # maps invisible differences to 0, visible ones to 255

Box = tuple[float, float, float, float]
Pixels = tuple[int, int, int, int]


_SYMBOLIC, _NONSYMBOLIC = 1 << 2, 1 << 5  # flags of a font: of another script than Latin, and of Latin
_FILLING_MODES = frozenset({0, 2, 4, 6})  # render modes that fill
_MAX_COORDINATE = 1e7  # points; NaN is not below it either
MAX_DEPTH = 12  # of forms within forms


class LayerWord(NamedTuple):
    """A word of the text layer: its characters are `start` to `end`. The box is in points. `slant` is the exact
    direction of a slanted word, in quarter turns."""

    start: int
    end: int
    text: str
    direction: int
    box: Box
    slant: float | None = None

    @property
    def line_direction(self) -> float:
        """The direction of the line that the word is on. Right-to-left words are on a left-to-right line, which
        `layout_page` orders."""
        if self.slant is not None:
            return self.slant
        return 0 if self.direction == 2 and is_right_to_left(self.text) else self.direction


class Pictures(NamedTuple):
    """The box around a page's pictures. `logo` is equal for small pictures that look the same at the same position."""

    box: Box
    logo: int | None


class _WordRow:
    """Words in the same rows of pixels, and the columns that one or two of them cover, as bits."""

    def __init__(self, ink: bytes) -> None:
        self.ink = ink  # for each column whether it has ink
        self.covered = self.covered_twice = 0
        # Index, left, right, the gap that a visible word does not have, columns as bits, and the columns of each
        # character where several objects make the word.
        self.members: list[tuple[int, int, int, bytes, int, list[tuple[int, int]] | None]] = []


class VisibilityDetector:
    """Finds which words of one page a person can see. Boxes are in points from the page's top left corner."""

    def __init__(
        self,
        page: Any,
        layer: Any,
        size: tuple[float, float],
        box_of: Callable[[int], Box],
        order: Sequence[int],  # the index of each character in PDFium
    ) -> None:
        self._handle = page
        self._page, self._layer = address(page), address(layer)
        self._box_of = box_of
        self._order = order
        self.texts: list[Handle] = []
        self._images: list[Handle] = []
        self._forms_around: dict[Handle, tuple[Any, ...]] = {}  # of images, as matrices
        here = self._page
        # With the number of segments, and the matrices of the forms around.
        self._paths: list[tuple[Handle, int, tuple[Any, ...]]] = []
        self._letters: list[tuple[Handle, int, tuple[Any, ...]]] = []  # paths that may be letters
        self._collect([get_object(here, index) for index in range(count_objects(here))], ())
        width, height = size
        self._smallest = min(MIN_LETTER_HEIGHT, max(size) * MIN_LETTER_HEIGHT_SHARE)
        self._scale = min(
            max(MIN_PIXELS_PER_POINT, MIN_PAGE_PIXELS / max(size)), (MAX_PIXELS / (width * height)) ** 0.5
        )
        self._columns, self._rows = max(1, int(width * self._scale)), max(1, int(height * self._scale))
        self.lines: list[Box] = []  # left, top, right, bottom in page coordinates, as for all paths
        self.slanted_lines: list[Box] = []  # of a drawing with more than MAX_SLANTED, these
        self.outlines: list[tuple[Box, bool]] = []  # possible check boxes, and whether each may be round
        self._measure_paths()
        self._shown: Image.Image | None = None
        self._with_pictures: Image.Image | None = None
        self._full = self._bare = self._draw_part((0, 0, self._columns, self._rows), "full")

    def _collect(self, items: list[Handle], matrices: tuple[Any, ...]) -> None:
        kinds = list(map(get_type, items))
        self.texts += [item for item, kind in zip(items, kinds, strict=True) if kind == TEXT_OBJECT]
        images = [item for item, kind in zip(items, kinds, strict=True) if kind == IMAGE_OBJECT]
        self._images += images
        self._forms_around.update(dict.fromkeys(images, matrices))
        paths = [item for item, kind in zip(items, kinds, strict=True) if kind == PATH_OBJECT]
        counted = [(path, count_segments(path), matrices) for path in paths]
        self._letters += [path for path in counted if _may_be_letter(*path)]
        self._paths += counted
        for form in [
            item for item, kind in zip(items, kinds, strict=True) if kind == FORM_OBJECT and len(matrices) < MAX_DEPTH
        ]:
            matrix: Any = pdfium.FS_MATRIX()
            get_matrix(form, ctypes.byref(matrix))
            self._collect([get_part(form, index) for index in range(count_parts(form))], (matrix, *matrices))

    def visible_ranges(self, words: Sequence[LayerWord], codes: Sequence[int]) -> list[list[tuple[int, int]]]:
        """Return for each word the ranges (start, end) of its visible characters.

        There is one range for a fully visible word, and none for a hidden one. A "0" hidden in "100,00" leaves two.
        """
        whole: list[list[tuple[int, int]]] = [[(word.start, word.end)] for word in words]
        small = [_is_microscopic(word, self._smallest) for word in words]
        doubtful = [index for index in self._doubtful_words(words) if not small[index]]
        if doubtful:
            visible = self._visible_characters([words[index] for index in doubtful], codes)
            for index in doubtful:
                whole[index] = _visible_ranges(words[index], visible)
        return [[] if small[index] else stretches for index, stretches in enumerate(whole)]

    @property
    def is_blank(self) -> bool:
        """Return whether the page shows nothing at all."""
        extremes: Any = self._full.getextrema()
        return extremes[1] - extremes[0] < MIN_CONTRAST

    def _measure_paths(self) -> None:
        """Collect horizontal and vertical lines, and outlines that may be check boxes."""
        for path, count, matrices in self._paths:
            left, top, right, bottom = _bounds(path, matrices)
            thickness, length = sorted((right - left, top - bottom))
            if length < _MAX_COORDINATE and thickness <= MAX_THIN_LINE:
                self.lines.append((left, top, right, bottom))
                continue
            if length < _MAX_COORDINATE and thickness <= 2 * MAX_LINE_THICKNESS:
                self.lines.append(_without_margin((left, top, right, bottom), path, matrices))
            if count > 3 and is_candidate((left, bottom, right, top)):
                self.outlines.append(((left, top, right, bottom), count > 6))
            if count in LINE_SEGMENTS and len(self.slanted_lines) < MAX_SLANTED_LINES:
                self.slanted_lines += _straight_lines(path, count, matrices)

    def shows_slanted_line(self, line: Box) -> bool:
        """Return whether the page without its text shows something along a whole line from one point to another."""
        x0, y0, x1, y1 = (side * self._scale for side in line)
        seen = 0
        for n in _TENTHS:
            x, y = int(x0 + (x1 - x0) * n / 10), int(y0 + (y1 - y0) * n / 10)
            spot: Any = self._bare.crop((x - 2, y - 2, x + 3, y + 3)).getextrema()
            is_inside = 2 <= x < self._columns - 2 and 2 <= y < self._rows - 2
            seen += is_inside and spot[1] - spot[0] >= MIN_CONTRAST
        return seen > 0.8 * len(_TENTHS)

    def drawn_around(self, boxes: Sequence[Box], margin: float) -> tuple[Image.Image, float, tuple[float, float]]:
        """Return a finer grey picture of the page around some boxes, its pixels per point, and its origin."""
        finer = FINE_FACTOR if min(box[2] - box[0] for box in boxes) > SMALL_BOX else 2 * FINE_FACTOR
        scale = self._scale * finer
        x0, y0, x1, y1 = (list(sides) for sides in zip(*boxes, strict=True))
        left, top, right, bottom = _pixels(
            (min(x0) - margin) * scale, (min(y0) - margin) * scale,
            (max(x1) + margin) * scale, (max(y1) + margin) * scale,
            self._columns * finer, self._rows * finer,
        )  # fmt: skip
        part = left, top, max(right - left, 1), max(bottom - top, 1)
        return self._draw_part(part, finer=finer).convert("L"), scale, (left / scale, top / scale)

    def shows_line(self, box: Box) -> bool:
        """Return whether the page without its text shows a line along a whole box, on one background. The line may be
        dashed. A thick line must be darker than a marker, which highlights words."""
        left, top, right, bottom = (side * self._scale for side in box)
        contrast = MIN_CONTRAST if box[3] - box[1] <= MAX_THIN_LINE else 4 * MIN_CONTRAST
        x0, _, x1, _ = _pixels(left, top, right, bottom, self._columns, self._rows)
        middle = int((top + bottom) / 2)
        rows = [self._bare.crop((x0 + 1, y, max(x1 - 1, x0 + 2), y + 1)) for y in range(middle - 3, middle + 3)]
        extremes: Any = rows[0].getextrema()
        darkest, lightest = max(extremes[0] - contrast + 1, 0), extremes[1] + contrast
        levels = [row.histogram() for row in rows[1:]]
        most = max(max(sum(counts[:darkest]), sum(counts[lightest:])) for counts in levels)
        return most >= MIN_DRAWN_SHARE * rows[0].width

    def _pictures_shown(self) -> Image.Image:
        """Return what images, and paths that may be letters, change on the page without its text."""
        if self._shown is None:
            size = self._columns, self._rows
            pictures = [*self._images, *(path for path, _, _ in self._letters)]
            self._set_visible(self.texts, False)
            is_drawn = self._bare is not self._full
            self._with_pictures = self._bare if is_drawn else self._draw_part((0, 0, *size), "bare")
            self._set_visible(pictures, False)
            self._shown = ImageChops.difference(self._with_pictures, self._draw_part((0, 0, *size), "plain"))
            self._set_visible([*self.texts, *pictures], True)
        return self._shown

    def find_pictures(self) -> Pictures | None:
        """Return where images, and paths that may be letters, are visible; None if only on a small part of the page."""
        if not self._images and not self._letters:
            return None
        shown, with_pictures = self._pictures_shown(), self._with_pictures
        assert with_pictures is not None
        steps = [ImageChops.difference(with_pictures, ImageChops.offset(with_pictures, *by)) for by in ((1, 0), (0, 1))]
        edges = ImageChops.lighter(*steps).point([0] * MIN_EDGE_CONTRAST + [255] * (256 - MIN_EDGE_CONTRAST))
        drawn = ImageChops.darker(edges, shown.point(_VISIBLE_LEVELS))
        squares = drawn.reduce(SQUARE_PIXELS).point([0] + [255] * 255)
        box = squares.getbbox()
        share = squares.histogram()[255] / (squares.width * squares.height)
        if box is None or (share < MIN_PICTURE_SHARE and not self._has_text_line(drawn, squares)):
            return None
        x0, y0, x1, y1 = (
            (side + around) * SQUARE_PIXELS / self._scale for side, around in zip(box, (-1, -1, 1, 1), strict=True)
        )
        logo = hash(shown.tobytes()) if share < MAX_LOGO_SHARE else None
        return Pictures((max(x0, 0.0), max(y0, 0.0), x1, y1), logo)

    def find_lone_digits(self, as_shown: Callable[[float, float, float, float], Box]) -> list[Box]:
        """Return the boxes of visible paths that may be a digit or two, without others beside them. If there are many,
        they are a drawing, and no box is returned."""
        boxes: list[Box] = []
        for path, _, matrices in self._letters:
            left, top, right, bottom = as_shown(*_bounds(path, matrices))
            if MIN_LINE_SIZE[1] <= bottom - top <= MAX_LETTER_HEIGHT and _is_filled(path):
                boxes.append((left, top, right, bottom))
        words: list[Box] = []
        for left, top, right, bottom in sorted(boxes)[:MAX_LETTER_PATHS]:
            beside = next((box for box in words if _is_beside(box, (left, top, right, bottom))), None)
            if beside is not None:
                words.remove(beside)
                left, right = min(left, beside[0]), max(right, beside[2])
                top, bottom = min(top, beside[1]), max(bottom, beside[3])
            words.append((left, top, right, bottom))
        words = [box for box in words if _may_be_digits(box)]
        if not 0 < len(words) <= MAX_LONE_DIGITS:
            return []
        return list(filter(self._shows_picture, words))

    def _shows_picture(self, box: Box) -> bool:
        """Return whether an image, or a path that may be a letter, is visible in a box."""
        left, top, right, bottom = (side * self._scale for side in box)
        x0, y0, x1, y1 = _pixels(left, top, right, bottom, self._columns, self._rows)
        shown = self._pictures_shown().crop((x0, y0, max(x1, x0), max(y1, y0)))
        return shown.point(_VISIBLE_LEVELS).getbbox() is not None

    def count_unreadable_images(self, as_shown: Callable[[float, float, float, float], Box]) -> int:
        """Return how many images on the page cannot be decoded. Only images that show nothing are checked."""
        if not self._images:
            return 0
        size, shown = (self._columns, self._rows), self._pictures_shown()
        count = decoded = 0
        for image in self._images:
            left, top, right, bottom = (
                side * self._scale for side in as_shown(*_bounds(image, self._forms_around[image]))
            )
            x0, y0, x1, y1 = _pixels(left, top, right, bottom, *size)
            if x1 - x0 < MIN_IMAGE_PIXELS or y1 - y0 < MIN_IMAGE_PIXELS or shown.crop((x0, y0, x1, y1)).getbbox():
                continue
            decoded += 1
            if decoded > MAX_DECODED:
                break
            count += not _can_be_decoded(image)
        return count

    def _has_text_line(self, drawn: Image.Image, squares: Image.Image) -> bool:
        """Return whether adjacent squares are as wide and high as a short line of print."""
        columns, remaining = squares.width, bytearray(squares.tobytes())
        while (start := remaining.find(255)) >= 0:
            remaining[start] = 0
            queue, rows, across = [start], list[int](), list[int]()
            while queue:
                y, x = divmod(queue.pop(), columns)
                rows.append(y)
                across.append(x)
                for row in range(max(y - 1, 0), min(y + 2, squares.height)):
                    for at in range(row * columns + max(x - 1, 0), row * columns + min(x + 2, columns)):
                        if remaining[at]:
                            remaining[at] = 0
                            queue.append(at)
            x0, y0, x1, y1 = min(across), min(rows), max(across) + 1, max(rows) + 1
            box = drawn.crop((x0 * SQUARE_PIXELS, y0 * SQUARE_PIXELS, x1 * SQUARE_PIXELS, y1 * SQUARE_PIXELS)).getbbox()
            if box is None:
                continue
            width, height = (box[2] - box[0]) / self._scale, (box[3] - box[1]) / self._scale
            if width >= MIN_LINE_SIZE[0] and height >= MIN_LINE_SIZE[1] and width >= 2 * height:
                return True
        return False

    def has_divider(self, left: float, top: float, right: float, bottom: float) -> bool:
        """Return whether the page without its text shows a vertical line from top to bottom of a box."""
        x0, y0, x1, y1 = (side * self._scale for side in (left, top, right, bottom))
        pixels = _pixels(x0, y0, x1, y1, self._columns, self._rows)
        if pixels[0] >= pixels[2] or pixels[1] >= pixels[3]:
            return False
        part = self._bare.crop(pixels)
        levels = part.tobytes()
        columns = [levels[at :: part.width] for at in range(part.width)]
        paper = max(map(min, columns))  # of the lightest column
        return any(max(column) <= paper - MIN_CONTRAST for column in columns)

    def has_drawing(self, box: Box) -> bool:
        """Return whether anything is drawn within the box."""
        left, top, right, bottom = (side * self._scale for side in box)
        x0, y0, x1, y1 = _pixels(left, top, right, bottom, self._columns, self._rows)
        if x0 >= x1 or y0 >= y1:
            return False
        extremes: Any = self._full.crop((x0, y0, x1, y1)).getextrema()
        return extremes[1] - extremes[0] >= MIN_CONTRAST

    def _doubtful_words(self, words: Sequence[LayerWord]) -> list[int]:
        self._set_visible(self.texts, False)
        bare = self._draw_part((0, 0, self._columns, self._rows), "bare")
        self._bare = bare
        ink = ImageChops.difference(self._full, bare).tobytes()
        word_rows, doubtful = self._group_into_rows(words, ink)
        doubtful += self._words_with_gaps_outside_overlaps(words, word_rows, ink)
        return sorted(set(doubtful))

    def _group_into_rows(
        self, words: Sequence[LayerWord], ink: bytes
    ) -> tuple[dict[tuple[int, int], _WordRow], list[int]]:
        """Return the words by the rows of pixels that they cover, and the indexes of words with a gap in their ink."""
        scale = self._scale
        columns, rows = self._columns, self._rows
        layer, order = self._layer, self._order
        doubtful: list[int] = []
        # Most words of a line are equally high: the ink of their rows is summed up once, over the page's width.
        word_rows: dict[tuple[int, int], _WordRow] = {}
        for index, (start, end, text, direction, (left, top, right, bottom), _) in enumerate(words):
            x0, y0 = max(int(left * scale), 0), max(int(top * scale), 0)
            x1, y1 = min(int(right * scale) + 1, columns), min(int(bottom * scale) + 1, rows)
            if x0 >= x1 or y0 >= y1:
                doubtful.append(index)
                continue
            word_row = word_rows.get((y0, y1))
            if word_row is None:
                word_row = word_rows[y0, y1] = _WordRow(_ink_by_column(ink, columns, range(y0, y1)))
            spans = None
            if end - start > 1 and text_object(layer, order[start]) != text_object(layer, order[end - 1]):
                spans = self._character_spans(words[index])
            if direction % 2 == 0:
                gap = bytes(max(2, int((right - left) * scale / len(text) * 0.9 + 1)))
                word_ink = word_row.ink[x0:x1]
            else:
                gap = bytes(max(2, int((bottom - top) * scale / len(text) * 0.9 + 1)))
                word_ink = _ink_by_row(ink, columns, range(x0, x1), y0, y1)
                x0, x1 = x0 - 1, x1 + 1  # words above each other share no row
            if gap in word_ink or not any(word_ink) or not (spans is None or _each_has_ink(word_row.ink, spans)):
                doubtful.append(index)
            # Words that follow each other may share a column of pixels.
            column_bits = (1 << x1 - x0 - 2) - 1 << x0 + 1 if x1 - x0 > 2 else (1 << x1 - x0) - 1 << x0
            word_row.covered_twice |= word_row.covered & column_bits
            word_row.covered |= column_bits
            word_row.members.append((index, x0, x1, gap, column_bits, spans))
        return word_rows, doubtful

    def _words_with_gaps_outside_overlaps(
        self, words: Sequence[LayerWord], word_rows: dict[tuple[int, int], _WordRow], ink: bytes
    ) -> list[int]:
        """Return the indexes of words with a gap in their ink, without the ink where words overlap: it could belong to
        either."""
        columns, rows = self._columns, self._rows
        doubtful: list[int] = []
        covered = [0] * rows
        contested = [0] * rows
        for (y0, y1), word_row in word_rows.items():
            for y in range(y0, y1):
                contested[y] |= covered[y] & word_row.covered | word_row.covered_twice
                covered[y] |= word_row.covered
        # If two words overlap, the ink there proves neither of them. Lines may overlap at their edges: the ink there
        # proves nothing, but the ink beside it can only be the word's own.
        for (y0, y1), word_row in word_rows.items():
            touched = 0
            for y in range(y0, y1):
                touched |= contested[y]
            if not touched & word_row.covered:
                continue
            undisputed = _ink_by_column(ink, columns, [y for y in range(y0, y1) if not contested[y] & word_row.covered])
            left_over: dict[tuple[int, ...], bytes] = {}
            for index, x0, x1, gap, column_bits, spans in word_row.members:
                if not column_bits & touched:
                    continue
                if words[index].direction % 2:
                    word_ink = _ink_by_row(
                        ink, columns, [x for x in range(x0 + 1, x1 - 1) if not touched >> x & 1], y0, y1
                    )
                    if gap in word_ink or not any(word_ink) or spans is not None:
                        doubtful.append(index)
                    continue
                word_ink = undisputed[x0:x1]
                if gap in word_ink or not any(word_ink) or not (spans is None or _each_has_ink(undisputed, spans)):
                    alone = tuple([y for y in range(y0, y1) if not contested[y] & column_bits])
                    whole = left_over.get(alone)
                    if whole is None:
                        whole = left_over[alone] = _ink_by_column(ink, columns, alone)
                    word_ink = whole[x0:x1]
                    if gap in word_ink or not any(word_ink) or not (spans is None or _each_has_ink(whole, spans)):
                        doubtful.append(index)
        return doubtful

    def _character_spans(self, word: LayerWord) -> list[tuple[int, int]]:
        """Return the columns of each character of a word made of several objects; empty if characters overlap."""
        if word.direction % 2:
            return []
        columns: list[tuple[int, int]] = []
        scale, box_of = self._scale, self._box_of
        order = range(word.start, word.end) if word.direction == 0 else range(word.end - 1, word.start - 1, -1)
        end = before = 0.0  # a word that begins outside the page is doubtful
        for index in order:
            left, _, right, _ = box_of(index)
            wide = right - left
            if not end - 0.15 * (wide if wide < before else before) <= left <= right < _MAX_COORDINATE:
                return []
            end, before = right, wide
            # Only whole pixels, which no neighbour reaches.
            x0, x1 = int(left * scale) + 1, int(right * scale)
            columns.append((x0, x1) if x0 < x1 else (x0 - 1, x1 + 1))
        return columns

    def _visible_characters(self, words: Sequence[LayerWord], codes: Sequence[int]) -> set[int]:
        """Return the indexes of the characters of doubtful words that have ink of their own."""
        scale = self._scale * FINE_FACTOR
        # Only the part of the page that contains them.
        left, top, right, bottom = _pixels(
            min(word.box[0] for word in words) * scale,
            min(word.box[1] for word in words) * scale,
            max(word.box[2] for word in words) * scale,
            max(word.box[3] for word in words) * scale,
            self._columns * FINE_FACTOR,
            self._rows * FINE_FACTOR,
        )
        columns, rows = right - left, bottom - top
        if columns <= 0 or rows <= 0:
            return set()
        part = left, top, columns, rows
        boxes: dict[int, Box] = {}
        owners: dict[Handle, list[int]] = {}
        unowned: set[int] = set()
        for word in words:
            for index in range(word.start, word.end):
                x0, y0, x1, y1 = self._box_of(index)
                boxes[index] = x0 * scale - left, y0 * scale - top, x1 * scale - left, y1 * scale - top
                owner = text_object(self._layer, self._order[index])
                if owner:
                    owners.setdefault(owner, []).append(index)
                else:
                    unowned.add(index)
        background = self._draw_part(part)  # all text was left out when the doubtful words were found
        self._set_visible(self.texts, True)
        full = self._draw_part(part)
        from_background = _difference(full, background)
        visible: set[int] = set(unowned)
        repeated = _printed_twice(
            words, boxes, codes, {index: item for item, indexes in owners.items() for index in indexes}
        )
        copies = self._copies(owners)
        for objects in self._assign_to_layers(owners, boxes, codes, columns, rows):
            drawn = [one for item in objects for one in (item, *copies.get(item, ()))]
            self._set_visible(drawn, False)
            # Ink differs from the background. White text over black text on white changes pixels back to it.
            without = _difference(self._draw_part(part), background)
            ink = ImageChops.subtract(from_background, without).point(_VISIBLE_LEVELS)
            self._set_visible(drawn, True)
            for item in objects:
                visible.update(index for index in owners[item] if _has_ink(ink, boxes[index], chr(codes[index])))
            for item in objects:
                if not self._has_font(item):
                    visible.update(
                        index
                        for index in owners[item]
                        if self._would_be_visible(item, codes[index], full, boxes[index])
                    )
        return visible - repeated

    def _texts_with_characters(self) -> set[Handle]:
        return {text_object(self._layer, index) for index in self._order if index >= 0}

    def count_texts_without_font(self) -> int:
        """Return how many text objects have no characters because their font is neither embedded nor installed.

        PDFium gives neither characters nor glyphs of a font without glyphs, such as a Japanese one. A Latin font is
        always replaced: its objects without characters are spaces.
        """
        fonts = list(map(get_font, self.texts))
        missing = [
            font
            for font in set(fonts)
            if get_font_flags(font) & (_SYMBOLIC | _NONSYMBOLIC) == _SYMBOLIC and not is_embedded(font)
        ]
        shown = self._texts_with_characters() if missing else set[Handle]()
        count = 0
        for font in missing:
            are_shown = [item in shown for item, its_font in zip(self.texts, fonts, strict=True) if its_font == font]
            count += are_shown.count(False) if 2 * sum(are_shown) < len(are_shown) else 0
        return count

    def _copies(self, items: Collection[Handle]) -> dict[Handle, list[Handle]]:
        """Return the further text objects that draw the same text at the same position, such as its outline or its
        filling. PDFium gives all characters to the first of them, which the others may cover."""
        without_characters = set(self.texts) - self._texts_with_characters()
        middles = {item: _middle(_bounds(item, ())) for item in (*items, *without_characters)}
        near: dict[tuple[int, int], Handle] = {}
        for item in items:
            x, y = (int(at // COPY_SHIFT) for at in middles[item])
            near |= dict.fromkeys(product(range(x - 1, x + 2), range(y - 1, y + 2)), item)
        found: dict[Handle, list[Handle]] = {}
        for item in without_characters:
            x, y = (int(at // COPY_SHIFT) for at in middles[item])
            if (x, y) in near:
                found.setdefault(near[x, y], []).append(item)
        return found

    def _assign_to_layers(
        self,
        owners: dict[Handle, list[int]],
        character_boxes: dict[int, Box],
        codes: Sequence[int],
        columns: int,
        rows: int,
    ) -> list[list[Handle]]:
        """Return the objects in layers. In a layer, no object reaches an area where the ink of another is counted. The
        same character at the same position is an exception: bold print is often made by printing twice."""
        layers: list[list[Handle]] = []
        occupied: list[tuple[bytearray, bytearray]] = []  # (where characters reach, where their ink is counted)
        for item, indexes in owners.items():
            object_boxes: list[tuple[Pixels, Pixels, int]] = []
            for index in indexes:
                inner = _own_area(character_boxes[index], chr(codes[index]), columns, rows)
                object_boxes.append((_pixels(*character_boxes[index], columns, rows), inner, codes[index] % 254 + 1))
            free = (
                depth
                for depth, (reach, counted) in enumerate(occupied)
                if all(_is_free(reach, counted, columns, *box) for box in object_boxes)
            )
            depth = next(free, len(layers))
            if depth == MAX_LAYERS:
                continue
            if depth == len(layers):
                layers.append([])
                occupied.append((bytearray(columns * rows), bytearray(columns * rows)))
            layers[depth].append(item)
            for outer, inner, mark in object_boxes:
                _mark_area(occupied[depth][0], columns, outer, mark)
                _mark_area(occupied[depth][1], columns, inner, mark)
        return layers

    def _has_font(self, item: Handle) -> bool:
        return bool(is_embedded(get_font(item)))

    def _would_be_visible(self, item: Handle, code: int, full: Image.Image, box: Box) -> bool:
        """Return whether a letter without a font would be visible on a machine that has it, by its colour and render
        mode."""
        if glyph_path(get_font(item), code, 12.0):
            return False  # there is a glyph, but it left no ink
        red, green, blue, alpha = (ctypes.c_uint() for _ in range(4))
        by_reference = [ctypes.byref(part) for part in (red, green, blue, alpha)]
        if (
            get_render_mode(item) not in _FILLING_MODES
            or not get_fill_color(item, *by_reference)
            or alpha.value < MIN_CONTRAST
        ):
            return False
        x0, y0, x1, y1 = _pixels(*box, *full.size)
        if x0 >= x1 or y0 >= y1:
            return False
        area = full.crop((x0, y0, x1, y1))
        background = area.resize((1, 1), Image.Resampling.BOX).getpixel((0, 0))
        assert isinstance(background, tuple)
        return any(
            abs(color.value - paper) >= MIN_CONTRAST
            for color, paper in zip((red, green, blue), background, strict=True)
        )

    def _set_visible(self, objects: Sequence[Handle], active: bool) -> None:
        for item in objects:
            set_active(item, active)

    def _draw_part(
        self, part: tuple[int, int, int, int], canvas_name: str | None = None, finer: int = FINE_FACTOR
    ) -> Image.Image:
        """Return a picture of a part of the page (left, top, columns, rows in pixels). With a canvas it is coarse and
        grey, and valid until the canvas is reused. Without one it is finer and in colour."""
        left, top, columns, rows = part
        grey = canvas_name is not None
        finer = 1 if grey else finer
        kind = pdfium.FPDFBitmap_Gray if grey else pdfium.FPDFBitmap_BGRx
        stride = columns if grey else 4 * columns
        # Fresh memory for each of thousands of drawings takes the system longer than drawing.
        canvas: Any = _canvas(canvas_name) if canvas_name else (ctypes.c_char * (stride * rows))()
        ctypes.memset(canvas, 255, stride * rows)
        bitmap: Any = pdfium.FPDFBitmap_CreateEx(columns, rows, kind, canvas, stride)
        if not bitmap:
            raise MemoryError
        flags = pdfium.FPDF_ANNOT | (pdfium.FPDF_GRAYSCALE if grey else pdfium.FPDF_REVERSE_BYTE_ORDER)
        scale = self._scale * finer
        matrix, clip = pdfium.FS_MATRIX(scale, 0, 0, scale, -left, -top), pdfium.FS_RECTF(0, 0, columns, rows)
        pdfium.FPDF_RenderPageBitmapWithMatrix(bitmap, self._handle, ctypes.byref(matrix), ctypes.byref(clip), flags)
        pdfium.FPDFBitmap_Destroy(bitmap)
        if grey:
            return Image.frombuffer("L", (columns, rows), canvas, "raw", "L", stride, 1)
        return Image.frombytes("RGB", (columns, rows), canvas, "raw", "RGBX", stride, 1)


@cache
def _canvas(name: str) -> Any:
    return (ctypes.c_char * MAX_PIXELS)()


@lru_cache(maxsize=1024)
def _mask(span: int) -> int:
    return int.from_bytes(bytes([256 - MIN_CONTRAST]) * span, "little")


def _pixels(left: float, top: float, right: float, bottom: float, columns: int, rows: int) -> Pixels:
    x0, y0 = max(int(min(left, columns)), 0), max(int(min(top, rows)), 0)
    return x0, y0, min(int(max(right, -1)) + 1, columns), min(int(max(bottom, -1)) + 1, rows)


def _ink_by_column(ink: bytes, columns: int, rows: Sequence[int]) -> bytes:
    seen = 0
    number = int.from_bytes
    for y in rows:
        seen |= number(ink[y * columns : (y + 1) * columns], "little")
    return (seen & _mask(columns)).to_bytes(columns, "little")


def _ink_by_row(ink: bytes, columns: int, columns_of_word: Sequence[int], y0: int, y1: int) -> bytes:
    seen = 0
    for x in columns_of_word:
        seen |= int.from_bytes(ink[y0 * columns + x : (y1 - 1) * columns + x + 1 : columns], "little")
    return (seen & _mask(y1 - y0)).to_bytes(y1 - y0, "little")


def _each_has_ink(ink: bytes, spans: Sequence[tuple[int, int]]) -> bool:
    return bool(spans) and all(any(ink[start:end]) for start, end in spans)


def struck_parts(words: Sequence[LayerWord], lines: Sequence[Box]) -> dict[int, list[Box]]:
    """Return the parts of level lines that strike through words, by the word's index. Boxes are in points from the top
    left corner. A line that continues where there are no words is a table rule."""
    level = _join_dashes(lines)
    middles = [(line[1] + line[3]) / 2 for line in level]
    through: dict[Box, list[tuple[int, Box]]] = {}
    for index, word in enumerate(words):
        left, top, right, bottom = word.box
        if not level or (word.direction != 0 and not is_right_to_left(word.text)):
            continue
        first, end = (bisect_left(middles, top + share * (bottom - top)) for share in STRUCK_SHARES)
        for line in level[first:end]:
            x0, x1 = max(left, line[0]), min(right, line[2])
            if x0 < x1 and line[3] - line[1] <= MAX_THICKNESS_SHARE * (bottom - top):
                through.setdefault(line, []).append((index, (x0, line[1], x1, line[3])))
    struck: dict[int, list[Box]] = {}
    for line, found in through.items():
        if sum(part[2] - part[0] for _, part in found) > MIN_WORD_SHARE * (line[2] - line[0]):
            for index, part in found:
                struck.setdefault(index, []).append(part)
    return struck


def struck_area(line: Box, height: float) -> Box:
    """Return the area that contains the centre of each character of this height that a level line strikes through."""
    left, top, right, bottom = line
    middle = (top + bottom) / 2
    above, below = ((0.5 - share) * height for share in reversed(STRUCK_SHARES))
    return left, middle + above, right, middle + below


def _join_dashes(lines: Sequence[Box]) -> list[Box]:
    """Return the level lines from top to bottom, the dashes or dots of one line as one."""
    # On rotated pages the corners of lines are in another order.
    level = [(min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1)) for x0, y0, x1, y1 in lines]
    level = sorted(
        (line for line in level if line[3] - line[1] <= MAX_LINE_THICKNESS), key=lambda one: (one[1], one[0])
    )
    found: list[Box] = []
    for line in level:
        x0, top, x1, bottom = found[-1] if found else line
        is_next = abs(line[1] - top) < 0.1 and abs(line[3] - bottom) < 0.1
        if found and is_next and x0 <= line[0] <= x1 + 1 + 3 * (bottom - top):
            found[-1] = x0, top, max(x1, line[2]), bottom
        else:
            found.append(line)
    return sorted(found, key=lambda line: line[1] + line[3])


def crossed_words(words: Sequence[LayerWord], lines: Sequence[Box]) -> dict[int, tuple[Box, ...]]:
    """Return the words that slanted lines strike through, and those under two crossing lines: by index, these lines.
    Lines are from one point to another, in points from the top left corner of the page."""
    if not lines:
        return {}
    level = sorted((index for index, word in enumerate(words) if word.direction == 0), key=lambda n: words[n].box[1])
    tops = [words[index].box[1] for index in level]
    tallest = max((words[index].box[3] - words[index].box[1] for index in level), default=0.0)
    lines = [line if line[0] <= line[2] else (line[2], line[3], line[0], line[1]) for line in lines]
    found: dict[int, tuple[Box, ...]] = {}

    def words_near(line: Box) -> list[int]:
        first = bisect_left(tops, min(line[1], line[3]) - tallest)
        end = bisect_left(tops, max(line[1], line[3]))
        return [n for n in level[first:end] if words[n].box[0] < line[2] and line[0] < words[n].box[2]]

    for line in lines:
        struck = {index: part for index in words_near(line) if (part := _struck_width(words[index].box, line))}
        if sum(struck.values()) > MIN_WORD_SHARE * (line[2] - line[0]):
            found |= dict.fromkeys(struck, (line,))
    falling, rising = ([line for line in lines if (line[3] > line[1]) is falls] for falls in (True, False))
    for falling_line, rising_line in product(falling, rising):
        left, top, right, bottom = falling_line
        across, down = 0.2 * (right - left), 0.2 * (bottom - top)
        is_cross = abs(rising_line[0] - left) <= across and abs(rising_line[2] - right) <= across
        if is_cross and abs(rising_line[3] - top) <= down and abs(rising_line[1] - bottom) <= down:
            for index in words_near(falling_line):
                x, y = _middle(words[index].box)
                if left < x < right and top < y < bottom and bottom - top > words[index].box[3] - words[index].box[1]:
                    found[index] = falling_line, rising_line
    return found


def _middle(box: Box) -> tuple[float, float]:
    return (box[0] + box[2]) / 2, (box[1] + box[3]) / 2


def _struck_width(box: Box, line: Box) -> float:
    """Return the width of a word if a line crosses all of it, or crosses its middle from top to bottom; else 0."""
    left, top, right, bottom = box
    x0, y0, x1, y1 = line
    x = (left + right) / 2
    across, down = right - left, bottom - top
    if not (across > 0 and down > 0):
        return 0.0
    rise = (y1 - y0) / max(x1 - x0, 1e-6)
    at_middle = (y0 + (x - x0) * rise - top) / down
    low, high = SLANTED_SHARES if abs(rise) > 0.05 else STRUCK_SHARES
    if not (x0 <= x <= x1 and low <= at_middle <= high):
        return 0.0
    start, end = max(x0, left), min(x1, right)
    ends = sorted(y0 + (at - x0) * rise for at in (start, end))
    if end - start >= 0.8 * across and ends[0] >= top - 0.3 * down and ends[1] <= bottom + 0.3 * down:
        return end - start
    inside = min(ends[1], bottom) - max(ends[0], top)
    is_steep = inside >= 0.6 * down and abs(y1 - y0) < 3 * down and x1 - x0 >= 0.4 * across
    return end - start if is_steep else 0.0


def _can_be_decoded(image: Handle) -> bool:
    across, down = ctypes.c_uint(), ctypes.c_uint()
    get_image_size(image, ctypes.byref(across), ctypes.byref(down))
    if across.value * down.value > MAX_DECODED_PIXELS:
        return True
    bitmap = get_bitmap(image)
    if bitmap:
        destroy_bitmap(bitmap)
    return bool(bitmap)


def _bounds(item: Handle, matrices: Sequence[Any]) -> Box:
    """Return left, top, right and bottom of an object in page coordinates. `matrices` are those of the
    forms around it."""
    sides = [ctypes.c_float() for _ in range(4)]
    get_bounds(item, *map(ctypes.byref, sides))
    left, bottom, right, top = (side.value for side in sides)
    for matrix in matrices:
        corners = [(x, y) for x in (left, right) for y in (bottom, top)]
        across = [float(matrix.a * x + matrix.c * y + matrix.e) for x, y in corners]
        up = [float(matrix.b * x + matrix.d * y + matrix.f) for x, y in corners]
        left, right, bottom, top = min(across), max(across), min(up), max(up)
    return left, top, right, bottom


def _without_margin(box: Box, path: Handle, matrices: Sequence[Any]) -> Box:
    """Return the bounds of a line without the margin that PDFium adds to a stroke: half its width on all sides."""
    filled, stroked, width = ctypes.c_int(), ctypes.c_int(), ctypes.c_float()
    get_draw_mode(path, ctypes.byref(filled), ctypes.byref(stroked))
    if filled.value or not stroked.value or not get_stroke_width(path, ctypes.byref(width)):
        return box
    path_matrix: Any = pdfium.FS_MATRIX()
    get_matrix(path, ctypes.byref(path_matrix))
    margin = width.value / 2
    for matrix in (path_matrix, *matrices):
        margin *= abs(matrix.a * matrix.d - matrix.b * matrix.c) ** 0.5
    left, top, right, bottom = box
    return left + margin, top - margin, right - margin, bottom + margin


def _straight_lines(path: Handle, count: int, matrices: Sequence[Any]) -> list[Box]:
    """Return the lines that a path draws, each from one point to another in page coordinates: strokes between two
    points, and rectangles as thin as a line."""
    path_matrix: Any = pdfium.FS_MATRIX()
    get_matrix(path, ctypes.byref(path_matrix))
    across, up = ctypes.c_float(), ctypes.c_float()
    strokes: list[list[tuple[float, float]]] = []
    for index in range(count):
        segment = get_segment(path, index)
        kind = get_segment_type(segment)
        if kind == CURVE:
            return []
        get_point(segment, ctypes.byref(across), ctypes.byref(up))
        x, y = across.value, up.value
        for matrix in (path_matrix, *matrices):
            x, y = float(matrix.a * x + matrix.c * y + matrix.e), float(matrix.b * x + matrix.d * y + matrix.f)
        if kind == MOVE or not strokes:
            strokes.append([])
        if not strokes[-1] or (x, y) != strokes[-1][-1]:
            strokes[-1].append((x, y))
    found: list[Box] = []
    for points in strokes:
        if len(points) > 2 and points[0] == points[-1]:
            points.pop()
        if len(points) == 4:
            a, b, c, d = points if dist(points[0], points[1]) > dist(points[1], points[2]) else points[1:] + points[:1]
            if max(dist(a, d), dist(b, c)) > MAX_THIN_LINE:
                continue
            points = [((a[0] + d[0]) / 2, (a[1] + d[1]) / 2), ((b[0] + c[0]) / 2, (b[1] + c[1]) / 2)]
        if len(points) == 2 and max(abs(part) for point in points for part in point) < _MAX_COORDINATE:
            found.append((*points[0], *points[1]))
    return found


def _may_be_letter(path: Handle, count: int, matrices: Sequence[Any]) -> bool:
    """Return whether a path may be a letter or a line of letters. The digits 1, 4 and 7 have no curves, but are filled,
    and no rectangles."""
    if count < MIN_LETTER_SEGMENTS:
        return False
    segments = [get_segment(path, at) for at in range(min(count, MAX_LETTER_SEGMENTS))]
    if CURVE in map(get_segment_type, segments):
        return True
    _, top, _, bottom = _bounds(path, matrices)
    if not _is_filled(path) or not MIN_LETTER_HEIGHT < top - bottom < MAX_LETTER_HEIGHT:
        return False
    points = [_point(segment) for segment in segments]
    return any(x0 != x1 and y0 != y1 for (x0, y0), (x1, y1) in pairwise(points))


def _may_be_digits(box: Box) -> bool:
    """Return whether a box is as wide as a digit or two. Icons, circles and check boxes are as wide as high."""
    share = (box[2] - box[0]) / (box[3] - box[1])
    return share < 0.85 or 1.15 < share < 2


def _is_beside(box: Box, other: Box) -> bool:
    height = min(box[3] - box[1], other[3] - other[1])
    return other[0] - box[2] < MAX_DIGIT_GAP * height and min(box[3], other[3]) - max(box[1], other[1]) > 0.5 * height


def _is_filled(path: Handle) -> bool:
    filled, stroked = ctypes.c_int(), ctypes.c_int()
    get_draw_mode(path, ctypes.byref(filled), ctypes.byref(stroked))
    return bool(filled.value)


def _point(segment: Handle) -> tuple[float, float]:
    across, up = ctypes.c_float(), ctypes.c_float()
    get_point(segment, ctypes.byref(across), ctypes.byref(up))
    return across.value, up.value


def _is_microscopic(word: LayerWord, smallest: float) -> bool:
    left, top, right, bottom = word.box
    along, across = (right - left, bottom - top) if word.direction % 2 == 0 else (bottom - top, right - left)
    return not (
        across >= smallest and along >= smallest / 10 * len(word.text) and max(map(abs, word.box)) < _MAX_COORDINATE
    )


def _visible_ranges(word: LayerWord, visible: set[int]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    start: int | None = None
    for index in range(word.start, word.end + 1):
        seen = index < word.end and index in visible
        if seen and start is None:
            start = index
        elif not seen and start is not None:
            found.append((start, index))
            start = None
    return found


def _difference(first: Image.Image, second: Image.Image) -> Image.Image:
    red, green, blue = ImageChops.difference(first, second).split()
    return ImageChops.lighter(ImageChops.lighter(red, green), blue)


def _has_ink(ink: Image.Image, box: Box, character: str) -> bool:
    x0, y0, x1, y1 = _own_area(box, character, *ink.size)
    if x0 >= x1 or y0 >= y1:
        return False
    count = ink.crop((x0, y0, x1, y1)).histogram()[255]
    return count >= (max(1, MIN_INK_SHARE * (x1 - x0) * (y1 - y0)) if character.isalnum() else 1)


def _own_area(box: Box, character: str, columns: int, rows: int) -> Pixels:
    """Return where ink is counted for a character: not at its edges, which may hold ink of its neighbours."""
    left, top, right, bottom = box
    inset = 0.15 * (right - left) if character.isalnum() else 0.0
    return _pixels(left + inset, top, right - inset, bottom, columns, rows)


def _printed_twice(
    words: Sequence[LayerWord], boxes: dict[int, Box], codes: Sequence[int], owner_of: dict[int, Handle]
) -> set[int]:
    """Return the characters that another object of the same word has already drawn at the same position."""
    found: set[int] = set()
    for word in words:
        order = sorted(range(word.start, word.end), key=lambda index: (codes[index], boxes[index]))
        for first, second in pairwise(order):
            if codes[first] == codes[second] and owner_of.get(first) != owner_of.get(second):
                left, top, right, bottom = boxes[first]
                apart = dist((left, top), boxes[second][:2])
                is_within = boxes[second][0] - left < (right - left) / 2
                if is_within and apart < MAX_TWIN_SHIFT * (bottom - top):
                    found.add(max(first, second))
    return found


def _even_rows(area: bytearray, columns: int, box: Pixels) -> Iterator[bytearray]:
    """Yield the even rows of a box. Boxes that overlap by two rows or more share an even row, so half of the rows
    suffices."""
    x0, y0, x1, y1 = box
    for at in range((y0 - y0 % 2) * columns, y1 * columns, 2 * columns):
        yield area[at + x0 : at + x1]


def _is_free(reach: bytearray, counted: bytearray, columns: int, outer: Pixels, inner: Pixels, mark: int) -> bool:
    if _is_empty(reach, columns, inner) and _is_empty(counted, columns, outer):
        return True
    twin_rows = list(_even_rows(counted, columns, inner))
    return sum(row.count(mark) for row in twin_rows) > MIN_TWIN_OVERLAP * sum(map(len, twin_rows))


def _is_empty(area: bytearray, columns: int, box: Pixels) -> bool:
    return all(row.count(0) == len(row) for row in _even_rows(area, columns, box))


def _mark_area(area: bytearray, columns: int, box: Pixels, mark: int) -> None:
    x0, y0, x1, y1 = box
    marked = bytes([mark]) * max(x1 - x0, 0)
    for at in range((y0 - y0 % 2) * columns + x0, y1 * columns + x0, 2 * columns):
        area[at : at + len(marked)] = marked
