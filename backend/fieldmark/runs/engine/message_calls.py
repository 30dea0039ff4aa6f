"""Which calls the message holds that the model is saying: whoever approves them must know."""

from __future__ import annotations

import asyncio

from fieldmark.runs.parts import (
    AssistantSaid,
    BlockStarted,
    MessageChanged,
    MessageStarted,
    MessageStopped,
    Part,
    ToolCall,
    ToolReturned,
)

MESSAGE_SECONDS = 10
"""How long is waited for the end of a message whose call is at the door."""


class MessageCalls:
    """An observer that counts the calls of the model's current message. `messages`: how many it has begun, without
    those that broke off."""

    def __init__(self) -> None:
        self.messages = 0
        self._calls: list[str] = []
        self._returned: set[str] = set()
        self._heard = False
        self._whole = False
        self._broke_off = False
        self._changed = asyncio.Event()

    def on_part(self, part: Part) -> None:
        match part:
            case MessageStarted():
                self._calls, self._returned, self._whole = [], set(), False
                self._count()
                self._broke_off = True  # until it is whole
            case MessageChanged(stop_reason=str()):
                self._broke_off = False
                return
            case BlockStarted(call_id=str(call_id)):
                self._calls.append(call_id)
            case AssistantSaid():
                # Without pieces where the CLI asked again without streaming; else it repeats what came in pieces.
                for call in (block.id for block in part.blocks if isinstance(block, ToolCall)):
                    if call not in self._calls:
                        self._begin_if_answered()
                        self._calls.append(call)
            case ToolReturned():
                self._returned.add(part.call_id)
                return
            case MessageStopped():
                self._whole = True
            case _:
                return
        self._heard = True
        self._changed.set()

    async def calls_beside(self, call_id: str) -> int:
        """How many calls the message with this call holds, itself included. Raises TimeoutError if it does not end."""
        async with asyncio.timeout(MESSAGE_SECONDS):
            while not (self._whole and call_id in self._calls):
                self._changed.clear()
                await self._changed.wait()
        return len(self._calls)

    async def ahead_of(self, call_id: str) -> list[str]:
        """The calls that stand before this one in its message; none where no model was heard at all. Raises
        TimeoutError if no message with it comes."""
        if not self._heard:
            return []
        async with asyncio.timeout(MESSAGE_SECONDS):
            while call_id not in self._calls:
                self._changed.clear()
                await self._changed.wait()
        return self._calls[: self._calls.index(call_id)]

    def _begin_if_answered(self) -> None:
        """A call behind calls that were all answered stands in a new message."""
        if self._returned.issuperset(self._calls):
            self._calls, self._returned = [], set()
            self._count()

    def _count(self) -> None:
        """Count a message, unless the one before it broke off: the model is asked again."""
        self.messages += not self._broke_off
        self._broke_off = False
