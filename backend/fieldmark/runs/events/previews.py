"""What a call will write, while the model is still writing the call: found for whoever watches, and kept nowhere."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self

import structlog

from fieldmark.domain.partial_json import PartialJson, WrittenLeaf
from fieldmark.errors import FieldmarkError
from fieldmark.runs.events.deltas import DeltaBuffer
from fieldmark.runs.parts import BlockDelta, BlockStarted, MessageStarted, MessageStopped, Part
from fieldmark.tools.context import RunContext
from fieldmark.tools.toolset import Foresee, Toolset

log = structlog.get_logger()

MAX_CHARACTERS = 300_000
"""Of arguments: a call with more is refused."""
LEAVES_AT_ONCE = 25
"""How many leaves are looked for in one turn, so that no write of the organisation waits long behind them."""


@dataclass(slots=True)
class _Writing:
    """The call that the model is writing. `pieces` of it were not read yet, `new` leaves not looked for."""

    id: str
    foresee: Foresee
    characters: int = 0
    pieces: list[str] = field(default_factory=list[str])
    json: PartialJson = field(default_factory=PartialJson)
    new: list[WrittenLeaf] = field(default_factory=list[WrittenLeaf])
    before: list[WrittenLeaf] = field(default_factory=list[WrittenLeaf])
    is_ready: bool = False


class CallPreviews:
    """An observer that reads the arguments of a call as they come, has its tool foresee what their leaves will be, and
    gives that to the `draft`. Where nobody watches it only keeps what came, for whoever may come.

    What fails here costs previews, and nothing else."""

    def __init__(self, toolset: Toolset, context: RunContext[Any], draft: DeltaBuffer) -> None:
        self._toolset = toolset
        self._context = context
        self._draft = draft
        self._call: _Writing | None = None
        self._wanted = asyncio.Event()
        self._worker: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._worker = asyncio.create_task(self._work())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._worker is not None
        self._worker.cancel()
        await asyncio.gather(self._worker, return_exceptions=True)

    def on_part(self, part: Part) -> None:
        """Take note of a part."""
        match part:
            case MessageStarted() | MessageStopped():
                self._call = None
            case BlockStarted():
                tool = self._toolset.tools.get(part.tool or "")
                foresee = None if tool is None else tool.foresee
                self._call = None if foresee is None else _Writing(str(part.call_id), foresee)
                self._wake()
            case BlockDelta(kind="arguments") if self._call is not None:
                self._call.characters += len(part.text)
                if self._call.characters > MAX_CHARACTERS:
                    self._call = None
                else:
                    self._call.pieces.append(part.text)
                    self._wake()
            case _:
                pass

    def _wake(self) -> None:
        if self._call is not None and self._draft.is_watched:
            self._wanted.set()

    async def _work(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            while (call := self._call) is not None and await self._looked(call):
                pass

    async def _looked(self, call: _Writing) -> bool:
        """Look for the next leaves of a call; False where there is none."""
        pieces, call.pieces = call.pieces, []
        for piece in pieces:
            call.new += call.json.feed(piece)
        if call.is_ready and not call.new:
            return False
        new, call.new = call.new[:LEAVES_AT_ONCE], call.new[LEAVES_AT_ONCE:]
        call.is_ready = True
        try:
            for event in await call.foresee(replace(self._context, call_id=call.id), new, call.before):
                self._draft.preview(event)
        except FieldmarkError:
            pass  # too much of the organisation waits, say: what the call itself meets is told then
        except Exception:
            log.exception("nothing could be foreseen")
        call.before += new
        return True
