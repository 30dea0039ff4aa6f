"""What a person can see of a PDF page's text: a character counts if drawing it changes the page where it stands.

The page is drawn with its text and without it. A word whose box differs all along is seen; that settles nearly every
page at the cost of two small drawings. Ink proves a word only where no other one reaches. Where that leaves a gap, or a
word's characters stand on each other, the text objects involved are left out layer by layer, and each character must
have ink of its own. So it does not matter how a text was hidden: invisible ink, the colour behind it, no opacity,
clipped, painted over, in a layer that is off, or drawn with a font whose letters are empty.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import pypdfium2.raw  # pyright: ignore[reportMissingTypeStubs]
from PIL import (
    Image,
    ImageChops,
    ImageFile,  # noqa: F401 # pyright: ignore[reportUnusedImport] — Image needs it; a sealed process imports nothing
)

pdfium: Any = pypdfium2.raw  # C functions without types

# A change of fewer than 16 of 255 levels is not seen (a power of two: masks find it in many pixels at once).
LEVELS = 16
# Points, or so many parts of a page that is smaller than a sheet: a page of another unit is shown as large as any.
# Letters lower than this, or on average narrower than a tenth of it, are dots and lines to a person.
SMALLEST = 1.5
SMALLEST_PART = 1 / 500
LEAST_PIXELS = 600  # of a page's longer side
MAX_PIXELS = 2_000_000
COARSE = 0.75  # pixels a point: as few as still show each word of 6 points without a gap
FINER = 3  # times as many where it has to be looked at closely
MAX_LAYERS = 8  # of text over text over text; what lies deeper is not believed
TWIN = 0.7  # of a character's middle on that of the same one: printed twice, not half-way between two others
LEAST_INK = 0.04  # of a letter's or digit's box; a one in a wide font has 0.1

Box = tuple[float, float, float, float]
Pixels = tuple[int, int, int, int]
Handle = int


def _bound(name: str, answer: Any, *arguments: Any) -> Callable[..., Any]:
    """A function of PDFium with plain numbers for its handles: twice as fast to call as with typed pointers."""
    address = ctypes.cast(getattr(pdfium, name), ctypes.c_void_p).value
    assert address is not None
    return ctypes.CFUNCTYPE(answer, *arguments)(address)


_handle, _integer = ctypes.c_void_p, ctypes.c_int
get_unicode = _bound("FPDFText_GetUnicode", ctypes.c_uint, _handle, _integer)
get_loose_box = _bound("FPDFText_GetLooseCharBox", _integer, _handle, _integer, _handle)
count_objects = _bound("FPDFPage_CountObjects", _integer, _handle)
get_object = _bound("FPDFPage_GetObject", _handle, _handle, _integer)
count_parts = _bound("FPDFFormObj_CountObjects", _integer, _handle)
get_part = _bound("FPDFFormObj_GetObject", _handle, _handle, ctypes.c_ulong)
get_type = _bound("FPDFPageObj_GetType", _integer, _handle)
set_active = _bound("FPDFPageObj_SetIsActive", _integer, _handle, _integer)
text_object = _bound("FPDFText_GetTextObject", _handle, _handle, _integer)
get_font = _bound("FPDFTextObj_GetFont", _handle, _handle)
is_embedded = _bound("FPDFFont_GetIsEmbedded", _integer, _handle)
glyph_path = _bound("FPDFFont_GetGlyphPath", _handle, _handle, ctypes.c_uint, ctypes.c_float)
get_render_mode = _bound("FPDFTextObj_GetTextRenderMode", _integer, _handle)
get_fill_color = _bound("FPDFPageObj_GetFillColor", _integer, *[_handle] * 5)
_PAINTED = frozenset({0, 2, 4, 6})  # render modes that fill
_FAR = 1e7  # points; also refuses what is no number
_TEXT, _FORM = int(pdfium.FPDF_PAGEOBJ_TEXT), int(pdfium.FPDF_PAGEOBJ_FORM)
MAX_DEPTH = 12  # of forms within forms


class Run(NamedTuple):
    """A word as the text layer has it: characters `start` to `end`, their text, direction, and box in points."""

    start: int
    end: int
    text: str
    direction: int
    box: Box


class _Line:
    """The words between two rows of pixels, and the columns that one or two of them take, as bits."""

    def __init__(self, seen: bytes) -> None:
        self.seen = seen
        self.taken = self.twice = 0
        # Index, left, right, the gap it must not have, its columns, and those of its characters if it was looked at.
        self.words: list[tuple[int, int, int, bytes, int, list[tuple[int, int]] | None]] = []


class Sight:
    """A page as it looks. Boxes are in points from the page's top left corner."""

    def __init__(self, page: Any, layer: Any, size: tuple[float, float], box_of: Callable[[int], Box]) -> None:
        self._handle = page
        self._page, self._layer = address(page), address(layer)
        self._box_of = box_of
        self._texts: list[Handle] = []
        here = self._page
        self._collect([get_object(here, index) for index in range(count_objects(here))], 0)
        width, height = size
        self._smallest = min(SMALLEST, max(size) * SMALLEST_PART)
        self._scale = min(max(COARSE, LEAST_PIXELS / max(size)), (MAX_PIXELS / (width * height)) ** 0.5)
        self._columns, self._rows = max(1, int(width * self._scale)), max(1, int(height * self._scale))
        self._full = self._drawn((0, 0, self._columns, self._rows), "full")

    def _collect(self, items: list[Handle], depth: int) -> None:
        kinds = list(map(get_type, items))
        self._texts += [item for item, kind in zip(items, kinds, strict=True) if kind == _TEXT]
        for form in [item for item, kind in zip(items, kinds, strict=True) if kind == _FORM and depth < MAX_DEPTH]:
            self._collect([get_part(form, index) for index in range(count_parts(form))], depth + 1)

    def seen(self, runs: Sequence[Run], codes: Sequence[int]) -> list[list[tuple[int, int]]]:
        """For each word the stretches of its characters that a person can see: one, none, or some."""
        whole: list[list[tuple[int, int]]] = [[(run.start, run.end)] for run in runs]
        small = [_microscopic(run, self._smallest) for run in runs]
        doubtful = [index for index in self._doubtful(runs) if not small[index]]
        if doubtful:
            shown = self._closely([runs[index] for index in doubtful], codes)
            for index in doubtful:
                whole[index] = _stretches(runs[index], shown)
        return [[] if small[index] else stretches for index, stretches in enumerate(whole)]

    @property
    def blank(self) -> bool:
        """Whether nothing at all is to be seen on the page."""
        extremes: Any = self._full.getextrema()
        return extremes[1] - extremes[0] < LEVELS

    def on_picture(self, box: Box) -> bool:
        """Whether something is drawn where a word stands, whatever it is."""
        left, top, right, bottom = (side * self._scale for side in box)
        x0, y0, x1, y1 = _pixels(left, top, right, bottom, self._columns, self._rows)
        if x0 >= x1 or y0 >= y1:
            return False
        extremes: Any = self._full.crop((x0, y0, x1, y1)).getextrema()
        return extremes[1] - extremes[0] >= LEVELS

    def _doubtful(self, runs: Sequence[Run]) -> list[int]:
        """The words that show a gap where no other word reaches, or whose own characters stand on each other."""
        scale = self._scale
        columns, rows = self._columns, self._rows
        layer = self._layer
        self._show(self._texts, False)
        ink = ImageChops.difference(self._full, self._drawn((0, 0, columns, rows), "bare")).tobytes()
        found: list[int] = []
        # Most words of a line are equally high: their rows are looked at together, over the page's width.
        lines: dict[tuple[int, int], _Line] = {}
        for index, (start, end, text, direction, (left, top, right, bottom)) in enumerate(runs):
            x0, y0 = max(int(left * scale), 0), max(int(top * scale), 0)
            x1, y1 = min(int(right * scale) + 1, columns), min(int(bottom * scale) + 1, rows)
            if x0 >= x1 or y0 >= y1:
                found.append(index)
                continue
            line = lines.get((y0, y1))
            if line is None:
                line = lines[y0, y1] = _Line(_along(ink, columns, range(y0, y1)))
            pieces = None
            if end - start > 1 and text_object(layer, start) != text_object(layer, end - 1):
                pieces = self._pieces(runs[index])
            if direction % 2 == 0:
                gap = bytes(max(2, int((right - left) * scale / len(text) * 0.9 + 1)))
                seen = line.seen[x0:x1]
            else:
                gap = bytes(max(2, int((bottom - top) * scale / len(text) * 0.9 + 1)))
                seen = _down(ink, columns, range(x0, x1), y0, y1)
                x0, x1 = x0 - 1, x1 + 1  # but lines do not
            if gap in seen or not any(seen) or not (pieces is None or _each(line.seen, pieces)):
                found.append(index)
            # Words that follow each other may share a column of pixels.
            here = (1 << x1 - x0 - 2) - 1 << x0 + 1 if x1 - x0 > 2 else (1 << x1 - x0) - 1 << x0
            line.twice |= line.taken & here
            line.taken |= here
            line.words.append((index, x0, x1, gap, here, pieces))
        taken = [0] * rows
        contested = [0] * rows
        for (y0, y1), line in lines.items():
            for y in range(y0, y1):
                contested[y] |= taken[y] & line.taken | line.twice
                taken[y] |= line.taken
        # Which of two words that stand in one place is seen must be asked of both. Lines may overlap at their edges:
        # there nothing is proven, but what a word shows beside that no other one can have drawn.
        for (y0, y1), line in lines.items():
            touched = 0
            for y in range(y0, y1):
                touched |= contested[y]
            if not touched & line.taken:
                continue
            undisputed = _along(ink, columns, [y for y in range(y0, y1) if not contested[y] & line.taken])
            left_over: dict[tuple[int, ...], bytes] = {}
            for index, x0, x1, gap, here, pieces in line.words:
                if not here & touched:
                    continue
                if runs[index].direction % 2:
                    seen = _down(ink, columns, [x for x in range(x0 + 1, x1 - 1) if not touched >> x & 1], y0, y1)
                    if gap in seen or not any(seen) or pieces is not None:
                        found.append(index)
                    continue
                seen = undisputed[x0:x1]
                if gap in seen or not any(seen) or not (pieces is None or _each(undisputed, pieces)):
                    alone = tuple([y for y in range(y0, y1) if not contested[y] & here])
                    whole = left_over.get(alone)
                    if whole is None:
                        whole = left_over[alone] = _along(ink, columns, alone)
                    seen = whole[x0:x1]
                    if gap in seen or not any(seen) or not (pieces is None or _each(whole, pieces)):
                        found.append(index)
        return sorted(set(found))

    def _pieces(self, run: Run) -> list[tuple[int, int]]:
        """The columns of each character of a word that several objects make; none where one stands on another."""
        if run.direction % 2:
            return []
        found: list[tuple[int, int]] = []
        scale, box_of = self._scale, self._box_of
        order = range(run.start, run.end) if run.direction == 0 else range(run.end - 1, run.start - 1, -1)
        end = before = 0.0  # what begins outside the page is looked at closely
        for index in order:
            left, _, right, _ = box_of(index)
            wide = right - left
            if not end - 0.15 * (wide if wide < before else before) <= left <= right < _FAR:
                return []
            end, before = right, wide
            # Only whole pixels, into which no neighbour reaches, if it has one.
            x0, x1 = int(left * scale) + 1, int(right * scale)
            found.append((x0, x1) if x0 < x1 else (x0 - 1, x1 + 1))
        return found

    def _closely(self, runs: Sequence[Run], codes: Sequence[int]) -> set[int]:
        """The characters of doubtful words that leave ink of their own."""
        scale = self._scale * FINER
        # Only the part of the page in which they stand.
        left, top, right, bottom = _pixels(
            min(run.box[0] for run in runs) * scale,
            min(run.box[1] for run in runs) * scale,
            max(run.box[2] for run in runs) * scale,
            max(run.box[3] for run in runs) * scale,
            self._columns * FINER,
            self._rows * FINER,
        )
        columns, rows = right - left, bottom - top
        if columns <= 0 or rows <= 0:
            return set()
        part = left, top, columns, rows
        places: dict[int, Box] = {}
        owners: dict[Handle, list[int]] = {}
        unowned: set[int] = set()
        for run in runs:
            for index in range(run.start, run.end):
                x0, y0, x1, y1 = self._box_of(index)
                places[index] = x0 * scale - left, y0 * scale - top, x1 * scale - left, y1 * scale - top
                owner = text_object(self._layer, index)
                if owner:
                    owners.setdefault(owner, []).append(index)
                else:
                    unowned.add(index)
        ground = self._drawn(part)  # no text is shown since they were found doubtful
        self._show(self._texts, True)
        full = self._drawn(part)
        from_ground = _difference(full, ground)
        shown: set[int] = set(unowned)
        shadows = _shadows(runs, places, codes, {index: item for item, indexes in owners.items() for index in indexes})
        for objects in self._apart(owners, places, codes, columns, rows):
            self._show(objects, False)
            # Ink leads away from the ground: white on black letters that stand on white leads back to it.
            without = _difference(self._drawn(part), ground)
            ink = ImageChops.subtract(from_ground, without).point([0] * LEVELS + [255] * (256 - LEVELS))
            self._show(objects, True)
            for item in objects:
                shown.update(index for index in owners[item] if _inked(ink, places[index], chr(codes[index])))
            for item in objects:
                if not self._drawable(item):
                    shown.update(
                        index for index in owners[item] if self._would_show(item, codes[index], full, places[index])
                    )
        return shown - shadows

    def _apart(
        self,
        owners: dict[Handle, list[int]],
        places: dict[int, Box],
        codes: Sequence[int],
        columns: int,
        rows: int,
    ) -> list[list[Handle]]:
        """The objects in layers within which none reaches to where another's ink is counted; the same character may,
        as in bold print made by printing twice."""
        layers: list[list[Handle]] = []
        taken: list[tuple[bytearray, bytearray]] = []  # as far as a character reaches, and where its ink is counted
        for item, indexes in owners.items():
            boxes: list[tuple[Pixels, Pixels, int]] = []
            for index in indexes:
                inner = _counted(places[index], chr(codes[index]), columns, rows)
                boxes.append((_pixels(*places[index], columns, rows), inner, codes[index] % 254 + 1))
            free = (
                depth
                for depth, (reach, counted) in enumerate(taken)
                if all(_free(reach, counted, columns, *box) for box in boxes)
            )
            depth = next(free, len(layers))
            if depth == MAX_LAYERS:
                continue
            if depth == len(layers):
                layers.append([])
                taken.append((bytearray(columns * rows), bytearray(columns * rows)))
            layers[depth].append(item)
            for outer, inner, mark in boxes:
                _claim(taken[depth][0], columns, outer, mark)
                _claim(taken[depth][1], columns, inner, mark)
        return layers

    def _drawable(self, item: Handle) -> bool:
        """False for text in a font that neither the file nor PDFium carries: then no letter of it is ever drawn."""
        return bool(is_embedded(get_font(item)))

    def _would_show(self, item: Handle, code: int, full: Image.Image, box: Box) -> bool:
        """Whether a letter that this machine has no font for would be seen where there is one: by its attributes."""
        if glyph_path(get_font(item), code, 12.0):
            return False  # there is one, and it left no ink
        red, green, blue, alpha = (ctypes.c_uint() for _ in range(4))
        by_reference = [ctypes.byref(part) for part in (red, green, blue, alpha)]
        if get_render_mode(item) not in _PAINTED or not get_fill_color(item, *by_reference) or alpha.value < LEVELS:
            return False
        x0, y0, x1, y1 = _pixels(*box, *full.size)
        if x0 >= x1 or y0 >= y1:
            return False
        spot = full.crop((x0, y0, x1, y1))
        ground = spot.resize((1, 1), Image.Resampling.BOX).getpixel((0, 0))
        assert isinstance(ground, tuple)
        return any(abs(ours.value - theirs) >= LEVELS for ours, theirs in zip((red, green, blue), ground, strict=True))

    def _show(self, objects: Sequence[Handle], active: bool) -> None:
        for item in objects:
            set_active(item, active)

    def _drawn(self, part: tuple[int, int, int, int], canvas_name: str | None = None) -> Image.Image:
        """A part of the page, which begins so many pixels from its left and top and is so many wide and high: coarse
        and grey on the named canvas, where it stays until the next one is drawn there, or finer and in colour."""
        left, top, columns, rows = part
        grey = canvas_name is not None
        finer = 1 if grey else FINER
        kind = pdfium.FPDFBitmap_Gray if grey else pdfium.FPDFBitmap_BGRx
        stride = columns if grey else 4 * columns
        # Fresh memory for each of thousands of drawings takes the system longer than drawing.
        canvas: Any = _canvas(canvas_name) if canvas_name else (ctypes.c_char * (stride * rows))()
        ctypes.memset(canvas, 255, stride * rows)
        bitmap: Any = pdfium.FPDFBitmap_CreateEx(columns, rows, kind, canvas, stride)
        if not bitmap:
            raise MemoryError
        flags = pdfium.FPDF_ANNOT | (pdfium.FPDF_GRAYSCALE if grey else pdfium.FPDF_REVERSE_BYTE_ORDER)
        pdfium.FPDF_RenderPageBitmap(
            bitmap, self._handle, -left, -top, self._columns * finer, self._rows * finer, 0, flags
        )
        pdfium.FPDFBitmap_Destroy(bitmap)
        if grey:
            return Image.frombuffer("L", (columns, rows), canvas, "raw", "L", stride, 1)
        return Image.frombytes("RGB", (columns, rows), canvas, "raw", "RGBX", stride, 1)


@cache
def _canvas(name: str) -> Any:
    return (ctypes.c_char * MAX_PIXELS)()


def address(handle: Any) -> int:
    """A typed pointer of PDFium as the number that the functions here take."""
    address = ctypes.cast(handle, ctypes.c_void_p).value
    assert address is not None
    return address


@lru_cache(maxsize=1024)
def _mask(span: int) -> int:
    return int.from_bytes(bytes([256 - LEVELS]) * span, "little")


def _pixels(left: float, top: float, right: float, bottom: float, columns: int, rows: int) -> Pixels:
    """The pixels that a box touches, within the picture; none where it lies outside."""
    x0, y0 = max(int(min(left, columns)), 0), max(int(min(top, rows)), 0)
    return x0, y0, min(int(max(right, -1)) + 1, columns), min(int(max(bottom, -1)) + 1, rows)


def _along(ink: bytes, columns: int, rows: Sequence[int]) -> bytes:
    """For each column whether one of the rows shows ink."""
    seen = 0
    number = int.from_bytes
    for y in rows:
        seen |= number(ink[y * columns : (y + 1) * columns], "little")
    return (seen & _mask(columns)).to_bytes(columns, "little")


def _down(ink: bytes, columns: int, those: Sequence[int], y0: int, y1: int) -> bytes:
    """For each row from y0 to y1 whether one of those columns shows ink."""
    seen = 0
    for x in those:
        seen |= int.from_bytes(ink[y0 * columns + x : (y1 - 1) * columns + x + 1 : columns], "little")
    return (seen & _mask(y1 - y0)).to_bytes(y1 - y0, "little")


def _each(seen: bytes, pieces: Sequence[tuple[int, int]]) -> bool:
    """Whether each character of a word shows ink; False if they cannot be told apart."""
    return bool(pieces) and all(any(seen[start:end]) for start, end in pieces)


def _microscopic(run: Run, smallest: float) -> bool:
    left, top, right, bottom = run.box
    along, across = (right - left, bottom - top) if run.direction % 2 == 0 else (bottom - top, right - left)
    return not (across >= smallest and along >= smallest / 10 * len(run.text) and max(map(abs, run.box)) < _FAR)


def _stretches(run: Run, shown: set[int]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    start: int | None = None
    for index in range(run.start, run.end + 1):
        seen = index < run.end and index in shown
        if seen and start is None:
            start = index
        elif not seen and start is not None:
            found.append((start, index))
            start = None
    return found


def _difference(one: Image.Image, other: Image.Image) -> Image.Image:
    """By how much the colour differs that differs most."""
    red, green, blue = ImageChops.difference(one, other).split()
    return ImageChops.lighter(ImageChops.lighter(red, green), blue)


def _inked(ink: Image.Image, box: Box, character: str) -> bool:
    x0, y0, x1, y1 = _counted(box, character, *ink.size)
    if x0 >= x1 or y0 >= y1:
        return False
    count = ink.crop((x0, y0, x1, y1)).histogram()[255]
    return count >= (max(1, LEAST_INK * (x1 - x0) * (y1 - y0)) if character.isalnum() else 1)


def _counted(box: Box, character: str, columns: int, rows: int) -> Pixels:
    """Where ink is a character's own: what its neighbours leave at the edges of a letter is not."""
    left, top, right, bottom = box
    inset = 0.15 * (right - left) if character.isalnum() else 0.0
    return _pixels(left + inset, top, right - inset, bottom, columns, rows)


def _shadows(
    runs: Sequence[Run], places: dict[int, Box], codes: Sequence[int], owner_of: dict[int, Handle]
) -> set[int]:
    """The characters that another object of the same word has in the same place already: a person sees one."""
    found: set[int] = set()
    for run in runs:
        order = sorted(range(run.start, run.end), key=lambda index: (codes[index], places[index]))
        for one, other in pairwise(order):
            if codes[one] == codes[other] and owner_of.get(one) != owner_of.get(other):
                left, top, right, bottom = places[one]
                aside, below = places[other][0] - left, abs(places[other][1] - top)
                if aside < (right - left) / 2 and below < (bottom - top) / 2:
                    found.add(max(one, other))
    return found


def _rows(taken: bytearray, columns: int, box: Pixels) -> Iterator[bytearray]:
    """Every second row, from the even one at or above the box: two boxes that share a row share such a one."""
    x0, y0, x1, y1 = box
    for at in range((y0 - y0 % 2) * columns, y1 * columns, 2 * columns):
        yield taken[at + x0 : at + x1]


def _free(reach: bytearray, counted: bytearray, columns: int, outer: Pixels, inner: Pixels, mark: int) -> bool:
    if _empty(reach, columns, inner) and _empty(counted, columns, outer):
        return True
    own = list(_rows(counted, columns, inner))
    return sum(row.count(mark) for row in own) > TWIN * sum(map(len, own))


def _empty(taken: bytearray, columns: int, box: Pixels) -> bool:
    return all(row.count(0) == len(row) for row in _rows(taken, columns, box))


def _claim(taken: bytearray, columns: int, box: Pixels, mark: int) -> None:
    x0, y0, x1, y1 = box
    own = bytes([mark]) * max(x1 - x0, 0)
    for at in range((y0 - y0 % 2) * columns + x0, y1 * columns + x0, 2 * columns):
        taken[at : at + len(own)] = own
