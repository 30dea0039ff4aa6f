"""OCR: the words in an image, read with the models inside rapidocr's wheel. Nothing is downloaded."""

from __future__ import annotations

import math
from statistics import median
from typing import Any

from PIL import Image

from fieldmark.documents.reading.layout import compose
from fieldmark.documents.reading.pages import Page, Piece, clean

DPI = 200
LONGEST_SIDE = 2000  # pixels; on printed pages twice as many found no more words, in three times the time


class Ocr:
    """The engine with its models loaded."""

    def __init__(self, threads: int) -> None:
        """Loads everything it will need: afterwards no file is opened and no thread started."""
        import cv2
        import numpy
        from rapidocr import RapidOCR

        cv2.setNumThreads(1)
        self._numpy: Any = numpy
        self._engine: Any = RapidOCR(
            params={
                "Global.log_level": "critical",
                "Global.use_cls": False,
                "EngineConfig.onnxruntime.intra_op_num_threads": threads,
                "EngineConfig.onnxruntime.inter_op_num_threads": 1,
            }
        )
        blank: Any = numpy.full((64, 64, 3), 255, dtype=numpy.uint8)
        self._engine(blank, use_det=True, use_rec=False)
        self._engine(blank, use_det=False, use_rec=True)

    def read_page(self, number: int, image: Image.Image, width: float, height: float) -> Page:
        """The page's words. Width and height are the page's own; the image may show it larger or smaller."""
        pixels: Any = self._numpy.asarray(image)[:, :, ::-1]  # the models want blue first
        found: Any = self._engine(pixels, use_det=True, use_rec=True, return_word_box=True)
        if getattr(found, "boxes", None) is None:
            return compose(number, width, height, [], "rapidocr")
        across, down = width / image.width, height / image.height
        pieces: list[Piece] = []
        slopes: list[float] = []
        # A line whose words could not be placed is left out of word_results: then no line can be told from another.
        words: Any = found.word_results if len(found.word_results) == len(found.txts) else [()] * len(found.txts)
        for corners, text, score, line in zip(found.boxes.tolist(), found.txts, found.scores, words, strict=True):
            (left, top), (right, right_top) = corners[0], corners[1]
            if right - left > 4 * abs(right_top - top):
                slopes.append((right_top - top) / (right - left))
            for word, confidence, box in line or _split(text, score, corners):
                xs, ys = [corner[0] * across for corner in box], [corner[1] * down for corner in box]
                for part, x0, x1 in _parts(clean(str(word)), min(xs), max(xs)):
                    pieces.append(Piece(part, x0, min(ys), x1, max(ys), float(confidence)))
        slope = median(slopes) * down / across if slopes else 0.0
        return compose(number, width, height, [(0, pieces)], "rapidocr", slope if math.isfinite(slope) else 0.0)


def _parts(text: str, x0: float, x1: float) -> list[tuple[str, float, float]]:
    """The words of a text that stands between x0 and x1, as if all its characters were equally wide."""
    unit = (x1 - x0) / max(len(text), 1)
    at = 0
    parts: list[tuple[str, float, float]] = []
    for word in text.split():
        at = text.index(word, at)
        parts.append((word, x0 + at * unit, x0 + (at + len(word)) * unit))
        at += len(word)
    return parts


def _split(text: str, score: float, corners: list[list[float]]) -> list[tuple[str, float, list[list[float]]]]:
    """A line's words without boxes of their own: each has its share of the line."""
    (left, top), (right, right_top), (_, right_bottom), (_, bottom) = corners
    words: list[tuple[str, float, list[list[float]]]] = []
    for word, x0, x1 in _parts(text, 0.0, 1.0):
        a, b = left + (right - left) * x0, left + (right - left) * x1
        ya, yb = top + (right_top - top) * x0, bottom + (right_bottom - bottom) * x1
        words.append((word, score, [[a, ya], [b, ya], [b, yb], [a, yb]]))
    return words
