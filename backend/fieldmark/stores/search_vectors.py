"""Semantic search in Postgres: embeddings of chunks, documents that lack some, and nearest neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from psycopg.sql import SQL

from fieldmark.db.pool import Connection
from fieldmark.domain.document_filters import DocumentFilters
from fieldmark.stores.document_filters import matching
from fieldmark.stores.rows import fetch_all, fetch_one, large_json, value_of
from fieldmark.stores.search import FoundRow, best_chunks_query


@dataclass(frozen=True, slots=True)
class LeasedDocumentRow:
    """A document that a worker has leased to embed its chunks. `change` is the change that the chunks belong to."""

    document_id: UUID
    org_id: UUID
    change: int


@dataclass(frozen=True, slots=True)
class ChunkRow:
    """A chunk without an embedding: words of a page."""

    number: int
    page: int
    first_word: int
    last_word: int


async def are_available(conn: Connection) -> bool:
    """Return whether the database has the pgvector extension."""
    return await value_of(conn, "select private.has_vectors() as has")


async def set_embedder(conn: Connection, name: str) -> None:
    """Set the embedder whose name new embeddings are stored under. Needs a connection as the service."""
    await conn.execute("select private.use_embedder(%s)", (name,))


async def lease(conn: Connection, lease_seconds: float) -> LeasedDocumentRow | None:
    """Lease a document without embeddings for `lease_seconds`. Return None if all are embedded. Needs a connection as
    the service."""
    return await fetch_one(
        conn, LeasedDocumentRow, "select * from private.lease_document_for_embedding(%s)", (lease_seconds,)
    )


async def chunks_to_embed(conn: Connection, document: LeasedDocumentRow, name: str, limit: int) -> list[ChunkRow]:
    """Return up to `most` chunks of a document without an embedding. Needs a connection as the service."""
    return await fetch_all(
        conn,
        ChunkRow,
        "select * from private.chunks_without_vectors(%s, %s, %s, %s, %s)",
        (document.org_id, document.document_id, document.change, name, limit),
    )


async def write(
    conn: Connection, document: LeasedDocumentRow, name: str, embeddings: Sequence[tuple[int, Sequence[float]]]
) -> None:
    """Store embeddings by chunk number. An empty sequence marks the document as complete. Needs a connection as the
    service."""
    vectors = [{"number": number, "embedding": list(vector)} for number, vector in embeddings]
    await conn.execute(
        "select private.write_search_vectors(%s, %s, %s, %s, %s)",
        (document.org_id, document.document_id, document.change, name, await large_json(vectors)),
    )


async def count_unembedded(conn: Connection, org_id: UUID) -> int:
    """Return the number of an organisation's documents with chunks without an embedding."""
    return await value_of(conn, "select private.count_unembedded_documents(%s) as unembedded", (org_id,))


async def nearest(
    conn: Connection,
    org_id: UUID,
    name: str,
    vector: Sequence[float],
    *,
    limit: int,
    max_per_document: int,
    filters: DocumentFilters | None = None,
) -> list[FoundRow]:
    """Return the chunks nearest to a vector, of documents that match the filters."""
    parameters: dict[str, Any] = {
        "org": org_id,
        "name": name,
        "vector": list(vector),
        "limit": limit,
        "most": max_per_document,
        "candidates": limit * max_per_document,
    }
    among = SQL("null")
    if filters is not None:
        query, values = matching(filters, org_id)
        among = SQL("array(select id from ({}) as f)").format(query)
        parameters |= values
    chunks = SQL("private.search_nearest(%(org)s, %(name)s, %(vector)s::real[], {}, %(candidates)s)").format(among)
    return await fetch_all(conn, FoundRow, best_chunks_query(chunks), parameters)
