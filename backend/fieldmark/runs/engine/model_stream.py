"""Turns the Agent SDK's messages into typed parts. No other module reads these messages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, Literal, cast

import claude_agent_sdk as sdk

from fieldmark.runs.engine.tool_server import TOOL_PREFIX
from fieldmark.runs.message_parts import (
    AssistantBlocks,
    BlockDelta,
    BlockStarted,
    ConversationResult,
    MessageDelta,
    MessagePart,
    MessageStarted,
    MessageStopped,
    ModelFallback,
    ServiceRetry,
    TextBlock,
    ThinkingBlock,
    TokenCounts,
    ToolReturned,
    ToolUseBlock,
)

_MAX_TOKENS = 1_000_000_000

# Kinds of deltas that contain text, with the key of that text.
_DELTAS: dict[str, tuple[Literal["text", "thinking", "arguments"], str]] = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "input_json_delta": ("arguments", "partial_json"),
}


async def model_stream(messages: AsyncIterator[sdk.Message]) -> AsyncIterator[MessagePart]:
    """Yield the parts of all messages, in order."""
    async for message in messages:
        for part in message_parts(message):
            yield part


def message_parts(message: sdk.Message) -> Iterator[MessagePart]:
    match message:
        case sdk.StreamEvent():
            part = _streamed_part(message.event)
            if part is not None:
                yield part
        case sdk.AssistantMessage():
            yield _assistant_blocks(message)
        case sdk.UserMessage(content=list(blocks)):
            for block in blocks:
                if isinstance(block, sdk.ToolResultBlock):
                    yield ToolReturned(block.tool_use_id, _result_text(block), bool(block.is_error))
        case sdk.SystemMessage(subtype="api_retry"):
            status = message.data.get("error_status")
            delay = message.data.get("retry_delay_ms")
            yield ServiceRetry(
                wait_s=delay / 1000 if isinstance(delay, int | float) else 0.0,
                status=status if isinstance(status, int) else None,
            )
        case sdk.SystemMessage(subtype="model_fallback"):
            yield ModelFallback(str(message.data.get("original_model")), str(message.data.get("fallback_model")))
        case sdk.ResultMessage():
            yield conversation_result(message)
        case _:
            pass


def conversation_result(message: sdk.ResultMessage) -> ConversationResult:
    deferred = message.deferred_tool_use
    return ConversationResult(
        subtype=message.subtype,
        is_error=message.is_error,
        api_error_status=message.api_error_status,
        stop_reason=message.stop_reason,
        terminal_reason=message.terminal_reason,
        text=message.result,
        deferred_call=None if deferred is None else deferred.id,
    )


def _streamed_part(event: dict[str, Any]) -> MessagePart | None:
    # The CLI forwards the service's events unchecked: any key may be missing, and any value of another type.
    match event.get("type"):
        case "message_start":
            started = _dict(event.get("message"))
            return MessageStarted(_text(started.get("id")), _text(started.get("model")), _counts(started.get("usage")))
        case "content_block_start":
            block = _dict(event.get("content_block"))
            if block.get("type") != "tool_use":
                return BlockStarted()
            name = _text(block.get("name"))
            return BlockStarted(str(block.get("id")), None if name is None else name.removeprefix(TOOL_PREFIX))
        case "content_block_delta":
            delta = _dict(event.get("delta"))
            kind, key = _DELTAS.get(str(delta.get("type")), (None, ""))
            text = _text(delta.get(key))
            return None if kind is None or text is None else BlockDelta(kind, text)
        case "message_delta":
            return MessageDelta(_text(_dict(event.get("delta")).get("stop_reason")), _counts(event.get("usage")))
        case "message_stop":
            return MessageStopped()
        case _:
            return None


def _assistant_blocks(message: sdk.AssistantMessage) -> AssistantBlocks:
    blocks: list[TextBlock | ThinkingBlock | ToolUseBlock] = []
    for block in message.content:
        match block:
            case sdk.TextBlock():
                blocks.append(TextBlock(block.text))
            case sdk.ThinkingBlock():
                blocks.append(ThinkingBlock(block.thinking))
            case sdk.ToolUseBlock():
                blocks.append(ToolUseBlock(block.id, block.name.removeprefix(TOOL_PREFIX), block.input))
            case _:
                pass
    return AssistantBlocks(
        tuple(blocks),
        message.message_id,
        message.model,
        None if message.usage is None else _counts(message.usage),
        message.stop_reason,
        message.error,
    )


def _result_text(block: sdk.ToolResultBlock) -> str:
    if isinstance(block.content, str):
        return block.content
    return "\n".join(str(part.get("text", "")) for part in block.content or [])


def _counts(usage: object) -> TokenCounts:
    reported = _dict(usage)
    return TokenCounts(
        input=_count(reported.get("input_tokens")),
        output=_count(reported.get("output_tokens")),
        cache_write=_count(reported.get("cache_creation_input_tokens")),
        cache_write_1h=_count(_dict(reported.get("cache_creation")).get("ephemeral_1h_input_tokens")),
        cache_read=_count(reported.get("cache_read_input_tokens")),
    )


def _count(value: object) -> int | None:
    return min(value, _MAX_TOKENS) if isinstance(value, int) and value >= 0 else None


def _dict(value: object) -> dict[str, Any]:
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
