"""What reading yields: pages of words with boxes, and the limits a file is read within."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

MIB = 1024 * 1024

ENGINES = frozenset({"pdf", "rapidocr", "docx", "xlsx", "html", "email", "text", "csv"})

# Beyond these a page is an attack or a mistake, and its JSON would no longer be one bounded line.
MAX_PAGE_CHARACTERS = 500_000
MAX_PAGE_WORDS = 100_000
MAX_EXCERPT = 200  # characters of hidden text that are kept, for a person to see what was tried


@dataclass(frozen=True, slots=True)
class Word:
    """A run of characters without white space, and where it stands.

    The box is in parts of the page (0..1), origin top left, as the rendered page shows it. `confidence` (0..1) is
    known for OCR only.
    """

    text: str
    x0: float
    y0: float
    x1: float
    y1: float
    confidence: float | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """One page. `number` counts from 1; width and height are points (pixels for images).

    `text` holds the lines in reading order; gaps as wide as a column are two spaces or more. `words` are exactly
    `text.split()`, in that order. `engine` is one of ENGINES: what read it. `hidden_words` were left out because a
    person cannot see them; `hidden_excerpt` is how they begin.
    """

    number: int
    width: float
    height: float
    text: str
    words: list[Word]
    engine: str
    hidden_words: int = 0
    hidden_excerpt: str = ""

    def leaving_out(self, hidden: Sequence[str]) -> Page:
        """The page with the words on record that were left out of it, after those that are so already."""
        if not hidden:
            return self
        excerpt = " ".join([self.hidden_excerpt, *hidden[:MAX_EXCERPT]]).strip()[:MAX_EXCERPT]
        return replace(self, hidden_words=self.hidden_words + len(hidden), hidden_excerpt=excerpt)

    def pack(self) -> dict[str, Any]:
        """The page as compact JSON: a word is `[text, x0, y0, x1, y1]`, with its confidence as a sixth for OCR."""
        words: list[list[Any]] = []
        for word in self.words:
            item: list[Any] = [word.text, word.x0, word.y0, word.x1, word.y1]
            if word.confidence is not None:
                item.append(word.confidence)
            words.append(item)
        return {
            "number": self.number,
            "width": self.width,
            "height": self.height,
            "text": self.text,
            "words": words,
            "engine": self.engine,
            "hidden_words": self.hidden_words,
            "hidden_excerpt": self.hidden_excerpt,
        }

    @classmethod
    def unpack(cls, packed: dict[str, Any]) -> Page:
        """The page that `pack` packed."""
        words = [Word(*item) for item in packed["words"]]
        parts: dict[str, Any] = {**packed, "words": words}
        return cls(**parts)


@dataclass(frozen=True, slots=True)
class Reading:
    """A whole document as read."""

    media_type: str
    pages: list[Page]


@dataclass(frozen=True, slots=True)
class Limits:
    """What one document may cost. A file beyond any of them is unreadable, with a sentence that names the limit."""

    max_bytes: int = 50 * MIB
    max_pages: int = 500
    max_pixels: int = 100_000_000  # a page
    max_decoded_bytes: int = 256 * MIB  # what an archive unpacks to, and what the reader may hand back
    seconds: float = 30
    seconds_per_page: float = 2
    memory_bytes: int = 2048 * MIB  # address space of the subprocess; where it does OCR, the models come on top


class Piece(NamedTuple):
    """A word before it has its place in the text: a box in the page's own units, origin top left."""

    text: str
    x0: float
    y0: float
    x1: float
    y1: float
    confidence: float | None = None


_LIGATURE = re.compile("[\ufb00-\ufb06]")
# Postgres stores neither NUL nor lone surrogates; the other controls and zero-width marks are invisible to a person,
# who must see what the model sees.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\ufff9-\ufffc\ufffe\uffff"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def clean(text: str) -> str:
    """The text without NUL, lone surrogates, controls and invisible characters; ligatures are taken apart."""
    if text.isascii():
        return _INVISIBLE.sub("", text) if not text.isprintable() else text
    try:
        text.encode()
    except UnicodeEncodeError:
        # Two halves of one character may arrive one by one.
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    text = _LIGATURE.sub(lambda match: unicodedata.normalize("NFKC", match[0]), text)
    return _INVISIBLE.sub("", text)
