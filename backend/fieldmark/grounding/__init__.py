"""Grounding: where on a document's pages a value stands, or None. Pure: words and values in, places out."""

from fieldmark.grounding.evidence import WEIGHTS, Claim, Finding, Place
from fieldmark.grounding.grounds import DocumentIndex
from fieldmark.grounding.index import PageWords

__all__ = ["WEIGHTS", "Claim", "DocumentIndex", "Finding", "PageWords", "Place"]
