"""Runs the service inside a command's process, for one user, on a Unix socket.

Commands talk to it over HTTP as they do to a remote service, so each command is written once.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import tempfile
from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import UUID

import httpx

from fieldmark.api.app import create_app, serve_app
from fieldmark.errors import Unauthenticated
from fieldmark.identity.tokens import Person
from fieldmark.runtime import Runtime
from fieldmark.settings import Settings

_MAX_FOLDER_BYTES: Final = 70


@dataclass(frozen=True, slots=True)
class InProcessService:
    """A service that only this process can reach. `token` authenticates its one user."""

    transport: httpx.AsyncBaseTransport
    token: str
    runtime: Runtime


@asynccontextmanager
async def open_in_process(
    settings: Settings, user_id: UUID, database: Awaitable[object] | None = None
) -> AsyncGenerator[InProcessService]:
    """Open the service for one user, with a token of its own, once its `database` runs. Raises what `open_runtime`
    raises."""
    app = create_app(settings, with_worker=False, with_ui=False)
    if database is not None:
        await database
    async with app.router.lifespan_context(app):
        token = f"local-{secrets.token_urlsafe(32)}"
        app.state.tokens = _SingleToken(token, Person(user_id))
        # Other users cannot enter the folder. The path of a socket is limited to 107 bytes.
        parent = tempfile.gettempdir()
        if len(os.fsencode(parent)) >= _MAX_FOLDER_BYTES:
            parent = "/tmp"  # noqa: S108
        with (
            tempfile.TemporaryDirectory(prefix="fieldmark-", dir=parent) as folder,
            socket.socket(socket.AF_UNIX) as listener,
        ):
            path = str(Path(folder) / "service")
            listener.bind(path)
            serving = asyncio.create_task(serve_app(app, listener), name="service in this process")
            try:
                # Without TLS no certificates are needed. Reading them takes a fiftieth of a second.
                transport = httpx.AsyncHTTPTransport(uds=path, verify=False)
                yield InProcessService(transport, token, app.state.runtime)
            finally:
                serving.cancel()
                await asyncio.wait({serving})


class _SingleToken:
    """Accepts one token, which only this process has."""

    def __init__(self, token: str, person: Person) -> None:
        self._token = token
        self._person = person

    async def authenticate_token(self, token: str) -> Person:
        if not secrets.compare_digest(token.encode(), self._token.encode()):
            raise Unauthenticated("This service accepts only requests of the command that started it.")
        return self._person
