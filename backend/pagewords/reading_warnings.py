"""Warnings about how a document was read: codes and counts as data, and their messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

MAX_EXCERPT = 200  # characters of the document's text, shown so that a person recognises it


class WarningCode(StrEnum):
    """What was not read, or not read reliably. docs/documents.md describes each code."""

    HIDDEN_TEXT = "hidden_text"
    MAY_BE_HIDDEN = "may_be_hidden"
    STRUCK_OUT = "struck_out"
    UNCERTAIN_TEXT = "uncertain_text"
    UNREAD_LINES = "unread_lines"
    GARBLED_TEXT = "garbled_text"
    NOTHING_READ = "nothing_read"
    FORMULAS_WITHOUT_VALUES = "formulas_without_values"
    PICTURES_NOT_READ = "pictures_not_read"
    SHEETS_NOT_READ = "sheets_not_read"
    ATTACHMENTS_NOT_READ = "attachments_not_read"
    FRAMES_NOT_READ = "frames_not_read"
    FORM_NOT_READ = "form_not_read"
    UNCERTAIN_ENCODING = "uncertain_encoding"
    TEXTS_DIFFER = "texts_differ"
    UNKNOWN_SYMBOLS = "unknown_symbols"
    FONTS_MISSING = "fonts_missing"
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
    ENCLOSED_OVER_QUOTA = "enclosed_over_quota"


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
"""Codes for a skipped file inside another file."""


@dataclass(frozen=True, slots=True)
class ReadingWarning:
    """One warning. `page` is None for a warning about the whole file. `count` is a number of words, lines or cells.

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
        last_page = (self.page or 1) + self.count - 1
        return _MESSAGES[self.code][self.count != 1].format(
            where=where, page=self.page, last_page=last_page, count=self.count
        )

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

_UPLOAD = "Upload the ones you need separately."

_PICTURES = "missing, damaged, too large, or not a PNG, JPEG, TIFF, WebP, BMP or GIF"


def _same_for_any_count(sentence: str) -> tuple[str, str]:
    return sentence, sentence


def _singular_and_plural(sentence: str) -> tuple[str, str]:
    one = sentence.replace("FILES", "1 file").replace("WERE", "was")
    return one, sentence.replace("FILES", "{count:,} files").replace("WERE", "were")


_MESSAGES: dict[WarningCode, tuple[str, str]] = {
    WarningCode.HIDDEN_TEXT: (
        "{where} contains 1 hidden word. It was left out.",
        "{where} contains {count:,} hidden words. They were left out.",
    ),
    WarningCode.MAY_BE_HIDDEN: (
        "{where} contains 1 word that may not be seen in the original, or is a prompt. It was read. Compare it with "
        "the original.",
        "{where} contains {count:,} words that may not be seen in the original, or are prompts. They were read. "
        "Compare them with the original.",
    ),
    WarningCode.STRUCK_OUT: (
        "{where} contains 1 struck-out word. It was left out.",
        "{where} contains {count:,} struck-out words. They were left out.",
    ),
    WarningCode.UNCERTAIN_TEXT: _same_for_any_count(
        "{where} was recognised with only {count} % certainty. Check its values against the page. "
        f"OCR supports {OCR_SCRIPTS}."
    ),
    WarningCode.UNREAD_LINES: (
        f"{{where}} shows 1 line of text that OCR could not read. OCR supports {OCR_SCRIPTS}.",
        f"{{where}} shows {{count:,}} lines of text that OCR could not read. OCR supports {OCR_SCRIPTS}.",
    ),
    WarningCode.GARBLED_TEXT: _same_for_any_count(
        "{where} stores text that differs from what it shows, or that cannot be compared with it. OCR read it where "
        "possible."
    ),
    WarningCode.NOTHING_READ: _same_for_any_count("{where} shows something in which OCR found no text."),
    WarningCode.FORMULAS_WITHOUT_VALUES: _same_for_any_count(
        "{where} contains formulas without stored values ({count:,}), which were left out. Open the file in a "
        "spreadsheet program, save it, and upload it again."
    ),
    WarningCode.PICTURES_NOT_READ: (
        f"{{where}} contains 1 picture that could not be read: it is {_PICTURES}.",
        f"{{where}} contains {{count:,}} pictures that could not be read: they are {_PICTURES}.",
    ),
    WarningCode.SHEETS_NOT_READ: (
        "The contents of 1 sheet are missing in the file. Open it in a spreadsheet program, save it, and upload it "
        "again.",
        "The contents of {count:,} sheets are missing in the file. Open it in a spreadsheet program, save it, and "
        "upload it again.",
    ),
    WarningCode.ATTACHMENTS_NOT_READ: _same_for_any_count(
        "{where} has attachments that were not read ({count:,}). Upload the ones you need as documents."
    ),
    WarningCode.FRAMES_NOT_READ: _same_for_any_count(
        "{where} is the first picture of an animation. The other pictures were not read. Upload them as separate files."
    ),
    WarningCode.FORM_NOT_READ: _same_for_any_count(
        "{where} belongs to an XFA form, which only Adobe software can display. Print it to a PDF and upload that."
    ),
    WarningCode.UNCERTAIN_ENCODING: _same_for_any_count(
        "{where} does not declare its encoding, and several are possible. Check its accented letters, or save it as "
        "UTF-8 and upload it again."
    ),
    WarningCode.TEXTS_DIFFER: _same_for_any_count(
        "{where} is an email with two texts whose numbers differ. Email programs show only one of them. Ask the "
        "sender which numbers are right."
    ),
    WarningCode.UNKNOWN_SYMBOLS: (
        "{where} contains 1 unknown symbol or unclear check box. It was replaced by �.",
        "{where} contains {count:,} unknown symbols or unclear check boxes. They were replaced by �.",
    ),
    WarningCode.FONTS_MISSING: _same_for_any_count(
        "{where} contains text ({count:,} parts) in a font that is neither embedded in the file nor installed here. It "
        "could not be read. Save the file with all fonts embedded, for example as PDF/A, and upload it again."
    ),
    WarningCode.CUT_OFF: _same_for_any_count(
        "{where} is an email that is cut off. The rest of it was read. Save the email again and upload it."
    ),
    WarningCode.MACHINE_READABLE: (
        "Page {page} is the embedded e-invoice (XML). The printed page takes precedence.",
        "Pages {page}–{last_page} are the embedded e-invoice (XML). The printed page takes precedence.",
    ),
    WarningCode.INVOICE_DISAGREES: _same_for_any_count(
        "{where} is the embedded e-invoice (XML) and contains a value that is not on the printed page. The printed "
        "page takes precedence."
    ),
    WarningCode.ENCLOSED_APART: _same_for_any_count(
        "{where} contains files that became separate documents ({count:,}). Their text is not part of this document."
    ),
    WarningCode.ENCLOSED_TOO_MANY: _singular_and_plural(
        f"{{where}} contains FILES beyond the limit of {MAX_ENCLOSED}, which WERE left out. {_UPLOAD}"
    ),
    WarningCode.ENCLOSED_TOO_LARGE: _singular_and_plural(
        f"{{where}} contains FILES above the size limit for unpacked files, which WERE left out. {_UPLOAD}"
    ),
    WarningCode.ENCLOSED_TOO_DEEP: _singular_and_plural(
        f"{{where}} is nested too deeply, so FILES in it WERE left out. {_UPLOAD}"
    ),
    WarningCode.ENCLOSED_PROTECTED: _singular_and_plural(
        "{where} contains FILES protected by a password, which WERE left out. Unpack and upload the ones you need."
    ),
    WarningCode.ENCLOSED_DAMAGED: _singular_and_plural(
        "{where} contains FILES that WERE empty or could not be unpacked."
    ),
    WarningCode.ENCLOSED_NOT_QUEUED: _singular_and_plural(
        "{where} contains FILES that WERE left out because too many documents of your organisation are waiting. Upload "
        "it again later."
    ),
    WarningCode.ENCLOSED_OVER_QUOTA: _singular_and_plural(
        "{where} contains FILES that WERE left out because your organisation may not store more. Delete documents, and "
        "upload it again."
    ),
}


def skipped_files_warning(code: WarningCode, names: Sequence[str], count: int | None = None) -> ReadingWarning:
    """Return the warning that files inside the file were skipped: their number and first names."""
    return ReadingWarning(code, None, len(names) if count is None else count, "; ".join(names[:20])[:MAX_EXCERPT])
