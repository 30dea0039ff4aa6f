"""The types of the fixtures in conftest.py: a cloned database and a running Fieldmark server."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import httpx

from extraction_case import until
from fieldmark.identity.scope import Scope
from fieldmark.identity.tokens import LocalTokens
from fieldmark.offline_model.server import OfflineModel
from fieldmark.runtime import Runtime

PATIENCE = 120
"""Timeout of a request in seconds: generous, so that slow machines pass too."""

METRICS_TOKEN = "a-token-of-the-scraper"
SCRAPER = {"Authorization": f"Bearer {METRICS_TOKEN}"}


@dataclass(frozen=True)
class Clone:
    """A test's own migrated database. `owner_url` logs in as a superuser, `app_url` as the service's role."""

    owner_url: str
    app_url: str


@dataclass(frozen=True)
class RunningServer:
    """A running server and an HTTP client that is signed in to it. `runtime` gives access to its internals."""

    http: httpx.AsyncClient
    base_url: str
    runtime: Runtime
    scope: Scope
    model: OfflineModel

    def client(self, user_id: UUID | None = None, email: str | None = None) -> httpx.AsyncClient:
        """Return an HTTP client signed in as another user; without `user_id`, as a new user."""
        tokens = LocalTokens(self.runtime.settings.home)
        return self.client_with_token(tokens.sign(user_id or uuid4(), email=email))

    def client_with_token(self, token: str) -> httpx.AsyncClient:
        """Return an HTTP client that sends this token or API key."""
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
        return httpx.AsyncClient(base_url=self.base_url, headers=headers, timeout=PATIENCE, verify=False)

    async def upload_text(self, text: str = "Invoice number: 1\nTotal: 10.00 EUR\n", name: str = "a.txt") -> UUID:
        """Upload a small text file and wait until it is read."""
        return await self.upload(name, text.encode())

    async def upload(self, name: str, content: bytes) -> UUID:
        """Upload a file and wait until it is ready or has failed."""
        answer = await self.http.post("/api/documents", files={"file": (name, content)})
        assert answer.status_code == 201, answer.text
        return await self.wait_until_read(UUID(answer.json()["id"]))

    async def wait_until_read(self, document_id: UUID) -> UUID:
        """Wait until a document is ready or failed."""

        async def has_ended() -> bool:
            return (await self.get(f"documents/{document_id}"))["status"] != "reading"

        await until(has_ended, every=0.1)  # each poll is a request, which slows down what it waits for
        return document_id

    async def wait_until_indexed(self) -> None:
        """Wait until all documents are indexed for search."""

        async def is_indexed() -> bool:
            return (await self.get("search?q=anything"))["not_indexed"] == 0

        await until(is_indexed, every=0.1)

    async def extract(self, document_id: UUID | str, **request: Any) -> dict[str, Any]:
        """Extract a document's fields and return the run's result."""
        return await self._run("extract", document_id=str(document_id), **request)

    async def chat(self, document_id: UUID | str, message: str, **request: Any) -> dict[str, Any]:
        """Send a message about a document and return the run's result."""
        return await self._run("chat", document_id=str(document_id), message=message, **request)

    async def ask(self, message: str, **request: Any) -> dict[str, Any]:
        """Ask a question over all documents and return the run's result."""
        return await self._run("ask", message=message, **request)

    async def _run(self, task: str, **request: Any) -> dict[str, Any]:
        answer = await self.http.post(f"/api/agent/{task}", json=request)
        while answer.status_code == 202 and request.get("wait", True):  # on a slow machine
            answer = await self.http.get(f"{answer.headers['location']}/result")
        assert answer.status_code in (200, 202), answer.text
        return answer.json()

    async def decide(self, result: dict[str, Any], **decision: Any) -> httpx.Response:
        """Approve the tool call that a run waits for, or deny it with `approved=False`."""
        approval = {"call_id": result["waits_for"]["call_id"], "approved": True, **decision}
        return await self.http.post("/api/agent/approve", json={"run_id": result["run_id"], "approvals": [approval]})

    async def get(self, path: str) -> Any:
        """Return the JSON of `GET /api/{path}`."""
        answer = await self.http.get(f"/api/{path}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def extraction(self, extraction_id: UUID | str) -> dict[str, Any]:
        return await self.get(f"extractions/{extraction_id}")

    async def thread(self, result: dict[str, Any]) -> dict[str, Any]:
        """Return the thread that a run belongs to."""
        run = await self.get(f"runs/{result['run_id']}")
        return await self.get(f"threads/{run['thread_id']}")

    async def events(self, run_id: str, after: int = 0) -> list[dict[str, Any]]:
        """Return the streamed events of a run whose number is greater than `after`."""
        answer = await self.http.get(f"/api/runs/{run_id}/events", headers={"Last-Event-ID": str(after)})
        assert answer.status_code == 200, answer.text
        return [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]


Serve = Callable[..., AbstractAsyncContextManager[RunningServer]]
