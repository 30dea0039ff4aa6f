"""Computes vectors of document chunks in the background, in small batches, round-robin across organisations."""

from __future__ import annotations

from typing import Final

from fieldmark.db.pool import Database
from fieldmark.embedding import Embedder, vector_space_name
from fieldmark.stores import search, search_vectors

BATCH_SIZE: Final = 16
"""Chunks per batch. The next batch may be another organisation's."""
LEASE_SECONDS: Final = 120
"""After this time another worker takes over the document of a dead one."""
_MAX_CHARACTERS: Final = 6000


class VectorIndexer:
    """Computes and stores vectors with one embedder."""

    def __init__(self, database: Database, embedder: Embedder) -> None:
        self._database = database
        self._embedder = embedder
        self._name: str | None = None

    async def index_all(self) -> None:
        """Index all pending chunks. Raise Unavailable if the embedder does not answer; the batch is retried later."""
        while await self.index_some():
            pass

    async def index_some(self) -> bool:
        """Index one batch of a pending document. Return False if no document is pending."""
        name = await self._vector_set()
        async with self._database.as_service() as conn:
            claimed = await search_vectors.lease(conn, LEASE_SECONDS)
        if claimed is None:
            return False
        async with self._database.as_service() as conn:
            chunks = await search_vectors.chunks_to_embed(conn, claimed, name, BATCH_SIZE)
            pages: dict[int, list[str]] = {}
            if chunks:
                for first in range(chunks[0].page, chunks[-1].page + 1, search.PAGES_PER_BATCH):
                    pages.update(await search.words(conn, claimed.document_id, first - 1))
        texts = [
            " ".join(pages.get(chunk.page, [])[chunk.first_word : chunk.last_word + 1])[:_MAX_CHARACTERS]
            for chunk in chunks
        ]
        vectors = await self._embedder.embed_passages(texts) if texts else []
        numbered = list(zip((chunk.number for chunk in chunks), vectors, strict=True))
        async with self._database.as_service() as conn:
            await conn.execute("set local synchronous_commit = off")  # a lost batch stays pending
            await search_vectors.write(conn, claimed, name, numbered)
        return True

    async def _vector_set(self) -> str:
        """Return the name that the embedder's vectors are stored under. It includes their length, which is requested
        once."""
        if self._name is None:
            name = vector_space_name(self._embedder, await self._embedder.embed_question("length"))
            async with self._database.as_service() as conn:
                await search_vectors.set_embedder(conn, name)
            self._name = name
        return self._name
