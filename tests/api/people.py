"""People for the tests of routes: an organisation, invitations into it, and whoever has accepted one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID, uuid4

import httpx


async def org_of(http: httpx.AsyncClient, name: str = "Acme") -> str:
    made = await http.post("/api/organisations", json={"name": name})
    assert made.status_code == 201, made.text
    return made.json()["id"]


async def invited(http: httpx.AsyncClient, org: str, **body: Any) -> dict[str, Any]:
    made = await http.post(f"/api/organisations/{org}/invitations", json=body)
    assert made.status_code == 201, made.text
    return made.json()


@asynccontextmanager
async def joined(server, org: str, role: str) -> AsyncIterator[tuple[httpx.AsyncClient, UUID]]:
    """Somebody who accepted an invitation, and acts in that organisation."""
    invitation = await invited(server.http, org, role=role)
    user = uuid4()
    async with server.client(user) as http:
        accepted = await http.post("/api/invitations/accept", json={"token": invitation["token"]})
        assert accepted.status_code == 200 and accepted.json()["role"] == role, accepted.text
        http.headers["x-org-id"] = org
        yield http, user
