"""Evidence: finds the locations of values on the pages before the values are written."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID
from weakref import WeakValueDictionary

from pydantic import JsonValue

from fieldmark.db.pool import Connection, Database
from fieldmark.domain import paths
from fieldmark.domain.columns import field_units
from fieldmark.domain.fields import Missing, leaves, value_at
from fieldmark.domain.json_values import JsonObject, as_object
from fieldmark.domain.paths import EACH, Path
from fieldmark.domain.statuses import DocumentStatus
from fieldmark.errors import Invalid
from fieldmark.identity.scope import Scope
from fieldmark.services.fair_share import run_queued
from fieldmark.stores import documents
from fieldmark.stores.rows import ExtractionRow
from valuegrounding import Claim, DocumentIndex, Finding, Location, PageWords, UnmappedPart
from valuegrounding.measures import Measure, unit_name

MAX_WORDS: Final = 300_000
"""Words of all documents whose indexes a process caches."""

MESSAGE: Final = "message"
"""The state of a value that is in the person's message and on no page."""

MAX_LOCATIONS: Final = 200
"""Locations of one value that are returned."""

_DOUBTED: Final = 0.5
"""A model's own confidence below this counts. Higher ones say little about whether the value is right."""

_EMPTY_INDEX: Final = DocumentIndex([])


@dataclass(frozen=True, slots=True)
class DocumentWords:
    """What an index is built from: the status that the caller sees, or None, and the words unless an index exists or is
    being built. `lock` is held by the caller that builds it."""

    document_id: UUID
    status: DocumentStatus | None
    lock: asyncio.Lock
    pages: Sequence[PageWords] | None


class DocumentIndexes:
    """A cache of document indexes, up to `max_words`, least recently used first out. A document that was read does not
    change. Every access first checks the caller's rights to the document."""

    def __init__(self, max_words: int = MAX_WORDS) -> None:
        self._max_words = max_words
        self._built = OrderedDict[UUID, tuple[DocumentIndex, int]]()
        self._building = WeakValueDictionary[UUID, asyncio.Lock]()

    async def get(self, database: Database, scope: Scope, document_id: UUID) -> DocumentIndex:
        """Return the index of a document; an empty one if the caller cannot see it. Opens own transactions, and holds
        none while it builds the index."""
        async with database.as_user(scope) as conn:
            words = await self.read(conn, document_id)
        return await self.build(database, scope, words)

    async def read(self, conn: Connection, document_id: UUID) -> DocumentWords:
        """Read what `build` needs, in a transaction that reads other rows, too. The words of an index that exists or is
        being built are not read."""
        status = await documents.status_of(conn, document_id)
        is_first = document_id not in self._building and document_id not in self._built
        lock = self._building.setdefault(document_id, asyncio.Lock())
        pages = await documents.words(conn, document_id) if is_first and status is not None else None
        return DocumentWords(document_id, status, lock, pages)

    async def build(self, database: Database, scope: Scope, words: DocumentWords) -> DocumentIndex:
        """Return the index of a document; an empty one if the caller of `read` cannot see it."""
        document_id = words.document_id
        if words.status is None:
            return _EMPTY_INDEX
        async with words.lock:
            if document_id in self._built:
                self._built.move_to_end(document_id)
                return self._built[document_id][0]
            if (pages := words.pages) is None:  # built by another caller, who failed, or the cache was full
                async with database.as_user(scope) as conn:
                    pages = await documents.words(conn, document_id)
            # Takes half a second for hundreds of pages.
            index = await run_queued(scope.org_id, DocumentIndex, pages)
            if words.status == DocumentStatus.READY:
                self._built[document_id] = index, sum(len(page.words) for page in pages)
                while sum(size for _, size in self._built.values()) > self._max_words:
                    self._built.popitem(last=False)
            return index


INDEXES: Final = DocumentIndexes()
"""The cache of this process."""


@dataclass(slots=True)
class FoundEvidence:
    """The confidence and evidence of the leaves of a write, by path name, as the extraction stores them."""

    confidences: dict[str, float] = field(default_factory=dict[str, float])
    evidence: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    not_found: list[str] = field(default_factory=list[str])


async def find(
    org_id: UUID,
    index: DocumentIndex,
    at: Path,
    value: JsonValue,
    *,
    schema: JsonObject | None,
    current_fields: Mapping[str, JsonValue],
    claims: Mapping[str, Claim] | None,
    from_message: Collection[str] | None = (),
) -> FoundEvidence:
    """Find the evidence of every leaf of a value that will be written at path `at`.

    `schema`: has the units of fields. `current_fields`: the other values of a row help to find its line. `claims`: the
    model's claims by path name, of leaves or of the objects that contain them; None without a model. `from_message`:
    names of the leaves whose value is in the person's message; they get the state `message` and no confidence if they
    are on no page. None: a person writes, and values on no page get no confidence. Otherwise values on no page get
    confidence 0. Blanks have none. A list or list item has evidence if anything doubts or supports it, and a confidence
    if it is doubted. A value that its model doubts has at most the model's own confidence.
    """
    # Thousands of values that are on no page take seconds.
    return await run_queued(org_id, _find, index, at, value, schema, current_fields, claims, from_message)


def _find(
    index: DocumentIndex,
    at: Path,
    value: JsonValue,
    schema: JsonObject | None,
    current_fields: Mapping[str, JsonValue],
    claims: Mapping[str, Claim] | None,
    from_message: Collection[str] | None,
) -> FoundEvidence:
    written = dict(leaves(value, at))
    claimed = {name: _nearest_claim(claims, name) for name in written} if claims is not None else {}
    units = field_units(schema or {})
    leaves_of_row = [
        (path, _with_unit(path, leaf, units))
        for name, leaf in (*rest_of_row(at, current_fields, written), *written.items())
        for path in [paths.parse(name) if name else ()]
    ]
    found = index.ground_leaves(leaves_of_row, claimed)
    result = FoundEvidence()
    for name in written:
        finding: Finding = found[name]
        claim = claimed.get(name)
        proof = finding.as_json(claim)
        result.evidence[name] = proof
        if finding.state == "found":
            result.confidences[name] = finding.confidence
            if claim is not None and claim.confidence is not None and claim.confidence < _DOUBTED:
                result.confidences[name] = min(finding.confidence, claim.confidence)
        elif finding.state == "not_found" and from_message is not None and name in from_message:
            proof["state"] = MESSAGE
        elif finding.state == "not_found" and from_message is not None:
            result.confidences[name] = 0
            result.not_found.append(name)
    for name, finding in found.items():
        # List items and lists, if all of the list is written.
        if finding.state == "found" and finding.location is None and len(paths.parse(name)) >= len(at):
            result.evidence[name] = finding.as_json()
            if finding.doubts:
                result.confidences[name] = finding.confidence
    return result


def _with_unit(path: Path, value: JsonValue, units: Mapping[str, str]) -> JsonValue | Measure:
    """Return a number with the unit of its field, if it has one."""
    if not units or not isinstance(value, int | float) or isinstance(value, bool):
        return value
    unit = units.get(paths.name([EACH if isinstance(step, int) else step for step in path]))
    name = None if unit is None else unit_name(unit)
    return value if name is None else Measure(value, name)


def values_in_message(message: str, values: Iterable[tuple[str, JsonValue]]) -> frozenset[str]:
    """Return the names of the values that occur in a message. Numbers and dates are compared by value; case, accents
    and spaces do not count. `true`, `false`, null and empty values never occur.

    >>> values = [("a", "acme ltd"), ("b", 1500), ("c", "2024-05-03")]
    >>> sorted(values_in_message("Acme Ltd, 1,500.00, on 3 May 2024", values))
    ['a', 'b', 'c']
    >>> values_in_message("the total is 15", [("a", 1), ("b", "to"), ("c", True), ("d", None)])
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
    location = index.find(value)
    return location is not None and location.match in ("exact", "normalised", "number", "date")


async def locations(
    database: Database, scope: Scope, row: ExtractionRow, path: Path, value: JsonValue
) -> tuple[list[Location], int]:
    """Return the locations that match a leaf's value, at most 200 in reading order, and the number of all. The quote in
    its stored evidence locates a yes or no. Opens its own transaction."""
    index = await INDEXES.get(database, scope, row.document_id)
    claim = _claim_in(row.evidence.get(paths.name(path)))
    units = await run_queued(scope.org_id, field_units, row.schema or {})
    measure = _with_unit(path, value, units)
    return await run_queued(scope.org_id, index.locations, measure, claim, label=path, limit=MAX_LOCATIONS)


async def unmapped(database: Database, scope: Scope, row: ExtractionRow, since_page: int) -> UnmappedPart:
    """Return the numbers and dates of an extraction's document that no field maps, from a page on. Values stored as
    "not found" are not searched again. Opens its own transaction."""
    index = await INDEXES.get(database, scope, row.document_id)
    return await run_queued(scope.org_id, _unmapped, index, row, since_page)


def _unmapped(index: DocumentIndex, row: ExtractionRow, since_page: int) -> UnmappedPart:
    units = field_units(row.schema or {})
    proved = (
        (paths.parse(name) if name else (), value, as_object(row.evidence.get(name)))
        for name, value in leaves(dict(row.extracted_fields))
    )
    mapped = (
        (path, _with_unit(path, value, units), _claim_in(proof))
        for path, value, proof in proved
        if proof.get("state") not in ("not_found", "blank", MESSAGE)
    )
    return index.unmapped(mapped, since_page=since_page)


def _claim_in(proof: JsonValue) -> Claim:
    """Return the model's claim in stored evidence, which may be any JSON if a front end wrote it."""
    claim = as_object(as_object(proof).get("claim"))
    quote, page = claim.get("quote"), claim.get("page")
    return Claim(quote if isinstance(quote, str) else None, page if type(page) is int else None)


async def first_locations(
    database: Database, scope: Scope, document_id: UUID, values: Sequence[JsonValue]
) -> list[Location | None]:
    """Return the first location of each value in the document, or None. Opens its own transaction."""
    index = await INDEXES.get(database, scope, document_id)
    return await run_queued(
        scope.org_id, lambda: [next(iter(index.locations(value, limit=1)[0]), None) for value in values]
    )


async def ground(
    database: Database, scope: Scope, document_id: UUID, values: JsonValue, quotes: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return each leaf of any JSON with its evidence in the document: see `ground_in`. Opens its own transaction."""
    index = await INDEXES.get(database, scope, document_id)
    return await run_queued(scope.org_id, ground_in, index, values, quotes)


def ground_in(index: DocumentIndex, values: JsonValue, quotes: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return each leaf of any JSON with its path, confidence and evidence. `quotes`: texts that show a value, by path.
    Raise Invalid for a quote without a value."""
    wanted = dict(leaves(values))
    if unknown := quotes.keys() - wanted.keys():
        raise Invalid(f"There is a quote for {min(unknown)[:200]}, but no such value.")
    claims = {name: Claim(quote=text) for name, text in quotes.items()}
    found = index.ground(values, claims)
    return [
        {
            "path": name,
            "value": value,
            "confidence": None if found[name].state == "blank" else found[name].confidence,
            **found[name].as_json(claims.get(name)),
        }
        for name, value in wanted.items()
    ]


async def quote_errors(org_id: UUID, index: DocumentIndex, claims: Mapping[str, Claim]) -> dict[str, str]:
    """Return a message for each quote that is not on the page of its claim, by path name, at most ten. It names the
    page that has the quote, or the most similar printed text."""
    quotes = {name: (claim.quote, claim.page) for name, claim in claims.items() if claim.quote and claim.quote.strip()}
    return await run_queued(org_id, _quote_errors, index, quotes) if quotes else {}


def _quote_errors(index: DocumentIndex, quotes: Mapping[str, tuple[str, int | None]]) -> dict[str, str]:
    errors: dict[str, str] = {}
    for name, (text, page) in quotes.items():
        location = index.find_quote(text, page)
        if location is not None and page in (None, location.page):
            continue
        quote = repr(text[:200])
        if location is not None:
            errors[name] = f"{name}: page {page} does not print {quote}; page {location.page} does."
        else:
            like = index.nearest(text, page) or index.nearest(text)
            found = (
                f"page {like.page} prints {like.quote!r}; you wrote" if like else "no page prints anything similar to"
            )
            errors[name] = f"{name}: {found} {quote}."
        if len(errors) == 10:
            break
    return errors


def rest_of_row(
    at: Path, current_fields: Mapping[str, JsonValue], written: Mapping[str, Any]
) -> Iterator[tuple[str, JsonValue]]:
    """Yield the other leaves of the list item that a path is in. They determine the line of the page that the item is
    on."""
    depth = max((n for n, step in enumerate(at, 1) if isinstance(step, int)), default=0)
    if 0 < depth < len(at):
        row = value_at(dict(current_fields), at[:depth])
        if not isinstance(row, Missing):
            yield from ((name, leaf) for name, leaf in leaves(row, at[:depth]) if name not in written)


def _nearest_claim(claims: Mapping[str, Claim], name: str) -> Claim:
    """Return the model's claim about a leaf, or else about the innermost object or list that contains it."""
    path = paths.parse(name)
    for size in range(len(path), 0, -1):
        claim = claims.get(paths.name(path[:size]))
        if claim is not None:
            return claim
    return Claim()
