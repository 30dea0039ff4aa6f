"""Search: documents indexed in the background, and the pieces of them that answer a question, with boxes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final
from uuid import UUID

from fieldmark.db.pool import Connection, Database
from fieldmark.domain import search_terms
from fieldmark.domain.document_filters import DocumentFilters
from fieldmark.domain.fields import walk
from fieldmark.domain.search_terms import Chunk
from fieldmark.errors import Invalid
from fieldmark.identity.scope import Scope
from fieldmark.services.turns import in_turn_at_last
from fieldmark.stores import search as store
from fieldmark.stores.rows import Fields
from fieldmark.stores.search import FoundRow, NewPiece, SourceRow

MAX_QUERY: Final = 1000
MAX_TERMS: Final = 64
MAX_HITS: Final = 100
MOST_OF_A_DOCUMENT: Final = 3
"""So many pieces of one document are answered: a long one does not fill the list."""
MOST_LOOKED_AT: Final = 4000
"""So many pieces are looked at: those that the rare words lead to. Where filters leave half as many documents, all."""

_SNIPPET_WORDS: Final = 40
_SNIPPET_CHARACTERS: Final = 600
_MAX_WORD: Final = 200
_MOST_STEMS: Final = 4000
_HEADER_LEAVES: Final = 40
_HEADER_CHARACTERS: Final = 80
_ROUNDS: Final = 5


@dataclass(frozen=True, slots=True)
class Mark:
    """A word that was asked for: where it stands in the snippet, in Unicode code points, and on the page."""

    start: int
    end: int
    box: tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class Hit:
    """A piece of a document that answers a question. `chunk` are its first and its last word, counted from 0."""

    document_id: UUID
    filename: str
    page: int
    score: float
    snippet: str
    marks: tuple[Mark, ...]
    chunk: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Found:
    """The best pieces first. `behind`: so many documents are not indexed as they are now."""

    hits: list[Hit]
    behind: int


async def search(
    conn: Connection, scope: Scope, query: str, *, filters: DocumentFilters | None = None, limit: int = 10
) -> Found:
    """What of the organisation's documents answers a question best. Any of its words may do; rare ones say most. Raises
    Invalid for a question that is too long."""
    if len(query) > MAX_QUERY:
        raise Invalid(f"The question has {len(query):,} characters, at most {MAX_QUERY:,} are allowed: ask shorter.")
    behind = await store.behind(conn, scope.org_id)
    terms = _terms(query)
    # What says nothing in the question's own language is rare in another's pieces, and would lead there.
    says = await store.stems(conn, search_terms.language_of(terms), terms)
    terms = [term for term in terms if term in says]
    if not terms or limit < 1:
        return Found([], behind)
    if filters == DocumentFilters():
        filters = None
    rows = await store.find(
        conn,
        scope.org_id,
        terms,
        limit=min(limit, MAX_HITS),
        most_of_a_document=MOST_OF_A_DOCUMENT,
        most_looked_at=MOST_LOOKED_AT,
        filters=filters,
    )
    return Found(await _hits(conn, rows, terms), behind)


def _terms(query: str) -> list[str]:
    """The terms of a question. What Postgres cannot store is a space."""
    storable = "".join(
        " " if character == "\0" or "\ud800" <= character <= "\udfff" else character for character in query
    )
    return list(dict.fromkeys(chain.from_iterable(search_terms.terms(storable.split()))))[:MAX_TERMS]


async def _hits(conn: Connection, rows: Sequence[FoundRow], terms: Sequence[str]) -> list[Hit]:
    if not rows:
        return []
    pages = await store.page_words(conn, list(dict.fromkeys((row.document_id, row.page) for row in rows)))
    pieces = [pages.get((row.document_id, row.page), [])[row.first_word : row.last_word + 1] for row in rows]
    found = [search_terms.terms([str(word[0])[:_MAX_WORD] for word in piece]) for piece in pieces]
    matching: dict[str, set[str]] = {}
    for language in {row.language for row in rows}:
        said = {
            term
            for row, words in zip(rows, found, strict=True)
            if row.language == language
            for term in chain.from_iterable(words)
        }
        stems = await store.stems(conn, language, {*said, *terms})
        wanted = {stems[term] for term in terms if term in stems}
        matching[language] = {term for term in said if stems.get(term) in wanted}
    return [
        _hit(row, piece, [bool(matching[row.language].intersection(word)) for word in words])
        for row, piece, words in zip(rows, pieces, found, strict=True)
    ]


def _hit(row: FoundRow, words: Sequence[Sequence[Any]], is_match: Sequence[bool]) -> Hit:
    """A hit with the window of its words in which the most were asked for."""
    counts = [0]
    for one in is_match:
        counts.append(counts[-1] + one)
    most = max(1, len(words) - _SNIPPET_WORDS + 1)
    begin = max(range(most), key=lambda at: counts[min(at + _SNIPPET_WORDS, len(words))] - counts[at])
    if begin and most > 1:  # a few words before the first
        first = next((at for at in range(begin, len(words)) if is_match[at]), begin)
        begin = max(0, min(begin, first - 5, most - 1))
    text, marks = "", list[Mark]()
    for word, matches in zip(words[begin : begin + _SNIPPET_WORDS], is_match[begin:], strict=False):
        spelt = " ".join(str(word[0])[:_MAX_WORD].split())
        if len(text) + len(spelt) > _SNIPPET_CHARACTERS:
            break
        start = len(text) + bool(text)
        text = f"{text} {spelt}" if text else spelt
        if matches:
            x0, y0, x1, y1 = word[1:5]
            marks.append(Mark(start, len(text), (x0, y0, x1, y1)))
    return Hit(
        document_id=row.document_id,
        filename=row.filename,
        page=row.page,
        score=row.score,
        snippet=text,
        marks=tuple(marks),
        chunk=(row.first_word, row.last_word),
    )


async def index(database: Database, document_id: UUID) -> None:
    """Index a document as it is now, or take it out if it is gone. Does nothing for one that is not due."""
    for _ in range(_ROUNDS):
        async with database.as_service() as conn:
            source = await store.source(conn, document_id)
        if source is None:
            return
        pages: list[tuple[int, list[str]]] = []
        while source.is_ready:
            async with database.as_service() as conn:
                more = await store.words(conn, document_id, pages[-1][0] if pages else 0)
            if not more:
                break
            pages += more
        chunks = await in_turn_at_last(source.org_id, search_terms.chunks, pages)
        header = _header(source)
        header_language = chunks[0].language if chunks else search_terms.language_of(header)
        async with database.as_service() as conn:
            stems = {
                language: await store.stems(
                    conn,
                    language,
                    {
                        *chain.from_iterable(chunk.terms for chunk in chunks if chunk.language == language),
                        *(header if language == header_language else ()),
                    },
                )
                for language in {header_language, *(chunk.language for chunk in chunks)}
            }
        pieces = await in_turn_at_last(source.org_id, _pieces, chunks, header, header_language, stems)
        async with database.as_service() as conn:
            await conn.execute("set local synchronous_commit = off")  # what is lost is still due
            if await store.write(conn, document_id, source.change, pieces if source.is_ready else []):
                return
    # It changes faster than it is indexed: its job begins anew, behind others.
    raise Invalid("The document changed again and again while it was indexed.")


async def give_up(database: Database, document_id: UUID) -> None:
    """Leave a document as it is indexed now: it was tried often enough."""
    async with database.as_service() as conn:
        await store.give_up(conn, document_id)


def _pieces(
    chunks: Sequence[Chunk], header: Sequence[str], header_language: str, stems: dict[str, dict[str, str]]
) -> list[NewPiece]:
    of_header = _counts(header, stems[header_language])
    said = [NewPiece(0, 1, 0, -1, header_language, of_header)] if of_header and chunks else []
    return [
        *said,
        *(
            NewPiece(
                number, chunk.page, chunk.first, chunk.last, chunk.language, _counts(chunk.terms, stems[chunk.language])
            )
            for number, chunk in enumerate(chunks, start=1)
        ),
    ]


def _counts(terms: Sequence[str], stems: dict[str, str]) -> dict[str, int]:
    return dict(Counter(stems[term] for term in terms if term in stems).most_common(_MOST_STEMS))


def _header(source: SourceRow) -> list[str]:
    """What is said of a whole document: its name, its type, and what was read from it in few words, as parties, numbers
    and days. Items of lists are left to the pages."""
    words = (source.filename or "").rsplit(".", 1)[0].replace("_", " ").split()
    words += (source.document_type or "").replace("_", " ").split()
    words += chain.from_iterable(text.split() for text in _texts(source.fields or {}))
    return list(chain.from_iterable(search_terms.terms(words)))


def _texts(fields: Fields) -> list[str]:
    return [
        value
        for path, value in walk(fields)
        if isinstance(value, str)
        and len(value) <= _HEADER_CHARACTERS
        and not any(isinstance(step, int) for step in path)
    ][:_HEADER_LEAVES]
