"""What search by meaning keeps in Postgres: vectors of pieces, which documents lack some, and the nearest ones."""

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
from fieldmark.stores.search import FoundRow, best_of


@dataclass(frozen=True, slots=True)
class DueRow:
    """A document that a worker has taken, to make vectors of its pieces. `change` says which pieces these are."""

    document_id: UUID
    org_id: UUID
    change: int


@dataclass(frozen=True, slots=True)
class PieceRow:
    """A piece without a vector: words of a page, and the name of its document."""

    number: int
    page: int
    first_word: int
    last_word: int
    filename: str


async def are_possible(conn: Connection) -> bool:
    """Whether the database has what compares vectors."""
    return await value_of(conn, "select private.has_vectors() as has")


async def use(conn: Connection, name: str) -> None:
    """Make vectors under this name from now on. Asked by the service."""
    await conn.execute("select private.use_embedder(%s)", (name,))


async def take(conn: Connection, lease_seconds: float) -> DueRow | None:
    """A document that is due, for so long; None if there is none. Asked by the service."""
    return await fetch_one(conn, DueRow, "select * from private.lease_document_for_embedding(%s)", (lease_seconds,))


async def pieces(conn: Connection, due: DueRow, name: str, most: int) -> list[PieceRow]:
    """Some pieces of a document that have no vector yet. Asked by the service."""
    return await fetch_all(
        conn,
        PieceRow,
        "select * from private.chunks_without_vectors(%s, %s, %s, %s, %s)",
        (due.org_id, due.document_id, due.change, name, most),
    )


async def write(conn: Connection, due: DueRow, name: str, made: Sequence[tuple[int, Sequence[float]]]) -> None:
    """Keep vectors of pieces, given with their numbers. None: the document has all. Asked by the service."""
    vectors = [{"number": number, "embedding": list(vector)} for number, vector in made]
    await conn.execute(
        "select private.write_search_vectors(%s, %s, %s, %s, %s)",
        (due.org_id, due.document_id, due.change, name, await large_json(vectors)),
    )


async def behind(conn: Connection, org_id: UUID) -> int:
    """How many documents of an organisation have pieces without a vector."""
    return await value_of(conn, "select private.count_unembedded_documents(%s) as behind", (org_id,))


async def nearest(
    conn: Connection,
    org_id: UUID,
    name: str,
    vector: Sequence[float],
    *,
    limit: int,
    most_of_a_document: int,
    filters: DocumentFilters | None = None,
) -> list[FoundRow]:
    """The pieces whose vectors are nearest to one, of those documents that filters leave."""
    parameters: dict[str, Any] = {
        "org": org_id,
        "name": name,
        "vector": list(vector),
        "limit": limit,
        "most": most_of_a_document,
        "looked_at": limit * most_of_a_document,
    }
    among = SQL("null")
    if filters is not None:
        query, values = matching(filters, org_id)
        among = SQL("array(select id from ({}) as f)").format(query)
        parameters |= values
    pieces = SQL("private.search_nearest(%(org)s, %(name)s, %(vector)s::real[], {}, %(looked_at)s)").format(among)
    return await fetch_all(conn, FoundRow, best_of(pieces), parameters)
