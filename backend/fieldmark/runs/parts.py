"""The parts that a conversation with the agent comes in, as `engine/model_stream.py` reads them; and who observes them.

Nothing of the SDK is known here, so whoever works on parts knows nothing of it either.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from dataclasses import dataclass
from typing import Literal, Protocol

from pydantic import JsonValue


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """Tokens of one message as the service counts them so far; None where it says nothing of a kind."""

    input: int | None = None
    output: int | None = None
    cache_write: int | None = None
    cache_write_1h: int | None = None
    """Those of `cache_write` that are kept for an hour, where the service tells them apart."""
    cache_read: int | None = None


# The message that the model is saying, in pieces: MessageStarted, then (BlockStarted, BlockDelta …) a block, then
# MessageChanged, MessageStopped. One that breaks off has no MessageChanged, and may have no MessageStopped.


@dataclass(frozen=True, slots=True)
class MessageStarted:
    """The model begins to answer."""

    id: str | None
    model: str | None
    counts: TokenCounts = TokenCounts()


@dataclass(frozen=True, slots=True)
class BlockStarted:
    """A block begins; `call_id` where it is a call of a tool, and the tool's bare name."""

    call_id: str | None = None
    tool: str | None = None


@dataclass(frozen=True, slots=True)
class BlockDelta:
    """What comes next of a block: words, a thought, or arguments of a call as far as they are written."""

    kind: Literal["text", "thinking", "arguments"]
    text: str


@dataclass(frozen=True, slots=True)
class MessageChanged:
    """The message's last block is whole: why it ends, and its final counts."""

    stop_reason: str | None = None
    counts: TokenCounts = TokenCounts()


@dataclass(frozen=True, slots=True)
class MessageStopped:
    """The message is whole, or the CLI gave it up."""


# What is whole.


@dataclass(frozen=True, slots=True)
class Said:
    """A block of words."""

    text: str


@dataclass(frozen=True, slots=True)
class Thought:
    """A block of reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool, by the tool's bare name. `arguments` may be anything: the model writes them."""

    id: str
    tool: str
    arguments: JsonValue


@dataclass(frozen=True, slots=True)
class AssistantSaid:
    """Blocks of an answer, whole. Of an answer that streams they come one by one, in between its pieces.

    `error` is set where these are the CLI's own words about a failure of the service."""

    blocks: tuple[Said | Thought | ToolCall, ...]
    id: str | None = None
    model: str | None = None
    counts: TokenCounts | None = None
    stop_reason: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class ToolReturned:
    """A call was answered; `text` is what the model reads, in the CLI's wrapping where it was refused."""

    call_id: str
    text: str
    is_error: bool


@dataclass(frozen=True, slots=True)
class ServiceRetry:
    """The model's service failed, and the CLI asks it again after a while."""

    wait_s: float
    status: int | None


@dataclass(frozen=True, slots=True)
class ModelReplaced:
    """Another model answers from here on, because the service has failed for the one that was asked."""

    asked: str
    answering: str


@dataclass(frozen=True, slots=True)
class ResultReached:
    """The CLI's last word. `deferred_call` is the call that it stopped at for a person to decide."""

    subtype: str = "success"
    is_error: bool = False
    api_error_status: int | None = None
    stop_reason: str | None = None
    terminal_reason: str | None = None
    text: str | None = None
    deferred_call: str | None = None


Part = (
    MessageStarted
    | BlockStarted
    | BlockDelta
    | MessageChanged
    | MessageStopped
    | AssistantSaid
    | ToolReturned
    | ServiceRetry
    | ModelReplaced
    | ResultReached
)


class Observer(Protocol):
    """Whoever is shown each part of a conversation, in order. What it raises ends the conversation."""

    def on_part(self, part: Part) -> Awaitable[None] | None:
        """Take note of a part; what is answered is awaited before the next observer is shown it."""
        ...


async def show(observers: Iterable[Observer], part: Part) -> None:
    """Show a part to each observer in turn."""
    for observer in observers:
        if (working := observer.on_part(part)) is not None:
            await working
