"""From the parts of a conversation to the events that people are told."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Container, Iterator
from uuid import UUID

from fieldmark.db.pool import Connection
from fieldmark.domain.events import Event, RetryEvent, TextEvent, ThinkingEvent, ToolEvent
from fieldmark.domain.values import problem_with
from fieldmark.runs.parts import (
    AssistantSaid,
    MessageChanged,
    MessageStarted,
    MessageStopped,
    Part,
    Said,
    ServiceRetry,
    Thought,
    ToolCall,
    ToolReturned,
)
from fieldmark.stores import runs
from fieldmark.tools.ledger import ToolOutcome
from fieldmark.tools.toolset import Toolset

MAX_SHOWN_CHARACTERS = 4000
"""How much of a call's output an event repeats; the agent itself got all of it."""

_BUSY = "The model's service is busy; trying again."
_SILENT = "The model's service does not answer; trying again. If that goes on, check ANTHROPIC_BASE_URL."
_BROKE_OFF = "The model's service broke off in the middle of an answer; it was asked again."

# What the CLI wraps around its own refusals, of calls that nobody of ours has seen: people get the sentence alone.
_WRAPPED = re.compile(r"PreToolUse:\S+ hook error: (.*)|<tool_use_error>(.*)</tool_use_error>", re.DOTALL)


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
        self._begun: dict[str, tuple[str, str, float]] = {}
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
            case AssistantSaid(error=None):
                yield from self._asked_again()
                for block in part.blocks:
                    match block:
                        case Said() if block.text.strip():
                            yield TextEvent(text=block.text)
                        case Thought() if block.text.strip():
                            yield ThinkingEvent(thinking=block.text)
                        case ToolCall():
                            yield self._began(block)
                        case _:
                            pass
            case ToolReturned() if part.call_id not in self._were_ended:
                yield self._ended(part)
            case MessageStarted():
                yield from self._asked_again()
                self._is_whole = False
            case MessageChanged():
                self._is_whole = True
            case MessageStopped():
                self._broke_off = not self._is_whole
            case ServiceRetry():
                self._broke_off = False
                is_silent = part.status is None and self._is_whole
                yield RetryEvent(retry=_SILENT if is_silent else _BUSY, wait_s=round(part.wait_s, 1))
            case _:
                pass  # the CLI's own words about the model's service among them: how the run ends says it

    def _asked_again(self) -> Iterator[Event]:
        if self._broke_off:
            self._broke_off = False
            yield RetryEvent(retry=_BROKE_OFF, wait_s=0.0)

    def _began(self, call: ToolCall) -> ToolEvent:
        # The model may have sent anything: what could not be stored in a field is not stored in an event either.
        given = call.arguments
        shown = given if isinstance(given, dict) and problem_with(given) is None else {}
        says = self._toolset.summary(call.tool, shown)
        self._begun[call.id] = (call.tool, says, time.monotonic())
        return ToolEvent(tool=call.tool, call_id=call.id, input=shown, status="running", message=says)

    def _ended(self, part: ToolReturned) -> ToolEvent:
        tool, says, begun = self._begun.pop(part.call_id, ("unknown", "Calling", time.monotonic()))
        outcome = self._outcome_of(part.call_id) or ToolOutcome(_unwrapped(part.text), "ok", is_error=part.is_error)
        return _ended_event(tool, part.call_id, says, outcome, round((time.monotonic() - begun) * 1000))


def end_reporter(
    run_id: UUID, tool: str, call_id: str, summary: str
) -> Callable[[Connection, ToolOutcome], Awaitable[None]]:
    """Returns what adds the event of a call's end, in the call's own transaction: for calls that no CLI makes. A call
    that waits for child runs has not ended."""
    began = time.monotonic()

    async def report(conn: Connection, outcome: ToolOutcome) -> None:
        if outcome.code != "awaiting_runs":
            milliseconds = round((time.monotonic() - began) * 1000)
            await runs.append_event(conn, run_id, _ended_event(tool, call_id, summary, outcome, milliseconds))

    return report


def _ended_event(tool: str, call_id: str, message: str, outcome: ToolOutcome, duration_ms: int) -> ToolEvent:
    """The event of a call's end. `message` says what the call does, in words."""
    text = outcome.sentence
    shown = text if len(text) <= MAX_SHOWN_CHARACTERS else text[:MAX_SHOWN_CHARACTERS] + " […]"
    return ToolEvent(
        tool=tool,
        call_id=call_id,
        output=None if outcome.is_error else shown,
        error=shown if outcome.is_error else None,
        status="error" if outcome.is_error else "complete",
        message=message,
        duration_ms=duration_ms,
    )


def _unwrapped(text: str) -> str:
    wrapped = _WRAPPED.fullmatch(text)
    return wrapped[1] or wrapped[2] or "" if wrapped else text
