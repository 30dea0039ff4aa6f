"""From the parts of a conversation to the events that people are told."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Container, Iterator
from uuid import UUID

from fieldmark.db.pool import Connection
from fieldmark.domain.events import Event, RetryEvent, TextEvent, ThinkingEvent, ToolEvent, ToolResultEvent
from fieldmark.domain.json_values import JsonObject, as_list, as_object
from fieldmark.domain.values import value_problem
from fieldmark.runs.parts import (
    AssistantBlocks,
    MessageDelta,
    MessageStarted,
    MessageStopped,
    ModelFallback,
    Part,
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
"""How much of a call's output an event repeats; the agent itself got all of it."""

_BUSY = "The model's service is busy; trying again."
_REPLACED = "The model {} does not answer; {} is asked instead."
_SILENT = "The model's service does not answer; trying again. If that goes on, check ANTHROPIC_BASE_URL."
_BROKE_OFF = "The model's service broke off in the middle of an answer; it was asked again."

# What the CLI wraps around its own refusals, of calls that nobody of ours has seen: people get the sentence alone.
_WRAPPED = re.compile(r"PreToolUse:\S+ hook error: (.*)|<tool_use_error>(.*)</tool_use_error>", re.DOTALL)
_PREFIX = re.compile(r"mcp__[a-z]+__")
_DOCUMENT_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class EventMapper:
    """An observer that `say`s one run's events.

    `outcome_of(call_id)` is asked how a call ended, before what the CLI repeats of it is read. `ended` holds the calls
    whose end was told already, by whoever decided them: none of them is told a second time.
    """

    def __init__(
        self,
        toolset: Toolset,
        say: Callable[[Event], None],
        *,
        outcome_of: Callable[[str], ToolOutcome | None] = lambda _: None,
        ended: Container[object] = frozenset(),
    ) -> None:
        self._toolset = toolset
        self._say = say
        self._outcome_of = outcome_of
        self._were_ended = ended
        self._begun: dict[str, ToolEvent] = {}
        # Files that were found or read, by document id: a later call is reported with the name.
        self._names: dict[str, str] = {}
        # Whether the model's last answer came to its end, and whether it is still to be said that it did not: the CLI
        # tells of most of what it tries again, but not of an answer that fell silent, or that it goes on from.
        self._is_whole = True
        self._broke_off = False

    def on_part(self, part: Part) -> None:
        """Say the events that a part stands for: none, one or several."""
        for event in self._events(part):
            self._say(event)

    def _events(self, part: Part) -> Iterator[Event]:
        match part:
            case AssistantBlocks(error=None):
                yield from self._asked_again()
                for block in part.blocks:
                    match block:
                        case TextBlock() if block.text.strip():
                            yield TextEvent(text=block.text)
                        case ThinkingBlock() if block.text.strip():
                            yield ThinkingEvent(thinking=block.text)
                        case ToolUseBlock():
                            yield self._began(block)
                        case _:
                            pass
            case ToolReturned() if part.call_id not in self._were_ended:
                yield self._ended(part)
            case MessageStarted():
                yield from self._asked_again()
                self._is_whole = False
            case MessageDelta():
                self._is_whole = True
            case MessageStopped():
                self._broke_off = not self._is_whole
            case ServiceRetry():
                self._broke_off = False
                is_silent = part.status is None and self._is_whole
                yield RetryEvent(retry=_SILENT if is_silent else _BUSY, wait_s=round(part.wait_s, 1))
            case ModelFallback():
                self._broke_off = False
                yield RetryEvent(retry=_REPLACED.format(part.requested, part.fallback), wait_s=0.0)
            case _:
                pass  # the CLI's own words about the model's service among them: how the run ends says it

    def _asked_again(self) -> Iterator[Event]:
        if self._broke_off:
            self._broke_off = False
            yield RetryEvent(retry=_BROKE_OFF, wait_s=0.0)

    def _began(self, call: ToolUseBlock) -> ToolEvent:
        # The model may have sent anything: what could not be stored in a field is not stored in an event either.
        given = call.arguments
        shown = given if isinstance(given, dict) and value_problem(given) is None else {}
        event = tool_event(self._toolset, call.tool, call.id, shown)
        named = _DOCUMENT_ID.sub(lambda found: self._names.get(found[0], "a document"), event.message)
        self._begun[call.id] = event = event.model_copy(update={"message": named})
        return event

    def _ended(self, part: ToolReturned) -> ToolResultEvent:
        begun = self._begun.pop(part.call_id, None) or tool_event(self._toolset, "unknown", part.call_id, {})
        outcome = self._outcome_of(part.call_id) or _repeated_by_the_cli(part)
        if part.is_error and begun.tool not in self._toolset.tools:
            outcome = ToolOutcome(f"There is no tool {begun.tool[:80]!r}.", "unknown_tool", is_error=True)
        event = _ended_event(begun, outcome)
        for document in as_list((event.details or {}).get("documents")):
            one = as_object(document)
            self._names[str(one.get("document_id"))] = str(one.get("filename"))
        return event


def tool_event(toolset: Toolset, tool: str, call_id: str, arguments: JsonObject) -> ToolEvent:
    """The event of a call that begins now."""
    declared = toolset.tools.get(tool)
    return ToolEvent(
        tool=tool,
        call_id=call_id,
        input=arguments,
        message=toolset.summary(tool, arguments),
        action_type="analysing" if declared is None else declared.action_type,
        timestamp=time.time(),
    )


def end_reporter(run_id: UUID, begun: ToolEvent) -> Callable[[Connection, ToolOutcome], Awaitable[None]]:
    """Return what adds the event of a call's end, in the call's own transaction: for calls that no CLI makes. A call
    that waits for child runs has not ended."""

    async def report(conn: Connection, outcome: ToolOutcome) -> None:
        if outcome.code != "awaiting_runs":
            await runs.append_event(conn, run_id, _ended_event(begun, outcome))

    return report


def _ended_event(begun: ToolEvent, outcome: ToolOutcome) -> ToolResultEvent:
    """The event of a call's end."""
    shown, now = outcome.shown, time.time()
    text = outcome.sentence if shown is None or shown.output is None else shown.output
    text = text if len(text) <= MAX_SHOWN_CHARACTERS else text[:MAX_SHOWN_CHARACTERS] + " […]"
    return ToolResultEvent(
        tool_result=begun.tool,
        call_id=begun.call_id,
        status="error" if outcome.is_error else "complete",
        output=None if outcome.is_error else text,
        error=text if outcome.is_error else None,
        code=outcome.code,
        message=begun.message if shown is None else shown.message,
        details=None if shown is None else shown.details,
        action_type=begun.action_type,
        timestamp=now,
        duration_ms=max(0, round((now - begun.timestamp) * 1000)),
    )


def _repeated_by_the_cli(part: ToolReturned) -> ToolOutcome:
    """How a call ended that no tool of ours has seen: the CLI itself refuses an unknown tool and broken JSON."""
    if not part.is_error:
        return ToolOutcome(part.text, "ok")
    wrapped = _WRAPPED.fullmatch(part.text)
    said = wrapped[1] or wrapped[2] or "" if wrapped else part.text
    return ToolOutcome(_PREFIX.sub("", said), "invalid", is_error=True)
