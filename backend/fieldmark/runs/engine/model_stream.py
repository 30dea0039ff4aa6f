"""The one place where the SDK's messages of a conversation are read: it turns them into typed parts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, Literal, cast

from claude_agent_sdk import (
    AssistantMessage,
    Message,
    ResultMessage,
    StreamEvent,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
)

from fieldmark.runs.engine.tool_server import TOOL_PREFIX
from fieldmark.runs.parts import (
    AssistantSaid,
    BlockDelta,
    BlockStarted,
    MessageChanged,
    MessageStarted,
    MessageStopped,
    ModelReplaced,
    Part,
    ResultReached,
    Said,
    ServiceRetry,
    Thought,
    TokenCounts,
    ToolCall,
    ToolReturned,
)

_MOST_TOKENS = 1_000_000_000

# The kinds of a delta that say something, and where each has it.
_DELTAS: dict[str, tuple[Literal["text", "thinking", "arguments"], str]] = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "input_json_delta": ("arguments", "partial_json"),
}


async def model_stream(messages: AsyncIterator[Message]) -> AsyncIterator[Part]:
    """The parts of a conversation, in the order of the messages they come in."""
    async for message in messages:
        for part in parts_of(message):
            yield part


def parts_of(message: Message) -> Iterator[Part]:
    """The parts of one message: none, one or several."""
    match message:
        case StreamEvent():
            part = _piece(message.event)
            if part is not None:
                yield part
        case AssistantMessage():
            yield _said(message)
        case UserMessage(content=list(blocks)):
            for block in blocks:
                if isinstance(block, ToolResultBlock):
                    yield ToolReturned(block.tool_use_id, _text_of(block), bool(block.is_error))
        case SystemMessage(subtype="api_retry"):
            status = message.data.get("error_status")
            delay = message.data.get("retry_delay_ms")
            yield ServiceRetry(
                wait_s=delay / 1000 if isinstance(delay, int | float) else 0.0,
                status=status if isinstance(status, int) else None,
            )
        case SystemMessage(subtype="model_fallback"):
            yield ModelReplaced(str(message.data.get("original_model")), str(message.data.get("fallback_model")))
        case ResultMessage():
            yield result_of(message)
        case _:
            pass


def result_of(message: ResultMessage) -> ResultReached:
    """The CLI's last word as a part."""
    deferred = message.deferred_tool_use
    return ResultReached(
        subtype=message.subtype,
        is_error=message.is_error,
        api_error_status=message.api_error_status,
        stop_reason=message.stop_reason,
        terminal_reason=message.terminal_reason,
        text=message.result,
        deferred_call=None if deferred is None else deferred.id,
    )


def _piece(event: dict[str, Any]) -> Part | None:
    # The service's own words, which the CLI passes on unread: anything may be missing, or be something else.
    match event.get("type"):
        case "message_start":
            begun = _dict(event.get("message"))
            return MessageStarted(_text(begun.get("id")), _text(begun.get("model")), _counts(begun.get("usage")))
        case "content_block_start":
            block = _dict(event.get("content_block"))
            if block.get("type") != "tool_use":
                return BlockStarted()
            name = _text(block.get("name"))
            return BlockStarted(str(block.get("id")), None if name is None else name.removeprefix(TOOL_PREFIX))
        case "content_block_delta":
            delta = _dict(event.get("delta"))
            kind, key = _DELTAS.get(str(delta.get("type")), (None, ""))
            words = _text(delta.get(key))
            return None if kind is None or words is None else BlockDelta(kind, words)
        case "message_delta":
            return MessageChanged(_text(_dict(event.get("delta")).get("stop_reason")), _counts(event.get("usage")))
        case "message_stop":
            return MessageStopped()
        case _:
            return None


def _said(message: AssistantMessage) -> AssistantSaid:
    blocks: list[Said | Thought | ToolCall] = []
    for block in message.content:
        match block:
            case TextBlock():
                blocks.append(Said(block.text))
            case ThinkingBlock():
                blocks.append(Thought(block.thinking))
            case ToolUseBlock():
                blocks.append(ToolCall(block.id, block.name.removeprefix(TOOL_PREFIX), block.input))
            case _:
                pass
    return AssistantSaid(
        tuple(blocks),
        message.message_id,
        message.model,
        None if message.usage is None else _counts(message.usage),
        message.stop_reason,
        message.error,
    )


def _text_of(block: ToolResultBlock) -> str:
    if isinstance(block.content, str):
        return block.content
    return "\n".join(str(part.get("text", "")) for part in block.content or [])


def _counts(usage: object) -> TokenCounts:
    told = _dict(usage)
    return TokenCounts(
        input=_count(told.get("input_tokens")),
        output=_count(told.get("output_tokens")),
        cache_write=_count(told.get("cache_creation_input_tokens")),
        cache_write_1h=_count(_dict(told.get("cache_creation")).get("ephemeral_1h_input_tokens")),
        cache_read=_count(told.get("cache_read_input_tokens")),
    )


def _count(value: object) -> int | None:
    return min(value, _MOST_TOKENS) if isinstance(value, int) and value >= 0 else None


def _dict(value: object) -> dict[str, Any]:
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
