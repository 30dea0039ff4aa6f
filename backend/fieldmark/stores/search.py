"""What search keeps in Postgres: which documents are due, their pieces, and which pieces answer a question."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from psycopg.sql import SQL, Composable, Composed

from fieldmark.db.pool import Connection
from fieldmark.domain.document_filters import DocumentFilters
from fieldmark.stores.document_filters import matching
from fieldmark.stores.rows import Fields, fetch_all, fetch_one, large_json, value_of

PAGES_AT_ONCE: Final = 25


@dataclass(frozen=True, slots=True)
class SourceRow:
    """What a document is indexed from. `change` says which of its changes."""

    change: int
    org_id: UUID
    is_ready: bool
    filename: str | None
    document_type: str | None
    fields: Fields | None


@dataclass(frozen=True, slots=True)
class FoundRow:
    """A piece of a document that answers a question: the words of a page from the first to the last."""

    document_id: UUID
    filename: str
    page: int
    first_word: int
    last_word: int
    language: str
    score: float


@dataclass(frozen=True, slots=True)
class NewPiece:
    """A piece as it is written: its stems, the most frequent first, and how often each is in it. Number 0 is what is
    said of the document."""

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


async def source(conn: Connection, document_id: UUID) -> SourceRow | None:
    """What a document is to be indexed from, whosever it is; None if it is not due. Asked by the service."""
    return await fetch_one(conn, SourceRow, "select * from private.search_source(%s)", (document_id,))


async def words(conn: Connection, document_id: UUID, after: int) -> list[tuple[int, list[str]]]:
    """The words of the pages that follow one: so many pages at once. Asked by the service."""
    cursor = await conn.execute(
        "select number, words from private.search_words(%s, %s, %s)", (document_id, after, PAGES_AT_ONCE)
    )
    return [(row["number"], row["words"]) for row in await cursor.fetchall()]


async def stems(conn: Connection, language: str, terms: Collection[str]) -> dict[str, str]:
    """The stem of each term that says something in a language."""
    cursor = await conn.execute("select term, stem from private.search_stems(%s, %s)", (language, list(terms)))
    return {row["term"]: row["stem"] for row in await cursor.fetchall()}


async def write(conn: Connection, document_id: UUID, change: int, pieces: Sequence[NewPiece]) -> bool:
    """Whether a document is indexed now; if not, it has changed meanwhile. Asked by the service."""
    return await value_of(
        conn,
        "select private.write_search_chunks(%s, %s, %s) as is_done",
        (document_id, change, await large_json([piece.to_json() for piece in pieces])),
    )


async def give_up(conn: Connection, document_id: UUID) -> None:
    """Leave a document as it is indexed now. Asked by the service."""
    await conn.execute("select private.abandon_indexing(%s)", (document_id,))


async def behind(conn: Connection, org_id: UUID) -> int:
    """How many documents of an organisation are not indexed as they are now."""
    return await value_of(conn, "select private.count_unindexed_documents(%s) as behind", (org_id,))


async def find(
    conn: Connection,
    org_id: UUID,
    terms: Sequence[str],
    *,
    limit: int,
    most_of_a_document: int,
    most_looked_at: int,
    filters: DocumentFilters | None = None,
    with_fields: bool = True,
) -> list[FoundRow]:
    """The pieces that answer a question best, of those documents that filters leave. So many pieces are looked at, or
    all where filters leave half as many documents. Without fields neither extracted values nor names of files count."""
    parameters: dict[str, Any] = {
        "org": org_id,
        "terms": list(terms),
        "limit": limit,
        "most": most_of_a_document,
        "most_looked_at": most_looked_at,
        "with_fields": with_fields,
    }
    among = SQL("null")
    if filters is not None:
        query, values = matching(filters, org_id)
        among = SQL("array(select id from ({}) as f)").format(query)
        parameters |= values
    pieces = SQL("private.search(%(org)s, %(terms)s, {}, %(most_looked_at)s, %(with_fields)s)").format(among)
    return await fetch_all(conn, FoundRow, best_of(pieces), parameters)


def best_of(pieces: Composable) -> Composed:
    """A statement that answers the best (`limit`) of scored pieces, at the most so many (`most`) of a document, of
    documents that can be read now."""
    # Ranked first: documents are looked up one by one until there are enough. A join would read those of all tenants.
    return SQL(
        """with ranked as (
             select p.*, row_number() over (partition by p.document_id order by p.score desc, p.number) as place
             from {} as p
           ), best as (
             select * from ranked where place <= %(most)s order by score desc, document_id, number offset 0)
           select document_id, filename, page, first_word, last_word, language, score
           from best cross join lateral (
             select d.filename from public.documents as d
             where d.id = best.document_id and d.status = 'ready' offset 0) as of_document
           order by score desc, document_id, number limit %(limit)s"""
    ).format(pieces)


async def page_words(conn: Connection, pages: Sequence[tuple[UUID, int]]) -> dict[tuple[UUID, int], list[list[Any]]]:
    """The words of pages, each with its box."""
    cursor = await conn.execute(
        """select p.document_id, p.number, p.words from unnest(%s::uuid[], %s::integer[]) as a (document_id, number)
           join public.document_pages as p using (document_id, number)""",
        ([document_id for document_id, _ in pages], [number for _, number in pages]),
    )
    return {(row["document_id"], row["number"]): row["words"] for row in await cursor.fetchall()}
