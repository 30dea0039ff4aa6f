"""OCR: recognise the words in an image with the models inside rapidocr's wheel. Nothing is downloaded."""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from PIL import Image

from pagewords.cents import restore_decimal_points
from pagewords.layout import layout_page
from pagewords.pages import Page, PlacedWord, clean
from pagewords.reading_warnings import ReadingWarning, WarningCode

DPI = 200
LONGEST_SIDE = 2000  # pixels; with twice as many, printed pages gave no more words and took three times as long

# Measured: printed receipts score 0.95 and more, upside-down text 0.75 and less, other scripts up to 0.93.
UPRIGHT_SCORE, CERTAIN_SCORE = 0.85, 0.93
MIN_SCORE = 0.5  # of a line: below it, most are noise and not text
SAMPLE_LINES = 16  # The orientation is decided by this number of the longest lines.
MAX_UNREAD_INK_SHARE = 0.35  # of a line's inked columns: above it, the models left out letters
MARGIN_SHARE = 0.1  # of a word's height, around it
MAX_STROKE = 0.6  # of a word's height, the width of a letter's stroke
DIGIT_HEIGHTS, DIGIT_SLACK = (0.35, 1.0), 0.2  # of the usual height of words, of a single digit beside a line
MAX_LONE_DIGITS = 30  # of a page; more are noise
_ROTATIONS = (None, Image.Transpose.ROTATE_90, Image.Transpose.ROTATE_180, Image.Transpose.ROTATE_270)
_CHINESE_OR_JAPANESE = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
# OCR may omit the space between them.
_DATE_AND_TIME = re.compile(
    r"(?<!\d)(\d{4}[-/.]\d\d?[-/.]\d\d|\d\d?[-/.]\d\d?[-/.](?:\d{4}|\d\d))(\d\d?:\d\d(?::\d\d)?)(?!\d)"
)

Box = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class _Recognition:
    """The text recognised in an image. Boxes are in its pixels; `unread` counts lines that were detected but not
    read."""

    words: Sequence[PlacedWord]
    slope: float
    score: float
    unread: int


class Ocr:
    """The OCR engine with its models loaded."""

    def __init__(self) -> None:
        """Load everything that recognition needs. Afterwards no file is opened and no thread is started. The engine
        uses one thread, so that a forked process inherits it completely. One thread also takes less processor time per
        page than two, which wait for each other; pages are distributed over the cores instead."""
        import cv2
        import numpy
        from rapidocr import RapidOCR
        from rapidocr.ch_ppocr_cls import TextClsOutput
        from rapidocr.main import RapidOCRError

        cv2.setNumThreads(1)
        self._numpy: Any = numpy
        self._cv2: Any = cv2
        self._nothing_found_error: type[Exception] = RapidOCRError
        self._no_directions: Any = TextClsOutput()
        self._engine: Any = RapidOCR(
            params={
                "Global.log_level": "critical",
                "Global.use_cls": False,
                "Global.return_word_box": True,
                "Global.text_score": 0.0,  # lines below MIN_SCORE are dropped and counted here
                "EngineConfig.onnxruntime.intra_op_num_threads": 1,
                "EngineConfig.onnxruntime.inter_op_num_threads": 1,
            }
        )
        blank: Any = numpy.full((64, 64, 3), 255, dtype=numpy.uint8)
        self._engine(blank, use_det=True, use_rec=False)
        self._engine(blank, use_det=False, use_rec=True)

    def read_page(
        self,
        number: int,
        image: Image.Image,
        width: float,
        height: float,
        text_layer: Sequence[tuple[float, list[PlacedWord]]] = (),
        box: Box | None = None,
    ) -> Page:
        """Return the page with its words, in any orientation.

        `width` and `height` are in the page's units. Boxes are positions on the page as it is; the text is in reading
        order of the upright page. `text_layer` are the words of a PDF's text layer, by direction; recognised words at
        the same position are dropped. `box` is the part of the page to read.
        """
        across, down = width / image.width, height / image.height
        x, y, right, bottom = box or (0.0, 0.0, width, height)
        part = image.crop((int(x / across), int(y / down), math.ceil(right / across), math.ceil(bottom / down)))
        x, y = int(x / across) * across, int(y / down) * down
        rotation, reading = self._read_upright(part)
        words = [_in_original_coordinates(word, rotation, part.width, part.height) for word in reading.words]
        placed = [
            PlacedWord(t, x + x0 * across, y + y0 * down, x + x1 * across, y + y1 * down, c)
            for t, x0, y0, x1, y1, c in words
        ]
        groups = {direction: list(words) for direction, words in text_layer}
        printed_words = _TextLayerWords([word for _, words in text_layer for word in words])
        found = [word for word in placed if word not in printed_words]
        slope = reading.slope * (down / across if rotation % 2 == 0 else across / down)
        if len(found) < sum(map(len, groups.values())):
            slope = 0.0  # the lines that are text run straight
        groups[rotation] = groups.get(rotation, []) + found
        page = layout_page(number, width, height, sorted(groups.items()), "pdf" if text_layer else "rapidocr", slope)
        return replace(page, warnings=tuple(_warnings(number, image, reading, bool(found), bool(text_layer))))

    def read_words(self, image: Image.Image, boxes: Sequence[tuple[float, Box]]) -> list[tuple[str, float]]:
        """Return text and score of words at known positions, given as directions and boxes in pixels."""
        crops: list[Any] = []
        for direction, (left, top, right, bottom) in boxes:
            margin = MARGIN_SHARE * min(right - left, bottom - top)
            x0, y0 = max(int(left - margin), 0), max(int(top - margin), 0)
            part = image.crop((x0, y0, max(math.ceil(right + margin), x0 + 1), max(math.ceil(bottom + margin), y0 + 1)))
            way = _ROTATIONS[round(direction) % 4]
            crops.append(self._pixels(part if way is None else part.transpose(way)))
        try:
            found: Any = self._engine.recognize_txt(crops)
        except self._nothing_found_error:
            return [("", 0.0)] * len(crops)
        return [(clean(text).strip(), float(score)) for text, score in zip(found.txts, found.scores, strict=True)]

    def _read_upright(self, image: Image.Image) -> tuple[int, _Recognition]:
        pixels = self._pixels(image)
        found, crops = self._detect(pixels)
        if not crops:
            return 0, _Recognition([], 0.0, 1.0, 0)
        if _is_vertical(found[1].boxes.tolist()):
            # The engine rotates tall lines as if they ran down.
            sample = self._longest_lines(crops)
            rotation = 1 if self._mean_score(sample) >= self._mean_score(self._upside_down(sample)) else 3
            return rotation, self._read_turned(image, rotation)
        reading = self._recognise(pixels, found, crops)
        if reading.score < UPRIGHT_SCORE:
            sample = self._longest_lines(crops)
            if self._mean_score(self._upside_down(sample)) > max(self._mean_score(sample), UPRIGHT_SCORE - 0.05):
                return 2, self._read_turned(image, 2)
        return 0, reading

    def _read_turned(self, image: Image.Image, rotation: int) -> _Recognition:
        way = _ROTATIONS[rotation]
        assert way is not None
        pixels = self._pixels(image.transpose(way))
        found, crops = self._detect(pixels)
        return self._recognise(pixels, found, crops) if crops else _Recognition([], 0.0, 1.0, 0)

    def _pixels(self, image: Image.Image) -> Any:
        return self._numpy.ascontiguousarray(self._numpy.asarray(image)[:, :, ::-1])  # the models want blue first

    def _detect(self, pixels: Any) -> tuple[Any, list[Any]]:
        """Return the image's transformation with the boxes of the detected lines, and the image of each line."""
        prepared, done = self._engine.preprocess_img(pixels)
        try:
            crops, boxes = self._engine.detect_and_crop(prepared, done)
        except self._nothing_found_error:
            return None, []
        return (done, boxes), crops

    def _longest_lines(self, crops: list[Any]) -> list[Any]:
        return sorted(crops, key=lambda crop: -crop.shape[1] / crop.shape[0])[:SAMPLE_LINES]

    def _upside_down(self, crops: list[Any]) -> list[Any]:
        return [self._numpy.ascontiguousarray(crop[::-1, ::-1]) for crop in crops]

    def _mean_score(self, crops: list[Any]) -> float:
        try:
            found: Any = self._engine.recognize_txt(crops)
        except self._nothing_found_error:
            return 0.0
        return _weighted_mean(found.txts, found.scores)

    def _recognise(self, pixels: Any, found: Any, crops: list[Any]) -> _Recognition:
        done, boxes = found
        try:
            recognised: Any = self._engine.recognize_txt(crops)
        except self._nothing_found_error:
            return _Recognition([], 0.0, 0.0, len(crops))
        unread = sum(not text.strip() for text in recognised.txts)
        lines: Any = self._engine.build_final_output(pixels, boxes, self._no_directions, recognised, crops, done)
        if getattr(lines, "boxes", None) is None:
            return _Recognition([], 0.0, 0.0, unread)
        grey = pixels.mean(axis=2)
        words: list[PlacedWord] = []
        slopes: list[float] = []
        # rapidocr leaves a line out of word_results if it cannot place its words. Then the two lists do not correspond.
        parts: Any = lines.word_results if len(lines.word_results) == len(lines.txts) else [()] * len(lines.txts)
        kept: list[tuple[str, float]] = []
        for corners, text, score, line in zip(lines.boxes.tolist(), lines.txts, lines.scores, parts, strict=True):
            if score < MIN_SCORE:
                unread += 1
                continue
            kept.append((text, score))
            (left, top), (right, right_top) = corners[0], corners[1]
            if right - left > 4 * abs(right_top - top):
                slopes.append((right_top - top) / (right - left))
            placed = line_words(text, score, corners, line)
            unread += self._has_unread_ink(grey, corners, placed)
            words += placed
        words = restore_decimal_points(words, grey)
        words += self._lone_digits(grey, words, lines.boxes.tolist())
        slope = median(slopes) if slopes else 0.0
        score = _weighted_mean([text for text, _ in kept], [score for _, score in kept])
        return _Recognition(words, slope if math.isfinite(slope) else 0.0, score, unread)

    def _lone_digits(self, grey: Any, words: Sequence[PlacedWord], lines: Any) -> list[PlacedWord]:
        """Return single digits beside the words of a line. The models do not find them on a grey watermark.

        Their strokes are darker than their surroundings, as those of the words are; wider areas are not.
        """
        if not words:
            return []
        numpy, cv2 = self._numpy, self._cv2
        height = median(word.y1 - word.y0 for word in words)
        side = int(min(max(MAX_STROKE * height, 3), 40)) | 1
        strokes = cv2.morphologyEx(grey.astype(numpy.uint8), cv2.MORPH_BLACKHAT, numpy.ones((side, side), numpy.uint8))
        usual = median(float(_region(strokes, word[1:5]).max(initial=0)) for word in words)
        alone = (strokes > usual / 2).astype(numpy.uint8)
        for corners in lines:
            xs, ys = [x for x, _ in corners], [y for _, y in corners]
            margin = MARGIN_SHARE * height
            _region(alone, (min(xs) - margin, min(ys) - margin, max(xs) + margin, max(ys) + margin))[:] = 0
        middles = sorted((word.y0 + word.y1) / 2 for word in words if word.y1 - word.y0 < 1.5 * height)
        digits: list[Box] = []
        for x, y, across, down, _ in cv2.connectedComponentsWithStats(alone)[2][1:].tolist():
            middle, slack = y + down / 2, DIGIT_SLACK * height
            has_size = DIGIT_HEIGHTS[0] * height <= down <= DIGIT_HEIGHTS[1] * height and 0.3 * down <= across <= down
            if has_size and bisect_left(middles, middle - slack) < bisect_right(middles, middle + slack):
                digits.append((x, middle - 0.6 * height, x + across, middle + 0.6 * height))
        if not 0 < len(digits) <= MAX_LONE_DIGITS:
            return []
        on_white = 255 - numpy.clip(strokes * (255 / max(usual, 1)), 0, 255).astype(numpy.uint8)
        picture = Image.fromarray(on_white).convert("RGB")
        margin = 0.35 * height
        around = [(0.0, (x0 - margin, y0, x1 + margin, y1)) for x0, y0, x1, y1 in digits]
        return [
            PlacedWord(text, *box, score)
            for box, (text, score) in zip(digits, self.read_words(picture, around), strict=True)
            if len(text) == 1 and text.isdigit() and score >= CERTAIN_SCORE
        ]

    def _has_unread_ink(self, grey: Any, corners: list[list[float]], words: Sequence[PlacedWord]) -> bool:
        xs, ys = [x for x, _ in corners], [y for _, y in corners]
        left, right = max(0, int(min(xs))), int(max(xs)) + 1
        top, bottom = max(0, int(min(ys))), int(max(ys)) + 1
        if right - left < 2 * (bottom - top):
            return False
        region = grey[top:bottom, left:right]
        contrast = region.max(axis=0) - region.min(axis=0)
        inked = contrast > 0.4 * max(float(region.max() - region.min()), 1.0)
        total = int(inked.sum())
        slack = (bottom - top) // 3
        for word in words:
            inked[max(0, int(word.x0) - left - slack) : max(0, int(word.x1) - left + slack)] = False
        beside = int(inked.sum())
        return beside > MAX_UNREAD_INK_SHARE * total and beside > bottom - top


def _region(pixels: Any, box: Sequence[float]) -> Any:
    x0, y0, x1, y1 = box
    return pixels[max(int(y0), 0) : max(int(y1) + 1, 0), max(int(x0), 0) : max(int(x1) + 1, 0)]


class _TextLayerWords:
    """The words of the text layer. Contains a recognised word if a word of similar height is at the same position."""

    def __init__(self, words: Sequence[PlacedWord]) -> None:
        self._words = sorted(words, key=lambda word: word.y0 + word.y1)
        self._middles = [(word.y0 + word.y1) / 2 for word in self._words]

    def __contains__(self, word: PlacedWord) -> bool:
        middle, height = (word.y0 + word.y1) / 2, word.y1 - word.y0
        first, end = bisect_left(self._middles, middle - height), bisect_right(self._middles, middle + height)
        covered = 0.0
        for _, x0, y0, x1, y1, _ in self._words[first:end]:
            if height / 2 <= y1 - y0 <= height * 2:  # not a stamp across the page
                across, down = min(x1, word.x1) - max(x0, word.x0), min(y1, word.y1) - max(y0, word.y0)
                covered += max(across, 0.0) * max(down, 0.0)
        return covered > (word.x1 - word.x0) * height / 2


def _warnings(
    number: int, image: Image.Image, reading: _Recognition, has_words: bool, has_text_layer: bool
) -> Iterator[ReadingWarning]:
    if not reading.words and not has_text_layer:
        if reading.unread or _has_contrast(image):
            yield ReadingWarning(WarningCode.NOTHING_READ, number, reading.unread)
        return
    if has_words and reading.score < CERTAIN_SCORE:
        yield ReadingWarning(WarningCode.UNCERTAIN_TEXT, number, int(100 * reading.score))
    if reading.unread:
        yield ReadingWarning(WarningCode.UNREAD_LINES, number, reading.unread)


def _weighted_mean(texts: Sequence[str], scores: Sequence[float]) -> float:
    """Return the mean score weighted by line length. Lines without letters count as 0."""
    lengths = [max(len(text.strip()), 1) for text in texts]
    total = sum(score * bool(text.strip()) * size for text, score, size in zip(texts, scores, lengths, strict=True))
    return float(total / sum(lengths)) if lengths else 0.0


def _is_vertical(boxes: Sequence[Sequence[Sequence[float]]]) -> bool:
    tall = wide = 0.0
    for corners in boxes:
        across, down = math.dist(corners[0], corners[1]), math.dist(corners[0], corners[3])
        if down > 1.5 * across:
            tall += down
        elif across > 1.5 * down:
            wide += across
    return tall > wide


def _has_contrast(image: Image.Image) -> bool:
    low, high = image.convert("L").resize((64, 64), Image.Resampling.BOX).getextrema()
    return int(high) - int(low) > 40  # pyright: ignore[reportArgumentType]


def _in_original_coordinates(word: PlacedWord, rotation: int, width: int, height: int) -> PlacedWord:
    """Convert a word of the rotated image to the original image, whose size is given."""
    text, x0, y0, x1, y1, confidence = word
    if rotation == 1:
        return PlacedWord(text, width - y1, x0, width - y0, x1, confidence)
    if rotation == 2:
        return PlacedWord(text, width - x1, height - y1, width - x0, height - y0, confidence)
    if rotation == 3:
        return PlacedWord(text, y0, height - x1, y1, height - x0, confidence)
    return word


def line_words(text: str, score: float, corners: list[list[float]], parts: Any) -> list[PlacedWord]:
    """Return the words of a line. `parts` are the engine's boxes: (text, confidence, corners)."""
    placed: list[PlacedWord] = []
    for part, confidence, box in _join_characters(text, parts) or _words_without_boxes(text, score, corners):
        xs, ys = [corner[0] for corner in box], [corner[1] for corner in box]
        for word, x0, x1 in _split_by_length(_DATE_AND_TIME.sub(r"\1 \2", clean(str(part))), min(xs), max(xs)):
            placed.append(PlacedWord(word, x0, min(ys), x1, max(ys), float(confidence)))
    return placed


def _join_characters(text: str, parts: Any) -> Sequence[tuple[str, float, list[list[float]]]]:
    """Join the single characters into which the engine splits Chinese and Japanese lines into the words of `text`.

    >>> [word for word, _, _ in _join_characters("合計 ¥132", [(c, 1.0, [[0, 0]]) for c in "合計¥132"])]
    ['合計', '¥132']
    """
    if not _CHINESE_OR_JAPANESE.search(text) or "".join(str(part[0]) for part in parts) != "".join(text.split()):
        return parts
    joined: list[tuple[str, float, list[list[float]]]] = []
    rest = iter(parts)
    for word in text.split():
        length, of_word = 0, list[Any]()
        while length < len(word):
            of_word.append(next(rest))
            length += len(of_word[-1][0])
        corners = [corner for _, _, box in of_word for corner in box]
        joined.append((word, min(float(confidence) for _, confidence, _ in of_word), corners))
    return joined


def _split_by_length(text: str, x0: float, x1: float) -> list[tuple[str, float, float]]:
    unit = (x1 - x0) / max(len(text), 1)
    at = 0
    words: list[tuple[str, float, float]] = []
    for word in text.split():
        at = text.index(word, at)
        words.append((word, x0 + at * unit, x0 + (at + len(word)) * unit))
        at += len(word)
    return words


def _words_without_boxes(
    text: str, score: float, corners: list[list[float]]
) -> list[tuple[str, float, list[list[float]]]]:
    """Return the words of a line without word boxes: each gets its share of the line's box."""
    (left, top), (right, right_top), (_, right_bottom), (_, bottom) = corners
    words: list[tuple[str, float, list[list[float]]]] = []
    for word, x0, x1 in _split_by_length(text, 0.0, 1.0):
        a, b = left + (right - left) * x0, left + (right - left) * x1
        ya, yb = top + (right_top - top) * x0, bottom + (right_bottom - bottom) * x1
        words.append((word, score, [[a, ya], [b, ya], [b, yb], [a, yb]]))
    return words
