"""What one model leaves to another: the fields that neither evidence nor schema nor rules settle, and where they may
stand."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from pydantic import JsonValue

from fieldmark.db.pool import Connection
from fieldmark.domain import paths
from fieldmark.domain.fields import walk
from fieldmark.domain.json_values import as_object
from fieldmark.domain.paths import Path
from fieldmark.domain.schema import violations
from fieldmark.services.turns import without_turn
from fieldmark.stores import documents
from fieldmark.stores.rows import ExtractionRow, PageText

LOW_CONFIDENCE: Final = 0.7
"""Below it a value is not settled, whether the evidence says so or the model that wrote it. A currency that stands
there as a symbol has 0.6."""
MOST_OPEN: Final = 100
"""Where more fields are open, all of them are."""

_PAGES_AT_ONCE: Final = 50


@dataclass(frozen=True, slots=True)
class OpenField:
    """A place that is not settled, and the code of why: `not_found`, `low_confidence`, `nothing_extracted`, or that of
    a violation."""

    path: Path
    why: str


async def open_fields(row: ExtractionRow) -> list[OpenField]:
    """The places of an extraction that are not settled; the root where all of it is open. What a person set is settled.
    Raises InvalidSchema if the schema cannot be used."""
    # Not on the event loop: a schema or a document may make it long.
    return await without_turn(_open_fields, row)


def _open_fields(row: ExtractionRow) -> list[OpenField]:
    found: dict[Path, str] = {}
    for path, why in _reasons(row):
        if paths.name(path) not in row.locks:
            found.setdefault(path, why)
    # What stands below an open place is open with it.
    outermost = [path for path in found if not any(path[:steps] in found for steps in range(len(path)))]
    if len(outermost) > MOST_OPEN:
        return [OpenField((), "more")]
    return [OpenField(path, found[path]) for path in outermost]


def _reasons(row: ExtractionRow) -> Iterator[tuple[Path, str]]:
    if not row.extracted_fields:
        yield (), "nothing_extracted"
    if row.schema is not None:
        for one in violations(row.schema, row.extracted_fields, row.evidence, row.locks, MOST_OPEN):
            yield from ((path, one.code) for path in one.about or (one.path,))
    for path, value in walk(row.extracted_fields):
        name = paths.name(path)
        proof = as_object(row.evidence.get(name))
        # A blank claims nothing, nor does an empty list: whether they may stand there is the schema's to say.
        if value in (None, [], {}):
            continue
        if proof.get("state") != "found":
            yield path, "not_found"
        elif min(row.confidence_scores.get(name, 1), _claimed(proof.get("claim"))) < LOW_CONFIDENCE:
            yield path, "low_confidence"


def _claimed(claim: JsonValue) -> float:
    confidence = as_object(claim).get("confidence")
    return confidence if isinstance(confidence, int | float) else 1


def covers(opened: Iterable[Path], path: Path) -> bool:
    """Whether a path is one of these, or stands below one."""
    return any(path[: len(one)] == one for one in opened)


def closed_up(opened: Iterable[Path], removed: Path, items: int) -> list[Path]:
    """Open places when an item of a list is gone, which has so many `items` now: those behind it have moved up. What
    was open in the item itself is open in the next that the list gets.

    >>> closed_up([("a", 1, "b"), ("a", 3), ("c",)], ("a", 1), 4)
    [('a', 4, 'b'), ('a', 2), ('c',)]
    """
    *above, gone = removed
    depth = len(above)
    found: list[Path] = []
    for path in opened:
        at = path[depth] if len(path) > depth and path[:depth] == tuple(above) else None
        if isinstance(at, int) and isinstance(gone, int) and at >= gone:
            path = (*path[:depth], items if at == gone else at - 1, *path[depth + 1 :])
        found.append(path)
    return found


async def pages_of(conn: Connection, document_id: UUID, row: ExtractionRow, opened: Sequence[Path]) -> list[int] | None:
    """The pages that the values of open places may stand on; None for any page.

    They are those of the evidence that is there, else of what stands beside; and those that print the place's name. A
    place of which nothing tells a page may stand on any."""
    known = {path: page for path, _ in walk(row.extracted_fields) if (page := _page(row, path)) is not None}
    wanted: set[int] = set()
    named: dict[str, bool] = {}
    for path in opened:
        at = _pages_below(known, path) or (_pages_below(known, path[:-1]) if len(path) > 1 else set[int]())
        wanted |= at
        named[_words_of(path)] = bool(at) or named.get(_words_of(path), False)
    first = 1
    while pages := await documents.pages(conn, document_id, first, first + _PAGES_AT_ONCE - 1):
        printed = await asyncio.to_thread(_that_print, pages, named.keys() - {""})
        for word, numbers in printed.items():
            wanted |= numbers
            named[word] = named[word] or bool(numbers)
        first = pages[-1].number + 1
    return sorted(wanted) if wanted and all(named.values()) else None


def _pages_below(known: dict[Path, int], above: Path) -> set[int]:
    return {page for path, page in known.items() if path[: len(above)] == above}


def _page(row: ExtractionRow, path: Path) -> int | None:
    proof = as_object(row.evidence.get(paths.name(path)))
    page = proof.get("page") or as_object(proof.get("claim")).get("page")
    return page if isinstance(page, int) else None


def _words_of(path: Path) -> str:
    key = next((step for step in reversed(path) if isinstance(step, str)), "")
    return " ".join(key.replace("_", " ").split()).casefold()


def _that_print(pages: Sequence[PageText], words: Collection[str]) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {word: set() for word in words}
    for page in pages:
        text = " ".join(page.text.split()).casefold()
        for word in words:
            if word in text:
                found[word].add(page.number)
    return found
