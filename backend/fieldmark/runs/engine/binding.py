"""What a CLI that serves one run after the other is tied to: the run that has it, or none; then it gets no answer."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Coroutine
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
from fieldmark.runs.engine.session_store import Sessions
from fieldmark.runs.engine.start_gate import StartRank
from fieldmark.runs.engine.tool_executor import ToolExecutor
from fieldmark.tools.ledger import ToolOutcome

log = structlog.get_logger()

MAX_EARLY_BATCHES = 50
"""What may be said of a conversation before a run has it: clearing says three things."""

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class RunHandlers:
    """A run's handlers for its CLI: they approve and run its calls and store its conversation. Calls run in the run's
    own context, so that logs and spans have its ids."""

    hook: PermissionHook
    executor: ToolExecutor
    sessions: Sessions
    context: contextvars.Context = field(default_factory=contextvars.copy_context)

    @property
    def rank(self) -> StartRank:
        """When a CLI that has to be started for it is started."""
        return StartRank.BACKGROUND if self.hook.context.run.background else StartRank.INTERACTIVE

    async def after(self, given: HookInput, call_id: str | None, context: HookContext) -> SyncHookJSONOutput:
        """The PostToolUse hook: a run that a call has ended is not asked for anything more. It spares a call of the
        model and decides nothing."""
        if self.hook.answer is None:
            return {}
        return {"continue_": False, "stopReason": "The task is done."}

    async def run(self, answering: Coroutine[Any, Any, Result]) -> Result:
        """Do something in the run's context; cancelled with whoever waits for it."""
        return await asyncio.create_task(answering, context=self.context.copy())


class RunBinding:
    """The hook, the tools and the session store of a CLI, as its options name them for its whole life.

    Between `take` and `leave` they are those of a run. Else a call is not answered, and the CLI is `spoilt`: no run may
    have it any more. `session_id` is the one conversation of which anything is kept. What is said of
    a new one before a run has it is kept for that run.
    """

    def __init__(self, session_id: UUID) -> None:
        self.session_id = session_id
        self.spoilt = False
        self._work: RunHandlers | None = None
        self._over: UUID | None = None
        self._early: list[tuple[SessionKey, list[SessionStoreEntry]]] = []

    def take(self, work: RunHandlers) -> None:
        self._work = work

    def leave(self) -> None:
        """The run has ended, and its conversation with it."""
        self._work = None
        self._over = self.session_id

    def check(self) -> None:
        """Raise the error of a call that must end the run."""
        if self._work is not None:
            self._work.executor.check()

    def begin(self, session_id: UUID) -> None:
        """A new conversation: its beginning is kept for the run that will have it."""
        self.session_id = session_id
        self._early = [batch for batch in self._early if batch[0]["session_id"] == str(session_id)]

    async def hook(self, given: HookInput, call_id: str | None, context: HookContext) -> SyncHookJSONOutput:
        work = self._work
        if work is None:
            self._spoil("asked for a call")
            await _no_answer()
        return await work.run(work.hook(given, call_id, context))

    async def after(self, given: HookInput, call_id: str | None, context: HookContext) -> SyncHookJSONOutput:
        work = self._work
        return {} if work is None else await work.after(given, call_id, context)

    async def answer(self, name: str, call_id: str | None, arguments: dict[str, JsonValue]) -> ToolOutcome:
        work = self._work
        if work is None:
            self._spoil("called a tool")
            await _no_answer()
        return await work.run(work.executor(name, call_id, arguments))

    # What the SDK asks of a session store

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        work, of = self._work, key["session_id"]
        if work is None:
            # What a CLI adds to a conversation that is over (that it was cleared, what it cost) belongs to nobody.
            if of != str(self._over):
                self._early.append((key, entries))
            if len(self._early) > MAX_EARLY_BATCHES:
                self._spoil("said too much")
                self._early.clear()
        elif of == str(self.session_id):
            while self._early:
                early, said = self._early[0]
                if early["session_id"] == of:
                    work.sessions.gather(early, said)
                del self._early[0]
            work.sessions.gather(key, entries)

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """The conversation that the run goes on with: only a CLI that has one from its start asks for it."""
        return None if self._work is None else await self._work.sessions.load(key)

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        return [] if self._work is None else await self._work.sessions.list_subkeys(key)

    def _spoil(self, what: str) -> None:
        log.warning("a CLI without a run does what it must not", what=what)
        self.spoilt = True


async def _no_answer() -> NoReturn:
    """Wait until the CLI is ended. Given any answer it asks the model once more, which is charged to no run."""
    await asyncio.get_running_loop().create_future()
    raise AssertionError
