"""Search: documents indexed in the background, and the pieces of them that answer a question, with boxes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Annotated, Any, Final, Literal, TypeAlias
from uuid import UUID

import structlog
from pydantic import Field

from fieldmark.db.pool import Connection, Database
from fieldmark.domain import search_terms
from fieldmark.domain.document_filters import DocumentFilters
from fieldmark.domain.fields import walk
from fieldmark.domain.search_terms import Chunk
from fieldmark.embedding import Embedder, name_of
from fieldmark.errors import Invalid, Unavailable
from fieldmark.identity.scope import Scope
from fieldmark.services.turns import in_turn_at_last
from fieldmark.stores import search as store
from fieldmark.stores import search_vectors as vectors
from fieldmark.stores.rows import Fields
from fieldmark.stores.search import FoundRow, NewPiece, SourceRow

log = structlog.get_logger()

MAX_QUERY: Final = 1000
MAX_TERMS: Final = 64
MAX_HITS: Final = 100
MOST_OF_A_DOCUMENT: Final = 3
"""Hits per document, so that a long one does not fill the list. A search inside one document has all of them."""
MOST_LOOKED_AT: Final = 4000
"""So many pieces are looked at: those that the rare words lead to. Where filters leave half as many documents, all."""

_FUSED: Final = 100
"""So many pieces of each ranking are put together."""
_FUSION: Final = 60
"""The usual constant of reciprocal rank fusion: how little the very first place says more than the next."""

_SNIPPET_WORDS: Final = 40
_SNIPPET_CHARACTERS: Final = 600
_MAX_WORD: Final = 200
_MOST_STEMS: Final = 4000
_HEADER_LEAVES: Final = 40
_HEADER_CHARACTERS: Final = 80
_ROUNDS: Final = 5


@dataclass(frozen=True, slots=True)
class Mark:
    """A word that was asked for."""

    start: Annotated[int, Field(description="Where it begins in the snippet, counted in Unicode code points.")]
    end: Annotated[int, Field(description="Where it ends there: the first code point behind it.")]
    box: Annotated[
        tuple[float, float, float, float],
        Field(description="Where it stands on the page: x0, y0, x1, y1 from 0 to 1, from the upper left corner."),
    ]


@dataclass(frozen=True, slots=True)
class Hit:
    """A piece of a document that answers the question."""

    document_id: UUID
    filename: str
    page: int
    score: Annotated[float, Field(description="The higher the better. To be compared within one answer only.")]
    snippet: Annotated[str, Field(description="Foreign text, to be shown as such: no HTML.")]
    marks: tuple[Mark, ...]
    chunk: Annotated[
        tuple[int, int], Field(description="The piece: its first and last word on the page, counted from 0.")
    ]


SemanticState: TypeAlias = Literal["off", "on", "unavailable"]


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The chunks that match a query, best first."""

    hits: list[Hit]
    not_indexed: Annotated[
        int, Field(description="Number of documents that are not indexed in their current state, and may be missing.")
    ]
    semantic: Annotated[
        SemanticState,
        Field(description="Whether chunks were also compared by meaning. unavailable: the embedder did not answer."),
    ]
    not_embedded: Annotated[
        int, Field(description="Number of documents without vectors, which semantic search cannot find yet.")
    ]


@dataclass(frozen=True, slots=True)
class Meaning:
    """The vector of a question, and the name that vectors like it are kept under."""

    state: SemanticState = "off"
    vector: tuple[float, ...] = ()
    name: str = ""


NO_MEANING: Final = Meaning()


async def meaning_of(embedder: Embedder | None, query: str) -> Meaning:
    """What a question means to the embedder; nothing where there is none, or it does not answer. It may take seconds:
    to be asked where no connection is held, if it can be."""
    if embedder is None or not (storable := _storable(query[:MAX_QUERY]).strip()):
        return NO_MEANING
    try:
        vector = await embedder.question(storable)
    except Unavailable as error:
        log.warning("searched by words alone: there is no vector of the question", error=str(error))
        return Meaning("unavailable")
    return Meaning("on", tuple(vector), name_of(embedder, vector))


async def search(
    conn: Connection,
    scope: Scope,
    query: str,
    *,
    filters: DocumentFilters | None = None,
    limit: int = 10,
    meaning: Meaning = NO_MEANING,
    with_fields: bool = True,
) -> SearchResult:
    """What of the organisation's documents answers a question best. Any of its words may do; rare ones say most. With
    its meaning, pieces of a like one are found, too. Without fields only what pages print is looked at, not what is
    said of documents: extracted values and names of files. Raises Invalid for a question that is too long."""
    if len(query) > MAX_QUERY:
        raise Invalid(f"The question has {len(query):,} characters, at most {MAX_QUERY:,} are allowed: ask shorter.")
    not_indexed = await store.behind(conn, scope.org_id)
    not_embedded = 0 if meaning.state == "off" else await vectors.behind(conn, scope.org_id)
    terms = _terms(query)
    # What says nothing in the question's own language is rare in another's pieces, and would lead there.
    says = await store.stems(conn, search_terms.detect_language(terms), terms)
    terms = [term for term in terms if term in says]
    if filters == DocumentFilters():
        filters = None
    limit = min(limit, MAX_HITS)
    is_inside_one = filters is not None and len(set(filters.document_ids)) == 1
    per_document = MAX_HITS if is_inside_one else MOST_OF_A_DOCUMENT
    rows: list[FoundRow] = []
    if terms and limit > 0:
        rows = await store.find(
            conn,
            scope.org_id,
            terms,
            limit=max(limit, _FUSED) if meaning.vector else limit,
            most_of_a_document=per_document,
            most_looked_at=MOST_LOOKED_AT,
            filters=filters,
            with_fields=with_fields,
        )
    if meaning.vector and limit > 0:
        near = await vectors.nearest(
            conn,
            scope.org_id,
            meaning.name,
            meaning.vector,
            limit=_FUSED,
            most_of_a_document=per_document,
            filters=filters,
        )
        rows = _fused(rows, near, limit, per_document)
    return SearchResult(await _hits(conn, rows, terms), not_indexed, meaning.state, not_embedded)


def _fused(
    by_words: Sequence[FoundRow], by_meaning: Sequence[FoundRow], limit: int, per_document: int
) -> list[FoundRow]:
    """Two rankings as one, by reciprocal rank fusion: each place in one of them counts 1 / (60 + place)."""
    rows: dict[tuple[UUID, int, int], FoundRow] = {}
    scores: dict[tuple[UUID, int, int], float] = {}
    for ranking in (by_words, by_meaning):
        for place, row in enumerate(ranking, start=1):
            piece = (row.document_id, row.page, row.first_word)
            rows.setdefault(piece, row)
            scores[piece] = scores.get(piece, 0) + 1 / (_FUSION + place)
    fused: list[FoundRow] = []
    of_document = Counter[UUID]()
    for piece in sorted(rows, key=lambda one: (-scores[one], one)):
        of_document[piece[0]] += 1
        if of_document[piece[0]] <= per_document:
            fused.append(replace(rows[piece], score=scores[piece]))
    return fused[:limit]


def _storable(query: str) -> str:
    """A question in which what Postgres cannot store is a space."""
    return "".join(" " if character == "\0" or "\ud800" <= character <= "\udfff" else character for character in query)


def _terms(query: str) -> list[str]:
    """The terms of a question."""
    return list(dict.fromkeys(chain.from_iterable(search_terms.terms(_storable(query).split()))))[:MAX_TERMS]


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
        pages: list[tuple[int, list[str]]] = []
        async with database.as_service() as conn:
            source = await store.source(conn, document_id)
            while source is not None and source.is_ready:
                pages += (more := await store.words(conn, document_id, pages[-1][0] if pages else 0))
                if len(more) < store.PAGES_AT_ONCE:
                    break
        if source is None:
            return
        chunks = await in_turn_at_last(source.org_id, search_terms.chunks, pages)
        header = _header(source)
        header_language = chunks[0].language if chunks else search_terms.detect_language(header)
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
