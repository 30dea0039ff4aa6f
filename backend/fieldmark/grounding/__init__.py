"""Grounding: finds where a value is printed in a document, or says that it is not. Pure: words in, places out.

`WordIndex` holds the words, `CandidateFinder` (with `TextSearch`, `numbers` and `dates`) finds every span that could be
a value, `CandidateRanker` and `RowGrounder` choose among them, and `places` turns a span into boxes and a quote.
`unmapped` tells what no value stands on. `DocumentIndex` is the way in.
"""

from fieldmark.grounding.document_index import DocumentIndex
from fieldmark.grounding.evidence import WEIGHTS, Claim, Finding, Location
from fieldmark.grounding.unmapped import UnmappedPart
from fieldmark.grounding.word_index import PageWords

__all__ = ["WEIGHTS", "Claim", "DocumentIndex", "Finding", "Location", "PageWords", "UnmappedPart"]
