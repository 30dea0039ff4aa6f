"""Search: indexes documents in the background, and finds the chunks that match a query, with boxes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Annotated, Any, Final, Literal, TypeAlias
from uuid import UUID

import structlog
from pydantic import Field

from fieldmark.db.pool import Connection, Database
from fieldmark.domain import search_terms
from fieldmark.domain.document_filters import DocumentFilters
from fieldmark.domain.search_terms import Chunk
from fieldmark.embedding import Embedder, vector_space_name
from fieldmark.errors import Invalid, Unavailable
from fieldmark.identity.scope import Scope
from fieldmark.services.fair_share import run_queued_unbounded
from fieldmark.stores import search as store
from fieldmark.stores import search_vectors as vectors
from fieldmark.stores.search import FoundRow, NewChunk, SourceRow

log = structlog.get_logger()

MAX_QUERY: Final = 1000
MAX_TERMS: Final = 64
MAX_HITS: Final = 100
MAX_HITS_PER_DOCUMENT: Final = 3
"""Keeps a long document from filling the list. A search inside one document has no such limit."""
MAX_RANKED_CHUNKS: Final = 4000
"""Chunks that are ranked: those with the rarest words. All chunks, if filters leave at most half as many documents."""

_FUSED_CHUNKS: Final = 100
"""Chunks of each ranking that are fused."""
_FUSION_CONSTANT: Final = 60
"""The usual constant of reciprocal rank fusion. A higher constant lowers the weight of the first ranks."""

_SNIPPET_WORDS: Final = 40
_SNIPPET_CHARACTERS: Final = 600
_MAX_WORD_CHARACTERS: Final = 200
_MAX_STEMS: Final = 4000
_MAX_ATTEMPTS: Final = 5


@dataclass(frozen=True, slots=True)
class Mark:
    """A word of the snippet that matches the query."""

    start: Annotated[int, Field(description="The index of its first Unicode code point in the snippet.")]
    end: Annotated[int, Field(description="The index after its last code point.")]
    box: Annotated[
        tuple[float, float, float, float],
        Field(description="Its location: x0, y0, x1, y1 in fractions of the page, from the upper left corner."),
    ]


@dataclass(frozen=True, slots=True)
class Hit:
    """A chunk of a document that matches the query."""

    document_id: UUID
    filename: str
    page: int
    score: Annotated[float, Field(description="Higher is better. Comparable only within one response.")]
    snippet: Annotated[str, Field(description="Untrusted text of the document. Never render it as HTML.")]
    marks: tuple[Mark, ...]
    chunk: Annotated[tuple[int, int], Field(description="The indexes of its first and last word on the page, from 0.")]


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
class QueryEmbedding:
    """The vector of a query. `name` identifies the stored vectors of the same model."""

    state: SemanticState = "off"
    vector: tuple[float, ...] = ()
    name: str = ""


NO_EMBEDDING: Final = QueryEmbedding()


async def embed_query(embedder: Embedder | None, query: str) -> QueryEmbedding:
    """Return the query's vector; without a vector if there is no embedder or it does not answer. May take seconds: call
    it without a connection where possible."""
    if embedder is None or not (storable := _storable(query[:MAX_QUERY]).strip()):
        return NO_EMBEDDING
    try:
        vector = await embedder.embed_question(storable)
    except Unavailable as error:
        log.warning("embedder unavailable: searched by words only", error=str(error))
        return QueryEmbedding("unavailable")
    return QueryEmbedding("on", tuple(vector), vector_space_name(embedder, vector))


async def search(
    conn: Connection,
    scope: Scope,
    query: str,
    *,
    filters: DocumentFilters | None = None,
    limit: int = 10,
    embedding: QueryEmbedding = NO_EMBEDDING,
    with_fields: bool = True,
) -> SearchResult:
    """Search the organisation's documents. Any word of the query matches; rare words rank higher. With an embedding,
    chunks with a similar meaning match too. Without `with_fields` only the pages' text is searched, not file names and
    extracted values. Raise Invalid if the query is too long."""
    if len(query) > MAX_QUERY:
        raise Invalid(f"The query has {len(query):,} characters; the limit is {MAX_QUERY:,}. Shorten it.")
    not_indexed = await store.count_unindexed(conn, scope.org_id)
    not_embedded = 0 if embedding.state == "off" else await vectors.count_unembedded(conn, scope.org_id)
    terms = _terms(query)
    # Stop words of the query's language are rare in other languages, and would rank chunks of those first.
    stems = await store.stems(conn, search_terms.detect_language(terms), terms)
    terms = [term for term in terms if term in stems]
    if filters == DocumentFilters():
        filters = None
    limit = min(limit, MAX_HITS)
    is_inside_one = filters is not None and len(set(filters.document_ids)) == 1
    per_document = MAX_HITS if is_inside_one else MAX_HITS_PER_DOCUMENT
    rows: list[FoundRow] = []
    if terms and limit > 0:
        rows = await store.find(
            conn,
            scope.org_id,
            terms,
            limit=max(limit, _FUSED_CHUNKS) if embedding.vector else limit,
            max_per_document=per_document,
            max_scored=MAX_RANKED_CHUNKS,
            filters=filters,
            with_fields=with_fields,
        )
    if embedding.vector and limit > 0:
        near = await vectors.nearest(
            conn,
            scope.org_id,
            embedding.name,
            embedding.vector,
            limit=_FUSED_CHUNKS,
            max_per_document=per_document,
            filters=filters,
        )
        rows = _fuse(rows, near, limit, per_document)
    return SearchResult(await _hits(conn, rows, terms), not_indexed, embedding.state, not_embedded)


def _fuse(
    by_words: Sequence[FoundRow], by_meaning: Sequence[FoundRow], limit: int, per_document: int
) -> list[FoundRow]:
    """Merge two rankings by reciprocal rank fusion: each rank in one of them adds 1 / (60 + rank) to the score."""
    rows: dict[tuple[UUID, int, int], FoundRow] = {}
    scores: dict[tuple[UUID, int, int], float] = {}
    for ranking in (by_words, by_meaning):
        for rank, row in enumerate(ranking, start=1):
            chunk = (row.document_id, row.page, row.first_word)
            rows.setdefault(chunk, row)
            scores[chunk] = scores.get(chunk, 0) + 1 / (_FUSION_CONSTANT + rank)
    fused: list[FoundRow] = []
    counts = Counter[UUID]()
    for chunk in sorted(rows, key=lambda one: (-scores[one], one)):
        counts[chunk[0]] += 1
        if counts[chunk[0]] <= per_document:
            fused.append(replace(rows[chunk], score=scores[chunk]))
    return fused[:limit]


def _storable(query: str) -> str:
    """Replace the characters that Postgres cannot store by spaces."""
    return "".join(" " if character == "\0" or "\ud800" <= character <= "\udfff" else character for character in query)


def _terms(query: str) -> list[str]:
    return list(dict.fromkeys(chain.from_iterable(search_terms.terms(_storable(query).split()))))[:MAX_TERMS]


async def _hits(conn: Connection, rows: Sequence[FoundRow], terms: Sequence[str]) -> list[Hit]:
    if not rows:
        return []
    pages = await store.page_words(conn, list(dict.fromkeys((row.document_id, row.page) for row in rows)))
    chunks = [pages.get((row.document_id, row.page), [])[row.first_word : row.last_word + 1] for row in rows]
    chunk_terms = [search_terms.terms([str(word[0])[:_MAX_WORD_CHARACTERS] for word in chunk]) for chunk in chunks]
    matching: dict[str, set[str]] = {}
    for language in {row.language for row in rows}:
        printed = {
            term
            for row, words in zip(rows, chunk_terms, strict=True)
            if row.language == language
            for term in chain.from_iterable(words)
        }
        stems = await store.stems(conn, language, {*printed, *terms})
        query_stems = {stems[term] for term in terms if term in stems}
        matching[language] = {term for term in printed if stems.get(term) in query_stems}
    return [
        _hit(row, chunk, [bool(matching[row.language].intersection(word)) for word in words])
        for row, chunk, words in zip(rows, chunks, chunk_terms, strict=True)
    ]


def _hit(row: FoundRow, words: Sequence[Sequence[Any]], is_match: Sequence[bool]) -> Hit:
    """Return a hit. Its snippet is the window of words with the most matches."""
    counts = [0]
    for one in is_match:
        counts.append(counts[-1] + one)
    windows = max(1, len(words) - _SNIPPET_WORDS + 1)
    begin = max(range(windows), key=lambda at: counts[min(at + _SNIPPET_WORDS, len(words))] - counts[at])
    if begin and windows > 1:  # show a few words before the first match
        first = next((at for at in range(begin, len(words)) if is_match[at]), begin)
        begin = max(0, min(begin, first - 5, windows - 1))
    text, marks = "", list[Mark]()
    for word, matches in zip(words[begin : begin + _SNIPPET_WORDS], is_match[begin:], strict=False):
        word_text = " ".join(str(word[0])[:_MAX_WORD_CHARACTERS].split())
        if len(text) + len(word_text) > _SNIPPET_CHARACTERS:
            break
        start = len(text) + bool(text)
        text = f"{text} {word_text}" if text else word_text
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
    """Index a pending document in its current state, or remove it from the index if it is deleted."""
    for _ in range(_MAX_ATTEMPTS):
        pages: list[tuple[int, list[str]]] = []
        source = await database.once(partial(store.find_queued_document, document_id=document_id))
        while source is not None and source.is_ready:  # a change while its words are read is noticed by the write
            words = partial(store.words, document_id=document_id, after=pages[-1][0] if pages else 0)
            pages += (more := await database.once(words))
            if len(more) < store.PAGES_PER_BATCH:
                break
        if source is None:
            return
        chunks = await run_queued_unbounded(source.org_id, search_terms.chunks, pages)
        header = _header(source)
        header_language = chunks[0].language if chunks else search_terms.detect_language(header)
        stems: dict[str, dict[str, str]] = {}
        for language in {header_language, *(chunk.language for chunk in chunks)}:
            terms = set(chain.from_iterable(chunk.terms for chunk in chunks if chunk.language == language))
            terms.update(header if language == header_language else ())
            stems[language] = await database.once(partial(store.stems, language=language, terms=terms))
        entries = await run_queued_unbounded(source.org_id, _index_entries, chunks, header, header_language, stems)
        chunks_to_store = entries if source.is_ready else []
        write = partial(store.write, document_id=document_id, change=source.change, chunks=chunks_to_store)
        if await database.once(write):
            return
    # The document changes faster than it is indexed: its job is queued again.
    raise Invalid(f"The document changed during each of {_MAX_ATTEMPTS} attempts to index it. It is tried again later.")


async def abandon_indexing(database: Database, document_id: UUID) -> None:
    """Keep the current index entries of a document after too many failed attempts."""
    async with database.as_service() as conn:
        await store.abandon_indexing(conn, document_id)


def _index_entries(
    chunks: Sequence[Chunk], header: Sequence[str], header_language: str, stems: dict[str, dict[str, str]]
) -> list[NewChunk]:
    header_counts = _counts(header, stems[header_language])
    header_entry = [NewChunk(0, 1, 0, -1, header_language, header_counts)] if header_counts and chunks else []
    return [
        *header_entry,
        *(
            NewChunk(
                number, chunk.page, chunk.first, chunk.last, chunk.language, _counts(chunk.terms, stems[chunk.language])
            )
            for number, chunk in enumerate(chunks, start=1)
        ),
    ]


def _counts(terms: Sequence[str], stems: dict[str, str]) -> dict[str, int]:
    return dict(Counter(stems[term] for term in terms if term in stems).most_common(_MAX_STEMS))


def _header(source: SourceRow) -> list[str]:
    """Return the terms that describe a whole document: its name, its type, and its short field values outside lists."""
    words = (source.filename or "").rsplit(".", 1)[0].replace("_", " ").split()
    words += (source.document_type or "").replace("_", " ").split()
    words += chain.from_iterable(text.split() for text in source.texts)
    return list(chain.from_iterable(search_terms.terms(words)))
