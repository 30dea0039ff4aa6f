"""SDK messages are translated to typed parts, whatever the API or the CLI sends."""

from __future__ import annotations

import asyncio

import claude_agent_sdk as sdk
import pytest
from claude_agent_sdk.types import DeferredToolUse

from fieldmark.runs.engine.message_calls import MessageCalls
from fieldmark.runs.engine.model_stream import message_parts
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
    ServiceRetry,
    TextBlock,
    ThinkingBlock,
    TokenCounts,
    ToolReturned,
    ToolUseBlock,
    notify,
)

anyio = pytest.mark.anyio


def stream_event(kind: str, **data) -> sdk.StreamEvent:
    return sdk.StreamEvent("u", "s", {"type": kind, **data})


def delta(**fields) -> sdk.StreamEvent:
    return stream_event("content_block_delta", delta=fields)


USAGE = {
    "input_tokens": 1,
    "output_tokens": 2,
    "cache_creation_input_tokens": 30,
    "cache_read_input_tokens": 4,
    "cache_creation": {"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 10},
}
COUNTS = TokenCounts(1, 2, 30, 10, 4)


@pytest.mark.parametrize(
    ("message", "part"),
    [
        (
            stream_event("message_start", message={"id": "m", "model": "x", "usage": USAGE}),
            MessageStarted("m", "x", COUNTS),
        ),
        (stream_event("message_start", message=[7]), MessageStarted(None, None)),
        (stream_event("message_start", message={"id": 7, "model": None, "usage": "?"}), MessageStarted(None, None)),
        (stream_event("content_block_start", content_block={"type": "text", "text": ""}), BlockStarted()),
        (stream_event("content_block_start", content_block={"type": "tool_use", "id": "c"}), BlockStarted("c")),
        (
            stream_event(
                "content_block_start", content_block={"type": "tool_use", "id": "c", "name": f"{TOOL_PREFIX}save"}
            ),
            BlockStarted("c", "save"),
        ),
        # An incomplete call still counts as a call.
        (stream_event("content_block_start", content_block={"type": "tool_use"}), BlockStarted("None")),
        (stream_event("content_block_start"), BlockStarted()),
        (delta(type="text_delta", text="a"), BlockDelta("text", "a")),
        (delta(type="thinking_delta", thinking="a"), BlockDelta("thinking", "a")),
        (delta(type="input_json_delta", partial_json="{"), BlockDelta("arguments", "{")),
        (
            stream_event("message_delta", delta={"stop_reason": "end_turn"}, usage=USAGE),
            MessageDelta("end_turn", COUNTS),
        ),
        (stream_event("message_delta", delta=None, usage=None), MessageDelta()),
        (stream_event("message_stop"), MessageStopped()),
        (sdk.SystemMessage("api_retry", {"retry_delay_ms": 1234, "error_status": 529}), ServiceRetry(1.234, 529)),
        (sdk.SystemMessage("api_retry", {"retry_delay_ms": None, "error_status": "?"}), ServiceRetry(0.0, None)),
        (sdk.UserMessage([sdk.ToolResultBlock("c", "a", True)]), ToolReturned("c", "a", True)),
        (
            sdk.UserMessage([sdk.ToolResultBlock("c", [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])]),
            ToolReturned("c", "a\nb", False),
        ),
        (
            sdk.AssistantMessage(
                [
                    sdk.TextBlock("a"),
                    sdk.ThinkingBlock("b", "s"),
                    sdk.ToolUseBlock("c", "mcp__fieldmark__read", {"d": 1}),
                ],
                "x",
                usage=USAGE,
                message_id="m",
                stop_reason="tool_use",
            ),
            AssistantBlocks(
                (TextBlock("a"), ThinkingBlock("b"), ToolUseBlock("c", "read", {"d": 1})), "m", "x", COUNTS, "tool_use"
            ),
        ),
        (
            sdk.AssistantMessage([sdk.ToolUseBlock("c", "Bash", [7])], "x", error="unknown"),
            AssistantBlocks((ToolUseBlock("c", "Bash", [7]),), None, "x", error="unknown"),
        ),
        (
            sdk.ResultMessage(
                "success", 1, 1, False, 1, "s", "tool_use", deferred_tool_use=DeferredToolUse("c", "read", {})
            ),
            ConversationResult("success", False, None, "tool_use", deferred_call="c"),
        ),
        (
            sdk.ResultMessage(
                "error", 1, 1, True, 1, "s", result="a", api_error_status=500, terminal_reason="prompt_too_long"
            ),
            ConversationResult("error", True, 500, None, "prompt_too_long", "a"),
        ),
    ],
)
def test_each_sdk_message_becomes_its_part(message, part):
    assert list(message_parts(message)) == [part]


@pytest.mark.parametrize(
    "message",
    [
        *[stream_event(kind) for kind in ("ping", "content_block_stop", "error", "unheard_of")],
        sdk.StreamEvent("u", "s", {}),
        *[delta(**fields) for fields in ({}, {"type": "text_delta", "text": 7}, {"type": "signature_delta"})],
        stream_event("content_block_delta", delta="x"),
        stream_event("content_block_delta", delta={"type": ["text_delta"], "text": "a"}),
        sdk.SystemMessage("init", {}),
        sdk.UserMessage("words"),
        sdk.UserMessage([sdk.TextBlock("words")]),
    ],
)
def test_other_sdk_messages_are_ignored(message):
    assert list(message_parts(message)) == []


@pytest.mark.parametrize(
    ("figures", "counts"),
    [
        ({"input_tokens": -5, "output_tokens": "many"}, TokenCounts()),
        ({"input_tokens": None, "cache_creation": "?"}, TokenCounts()),
        ({"output_tokens": 10**30}, TokenCounts(output=1_000_000_000)),
    ],
)
def test_invalid_token_counts_become_zero(figures, counts):
    assert list(message_parts(stream_event("message_delta", usage=figures))) == [MessageDelta(None, counts)]


class RecordingObserver:
    def __init__(self, name: str, calls_order: list[str]) -> None:
        self._name = name
        self._noted = calls_order

    async def on_part(self, part: MessagePart) -> None:
        await asyncio.sleep(0.001)
        self._noted.append(self._name)


@anyio
async def test_observers_handle_a_part_one_after_the_other():
    calls_order: list[str] = []
    await notify([RecordingObserver("first", calls_order), RecordingObserver("last", calls_order)], MessageStopped())
    assert calls_order == ["first", "last"]


@anyio
async def test_unstreamed_answer_is_a_new_message_once_all_calls_returned():
    """After a failed stream the CLI repeats the request without streaming, so no event starts the message."""
    calls = MessageCalls()
    first, second = (ToolUseBlock(id_, "update_field", {}) for id_ in "ab")
    calls.on_part(AssistantBlocks((first,)))
    assert await calls.calls_before("a") == []
    calls.on_part(AssistantBlocks((second,)))  # the same message: no call has returned
    assert await calls.calls_before("b") == ["a"]
    calls.on_part(ToolReturned("a", "Stored.", False))
    calls.on_part(ToolReturned("b", "Refused.", True))
    calls.on_part(AssistantBlocks((ToolUseBlock("c", "update_field", {}),)))
    assert await calls.calls_before("c") == []


@anyio
async def test_calls_are_counted_once_the_message_is_complete():
    calls = MessageCalls()
    for part in (MessageStarted(None, None), BlockStarted(), BlockStarted("a"), BlockStarted("b")):
        calls.on_part(part)
    asked = asyncio.create_task(calls.count_in_message("a"))
    await asyncio.sleep(0.01)
    assert not asked.done()
    calls.on_part(MessageStopped())
    assert await asked == 2
    for part in (MessageStarted(None, None), BlockStarted("c"), MessageStopped()):
        calls.on_part(part)
    assert await calls.count_in_message("c") == 1
