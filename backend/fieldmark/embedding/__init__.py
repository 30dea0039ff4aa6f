"""Embedders: what makes a vector of a text, so that texts of like meaning have vectors that are near each other."""

from __future__ import annotations

from typing import Final, Protocol

from fieldmark.settings import Settings

OFF: Final = "off"
PACKAGE: Final = "package"


class Embedder(Protocol):
    """What makes vectors. Each raises Unavailable where it cannot now; its text holds nothing of what was given."""

    @property
    def model(self) -> str:
        """Which vectors these are: those of another model are not to be compared with them."""
        ...

    async def question(self, text: str) -> list[float]:
        """The vector of a question."""
        ...

    async def passages(self, texts: list[str]) -> list[list[float]]:
        """The vectors of pieces of documents, in their order and all of one length."""
        ...

    async def close(self) -> None:
        """End what it has started."""
        ...


def name_of(embedder: Embedder, vector: list[float]) -> str:
    """The name that vectors are kept under: the model and how many dimensions they have."""
    return f"{embedder.model}/{len(vector)}"


def embedder_for(settings: Settings) -> Embedder | None:
    """The embedder that the settings name; None for `off`. Raises Misconfigured where its package is not installed."""
    if settings.embedder == OFF:
        return None
    if settings.embedder == PACKAGE:
        from fieldmark.embedding.package import PackagedModel

        return PackagedModel()
    from fieldmark.embedding.endpoint import Endpoint

    key = settings.embedder_key.get_secret_value() if settings.embedder_key else None
    return Endpoint(settings.embedder, settings.embedder_model, key)
