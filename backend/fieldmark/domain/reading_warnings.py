"""What a person should know of how a document was read: codes and counts as data, and the sentences made of them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

MAX_EXCERPT = 200  # characters of foreign text that are kept, for a person to see what it is about


class WarningCode(StrEnum):
    """What was not read, or not read well.

    HIDDEN_TEXT             words that a person cannot see were left out
    UNCERTAIN_TEXT          OCR is not sure of much of the page
    UNREAD_LINES            OCR saw lines of text and could not read them
    GARBLED_TEXT            the file's own text was no text, and OCR read the page instead
    NOTHING_READ            the page shows something, and no text was found on it
    FORMULAS_WITHOUT_VALUES cells hold a formula whose value was never stored
    ATTACHMENTS_NOT_READ    the file has other files attached, which were not read
    MACHINE_READABLE        the page is an invoice for machines, which no printed page shows
    INVOICE_DISAGREES       that invoice holds a number or sums that no printed page shows
    """

    HIDDEN_TEXT = "hidden_text"
    UNCERTAIN_TEXT = "uncertain_text"
    UNREAD_LINES = "unread_lines"
    GARBLED_TEXT = "garbled_text"
    NOTHING_READ = "nothing_read"
    FORMULAS_WITHOUT_VALUES = "formulas_without_values"
    ATTACHMENTS_NOT_READ = "attachments_not_read"
    MACHINE_READABLE = "machine_readable"
    INVOICE_DISAGREES = "invoice_disagrees"


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
        return self.code not in (WarningCode.HIDDEN_TEXT, WarningCode.MACHINE_READABLE)

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
        case WarningCode.GARBLED_TEXT:
            return "was read by OCR: the text that the file holds for it is not what its letters show."
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
        case WarningCode.MACHINE_READABLE:
            return "is the invoice for machines inside the file: it is not printed, and the printed pages count."
        case WarningCode.INVOICE_DISAGREES:
            values = "1 value (its number or a sum)" if count == 1 else f"{count:,} values (its number or sums)"
            return f"is the invoice for machines, with {values} that no printed page shows: the printed pages count."


OCR_SCRIPTS = "Latin, Greek, Chinese and Japanese script"
