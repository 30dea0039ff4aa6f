"""Executes the CLI's tool calls of one run, through the ledger. Only calls that the permission hook allowed."""

from __future__ import annotations

import asyncio
import time

from pydantic import JsonValue

from fieldmark.runs.engine.cli_attestation import SandboxViolation
from fieldmark.runs.engine.permission_hook import PermissionHook, log_context, to_metric_label
from fieldmark.telemetry.traces import mark_failed, span
from fieldmark.tools.ledger import StartedBy, ToolCall, ToolOutcome, execute


class ToolExecutor:
    """Executes the calls that a permission hook allowed, and stores their outcomes in the hook."""

    def __init__(self, hook: PermissionHook) -> None:
        self._hook = hook
        self._fatal: Exception | None = None
        self._running: set[asyncio.Task[ToolOutcome]] = set()

    async def __call__(self, name: str, call_id: str | None, arguments: dict[str, JsonValue]) -> ToolOutcome:
        tool = to_metric_label(self._hook.toolset, name)
        started = time.monotonic()
        try:
            with log_context(self._hook.context, call_id), span("tool call", tool=tool, call_id=call_id) as current:
                self.check()
                ledger_id = None if call_id is None else self._hook.take_allowed(call_id, name, arguments)
                if call_id is None or ledger_id is None:
                    raise SandboxViolation("The agent's CLI called a tool without asking the permission hook.")
                await self._hook.before_call(call_id)
                outcome = await self._run(name, ledger_id, arguments)
                self._hook.outcomes[call_id] = outcome
                if not outcome.is_error:
                    self._hook.answer = self._hook.toolset.answer(name, arguments, outcome.data)
                if outcome.is_error:
                    mark_failed(current, "tool_error")
                self._hook.on_tool_outcome(tool, "failed" if outcome.is_error else "done", time.monotonic() - started)
                return outcome
        except Exception as error:  # noqa: BLE001  raised again by check()
            # Raised here, it would only reach the CLI as text.
            self._fatal = error
            return ToolOutcome("The run has ended.", "ended", is_error=True)

    def check(self) -> None:
        """Raise the exception that must end the run, if there is one."""
        if self._fatal is not None:
            raise self._fatal

    async def close(self) -> None:
        """Cancel the calls that still run: the SDK executes calls in its own tasks, which outlive an interrupted
        run."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def _run(self, name: str, call_id: str, arguments: dict[str, JsonValue]) -> ToolOutcome:
        call = ToolCall(name, call_id, arguments)
        task = asyncio.create_task(execute(self._hook.toolset, self._hook.context, call, started_by=StartedBy.POLICY))
        self._running.add(task)
        try:
            return await task
        finally:
            self._running.discard(task)
