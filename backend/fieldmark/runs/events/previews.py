"""Previews of the fields that a call will write, while the model is still writing the call. They are never stored."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import structlog

from fieldmark.domain.events import PreviewEvent
from fieldmark.domain.partial_json import finished_leaves
from fieldmark.runs.events.deltas import MAX_PREVIEWS, DeltaBuffer
from fieldmark.runs.message_parts import BlockDelta, BlockStarted, MessagePart, MessageStarted, MessageStopped
from fieldmark.tools.toolset import PartialWrite, Toolset

log = structlog.get_logger()

MAX_CHARACTERS = 300_000
"""Limit of a call's arguments. A longer call is refused."""
SECONDS_BETWEEN = 0.1
"""The arguments are parsed from the start each time."""


@dataclass(slots=True)
class _PartialCall:
    id: str
    partial_write: PartialWrite
    characters: int = 0
    chunks: list[str] = field(default_factory=list[str])
    shown: set[str] = field(default_factory=set[str])


class CallPreviews:
    """An observer that parses the arguments of a call while they stream in, and adds complete fields to `deltas`.

    An exception in the parser is logged and only costs previews."""

    def __init__(self, toolset: Toolset, deltas: DeltaBuffer) -> None:
        self._toolset = toolset
        self._deltas = deltas
        self._call: _PartialCall | None = None
        self._next_parse: asyncio.TimerHandle | None = None

    def on_part(self, part: MessagePart) -> None:
        match part:
            case MessageStarted() | MessageStopped():
                self._call = None
            case BlockStarted():
                tool = self._toolset.tools.get(part.tool or "")
                write = None if tool is None else tool.partial_write
                self._call = None if write is None else _PartialCall(str(part.call_id), write)
            case BlockDelta(kind="arguments") if self._call is not None:
                self._call.characters += len(part.text)
                self._call.chunks.append(part.text)
                if self._call.characters > MAX_CHARACTERS or len(self._call.shown) >= MAX_PREVIEWS:
                    self._call = None
                elif self._deltas.is_published and self._next_parse is None:
                    self._next_parse = asyncio.get_running_loop().call_later(SECONDS_BETWEEN, self._parse)
            case _:
                pass

    def _parse(self) -> None:
        self._next_parse = None
        if (call := self._call) is None:
            return
        call.chunks = ["".join(call.chunks)]
        try:
            for name, value in call.partial_write(finished_leaves(call.chunks[0])):
                if name not in call.shown:
                    call.shown.add(name)
                    self._deltas.preview(PreviewEvent(call_id=call.id, path=name, value=value))
        except Exception:
            log.exception("the arguments of a call could not be previewed")
