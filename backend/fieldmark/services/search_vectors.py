"""Vectors of the pieces of documents, made in the background, a few at a time and for each organisation in its turn."""

from __future__ import annotations

from typing import Final

from fieldmark.db.pool import Database
from fieldmark.embedding import Embedder, name_of
from fieldmark.stores import search, search_vectors

AT_ONCE: Final = 16
"""So many pieces, and then it may be another organisation's turn."""
LEASE_SECONDS: Final = 120
"""A worker that dies leaves its document to others after so long."""
_MAX_CHARACTERS: Final = 6000


class VectorMaker:
    """Makes vectors with one embedder."""

    def __init__(self, database: Database, embedder: Embedder) -> None:
        self._database = database
        self._embedder = embedder
        self._name: str | None = None

    async def make_all(self) -> None:
        """Make what is due until nothing is. Raises Unavailable where the embedder does not answer: what it was asked
        for is due again later."""
        while await self.make_some():
            pass

    async def make_some(self) -> bool:
        """Make vectors of some pieces of a document that is due. False if none is."""
        name = await self._known()
        async with self._database.as_service() as conn:
            due = await search_vectors.take(conn, LEASE_SECONDS)
        if due is None:
            return False
        async with self._database.as_service() as conn:
            pieces = await search_vectors.pieces(conn, due, name, AT_ONCE)
            pages: dict[int, list[str]] = {}
            if pieces:
                for first in range(pieces[0].page, pieces[-1].page + 1, search.PAGES_AT_ONCE):
                    pages.update(await search.words(conn, due.document_id, first - 1))
        texts = [
            f"{piece.filename} {' '.join(pages.get(piece.page, [])[piece.first_word : piece.last_word + 1])}"[
                :_MAX_CHARACTERS
            ]
            for piece in pieces
        ]
        vectors = await self._embedder.passages(texts) if texts else []
        made = list(zip((piece.number for piece in pieces), vectors, strict=True))
        async with self._database.as_service() as conn:
            await conn.execute("set local synchronous_commit = off")  # what is lost is still due
            await search_vectors.write(conn, due, name, made)
        return True

    async def _known(self) -> str:
        """The name that the embedder's vectors are kept under. How long they are, it is asked for once."""
        if self._name is None:
            name = name_of(self._embedder, await self._embedder.question("length"))
            async with self._database.as_service() as conn:
                await search_vectors.use(conn, name)
            self._name = name
        return self._name
