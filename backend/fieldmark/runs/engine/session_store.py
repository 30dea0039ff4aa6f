"""Stores conversations in Postgres, so that another process, on any machine, can continue a run."""

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
from fieldmark.runs.message_parts import MessagePart
from fieldmark.stores import runs, sessions

_LAST_PROMPT = "last-prompt"
BUFFER_SECONDS = 1
"""How long entries are buffered, from the model's first message on. A crash loses the buffered entries, and the run
asks the model again. Entries from before the first message are created again anyway."""
APPEND_TRIES = 20
APPEND_PAUSE_SECONDS = 0.5


class SessionWriteFailed(Exception):
    """A part of a conversation could not be stored, so the conversation can't be resumed."""


class ConversationStore:
    """The methods of the SDK's SessionStore that resuming needs, for one organisation.

    The SDK's `project_key` is ignored: it comes from the CLI's folder, which differs between machines and could be the
    same for two organisations. `run` is the run's id and fencing token: nothing is stored once another worker owns the
    run. None skips this check. If `is_stored` is false, nothing is stored.
    """

    def __init__(
        self, database: Database, scope: Scope, run: tuple[UUID, int] | None = None, *, is_stored: bool = True
    ) -> None:
        self._database = database
        self._scope = scope
        self._run = run
        self.is_stored = is_stored
        self._failure: Fenced | SessionWriteFailed | None = None
        self._model_has_answered = False
        self._buffer: list[tuple[SessionKey, list[SessionStoreEntry]]] = []
        self._delayed_flush: asyncio.Task[None] | None = None
        self._flush_lock = asyncio.Lock()
        self._record_next: Callable[[Connection], Awaitable[None]] | None = None

    def on_part(self, part: MessagePart) -> None:
        """Raise if entries of the conversation could not be stored. This ends the conversation."""
        self.check()

    def check(self) -> None:
        """Raise if entries could not be stored: Fenced if another worker owns the run, else SessionWriteFailed."""
        if self._failure is not None:
            raise self._failure

    def call_in_next_transaction(self, record: Callable[[Connection], Awaitable[None]]) -> None:
        """Call `record` in the transaction that stores the next entries."""
        self._record_next = record

    def buffer(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Buffer entries, so that several messages are stored in one transaction. `check` raises failures."""
        if not self.is_stored:
            return
        self._buffer.append((key, entries))
        self._model_has_answered = self._model_has_answered or any(entry["type"] == "assistant" for entry in entries)
        if self._model_has_answered and (self._delayed_flush is None or self._delayed_flush.done()):
            self._delayed_flush = asyncio.create_task(self._flush_later())

    def discard(self) -> None:
        """Drop the buffered entries: the run has ended, so its conversation is not needed any more."""
        self._buffer.clear()

    async def flush(self) -> None:
        """Store the buffered entries. `check` raises failures."""
        async with self._flush_lock:
            while self._buffer:
                key, batches = next(groupby(self._buffer, itemgetter(0)))
                group = [entries for _, entries in batches]
                del self._buffer[: len(group)]
                with contextlib.suppress(Exception):  # stored by append for check
                    await self.append(key, [entry for entries in group for entry in entries])

    async def _flush_later(self) -> None:
        await asyncio.sleep(BUFFER_SECONDS)
        await self.flush()

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        if not entries or not self.is_stored:
            return
        try:
            await self._append(key, entries)
        except Fenced as error:
            # Raised here, it would only make the SDK retry.
            self._failure = error
        except BaseException as error:  # the SDK's own timeout cancels this
            # Stored too: the SDK drops its message about the failure if a hundred messages are queued.
            self._failure = SessionWriteFailed()
            self._failure.__cause__ = error
            raise

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """Return the conversation without `last-prompt` entries. Such an entry names the message to continue from
        (`leafUuid`). One that was written after a deferral names the deferral itself, and the CLI would ask the model
        again instead of continuing with the call. Without the entry, the CLI continues from the last message."""
        self._model_has_answered = True
        async with self._database.as_user(self._scope) as conn:
            entries = await sessions.load(conn, self._key(key))
        kept_entries = [entry for entry in entries if entry.get("type") != _LAST_PROMPT]
        return cast(list[SessionStoreEntry], kept_entries) or None

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        async with self._database.as_user(self._scope) as conn:
            return await sessions.subpaths(conn, self._key(key))

    async def can_resume(self, session_id: UUID) -> bool:
        """Whether enough of a conversation is stored to resume it."""
        async with self._database.as_user(self._scope) as conn:
            return await sessions.has_messages(conn, sessions.Transcript(self._scope.org_id, str(session_id)))

    async def deferred_call(self, session_id: UUID) -> str | None:
        """Return the id of the call that was deferred for a person's decision, if the conversation stopped there. A
        conversation that is resumed without a prompt continues with that call."""
        async with self._database.as_user(self._scope) as conn:
            return await sessions.deferred_call(conn, sessions.Transcript(self._scope.org_id, str(session_id)))

    async def _append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        for retries_left in range(APPEND_TRIES - 1, -1, -1):
            try:
                async with self._database.as_user(self._scope) as conn:
                    if self._run is not None:
                        await runs.fence(conn, *self._run)
                    if self._record_next is not None:
                        await self._record_next(conn)
                    await sessions.append(conn, self._key(key), entries)
                self._record_next = None
                return
            except Unavailable:
                # The SDK retries three times within a second, but a database restart takes longer.
                if not retries_left:
                    raise
                await asyncio.sleep(APPEND_PAUSE_SECONDS)

    def _key(self, key: SessionKey | SessionListSubkeysKey) -> sessions.Transcript:
        return sessions.Transcript(self._scope.org_id, key["session_id"], str(key.get("subpath") or ""))
