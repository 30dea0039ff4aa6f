"""Find where a value is printed in a document. Pure functions: words in, locations out.

`WordIndex` holds the words. `CandidateFinder` finds every span that could be a value, with `TextSearch`, `numbers` and
`dates`. `CandidateRanker` and `RowGrounder` choose among the spans. `locations` turns a span into boxes and a quote.
`unmapped` lists the numbers and dates that no value covers. Start with `DocumentIndex`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from valuegrounding.evidence import (
    CERTAINTIES,
    UNCLEAR_CERTAINTY,
    WEIGHTS,
    Boxes,
    Claim,
    Doubt,
    Finding,
    Location,
    Match,
    Support,
    Unmapped,
    UnmappedPart,
    after_agreement,
)
from valuegrounding.measures import Measure
from valuegrounding.page import Box, PageWords, Word

if TYPE_CHECKING:
    from valuegrounding.document_index import DocumentIndex

__all__ = [
    "CERTAINTIES",
    "UNCLEAR_CERTAINTY",
    "WEIGHTS",
    "Box",
    "Boxes",
    "Claim",
    "DocumentIndex",
    "Doubt",
    "Finding",
    "Location",
    "Match",
    "Measure",
    "PageWords",
    "Support",
    "Unmapped",
    "UnmappedPart",
    "Word",
    "after_agreement",
]


def __getattr__(name: str) -> Any:
    # Its patterns take 0.1 s to compile, which a program that only needs `paths` or `folding` should not wait for.
    if name == "DocumentIndex":
        from valuegrounding.document_index import DocumentIndex

        return DocumentIndex
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
