"""What the fixtures of conftest.py hand to tests: a clone of the database, a running service."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from uuid import UUID, uuid4

import httpx

from desk import until
from fieldmark.identity.scope import Scope
from fieldmark.identity.tokens import LocalTokens
from fieldmark.offline_model.server import OfflineModel
from fieldmark.runtime import Runtime

PATIENCE = 120
"""Seconds that a request may take: far more than it needs, on the slowest machine too."""


METRICS_TOKEN = "a-token-of-the-scraper"
SCRAPER = {"Authorization": f"Bearer {METRICS_TOKEN}"}


@dataclass(frozen=True)
class Clone:
    """A migrated database of one test: reached as its owner (a superuser), and as the service's role."""

    owner_url: str
    app_url: str


@dataclass(frozen=True)
class Served:
    """A running service, as its users meet it: over HTTP, with a token. `service` looks behind it."""

    http: httpx.AsyncClient
    base_url: str
    service: Runtime
    scope: Scope
    model: OfflineModel

    def client(self, user_id: UUID | None = None, email: str | None = None) -> httpx.AsyncClient:
        """A client of another user; of a new one without an id."""
        tokens = LocalTokens(self.service.settings.home)
        return self.bearing(tokens.sign(user_id or uuid4(), email=email))

    def bearing(self, token: str) -> httpx.AsyncClient:
        """A client with a token or a key."""
        headers = {"Authorization": f"Bearer {token}"}
        return httpx.AsyncClient(base_url=self.base_url, headers=headers, timeout=PATIENCE)

    async def document(self, text: str = "Invoice number: 1\nTotal: 10.00 EUR\n", name: str = "a.txt") -> UUID:
        """Uploads a small text and waits until it is read."""
        answer = await self.http.post("/api/documents", files={"file": (name, text.encode())})
        assert answer.status_code == 201, answer.text
        document_id = UUID(answer.json()["id"])
        return await self.read(document_id)

    async def read(self, document_id: UUID) -> UUID:
        """Waits until a document is ready or has failed."""

        async def has_ended() -> bool:
            return (await self.http.get(f"/api/documents/{document_id}")).json()["status"] != "reading"

        await until(has_ended)
        return document_id


Serve = Callable[..., AbstractAsyncContextManager[Served]]
