"""The service in this process, for a command: reached over a Unix socket, as one user.

The command line speaks to it as it speaks to a service elsewhere, so each command is written once.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import tempfile
from collections.abc import AsyncGenerator
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

_LONGEST_ROOT: Final = 70


@dataclass(frozen=True, slots=True)
class InProcess:
    """A service that only this process reaches: with `token`, as one user."""

    transport: httpx.AsyncBaseTransport
    token: str
    runtime: Runtime


@asynccontextmanager
async def open_in_process(settings: Settings, user_id: UUID) -> AsyncGenerator[InProcess]:
    """Open the service for one user, whatever signs tokens elsewhere. Raises what `open_runtime` raises."""
    app = create_app(settings, with_worker=False, with_page=False)
    async with app.router.lifespan_context(app):
        token = f"local-{secrets.token_urlsafe(32)}"
        app.state.tokens = _OneToken(token, Person(user_id))
        # The folder is closed to other users. (A socket's path has 107 bytes at most.)
        root = tempfile.gettempdir() if len(os.fsencode(tempfile.gettempdir())) < _LONGEST_ROOT else "/tmp"  # noqa: S108
        with (
            tempfile.TemporaryDirectory(prefix="fieldmark-", dir=root) as folder,
            socket.socket(socket.AF_UNIX) as listener,
        ):
            path = str(Path(folder) / "service")
            listener.bind(path)
            serving = asyncio.create_task(serve_app(app, listener), name="service in this process")
            try:
                yield InProcess(httpx.AsyncHTTPTransport(uds=path), token, app.state.runtime)
            finally:
                serving.cancel()
                await asyncio.wait({serving})


class _OneToken:
    """Knows one person by one token, which nobody else has."""

    def __init__(self, token: str, person: Person) -> None:
        self._token = token
        self._person = person

    async def person_of(self, token: str) -> Person:
        if not secrets.compare_digest(token.encode(), self._token.encode()):
            raise Unauthenticated("Only this process is answered here.")
        return self._person
