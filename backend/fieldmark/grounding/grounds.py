"""A document as the ground that values stand on: find one value, a quote, or all leaves of an extraction.

All work is bounded: see the limits at the top of each file here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pydantic import JsonValue

from fieldmark.domain import fields as walking
from fieldmark.grounding.choice import Choice
from fieldmark.grounding.evidence import NO_CLAIM, Claim, Finding, Place
from fieldmark.grounding.index import Index, PageWords
from fieldmark.grounding.places import Candidates, place
from fieldmark.grounding.rows import Rows
from fieldmark.grounding.search import Search
from fieldmark.grounding.texts import Texts


class DocumentIndex:
    """The words of one document, to find values on."""

    def __init__(self, pages: Iterable[PageWords]) -> None:
        self._index = Index(pages)
        self._texts = Texts(self._index)
        self._search = Search(self._index, self._texts)
        self._choice = Choice(self._index, self._texts)
        self._rows = Rows(self._index, self._search, self._choice)

    def find(
        self,
        value: JsonValue,
        *,
        label: Sequence[str | int] = (),
        quote: str | None = None,
        page: int | None = None,
    ) -> Place | None:
        """Where a scalar stands, or None. Of several places the one within the quote (on the page, if it stands there),
        else nearest to the label, else on the page, else the first."""
        claim = Claim(quote, page)
        return self._chosen(self._search.candidates(value, claim), label, claim)

    def find_quote(self, quote: str, page: int | None = None) -> Place | None:
        """Where text stands as it is, by its letters and digits (exact, normalised or fuzzy), or None. On another page
        than the given one only if it does not stand there at all."""
        return self._chosen(self._texts.quoted(quote, page), (), Claim(page=page))

    def ground(self, fields: Mapping[str, JsonValue], claims: Mapping[str, Claim]) -> dict[str, Finding]:
        """A finding for every leaf of the fields, by path name. The leaves of a row prefer one line, and different rows
        different lines. `claims` are by path name too."""
        return self.ground_leaves(walking.leaves(dict(fields)), claims)

    def ground_leaves(self, leaves: Iterable[tuple[str, JsonValue]], claims: Mapping[str, Claim]) -> dict[str, Finding]:
        """As `ground`, for leaves by path name, which need not be all of their document."""
        return self._rows.ground(leaves, claims)

    def nearest(self, quote: str, page: int | None = None) -> Place | None:
        """Where the page (or the likeliest page) prints what is most like a quote that is not there, or None if nothing
        is more alike than not."""
        return self._chosen(self._texts.nearest(quote, page), (), NO_CLAIM)

    def _chosen(self, found: Candidates | None, label: Sequence[str | int], claim: Claim) -> Place | None:
        return place(self._index, found, self._choice.choose(found.spans, label, claim)) if found else None
