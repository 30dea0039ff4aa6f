"""DocumentIndex: finds values, quotes and whole extractions on the pages of one document.

What a person can see comes first: on pages for machines only what no other page shows is found. All work is bounded:
the limits are constants at the top of each file in this folder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from pydantic import JsonValue

from fieldmark.domain import fields as walking
from fieldmark.grounding.candidate_finder import CandidateFinder
from fieldmark.grounding.candidate_ranker import CandidateRanker
from fieldmark.grounding.evidence import NO_CLAIM, Claim, Finding, Location
from fieldmark.grounding.locations import Candidates, locate
from fieldmark.grounding.row_grounder import RowGrounder
from fieldmark.grounding.text_search import TextSearch
from fieldmark.grounding.unmapped import MOST_UNMAPPED, ClaimedWords, UnmappedPart, unmapped
from fieldmark.grounding.word_index import PageWords, WordIndex


class DocumentIndex:
    """The words of one document, ready to be searched."""

    def __init__(self, pages: Iterable[PageWords]) -> None:
        pages = list(pages)
        printed = [page for page in pages if not page.is_xml]
        xml = [page for page in pages if page.is_xml]
        self._indexes = [_Index(some) for some in (printed, xml) if some] or [_Index([])]

    def find(
        self,
        value: JsonValue,
        *,
        label: Sequence[str | int] = (),
        quote: str | None = None,
        page: int | None = None,
    ) -> Location | None:
        """The place of a scalar, or None.

        Of several places, the one inside the quote wins; then the one nearest to the label; then one on the given page;
        then the first. A quote on the given page is preferred to the same quote on another.
        """
        found = [location for index in self._indexes if (location := index.find(value, label, Claim(quote, page)))]
        return next(filter(_holds_value, found), found[0] if found else None)

    def locations(
        self, value: JsonValue, claim: Claim = NO_CLAIM, *, label: Sequence[str | int] = (), most: int
    ) -> tuple[list[Location], int]:
        """The places where a scalar could be meant, in the order of the words, at most so many; and how many there are.

        They are those that `Location.location_count` counts: on printed pages, else on pages for machines.
        """
        found = [
            (candidates, index) for index in self._indexes if (candidates := index.finder.find(value, claim, label))
        ]
        if not found:
            return [], 0
        candidates, index = next((one for one in found if one[0].match != "quote"), found[0])
        spans = sorted(candidates.spans, key=lambda span: span.word)
        return [locate(index.words, candidates, span) for span in spans[:most]], len(spans)

    def find_quote(self, quote: str, page: int | None = None) -> Location | None:
        """The place of a text, compared by its letters and digits, or None.

        Numbers and dates are compared as text: the quote `1250` is not found at `1.250,00`. Another page than the given
        one is searched only if the quote is not on that page.
        """
        return self._first_place(page, Claim(page=page), lambda index: index.text_search.find_quote(quote, page))

    def ground(self, fields: Mapping[str, JsonValue], claims: Mapping[str, Claim]) -> dict[str, Finding]:
        """A finding for every leaf of the fields, keyed by path name, as `claims` are.

        The leaves of one row prefer one line of the page; different rows prefer different lines.
        """
        return self.ground_leaves(walking.leaves(dict(fields)), claims)

    def ground_leaves(self, leaves: Iterable[tuple[str, JsonValue]], claims: Mapping[str, Claim]) -> dict[str, Finding]:
        """As `ground`, for (path name, value) pairs, which may be only some of an extraction's leaves."""
        leaves = list(leaves)
        found = self._indexes[0].row_grounder.ground(leaves, claims)
        for index in self._indexes[1:]:
            if any(map(_is_open, found.values())):
                # All leaves again: those of a row tell its line.
                other = index.row_grounder.ground(leaves, claims)
                found = {name: _better(one, other[name]) for name, one in found.items()}
        return found

    def unmapped(
        self,
        values: Iterable[tuple[Sequence[str | int], JsonValue, Claim]],
        *,
        since_page: int = 1,
        most: int = MOST_UNMAPPED,
    ) -> UnmappedPart:
        """Return the numbers and dates of the printed pages that none of these (path, value, claim) covers, in reading
        order. Where no page is printed, those of the pages for machines."""
        return self._indexes[0].unmapped(values, since_page, most)

    def nearest(self, quote: str, page: int | None = None) -> Location | None:
        """The place of the text that is most similar to a quote which is not printed, or None if more than half of the
        quote differs everywhere. Without a page, the pages that share the most words with the quote are searched."""
        return self._first_place(page, NO_CLAIM, lambda index: index.text_search.most_similar(quote, page))

    def _first_place(
        self, page: int | None, claim: Claim, search: Callable[[_Index], Candidates | None]
    ) -> Location | None:
        """Return the best place of the first index that has one; the index with the given page is searched first."""
        ordered = sorted(self._indexes, key=lambda index: page is not None and page not in index.pages)
        return next(filter(None, (index.best_place(search(index), (), claim) for index in ordered)), None)


class _Index:
    def __init__(self, pages: Sequence[PageWords]) -> None:
        self.words = WordIndex(pages)
        self.text_search = TextSearch(self.words)
        self.finder = CandidateFinder(self.words, self.text_search)
        self.ranker = CandidateRanker(self.words, self.text_search)
        self.row_grounder = RowGrounder(self.words, self.finder, self.ranker)
        self.pages = frozenset(self.words.pages)

    def find(self, value: JsonValue, label: Sequence[str | int], claim: Claim) -> Location | None:
        return self.best_place(self.finder.find(value, claim, label), label, claim)

    def unmapped(
        self, values: Iterable[tuple[Sequence[str | int], JsonValue, Claim]], since_page: int, most: int
    ) -> UnmappedPart:
        claimed = ClaimedWords(self.words)
        seen: set[tuple[type, JsonValue, Claim, str | int | None]] = set()
        for path, value, claim in values:
            if isinstance(value, dict | list):
                continue
            # What a claim says matters for a yes or no alone.
            key = (type(value), value, claim if isinstance(value, bool) else NO_CLAIM, path[-1] if path else None)
            if key not in seen and (found := self.finder.find(value, claim, path)) is not None:
                claimed.add(found)
            seen.add(key)
        return unmapped(self.words, claimed, since_page, most)

    def best_place(self, found: Candidates | None, label: Sequence[str | int], claim: Claim) -> Location | None:
        return locate(self.words, found, self.ranker.best(found.spans, label, claim)) if found else None


def _holds_value(location: Location | None) -> bool:
    """Whether the value itself stands there, and not only what is quoted for it."""
    return location is not None and location.match != "quote"


def _is_open(finding: Finding) -> bool:
    return finding.state != "blank" and not _holds_value(finding.location)


def _better(one: Finding, other: Finding) -> Finding:
    """The finding on the printed pages, or what pages for machines have for a value that these do not hold."""
    if not _is_open(one):
        return one
    return other if _holds_value(other.location) or one.location is None else one
