"""The fields that a call will write, while the model is still writing the call: for readers of deltas, never stored."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import structlog

from fieldmark.domain.events import PreviewEvent
from fieldmark.domain.partial_json import finished_leaves
from fieldmark.runs.events.deltas import MOST_PREVIEWS, DeltaBuffer
from fieldmark.runs.parts import BlockDelta, BlockStarted, MessageStarted, MessageStopped, Part
from fieldmark.tools.toolset import PartialWrite, Toolset

log = structlog.get_logger()

MAX_CHARACTERS = 300_000
"""Of arguments. A longer call is refused."""
SECONDS_BETWEEN = 0.1
"""The arguments are parsed from the beginning each time."""


@dataclass(slots=True)
class _Writing:
    """The call that the model is writing."""

    id: str
    partial_write: PartialWrite
    characters: int = 0
    pieces: list[str] = field(default_factory=list[str])
    shown: set[str] = field(default_factory=set[str])


class CallPreviews:
    """An observer that parses the arguments of a call as they come, and gives the fields that are finished to the
    `draft`.

    A failure in here costs previews and nothing else."""

    def __init__(self, toolset: Toolset, draft: DeltaBuffer) -> None:
        self._toolset = toolset
        self._draft = draft
        self._call: _Writing | None = None
        self._next_look: asyncio.TimerHandle | None = None

    def on_part(self, part: Part) -> None:
        match part:
            case MessageStarted() | MessageStopped():
                self._call = None
            case BlockStarted():
                tool = self._toolset.tools.get(part.tool or "")
                write = None if tool is None else tool.partial_write
                self._call = None if write is None else _Writing(str(part.call_id), write)
            case BlockDelta(kind="arguments") if self._call is not None:
                self._call.characters += len(part.text)
                self._call.pieces.append(part.text)
                if self._call.characters > MAX_CHARACTERS or len(self._call.shown) >= MOST_PREVIEWS:
                    self._call = None
                elif self._draft.is_told and self._next_look is None:
                    self._next_look = asyncio.get_running_loop().call_later(SECONDS_BETWEEN, self._look)
            case _:
                pass

    def _look(self) -> None:
        self._next_look = None
        if (call := self._call) is None:
            return
        call.pieces = ["".join(call.pieces)]
        try:
            for name, value in call.partial_write(finished_leaves(call.pieces[0])):
                if name not in call.shown:
                    call.shown.add(name)
                    self._draft.preview(PreviewEvent(call_id=call.id, path=name, value=value))
        except Exception:
            log.exception("the arguments of a call could not be previewed")
