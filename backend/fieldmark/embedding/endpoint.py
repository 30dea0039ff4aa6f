"""An embedder that calls an HTTP endpoint compatible with OpenAI's embeddings API."""

from __future__ import annotations

import asyncio
import math
from typing import Any, Final
from urllib.parse import urlsplit

import httpx

from fieldmark.errors import Unavailable
from fieldmark.http_client import http_client

QUESTION_SECONDS: Final = 3
PASSAGES_SECONDS: Final = 60
MAX_RESPONSE_BYTES: Final = 16 * 1024 * 1024
MAX_DIMENSIONS: Final = 4096


class EndpointEmbedder:
    """Requests vectors from `<address>/embeddings`. Errors never contain the text of a response."""

    def __init__(self, address: str, model: str, key: str | None) -> None:
        self._url = f"{address.rstrip('/')}/embeddings"
        self._host = urlsplit(address).hostname or ""
        self._model = model
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._session = http_client(max_bytes=MAX_RESPONSE_BYTES, headers=headers)

    @property
    def model(self) -> str:
        return f"{self._model}@{self._host}"

    async def embed_question(self, text: str) -> list[float]:
        return (await self._request_vectors([text], QUESTION_SECONDS))[0]

    async def embed_passages(self, texts: list[str]) -> list[list[float]]:
        return await self._request_vectors(texts, PASSAGES_SECONDS)

    async def close(self) -> None:
        await self._session.aclose()

    async def _request_vectors(self, texts: list[str], seconds: float) -> list[list[float]]:
        body = {"model": self._model, "input": texts, "encoding_format": "float"}
        try:
            async with asyncio.timeout(seconds):
                response = await self._session.post(self._url, json=body, timeout=seconds)
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
            # `from None`: the library's error may quote the request.
            raise Unavailable(f"The embedder at {self._host} does not answer ({type(error).__name__}).") from None
        if response.status_code != 200:
            raise Unavailable(f"The embedder at {self._host} answered {response.status_code}.")
        try:
            return _parse_vectors(response.json(), len(texts))
        except (ValueError, KeyError, TypeError, RecursionError):
            raise Unavailable(f"The embedder at {self._host} returned no valid vectors.") from None


def _parse_vectors(answer: Any, count: int) -> list[list[float]]:
    found: dict[int, list[float]] = {}
    for one in answer["data"]:
        vector = [float(number) for number in one["embedding"]]
        if not is_vector(vector):
            raise ValueError
        found[one["index"]] = vector
    in_order = [found[index] for index in range(count)]
    if len(found) != count or len(set(map(len, in_order))) != 1:
        raise ValueError
    return in_order


def is_vector(vector: list[float]) -> bool:
    """Return whether a vector can be compared: finite 4-byte floats, not all zero, not too many dimensions."""
    return (
        0 < len(vector) <= MAX_DIMENSIONS
        and all(math.isfinite(number) and abs(number) < 1e6 for number in vector)
        and any(abs(number) > 1e-6 for number in vector)
    )
