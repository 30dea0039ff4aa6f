"""Grounding: where on a document's pages a value stands, or None. Pure: words and values in, places out."""

from fieldmark.domain.grounding.evidence import WEIGHTS, Claim, Finding, Place
from fieldmark.domain.grounding.grounds import Grounds
from fieldmark.domain.grounding.index import PageWords

__all__ = ["WEIGHTS", "Claim", "Finding", "Grounds", "PageWords", "Place"]
