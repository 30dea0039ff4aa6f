"""Conversations kept in Postgres, so that a run can be taken up again by another process, on another machine."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from itertools import groupby
from operator import itemgetter
from typing import cast
from uuid import UUID

from claude_agent_sdk.types import SessionKey, SessionListSubkeysKey, SessionStoreEntry

from fieldmark.db.pool import Connection, Database
from fieldmark.errors import Fenced, Unavailable
from fieldmark.identity.scope import Scope
from fieldmark.runs.parts import Part
from fieldmark.stores import runs, sessions

_BOOKMARK = "last-prompt"
GATHER_SECONDS = 1
"""How long entries are gathered, from the model's first word on: a crash loses what came in that time, and the run asks
the model once more. What was said before, the run says again."""
APPEND_TRIES = 20
APPEND_PAUSE_SECONDS = 0.5


class SessionWriteFailed(Exception):
    """Something of a conversation is lost: it could not be gone on with."""


class Sessions:
    """The SDK's store of one tenant: as much of its SessionStore as resuming needs.

    Bound to the tenant here, by us: the SDK's own `project_key` comes from the CLI's folder, which is another on each
    machine and could be one for two tenants, so it is ignored. `run` is the run that is led in the conversation, and
    its attempt: what comes when that is no longer at work is not kept (None: for the SDK's own contracts). Without
    `is_kept` nothing of it is: it is never gone on with.
    """

    def __init__(
        self, database: Database, scope: Scope, run: tuple[UUID, int] | None = None, *, is_kept: bool = True
    ) -> None:
        self._database = database
        self._scope = scope
        self._run = run
        self.is_kept = is_kept
        self._failure: Fenced | SessionWriteFailed | None = None
        self._has_begun = False
        self._gathered: list[tuple[SessionKey, list[SessionStoreEntry]]] = []
        self._gathering: asyncio.Task[None] | None = None
        self._flushing = asyncio.Lock()
        self._with_next: Callable[[Connection], Awaitable[None]] | None = None

    def on_part(self, part: Part) -> None:
        """Let the conversation go on only while all of it is kept."""
        self.check()

    def check(self) -> None:
        """Raise once something was not kept: Fenced because the run is in other hands, else SessionWriteFailed."""
        if self._failure is not None:
            raise self._failure

    def record_with_next(self, record: Callable[[Connection], Awaitable[None]]) -> None:
        """Have something recorded in the transaction in which the next entries are kept."""
        self._with_next = record

    def gather(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Have entries kept soon, those of several messages in one transaction. `check` tells of what fails."""
        if not self.is_kept:
            return
        self._gathered.append((key, entries))
        self._has_begun = self._has_begun or any(entry["type"] == "assistant" for entry in entries)
        if self._has_begun and (self._gathering is None or self._gathering.done()):
            self._gathering = asyncio.create_task(self._flush_later())

    def discard(self) -> None:
        """Forget what was gathered: the run is over, and with it its conversation."""
        self._gathered.clear()

    async def flush(self) -> None:
        """Keep what was gathered. `check` tells of what fails."""
        async with self._flushing:
            while self._gathered:
                key, batches = next(groupby(self._gathered, itemgetter(0)))
                together = [entries for _, entries in batches]
                del self._gathered[: len(together)]
                with contextlib.suppress(Exception):  # append has remembered it
                    await self.append(key, [entry for entries in together for entry in entries])

    async def _flush_later(self) -> None:
        await asyncio.sleep(GATHER_SECONDS)
        await self.flush()

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        if not entries or not self.is_kept:
            return
        try:
            await self._append(key, entries)
        except Fenced as error:
            # Raised here it would only make the SDK try again.
            self._failure = error
        except BaseException:  # the SDK's own limit of time comes as a cancellation
            # Remembered too: the message by which the SDK tells of it is dropped where a hundred others wait.
            self._failure = SessionWriteFailed()
            raise

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """The conversation as the CLI shall read it: without its bookmarks. A `last-prompt` entry names the message to
        go on from (`leafUuid`); written behind a deferral it names the deferral itself, and the CLI would then ask the
        model again instead of going on with the call. Without one it goes on from the last message."""
        self._has_begun = True
        async with self._database.as_user(self._scope) as conn:
            entries = await sessions.load(conn, self._part(key))
        shown = [one for one in entries if one.get("type") != _BOOKMARK]
        return cast(list[SessionStoreEntry], shown) or None

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        async with self._database.as_user(self._scope) as conn:
            return await sessions.subpaths(conn, self._part(key))

    async def has(self, session_id: UUID) -> bool:
        """Whether so much was kept of a conversation that it can be gone on with."""
        async with self._database.as_user(self._scope) as conn:
            return await sessions.has_begun(conn, sessions.Part(self._scope.org_id, str(session_id)))

    async def deferred_call(self, session_id: UUID) -> str | None:
        """The call at which a conversation stopped for a person to decide: resumed without a word, it goes on there."""
        async with self._database.as_user(self._scope) as conn:
            return await sessions.deferred_call(conn, sessions.Part(self._scope.org_id, str(session_id)))

    async def _append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        for left in range(APPEND_TRIES - 1, -1, -1):
            try:
                async with self._database.as_user(self._scope) as conn:
                    if self._run is not None:
                        await runs.fence(conn, *self._run)
                    if self._with_next is not None:
                        await self._with_next(conn)
                    await sessions.append(conn, self._part(key), entries)
                self._with_next = None
                return
            except Unavailable:
                # The SDK tries three times within a second, which a database that restarts outlasts.
                if not left:
                    raise
                await asyncio.sleep(APPEND_PAUSE_SECONDS)

    def _part(self, key: SessionKey | SessionListSubkeysKey) -> sessions.Part:
        return sessions.Part(self._scope.org_id, key["session_id"], str(key.get("subpath") or ""))
