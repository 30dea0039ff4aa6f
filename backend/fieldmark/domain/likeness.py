"""Which documents look alike, so that one schema and one table fit them."""

from __future__ import annotations

from typing import Final, NamedTuple

KINDS_OF_ONE_TABLE: Final = ("credit_note", "invoice", "receipt")
"""Kinds whose documents have the same fields, whatever their layout."""
MIN_SIMILARITY: Final = 0.6
"""Minimum share of common labels (intersection over union) of two documents with the same layout."""
MIN_SHARED_LABELS: Final = 4
"""Minimum number of common labels of two documents with the same layout."""


class Likeness(NamedTuple):
    """What a document is compared by: the kind that it names, and the labels beside its values."""

    kind: str
    labels: frozenset[str]

    def is_like(self, other: Likeness) -> bool:
        """Return whether two documents are of the same kind and, if it has many forms, of the same layout."""
        shared = len(self.labels & other.labels)
        return self.kind == other.kind and (
            self.kind in KINDS_OF_ONE_TABLE
            or (shared >= MIN_SHARED_LABELS and shared >= MIN_SIMILARITY * len(self.labels | other.labels))
        )
