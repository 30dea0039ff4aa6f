"""Streams the model's text and call previews to readers before a block is complete. Nothing is stored.

Chunks are sent as notifications, which can be lost. Each chunk has its position, so that after a lost chunk a reader
skips the rest of the block instead of showing wrong text:

    <run> <number of the event before it> <attempt>.<block> <from> <to> {"type": "text_delta", "text_delta": "…"}

`from` and `to` are character positions; those of a preview are 0. Chunks of a child run are also sent to readers of its
parent: `<run>` is then the parent, and the child is named before the attempt (`<run>/<attempt>…`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from fieldmark.domain.events import (
    Event,
    PreviewEvent,
    PreviewWithdrawnEvent,
    TextDeltaEvent,
    ThinkingDeltaEvent,
    ToolEvent,
    ToolResultEvent,
)
from fieldmark.runs.message_parts import BlockDelta, BlockStarted, MessagePart, MessageStarted, ToolReturned

CHUNK_CHARACTERS = 600
"""A notification is limited to 8,000 bytes, and a character takes up to 12 bytes in ASCII JSON."""
PREVIEW_BYTES = 7_500
"""A longer preview is not sent."""
MAX_PREVIEWS = 500
"""Limit of previews per call."""
_PREVIEW = "preview"
_WITHDRAWN = "withdrawn"


@dataclass(slots=True)
class _ReadPosition:
    """How far one run's text was read: the number of the last event, and the block with the next position in it."""

    after: int = -1
    position: tuple[str, str] = ("", "0")


@dataclass(slots=True)
class _StreamedBlock:
    """The block that the model is writing. `sent` is the number of characters sent."""

    number: int
    kind: str = ""
    parts: list[str] = field(default_factory=list[str])
    sent: int = 0


@dataclass(slots=True)
class _StreamedCall:
    """A call that the model is writing, or that has not returned yet. `previews` are sent next; `sent` is the number of
    previews sent."""

    previews: list[str] = field(default_factory=list[str])
    is_complete: bool = False
    sent: int = 0


class DeltaBuffer:
    """An observer that buffers the model's text and call previews until they are sent to readers. If `is_published` is
    false, nothing is sent."""

    def __init__(self, attempt: int, *, is_published: bool = True) -> None:
        self._attempt = attempt
        self.is_published = is_published
        self._blocks = 0
        self._block: _StreamedBlock | None = None
        self._calls: dict[str, _StreamedCall] = {}
        self._withdrawn: list[str] = []
        self.on_change: Callable[[], object] = lambda: None
        """Called when there may be new chunks."""

    def on_part(self, part: MessagePart) -> None:
        match part:
            case MessageStarted():
                while self._calls:  # their message was interrupted: they will never run
                    self._withdraw(*self._calls.popitem())
            case BlockStarted():
                self._blocks += 1
                self._block = _StreamedBlock(self._blocks)
                if part.call_id is not None:
                    self._calls[part.call_id] = _StreamedCall()
            case BlockDelta(kind="text" | "thinking") if self._block is not None:
                self._block.kind = part.kind
                self._block.parts.append(part.text)
                self._notify()
            case ToolReturned():
                self._calls.pop(part.call_id, None)
            case _:
                pass

    def preview(self, event: PreviewEvent) -> None:
        """Add a preview of a field, unless its call is complete: then the call's event has all fields."""
        call = self._calls.get(event.call_id)
        if call is None or call.is_complete or call.sent + len(call.previews) == MAX_PREVIEWS:
            return
        body = json.dumps(event.flat())
        if len(body) <= PREVIEW_BYTES:
            call.previews.append(f"{self._attempt}.{_PREVIEW} 0 0 {body}")
            self._notify()

    def withdraw_all(self) -> None:
        """Withdraw the previews of earlier attempts."""
        self._withdrawn.append(self._withdrawal(None))

    def finish_block(self, event: Event | None = None) -> None:
        """Send nothing more of the current block, because an event follows. If it is the event of a call, send no more
        previews of that call; withdraw them if the call failed."""
        self._block = None
        if isinstance(event, ToolEvent | ToolResultEvent) and (call := self._calls.get(event.call_id)) is not None:
            call.is_complete = True
            call.previews = []
            if event.status == "error":
                self._withdraw(event.call_id, call)

    def take_chunks(self) -> list[str]:
        """Remove and return the chunks that are to be sent now."""
        chunks, self._withdrawn = self._withdrawn, []
        if not self.is_published:
            return []
        for call in self._calls.values():
            chunks += call.previews
            call.sent += len(call.previews)
            call.previews = []
        return chunks + self._text_chunks()

    def _text_chunks(self) -> list[str]:
        block = self._block
        if block is None:
            return []
        text = "".join(block.parts)
        if not text or text.isspace():  # a blank block gets no event
            return []
        cuts = range(block.sent, len(text), CHUNK_CHARACTERS)
        block.sent = len(text)
        return [
            # As ASCII JSON: escapes NUL and surrogates, and one character is one byte.
            f"{self._attempt}.{block.number} {at} {to} {json.dumps(_delta(block.kind, text[at:to]).flat())}"
            for at, to in pairwise([*cuts, len(text)])
        ]

    def _withdraw(self, call_id: str, call: _StreamedCall) -> None:
        if call.sent:
            self._withdrawn.append(self._withdrawal(call_id))
            self._notify()

    def _withdrawal(self, call_id: str | None) -> str:
        body = json.dumps(PreviewWithdrawnEvent(call_id=call_id).flat())
        return f"{self._attempt}.{_WITHDRAWN} 0 0 {body}"

    def _notify(self) -> None:
        if self.is_published:
            self.on_change()


def _delta(kind: str, text: str) -> TextDeltaEvent | ThinkingDeltaEvent:
    return TextDeltaEvent(text_delta=text) if kind == "text" else ThinkingDeltaEvent(thinking_delta=text)


def preceding_event(chunk: str) -> int:
    """Return the number of the event that a chunk follows."""
    return int(chunk.split(" ", 2)[1])


class DeltaAssembler:
    """Filters the chunks for one reader, for the run and each of its child runs. Text is accepted from the start of a
    block and while it continues without a gap; the next event starts over."""

    def __init__(self) -> None:
        self._positions: dict[str, _ReadPosition] = {}

    def accept_all(self, chunks: Iterable[str], after: int) -> Iterator[str]:
        """Yield the flat objects of the accepted chunks, as JSON text."""
        for chunk in chunks:
            if (body := self.accept(chunk, after)) is not None:
                yield body

    def accept(self, chunk: str, after: int) -> str | None:
        """Return the flat object of a chunk as JSON text, if the chunk follows event `after` and what was accepted."""
        _, number, sent, at, to, body = chunk.split(" ", 5)
        part, _, block = sent.rpartition("/")
        kind = block.partition(".")[2]
        if kind == _WITHDRAWN:
            return body  # valid at any time: a withdrawn call never returns
        if int(number) != after:
            return None
        if kind == _PREVIEW:
            return body
        position = self._positions.setdefault(part, _ReadPosition())
        if at != "0" if after != position.after else (block, at) != position.position:
            return None
        position.after, position.position = after, (block, to)
        return body
