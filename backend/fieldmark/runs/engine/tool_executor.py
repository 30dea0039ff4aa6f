"""Answers the CLI's calls of one run: those that passed the permission hook, each through the ledger."""

from __future__ import annotations

import asyncio
import time

from pydantic import JsonValue

from fieldmark.runs.engine.cli_attestation import SandboxViolation
from fieldmark.runs.engine.permission_hook import PermissionHook, in_log, known
from fieldmark.telemetry.traces import failed, span
from fieldmark.tools.ledger import By, ToolCall, ToolOutcome, execute


class ToolExecutor:
    """The other half of a permission hook, which is told what the calls came to."""

    def __init__(self, hook: PermissionHook) -> None:
        self._hook = hook
        self._fatal: Exception | None = None
        self._running: set[asyncio.Task[ToolOutcome]] = set()

    async def __call__(self, name: str, call_id: str | None, arguments: dict[str, JsonValue]) -> ToolOutcome:
        tool = known(self._hook.toolset, name)
        began = time.monotonic()
        try:
            with in_log(self._hook.context, call_id), span("tool call", tool=tool, call_id=call_id) as current:
                self.check()
                if call_id is None or call_id not in self._hook.passed:
                    raise SandboxViolation("The agent's CLI called a tool past the permission hook.")
                await self._hook.before(call_id)
                outcome = await self._run(name, call_id, arguments)
                self._hook.outcomes[call_id] = outcome
                if not outcome.is_error:
                    self._hook.answer = self._hook.toolset.answer(name, arguments, outcome.data)
                if outcome.is_error:
                    failed(current, "tool_error")
                self._hook.on_tool_outcome(tool, "failed" if outcome.is_error else "done", time.monotonic() - began)
                return outcome
        except Exception as error:  # noqa: BLE001  raised again by check()
            # Raised here it would only reach the CLI, as text. It ends the run instead.
            self._fatal = error
            return ToolOutcome("The run has ended.", "ended", is_error=True)

    def check(self) -> None:
        """Raise what must end the run."""
        if self._fatal is not None:
            raise self._fatal

    async def close(self) -> None:
        """End what still runs: the SDK answers calls in tasks of its own, which outlive a run that was broken off."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def _run(self, name: str, call_id: str, arguments: dict[str, JsonValue]) -> ToolOutcome:
        call = ToolCall(name, call_id, arguments)
        task = asyncio.create_task(execute(self._hook.toolset, self._hook.context, call, by=By.POLICY))
        self._running.add(task)
        try:
            return await task
        finally:
            self._running.discard(task)
