"""The gate: every call passes here before it runs. Reads pass; writes are validated and entered in the ledger.

The gate is not the lock. The tool itself runs only with an admitted entry whose arguments hash to the same value, so a
hook that never fires changes nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

import structlog
from claude_agent_sdk.types import HookContext, HookInput, SyncHookJSONOutput
from pydantic import JsonValue

from fieldmark.domain.values import problem_with
from fieldmark.runs.options import TOOL_PREFIX
from fieldmark.runs.seal import Unsealed
from fieldmark.stores import calls
from fieldmark.tools.toolkit import Answer, Retry, ToolContext, Toolkit, hash_of

log = structlog.get_logger()


class Gate:
    """The PreToolUse hook of one run. Whatever goes wrong in it, the call is denied.

    `passed` holds the ids of the calls that it let through: a call that comes without having passed tells that the hook
    does not fire.
    """

    def __init__(self, toolkit: Toolkit, context: ToolContext) -> None:
        self._toolkit = toolkit
        self._context = context
        self.passed: set[str] = set()

    async def __call__(self, given: HookInput, call_id: str | None, _: HookContext) -> SyncHookJSONOutput:
        call = cast(dict[str, Any], given)
        try:
            verdict = await self._decide(str(call["tool_name"]), call_id, call["tool_input"])
        except Exception:
            log.exception("gate failed", run_id=str(self._context.run_id), call_id=call_id)
            return _verdict("deny", "The call could not be checked. Do not repeat it.")
        if call_id is not None and verdict == _verdict("allow"):
            self.passed.add(call_id)
        return verdict

    async def _decide(self, tool_name: str, call_id: str | None, arguments: dict[str, JsonValue]) -> SyncHookJSONOutput:
        name = tool_name.removeprefix(TOOL_PREFIX)
        tool = self._toolkit.tools.get(name)
        if tool is None or name == tool_name:
            return _verdict("deny", f"There is no tool {tool_name[:80]!r}. Use only the tools you were given.")
        if not tool.writes:
            return _verdict("allow")
        if call_id is None:
            return _verdict("deny", "The call came without an id.")
        refusal: str | None = None
        try:
            self._toolkit.check(name, arguments)
        except Retry as retry:
            refusal = str(retry)
        await self._enter(name, call_id, arguments, refusal)
        return _verdict("allow") if refusal is None else _verdict("deny", refusal)

    async def _enter(self, name: str, call_id: str, arguments: dict[str, JsonValue], refusal: str | None) -> None:
        # What cannot be stored (too large, too deep, NUL) was refused for it, and its hash still tells which it was.
        storable = problem_with(arguments) is None
        async with self._context.database.as_user(self._context.scope) as conn:
            await calls.enter(
                conn,
                run_id=self._context.run_id,
                attempt=self._context.attempt,
                org_id=self._context.scope.org_id,
                call_id=call_id,
                tool=name,
                arguments=arguments if storable else {},
                arguments_hash=hash_of(arguments),
                refused_because=refusal,
            )


class Calls:
    """Answers the CLI's calls of one run, those that passed the gate. `before` is awaited ahead of each."""

    def __init__(
        self, gate: Gate, toolkit: Toolkit, context: ToolContext, before: Callable[[], Awaitable[None]]
    ) -> None:
        self._gate = gate
        self.toolkit = toolkit
        self._context = context
        self._before = before
        self._fatal: Exception | None = None

    async def __call__(self, name: str, call_id: str | None, arguments: dict[str, JsonValue]) -> Answer:
        try:
            self.check()
            if call_id not in self._gate.passed:
                raise Unsealed("The agent's CLI called a tool past the gate.")
            await self._before()
            return await self.toolkit.call(self._context, name, call_id, arguments)
        except Exception as error:  # noqa: BLE001  raised again by check()
            # Raised here it would only reach the CLI, as text. It ends the run instead.
            self._fatal = error
            return Answer("The run has ended.", is_error=True)

    def check(self) -> None:
        """Raise what must end the run."""
        if self._fatal is not None:
            raise self._fatal


def _verdict(decision: str, reason: str | None = None) -> SyncHookJSONOutput:
    output: dict[str, Any] = {"hookEventName": "PreToolUse", "permissionDecision": decision}
    if reason is not None:
        output["permissionDecisionReason"] = reason
    return cast(SyncHookJSONOutput, {"hookSpecificOutput": output})
