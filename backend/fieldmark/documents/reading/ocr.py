"""OCR: the words in an image, recognised with the models inside rapidocr's wheel. Nothing is downloaded."""

from __future__ import annotations

import math
from statistics import median
from typing import Any

from PIL import Image

from fieldmark.documents.reading.layout import layout_page
from fieldmark.documents.reading.pages import Page, PlacedWord, clean

DPI = 200
LONGEST_SIDE = 2000  # pixels; with twice as many, printed pages gave no more words and took three times as long


class Ocr:
    """The OCR engine with its models loaded."""

    def __init__(self, threads: int) -> None:
        """Loads all that recognition needs. Afterwards no file is opened and no thread is started."""
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
        """The page's words. Width and height are the page's own, whatever the size of the image."""
        pixels: Any = self._numpy.asarray(image)[:, :, ::-1]  # the models want blue first
        found: Any = self._engine(pixels, use_det=True, use_rec=True, return_word_box=True)
        if getattr(found, "boxes", None) is None:
            return layout_page(number, width, height, [], "rapidocr")
        across, down = width / image.width, height / image.height
        placed: list[PlacedWord] = []
        slopes: list[float] = []
        # rapidocr leaves a line out of word_results if it cannot place its words. Then the two lists do not correspond.
        words: Any = found.word_results if len(found.word_results) == len(found.txts) else [()] * len(found.txts)
        for corners, text, score, line in zip(found.boxes.tolist(), found.txts, found.scores, words, strict=True):
            (left, top), (right, right_top) = corners[0], corners[1]
            if right - left > 4 * abs(right_top - top):
                slopes.append((right_top - top) / (right - left))
            for word, confidence, box in line or _words_without_boxes(text, score, corners):
                xs, ys = [corner[0] * across for corner in box], [corner[1] * down for corner in box]
                for part, x0, x1 in _spread(clean(str(word)), min(xs), max(xs)):
                    placed.append(PlacedWord(part, x0, min(ys), x1, max(ys), float(confidence)))
        slope = median(slopes) * down / across if slopes else 0.0
        return layout_page(number, width, height, [(0, placed)], "rapidocr", slope if math.isfinite(slope) else 0.0)


def _spread(text: str, x0: float, x1: float) -> list[tuple[str, float, float]]:
    """The words of a text from x0 to x1, with the left and right of each, as if all characters were equally wide."""
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
    """The words of a line that has no boxes for them: each gets its share of the line's box."""
    (left, top), (right, right_top), (_, right_bottom), (_, bottom) = corners
    words: list[tuple[str, float, list[list[float]]]] = []
    for word, x0, x1 in _spread(text, 0.0, 1.0):
        a, b = left + (right - left) * x0, left + (right - left) * x1
        ya, yb = top + (right_top - top) * x0, bottom + (right_bottom - bottom) * x1
        words.append((word, score, [[a, ya], [b, ya], [b, yb], [a, yb]]))
    return words
