"""The PreToolUse hook: every call passes here before it runs. Reads pass; all others are checked and entered in the
ledger.

The hook is not the lock. The tool itself runs only with an approved entry whose arguments hash to the same value, so a
hook that never fires changes nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Literal

import structlog
from claude_agent_sdk.types import HookContext, HookInput, PreToolUseHookSpecificOutput, SyncHookJSONOutput
from pydantic import JsonValue

from fieldmark.db.pool import Connection
from fieldmark.domain.statuses import CallStatus
from fieldmark.domain.values import value_problem
from fieldmark.runs.engine.message_calls import MessageCalls
from fieldmark.runs.engine.tool_server import TOOL_PREFIX
from fieldmark.runs.events.approvals import Changed, approval_event
from fieldmark.stores import runs, tool_calls
from fieldmark.tools.context import RunContext
from fieldmark.tools.errors import ModelRetry
from fieldmark.tools.ledger import REFUSALS, By, ToolCall, ToolOutcome, execute, refused
from fieldmark.tools.toolset import Answer, RunTools, Tool, Toolset, hash_of

log = structlog.get_logger()

# What the hook's own verdicts make of a call; one that is allowed goes on to its tool.
_OUTCOMES = {"deny": "refused", "defer": "deferred"}

REFUSED_CODE = "refused"
_NO_ROUNDS = "Not done: all {} rounds of calls for this message are used. Say in words what you did and what is left."


@dataclass(frozen=True, slots=True)
class Policy:
    """Who approves gated calls: the policy (`auto`) or a person (`ask`), except for tools approved in advance."""

    approval: str = "auto"
    auto_approved_tools: frozenset[str] = frozenset()

    @property
    def asks(self) -> bool:
        """Whether a person may have to be asked."""
        return self.approval != "auto"

    def approves(self, tool: str) -> bool:
        return not self.asks or tool in self.auto_approved_tools


AUTO = Policy()

OnToolOutcome = Callable[[str, str, float | None], None]
"""Hears what became of a call: (tool, outcome, seconds). `unknown` stands for a tool that there is not."""


def ignore_outcome(tool: str, outcome: str, seconds: float | None) -> None: ...


async def nothing_before(call_id: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of a call, why, and with which arguments in the place of its own."""

    decision: Literal["allow", "deny", "defer"]
    reason: str | None = None
    arguments: dict[str, JsonValue] | None = None

    def told(self) -> SyncHookJSONOutput:
        """As the CLI hears it."""
        output: PreToolUseHookSpecificOutput = {"hookEventName": "PreToolUse", "permissionDecision": self.decision}
        if self.reason is not None:
            output["permissionDecisionReason"] = self.reason
        if self.arguments is not None:
            output["updatedInput"] = self.arguments
        return {"hookSpecificOutput": output}


class PermissionHook:
    """The PreToolUse hook of one run. Whatever goes wrong in it, the call is denied.

    `passed` has the ids of the calls that it allowed: the executor refuses any other. `seen` has all that it was asked
    for, `decided` those that a person decided while the CLI waited. `outcomes` has the outcome of each call so far, and
    `answer` the run's answer once a call has ended the run.

    `waiting_call` is the call that the run waited for. `before(call_id)` is awaited before each call that runs or lets
    the CLI go. `wait_for_decision` keeps the CLI for a while and returns whether a person decided. `rounds` limits the
    messages with calls, `only` the tools."""

    def __init__(
        self,
        toolset: RunTools,
        context: RunContext,
        policy: Policy = AUTO,
        waiting_call: str | None = None,
        on_tool_outcome: OnToolOutcome = ignore_outcome,
        *,
        calls: MessageCalls | None = None,
        wait_for_decision: Callable[[], Awaitable[bool]] | None = None,
        before: Callable[[str], Awaitable[None]] = nothing_before,
        rounds: int | None = None,
        only: frozenset[str] | None = None,
    ) -> None:
        self.toolset = toolset
        self.context = context
        self._policy = policy
        self._waiting_call = waiting_call
        self.on_tool_outcome = on_tool_outcome
        self.calls = calls or MessageCalls()
        self._wait_for_decision = wait_for_decision
        self.before = before
        self._rounds = rounds
        self._only = only
        self.passed: set[str] = set()
        self.seen: set[str] = set()
        self.decided: set[str] = set()
        self.outcomes: dict[str, ToolOutcome] = {}
        self.answer: Answer | None = None
        self._tools: dict[str, Tool[Any]] = {}

    async def __call__(self, given: HookInput, call_id: str | None, _: HookContext) -> SyncHookJSONOutput:
        tool_name = ""
        if call_id is not None:
            self.seen.add(call_id)
        with in_log(self.context, call_id):
            try:
                assert given["hook_event_name"] == "PreToolUse"  # what it is registered for
                tool_name = given["tool_name"]
                verdict = await self._decide(tool_name, call_id, given["tool_input"])
            except Exception:
                log.exception("permission hook failed")
                verdict = Verdict("deny", "The call could not be checked. Do not repeat it.")
            if call_id is not None and verdict.decision == "allow":
                self.passed.add(call_id)
            elif (outcome := _OUTCOMES.get(verdict.decision)) is not None:
                self.on_tool_outcome(known(self.toolset, tool_name.removeprefix(TOOL_PREFIX)), outcome, None)
            if call_id is not None and verdict.decision == "deny" and call_id not in self.outcomes:
                self.outcomes[call_id] = ToolOutcome(verdict.reason or "", REFUSED_CODE, is_error=True)
            return verdict.told()

    async def _decide(self, tool_name: str, call_id: str | None, arguments: dict[str, JsonValue]) -> Verdict:
        name = tool_name.removeprefix(TOOL_PREFIX)
        tool = self.toolset.tools.get(name)
        if tool is None or name == tool_name:
            return Verdict("deny", f"There is no tool {name[:80]!r}. Use only the tools you were given.")
        if self._only is not None and name not in self._only:
            return Verdict("deny", f"Not now: only {', '.join(sorted(self._only))} may be called.")
        if self.answer is not None:  # the CLI goes on with the calls behind the one that ended the run
            return Verdict("deny", "The run has ended.")
        if call_id is not None:
            self._tools[call_id] = tool
        is_over = self._rounds is not None and self.context.run.turns + self.calls.messages > self._rounds
        if is_over and call_id is not None and call_id != self._waiting_call:
            refusal = ToolOutcome(_NO_ROUNDS.format(self._rounds), "rounds_used_up", is_error=True)
            self.outcomes[call_id] = refusal
            return Verdict("deny", refusal.text)
        if not tool.is_gated:
            return Verdict("allow")
        if call_id is None:
            return Verdict("deny", "The call came without an id.")
        if call_id == self._waiting_call:
            return await self._as_decided(call_id)
        try:
            args = self.toolset.check(name, arguments)
        except ModelRetry as retry:
            return await self._refuse(name, call_id, arguments, retry.text, retry.code)
        if (refusal := await self._stands_behind(tool, call_id)) is not None:
            return await self._refuse(name, call_id, arguments, *refusal)
        action = self.toolset.actions[name]
        is_approved = not tool.asks or self._policy.approves(name) or await self._is_approved_since(name, args)
        if is_approved and action.collect is None:
            await self._enter(name, call_id, arguments, CallStatus.APPROVED)
            return Verdict("allow")
        # Of several deferred calls only the last would survive, and one beside a denied one would spoil the transcript.
        if await self.calls.count_in_message(call_id) != 1:
            return await self._refuse(name, call_id, arguments, "Propose one change at a time.", "one_at_a_time")
        await self.before(call_id)
        if is_approved:
            return await self._start_runs(name, call_id, arguments)
        try:
            if action.check is not None:
                await action.check(args)
            await self._ask(name, call_id, arguments, args)
        except REFUSALS as error:  # nothing that could be shown: the person need not be asked
            refusal = refused(error)
            return await self._refuse(name, call_id, arguments, refusal.sentence, refusal.code, refusal.data)
        if self._wait_for_decision is None or not await self._wait_for_decision():
            return Verdict("defer")
        self.decided.add(call_id)
        return await self._as_decided(call_id)

    async def _is_approved_since(self, name: str, args: Any) -> bool:
        """Whether a person's decisions in this run approve the call: it follows from one, or one approves the tool's
        further calls."""
        is_covered = self.toolset.actions[name].is_covered
        async with self.context.database.as_user(self.context.scope) as conn:
            if is_covered is not None and await is_covered(conn, args):
                return True
            approved = await runs.pre_approved_tools(conn, self.context.run_id)
        self._policy = replace(self._policy, auto_approved_tools=self._policy.auto_approved_tools | approved)
        return self._policy.approves(name)

    async def _stands_behind(self, tool: Tool[Any], call_id: str) -> tuple[str, str] | None:
        """Why a call is refused for what stands before it in its message, and the code of that. The model has written
        it without knowing how those ended: a write behind a refused one may find other rows than it was meant for, and
        one that ends the run leaves nobody to hear of them."""
        for earlier in await self.calls.calls_before(call_id):
            before, outcome = self._tools.get(earlier), self.outcomes.get(earlier)
            named = "a call" if before is None else before.name
            if outcome is None or outcome.is_error:  # the CLI itself refuses some, which nobody of ours has seen
                is_read = before is not None and not before.is_gated
                apart = is_read or tool.stands_alone or (before is not None and before.stands_alone)
                if tool.answer is not None or not apart:
                    return (
                        f"Not done, because {named} before it in the same message was refused. "
                        "Mend that one first, then repeat this.",
                        "behind_refused",
                    )
            elif tool.answer is not None and (outcome.heed or (before is not None and not before.is_gated)):
                return f"You have not seen yet what {named} answers. Look at it, then call this again.", "answer_unread"
        return None

    async def _ask(self, name: str, call_id: str, arguments: dict[str, JsonValue], args: Any) -> None:
        """Enter the call as pending, with what it would change, and have the run wait for a person."""
        show = self.toolset.actions[name].preview
        async with self.context.database.as_user(self.context.scope) as conn:
            preview = None if show is None else await show(conn, args)
            await self._insert(conn, name, call_id, arguments, CallStatus.PENDING, preview=preview)
            changes = [] if preview is None else [one.as_json() for one in preview.changes]
            await self._await_approval(conn, name, call_id, arguments, changes)

    async def _await_approval(
        self, conn: Connection, name: str, call_id: str, arguments: dict[str, JsonValue], changes: Sequence[Changed]
    ) -> None:
        context, message = self.context, self.toolset.summary(name, arguments)
        event = approval_event(context.run_id, call_id, name, arguments, message, changes)
        await runs.await_approval(conn, context.run_id, context.fencing_token, call_id, attached=True, event=event)

    async def _start_runs(self, name: str, call_id: str, arguments: dict[str, JsonValue]) -> Verdict:
        """Run a call that starts child runs: from its tool there is no way to let the CLI go."""
        await self._enter(name, call_id, arguments, CallStatus.APPROVED)
        outcome = await execute(self.toolset, self.context, ToolCall(name, call_id, arguments), by=By.POLICY)
        # Any other outcome is a refusal, whose answer is recorded.
        return Verdict("defer" if outcome.code == "awaiting_runs" else "allow")

    async def _as_decided(self, call_id: str) -> Verdict:
        async with self.context.database.as_user(self.context.scope) as conn:
            entry = await tool_calls.get(conn, self.context.run_id, call_id)
            if entry is not None and entry.status is CallStatus.PENDING:  # the run's row does not say that it waits
                await self._await_approval(conn, entry.tool, entry.id, entry.arguments, entry.changes or [])
        if entry is None:
            return Verdict("deny", "The call was never proposed.")
        if entry.status in (CallStatus.PENDING, CallStatus.WAITING):
            return Verdict("defer")
        if entry.status is CallStatus.REFUSED:
            return Verdict("deny", f"A person refused this change. {entry.reason or ''}".strip())
        return Verdict("allow", arguments=entry.arguments if entry.proposed is not None else None)

    async def _refuse(
        self,
        name: str,
        call_id: str,
        arguments: dict[str, JsonValue],
        reason: str,
        code: str = REFUSED_CODE,
        data: JsonValue = None,
    ) -> Verdict:
        await self._enter(name, call_id, arguments, CallStatus.REFUSED, reason)
        self.outcomes[call_id] = ToolOutcome(reason, code, data, is_error=True)
        return Verdict("deny", self.outcomes[call_id].text)

    async def _enter(
        self, name: str, call_id: str, arguments: dict[str, JsonValue], status: CallStatus, reason: str | None = None
    ) -> None:
        async with self.context.database.as_user(self.context.scope) as conn:
            await self._insert(conn, name, call_id, arguments, status, reason=reason)

    async def _insert(
        self,
        conn: Connection,
        name: str,
        call_id: str,
        arguments: dict[str, JsonValue],
        status: CallStatus,
        **why: Any,
    ) -> None:
        # What cannot be stored (too large, too deep, NUL) was refused for it, and its hash still tells which it was.
        storable = value_problem(arguments) is None
        await tool_calls.enter(
            conn,
            run_id=self.context.run_id,
            fencing_token=self.context.fencing_token,
            org_id=self.context.scope.org_id,
            call_id=call_id,
            tool=name,
            arguments=arguments if storable else {},
            arguments_hash=hash_of(arguments),
            status=status,
            **why,
        )


def known(toolset: Toolset, name: str) -> str:
    """A tool's name as a label: `unknown` for one that there is not."""
    return name if name in toolset.tools else "unknown"


def in_log(context: RunContext, call_id: str | None) -> AbstractContextManager[None]:
    """Every line of this call bears its ids. All three: the SDK's tasks need not have been started by the run's own."""
    return structlog.contextvars.bound_contextvars(
        run_id=str(context.run_id), org_id=str(context.scope.org_id), call_id=call_id
    )
