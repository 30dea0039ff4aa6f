"""Warnings about how a document was read: codes and counts as data, and their messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

MAX_EXCERPT = 200  # characters of foreign text that are kept, for a person to see what it is about


class WarningCode(StrEnum):
    """What was not read, or not read reliably. docs/documents.md describes each code."""

    HIDDEN_TEXT = "hidden_text"
    STRUCK_OUT = "struck_out"
    UNCERTAIN_TEXT = "uncertain_text"
    UNREAD_LINES = "unread_lines"
    GARBLED_TEXT = "garbled_text"
    NOTHING_READ = "nothing_read"
    FORMULAS_WITHOUT_VALUES = "formulas_without_values"
    PICTURES_NOT_READ = "pictures_not_read"
    ATTACHMENTS_NOT_READ = "attachments_not_read"
    FRAMES_NOT_READ = "frames_not_read"
    FORM_NOT_READ = "form_not_read"
    UNCERTAIN_ENCODING = "uncertain_encoding"
    UNKNOWN_SYMBOLS = "unknown_symbols"
    CUT_OFF = "cut_off"
    MACHINE_READABLE = "machine_readable"
    INVOICE_DISAGREES = "invoice_disagrees"
    ENCLOSED_APART = "enclosed_apart"
    ENCLOSED_TOO_MANY = "enclosed_too_many"
    ENCLOSED_TOO_LARGE = "enclosed_too_large"
    ENCLOSED_TOO_DEEP = "enclosed_too_deep"
    ENCLOSED_PROTECTED = "enclosed_protected"
    ENCLOSED_DAMAGED = "enclosed_damaged"
    ENCLOSED_NOT_QUEUED = "enclosed_not_queued"


class WarningSeverity(StrEnum):
    """`info`: all visible text was read. `warning`: check the page or the file."""

    INFO = "info"
    WARNING = "warning"


_INFO = (WarningCode.MACHINE_READABLE, WarningCode.ENCLOSED_APART)

SKIPPED_FILE_CODES = (
    WarningCode.ENCLOSED_TOO_MANY,
    WarningCode.ENCLOSED_TOO_LARGE,
    WarningCode.ENCLOSED_TOO_DEEP,
    WarningCode.ENCLOSED_PROTECTED,
    WarningCode.ENCLOSED_DAMAGED,
)
"""Reasons to skip a file inside another file."""


@dataclass(frozen=True, slots=True)
class ReadingWarning:
    """One warning. `page` is None if it concerns the whole file. `count` is a number of words, lines or cells.

    `excerpt` is text of the document, such as hidden words. It is shown to users only, never to a model.
    """

    code: WarningCode
    page: int | None
    count: int = 0
    excerpt: str = ""

    @property
    def message(self) -> str:
        """A message of our own that contains no text of the document."""
        where = "The file" if self.page is None else f"Page {self.page}"
        return f"{where} {_SENTENCES[self.code][self.count != 1].format(count=self.count)}"

    @property
    def severity(self) -> WarningSeverity:
        return WarningSeverity.INFO if self.code in _INFO else WarningSeverity.WARNING

    @property
    def is_about_reading(self) -> bool:
        """Whether visible text may be missing or wrong."""
        return self.severity is WarningSeverity.WARNING and self.code is not WarningCode.HIDDEN_TEXT

    def to_json(self) -> dict[str, Any]:
        """Return the stored form of the warning."""
        return {"code": self.code.value, "page": self.page, "count": self.count, "excerpt": self.excerpt}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> ReadingWarning:
        """Parse the stored form. Raise TypeError, LookupError or ValueError if it is invalid."""
        return cls(WarningCode(value["code"]), value["page"], value["count"], value["excerpt"])


OCR_SCRIPTS = "Latin, Greek, Chinese and Japanese script"
MAX_ENCLOSED = 100
"""Maximum number of files inside an uploaded file, at any depth, that become documents."""

_ITSELF = "upload what you need of it by itself."

_PICTURES = "missing, damaged, too large, or in a format other than PNG, JPEG, TIFF, WebP, BMP and GIF"


def _any_count(sentence: str) -> tuple[str, str]:
    return sentence, sentence


def _files(sentence: str) -> tuple[str, str]:
    """Return a sentence for one file and for several. `FILES` and `WERE` in it are replaced."""
    one = sentence.replace("FILES", "1 file").replace("WERE", "was")
    return one, sentence.replace("FILES", "{count:,} files").replace("WERE", "were")


_SENTENCES: dict[WarningCode, tuple[str, str]] = {
    WarningCode.HIDDEN_TEXT: (
        "holds 1 word that a person cannot see; it was left out.",
        "holds {count:,} words that a person cannot see; they were left out.",
    ),
    WarningCode.STRUCK_OUT: (
        "has 1 word that is struck out; it was left out.",
        "has {count:,} words that are struck out; they were left out.",
    ),
    WarningCode.UNCERTAIN_TEXT: _any_count(
        "has text that OCR read with a certainty of {count} % only: look at the page before you rely on it. "
        f"OCR reads {OCR_SCRIPTS}; text in another script comes out as nonsense."
    ),
    WarningCode.UNREAD_LINES: (
        f"shows 1 line of text that OCR saw and could not read. OCR reads {OCR_SCRIPTS}.",
        f"shows {{count:,}} lines of text that OCR saw and could not read. OCR reads {OCR_SCRIPTS}.",
    ),
    WarningCode.GARBLED_TEXT: _any_count(
        "was read by OCR: the text that the file holds for it is not what its letters show."
    ),
    WarningCode.NOTHING_READ: _any_count("shows something, and OCR found no text in it."),
    WarningCode.FORMULAS_WITHOUT_VALUES: _any_count(
        "leaves out formulas whose values the file does not hold ({count:,}): open it in a spreadsheet program, save "
        "it and upload it again."
    ),
    WarningCode.PICTURES_NOT_READ: (
        f"shows 1 picture that was not read, since it is {_PICTURES}.",
        f"shows {{count:,}} pictures that were not read, since they are {_PICTURES}.",
    ),
    WarningCode.ATTACHMENTS_NOT_READ: _any_count(
        "comes with attachments that were not read ({count:,}): upload them as documents of their own."
    ),
    WarningCode.FRAMES_NOT_READ: _any_count(
        "is the first picture of an animation: the others were not read. Upload them as files of their own."
    ),
    WarningCode.FORM_NOT_READ: _any_count(
        "belongs to a form that only Adobe's programs draw (XFA): print it to a PDF, and upload that."
    ),
    WarningCode.UNCERTAIN_ENCODING: _any_count(
        "was read as Windows-1252, since it is no UTF-8, and looks as if it were in another encoding: save the file as "
        "UTF-8 and upload it again."
    ),
    WarningCode.UNKNOWN_SYMBOLS: (
        "shows 1 sign of a symbol font that is not known: � stands in its place.",
        "shows {count:,} signs of symbol fonts that are not known: � stands in their place.",
    ),
    WarningCode.CUT_OFF: _any_count(
        "is an email whose end, or the end of a text or a file in it, is missing: what is there was read. Save the "
        "email again and upload that."
    ),
    WarningCode.MACHINE_READABLE: (
        "begins the invoice for machines inside the file: it is not printed, and what is counts.",
        "begins the invoice for machines inside the file, {count:,} pages long: it is not printed, and what is counts.",
    ),
    WarningCode.INVOICE_DISAGREES: _any_count(
        "is the invoice for machines, with a value that no printed page shows: what is printed counts."
    ),
    WarningCode.ENCLOSED_APART: _any_count(
        "comes with files that are documents of their own ({count:,}): their text is not part of this one."
    ),
    WarningCode.ENCLOSED_TOO_MANY: _files(f"comes with FILES beyond the {MAX_ENCLOSED} that are taken: {_ITSELF}"),
    WarningCode.ENCLOSED_TOO_LARGE: _files(f"comes with FILES larger, unpacked, than is taken out of one: {_ITSELF}"),
    WarningCode.ENCLOSED_TOO_DEEP: _files(f"is packed too deep itself, so FILES in it WERE left out: {_ITSELF}"),
    WarningCode.ENCLOSED_PROTECTED: _files(
        "comes with FILES protected with a password: unpack and upload what you need."
    ),
    WarningCode.ENCLOSED_DAMAGED: _files("comes with FILES that WERE empty or could not be unpacked."),
    WarningCode.ENCLOSED_NOT_QUEUED: _files(
        "comes with FILES left out because too many documents of your organisation waited: upload it again when some "
        "of them are read."
    ),
}


def skipped_files_warning(code: WarningCode, names: Sequence[str], count: int | None = None) -> ReadingWarning:
    """Return the warning that files inside the file were skipped: their number and first names."""
    return ReadingWarning(code, None, len(names) if count is None else count, "; ".join(names[:20])[:MAX_EXCERPT])
