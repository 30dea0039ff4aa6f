"""DocumentIndex: find values, quotes and whole extractions on the pages of one document.

Printed pages are searched first. XML pages are used only for what no printed page shows. All work is bounded: the
limits are constants at the top of each file in this folder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from pydantic import JsonValue

from valuegrounding import paths
from valuegrounding.candidate_finder import CandidateFinder
from valuegrounding.candidate_ranker import CandidateRanker
from valuegrounding.checks import check
from valuegrounding.evidence import NO_CLAIM, Boxes, Claim, Finding, Location, UnmappedPart
from valuegrounding.locations import Candidates, locate
from valuegrounding.measures import Measure
from valuegrounding.missing_rows import LocatedValue, MissingRow, missing_rows
from valuegrounding.page import SearchablePage
from valuegrounding.paths import Path, walk
from valuegrounding.row_grounder import RowGrounder
from valuegrounding.text_search import TextSearch
from valuegrounding.unmapped import MAX_UNMAPPED, CoveredText, unmapped
from valuegrounding.word_index import WordIndex

_NO_CLAIMS: Final[Mapping[str, Claim]] = {}


class DocumentIndex:
    """The searchable words of one document."""

    def __init__(self, pages: Iterable[SearchablePage]) -> None:
        pages = list(pages)
        printed = [page for page in pages if not page.is_xml]
        xml = [page for page in pages if page.is_xml]
        self._has_printed = bool(printed)
        self._indexes = [_PageIndex(some) for some in (printed, xml) if some] or [_PageIndex([])]

    def find(
        self,
        value: JsonValue,
        *,
        label: Sequence[str | int] = (),
        quote: str | None = None,
        page: int | None = None,
    ) -> Location | None:
        """Return the location of a scalar, or None.

        Of several locations, the one inside the quote wins; then the one nearest to the label; then one on the given
        page; then the first. A quote on the given page is preferred to the same quote on another page.
        """
        found = [location for index in self._indexes if (location := index.find(value, label, Claim(quote, page)))]
        return next(filter(_holds_value, found), found[0] if found else None)

    def locations(
        self, value: JsonValue | Measure, claim: Claim = NO_CLAIM, *, label: Sequence[str | int] = (), limit: int
    ) -> tuple[list[Location], int]:
        """Return the first locations that match a scalar equally well, in reading order, and their total number.

        They are on printed pages, or on XML pages if no printed page has one.
        """
        found = [
            (candidates, index) for index in self._indexes if (candidates := index.finder.find(value, claim, label))
        ]
        if not found:
            return [], 0
        candidates, index = next((one for one in found if one[0].match != "quote"), found[0])
        spans = sorted(candidates.spans, key=lambda span: span.first_word)
        return [locate(index.words, candidates, span) for span in spans[:limit]], len(spans)

    def find_quote(self, quote: str, page: int | None = None) -> Location | None:
        """Return the location of a text, compared by its letters and digits, or None.

        Numbers and dates are compared as text: the quote `1250` is not found at `1.250,00`. Other pages than the given
        one are searched only if the quote is not on that page.
        """
        return self._first_location(page, Claim(page=page), lambda index: index.text_search.find_quote(quote, page))

    def ground(self, fields: JsonValue, claims: Mapping[str, Claim] = _NO_CLAIMS) -> dict[str, Finding]:
        """Return a finding for every leaf of any JSON value, keyed by path name. `claims` has the same keys.

        Leaves of one row prefer one line of the page; different rows prefer different lines.
        """
        return self.ground_leaves(walk(fields), claims)

    def ground_leaves(
        self, leaves: Iterable[tuple[Path, JsonValue | Measure]], claims: Mapping[str, Claim] = _NO_CLAIMS
    ) -> dict[str, Finding]:
        """Like `ground`, for (path, value) pairs, which may be only some of an extraction's leaves."""
        leaves = list(leaves)
        found = self._indexes[0].row_grounder.ground(leaves, claims)
        for index in self._indexes[1:]:
            if any(map(_needs_xml, found.values())):
                # All leaves again, because the other leaves of a row identify its line.
                other = index.row_grounder.ground(leaves, claims)
                found = {name: _better_finding(one, other[name]) for name, one in found.items()}
        return check(self._indexes[0].words, [(path, paths.name(path), value) for path, value in leaves], found)

    def unmapped(
        self,
        values: Iterable[tuple[Sequence[str | int], JsonValue | Measure, Claim]],
        *,
        since_page: int = 1,
        limit: int = MAX_UNMAPPED,
    ) -> UnmappedPart:
        """Return the numbers and dates that none of these (path, value, claim) covers, in reading order. XML pages are
        used only if the document has no printed page."""
        return self._indexes[0].unmapped(values, since_page, limit)

    def missing_rows(self, values: Iterable[LocatedValue]) -> list[MissingRow]:
        """Return the printed lines that look like rows of the lists that these values are in, and are in no item."""
        return missing_rows(self._indexes[0].words, values) if self._has_printed else []

    def nearest(self, quote: str, page: int | None = None) -> Location | None:
        """Return the location of the text most similar to a quote that is not printed, or None if more than half of the
        quote differs everywhere. Without a page, the pages that share the most words with the quote are searched."""
        return self._first_location(page, NO_CLAIM, lambda index: index.text_search.most_similar(quote, page))

    def scale_at(self, page: int, boxes: Boxes) -> int:
        """Return by how many places a heading such as `TEUR` shifts the decimal point of a number at a location; 0 if
        none does."""
        words = self._indexes[0].words
        at = words.word_at(page, boxes[0]) if boxes else None
        return 0 if at is None else words.scale_of(at)

    def other_values_at(self, page: int, boxes: Boxes, quote: str, value: int | float) -> list[str]:
        """Return the canonical values that a number at a location may have instead, because of what is printed beside
        it: -50 at `less 50`."""
        words = self._indexes[0].words
        at = words.word_at(page, boxes[0]) if boxes else None
        qualifier = None if at is None else words.qualifier_of(range(at, at + len(quote.split())), quote)
        return qualifier.other_values(value) if qualifier else []

    def _first_location(
        self, page: int | None, claim: Claim, search: Callable[[_PageIndex], Candidates | None]
    ) -> Location | None:
        ordered = sorted(self._indexes, key=lambda index: page is not None and page not in index.pages)
        return next(filter(None, (index.best_location(search(index), (), claim) for index in ordered)), None)


class _PageIndex:
    def __init__(self, pages: Sequence[SearchablePage]) -> None:
        self.words = WordIndex(pages)
        self.text_search = TextSearch(self.words)
        self.finder = CandidateFinder(self.words, self.text_search)
        self.ranker = CandidateRanker(self.words, self.text_search)
        self.row_grounder = RowGrounder(self.words, self.finder, self.ranker)
        self.pages = frozenset(self.words.pages)

    def find(self, value: JsonValue, label: Sequence[str | int], claim: Claim) -> Location | None:
        return self.best_location(self.finder.find(value, claim, label), label, claim)

    def unmapped(
        self, values: Iterable[tuple[Sequence[str | int], JsonValue | Measure, Claim]], since_page: int, limit: int
    ) -> UnmappedPart:
        covered = CoveredText(self.words)
        seen: set[tuple[type, JsonValue | Measure, Claim, str | int | None]] = set()
        for path, value, claim in values:
            if isinstance(value, dict | list):
                continue
            # Only for booleans does the claim change the candidates.
            key = (type(value), value, claim if isinstance(value, bool) else NO_CLAIM, path[-1] if path else None)
            if key not in seen and (found := self.finder.find(value, claim, path)) is not None:
                covered.add(found)
            seen.add(key)
        return unmapped(self.words, covered, since_page, limit)

    def best_location(self, found: Candidates | None, label: Sequence[str | int], claim: Claim) -> Location | None:
        return locate(self.words, found, self.ranker.best(found.spans, label, claim)) if found else None


def _holds_value(location: Location | None) -> bool:
    return location is not None and location.match != "quote"


def _needs_xml(finding: Finding) -> bool:
    return finding.state != "blank" and not _holds_value(finding.location)


def _better_finding(first: Finding, second: Finding) -> Finding:
    if not _needs_xml(first):
        return first
    return second if _holds_value(second.location) or first.location is None else first
