"""Claims, places and findings: what a model says of a value, where it is printed, and what is kept as evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from fieldmark.grounding.layout import Box

Match: TypeAlias = Literal["exact", "normalised", "number", "date", "fuzzy", "quote", "symbol"]
State: TypeAlias = Literal["found", "blank", "not_found"]

# The confidence in a location by how it matched. The OCR's confidence in its words is multiplied with it.
WEIGHTS: Final[Mapping[Match, float]] = {
    "exact": 1.0,
    "normalised": 0.99,  # the same letters and digits; only case, spaces, forms or punctuation differ
    "number": 0.98,  # the same value; 1.250 can be read both ways
    "date": 0.97,  # the same day
    "fuzzy": 0.85,  # up to one character in ten differs
    "quote": 0.7,  # only what the model quotes is there, not the value
    "symbol": 0.6,  # a symbol that other currencies have too: USD at `$`
}


@dataclass(frozen=True, slots=True)
class Claim:
    """What a model says of a value that it writes. A person's write has none."""

    quote: str | None = None
    page: int | None = None
    confidence: float | None = None


NO_CLAIM: Final = Claim()


@dataclass(frozen=True, slots=True)
class Location:
    """Where a value is printed.

    `boxes` has one box for each line, in parts of the page. `quote` is what they cover, as printed. `places` counts the
    places where the value could be meant. `word_confidence` is the OCR's, of the word that it is least sure of;
    `certainty` is below 1 where what is printed may mean something else.
    """

    page: int
    boxes: tuple[Box, ...]
    quote: str
    match: Match
    word_confidence: float
    location_count: int
    certainty: float = 1.0

    @property
    def confidence(self) -> float:
        return round(WEIGHTS[self.match] * self.word_confidence * self.certainty, 4)


@dataclass(frozen=True, slots=True)
class Finding:
    """The result for a leaf: `found`, with its place; `blank`, if it is empty and its label is printed; `not_found`."""

    state: State
    location: Location | None

    @property
    def confidence(self) -> float:
        """The confidence that is shown for the value; 0 if it was not found."""
        return self.location.confidence if self.location else 0.0

    def as_json(self, claim: Claim | None = None) -> dict[str, Any]:
        """The evidence, as `extractions.evidence` stores it."""
        location = self.location
        return {
            "state": self.state,
            "match": location.match if location else None,
            "page": location.page if location else None,
            "boxes": [list(box) for box in location.boxes] if location else [],
            "quote": location.quote if location else None,
            "places": location.location_count if location else 0,
            "claim": None
            if claim is None
            else {"confidence": claim.confidence, "quote": claim.quote, "page": claim.page},
        }
