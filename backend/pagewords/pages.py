"""The content of a document: pages of words with boxes. And the limits for reading a file."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, NamedTuple, TypeAlias

from pydantic import Field, PositiveInt

from pagewords.reading_warnings import MAX_EXCERPT, ReadingWarning, WarningCode

MIB = 1024 * 1024

ENGINES = frozenset({"pdf", "rapidocr", "docx", "xlsx", "html", "email", "text", "csv", "xml", "zip", "odf"})

# A page beyond these limits is an attack or a mistake.
MAX_PAGE_CHARACTERS = 500_000
MAX_PAGE_WORDS = 100_000


Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]
Length: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count: TypeAlias = Annotated[int, Field(ge=0, lt=2**31)]


class Word(NamedTuple):
    """Characters without white space, and their box.

    The box is in fractions (0 to 1) of the rendered page, from its top left corner. `confidence` (0 to 1) is set if
    OCR read the word, or if its letters depend on an uncertain encoding.
    """

    text: str
    x0: Share
    y0: Share
    x1: Share
    y1: Share
    confidence: Share | None = None

    def to_json(self) -> list[str | float]:
        """Return the word as JSON: [text, x0, y0, x1, y1], and a confidence only if there is one."""
        return [part for part in self if part is not None]


@dataclass(frozen=True, slots=True)
class Page:
    """One page.

    `number` counts from 1; width and height are in points (for images, in pixels). `text` holds the lines in reading
    order; two or more spaces separate columns. `words` are exactly `text.split()`. `engine` is one of ENGINES.
    `hidden_words` is the number of words left out because a person cannot see them, and `hidden_excerpt` is the start
    of these words. `warnings` are the other warnings: `all_warnings` has both.
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
    def is_xml(self) -> bool:
        """Whether this is an embedded e-invoice, which is not printed."""
        return self.engine == "xml"

    @property
    def all_warnings(self) -> list[ReadingWarning]:
        """Return the page's warnings, the one about hidden words first."""
        if not self.hidden_words:
            return list(self.warnings)
        hidden = ReadingWarning(WarningCode.HIDDEN_TEXT, self.number, self.hidden_words, self.hidden_excerpt)
        return [hidden, *self.warnings]

    def renumbered(self, number: int) -> Page:
        return replace(self, number=number, warnings=tuple(replace(warning, page=number) for warning in self.warnings))

    def with_hidden_words(self, hidden: Sequence[str]) -> Page:
        """Return the page with more words counted as hidden."""
        if not hidden:
            return self
        excerpt = " ".join([self.hidden_excerpt, *hidden[:MAX_EXCERPT]]).strip()[:MAX_EXCERPT]
        return replace(self, hidden_words=self.hidden_words + len(hidden), hidden_excerpt=excerpt)


@dataclass(frozen=True, slots=True)
class DocumentContent:
    media_type: str
    pages: list[Page]
    enclosed: list[EnclosedFile] = field(default_factory=list["EnclosedFile"])
    left_out: list[ReadingWarning] = field(default_factory=list[ReadingWarning])

    @property
    def warnings(self) -> list[ReadingWarning]:
        """Return the warnings about how the document was read: of the whole file, then page by page."""
        return [*self.left_out, *(warning for page in self.pages for warning in page.all_warnings)]


@dataclass(frozen=True, slots=True)
class EnclosedFile:
    """A file enclosed in a document: its name there, and the path to which it was unpacked."""

    name: str
    path: Path
    byte_size: int


@dataclass(frozen=True, slots=True)
class Limits:
    """Resource limits for one document. A file beyond a limit is unreadable, with a message that names the limit.

    Seconds are the reader's own processor time, so a busy machine fails no file. Wall-clock time may be `patience`
    times as long, to stop a reader that hangs.
    """

    max_bytes: int = 50 * MIB
    max_pages: int = 500
    max_pixels: int = 100_000_000  # a page
    max_decoded_bytes: int = 256 * MIB  # of an unpacked archive, and of the result of a reading process
    seconds: float = 30
    seconds_per_page: float = 2
    seconds_per_scan: float = 10
    patience: float = 10
    memory_bytes: int = 2048 * MIB  # address space of the subprocess, without the OCR models

    def cpu_seconds(self, page_count: int, *, by_ocr: bool = False) -> float:
        return max(0, self.seconds + (self.seconds_per_scan if by_ocr else self.seconds_per_page) * page_count)

    def job_seconds(self, *, by_ocr: bool = False) -> float:
        """Return the processor time allowed for one reading process: one page by OCR, or all pages otherwise."""
        return self.cpu_seconds(1 if by_ocr else self.max_pages, by_ocr=by_ocr)


class PlacedWord(NamedTuple):
    """A word before layout. Its box is in the page's units from its top left corner."""

    text: str
    x0: float
    y0: float
    x1: float
    y1: float
    confidence: float | None = None


# Ligatures: letters joined into one character, in Latin and in Arabic.
_LIGATURE = re.compile("[\ufb00-\ufb06\ufb50-\ufdff\ufe70-\ufefc]")
# Without the digits and decimal separators of Arabic, which run from left to right.
_RIGHT_TO_LEFT = re.compile("[\u0590-\u065f\u066d-\u06ef\u06fa-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
# Postgres stores neither NUL nor lone surrogates; the other controls and zero-width marks are invisible to a person,
# who must see what the model sees.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\ufff9-\ufffc\ufffe\uffff"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def clean(text: str) -> str:
    """Return the text without NUL, lone surrogates, controls and invisible characters, with ligatures split into
    letters."""
    if text.isascii():
        return _INVISIBLE.sub("", text) if not text.isprintable() else text
    try:
        text.encode()
    except UnicodeEncodeError:
        # Join surrogate pairs that arrive as two characters.
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    text = _LIGATURE.sub(lambda match: "".join(unicodedata.normalize("NFKC", match[0]).split()), text)
    return _INVISIBLE.sub("", text)


def is_right_to_left(text: str) -> bool:
    """Return whether a word contains a letter of Hebrew, Arabic or another right-to-left script."""
    return not text.isascii() and _RIGHT_TO_LEFT.search(text) is not None
