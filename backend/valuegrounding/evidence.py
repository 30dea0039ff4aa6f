"""Claims, locations, findings and unmapped text: what a model claims about a value, and what the pages show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias

from pydantic import ConfigDict, Field

from valuegrounding.page import Box

Match: TypeAlias = Literal["exact", "normalised", "number", "date", "fuzzy", "quote", "symbol"]
Doubt: TypeAlias = Literal[
    "ambiguous_date",
    "ambiguous_number",
    "ambiguous_currency",
    "scale",
    "qualifier",
    "other_row",
    "other_column",
    "inside_row",
    "goes_on",
    "two_cells",
    "long_text",
    "row",
    "subtotal",
    "duplicate_row",
    "borrowed_label",
    "unlabelled_row",
    "incomplete_row",
    "balance",
    "numbering",
    "item_count",
    "pages_missing",
    "second_reading",
    "second_reading_row",
]
Support: TypeAlias = Literal["label", "sum", "balance", "numbering", "item_count"]
State: TypeAlias = Literal["found", "blank", "not_found"]
UnmappedKind: TypeAlias = Literal["number", "date"]
UnmappedValue: TypeAlias = str | int | float | None

Boxes: TypeAlias = Annotated[
    tuple[Box, ...],
    Field(description="One box per line: x0, y0, x1, y1 in fractions of the page, from its upper left corner."),
]

UNCLEAR_CERTAINTY: Final = 0.5
"""Below it the printed text means something else just as likely."""

# Confidence in a location by kind of match. It is multiplied with the OCR's confidence in its words.
WEIGHTS: Final[Mapping[Match, float]] = {
    "exact": 1.0,
    "normalised": 0.99,  # same letters and digits; case, spaces, Unicode form or punctuation differ
    "number": 0.98,  # the same value; 1.250 can be read both ways
    "date": 0.97,  # the same day
    "fuzzy": 0.85,  # up to one character in ten differs
    "quote": 0.7,  # only the model's quote is printed there, not the value itself
    "symbol": 0.6,  # a symbol shared by several currencies: USD at `$`
}

# How certain a printed value is under each doubt of `checks`. `bench/confidence.py --fit` fits those from 0.7.
CERTAINTIES: Final[Mapping[Doubt, float]] = {
    "scale": 0.4,  # printed without a separator, where the other amounts have cents
    "qualifier": 0.9,  # a word, mark or digits beside it may change its sign, bound, unit or digits
    "other_row": 0.94,  # on the line of another row
    "other_column": 0.88,  # not in the column of the same field of other rows
    "inside_row": 0.94,  # a value of the document, on the line of a list's row
    "goes_on": 0.92,  # more text directly beside it or on the line below
    "two_cells": 0.7,  # its words are in two cells
    "long_text": 0.7,
    "row": 0.7,  # its list item is doubted
    # Of a list item
    "subtotal": 0.4,  # the sum of the items above
    "duplicate_row": 0.4,  # printed once, and two items
    "borrowed_label": 0.4,  # its text is that of another item
    "unlabelled_row": 0.6,  # its text is not printed; then that text needs review
    "incomplete_row": 0.6,  # lacks a value that all other items have
    "balance": 0.4,  # does not follow from the item above
    # Of a list
    "numbering": 0.4,  # a number between those of two items is printed
    "item_count": 0.4,  # the document states another number of items
    "pages_missing": 0.4,  # "Page 1 of 3", and there is one page
    "second_reading": 0.4,  # a second reading has another value
    "second_reading_row": 0.9,  # a second reading does not have its row
}

CERTAINTY_OF_WORD: Final = 0.998
"""Factor for each word of a text or number that nothing supports, up to ten: where a long text begins and ends is most
often wrong. It only orders values that are otherwise equally certain."""

SUPPORTED: Final = 0.5
"""The part of a match's doubt that is left once a label or a sum supports the value."""

AGREEMENT: Final = 0.1
"""The part of a printed value's doubt that is left once a second reading agrees."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The model's own statement about a value. It is not verified."""

    __pydantic_config__: ClassVar[ConfigDict] = {"json_schema_serialization_defaults_required": True}

    quote: str | None = None
    page: int | None = None
    confidence: float | None = None


NO_CLAIM: Final = Claim()


@dataclass(frozen=True, slots=True)
class Location:
    """One location that matches a value."""

    page: int
    boxes: Boxes
    quote: Annotated[str, Field(description="The text as printed.")]
    match: Annotated[Match, Field(description="How the printed text matches the value, as in the evidence.")]
    word_confidence: Annotated[float, Field(exclude=True)]
    """The lowest OCR confidence of its words."""
    location_count: Annotated[int, Field(exclude=True)]
    """The number of locations that match the value equally well."""
    certainty: Annotated[float, Field(exclude=True)] = 1.0
    """Below 1 if the printed text may mean something else."""

    @property
    def reason(self) -> Doubt | None:
        """Return why the printed text may mean something else, or None if it hardly does."""
        if self.certainty >= UNCLEAR_CERTAINTY:
            return None
        if self.match == "symbol":
            return "ambiguous_currency"
        return "ambiguous_date" if self.match == "date" else "ambiguous_number"

    @property
    def confidence(self) -> float:
        return round(WEIGHTS[self.match] * self.word_confidence * self.certainty, 4)


@dataclass(frozen=True, slots=True)
class Finding:
    """The result for a leaf: `found`, with its location; `blank`, if it is empty and its label is printed; or
    `not_found`. A list item or list is `found` without a location: its leaves have theirs."""

    state: State
    location: Location | None
    doubts: tuple[Doubt, ...] = ()
    supports: tuple[Support, ...] = ()

    @property
    def confidence(self) -> float:
        """Return the confidence shown for the value; 0 if it was not found."""
        if self.state != "found":
            return 0.0
        location = self.location.confidence if self.location else 1.0
        if self.location and self.supports:
            weight = WEIGHTS[self.location.match]
            location *= (1 - (1 - weight) * SUPPORTED) / weight
        elif self.location and self.location.match in ("exact", "normalised"):
            location *= CERTAINTY_OF_WORD ** min(len(self.location.quote.split()), 10)
        return round(location * prod(CERTAINTIES[doubt] for doubt in self.doubts), 4)

    @property
    def reason(self) -> Doubt | None:
        """Return why the value is unclear, or None if it is not."""
        ambiguous = self.location.reason if self.location else None
        if self.state != "found" or (self.confidence >= UNCLEAR_CERTAINTY and ambiguous is None):
            return None
        return ambiguous or next(iter(sorted(self.doubts, key=CERTAINTIES.__getitem__)), None)

    def as_json(self, claim: Claim | None = None) -> dict[str, Any]:
        """Return the evidence as `extractions.evidence` stores it."""
        location = self.location
        reason = self.reason
        return {
            "state": self.state,
            "match": location.match if location else None,
            "page": location.page if location else None,
            "boxes": [list(box) for box in location.boxes] if location else [],
            "quote": location.quote if location else None,
            "location_count": location.location_count if location else 0,
            **({} if reason is None else {"reason": reason}),
            **({"doubts": list(self.doubts)} if self.doubts else {}),
            **({"supports": list(self.supports)} if self.supports else {}),
            "claim": None
            if claim is None
            else {"confidence": claim.confidence, "quote": claim.quote, "page": claim.page},
        }


def after_agreement(confidence: float) -> float:
    """Return the confidence of a value that a second reading has too. One that is not printed stays at 0.

    >>> after_agreement(0.93), after_agreement(0)
    (0.993, 0.0)
    """
    return round(1 - (1 - confidence) * AGREEMENT, 4) if confidence else 0.0


@dataclass(frozen=True, slots=True)
class Unmapped:
    """Printed text that no value covers."""

    page: int
    kind: Annotated[UnmappedKind, Field(description="number: text with digits that is not a date; identifiers too.")]
    text: Annotated[str, Field(description="The text as printed.")]
    value: Annotated[
        UnmappedValue,
        Field(description="The number, or the date as YYYY-MM-DD. null: the text is ambiguous or an identifier."),
    ]
    boxes: Boxes
    first: Annotated[int, Field(description="The index of its first word on the page, from 0.")]
    last: Annotated[int, Field(description="The index of its last word.")]
    before: Annotated[str, Field(description="The words to its left on its line, mostly its label.")] = ""


@dataclass(frozen=True, slots=True)
class UnmappedPart:
    """The unmapped text of consecutive pages. `items` is complete for each page, unless one page alone exceeds the
    limit. `counts` holds (page, number of items). `next` is the page to continue with, or None at the end."""

    items: Sequence[Unmapped]
    counts: Sequence[tuple[int, int]]
    next: int | None
