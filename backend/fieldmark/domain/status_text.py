"""The status of a field in words, with its reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fieldmark.domain.statuses import FieldStatus

_REASONS: Final[Mapping[str, str]] = {
    "missing": "missing",
    "breaks_schema": "breaks the schema",
    "breaks_rule": "breaks a rule",
    "proposal": "another value is proposed",
    "not_found": "not found",
    "ambiguous_date": "day or month first?",
    "ambiguous_number": "thousands or decimals, or another unit?",
    "ambiguous_currency": "currency of which country?",
    "scale": "with or without cents?",
    "qualifier": "changed by what is printed beside it?",
    "other_row": "on the line of another row",
    "other_column": "not in the column of the other rows",
    "inside_row": "on the line of a row",
    "goes_on": "the printed text goes on",
    "two_cells": "printed in two cells",
    "long_text": "a long text",
    "row": "its row is doubtful",
    "subtotal": "a sum of the rows above?",
    "duplicate_row": "the same row twice?",
    "borrowed_label": "a row without a text of its own?",
    "unlabelled_row": "its text is not printed",
    "incomplete_row": "lacks what all other rows have",
    "balance": "its balance does not follow from the row above",
    "numbering": "is a row missing?",
    "item_count": "another number of rows is stated",
    "pages_missing": "are pages missing?",
    "second_reading": "a second reading differs",
    "second_reading_row": "a second reading does not have its row",
    "low_confidence": "not sure",
    **dict.fromkeys(("below_threshold", "often_corrected", "audit"), "to compare with the page"),
    "person": "by a person",
    "message": "in a message",
}
_STATUSES: Final[Mapping[str, str]] = {
    FieldStatus.NEEDS_REVIEW: "needs review",
    FieldStatus.STALE: "outdated",
    FieldStatus.NOT_WRITTEN: "no value",
    FieldStatus.BLANK: "left blank",
}


def status_text(status: str, reason: str | None) -> str:
    """Return a status and its reason in words.

    >>> status_text("needs_review", "missing"), status_text("accepted", "missing"), status_text("found", None)
    ('missing', 'accepted: missing', 'found')
    """
    words = _STATUSES.get(status, status)
    if reason is None:
        return words
    why = reason_text(reason)
    if status == FieldStatus.NEEDS_REVIEW:
        return why
    return f"{words}: {why}" if status in (FieldStatus.UNCLEAR, FieldStatus.ACCEPTED) else f"{words} {why}"


def reason_text(reason: str) -> str:
    """Return the reason of a status in words."""
    return _REASONS.get(reason, reason)
