"""The input: the words of a page, with their boxes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

Word: TypeAlias = Sequence[Any]
"""[text, x0, y0, x1, y1], followed by a confidence from 0 to 1 if OCR read the word. The box is in fractions of the
page's width and height, from its top left corner."""
Box: TypeAlias = tuple[float, float, float, float]
"""x0, y0, x1, y1."""


class SearchablePage(Protocol):
    """What is searched of a page: `PageWords`, `pagewords.Page` or a class of yours."""

    @property
    def number(self) -> int: ...
    @property
    def words(self) -> Sequence[Word]: ...
    @property
    def is_xml(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class PageWords:
    """One page: its number, and its words in reading order.

    A page with `is_xml` holds an embedded e-invoice, which is not printed.
    """

    number: int
    words: Sequence[Word]
    is_xml: bool = False
