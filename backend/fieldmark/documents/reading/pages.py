"""The content of a document: pages of words with boxes. And the limits that a file is read within."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, NamedTuple, TypeAlias

from pydantic import Field, PositiveInt

from fieldmark.domain.reading_warnings import MAX_EXCERPT, ReadingWarning, WarningCode

MIB = 1024 * 1024

ENGINES = frozenset({"pdf", "rapidocr", "docx", "xlsx", "html", "email", "text", "csv", "xml", "zip", "odf"})

# Beyond these a page is an attack or a mistake, and its JSON would no longer be one bounded line.
MAX_PAGE_CHARACTERS = 500_000
MAX_PAGE_WORDS = 100_000


Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]
Length: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count: TypeAlias = Annotated[int, Field(ge=0, lt=2**31)]


class Word(NamedTuple):
    """Characters without white space, and their box.

    The box is given in fractions of the page (0 to 1) from its top left corner, as the rendered page shows it.
    `confidence` (0 to 1) is known for OCR only.
    """

    text: str
    x0: Share
    y0: Share
    x1: Share
    y1: Share
    confidence: Share | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """One page. `number` counts from 1; width and height are in points (for images, in pixels).

    `text` holds the lines in reading order. A gap as wide as a column is two spaces or more. `words` are exactly
    `text.split()`, in that order. `engine` is what read the page, one of ENGINES. `hidden_words` is the number of words
    that were left out because a person cannot see them, and `hidden_excerpt` is how these begin. `warnings` are the
    others: `all_warnings` has both.
    """

    number: PositiveInt
    width: Length
    height: Length
    text: str
    words: list[Word]
    engine: str
    hidden_words: Count = 0
    hidden_excerpt: str = ""
    warnings: tuple[ReadingWarning, ...] = ()

    @property
    def all_warnings(self) -> list[ReadingWarning]:
        """The page's warnings, that of its hidden words first."""
        if not self.hidden_words:
            return list(self.warnings)
        hidden = ReadingWarning(WarningCode.HIDDEN_TEXT, self.number, self.hidden_words, self.hidden_excerpt)
        return [hidden, *self.warnings]

    def renumbered(self, number: int) -> Page:
        """Return the page as another one of its document."""
        return replace(self, number=number, warnings=tuple(replace(one, page=number) for one in self.warnings))

    def with_hidden_words(self, hidden: Sequence[str]) -> Page:
        """The page with more words counted as hidden; they follow the ones that are counted already."""
        if not hidden:
            return self
        excerpt = " ".join([self.hidden_excerpt, *hidden[:MAX_EXCERPT]]).strip()[:MAX_EXCERPT]
        return replace(self, hidden_words=self.hidden_words + len(hidden), hidden_excerpt=excerpt)


@dataclass(frozen=True, slots=True)
class DocumentContent:
    """A whole document as read."""

    media_type: str
    pages: list[Page]
    enclosed: list[EnclosedFile] = field(default_factory=list["EnclosedFile"])
    left_out: list[ReadingWarning] = field(default_factory=list[ReadingWarning])

    @property
    def warnings(self) -> list[ReadingWarning]:
        """What a person should know of how it was read: of the whole file, then page by page."""
        return [*self.left_out, *(warning for page in self.pages for warning in page.all_warnings)]


@dataclass(frozen=True, slots=True)
class EnclosedFile:
    """A file that was inside a document: what that calls it, and where it was unpacked to."""

    name: str
    path: Path
    byte_size: int


@dataclass(frozen=True, slots=True)
class Limits:
    """What one document may cost. A file beyond any of these is unreadable, with a sentence that names the limit.

    Seconds are the reader's own processor time, so that a busy machine fails no file. By the clock it may be
    `patience` times as long: a net under a reader that waits for ever.
    """

    max_bytes: int = 50 * MIB
    max_pages: int = 500
    max_pixels: int = 100_000_000  # a page
    max_decoded_bytes: int = 256 * MIB  # what an archive unpacks to, and what the reader may hand back
    seconds: float = 30
    seconds_per_page: float = 2
    seconds_per_scan: float = 10
    patience: float = 10
    memory_bytes: int = 2048 * MIB  # address space of the subprocess; where it does OCR, the models come on top

    def cpu_seconds(self, page_count: int, *, by_ocr: bool = False) -> float:
        """The processor time that this many pages may take."""
        return max(0, self.seconds + (self.seconds_per_scan if by_ocr else self.seconds_per_page) * page_count)

    def job_seconds(self, *, by_ocr: bool = False) -> float:
        """The processor time that one reading process may take: for one page by OCR, or for all pages otherwise."""
        return self.cpu_seconds(1 if by_ocr else self.max_pages, by_ocr=by_ocr)


class PlacedWord(NamedTuple):
    """A word whose place in the text is not known yet. Its box is in the page's own units from its top left corner."""

    text: str
    x0: float
    y0: float
    x1: float
    y1: float
    confidence: float | None = None


# Letters that were joined for print, in Latin and in Arabic.
_LIGATURE = re.compile("[\ufb00-\ufb06\ufb50-\ufdff\ufe70-\ufefc]")
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
# Postgres stores neither NUL nor lone surrogates; the other controls and zero-width marks are invisible to a person,
# who must see what the model sees.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\ufff9-\ufffc\ufffe\uffff"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def clean(text: str) -> str:
    """The text without NUL, lone surrogates, controls and invisible characters, and with ligatures as letters."""
    if text.isascii():
        return _INVISIBLE.sub("", text) if not text.isprintable() else text
    try:
        text.encode()
    except UnicodeEncodeError:
        # Two halves of one character may arrive one by one.
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    text = _LIGATURE.sub(lambda match: "".join(unicodedata.normalize("NFKC", match[0]).split()), text)
    return _INVISIBLE.sub("", text)


def is_right_to_left(text: str) -> bool:
    """Whether a word is written from right to left: it has a letter of Hebrew, Arabic or a script like them."""
    return not text.isascii() and _RIGHT_TO_LEFT.search(text) is not None
