"""The search index in Postgres: documents to index, their chunks, and the chunks that match a query."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from psycopg.sql import SQL, Composable, Composed

from fieldmark.db.pool import Connection
from fieldmark.domain.document_filters import DocumentFilters
from fieldmark.stores.document_filters import matching
from fieldmark.stores.rows import fetch_all, fetch_one, large_json, value_of

PAGES_PER_BATCH: Final = 25


@dataclass(frozen=True, slots=True)
class SourceRow:
    """The data of a document to index. `change` is the number of its latest change. `texts`: short values of its
    current extraction outside lists."""

    change: int
    org_id: UUID
    is_ready: bool
    filename: str | None
    document_type: str | None
    texts: list[str]


@dataclass(frozen=True, slots=True)
class FoundRow:
    """A chunk that matches a query: words `first_word` to `last_word` of a page."""

    document_id: UUID
    filename: str
    page: int
    first_word: int
    last_word: int
    language: str
    score: float


@dataclass(frozen=True, slots=True)
class NewChunk:
    """A chunk to store. `counts` has the number of occurrences per stem, most frequent first. Chunk 0 holds the
    document's filename, type and fields."""

    number: int
    page: int
    first_word: int
    last_word: int
    language: str
    counts: dict[str, int]

    def to_json(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "page": self.page,
            "first_word": self.first_word,
            "last_word": self.last_word,
            "language": self.language,
            "length": sum(self.counts.values()),
            "terms": list(self.counts),
            "counts": bytes(min(count, 255) for count in self.counts.values() if count > 1).hex(),
        }


async def find_queued_document(conn: Connection, document_id: UUID) -> SourceRow | None:
    """Return what the index needs of a document of any tenant that waits to be indexed, or None if it does not wait.
    Needs a connection as the service."""
    return await fetch_one(conn, SourceRow, "select * from private.search_source(%s)", (document_id,))


async def words(conn: Connection, document_id: UUID, after: int) -> list[tuple[int, list[str]]]:
    """Return (page, words) of the next `PAGES_PER_BATCH` pages after page `after`. Needs a connection as the
    service."""
    cursor = await conn.execute(
        "select number, words from private.search_words(%s, %s, %s)", (document_id, after, PAGES_PER_BATCH)
    )
    return [(row["number"], row["words"]) for row in await cursor.fetchall()]


async def stems(conn: Connection, language: str, terms: Collection[str]) -> dict[str, str]:
    """Return the stem of each term. Stop words of the language are left out."""
    cursor = await conn.execute("select term, stem from private.search_stems(%s, %s)", (language, list(terms)))
    return {row["term"]: row["stem"] for row in await cursor.fetchall()}


async def write(conn: Connection, document_id: UUID, change: int, chunks: Sequence[NewChunk]) -> bool:
    """Store the chunks of a document, and commit it without waiting: if the write is lost, it is repeated. Return False
    if the document changed in the meantime. Needs a connection as the service."""
    return await value_of(
        conn,
        "select private.write_search_chunks(%s, %s, %s) as is_done, set_config('synchronous_commit', 'off', true)",
        (document_id, change, await large_json([chunk.to_json() for chunk in chunks])),
    )


async def abandon_indexing(conn: Connection, document_id: UUID) -> None:
    """Stop indexing the latest change of a document and keep its current index entries. Needs a connection as the
    service."""
    await conn.execute("select private.abandon_indexing(%s)", (document_id,))


async def count_unindexed(conn: Connection, org_id: UUID) -> int:
    """Return the number of an organisation's documents whose latest change is not indexed."""
    return await value_of(conn, "select private.count_unindexed_documents(%s) as unindexed", (org_id,))


async def find(
    conn: Connection,
    org_id: UUID,
    terms: Sequence[str],
    *,
    limit: int,
    max_per_document: int,
    max_scored: int,
    filters: DocumentFilters | None = None,
    with_fields: bool = True,
) -> list[FoundRow]:
    """Return the best matching chunks of documents that match the filters. At most `max_scored` chunks are scored, or
    all if the filters match at most half as many documents. Without `with_fields`, extracted values and filenames are
    not searched."""
    parameters: dict[str, Any] = {
        "org": org_id,
        "terms": list(terms),
        "limit": limit,
        "most": max_per_document,
        "max_scored": max_scored,
        "with_fields": with_fields,
    }
    among = SQL("null")
    if filters is not None:
        query, values = matching(filters, org_id)
        among = SQL("array(select id from ({}) as f)").format(query)
        parameters |= values
    chunks = SQL("private.search(%(org)s, %(terms)s, {}, %(max_scored)s, %(with_fields)s)").format(among)
    return await fetch_all(conn, FoundRow, best_chunks_query(chunks), parameters)


def best_chunks_query(chunks: Composable) -> Composed:
    """Return a statement for the best `%(limit)s` scored chunks, at most `%(most)s` per document, of ready
    documents."""
    # Ranked first, then documents are looked up until there are enough. A join would read the documents of all tenants.
    return SQL(
        """with ranked as (
             select p.*, row_number() over (partition by p.document_id order by p.score desc, p.number) as position
             from {} as p
           ), best as (
             select * from ranked where position <= %(most)s order by score desc, document_id, number offset 0)
           select document_id, filename, page, first_word, last_word, language, score
           from best cross join lateral (
             select d.filename from public.documents as d
             where d.id = best.document_id and d.status = 'ready' offset 0) as of_document
           order by score desc, document_id, number limit %(limit)s"""
    ).format(chunks)


async def page_words(conn: Connection, pages: Sequence[tuple[UUID, int]]) -> dict[tuple[UUID, int], list[list[Any]]]:
    """Return the words of pages with their boxes, by (document id, page)."""
    cursor = await conn.execute(
        """select p.document_id, p.number, p.words from unnest(%s::uuid[], %s::integer[]) as a (document_id, number)
           join public.document_pages as p using (document_id, number)""",
        ([document_id for document_id, _ in pages], [number for _, number in pages]),
    )
    return {(row["document_id"], row["number"]): row["words"] for row in await cursor.fetchall()}
