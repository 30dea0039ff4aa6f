"""Embedders turn texts into vectors for semantic search: texts of similar meaning have similar vectors."""

from __future__ import annotations

from typing import Final, Protocol

from fieldmark.settings import Settings

OFF: Final = "off"
PACKAGE: Final = "package"


class Embedder(Protocol):
    """An embedding model. Methods raise Unavailable if it fails; the error contains nothing of the texts."""

    @property
    def model(self) -> str:
        """The model's name. Vectors of different models cannot be compared."""
        ...

    async def embed_question(self, text: str) -> list[float]:
        """Return the vector of a question."""
        ...

    async def embed_passages(self, texts: list[str]) -> list[list[float]]:
        """Return the vectors of document chunks, in order, all with the same dimensions."""
        ...

    async def close(self) -> None:
        """Close the connections or processes of the model."""
        ...


def vector_space_name(embedder: Embedder, vector: list[float]) -> str:
    """Return the name that vectors are stored under: the model and the number of dimensions."""
    return f"{embedder.model}/{len(vector)}"


def embedder_for(settings: Settings) -> Embedder | None:
    """Return the configured embedder, or None for `off`. Raise Misconfigured if its package is not installed."""
    if settings.embedder == OFF:
        return None
    if settings.embedder == PACKAGE:
        from fieldmark.embedding.package import PackagedEmbedder

        return PackagedEmbedder()
    from fieldmark.embedding.endpoint import EndpointEmbedder

    key = settings.embedder_key.get_secret_value() if settings.embedder_key else None
    return EndpointEmbedder(settings.embedder, settings.embedder_model, key)
