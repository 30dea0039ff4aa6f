"""Create organisations, invitations and members over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID, uuid4

import httpx


async def create_org(http: httpx.AsyncClient, name: str = "Acme") -> str:
    answer = await http.post("/api/organisations", json={"name": name})
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


async def create_invitation(http: httpx.AsyncClient, org: str, **body: Any) -> dict[str, Any]:
    answer = await http.post(f"/api/organisations/{org}/invitations", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()


@asynccontextmanager
async def new_member(server, org: str, role: str) -> AsyncIterator[tuple[httpx.AsyncClient, UUID]]:
    """Yield a client and the user id of a new member, who has accepted an invitation with this role."""
    invitation = await create_invitation(server.http, org, role=role)
    user = uuid4()
    async with server.client(user) as http:
        accepted = await http.post("/api/invitations/accept", json={"token": invitation["token"]})
        assert accepted.status_code == 200 and accepted.json()["role"] == role, accepted.text
        http.headers["x-org-id"] = org
        yield http, user
