"""The parts of a conversation between Fieldmark and the model, and the interface of their observers.

`engine/model_stream.py` creates the parts. They don't depend on the Agent SDK, so their observers don't either.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from dataclasses import dataclass
from typing import Literal, Protocol

from pydantic import JsonValue


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """Tokens of one message, as counted by the model's service so far. None if the service doesn't report a count."""

    input: int | None = None
    output: int | None = None
    cache_write: int | None = None
    cache_write_1h: int | None = None
    """The part of `cache_write` that is cached for an hour, if the service reports it separately."""
    cache_read: int | None = None


# A message that streams in: MessageStarted, then BlockStarted and its BlockDeltas for each block, then MessageDelta and
# MessageStopped. A message that is interrupted has no MessageDelta, and may have no MessageStarted.


@dataclass(frozen=True, slots=True)
class MessageStarted:
    """The model started a message."""

    id: str | None
    model: str | None
    counts: TokenCounts = TokenCounts()


@dataclass(frozen=True, slots=True)
class BlockStarted:
    """A block of the message started. A tool call has a `call_id`, and the tool's name without the server's prefix."""

    call_id: str | None = None
    tool: str | None = None


@dataclass(frozen=True, slots=True)
class BlockDelta:
    """The next characters of a block: text, reasoning, or the JSON of a call's arguments."""

    kind: Literal["text", "thinking", "arguments"]
    text: str


@dataclass(frozen=True, slots=True)
class MessageDelta:
    """The last block is complete. Has the reason why the message ended, and its final token counts."""

    stop_reason: str | None = None
    counts: TokenCounts = TokenCounts()


@dataclass(frozen=True, slots=True)
class MessageStopped:
    """The message is complete, or the CLI stopped waiting for the rest of it."""


# Complete blocks and messages.


@dataclass(frozen=True, slots=True)
class TextBlock:
    text: str


@dataclass(frozen=True, slots=True)
class ThinkingBlock:
    """A block of the model's reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolUseBlock:
    """A tool call. `tool` is the name without the server's prefix. The model writes `arguments`: any JSON value."""

    id: str
    tool: str
    arguments: JsonValue


@dataclass(frozen=True, slots=True)
class AssistantBlocks:
    """Complete blocks of a message. A message that streams in has one AssistantBlocks per block, among its deltas.

    If `error` is set, the CLI wrote the blocks itself, to report a failure of the model's service."""

    blocks: tuple[TextBlock | ThinkingBlock | ToolUseBlock, ...]
    id: str | None = None
    model: str | None = None
    counts: TokenCounts | None = None
    stop_reason: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class ToolReturned:
    """A tool call returned. `text` is what the model reads. If the CLI refused the call, it has the CLI's wrapping."""

    call_id: str
    text: str
    is_error: bool


@dataclass(frozen=True, slots=True)
class ServiceRetry:
    """The model's service failed, and the CLI will retry the request after `wait_s` seconds."""

    wait_s: float
    status: int | None


@dataclass(frozen=True, slots=True)
class ModelFallback:
    """The model's service failed for the requested model, so the fallback model is used from now on."""

    requested: str
    fallback: str


@dataclass(frozen=True, slots=True)
class ConversationResult:
    """The CLI's last message. `deferred_call` is the id of the call that awaits a person's decision."""

    subtype: str = "success"
    is_error: bool = False
    api_error_status: int | None = None
    stop_reason: str | None = None
    terminal_reason: str | None = None
    text: str | None = None
    deferred_call: str | None = None


MessagePart = (
    MessageStarted
    | BlockStarted
    | BlockDelta
    | MessageDelta
    | MessageStopped
    | AssistantBlocks
    | ToolReturned
    | ServiceRetry
    | ModelFallback
    | ConversationResult
)


class Observer(Protocol):
    """Receives each part of a conversation, in order. An exception from an observer ends the conversation."""

    def on_part(self, part: MessagePart) -> Awaitable[None] | None:
        """Handle a part. A returned awaitable is awaited before the next observer receives the part."""
        ...


async def notify(observers: Iterable[Observer], part: MessagePart) -> None:
    """Pass a part to each observer, in order."""
    for observer in observers:
        if (pending := observer.on_part(part)) is not None:
            await pending
