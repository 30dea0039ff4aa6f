"""How many calls the message holds that the model is saying: whoever admits them must know."""

from __future__ import annotations

import asyncio

from fieldmark.runs.parts import BlockStarted, MessageStarted, MessageStopped, Part

MESSAGE_SECONDS = 10
"""How long is waited for the end of a message whose call is at the door."""


class MessageCalls:
    """An observer that counts the calls of the model's current message."""

    def __init__(self) -> None:
        self._calls: list[str] = []
        self._whole = False
        self._changed = asyncio.Event()

    def on_part(self, part: Part) -> None:
        """Take note of a part."""
        match part:
            case MessageStarted():
                self._calls, self._whole = [], False
            case BlockStarted(call_id=str(call_id)):
                self._calls.append(call_id)
            case MessageStopped():
                self._whole = True
            case _:
                return
        self._changed.set()

    async def calls_beside(self, call_id: str) -> int:
        """How many calls the message with this call holds, itself included. Raises TimeoutError if it does not end."""
        async with asyncio.timeout(MESSAGE_SECONDS):
            while not (self._whole and call_id in self._calls):
                self._changed.clear()
                await self._changed.wait()
        return len(self._calls)
