"""From the SDK's messages to the flat objects of the stream, and from there into rows, in order."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self, cast

from claude_agent_sdk import (
    AssistantMessage,
    Message,
    StreamEvent,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
)

from fieldmark.domain.events import Event, RetryEvent, TextEvent, ThinkingEvent, ToolEvent
from fieldmark.domain.values import problem_with
from fieldmark.errors import FieldmarkError
from fieldmark.runs.engine.tool_server import TOOL_PREFIX
from fieldmark.runs.events.deltas import DeltaBuffer
from fieldmark.stores import runs
from fieldmark.tools.toolset import ToolContext, Toolset

MAX_SHOWN_CHARACTERS = 4000
"""How much of a call's output an event repeats; the agent itself got all of it."""

GATHER_SECONDS = 0.08
"""How long words are gathered before those who watch are told: each time costs a transaction."""

_BROKE_OFF = "The model's service broke off in the middle of an answer; it was asked again."

# What the CLI wraps around a refusal, for the model: people get the sentence alone.
_WRAPPED = re.compile(r"PreToolUse:\S+ hook error: (.*)|<tool_use_error>(.*)</tool_use_error>", re.DOTALL)


class EventMapper:
    """Turns the messages of one run into flat objects."""

    def __init__(self, toolset: Toolset) -> None:
        self._toolkit = toolset
        self._begun: dict[str, tuple[str, str, float]] = {}
        # Whether the model's last answer came to its end, and whether it is still to be said that it did not: the CLI
        # tells of most of what it tries again, but not of an answer that fell silent, or that it goes on from.
        self._is_whole = True
        self._broke_off = False

    def goes_on(self, call_id: str, tool: str, arguments: dict[str, Any]) -> None:
        """Take note of a call that was begun before, whose end is still to be told: it waited for a person."""
        self._begun[call_id] = (tool, self._toolkit.says(tool, arguments), time.monotonic())

    def objects(self, message: Message) -> Iterator[Event]:
        """The objects that a message stands for: none, one or several."""
        if isinstance(message, AssistantMessage):
            if message.error is not None:
                return  # the CLI's own words about the model's service: how the run ends says it
            yield from self._asked_again()
            for block in message.content:
                if isinstance(block, TextBlock) and block.text.strip():
                    yield TextEvent(text=block.text)
                elif isinstance(block, ThinkingBlock) and block.thinking.strip():
                    yield ThinkingEvent(thinking=block.thinking)
                elif isinstance(block, ToolUseBlock):
                    yield self._began(block)
        elif isinstance(message, UserMessage) and isinstance(message.content, list):
            for block in message.content:
                if isinstance(block, ToolResultBlock):
                    yield self._ended(block)
        elif isinstance(message, StreamEvent):
            match message.event.get("type"):
                case "message_start":
                    yield from self._asked_again()
                    self._is_whole = False
                case "message_delta":
                    self._is_whole = True
                case "message_stop":
                    self._broke_off = not self._is_whole
                case _:
                    pass
        elif isinstance(message, SystemMessage) and message.subtype == "api_retry":
            self._broke_off = False
            yield RetryEvent(
                retry="The model's service is busy; trying again.",
                wait_s=round(float(message.data.get("retry_delay_ms", 0)) / 1000, 1),
            )

    def _asked_again(self) -> Iterator[Event]:
        if self._broke_off:
            self._broke_off = False
            yield RetryEvent(retry=_BROKE_OFF, wait_s=0.0)

    def _began(self, block: ToolUseBlock) -> ToolEvent:
        name = block.name.removeprefix(TOOL_PREFIX)
        # The model may have sent anything: what could not be stored in a field is not stored in an event either.
        given = cast(Any, block.input)
        shown = cast(
            dict[str, Any], given if isinstance(given, dict) and problem_with(cast(Any, given)) is None else {}
        )
        says = self._toolkit.says(name, shown)
        self._begun[block.id] = (name, says, time.monotonic())
        return ToolEvent(tool=name, call_id=block.id, input=shown, status="running", message=says)

    def _ended(self, block: ToolResultBlock) -> ToolEvent:
        name, says, begun = self._begun.pop(block.tool_use_id, ("unknown", "Calling", time.monotonic()))
        text = _text_of(block)
        if wrapped := _WRAPPED.fullmatch(text):
            text = wrapped[1] or wrapped[2] or ""
        shown = text if len(text) <= MAX_SHOWN_CHARACTERS else text[:MAX_SHOWN_CHARACTERS] + " […]"
        failed = bool(block.is_error)
        return ToolEvent(
            tool=name,
            call_id=block.tool_use_id,
            output=None if failed else shown,
            error=shown if failed else None,
            status="error" if failed else "complete",
            message=says,
            duration_ms=round((time.monotonic() - begun) * 1000),
        )


def _text_of(block: ToolResultBlock) -> str:
    if isinstance(block.content, str):
        return block.content
    return "\n".join(str(part.get("text", "")) for part in block.content or [])


class EventWriter:
    """Writes a run's events in the order they are said, several to a transaction when they come faster than it takes.
    In between it tells the words of the `draft` to whoever watches, in the same order, and keeps none of them.

    Raises Fenced from `flush` and on leaving if another worker has taken the run. What was said is written however
    the block ends.
    """

    def __init__(self, context: ToolContext, draft: DeltaBuffer | None = None) -> None:
        self._context = context
        self._draft = draft or DeltaBuffer(context.attempt)
        self._draft.has_words = self._gather
        self._gathering: asyncio.TimerHandle | None = None
        self._waiting: list[Event] = []
        self._writing = asyncio.Lock()
        self._wanted = asyncio.Event()
        self._writer: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._writer = asyncio.create_task(self._write())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._writer is not None
        self._draft.pass_over()
        self._writer.cancel()
        await asyncio.gather(self._writer, return_exceptions=True)
        try:
            await self.flush()
        except Exception:
            if kind is None:  # else what ended the run says more
                raise

    def say(self, event: Event) -> None:
        """Put an event at the end of the run's events. Raises what the writing of earlier ones failed with."""
        if self._writer is not None and self._writer.done() and not self._writer.cancelled():
            self._writer.result()
        self._draft.pass_over()
        self._waiting.append(event)
        self._wanted.set()

    def _gather(self) -> None:
        if self._gathering is None:
            self._gathering = asyncio.get_running_loop().call_later(GATHER_SECONDS, self._gathered)

    def _gathered(self) -> None:
        self._gathering = None
        self._wanted.set()

    async def flush(self) -> None:
        """Write what waits. Called before a tool's transaction too, so that its own events come after these."""
        async with self._writing:
            if not self._waiting:
                return
            batch = list(self._waiting)
            async with self._context.database.as_user(self._context.scope) as conn:
                await runs.append_events(conn, self._context.run_id, self._context.attempt, batch)
            del self._waiting[: len(batch)]

    async def _write(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            await asyncio.shield(self.pass_on())

    async def pass_on(self) -> None:
        """Write what waits, and tell those who watch what is in the draft: behind all that was said before it."""
        await self.flush()
        async with self._writing:
            if self._waiting or not (pieces := self._draft.take()):
                return
            try:
                async with self._context.database.as_user(self._context.scope) as conn:
                    await runs.tell_watchers(conn, self._context.run_id, self._context.attempt, pieces)
            except FieldmarkError:
                pass  # lost words cost nothing: the whole block follows, and finds out what the matter is
