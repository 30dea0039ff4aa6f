"""PDF: the words of each page's text layer and their positions, read with PDFium."""

from __future__ import annotations

import ctypes
import html
import re
import unicodedata
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise
from math import cos, pi, sin
from typing import Any, Protocol, TypeAlias

from PIL import Image

from pagewords.check_boxes import (
    SIDE_RANGE,
    SYMBOLS,
    TICK_GLYPHS,
    CheckBox,
    find_candidates,
    has_block,
    has_mark,
    read_box,
)
from pagewords.combs import join_cells
from pagewords.drawing import put_text
from pagewords.errors import Damaged, NoText, OverLimit, PasswordProtected
from pagewords.garbled import is_garbled, is_spaced_out
from pagewords.jobs import WHOLE_PAGE
from pagewords.layout import check_size, layout_page
from pagewords.ocr import CERTAIN_SCORE
from pagewords.pages import MAX_PAGE_CHARACTERS, Limits, Page, PlacedWord, clean, is_right_to_left
from pagewords.pagination import pictures_not_read_warning, struck_out_warning, superscript
from pagewords.pdfium import (
    FORM_OBJECT,
    Handle,
    address,
    get_angle,
    get_loose_box,
    get_origin,
    get_unicode,
    pdfium,
    saved,
    set_active,
    text_object,
)
from pagewords.reading_warnings import ReadingWarning, WarningCode
from pagewords.right_to_left import in_reading_order
from pagewords.symbols import UNKNOWN
from pagewords.unmapped import (
    Fonts,
    UnmappedWord,
    mark_unmapped,
    resolve_words,
)
from pagewords.visibility import (
    Box,
    LayerWord,
    Pictures,
    VisibilityDetector,
    crossed_words,
    struck_area,
    struck_parts,
)

MAX_NOTE_LINES = 100
MAX_OPTIONS, MAX_LABEL_BYTES = 500, 2000  # of a list box
CHOSEN = "●"
MAX_STRIKE_OUTS = 500  # strike-out annotations of a page
MAX_STROKE_POINTS = 2000
MAX_DEVIATION = 3.0  # points by which a hand-drawn straight line may deviate
MAX_PART_DPI = 600  # maximum dots per inch for a part of a page
Groups: TypeAlias = Sequence[tuple[float, list[PlacedWord]]]


class Recogniser(Protocol):
    """The OCR engine."""

    def read_page(
        self, number: int, image: Image.Image, width: float, height: float, text_layer: Groups, box: Box
    ) -> Page: ...

    def read_words(self, image: Image.Image, boxes: Sequence[tuple[float, Box]]) -> Sequence[tuple[str, float]]: ...


_RIGHT, _DOWN, _LEFT, _UP = range(4)
# Null means that a page inherits the entry from the page tree. PDFium finds neither fonts nor size then.
_INHERITED_NULL = re.compile(rb"/(?:Resources|MediaBox|CropBox|Rotate)\s+null\b")
# PDFium's marks for a hyphen at which it joined two lines into one word, and the soft hyphen: on a PDF page that is
# a visible glyph, often the producer's name for a plain hyphen.
_HYPHENS = {0x2: "-", 0xFFFE: "-", 0xAD: "-"}
_ANNOTATIONS_WITHOUT_TEXT = frozenset({pdfium.FPDF_ANNOT_LINK, pdfium.FPDF_ANNOT_POPUP})
_MIN_RISE = 0.15  # of a character's height, between neighbours; slanted print has less
_MIN_SLANT = 3 / 90  # quarter turns: less is a crooked scan
_HIDDEN_FLAGS = 0x02 | 0x20  # the annotation flags Hidden and NoView
_COMMENTS = frozenset({pdfium.FPDF_ANNOT_TEXT, pdfium.FPDF_ANNOT_CARET, pdfium.FPDF_ANNOT_HIGHLIGHT})
_LETTER_CASE = re.compile("(?<=[a-z])(?=[A-Z])")
_RADIO_BUTTON, _PUSH_BUTTON, _COMB = 1 << 15, 1 << 16, 1 << 24  # flags of a form's field
_DIGIT = re.compile("[0-9]")
_DRAWN_DIGITS = re.compile("[0-9]{1,2}[.,]?")
_WITH_FRACTION = re.compile("[0-9]{2,6}[/⁄][0-9]{1,2}")
_SMALL_DIGIT = 0.8  # maximum height of a fraction's digits, relative to the digit before
_SYMBOL_FONT = re.compile("dingbats|wingdings ?2?|webdings")
_MIN_STRUCK_SHARE = 0.8  # of a word's width: a line this wide strikes the whole word
_IN_BRACKETS = re.compile(r"[(\[][^()\[\]]+[)\]]")
# Gaps between words that PDFium joined, in heights of a line: measured on 1,600 public PDFs, where Poppler also
# separates 225 of 227 of them.
_MIN_GAP, _MIN_GAP_STEP = 0.12, 0.1  # and how much wider than the gaps between the letters
_MIN_GAP_BACK = 0.5  # of characters that are not in the order of their boxes, as brackets in a right-to-left line
_MIN_SINGLE_GAP = 1.0  # of a word of two letters, without other gaps to compare with
_LINE_HYPHENS = frozenset({0x2, 0xFFFE})


@dataclass(frozen=True, slots=True)
class _TextLayer:
    groups: Groups = ()
    hidden: list[str] = field(default_factory=list[str])
    struck: list[str] = field(default_factory=list[str])
    needs_ocr: bool = False
    is_garbled: bool = False
    objects: set[Handle] = field(default_factory=set[Handle])  # the text objects of the words, if OCR reads the rest
    pictures: Pictures | None = None
    unreadable: int = 0  # pictures that PDFium cannot decode
    score: float = 1.0  # mean score of the words that OCR read in place of the layer's
    without_font: int = 0  # text objects that PDFium cannot read because their font is missing
    unclear: int = 0  # check boxes without a clear state, and words that OCR could not read
    unmapped: list[UnmappedWord] = field(default_factory=list[UnmappedWord])
    digits: list[Box] = field(default_factory=list[Box])  # boxes of paths that may be a digit or two
    texts: Sequence[Handle] = ()  # all text objects of the page, which finding visible words leaves inactive

    def warnings(self, page: int) -> list[ReadingWarning]:
        warnings = struck_out_warning(self.struck, page)
        if self.is_garbled:
            warnings.append(ReadingWarning(WarningCode.GARBLED_TEXT, page))
        if self.score < CERTAIN_SCORE:
            warnings.append(ReadingWarning(WarningCode.UNCERTAIN_TEXT, page, int(100 * self.score)))
        if self.unclear:
            warnings.append(ReadingWarning(WarningCode.UNKNOWN_SYMBOLS, page, self.unclear))
        if self.without_font:
            warnings.append(ReadingWarning(WarningCode.FONTS_MISSING, page, self.without_font))
        if self.unreadable:
            warnings.append(pictures_not_read_warning(self.unreadable, page))
        return warnings


class Pdf:
    """An open PDF. All boxes are in points from the top left corner of the page as shown, cropped and rotated."""

    def __init__(self, data: bytes, limits: Limits, password: bytes | None = None) -> None:
        """Raise Unreadable if the file is damaged, empty, over the page limit, or not opened by the password."""
        self._limits = limits
        # PDFium reads from this memory as long as the document is open.
        self._data = _INHERITED_NULL.sub(lambda found: b" " * len(found[0]), data)
        pdfium.FPDF_InitLibrary()
        self._document: Any = pdfium.FPDF_LoadMemDocument64(self._data, len(data), password)
        if not self._document:
            if pdfium.FPDF_GetLastError() in (pdfium.FPDF_ERR_PASSWORD, pdfium.FPDF_ERR_SECURITY):
                raise PasswordProtected(
                    "The PDF is protected with a password: enter it when uploading, or save the file without one."
                )
            raise Damaged("The PDF is damaged or cut off: it cannot be opened.")
        self.page_count = int(pdfium.FPDF_GetPageCount(self._document))
        if self.page_count < 1:
            raise NoText("The PDF has no pages.")
        if self.page_count > limits.max_pages:
            raise OverLimit(f"The PDF has {self.page_count} pages; the limit is {limits.max_pages}.")
        self._annotations = _Annotations()  # of the open page
        self._drawn_notes = dict[Handle, str]()  # text objects of notes, and their lines
        self._logos = set[int]()
        self._form: Any = None
        if pdfium.FPDF_GetFormType(self._document) != pdfium.FORMTYPE_NONE:
            # It draws what was typed into fields that have no appearance of their own.
            self._form_settings = pdfium.FPDF_FORMFILLINFO(version=2)
            self._form = pdfium.FPDFDOC_InitFormFillEnvironment(self._document, ctypes.byref(self._form_settings))

    def read_page(self, number: int) -> Page | None:
        """Return the page of the text layer without its hidden words, or None if the page needs OCR.

        A page needs OCR if it shows a picture beside its words, or has drawings but no words. It also does if most of
        the layer is invisible text over a drawing, as scanners produce: our own OCR reads what the page shows. A logo
        is recognised only on the first page that shows it.
        """
        with self._page(number) as (page, width, height):
            layer = self._words(number, page, width, height)
            if layer.pictures and layer.pictures.logo in self._logos:
                layer = replace(layer, needs_ocr=False)
            if layer.needs_ocr:
                self._logos |= {layer.pictures.logo} - {None} if layer.pictures else set()
                return None
            if layer.unmapped or layer.digits:
                return None
            page = layout_page(number, width, height, layer.groups, "pdf")
            return self._with_warnings(page, layer)

    def recognise_page(self, number: int, dpi: float, max_pixels: int, recogniser: Recogniser) -> Page:
        """Return a page that needs OCR. It reads the words of the text layer that have no characters, and then a
        picture of everything but the words."""
        with self._page(number) as (handle, width, height):
            layer = self._words(number, handle, width, height)
            scale = min(dpi / 72, (max_pixels / (width * height)) ** 0.5)
            columns, rows = max(1, int(round(width * scale, 6))), max(1, int(height * scale))

            def drawn() -> Image.Image:
                pixels = _draw(handle, columns, rows, (0, 0, columns, rows))
                return Image.frombytes("RGB", (columns, rows), pixels, "raw", "RGBX")

            if layer.unmapped or layer.digits:
                for item in layer.texts:
                    set_active(item, True)
                layer = _read_parts(layer, drawn(), (columns / width, rows / height), recogniser)
                for item in layer.texts:
                    set_active(item, False)
            if not layer.needs_ocr:
                return self._with_warnings(layout_page(number, width, height, layer.groups, "pdf"), layer)
            for item in layer.objects:
                set_active(item, False)
            picture = drawn()
            for x0, y0, x1, y1 in layer.digits:
                picture.paste("white", (int(x0 * scale), int(y0 * scale), int(x1 * scale) + 1, int(y1 * scale) + 1))
            box = layer.pictures.box if layer.pictures else (0.0, 0.0, width, height)
            return self._with_warnings(recogniser.read_page(number, picture, width, height, layer.groups, box), layer)

    def _with_warnings(self, page: Page, layer: _TextLayer) -> Page:
        page = replace(page, warnings=(*page.warnings, *layer.warnings(page.number)))
        return page.with_hidden_words(layer.hidden + self._annotations.hidden)

    @property
    def is_dynamic_form(self) -> bool:
        """Return whether the pages are only placeholders for a form that the viewer draws itself (XFA)."""
        return pdfium.FPDF_GetFormType(self._document) == pdfium.FORMTYPE_XFA_FULL

    def attachments(self, most: int, max_bytes: int) -> Iterator[tuple[str, bytes]]:
        """Return name and content of the first files attached to the document. The content of a file over the limit is
        empty."""
        for index in range(min(pdfium.FPDFDoc_GetAttachmentCount(self._document), most)):
            attachment: Any = pdfium.FPDFDoc_GetAttachment(self._document, index)
            if not attachment:
                continue
            size = min(pdfium.FPDFAttachment_GetName(attachment, None, 0), 1000)
            units = (ctypes.c_ushort * (size // 2 + 1))()
            pdfium.FPDFAttachment_GetName(attachment, units, 2 * len(units))
            name = clean(bytes(units)[:size].decode("utf-16-le", "replace").rstrip("\0").replace("\0", " "))
            length = ctypes.c_ulong(0)
            pdfium.FPDFAttachment_GetFile(attachment, None, 0, ctypes.byref(length))
            if not 0 < length.value <= max_bytes:
                yield name, b""
                continue
            content = (ctypes.c_char * length.value)()
            found = pdfium.FPDFAttachment_GetFile(attachment, content, length.value, ctypes.byref(length))
            yield name, content.raw if found else b""

    def saved_without_password(self) -> bytes:
        copy = saved(self._document, pdfium.FPDF_REMOVE_SECURITY)
        if copy is None:
            raise Damaged("The PDF is damaged: it cannot be saved without its password.")
        return copy

    def draw_page(
        self,
        number: int,
        dpi: float,
        max_pixels: int,
        box: Sequence[float] = WHOLE_PAGE,
        wanted_width: int | None = None,
    ) -> tuple[bytes, int, int]:
        """Return a box of the page as RGBX bytes, with its width and height in pixels, reduced to `max_pixels`.
        `wanted_width` is in pixels and overrides `dpi`."""
        x0, y0, x1, y1 = box
        with self._page(number) as (page, full_width, full_height):
            width, height = full_width * (x1 - x0), full_height * (y1 - y0)
            scale = dpi / 72 if wanted_width is None else min(wanted_width / width, MAX_PART_DPI / 72)
            scale = min(scale, (max_pixels / (width * height)) ** 0.5)
            columns, rows = max(1, int(round(width * scale, 6))), max(1, int(height * scale))
            # Position of the whole page relative to the bitmap, which holds only the box.
            all_columns, all_rows = columns / (x1 - x0), rows / (y1 - y0)
            place = [round(at) for at in (-x0 * all_columns, -y0 * all_rows, all_columns, all_rows)]
            return _draw(page, columns, rows, place), columns, rows

    @contextmanager
    def _page(self, number: int) -> Generator[tuple[Any, float, float]]:
        page: Any = pdfium.FPDF_LoadPage(self._document, number - 1)
        if not page:
            raise Damaged(f"Page {number} of the PDF is damaged.")
        self._annotations = _read_annotations(
            page, self._form
        )  # first: PDFium fills in states that the file leaves out
        if self._form:
            pdfium.FORM_OnAfterLoadPage(page, self._form)
        if self._annotations.are_flattened:
            # Notes, stamps and form fields are drawn, but their text is in the page's layer only once they are part of
            # its content.
            self._add_flattened_annotations(number, page)
        try:
            width, height = float(pdfium.FPDF_GetPageWidthF(page)), float(pdfium.FPDF_GetPageHeightF(page))
            if not (width > 0 and height > 0):
                raise Damaged(f"Page {number} of the PDF has no area.")
            if width * height > self._limits.max_pixels:
                raise OverLimit(
                    f"Page {number} of the PDF measures {width:,.0f} × {height:,.0f} points; "
                    f"the limit is {self._limits.max_pixels:,} square points."
                )
            self._drawn_notes = dict[Handle, str]()
            for rectangle, lines in self._annotations.notes:
                self._drawn_notes |= _write_note(self._document, page, rectangle, lines)
            for box in self._annotations.crosses:
                _draw_cross(page, box)
            yield page, width, height
        finally:
            self._close(page)

    def _add_flattened_annotations(self, number: int, page: Any) -> None:
        """Flatten the annotations into one object, and add it to the page.

        PDFium appends this object to the page's content, but gives the page resources of its own: fonts and images of
        the page tree are lost. The page that is already loaded has them, so the object is moved there.
        """
        if pdfium.FPDFPage_Flatten(page, pdfium.FLAT_NORMALDISPLAY) != pdfium.FLATTEN_SUCCESS:
            return
        flattened: Any = pdfium.FPDF_LoadPage(self._document, number - 1)
        if not flattened:
            raise Damaged(f"Page {number} of the PDF is damaged.")
        added: Any = pdfium.FPDFPage_GetObject(flattened, pdfium.FPDFPage_CountObjects(flattened) - 1)
        if added and pdfium.FPDFPageObj_GetType(added) == FORM_OBJECT:
            pdfium.FPDFPage_RemoveObject(flattened, added)
            pdfium.FPDFPage_InsertObject(page, added)
        pdfium.FPDF_ClosePage(flattened)

    def _close(self, page: Any) -> None:
        if self._form:
            pdfium.FORM_OnBeforeClosePage(page, self._form)
        pdfium.FPDF_ClosePage(page)

    def _words(self, number: int, page: Any, width: float, height: float) -> _TextLayer:
        """Return the words of the page's text layer.

        A word's box spans only its first and last character: fetching the boxes of all characters would double the time
        of a page.
        """
        layer: Any = pdfium.FPDFText_LoadPage(page)
        if not layer:
            return _TextLayer(needs_ocr=pdfium.FPDFPage_CountObjects(page) > 0)
        try:
            layer_at = address(layer)
            codes = [get_unicode(layer_at, index) for index in range(pdfium.FPDFText_CountChars(layer))]
            _restore_notes(layer_at, codes, self._drawn_notes)
            boxes = _Boxes(page, layer)
            filled_in = [one._replace(box=boxes.as_shown(*one.box)) for one in self._annotations.check_boxes]
            alone: Groups = [(_RIGHT, [PlacedWord(one.text, *one.box) for one in filled_in])] if filled_in else []
            unmapped = mark_unmapped(layer_at, codes)
            mapped = [0x20 if index in unmapped and code != ord(UNKNOWN) else code for index, code in enumerate(codes)]
            if is_garbled(_characters(mapped)):
                return _TextLayer(alone, needs_ocr=True, is_garbled=True)
            fonts = Fonts(layer_at, codes, unmapped)
            codes, boxes.order = in_reading_order(codes, boxes.of_character)
            words = _layer_words(layer, codes, boxes)
            check_size(number, [word.text for word in words])  # before reading them
            detector = VisibilityDetector(page, layer, (width, height), boxes.of_character, boxes.order)
            without_font = detector.count_texts_without_font()
            if not words:
                unreadable = detector.count_unreadable_images(boxes.as_shown)
                has_objects = pdfium.FPDFPage_CountObjects(page) > 0
                return _TextLayer(alone, needs_ocr=has_objects, unreadable=unreadable, without_font=without_font)
            if is_spaced_out([(word.text, word.box) for word in words]):
                return _TextLayer(alone, needs_ocr=True, is_garbled=True)
            check_boxes = _find_check_boxes(layer, detector, boxes, words, codes, filled_in)
            unclear = sum(one.is_ticked is None for one in check_boxes)
            if check_boxes:
                words = _layer_words(layer, codes, boxes)
            groups: dict[float, list[PlacedWord]] = {}
            visible: list[tuple[int, int]] = []
            hidden: list[tuple[LayerWord, bool]] = []
            struck: list[str] = []
            unmapped_words: list[UnmappedWord] = []
            unverified = 0  # words whose codes may be wrong characters
            marks = [boxes.as_shown(*mark) for mark in self._annotations.strikes[:MAX_STRIKE_OUTS]]
            crossed = struck_parts(words, [boxes.as_shown(*line) for line in detector.lines])
            slanted = crossed_words(words, [boxes.line_as_shown(line) for line in detector.slanted_lines])
            marked = crossed_words(
                words, [boxes.line_as_shown(line) for line in self._annotations.lines[:MAX_STRIKE_OUTS]]
            )
            for index, (word, stretches) in enumerate(zip(words, detector.visible_ranges(words, codes), strict=True)):
                visible += stretches
                left, top, right, bottom = word.box
                lines = filter(detector.shows_line, crossed.get(index, ()))
                areas = [struck_area(line, bottom - top) for line in lines]
                areas += [mark for mark in marks if mark[0] < right and left < mark[2]]
                is_struck = index in marked or any(_strikes_all(area, word.box) for area in areas)
                is_struck |= index in slanted and all(map(detector.shows_slanted_line, slanted[index]))
                unstruck = [] if is_struck else _unstruck(stretches, areas, codes, boxes)
                seen: list[int] = []
                unseen: set[int] = set()
                if unmapped or stretches != [(word.start, word.end)]:
                    seen = [boxes.order[at] for start, end in stretches for at in range(start, end)]
                    unseen = set(boxes.order[word.start : word.end]).difference(seen)
                if unstruck != stretches:
                    struck.append(word.text)
                elif not unmapped.isdisjoint(seen):
                    direction = word.line_direction
                    without_mapping = unmapped.intersection(seen)
                    if fonts.are_embedded(without_mapping):
                        is_whole = without_mapping.issuperset(seen)
                        font = fonts.single_without_mapping(without_mapping) if is_whole else None
                        unmapped_words.append(UnmappedWord(word.text, direction, word.box, font))
                    elif text := word.text if _DIGIT.search(word.text) else word.text.strip(UNKNOWN):
                        unverified += 1
                        unclear += UNKNOWN in text
                        groups.setdefault(direction, []).append(PlacedWord(text, *word.box))
                    continue
                elif not unseen:
                    group = groups.setdefault(word.line_direction, [])
                    group.append(PlacedWord(word.text, *word.box))
                    continue
                elif not (unseen <= unmapped and (stretches or not word.text.strip(UNKNOWN))):  # glyphs that are empty
                    hidden.append((word, not stretches and detector.has_drawing(word.box)))
                for start, end in unstruck:
                    if text := clean(_characters(codes[start:end])):
                        part = LayerWord(start, end, text, *boxes.of_word(start, end, word.direction), word.slant)
                        groups.setdefault(part.line_direction, []).append(PlacedWord(text, *part.box))
            if _RIGHT in groups:
                combs = [boxes.as_shown(*box) for box in self._annotations.combs]
                groups[_RIGHT] = join_cells(groups[_RIGHT], detector.has_divider, combs)
                for box, labels in self._annotations.choices:
                    groups[_RIGHT] += _mark_choices(groups[_RIGHT], boxes.as_shown(*box), labels)
            if check_boxes:
                direction = max(groups, key=lambda one: len(groups[one]), default=_RIGHT)
                groups.setdefault(direction, []).extend(PlacedWord(one.text, *one.box) for one in check_boxes)
            # In the text layer of a scan, only words where nothing is drawn count as hidden.
            over_drawing = sum(covered for _, covered in hidden)
            shown_words = sum(map(len, groups.values())) + len(unmapped_words)
            scanned = over_drawing > shown_words or not (shown_words or struck or detector.is_blank)
            pictures = None if scanned else detector.find_pictures()
            digits = [] if scanned else detector.find_lone_digits(boxes.as_shown)
            digits = [box for box in digits if not any(one.contains_center(box) for one in check_boxes)]
            unreadable = detector.count_unreadable_images(boxes.as_shown)
            by_ocr = (0.0, 0.0, width, height) if scanned else pictures.box if pictures else None
            hidden_words = [
                word.text for word, covered in hidden if not (covered and by_ocr and _has_center(by_ocr, word.box))
            ]
            if not scanned and not pictures:
                return _TextLayer(
                    sorted(groups.items()), hidden_words, struck, unreadable=unreadable, unclear=unclear,
                    unmapped=unmapped_words,
                    is_garbled=unverified > 0, texts=detector.texts, digits=digits, without_font=without_font,
                )  # fmt: skip
            shown = (boxes.order[index] for start, end in visible for index in range(start, end))
            objects = {text_object(layer_at, index) for index in shown} - {None}
            return _TextLayer(
                sorted(groups.items()), hidden_words, struck, needs_ocr=True, objects=objects, pictures=pictures,
                unreadable=unreadable, unclear=unclear, unmapped=unmapped_words,
                is_garbled=unverified > 0, texts=detector.texts, digits=digits, without_font=without_font,
            )  # fmt: skip
        finally:
            pdfium.FPDFText_ClosePage(layer)


def _draw(page: Any, columns: int, rows: int, page_position: Sequence[int]) -> bytes:
    """Return a picture as RGBX bytes. `page_position` (left, top, columns, rows) is that of the whole page in it."""
    bitmap: Any = pdfium.FPDFBitmap_CreateEx(columns, rows, pdfium.FPDFBitmap_BGRx, None, 0)
    if not bitmap:
        raise MemoryError
    try:
        pdfium.FPDFBitmap_FillRect(bitmap, 0, 0, columns, rows, 0xFFFFFFFF)
        pdfium.FPDF_RenderPageBitmap(
            bitmap, page, *page_position, 0, pdfium.FPDF_ANNOT | pdfium.FPDF_REVERSE_BYTE_ORDER
        )
        size = pdfium.FPDFBitmap_GetStride(bitmap) * rows
        return ctypes.string_at(pdfium.FPDFBitmap_GetBuffer(bitmap), size)
    finally:
        pdfium.FPDFBitmap_Destroy(bitmap)


def _read_parts(
    layer: _TextLayer, picture: Image.Image, scale: tuple[float, float], recogniser: Recogniser
) -> _TextLayer:
    """Return the layer with its unmapped words as they are shown, and the digits drawn as paths. `scale` is in pixels
    per point, across and down."""
    across, down = scale

    def read(boxes: Sequence[tuple[float, Box]]) -> Sequence[tuple[str, float]]:
        scaled = [(way, (x0 * across, y0 * down, x1 * across, y1 * down)) for way, (x0, y0, x1, y1) in boxes]
        return recogniser.read_words(picture, scaled)

    shown, changed, unknown = resolve_words(layer.unmapped, read)
    scores = [word.confidence for _, word in shown if word.confidence is not None]
    read_digits: list[PlacedWord] = []
    if layer.digits:
        direction = max(dict(layer.groups), key=lambda one: len(dict(layer.groups)[one]), default=_RIGHT)
        readings = read([(direction, box) for box in layer.digits])
        read_digits = [
            PlacedWord(text, *box, score)
            for box, (text, score) in zip(layer.digits, readings, strict=True)
            if _DRAWN_DIGITS.fullmatch(text) and score >= CERTAIN_SCORE
        ]
        shown += [(direction, word) for word in read_digits]
    groups = dict(layer.groups)
    for direction, word in shown:
        groups.setdefault(direction, []).append(word)
    return replace(
        layer,
        groups=sorted(groups.items()),
        is_garbled=layer.is_garbled or changed > 0,
        unclear=layer.unclear + unknown,
        digits=[word[1:5] for word in read_digits],
        score=sum(scores) / len(scores) if scores else 1.0,
    )


def _has_center(mark: tuple[float, float, float, float], box: tuple[float, float, float, float]) -> bool:
    """Return whether the centre of a box lies in a mark, whose corners may be in any order."""
    x, y = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
    return min(mark[0], mark[2]) <= x <= max(mark[0], mark[2]) and min(mark[1], mark[3]) <= y <= max(mark[1], mark[3])


def _strikes_all(area: Box, box: Box) -> bool:
    return _has_center(area, box) and min(area[2], box[2]) - max(area[0], box[0]) >= _MIN_STRUCK_SHARE * (
        box[2] - box[0]
    )


def _unstruck(
    stretches: list[tuple[int, int]], areas: Sequence[Box], codes: Sequence[int], boxes: _Boxes
) -> list[tuple[int, int]]:
    """Return the stretches of a word that are outside struck areas. A rest that contains a digit is excluded: it would
    be a wrong number. So is a rest of punctuation."""
    if not areas:
        return stretches

    def is_struck(index: int) -> bool:
        return any(_has_center(area, boxes.of_character(index)) for area in areas)

    runs = [(struck, [*run]) for start, end in stretches for struck, run in groupby(range(start, end), is_struck)]
    spans = [(struck, run[0], run[-1] + 1, _characters(codes[run[0] : run[-1] + 1])) for struck, run in runs]
    if not any(struck and any(map(str.isalnum, text)) for struck, _, _, text in spans):
        return stretches
    return [
        (start, end)
        for struck, start, end, text in spans
        if not struck and any(map(str.isalpha, text)) and not any(map(str.isdigit, text))
    ]


def _layer_words(layer: Any, codes: list[int], boxes: _Boxes) -> list[LayerWord]:
    words: list[LayerWord] = []
    direction = _RIGHT
    parts = _split_at_gaps(_split_words(codes), codes, boxes)
    for start, end, text in _split_mixed_numbers(parts, layer, boxes):
        direction, around = boxes.of_word(start, end, direction)
        if (
            direction == _LEFT
            and _IN_BRACKETS.fullmatch(text)
            and boxes.of_word(start + 1, end - 1, _LEFT)[0] == _RIGHT
        ):
            direction, around = _RIGHT, boxes.around(start, end)  # in a right-to-left line the brackets are exchanged
        if is_right_to_left(text):
            around = boxes.around(start, end)
        slant = boxes.slant(start)
        if slant is not None:
            around = boxes.around(start, end)
        is_number = end - start > 1 and len(text) == end - start and _DIGIT.search(text)
        if is_number and not boxes.are_on_one_line(start, end):
            text = _write_raised_digits(text, boxes.baselines(start, end, direction if slant is None else slant))
        elif text in SYMBOLS:
            text = SYMBOLS[text].get(boxes.symbol_font(layer, start), text)
        words.append(LayerWord(start, end, text, direction, around, slant))
        if is_right_to_left(text):
            direction = _RIGHT  # of a single digit after it
    return words


def _find_check_boxes(
    layer: Any,
    detector: VisibilityDetector,
    boxes: _Boxes,
    words: Sequence[LayerWord],
    codes: list[int],
    filled_in: Sequence[CheckBox],
) -> list[CheckBox]:
    """Return the check boxes drawn on the page, and those of its form. The marks in them are blanked in `codes`."""
    curved = {boxes.as_shown(*box): is_curved for box, is_curved in detector.outlines}
    outlines = [box for box in curved if not any(one.contains_center(box) for one in filled_in)]
    drawn = find_candidates(outlines, [word.box for word in words])
    places = [*(one.box for one in filled_in), *drawn]
    if not places:
        return []
    marks = [_characters_in(box, words, boxes) for box in places]
    is_only_mark = [
        all(chr(codes[index]) in TICK_GLYPHS or boxes.symbol_font(layer, index) for index in indexes)
        for indexes in marks
    ]
    picture, scale, (left, top) = detector.drawn_around(places, margin=SIDE_RANGE[1])
    found: list[tuple[int, CheckBox]] = []
    shown = [
        ((x0 - left) * scale, (y0 - top) * scale, (x1 - left) * scale, (y1 - top) * scale) for x0, y0, x1, y1 in places
    ]
    for number, box in enumerate(places):
        if number < len(filled_in):
            one = filled_in[number]
            one = one if one.is_ticked is not None else one._replace(is_ticked=has_mark(picture, shown[number]))
        elif is_only_mark[number] and (state := read_box(picture, shown[number], curved[box], drawn[box])):
            one = CheckBox(box, *state)
        else:
            continue
        found.append((number, one))
    check_boxes: list[CheckBox] = []
    for number, one in found:
        if one.is_ticked is None:  # a filled square is a check box only if there is an equal one with a clear state
            if not any(one.looks_like(other) and other.is_ticked is not None for _, other in found):
                continue
            one = one._replace(is_ticked=has_block(picture, shown[number]) or None)
        check_boxes.append(one)
        if is_only_mark[number] or len(marks[number]) == 1:
            for index in marks[number]:
                codes[index] = 0x20
    return check_boxes


def _characters_in(box: Box, words: Sequence[LayerWord], boxes: _Boxes) -> list[int]:
    """Return the indexes of the characters whose centre is in a box."""
    x0, y0, x1, y1 = box
    near = [w for w in words if w.box[0] < x1 and x0 < w.box[2] and w.box[1] < y1 and y0 < w.box[3]]
    return [index for w in near for index in range(w.start, w.end) if _has_center(box, boxes.of_character(index))]


def _characters(codes: Sequence[int]) -> str:
    return "".join([_HYPHENS[code] if code in _HYPHENS else chr(code) if code <= 0x10FFFF else " " for code in codes])


@dataclass(slots=True)
class _Annotations:
    """The annotations of a page. Boxes are left, top, right and bottom in page coordinates."""

    hidden: list[str] = field(default_factory=list[str])  # words that are not shown on screen
    strikes: list[tuple[float, float, float, float]] = field(default_factory=list[tuple[float, float, float, float]])
    lines: list[Box] = field(default_factory=list[Box])  # from one point to another
    notes: list[tuple[Any, list[str]]] = field(default_factory=list[tuple[Any, list[str]]])  # without an appearance
    choices: list[tuple[Box, list[str]]] = field(default_factory=list[tuple[Box, list[str]]])  # chosen in list boxes
    combs: list[Box] = field(default_factory=list[Box])  # fields with a cell for each character
    check_boxes: list[CheckBox] = field(default_factory=list[CheckBox])
    crosses: list[Box] = field(default_factory=list[Box])  # of annotations without an appearance
    are_flattened: bool = False


def _read_annotations(page: Any, form: Any) -> _Annotations:
    """Return the annotations, and remove those that a screen does not show."""
    found = _Annotations()
    for index in reversed(range(pdfium.FPDFPage_GetAnnotCount(page))):
        annotation: Any = pdfium.FPDFPage_GetAnnot(page, index)
        if not annotation:
            continue
        kind = pdfium.FPDFAnnot_GetSubtype(annotation)
        is_hidden = pdfium.FPDFAnnot_GetFlags(annotation) & _HIDDEN_FLAGS
        if is_hidden:
            found.hidden += (_value(annotation, b"V") or _value(annotation, b"Contents")).split()
        elif kind == pdfium.FPDF_ANNOT_STRIKEOUT:
            found.strikes += _iterate_marks(annotation)
        elif kind == pdfium.FPDF_ANNOT_LINE:
            start, end = pdfium.FS_POINTF(), pdfium.FS_POINTF()
            if pdfium.FPDFAnnot_GetLine(annotation, ctypes.byref(start), ctypes.byref(end)):
                found.lines.append((float(start.x), float(start.y), float(end.x), float(end.y)))
        elif kind == pdfium.FPDF_ANNOT_INK:
            found.lines += _straight_strokes(annotation)
        elif kind == pdfium.FPDF_ANNOT_WIDGET and (button := _button_kind(annotation, form)):
            state = _value(annotation, b"AS") or _value(annotation, b"V")
            box = _rectangle(annotation)
            is_round = button == pdfium.FPDF_FORMFIELD_RADIOBUTTON
            found.check_boxes.append(CheckBox(box, is_round, state != "Off" if state else None))
            if state not in ("", "Off") and not _has_drawing(annotation):
                found.crosses.append(box)
        elif kind == pdfium.FPDF_ANNOT_WIDGET and form and (labels := _chosen_labels(annotation, form)):
            found.choices.append((_rectangle(annotation), labels))
        elif kind == pdfium.FPDF_ANNOT_WIDGET and form and _is_comb(annotation, form):
            found.combs.append(_rectangle(annotation))
        elif kind == pdfium.FPDF_ANNOT_FREETEXT and not _has_drawing(annotation):
            rectangle = pdfium.FS_RECTF()
            pdfium.FPDFAnnot_GetRect(annotation, ctypes.byref(rectangle))
            found.notes.append((rectangle, _note_lines(annotation)[:MAX_NOTE_LINES]))
        elif kind == pdfium.FPDF_ANNOT_STAMP and not _has_drawing(annotation):
            rectangle = pdfium.FS_RECTF()
            pdfium.FPDFAnnot_GetRect(annotation, ctypes.byref(rectangle))
            found.notes.append((rectangle, [_LETTER_CASE.sub(" ", _value(annotation, b"Name") or "Draft")]))
        if not is_hidden and kind in _COMMENTS:
            found.hidden += _value(annotation, b"Contents").split()  # it is shown only after a click
        found.are_flattened |= not is_hidden and kind not in _ANNOTATIONS_WITHOUT_TEXT
        pdfium.FPDFPage_CloseAnnot(annotation)
        if is_hidden:
            pdfium.FPDFPage_RemoveAnnot(page, index)
    return found


def _has_drawing(annotation: Any) -> bool:
    return pdfium.FPDFAnnot_GetAP(annotation, 0, None, 0) > 2


def _rectangle(annotation: Any) -> Box:
    """Return left, top, right and bottom in page coordinates."""
    box = pdfium.FS_RECTF()
    pdfium.FPDFAnnot_GetRect(annotation, ctypes.byref(box))
    return float(box.left), float(box.top), float(box.right), float(box.bottom)


def _button_kind(annotation: Any, form: Any) -> int | None:
    """Return whether a form field is a check box or a radio button; None for other fields."""
    if form:
        kind = int(pdfium.FPDFAnnot_GetFormFieldType(form, annotation))
        return kind if kind in (pdfium.FPDF_FORMFIELD_CHECKBOX, pdfium.FPDF_FORMFIELD_RADIOBUTTON) else None
    if _value(annotation, b"FT") != "Btn":
        return None
    number = ctypes.c_float()
    pdfium.FPDFAnnot_GetNumberValue(annotation, b"Ff", ctypes.byref(number))
    flags = int(number.value) if 0 <= number.value < 2**31 else 0
    if flags & _PUSH_BUTTON:
        return None
    return pdfium.FPDF_FORMFIELD_RADIOBUTTON if flags & _RADIO_BUTTON else pdfium.FPDF_FORMFIELD_CHECKBOX


def _chosen_labels(annotation: Any, form: Any) -> list[str]:
    """Return the options of a list box that are chosen. A list box shows its other options as well."""
    if pdfium.FPDFAnnot_GetFormFieldType(form, annotation) != pdfium.FPDF_FORMFIELD_LISTBOX:
        return []
    labels: list[str] = []
    for at in range(min(pdfium.FPDFAnnot_GetOptionCount(form, annotation), MAX_OPTIONS)):
        if pdfium.FPDFAnnot_IsOptionSelected(form, annotation, at):
            size = min(pdfium.FPDFAnnot_GetOptionLabel(form, annotation, at, None, 0), MAX_LABEL_BYTES)
            units = (ctypes.c_ushort * (size // 2 + 1))()
            pdfium.FPDFAnnot_GetOptionLabel(form, annotation, at, units, size)
            labels.append(clean(bytes(units)[:size].decode("utf-16-le", "replace").split("\0")[0]))
    return labels


def _is_comb(annotation: Any, form: Any) -> bool:
    is_text = pdfium.FPDFAnnot_GetFormFieldType(form, annotation) == pdfium.FPDF_FORMFIELD_TEXTFIELD
    return is_text and bool(pdfium.FPDFAnnot_GetFormFieldFlags(form, annotation) & _COMB)


def _mark_choices(words: Sequence[PlacedWord], box: Box, labels: Sequence[str]) -> list[PlacedWord]:
    """Return a mark in front of each line of a list box that is one of the labels."""
    inside = sorted((word for word in words if _has_center(box, word[1:5])), key=lambda word: (word.y1, word.x0))
    lines = [list(line) for _, line in groupby(inside, key=lambda word: round(word.y1))]
    return [
        PlacedWord(CHOSEN, line[0].x0 - 0.6 * (line[0].y1 - line[0].y0), line[0].y0, line[0].x0, line[0].y1)
        for line in lines
        if " ".join(word.text for word in line) in {" ".join(label.split()) for label in labels}
    ]


def _draw_cross(page: Any, box: Box) -> None:
    """Draw a cross in a ticked box that has no appearance of its own, as other programs do."""
    left, top, right, bottom = box
    path: Any = pdfium.FPDFPageObj_CreateNewRect(left, bottom, right - left, top - bottom)
    for x0, x1 in ((left, right), (right, left)):
        pdfium.FPDFPath_MoveTo(path, x0, bottom)
        pdfium.FPDFPath_LineTo(path, x1, top)
    pdfium.FPDFPageObj_SetStrokeColor(path, 0, 0, 0, 255)
    pdfium.FPDFPageObj_SetStrokeWidth(path, 1)
    pdfium.FPDFPath_SetDrawMode(path, pdfium.FPDF_FILLMODE_NONE, True)
    pdfium.FPDFPage_InsertObject(page, path)


def _note_lines(annotation: Any) -> list[str]:
    """Return the lines of a note's plain text, or else of its rich text."""
    text = _value(annotation, b"Contents")
    if not text.strip():
        first, *rest = _value(annotation, b"RC").replace("</p>", "\n</p>").split("<")
        text = html.unescape(first + "".join(part.partition(">")[2] for part in rest))
    return [clean(line) for line in text.splitlines() if line.strip()]


def _write_note(document: Any, page: Any, rectangle: Any, lines: Sequence[str]) -> dict[Handle, str]:
    """Draw a text note that has no appearance of its own, as other programs do. Return the text objects, and the text
    of each as it is drawn: PDFium's own font shows letters outside Western European scripts as question marks."""
    size = min(max(float(rectangle.top - rectangle.bottom) / max(len(lines), 1) * 0.7, 4.0), 12.0)
    font: Any = pdfium.FPDFText_LoadStandardFont(document, b"Helvetica")
    drawn: dict[Handle, str] = {}
    for at, line in enumerate(lines, start=1):
        shown = unicodedata.normalize("NFC", line)
        if is_right_to_left(shown):
            words = [word[::-1] if is_right_to_left(word) else word for word in shown.split()]
            shown = " ".join(reversed(words))
        label = put_text(document, page, font, shown, rectangle.left + 2, rectangle.top - 1.2 * size * at, size)
        drawn[address(label)] = shown
    return drawn


def _restore_notes(layer: Handle, codes: list[int], notes: dict[Handle, str]) -> None:
    """Write the characters of notes in place of those that could be drawn."""
    indexes: dict[Handle, list[int]] = {}
    for at in range(len(codes)) if notes else ():
        if (owner := text_object(layer, at)) in notes:
            indexes.setdefault(owner, []).append(at)
    for owner, places in indexes.items():
        characters = [character for character in notes[owner] if not character.isspace()]
        places = [at for at in places if not chr(codes[at]).isspace()]
        if len(places) == len(characters):
            for at, character in zip(places, characters, strict=True):
                codes[at] = ord(character)


def _iterate_marks(annotation: Any) -> Iterator[tuple[float, float, float, float]]:
    quad = pdfium.FS_QUADPOINTSF()
    for index in range(pdfium.FPDFAnnot_CountAttachmentPoints(annotation)):
        if pdfium.FPDFAnnot_GetAttachmentPoints(annotation, index, ctypes.byref(quad)):
            xs, ys = (quad.x1, quad.x2, quad.x3, quad.x4), (quad.y1, quad.y2, quad.y3, quad.y4)
            yield float(min(xs)), float(max(ys)), float(max(xs)), float(min(ys))


def _straight_strokes(annotation: Any) -> Iterator[Box]:
    """Return the nearly straight strokes of an ink annotation, each from one point to another."""
    for index in range(min(pdfium.FPDFAnnot_GetInkListCount(annotation), MAX_STRIKE_OUTS)):
        count = min(pdfium.FPDFAnnot_GetInkListPath(annotation, index, None, 0), MAX_STROKE_POINTS)
        points = (pdfium.FS_POINTF * max(count, 1))()
        if count < 2 or pdfium.FPDFAnnot_GetInkListPath(annotation, index, points, count) != count:
            continue
        (x0, y0), (x1, y1) = ((float(point.x), float(point.y)) for point in (points[0], points[count - 1]))
        if x0 == x1:
            continue
        rise = (y1 - y0) / (x1 - x0)
        if all(abs(point.y - y0 - (point.x - x0) * rise) <= MAX_DEVIATION for point in points):
            yield x0, y0, x1, y1


def _value(annotation: Any, key: bytes) -> str:
    size = min(pdfium.FPDFAnnot_GetStringValue(annotation, key, None, 0), 2 * MAX_PAGE_CHARACTERS)
    units = (ctypes.c_ushort * (size // 2 + 1))()
    pdfium.FPDFAnnot_GetStringValue(annotation, key, units, 2 * len(units))
    return clean(bytes(units)[:size].decode("utf-16-le", "replace").rstrip("\0").replace("\0", " "))


def _split_words(codes: list[int]) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and text of each word. A word hyphenated at the end of a line is two words."""
    text = _characters(codes)
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


def _split_at_gaps(
    words: Iterator[tuple[int, int, str]], codes: list[int], boxes: _Boxes
) -> Iterator[tuple[int, int, str]]:
    """Yield `0.92` and `12` for `0.9212` if a gap is between them, such as that of two columns of a table: PDFium joins
    the texts of some files."""
    for start, end, text in words:
        breaks = boxes.gaps(start, end)
        if not breaks or not all(map(_is_spaced_by_its_box, text)):
            yield start, end, text
            continue
        for first, last in pairwise((start, *breaks, end)):
            if part := clean(_characters(codes[first:last])):
                yield first, last, part


def _is_spaced_by_its_box(character: str) -> bool:
    """Return whether a gap beside a character separates words. Ideographs, marks above letters and right-to-left
    letters have boxes that are farther apart, or in another order."""
    return (
        unicodedata.east_asian_width(character) not in "WF"
        and not unicodedata.category(character).startswith("M")
        and not is_right_to_left(character)
    )


def _split_mixed_numbers(
    words: Iterator[tuple[int, int, str]], layer: Any, boxes: _Boxes
) -> Iterator[tuple[int, int, str]]:
    """Yield `7` and `1/2` for `71/2` if the fraction's digits are smaller."""
    for start, end, text in words:
        if len(text) == end - start and _WITH_FRACTION.fullmatch(text):
            slash = max(text.find("/"), text.find("⁄"))
            heights = [boxes.glyph_height(layer, start + at) for at in range(slash)]
            small = next((at for at, height in enumerate(heights) if height < _SMALL_DIGIT * heights[0]), 0)
            if small:
                yield start, start + small, text[:small]
                yield start + small, end, text[small:]
                continue
        yield start, end, text


def _write_raised_digits(text: str, baselines: Sequence[tuple[float, float]]) -> str:
    """Return a word with its raised or lowered digits written as super- or subscript. `feet` are the baseline of each
    character, which grows upwards, and its height."""
    runs = [0]
    for at, ((before, _), (foot, height)) in enumerate(pairwise(baselines), start=1):
        if abs(foot - before) > _MIN_RISE * height:
            runs.append(at)
    if len(runs) == 1:
        return text
    pieces = list(zip(runs, [*runs[1:], len(text)], strict=True))
    base = max(
        pieces, key=lambda piece: (round(max(height for _, height in baselines[slice(*piece)])), piece[1] - piece[0])
    )
    marked = ""
    for start, end in pieces:
        rise = baselines[start][0] - baselines[base[0]][0]
        is_beside = text[start - 1 : start].isdigit() or text[end : end + 1].isdigit()
        if is_beside and abs(rise) > _MIN_RISE * baselines[base[0]][1]:
            marked += superscript(text[start:end], "0", is_lowered=rise < 0)
        else:
            marked += text[start:end]
    return marked


def _direction(first: tuple[float, float, float, float], last: tuple[float, float, float, float]) -> int:
    right = (last[0] + last[2]) - (first[0] + first[2])
    down = (last[1] + last[3]) - (first[1] + first[3])
    if abs(right) >= abs(down):
        return _RIGHT if right >= 0 else _LEFT
    return _DOWN if down > 0 else _UP


class _Boxes:
    def __init__(self, page: Any, layer: Any) -> None:
        self._layer = address(layer)
        self._rectangle: Any = pdfium.FS_RECTF()
        self._reference: Any = ctypes.byref(self._rectangle)
        bounds: Any = pdfium.FS_RECTF()
        pdfium.FPDF_GetPageBoundingBox(page, ctypes.byref(bounds))
        self._left, self._top = float(bounds.left), float(bounds.top)
        self._right, self._bottom = float(bounds.right), float(bounds.bottom)
        self._turns = int(pdfium.FPDFPage_GetRotation(page))
        self.order: Sequence[int] = range(pdfium.FPDFText_CountChars(layer))  # the index of each character in PDFium
        self._origin = ctypes.c_double(), ctypes.c_double()
        self._origin_at: Any = tuple(map(ctypes.byref, self._origin))

    def of_word(self, start: int, end: int, direction: int) -> tuple[int, tuple[float, float, float, float]]:
        """Return the direction and box of a word, the characters `start` to `end`.

        A single character has no direction of its own and takes `direction`, that of the previous word.
        """
        first = self.of_character(start)
        if end - start < 2:
            return direction, first
        last = self.of_character(end - 1)
        box = min(first[0], last[0]), min(first[1], last[1]), max(first[2], last[2]), max(first[3], last[3])
        return _direction(first, last), box

    def gaps(self, start: int, end: int) -> list[int]:
        """Return the characters of a word after a gap that is clearly wider than the others. So letters that are all
        set apart stay one word."""
        if end - start < 2:
            return []
        box = self._rectangle
        sides: list[tuple[float, float, float, float]] = []
        for index in range(start, end):
            get_loose_box(self._layer, self.order[index], self._reference)
            sides.append((box.left, box.bottom, box.right, box.top))
        first, last = sides[0], sides[-1]
        right, up = last[0] + last[2] - first[0] - first[2], last[1] + last[3] - first[1] - first[3]
        axis = 0 if abs(right) >= abs(up) else 1
        is_backwards = (right, up)[axis] < 0
        gaps: list[float] = []
        for before, after in pairwise(sides):
            one, other = (after, before) if is_backwards else (before, after)
            height = max(before[3 - axis] - before[1 - axis], after[3 - axis] - after[1 - axis], 0.1)
            is_beside = before[1 - axis] < after[3 - axis] and after[1 - axis] < before[3 - axis]
            gaps.append((other[axis] - one[axis + 2]) / height if is_beside else 0.0)
        if max(gaps) < _MIN_GAP or min(gaps) < -_MIN_GAP_BACK:
            return []
        by_width = sorted(gaps)
        if len(gaps) == 1:
            least = _MIN_SINGLE_GAP
        else:
            steps = [after for before, after in pairwise(by_width) if after - max(before, 0) >= _MIN_GAP_STEP]
            least = next((width for width in steps if width >= _MIN_GAP), float("inf"))
        return [start + at for at, gap in enumerate(gaps, start=1) if gap >= least]

    def around(self, start: int, end: int) -> tuple[float, float, float, float]:
        """Return the box around all characters of a word. Slower than `of_word`, for words whose first and last
        character are not at their edges."""
        left, top, right, bottom = zip(*map(self.of_character, range(start, end)), strict=True)
        return min(left), min(top), max(right), max(bottom)

    def slant(self, index: int) -> float | None:
        """Return the direction of a slanted character in quarter turns, rounded to a degree; None if it is upright or
        turned by quarters."""
        turns = get_angle(self._layer, self.order[index]) / (pi / 2) + self._turns
        return round(turns * 90) % 360 / 90 if abs(turns - round(turns)) > _MIN_SLANT else None

    def are_on_one_line(self, start: int, end: int) -> bool:
        """Return whether the baselines of all characters are one upright or level line."""
        xs, ys = set[float](), set[float]()
        for index in range(start, end):
            get_origin(self._layer, self.order[index], *self._origin_at)
            xs.add(self._origin[0].value)
            ys.add(self._origin[1].value)
        return len(ys) == 1 or len(xs) == 1

    def baselines(self, start: int, end: int, direction: float) -> list[tuple[float, float]]:
        """Return the baseline (growing upwards) and the height of each character."""
        across, up = sin(direction * pi / 2), -cos(direction * pi / 2)
        axis = 0 if abs(across) > abs(up) else 1
        baselines: list[tuple[float, float]] = []
        for index in range(start, end):
            box = self.of_character(index)
            get_origin(self._layer, self.order[index], *self._origin_at)
            x, y = self._origin[0].value, self._origin[1].value
            x, y, _, _ = self.as_shown(x, y, x, y)
            baselines.append((across * x + up * y, box[axis + 2] - box[axis]))
        return baselines

    def of_character(self, index: int) -> tuple[float, float, float, float]:
        """Return left, top, right and bottom of one character in points. The height is that of its font."""
        get_loose_box(self._layer, self.order[index], self._reference)
        box = self._rectangle
        return self.as_shown(box.left, box.top, box.right, box.bottom)

    def glyph_height(self, layer: Any, index: int) -> float:
        """Return how high a character's glyph is on an upright page. Digits of a fraction are lower than others."""
        sides = [ctypes.c_double() for _ in range(4)]
        pdfium.FPDFText_GetCharBox(layer, self.order[index], *map(ctypes.byref, sides))
        return float(sides[3].value - sides[2].value)

    def symbol_font(self, layer: Any, index: int) -> str:
        """Return the name of a character's symbol font, or an empty string for a normal font."""
        name = ctypes.create_string_buffer(100)
        pdfium.FPDFText_GetFontInfo(layer, self.order[index], name, len(name), None)
        found = _SYMBOL_FONT.search(name.value.decode("latin-1").lower())
        return found[0].replace(" ", "") if found else ""

    def line_as_shown(self, line: Box) -> Box:
        ends = [self.as_shown(x, y, x, y)[:2] for x, y in (line[:2], line[2:])]
        return *ends[0], *ends[1]

    def as_shown(self, left: float, top: float, right: float, bottom: float) -> tuple[float, float, float, float]:
        """Convert a box from page coordinates to points from the top left corner of the page as shown."""
        if self._turns == 0:
            return left - self._left, self._top - top, right - self._left, self._top - bottom
        if self._turns == 1:
            return bottom - self._bottom, left - self._left, top - self._bottom, right - self._left
        if self._turns == 2:
            return self._right - right, bottom - self._bottom, self._right - left, top - self._bottom
        return self._top - top, self._right - right, self._top - bottom, self._right - left
