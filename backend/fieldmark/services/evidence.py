"""Evidence: where on the pages the values of a write stand, found before they are written."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID
from weakref import WeakValueDictionary

from pydantic import JsonValue

from fieldmark.db.pool import Database
from fieldmark.domain import paths
from fieldmark.domain.fields import Missing, leaves, value_at
from fieldmark.domain.json_values import as_object
from fieldmark.domain.paths import Path
from fieldmark.domain.statuses import DocumentStatus
from fieldmark.grounding import Claim, DocumentIndex, Finding, Location, PageWords, UnmappedPart
from fieldmark.identity.scope import Scope
from fieldmark.services.turns import in_turn
from fieldmark.stores import documents
from fieldmark.stores.rows import ExtractionRow, PageWordsRow

MAX_WORDS: Final = 300_000
"""Words of the documents whose indexes a process keeps."""

MESSAGE: Final = "message"
"""The state of a value that the person's message contains and no page prints."""

MOST_PLACES: Final = 200
"""Places of one value that are told."""


_NO_WORDS: Final = DocumentIndex([])


class DocumentIndexes:
    """Indexes of documents, which are built once, since a document that was read does not change. Beyond `max_words`
    the least recently used go. The caller's access to the document is checked each time, before anything else."""

    def __init__(self, max_words: int = MAX_WORDS) -> None:
        self._max_words = max_words
        self._built = OrderedDict[UUID, tuple[DocumentIndex, int]]()
        self._building = WeakValueDictionary[UUID, asyncio.Lock]()

    async def get(self, database: Database, scope: Scope, document_id: UUID) -> DocumentIndex:
        """Return the index of a document; an empty one if the caller does not see it. Opens transactions of its own and
        holds none while it builds."""
        async with database.as_user(scope) as conn:
            status = await documents.status_of(conn, document_id)
        if status is None:
            return _NO_WORDS
        lock = self._building.setdefault(document_id, asyncio.Lock())
        async with lock:
            if document_id in self._built:
                self._built.move_to_end(document_id)
                return self._built[document_id][0]
            async with database.as_user(scope) as conn:
                pages = await documents.words(conn, document_id)
            # Half a second for hundreds of pages, in which others are to go on.
            index = await in_turn(scope.org_id, _index_of, pages)
            if status == DocumentStatus.READY:
                self._built[document_id] = index, sum(len(page.words) for page in pages)
                while sum(words for _, words in self._built.values()) > self._max_words:
                    self._built.popitem(last=False)
            return index


def _index_of(pages: Sequence[PageWordsRow]) -> DocumentIndex:
    return DocumentIndex([PageWords(page.number, page.words, page.is_xml) for page in pages])


INDEXES: Final = DocumentIndexes()
"""Those of this process."""


@dataclass(slots=True)
class Evidence:
    """What is shown for the leaves of a write, by path name, as the extraction keeps it."""

    confidences: dict[str, float] = field(default_factory=dict[str, float])
    evidence: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    not_found: list[str] = field(default_factory=list[str])


async def find(
    org_id: UUID,
    index: DocumentIndex,
    at: Path,
    value: JsonValue,
    *,
    stands: Mapping[str, JsonValue],
    claims: Mapping[str, Claim] | None,
    from_message: Collection[str] | None = (),
) -> Evidence:
    """Look for every leaf of a value that is to be written at a path (of an object at the root: for each field).

    `stands` is what stands in the extraction so far: the rest of a row tells its line. `claims` are the model's, by
    path name, for leaves or what they stand in; None if no model says anything. The confidence is the evidence's, and
    0 for what is on no page. `from_message` names the leaves whose value is in the person's message: their evidence is
    `message` where no page prints them, without a confidence. None means that a person writes: they need no evidence.
    Nor has a blank a confidence.
    """
    # Thousands of values that are on no page take seconds.
    return await in_turn(org_id, _found, index, at, value, stands, claims, from_message)


def _found(
    index: DocumentIndex,
    at: Path,
    value: JsonValue,
    stands: Mapping[str, JsonValue],
    claims: Mapping[str, Claim] | None,
    from_message: Collection[str] | None,
) -> Evidence:
    written = dict(leaves(value, at))
    claimed = {name: _nearest_claim(claims, name) for name in written} if claims is not None else {}
    leaves_of_row = [*rest_of_row(at, stands, written), *written.items()]
    found = index.ground_leaves(leaves_of_row, claimed)
    result = Evidence()
    for name in written:
        finding: Finding = found[name]
        proof = finding.as_json(claimed.get(name))
        result.evidence[name] = proof
        if finding.state == "found":
            result.confidences[name] = finding.confidence
        elif finding.state == "not_found" and from_message is not None and name in from_message:
            proof["state"] = MESSAGE
        elif finding.state == "not_found" and from_message is not None:
            result.confidences[name] = 0
            result.not_found.append(name)
    return result


def in_message(message: str, values: Iterable[tuple[str, JsonValue]]) -> frozenset[str]:
    """Return the names of the values that occur in a message. Numbers and dates are compared by value; case, accents
    and spaces do not count. `true`, `false`, null and empty values never occur.

    >>> sorted(in_message("Acme Ltd, 1,500.00, on 3 May 2024", [("a", "acme ltd"), ("b", 1500), ("c", "2024-05-03")]))
    ['a', 'b', 'c']
    >>> in_message("the total is 15", [("a", 1), ("b", "to"), ("c", True), ("d", None)])
    frozenset()
    """
    lines: list[list[str | float]] = []
    for row, line in enumerate(message.splitlines()):
        at = 0.0
        for word in line.split():
            # Set out like a printed line: distances decide which groups of digits are one number.
            width = len(word) * 0.001
            lines.append([word, at, row * 0.02, at + width, row * 0.02 + 0.01])
            at += width + 0.001
    index = DocumentIndex([PageWords(1, lines)])
    return frozenset(name for name, value in values if _occurs(index, value))


def _occurs(index: DocumentIndex, value: JsonValue) -> bool:
    if value is None or isinstance(value, bool | dict | list) or value == "":
        return False
    place = index.find(value)
    return place is not None and place.match in ("exact", "normalised", "number", "date")


async def places(
    database: Database, scope: Scope, document_id: UUID, path: Path, value: JsonValue, proof: JsonValue
) -> tuple[list[Location], int]:
    """The places of a leaf's value in its document, the first 200 as they are read, and how many there are. `proof` is
    the evidence that is kept for it: of a yes or no the quote in it tells the places. Opens a transaction of its own.
    """
    index = await INDEXES.get(database, scope, document_id)
    return await in_turn(scope.org_id, index.locations, value, _said(proof), label=path, limit=MOST_PLACES)


async def unmapped(database: Database, scope: Scope, row: ExtractionRow, since_page: int) -> UnmappedPart:
    """The numbers, dates and names of an extraction's document on which none of its fields stands, from a page on. A
    value that was found on no page when it was written is not looked for again. Opens a transaction of its own."""
    index = await INDEXES.get(database, scope, row.document_id)
    return await in_turn(scope.org_id, _unmapped, index, dict(row.extracted_fields), row.evidence, since_page)


def _unmapped(
    index: DocumentIndex, fields: JsonValue, proofs: Mapping[str, JsonValue], since_page: int
) -> UnmappedPart:
    proved = ((name, value, as_object(proofs.get(name))) for name, value in leaves(fields))
    stand = (
        (paths.parse(name) if name else (), value, _said(proof))
        for name, value, proof in proved
        if proof.get("state") not in ("not_found", "blank", MESSAGE)
    )
    return index.unmapped(stand, since_page=since_page)


def _said(proof: JsonValue) -> Claim:
    """What a model said of a value, by the evidence that is kept for it. (A front end that writes to the table may have
    put anything there.)"""
    claim = as_object(as_object(proof).get("claim"))
    quote, page = claim.get("quote"), claim.get("page")
    return Claim(quote if isinstance(quote, str) else None, page if type(page) is int else None)


async def first_places(
    database: Database, scope: Scope, document_id: UUID, values: Sequence[JsonValue]
) -> list[Location | None]:
    """For each value the first place where its document prints it. Opens a transaction of its own."""
    index = await INDEXES.get(database, scope, document_id)
    return await in_turn(
        scope.org_id, lambda: [next(iter(index.locations(value, limit=1)[0]), None) for value in values]
    )


async def quotes_elsewhere(org_id: UUID, index: DocumentIndex, claims: Mapping[str, Claim]) -> dict[str, str]:
    """By path name, a sentence for each quote that is not on its page, or on none (the first ten): the page that it is
    on, else what is printed that is most like it."""
    quotes = {name: (claim.quote, claim.page) for name, claim in claims.items() if claim.quote and claim.quote.strip()}
    return await in_turn(org_id, _quotes_elsewhere, index, quotes) if quotes else {}


def _quotes_elsewhere(index: DocumentIndex, quotes: Mapping[str, tuple[str, int | None]]) -> dict[str, str]:
    faults: dict[str, str] = {}
    for name, (said, page) in quotes.items():
        place = index.find_quote(said, page)
        if place is not None and page in (None, place.page):
            continue
        quote = repr(said[:200])
        if place is not None:
            faults[name] = f"{name}: page {page} does not print {quote}; page {place.page} does."
        else:
            like = index.nearest(said, page) or index.nearest(said)
            is_printed = f"page {like.page} prints {like.quote!r}; you wrote" if like else "nothing like it is printed:"
            faults[name] = f"{name}: {is_printed} {quote}."
        if len(faults) == 10:
            break
    return faults


def rest_of_row(
    at: Path, stands: Mapping[str, JsonValue], written: Mapping[str, Any]
) -> Iterator[tuple[str, JsonValue]]:
    """The leaves beside a path in its row of a list that are not written: they tell which line of the page it is."""
    depth = max((n for n, step in enumerate(at, 1) if isinstance(step, int)), default=0)
    if 0 < depth < len(at):
        row = value_at(dict(stands), at[:depth])
        if not isinstance(row, Missing):
            yield from ((name, leaf) for name, leaf in leaves(row, at[:depth]) if name not in written)


def _nearest_claim(claims: Mapping[str, Claim], name: str) -> Claim:
    """What the model says of a leaf, or else of what it stands in."""
    path = paths.parse(name)
    for size in range(len(path), 0, -1):
        claim = claims.get(paths.name(path[:size]))
        if claim is not None:
            return claim
    return Claim()
