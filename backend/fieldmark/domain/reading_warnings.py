"""What a person should know of how a document was read: codes and counts as data, and the sentences made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

MAX_EXCERPT = 200  # characters of foreign text that are kept, for a person to see what it is about


class WarningCode(StrEnum):
    """What was not read, or not read well.

    HIDDEN_TEXT             words that a person cannot see were left out
    UNCERTAIN_TEXT          OCR is not sure of much of the page
    UNREAD_LINES            OCR saw lines of text and could not read them
    NOTHING_READ            the page shows something, and no text was found on it
    FORMULAS_WITHOUT_VALUES cells hold a formula whose value was never stored
    ATTACHMENTS_NOT_READ    the file has other files attached, which were not read
    FRAMES_NOT_READ         of an animation only the first picture was read
    FORM_NOT_READ           the file's form is drawn by a viewer's own program (XFA), and was not read
    UNCERTAIN_ENCODING      the text may be in another encoding than it was read in
    MACHINE_READABLE        with the page begins an invoice for machines, which is not printed
    INVOICE_DISAGREES       that invoice holds a number, sum, day, currency or account that no printed page shows
    ENCLOSED_APART          files inside the file became documents of their own, its children
    ENCLOSED_TOO_MANY, _TOO_LARGE, _TOO_DEEP, _PROTECTED, _DAMAGED
                            files inside the file were left out: there are more of them, or they are larger or lie
                            deeper than is taken; they are protected with a password, or cannot be unpacked
    ENCLOSED_NOT_QUEUED     they were left out because too many documents of the organisation waited
    """

    HIDDEN_TEXT = "hidden_text"
    UNCERTAIN_TEXT = "uncertain_text"
    UNREAD_LINES = "unread_lines"
    NOTHING_READ = "nothing_read"
    FORMULAS_WITHOUT_VALUES = "formulas_without_values"
    ATTACHMENTS_NOT_READ = "attachments_not_read"
    FRAMES_NOT_READ = "frames_not_read"
    FORM_NOT_READ = "form_not_read"
    UNCERTAIN_ENCODING = "uncertain_encoding"
    MACHINE_READABLE = "machine_readable"
    INVOICE_DISAGREES = "invoice_disagrees"
    ENCLOSED_APART = "enclosed_apart"
    ENCLOSED_TOO_MANY = "enclosed_too_many"
    ENCLOSED_TOO_LARGE = "enclosed_too_large"
    ENCLOSED_TOO_DEEP = "enclosed_too_deep"
    ENCLOSED_PROTECTED = "enclosed_protected"
    ENCLOSED_DAMAGED = "enclosed_damaged"
    ENCLOSED_NOT_QUEUED = "enclosed_not_queued"


LEFT_OUT = (
    WarningCode.ENCLOSED_TOO_MANY,
    WarningCode.ENCLOSED_TOO_LARGE,
    WarningCode.ENCLOSED_TOO_DEEP,
    WarningCode.ENCLOSED_PROTECTED,
    WarningCode.ENCLOSED_DAMAGED,
)
"""Why a reader leaves out a file that is inside another."""


@dataclass(frozen=True, slots=True)
class ReadingWarning:
    """One warning. `page` is None where it is about the whole file. `count` says how many words, lines or cells.

    `excerpt` is foreign text: how the hidden words begin, which cells. It is for people; no model is shown it.
    """

    code: WarningCode
    page: int | None
    count: int = 0
    excerpt: str = ""

    @property
    def message(self) -> str:
        """One sentence, of ours alone: it repeats nothing that the document says."""
        where = "The file" if self.page is None else f"Page {self.page}"
        return f"{where} {_said(self.code, self.count)}"

    @property
    def is_about_reading(self) -> bool:
        """Whether something that a person can see may be missing or wrong in the text."""
        return self.code not in (WarningCode.HIDDEN_TEXT, WarningCode.MACHINE_READABLE, WarningCode.ENCLOSED_APART)

    def to_json(self) -> dict[str, Any]:
        """The warning as it is stored."""
        return {"code": self.code.value, "page": self.page, "count": self.count, "excerpt": self.excerpt}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> ReadingWarning:
        """The warning that `to_json` made this of. Raises TypeError, LookupError or ValueError for another shape."""
        return cls(WarningCode(value["code"]), value["page"], value["count"], value["excerpt"])


def _said(code: WarningCode, count: int) -> str:
    match code:
        case WarningCode.HIDDEN_TEXT:
            words = "1 word" if count == 1 else f"{count:,} words"
            return f"holds {words} that a person cannot see; {'it was' if count == 1 else 'they were'} left out."
        case WarningCode.UNCERTAIN_TEXT:
            return (
                f"was read by OCR with a certainty of {count} % only: look at the page before you rely on its text. "
                f"OCR reads {OCR_SCRIPTS}; text in another script comes out as nonsense."
            )
        case WarningCode.UNREAD_LINES:
            lines = "1 line of text that OCR saw and" if count == 1 else f"{count:,} lines of text that OCR saw and"
            return f"shows {lines} could not read. OCR reads {OCR_SCRIPTS}."
        case WarningCode.NOTHING_READ:
            return "shows something, and OCR found no text in it."
        case WarningCode.FORMULAS_WITHOUT_VALUES:
            cells = "1 cell with a formula" if count == 1 else f"{count:,} cells with formulas"
            return (
                f"leaves out {cells} whose values the file does not hold: open it in a spreadsheet program, save it "
                "and upload it again."
            )
        case WarningCode.ATTACHMENTS_NOT_READ:
            if count == 1:
                return "comes with 1 attachment that was not read: upload it as a document of its own."
            return f"comes with {count:,} attachments that were not read: upload them as documents of their own."
        case WarningCode.FRAMES_NOT_READ:
            return "is the first picture of an animation: the others were not read. Upload them as files of their own."
        case WarningCode.FORM_NOT_READ:
            return "belongs to a form that only Adobe's programs draw (XFA): print it to a PDF, and upload that."
        case WarningCode.UNCERTAIN_ENCODING:
            return (
                "was read as Windows-1252, since it is no UTF-8, and looks as if it were in another encoding: save the "
                "file as UTF-8 and upload it again."
            )
        case WarningCode.MACHINE_READABLE:
            behind = "" if count < 2 else f", {count:,} pages long"
            return f"begins the invoice for machines inside the file{behind}: it is not printed, and what is counts."
        case WarningCode.INVOICE_DISAGREES:
            return "is the invoice for machines, with a value that no printed page shows: what is printed counts."
        case WarningCode.ENCLOSED_APART:
            if count == 1:
                return "comes with 1 file, which is a document of its own: the text of that is not part of this one."
            return f"comes with {count:,} files, which are documents of their own: their text is not part of this one."
        case WarningCode.ENCLOSED_TOO_MANY:
            return f"comes with {_files(count)} beyond the {MAX_ENCLOSED} that are taken out of one: {_BY_ITSELF}"
        case WarningCode.ENCLOSED_TOO_LARGE:
            return f"comes with {_files(count)} larger, unpacked, than is taken out of one: {_BY_ITSELF}"
        case WarningCode.ENCLOSED_TOO_DEEP:
            return f"is packed too deep itself, so {_files(count)} in it {_was(count)} left out: {_BY_ITSELF}"
        case WarningCode.ENCLOSED_PROTECTED:
            return f"comes with {_files(count)} that a password protects: unpack what you need, and upload that."
        case WarningCode.ENCLOSED_DAMAGED:
            return f"comes with {_files(count)} that {_was(count)} empty or could not be unpacked."
        case WarningCode.ENCLOSED_NOT_QUEUED:
            return (
                f"comes with {_files(count)} left out because too many documents of your organisation waited: "
                "upload it again when some of them are read."
            )


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count:,} files"


def _was(count: int) -> str:
    return "was" if count == 1 else "were"


def left_out(code: WarningCode, names: Sequence[str], count: int | None = None) -> ReadingWarning:
    """The warning that files inside the file were left out: how many, and the names of the first."""
    return ReadingWarning(code, None, len(names) if count is None else count, "; ".join(names[:20])[:MAX_EXCERPT])


MAX_ENCLOSED = 100
"""How many files inside one, and inside those, become documents."""

_BY_ITSELF = "upload what you need of it by itself."

OCR_SCRIPTS = "Latin, Greek, Chinese and Japanese script"
