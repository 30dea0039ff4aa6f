"""The gate: every call passes here before it runs. Reads pass; writes are validated and entered in the ledger.

The gate is not the lock. The tool itself runs only with an admitted entry whose arguments hash to the same value, so a
hook that never fires changes nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, cast

import structlog
from claude_agent_sdk.types import HookContext, HookInput, SyncHookJSONOutput
from pydantic import JsonValue

from fieldmark.domain.values import problem_with
from fieldmark.runs.engine.cli_attestation import SandboxViolation
from fieldmark.runs.engine.tool_server import TOOL_PREFIX
from fieldmark.stores import tool_calls
from fieldmark.telemetry.traces import failed, span
from fieldmark.tools.errors import ModelRetry
from fieldmark.tools.toolset import Answer, ToolContext, Toolset, hash_of

log = structlog.get_logger()


# What the gate's own verdicts make of a call; one that is allowed goes on to its tool.
_OUTCOMES = {"deny": "refused", "defer": "deferred"}

MESSAGE_SECONDS = 10
"""How long the gate waits for the end of a message whose call is at its door."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Who admits writes: with `auto` the policy does, with `ask` a person, but for the tools named in advance."""

    approval: str = "auto"
    auto_approved_tools: frozenset[str] = frozenset()

    def admits(self, tool: str) -> bool:
        return self.approval == "auto" or tool in self.auto_approved_tools


AUTO = Policy()

OnToolOutcome = Callable[[str, str, float | None], None]
"""Hears what became of a call: (tool, outcome, seconds). `unknown` stands for a tool that there is not."""


def ignore_outcome(tool: str, outcome: str, seconds: float | None) -> None: ...


class PermissionHook:
    """The PreToolUse hook of one run. Whatever goes wrong in it, the call is denied.

    `passed` holds the ids of the calls that it let through: a call that comes without having passed tells that the hook
    does not fire. `waiting` is the call that a person has decided meanwhile, where the run goes on after that.
    """

    def __init__(
        self,
        toolset: Toolset,
        context: ToolContext,
        policy: Policy = AUTO,
        waiting: str | None = None,
        told: OnToolOutcome = ignore_outcome,
    ) -> None:
        self._toolkit = toolset
        self._context = context
        self._policy = policy
        self._waiting = waiting
        self._told = told
        self._message = _MessageSoFar()
        self.passed: set[str] = set()

    def saw(self, event: dict[str, Any]) -> None:
        """Take note of a partial message: from these the gate knows how many calls a message holds."""
        self._message.saw(event)

    async def __call__(self, given: HookInput, call_id: str | None, _: HookContext) -> SyncHookJSONOutput:
        call = cast(dict[str, Any], given)
        with _in_log(self._context, call_id):
            try:
                verdict = await self._decide(str(call["tool_name"]), call_id, call["tool_input"])
            except Exception:
                log.exception("gate failed")
                verdict = _verdict("deny", "The call could not be checked. Do not repeat it.")
            if call_id is not None and _is_allowed(verdict):
                self.passed.add(call_id)
            elif (outcome := _OUTCOMES.get(_decision(verdict))) is not None:
                self._told(_known(self._toolkit, str(call["tool_name"]).removeprefix(TOOL_PREFIX)), outcome, None)
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
        if call_id == self._waiting:
            return await self._as_decided(call_id)
        try:
            self._toolkit.check(name, arguments)
        except ModelRetry as retry:
            return await self._refuse(name, call_id, arguments, str(retry))
        if self._policy.admits(name):
            await self._enter(name, call_id, arguments, "admitted")
            return _verdict("allow")
        # Of several deferred calls only the last would survive, and one beside a denied one would spoil the transcript.
        if await self._message.calls_beside(call_id) != 1:
            return await self._refuse(name, call_id, arguments, "Propose one change at a time.")
        await self._enter(name, call_id, arguments, "pending")
        return _verdict("defer")

    async def _as_decided(self, call_id: str) -> SyncHookJSONOutput:
        async with self._context.database.as_user(self._context.scope) as conn:
            entry = await tool_calls.get(conn, self._context.run_id, call_id)
        if entry is None:
            return _verdict("deny", "The call was never proposed.")
        if entry["status"] == "pending":
            return _verdict("defer")
        if entry["status"] == "refused":
            return _verdict("deny", f"A person refused this change. {entry['reason'] or ''}".strip())
        return _verdict("allow", arguments=entry["arguments"] if entry["proposed"] is not None else None)

    async def _refuse(
        self, name: str, call_id: str, arguments: dict[str, JsonValue], reason: str
    ) -> SyncHookJSONOutput:
        await self._enter(name, call_id, arguments, "refused", reason)
        return _verdict("deny", reason)

    async def _enter(
        self, name: str, call_id: str, arguments: dict[str, JsonValue], status: str, reason: str | None = None
    ) -> None:
        # What cannot be stored (too large, too deep, NUL) was refused for it, and its hash still tells which it was.
        storable = problem_with(arguments) is None
        async with self._context.database.as_user(self._context.scope) as conn:
            await tool_calls.enter(
                conn,
                run_id=self._context.run_id,
                attempt=self._context.attempt,
                org_id=self._context.scope.org_id,
                call_id=call_id,
                tool=name,
                arguments=arguments if storable else {},
                arguments_hash=hash_of(arguments),
                status=status,
                reason=reason,
            )


class _MessageSoFar:
    """The model's current message, as its partial messages tell: which calls it holds, and whether it is whole."""

    def __init__(self) -> None:
        self._calls: list[str] = []
        self._whole = False
        self._changed = asyncio.Event()

    def saw(self, event: dict[str, Any]) -> None:
        match event.get("type"):
            case "message_start":
                self._calls, self._whole = [], False
            case "content_block_start" if event["content_block"].get("type") == "tool_use":
                self._calls.append(event["content_block"]["id"])
            case "message_stop":
                self._whole = True
            case _:
                return
        self._changed.set()

    async def calls_beside(self, call_id: str) -> int:
        """How many calls the message with this call holds, itself included. Raises TimeoutError if it does not end."""
        async with asyncio.timeout(MESSAGE_SECONDS):
            while not (self._whole and call_id in self._calls):
                self._changed.clear()
                await self._changed.wait()
        return len(self._calls)


class ToolExecutor:
    """Answers the CLI's calls of one run, those that passed the gate. `before(call_id)` is awaited ahead of each."""

    def __init__(
        self,
        gate: PermissionHook,
        toolset: Toolset,
        context: ToolContext,
        before: Callable[[str], Awaitable[None]],
        told: OnToolOutcome = ignore_outcome,
    ) -> None:
        self._told = told
        self._gate = gate
        self.toolset = toolset
        self._context = context
        self._before = before
        self._fatal: Exception | None = None

    async def __call__(self, name: str, call_id: str | None, arguments: dict[str, JsonValue]) -> Answer:
        known = _known(self.toolset, name)
        begun = time.monotonic()
        try:
            with _in_log(self._context, call_id), span("tool call", tool=known, call_id=call_id) as current:
                self.check()
                if call_id is None or call_id not in self._gate.passed:
                    raise SandboxViolation("The agent's CLI called a tool past the gate.")
                await self._before(call_id)
                answer = await self.toolset.call(self._context, name, call_id, arguments)
                if answer.is_error:
                    failed(current, "tool_error")
                self._told(known, "failed" if answer.is_error else "done", time.monotonic() - begun)
                return answer
        except Exception as error:  # noqa: BLE001  raised again by check()
            # Raised here it would only reach the CLI, as text. It ends the run instead.
            self._fatal = error
            return Answer("The run has ended.", is_error=True)

    def check(self) -> None:
        """Raise what must end the run."""
        if self._fatal is not None:
            raise self._fatal


def _verdict(
    decision: str, reason: str | None = None, arguments: dict[str, JsonValue] | None = None
) -> SyncHookJSONOutput:
    output: dict[str, Any] = {"hookEventName": "PreToolUse", "permissionDecision": decision}
    if reason is not None:
        output["permissionDecisionReason"] = reason
    if arguments is not None:
        output["updatedInput"] = arguments
    return cast(SyncHookJSONOutput, {"hookSpecificOutput": output})


def _is_allowed(verdict: SyncHookJSONOutput) -> bool:
    return _decision(verdict) == "allow"


def _decision(verdict: SyncHookJSONOutput) -> str:
    return cast(dict[str, Any], verdict)["hookSpecificOutput"]["permissionDecision"]


def _known(toolset: Toolset, name: str) -> str:
    return name if name in toolset.tools else "unknown"


def _in_log(context: ToolContext, call_id: str | None) -> AbstractContextManager[None]:
    """Every line of this call bears its ids. All three: the SDK's tasks need not have been started by the run's own."""
    return structlog.contextvars.bound_contextvars(
        run_id=str(context.run_id), org_id=str(context.scope.org_id), call_id=call_id
    )
