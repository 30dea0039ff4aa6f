"""Grounding: find where a value is printed in a document. Pure functions: words in, locations out.

`WordIndex` holds the words. `CandidateFinder` finds every span that could be a value, with `TextSearch`, `numbers` and
`dates`. `CandidateRanker` and `RowGrounder` choose among the spans. `locations` turns a span into boxes and a quote.
`unmapped` lists the numbers and dates that no value covers. Start with `DocumentIndex`.
"""

from fieldmark.grounding.document_index import DocumentIndex
from fieldmark.grounding.evidence import WEIGHTS, Claim, Finding, Location
from fieldmark.grounding.unmapped import UnmappedPart
from fieldmark.grounding.word_index import PageWords

__all__ = ["WEIGHTS", "Claim", "DocumentIndex", "Finding", "Location", "PageWords", "UnmappedPart"]
