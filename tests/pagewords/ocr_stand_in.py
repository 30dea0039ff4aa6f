from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pagewords.pages import Page


class OcrStandIn:
    """An OCR engine that answers with a function of the test, and reads no word."""

    def __init__(self, read_page: Callable[..., Page]) -> None:
        self.read_page: Any = read_page

    def read_words(self, image: object, boxes: Sequence[object]) -> list[tuple[str, float]]:
        return [("", 0.0)] * len(boxes)
