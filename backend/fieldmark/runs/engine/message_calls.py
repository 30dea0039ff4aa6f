"""Counts the tool calls of the model's current message, for the permission hook."""

from __future__ import annotations

import asyncio

from fieldmark.runs.message_parts import (
    AssistantBlocks,
    BlockStarted,
    MessageDelta,
    MessagePart,
    MessageStarted,
    MessageStopped,
    ToolReturned,
    ToolUseBlock,
)

MESSAGE_SECONDS = 10
"""Time limit for the rest of a message after one of its calls has arrived."""


class MessageCalls:
    """An observer that collects the ids of the calls in the model's current message. `messages` is the number of
    messages so far, without those that were interrupted."""

    def __init__(self) -> None:
        self.messages = 0
        self._calls: list[str] = []
        self._returned: set[str] = set()
        self._has_message = False
        self._is_complete = False
        self._was_interrupted = False
        self._changed = asyncio.Event()

    def on_part(self, part: MessagePart) -> None:
        match part:
            case MessageStarted():
                self._calls, self._returned, self._is_complete = [], set(), False
                self._count_message()
                self._was_interrupted = True  # until it is whole
            case MessageDelta(stop_reason=str()):
                self._was_interrupted = False
                return
            case BlockStarted(call_id=str(call_id)):
                self._calls.append(call_id)
            case AssistantBlocks():
                # Repeats what was streamed, unless the CLI retried without streaming.
                for call in (block.id for block in part.blocks if isinstance(block, ToolUseBlock)):
                    if call not in self._calls:
                        self._start_if_all_returned()
                        self._calls.append(call)
            case ToolReturned():
                self._returned.add(part.call_id)
                return
            case MessageStopped():
                self._is_complete = True
            case _:
                return
        self._has_message = True
        self._changed.set()

    async def count_in_message(self, call_id: str) -> int:
        """Return the number of calls in the message with this call. Raise TimeoutError if the message doesn't end."""
        async with asyncio.timeout(MESSAGE_SECONDS):
            while not (self._is_complete and call_id in self._calls):
                self._changed.clear()
                await self._changed.wait()
        return len(self._calls)

    async def calls_before(self, call_id: str) -> list[str]:
        """Return the calls before this one in its message; an empty list if the model has sent no message. Raise
        TimeoutError if no message contains the call."""
        if not self._has_message:
            return []
        async with asyncio.timeout(MESSAGE_SECONDS):
            while call_id not in self._calls:
                self._changed.clear()
                await self._changed.wait()
        return self._calls[: self._calls.index(call_id)]

    async def calls_after(self, call_id: str) -> list[str]:
        """Return the calls after this one in its message; an empty list if the model has sent no message. Raise
        TimeoutError if the message doesn't end."""
        if not self._has_message:
            return []
        await self.count_in_message(call_id)
        return self._calls[self._calls.index(call_id) + 1 :]

    def _start_if_all_returned(self) -> None:
        """Start a new message if all calls so far have returned."""
        if self._returned.issuperset(self._calls):
            self._calls, self._returned = [], set()
            self._count_message()

    def _count_message(self) -> None:
        """Count a message, unless it repeats one that was interrupted."""
        self.messages += not self._was_interrupted
        self._was_interrupted = False
