"""Evidence: where on the pages the values of a write stand, found before they are written."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from pydantic import JsonValue

from fieldmark.db.pool import Connection
from fieldmark.domain import paths
from fieldmark.domain.fields import Nothing, leaves, value_at
from fieldmark.domain.paths import Path
from fieldmark.grounding import Claim, DocumentIndex, Finding, PageWords
from fieldmark.stores import documents


@dataclass(slots=True)
class DocumentIndexes:
    """The words of documents, by id: fetched when first asked for and kept, since a document that was read does not
    change."""

    _by_document: dict[UUID, DocumentIndex] = field(default_factory=dict[UUID, DocumentIndex])

    async def of(self, conn: Connection, document_id: UUID) -> DocumentIndex:
        """The index of a document's words."""
        if document_id not in self._by_document:
            pages = await documents.words(conn, document_id)
            # Half a second for hundreds of pages, in which others are to go on.
            self._by_document[document_id] = await asyncio.to_thread(
                DocumentIndex, [PageWords(page["number"], page["words"]) for page in pages]
            )
        return self._by_document[document_id]


@dataclass(slots=True)
class Evidence:
    """What is shown for the leaves of a write, by path name, as the extraction keeps it."""

    confidences: dict[str, float] = field(default_factory=dict[str, float])
    evidence: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    not_found: list[str] = field(default_factory=list[str])


async def find(
    grounds: DocumentIndex,
    at: Path,
    value: JsonValue,
    *,
    stands: Mapping[str, JsonValue],
    claims: Mapping[str, Claim] | None,
    of_a_person: bool = False,
) -> Evidence:
    """Look for every leaf of a value that is to be written at a path (of an object at the root: for each field).

    `stands` is what stands in the extraction so far: the rest of a row tells its line. `claims` are the model's, by
    path name, for leaves or what they stand in; None if no model says anything. The confidence is the evidence's, and
    0 for what is on no page; what a person says needs none, and has none there. Nor has a blank.
    """
    written = dict(leaves(value, at))
    claimed = {name: _nearest_claim(claims, name) for name in written} if claims is not None else {}
    leaves_of_row = [*_rest_of_row(at, stands, written), *written.items()]
    # Not on the event loop: thousands of values that are on no page take seconds.
    found = await asyncio.to_thread(grounds.ground_leaves, leaves_of_row, claimed)
    result = Evidence()
    for name in written:
        finding: Finding = found[name]
        result.evidence[name] = finding.as_json(claimed.get(name))
        if finding.state == "found":
            result.confidences[name] = finding.confidence
        elif finding.state == "not_found" and not of_a_person:
            result.confidences[name] = 0
            result.not_found.append(name)
    return result


async def quotes_elsewhere(grounds: DocumentIndex, claims: Mapping[str, Claim]) -> list[str]:
    """A sentence for each quote that is not on its page, or on none (the first ten): the page that it is on, else what
    is printed that is most like it."""
    quotes = {name: (claim.quote, claim.page) for name, claim in claims.items() if claim.quote and claim.quote.strip()}
    return await asyncio.to_thread(_quotes_elsewhere, grounds, quotes) if quotes else []


def _quotes_elsewhere(grounds: DocumentIndex, quotes: Mapping[str, tuple[str, int | None]]) -> list[str]:
    faults: list[str] = []
    for name, (said, page) in quotes.items():
        place = grounds.find_quote(said, page)
        if place is not None and page in (None, place.page):
            continue
        quote = repr(said[:200])
        if place is not None:
            faults.append(f"{name}: page {page} does not print {quote}; page {place.page} does.")
        else:
            like = grounds.nearest(said, page) or grounds.nearest(said)
            is_printed = f"page {like.page} prints {like.quote!r}; you wrote" if like else "nothing like it is printed:"
            faults.append(f"{name}: {is_printed} {quote}.")
        if len(faults) == 10:
            break
    return faults


def _rest_of_row(
    at: Path, stands: Mapping[str, JsonValue], written: Mapping[str, Any]
) -> Iterator[tuple[str, JsonValue]]:
    depth = max((n for n, step in enumerate(at, 1) if isinstance(step, int)), default=0)
    if 0 < depth < len(at):
        row = value_at(dict(stands), at[:depth])
        if not isinstance(row, Nothing):
            yield from ((name, leaf) for name, leaf in leaves(row, at[:depth]) if name not in written)


def _nearest_claim(claims: Mapping[str, Claim], name: str) -> Claim:
    """What the model says of a leaf, or else of what it stands in."""
    path = paths.parse(name)
    for size in range(len(path), 0, -1):
        claim = claims.get(paths.name(path[:size]))
        if claim is not None:
            return claim
    return Claim()
