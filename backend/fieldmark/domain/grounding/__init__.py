"""Grounding: where on a document's pages a value stands, or None. Pure: words and values in, places out."""

from fieldmark.domain.grounding.finding import WEIGHTS, Claim, Finding, Grounds, PageWords, Place

__all__ = ["WEIGHTS", "Claim", "Finding", "Grounds", "PageWords", "Place"]
