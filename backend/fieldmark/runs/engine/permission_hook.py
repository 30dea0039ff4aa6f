"""The PreToolUse hook: decides each tool call before it runs. Reads are allowed; other calls are checked and recorded
in the ledger.

A write doesn't rely on the hook alone: it runs only with an approved ledger entry whose arguments have the same hash.
So a hook that isn't called can't lead to a write.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Literal
from uuid import uuid4

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
from fieldmark.tools.ledger import REFUSALS, StartedBy, ToolCall, ToolOutcome, execute, outcome_of_error
from fieldmark.tools.toolset import OptionalEnd, RunAnswer, RunTools, Tool, Toolset, hash_arguments

log = structlog.get_logger()

# The outcome of a call, for metrics, by the hook's decision. An allowed call gets its outcome from the tool.
_OUTCOME_BY_DECISION = {"deny": "refused", "defer": "deferred"}

REFUSED_CODE = "refused"
_MAX_ID_CHARACTERS = 200
_NO_ROUNDS = (
    "Not done: all {} rounds of calls for this message are used. Answer in text: what you did and what is left."
)


@dataclass(frozen=True, slots=True)
class ApprovalPolicy:
    """Who approves writes: the policy (`auto`) or a person (`ask`). Tools approved in advance don't ask a person."""

    approval: str = "auto"
    auto_approved_tools: frozenset[str] = frozenset()

    @property
    def asks(self) -> bool:
        return self.approval != "auto"

    def approves(self, tool: str) -> bool:
        return not self.asks or tool in self.auto_approved_tools


AUTO = ApprovalPolicy()

OnToolOutcome = Callable[[str, str, float | None], None]
"""Called with the tool, the outcome and the duration in seconds of each call. An undeclared tool is `unknown`."""


def ignore_outcome(tool: str, outcome: str, seconds: float | None) -> None: ...


async def no_preparation(call_id: str) -> None: ...


@dataclass(slots=True)
class _AllowedCall:
    """A call that may run, as the CLI will request it, with its id in the ledger."""

    ledger_id: str
    tool: str
    arguments: Mapping[str, JsonValue]
    is_taken: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """The hook's decision on a call, and its reason. `arguments` replace those of the model if a person edited them, or
    if the call must not end the run."""

    decision: Literal["allow", "deny", "defer"]
    reason: str | None = None
    arguments: dict[str, JsonValue] | None = None

    def as_hook_output(self) -> SyncHookJSONOutput:
        output: PreToolUseHookSpecificOutput = {"hookEventName": "PreToolUse", "permissionDecision": self.decision}
        if self.reason is not None:
            output["permissionDecisionReason"] = self.reason
        if self.arguments is not None:
            output["updatedInput"] = self.arguments
        return {"hookSpecificOutput": output}


class PermissionHook:
    """The PreToolUse hook of one run. Any error in it denies the call.

    `seen` has the ids of all calls, `decided` of those that a person decided while the CLI waited. These are the
    model's ids; `take_allowed` returns the id in the ledger of a call that the executor may run. `outcomes` has the
    outcome of each call so far, `answer` the run's answer once a call has ended the run.

    `waiting_call` is the call that the run waited for. `before_call(call_id)` is awaited before a call runs, is
    deferred or is denied. `wait_for_decision` keeps the CLI for a while and returns whether a person decided. `rounds`
    limits the number of messages with calls; `only_tools` limits which tools may be called."""

    def __init__(
        self,
        toolset: RunTools,
        context: RunContext,
        policy: ApprovalPolicy = AUTO,
        waiting_call: str | None = None,
        on_tool_outcome: OnToolOutcome = ignore_outcome,
        *,
        calls: MessageCalls | None = None,
        wait_for_decision: Callable[[], Awaitable[bool]] | None = None,
        before_call: Callable[[str], Awaitable[None]] = no_preparation,
        rounds: int | None = None,
        only_tools: frozenset[str] | None = None,
    ) -> None:
        self.toolset = toolset
        self.context = context
        self._policy = policy
        self._waiting_call = waiting_call
        self.on_tool_outcome = on_tool_outcome
        self.calls = calls or MessageCalls()
        self._wait_for_decision = wait_for_decision
        self.before_call = before_call
        self._rounds = rounds
        self._only_tools = only_tools
        self._allowed: dict[str, list[_AllowedCall]] = {}
        self._ledger_ids: dict[str, str] = {}
        self.seen: set[str] = set()
        self.decided: set[str] = set()
        self.outcomes: dict[str, ToolOutcome] = {}
        self.answer: RunAnswer | None = None
        self._tools: dict[str, Tool[Any]] = {}

    async def __call__(self, hook_input: HookInput, call_id: str | None, _: HookContext) -> SyncHookJSONOutput:
        tool_name = ""
        with log_context(self.context, call_id):
            try:
                assert hook_input["hook_event_name"] == "PreToolUse"
                tool_name = hook_input["tool_name"]
                if call_id is not None:
                    await self._set_ledger_id(call_id, tool_name.removeprefix(TOOL_PREFIX), hook_input["tool_input"])
                verdict = await self._decide(tool_name, call_id, hook_input["tool_input"])
                if call_id is not None and verdict.decision == "deny":
                    await self.before_call(call_id)  # so a run that ends at the calls before it asks no more
            except Exception:
                log.exception("permission hook failed")
                verdict = Verdict("deny", "Internal error: the call could not be checked. Do not repeat it.")
            if call_id is not None and verdict.decision == "allow":
                arguments = verdict.arguments or hook_input.get("tool_input", {})
                allowed = _AllowedCall(self._ledger_ids[call_id], tool_name.removeprefix(TOOL_PREFIX), arguments)
                self._allowed.setdefault(call_id, []).append(allowed)
            elif (outcome := _OUTCOME_BY_DECISION.get(verdict.decision)) is not None:
                self.on_tool_outcome(to_metric_label(self.toolset, tool_name.removeprefix(TOOL_PREFIX)), outcome, None)
            if call_id is not None and verdict.decision == "deny" and call_id not in self.outcomes:
                self.outcomes[call_id] = ToolOutcome(verdict.reason or "", REFUSED_CODE, is_error=True)
            return verdict.as_hook_output()

    def take_allowed(self, call_id: str, tool: str, arguments: Mapping[str, JsonValue]) -> str | None:
        """Return the ledger's id of a call that the hook allowed, None if it allowed none with this id. Of several
        calls with the same id, each is taken once, before one is taken again."""
        calls = self._allowed.get(call_id, [])
        if not calls:
            return None
        taken = min(calls, key=lambda one: (one.is_taken, (one.tool, one.arguments) != (tool, arguments)))
        taken.is_taken = True
        return taken.ledger_id

    async def _set_ledger_id(self, call_id: str, tool: str, arguments: dict[str, JsonValue]) -> None:
        """Set the id of a call in the ledger: the model's id, or another if that cannot be stored or was used before.
        (Some services repeat ids, or put data into them.)"""
        is_repeated = call_id in self.seen
        self.seen.add(call_id)
        self.outcomes.pop(call_id, None)
        is_storable = 0 < len(call_id) <= _MAX_ID_CHARACTERS and value_problem(call_id) is None
        name = call_id if is_storable else sha256(call_id.encode(errors="surrogatepass")).hexdigest()
        start = name[: _MAX_ID_CHARACTERS - len(_new_suffix())]
        waiting = self._waiting_call or ""
        if not is_repeated and (waiting == name or waiting[: -len(_new_suffix())] == start):
            name = waiting
            self.decided.add(call_id)  # its end was already reported
        elif not is_repeated and self.context.fencing_token > 1:  # an earlier attempt may have used the id
            async with self.context.database.as_user(self.context.scope) as conn:
                entry = await tool_calls.find(conn, self.context.run_id, name)
            used = None if entry is None else (entry.tool, entry.arguments_hash)
            is_repeated = used is not None and used != (tool, hash_arguments(arguments))
        self._ledger_ids[call_id] = f"{start}{_new_suffix()}" if is_repeated else name

    async def _decide(self, tool_name: str, call_id: str | None, arguments: dict[str, JsonValue]) -> Verdict:
        name = tool_name.removeprefix(TOOL_PREFIX)
        tool = self.toolset.tools.get(name)
        if tool is None or name == tool_name:
            return Verdict("deny", f"There is no tool {name[:80]!r}. Use only the tools in your list.")
        if self._only_tools is not None and name not in self._only_tools:
            return Verdict("deny", f"Not allowed in this message. Call only {', '.join(sorted(self._only_tools))}.")
        if self.answer is not None:  # a later call of the message that ended the run
            return Verdict("deny", "The run has ended. Make no more calls.")
        if call_id is not None:
            self._tools[call_id] = tool
        is_used_up = self._rounds is not None and self.context.run.turns + self.calls.messages > self._rounds
        if is_used_up and call_id is not None and self._ledger_ids[call_id] != self._waiting_call:
            refusal = ToolOutcome(_NO_ROUNDS.format(self._rounds), "rounds_used_up", is_error=True)
            self.outcomes[call_id] = refusal
            return Verdict("deny", refusal.text)
        if not tool.is_gated:
            return Verdict("allow")
        if call_id is None:
            return Verdict("deny", "Internal error: the call has no id. Do not repeat it.")
        if self._ledger_ids[call_id] == self._waiting_call:
            return await self._recorded_verdict(call_id, arguments)
        try:
            args = self.toolset.check(name, arguments)
        except ModelRetry as retry:
            return await self._refuse(name, call_id, arguments, retry.text, retry.code)
        if (refusal := await self._earlier_call_refusal(tool, call_id)) is not None:
            return await self._refuse(name, call_id, arguments, *refusal)
        action = self.toolset.actions[name]
        is_approved = not tool.asks or await self._is_approved(name, args)
        proposed, end = arguments, tool.optional_end
        if end is not None and end.argument in arguments and not await self._may_end(end, call_id, args, is_approved):
            arguments = {key: value for key, value in arguments.items() if key != end.argument}
            args = self.toolset.check(name, arguments)
        if is_approved and action.collect is None:
            await self._record(name, call_id, arguments, CallStatus.APPROVED)
            return Verdict("allow", arguments=None if arguments is proposed else arguments)
        if not await self._can_be_deferred(call_id):
            return await self._refuse(
                name,
                call_id,
                arguments,
                "Not done: a person approves each change. Make one change per message, after any calls that read.",
                "one_at_a_time",
            )
        await self.before_call(call_id)
        if is_approved:
            return await self._start_runs(name, call_id, arguments)
        try:
            if action.check is not None:
                await action.check(args)
            await self._ask(name, call_id, arguments, args)
        except REFUSALS as error:  # the tool refuses the call, so there is nothing to approve
            refusal = outcome_of_error(error)
            return await self._refuse(name, call_id, arguments, refusal.sentence, refusal.code, refusal.data)
        if self._wait_for_decision is None or not await self._wait_for_decision():
            return Verdict("defer")
        self.decided.add(call_id)
        return await self._recorded_verdict(call_id, proposed)

    async def _can_be_deferred(self, call_id: str) -> bool:
        """Whether the call is the last of its message, and those before it only read.

        The CLI keeps only the last of several deferred calls, can't resume a message with a denied and a deferred call,
        and loses the result of a deferred call that others follow."""
        earlier = [self._tools.get(one) for one in await self.calls.calls_before(call_id)]
        is_last = await self.calls.count_in_message(call_id) == len(earlier) + 1
        return is_last and all(tool is not None and not tool.is_gated for tool in earlier)

    async def _may_end(self, end: OptionalEnd, call_id: str, args: Any, is_approved: bool) -> bool:
        """Whether a call may also end the run: no call of its message follows, the model has read the results of those
        before it, and the end is approved too (by the person who approves the call, if it asks one)."""
        if await self.calls.calls_after(call_id) or await self._unread_result(call_id) is not None:
            return False
        return not is_approved or await self._is_approved(end.tool, args)

    async def _is_approved(self, name: str, args: Any) -> bool:
        """Whether a call needs no decision of a person: by the policy, or by an earlier decision in this run, because
        the call follows from it or because it approved later calls of the tool."""
        if self._policy.approves(name):
            return True
        is_covered = self.toolset.actions[name].is_covered
        async with self.context.database.as_user(self.context.scope) as conn:
            if is_covered is not None and await is_covered(conn, args):
                return True
            approved = await runs.pre_approved_tools(conn, self.context.run_id)
        self._policy = replace(self._policy, auto_approved_tools=self._policy.auto_approved_tools | approved)
        return self._policy.approves(name)

    async def _earlier_call_refusal(self, tool: Tool[Any], call_id: str) -> tuple[str, str] | None:
        """Return the reason and code if an earlier call of the same message prevents this call.

        The model wrote this call before it knew how the earlier ones ended. After a refused call, a write might change
        the wrong rows; a call that ends the run would keep the model from seeing a result that it must read."""
        is_ending = tool.answer is not None and tool.optional_end is None
        for earlier in await self.calls.calls_before(call_id):
            before, outcome = self._tools.get(earlier), self.outcomes.get(earlier)
            earlier_name = "a call" if before is None else before.name
            if outcome is None or outcome.is_error:  # None: the CLI refused it without asking the hook
                is_read = before is not None and not before.is_gated
                is_independent = is_read or tool.is_independent or (before is not None and before.is_independent)
                if is_ending or not is_independent:
                    return (
                        f"Not done, because {earlier_name} before it in the same message was refused. "
                        "Correct that call first, then repeat this one.",
                        "behind_refused",
                    )
        if is_ending and (unread := await self._unread_result(call_id)) is not None:
            return (
                f"Not done: you have not read the result of {unread} yet. Read it, then repeat this call.",
                "answer_unread",
            )
        return None

    async def _unread_result(self, call_id: str) -> str | None:
        """Return the tool of an earlier call of the same message whose result the model must read before it ends the
        run: it read something, was refused, or did not do what was asked."""
        for earlier in await self.calls.calls_before(call_id):
            tool, outcome = self._tools.get(earlier), self.outcomes.get(earlier)
            if tool is None or not tool.is_gated or outcome is None or outcome.is_error or outcome.needs_attention:
                return "a call" if tool is None else tool.name
        return None

    async def _ask(self, name: str, call_id: str, arguments: dict[str, JsonValue], args: Any) -> None:
        """Record the call as pending, with a preview of its changes, and set the run to await approval."""
        make_preview = self.toolset.actions[name].preview
        async with self.context.database.as_user(self.context.scope) as conn:
            preview = None if make_preview is None else await make_preview(conn, args)
            await self._insert(conn, name, call_id, arguments, CallStatus.PENDING, preview=preview)
            changes = [] if preview is None else [one.as_json() for one in preview.changes]
            await self._await_approval(conn, name, self._ledger_ids[call_id], arguments, changes)

    async def _await_approval(
        self, conn: Connection, name: str, call_id: str, arguments: dict[str, JsonValue], changes: Sequence[Changed]
    ) -> None:
        """Set the run to await approval of a call, given by its id in the ledger."""
        context, message = self.context, self.toolset.summary(name, arguments)
        event = approval_event(context.run_id, call_id, name, arguments, message, changes)
        await runs.await_approval(conn, context.run_id, context.fencing_token, call_id, attached=True, event=event)

    async def _start_runs(self, name: str, call_id: str, arguments: dict[str, JsonValue]) -> Verdict:
        """Run a call that starts child runs here in the hook, because only the hook can defer the call."""
        await self._record(name, call_id, arguments, CallStatus.APPROVED)
        outcome = await execute(
            self.toolset,
            self.context,
            ToolCall(name, self._ledger_ids[call_id], arguments),
            started_by=StartedBy.POLICY,
        )
        # Otherwise the call was refused: its tool returns the recorded refusal.
        return Verdict("defer" if outcome.code == "awaiting_runs" else "allow")

    async def _recorded_verdict(self, call_id: str, arguments: Mapping[str, JsonValue]) -> Verdict:
        async with self.context.database.as_user(self.context.scope) as conn:
            entry = await tool_calls.find(conn, self.context.run_id, self._ledger_ids[call_id])
            if entry is not None and entry.status is CallStatus.PENDING:  # the run's own status may be older
                await self._await_approval(conn, entry.tool, entry.id, entry.arguments, entry.changes or [])
        if entry is None:
            return Verdict("deny", "This call was not proposed to a person. Propose it again.")
        if entry.status in (CallStatus.PENDING, CallStatus.WAITING):
            return Verdict("defer")
        if entry.status is CallStatus.REFUSED:
            return Verdict("deny", f"A person rejected this change. {entry.reason or ''}".strip())
        is_unchanged = entry.arguments_hash == hash_arguments(arguments)
        return Verdict("allow", arguments=None if is_unchanged else entry.arguments)

    async def _refuse(
        self,
        name: str,
        call_id: str,
        arguments: dict[str, JsonValue],
        reason: str,
        code: str = REFUSED_CODE,
        data: JsonValue = None,
    ) -> Verdict:
        await self._record(name, call_id, arguments, CallStatus.REFUSED, reason)
        self.outcomes[call_id] = ToolOutcome(reason, code, data, is_error=True)
        return Verdict("deny", self.outcomes[call_id].text)

    async def _record(
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
        **columns: Any,
    ) -> None:
        # Arguments that can't be stored (too large, too deep, NUL) are dropped; their hash identifies the call.
        storable = value_problem(arguments) is None
        await tool_calls.record(
            conn,
            run_id=self.context.run_id,
            fencing_token=self.context.fencing_token,
            org_id=self.context.scope.org_id,
            call_id=self._ledger_ids[call_id],
            tool=name,
            arguments=arguments if storable else {},
            arguments_hash=hash_arguments(arguments),
            status=status,
            **columns,
        )


def _new_suffix() -> str:
    return f"~{uuid4().hex}"


def to_metric_label(toolset: Toolset, name: str) -> str:
    """Return the tool's name as a metric label; `unknown` if the toolset has no such tool."""
    return name if name in toolset.tools else "unknown"


def log_context(context: RunContext, call_id: str | None) -> AbstractContextManager[None]:
    """Add the ids of run, organisation and call to the log lines in the block. The SDK's tasks may lack all three."""
    return structlog.contextvars.bound_contextvars(
        run_id=str(context.run_id), org_id=str(context.scope.org_id), call_id=call_id and call_id[:_MAX_ID_CHARACTERS]
    )
