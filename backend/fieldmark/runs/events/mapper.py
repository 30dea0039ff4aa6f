"""Turns the parts of a conversation into the events of the run."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Container, Iterator
from uuid import UUID

from fieldmark.db.pool import Connection
from fieldmark.domain.events import Event, RetryCode, RetryEvent, TextEvent, ThinkingEvent, ToolEvent, ToolResultEvent
from fieldmark.domain.json_values import JsonObject, as_list, as_object
from fieldmark.domain.values import value_problem
from fieldmark.runs.message_parts import (
    AssistantBlocks,
    MessageDelta,
    MessagePart,
    MessageStarted,
    MessageStopped,
    ModelFallback,
    ServiceRetry,
    TextBlock,
    ThinkingBlock,
    ToolReturned,
    ToolUseBlock,
)
from fieldmark.stores import runs
from fieldmark.tools.ledger import ToolOutcome
from fieldmark.tools.toolset import Toolset

MAX_SHOWN_CHARACTERS = 4000
"""A longer output of a call is cut in its event. The agent gets all of it."""

_RETRIES: dict[RetryCode, str] = {
    "busy": "The model's service is busy. Retrying.",
    "no_response": "The model's service does not respond. Retrying. If this continues, check ANTHROPIC_BASE_URL.",
    "interrupted": "The model's service stopped in the middle of an answer. Retrying.",
    "model_replaced": "The model {requested} is not available. Using {fallback} instead.",
}

# The CLI's wrapping of its own refusals. Events contain only the reason.
_WRAPPED = re.compile(r"PreToolUse:\S+ hook error: (.*)|<tool_use_error>(.*)</tool_use_error>", re.DOTALL)
_PREFIX = re.compile(r"mcp__[a-z]+__")
_DOCUMENT_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class EventMapper:
    """An observer that passes the events of one run to `emit`.

    `outcome_of(call_id)` returns how a call ended; without an outcome the CLI's text is used. The ends of the calls
    `reported_call_ids` were already reported, together with the person's decisions, and are not reported again.
    """

    def __init__(
        self,
        toolset: Toolset,
        emit: Callable[[Event], None],
        *,
        outcome_of: Callable[[str], ToolOutcome | None] = lambda _: None,
        reported_call_ids: Container[object] = frozenset(),
    ) -> None:
        self._toolset = toolset
        self._emit = emit
        self._outcome_of = outcome_of
        self._reported_ends = reported_call_ids
        self._started_calls: dict[str, list[ToolEvent]] = {}  # several if the model repeats an id
        # File names by document id, from results of calls. Messages of later calls show the name.
        self._names: dict[str, str] = {}
        # Whether the current message is complete, and whether an interrupted message must still be reported: the CLI
        # doesn't report a retry after a message that stopped in the middle.
        self._is_complete = True
        self._was_interrupted = False

    def on_part(self, part: MessagePart) -> None:
        for event in self._events(part):
            self._emit(event)

    def _events(self, part: MessagePart) -> Iterator[Event]:
        match part:
            case AssistantBlocks(error=None):
                yield from self._retry_events()
                for block in part.blocks:
                    match block:
                        case TextBlock() if block.text.strip():
                            yield TextEvent(text=block.text)
                        case ThinkingBlock() if block.text.strip():
                            yield ThinkingEvent(thinking=block.text)
                        case ToolUseBlock():
                            yield self._call_started(block)
                        case _:
                            pass
            case ToolReturned() if part.call_id not in self._reported_ends:
                yield self._call_ended(part)
            case MessageStarted():
                yield from self._retry_events()
                self._is_complete = False
            case MessageDelta():
                self._is_complete = True
            case MessageStopped():
                self._was_interrupted = not self._is_complete
            case ServiceRetry():
                self._was_interrupted = False
                is_silent = part.status is None and self._is_complete
                yield retry_event("no_response" if is_silent else "busy", part.wait_s)
            case ModelFallback():
                self._was_interrupted = False
                yield retry_event("model_replaced", requested=part.requested, fallback=part.fallback)
            case _:
                pass  # also the CLI's own text about a failed service: the run's outcome reports the failure

    def _retry_events(self) -> Iterator[Event]:
        if self._was_interrupted:
            self._was_interrupted = False
            yield retry_event("interrupted")

    def _call_started(self, call: ToolUseBlock) -> ToolEvent:
        # The model may have written arguments that can't be stored.
        arguments = call.arguments
        storable = arguments if isinstance(arguments, dict) and value_problem(arguments) is None else {}
        event = tool_event(self._toolset, call.tool, call.id, storable)
        named = _DOCUMENT_ID.sub(lambda found: self._names.get(found[0], "a document"), event.message)
        event = event.model_copy(update={"message": named})
        self._started_calls.setdefault(call.id, []).append(event)
        return event

    def _call_ended(self, part: ToolReturned) -> ToolResultEvent:
        of_id = self._started_calls.get(part.call_id)
        started = of_id.pop(0) if of_id else tool_event(self._toolset, "unknown", part.call_id, {})
        outcome = self._outcome_of(part.call_id) or _outcome_from_cli(part)
        if part.is_error and started.tool not in self._toolset.tools:
            outcome = ToolOutcome(f"There is no tool {started.tool[:80]!r}.", "unknown_tool", is_error=True)
        event = _result_event(started, outcome)
        for document in as_list((event.details or {}).get("documents")):
            one = as_object(document)
            self._names[str(one.get("document_id"))] = str(one.get("filename"))
        return event


def retry_event(code: RetryCode, wait_seconds: float = 0.0, **params: str) -> RetryEvent:
    text = _RETRIES[code].format(**params)
    return RetryEvent(retry=text, code=code, params=params or None, wait_s=round(wait_seconds, 1))


def tool_event(toolset: Toolset, tool: str, call_id: str, arguments: JsonObject) -> ToolEvent:
    """Return the event of a call that starts now."""
    declared = toolset.tools.get(tool)
    return ToolEvent(
        tool=tool,
        call_id=call_id,
        input=arguments,
        message=toolset.summary(tool, arguments),
        action_type="analysing" if declared is None else declared.action_type,
        timestamp=time.time(),
    )


def end_reporter(run_id: UUID, started: ToolEvent) -> Callable[[Connection, ToolOutcome], Awaitable[None]]:
    """Return a function that appends the event of a call's end, in the call's transaction. For calls outside a
    conversation. A call that waits for child runs has not ended."""

    async def report(conn: Connection, outcome: ToolOutcome) -> None:
        if outcome.code != "awaiting_runs":
            await runs.append_event(conn, run_id, _result_event(started, outcome))

    return report


def _result_event(started: ToolEvent, outcome: ToolOutcome) -> ToolResultEvent:
    shown, now = outcome.shown, time.time()
    text = outcome.sentence if shown is None or shown.output is None else shown.output
    text = text if len(text) <= MAX_SHOWN_CHARACTERS else text[:MAX_SHOWN_CHARACTERS] + " […]"
    return ToolResultEvent(
        tool_result=started.tool,
        call_id=started.call_id,
        status="error" if outcome.is_error else "complete",
        output=None if outcome.is_error else text,
        error=text if outcome.is_error else None,
        code=outcome.code,
        message=started.message if shown is None else shown.message,
        details=None if shown is None else shown.details,
        action_type=started.action_type,
        timestamp=now,
        duration_ms=max(0, round((now - started.timestamp) * 1000)),
    )


def _outcome_from_cli(part: ToolReturned) -> ToolOutcome:
    """Return the outcome of a call that the CLI refused itself: an unknown tool, or invalid JSON."""
    if not part.is_error:
        return ToolOutcome(part.text, "ok")
    wrapped = _WRAPPED.fullmatch(part.text)
    reason = wrapped[1] or wrapped[2] or "" if wrapped else part.text
    return ToolOutcome(_PREFIX.sub("", reason), "invalid", is_error=True)
