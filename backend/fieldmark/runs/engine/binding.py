"""Connects a CLI process to the run that currently uses it. Between runs the CLI gets no answer to a call."""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar
from uuid import UUID

import structlog
from claude_agent_sdk.types import (
    HookContext,
    HookInput,
    SessionKey,
    SessionListSubkeysKey,
    SessionStoreEntry,
    SyncHookJSONOutput,
)
from pydantic import JsonValue

from fieldmark.runs.engine.permission_hook import PermissionHook
from fieldmark.runs.engine.session_store import ConversationStore
from fieldmark.runs.engine.start_gate import StartRank
from fieldmark.runs.engine.tool_executor import ToolExecutor
from fieldmark.tools.ledger import ToolOutcome

log = structlog.get_logger()

MODEL_SECONDS = 0.5
"""A CLI that is silent for longer waits for the model. Its own work on a request takes less, also if it has to share a
processor."""
MAX_EARLY_BATCHES = 50
"""Limit of transcript batches that a CLI may send between runs. Clearing a conversation sends three."""

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class RunHandlers:
    """A run's handlers for its CLI: they approve calls, execute them and store the conversation. They run in the run's
    context, so that logs and spans have its ids."""

    hook: PermissionHook
    executor: ToolExecutor
    sessions: ConversationStore
    context: contextvars.Context = field(default_factory=contextvars.copy_context)

    @property
    def rank(self) -> StartRank:
        """The priority of this run when it has to wait for a CLI to start."""
        return StartRank.BACKGROUND if self.hook.context.run.background else StartRank.INTERACTIVE

    async def after_call(self, hook_input: HookInput, call_id: str | None, context: HookContext) -> SyncHookJSONOutput:
        """The PostToolUse hook. Stop the conversation after a call that ends the run: this saves a model request."""
        if self.hook.answer is None:
            return {}
        return {"continue_": False, "stopReason": "The task is done."}

    async def run(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """Await a coroutine in the run's context. Cancelled together with the caller."""
        return await asyncio.create_task(coroutine, context=self.context.copy())


class RunBinding:
    """The hooks, tools and session store in the options of one CLI process.

    Between `attach` and `detach` they forward to a run. Otherwise a call gets no answer and the CLI is `tainted`: the
    pool must not lend it again. Only the conversation `session_id` is stored; its entries from before `attach` are
    kept for the run.
    """

    def __init__(self, session_id: UUID) -> None:
        self.session_id = session_id
        self.tainted = False
        self._handlers: RunHandlers | None = None
        self._ended_session: UUID | None = None
        self._early_batches: list[tuple[SessionKey, list[SessionStoreEntry]]] = []
        self._requests = 0  # from the CLI, that are being answered
        self._heard_at = time.monotonic()

    @property
    def waits_for_model(self) -> bool:
        """Whether the CLI has asked the model and waits for the rest of its message."""
        return not self._requests and time.monotonic() - self._heard_at > MODEL_SECONDS

    def hear(self) -> None:
        """Note that the CLI works: it got a prompt, or has sent something other than a part of the model's message."""
        self._heard_at = time.monotonic()

    @contextmanager
    def _request(self) -> Generator[None]:
        self._requests += 1
        try:
            yield
        finally:
            self._requests -= 1
            self.hear()

    def attach(self, handlers: RunHandlers) -> None:
        self._handlers = handlers

    def detach(self) -> None:
        self._handlers = None
        self._ended_session = self.session_id

    def check(self) -> None:
        """Raise the error of a call that must end the run, if there is one."""
        if self._handlers is not None:
            self._handlers.executor.check()

    def start_session(self, session_id: UUID) -> None:
        """Switch to a new conversation. Keep its entries so far for the next run."""
        self.session_id = session_id
        self._early_batches = [batch for batch in self._early_batches if batch[0]["session_id"] == str(session_id)]

    async def before_call(self, hook_input: HookInput, call_id: str | None, context: HookContext) -> SyncHookJSONOutput:
        handlers = self._handlers
        if handlers is None:
            self._taint("permission request")
            await _never_answer()
        with self._request():
            return await handlers.run(handlers.hook(hook_input, call_id, context))

    async def after_call(self, hook_input: HookInput, call_id: str | None, context: HookContext) -> SyncHookJSONOutput:
        handlers = self._handlers
        return {} if handlers is None else await handlers.after_call(hook_input, call_id, context)

    async def call_tool(self, name: str, call_id: str | None, arguments: dict[str, JsonValue]) -> ToolOutcome:
        handlers = self._handlers
        if handlers is None:
            self._taint("tool call")
            await _never_answer()
        with self._request():
            return await handlers.run(handlers.executor(name, call_id, arguments))

    # The SDK's SessionStore interface

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        handlers, session_id = self._handlers, key["session_id"]
        if handlers is None:
            # What a CLI appends to a finished conversation (that it was cleared, its cost) belongs to no run.
            if session_id != str(self._ended_session):
                self._early_batches.append((key, entries))
            if len(self._early_batches) > MAX_EARLY_BATCHES:
                self._taint("too many transcript entries")
                self._early_batches.clear()
        elif session_id == str(self.session_id):
            while self._early_batches:
                early, entries_so_far = self._early_batches[0]
                if early["session_id"] == session_id:
                    handlers.sessions.buffer(early, entries_so_far)
                del self._early_batches[0]
            handlers.sessions.buffer(key, entries)

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """Return the stored conversation. Only a CLI that was started to resume one calls this."""
        return None if self._handlers is None else await self._handlers.sessions.load(key)

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        return [] if self._handlers is None else await self._handlers.sessions.list_subkeys(key)

    def _taint(self, action: str) -> None:
        log.warning("a CLI acted while no run used it; it will be ended", action=action)
        self.tainted = True


async def _never_answer() -> NoReturn:
    """Wait until the CLI is ended. Any answer would cause another model request, which no run pays for."""
    await asyncio.get_running_loop().create_future()
    raise AssertionError
