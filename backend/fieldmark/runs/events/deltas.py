"""The model's words while it says them: gathered at the worker, told past the rows, put together again for a reader.

A piece says where it belongs, so that whatever is lost on the way costs the rest of its block and never its sense:

    <run> <number of the event before it> <attempt>.<block> <from> <to> {"type": "text_delta", "text_delta": "…"}
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

from fieldmark.domain.events import TextDeltaEvent, ThinkingDeltaEvent
from fieldmark.runs.parts import BlockDelta, BlockStarted, Part

PIECE_CHARACTERS = 600
"""A notification carries less than 8,000 bytes, and a character takes up to 12 in ASCII JSON."""


@dataclass(slots=True)
class _Block:
    """One that the model is saying. `told` of its characters were told; `again`: to be told from the first."""

    number: int
    kind: str = ""
    parts: list[str] = field(default_factory=list[str])
    told: int = 0
    again: bool = False


class DeltaBuffer:
    """An observer that keeps the block that the model is saying, for whoever wants to be told it meanwhile."""

    def __init__(self, attempt: int) -> None:
        self._attempt = attempt
        self._blocks = 0
        self._block: _Block | None = None
        self._watched_until = 0.0
        self.has_words: Callable[[], object] = lambda: None
        """Called whenever there may be something to take."""

    def watched_for(self, seconds: float) -> None:
        """Somebody watches for so long from now. Who is new among them is to be told the block from its beginning."""
        self._watched_until = time.monotonic() + seconds
        if self._block is not None:
            self._block.again = True
            self._say_so()

    def on_part(self, part: Part) -> None:
        """Take note of a part."""
        match part:
            case BlockStarted():
                self._blocks += 1
                self._block = _Block(self._blocks)
            case BlockDelta(kind="text" | "thinking") if self._block is not None:
                self._block.kind = part.kind
                self._block.parts.append(part.text)
                self._say_so()
            case _:
                pass

    def pass_over(self) -> None:
        """An event comes, most often that of the whole block: nothing more is told of it."""
        self._block = None

    def take(self) -> list[str]:
        """What is to be told now, in pieces."""
        block = self._block
        if block is None or not self._is_watched():
            return []
        words = "".join(block.parts)
        if not words or words.isspace():  # a block that stays blank becomes no event
            return []
        # Where those who heard the rest have come to, there a piece begins for them too.
        begin = 0 if block.again else block.told
        cuts = [*range(begin, block.told, PIECE_CHARACTERS), *range(block.told, len(words), PIECE_CHARACTERS)]
        block.told, block.again = len(words), False
        return [
            # In ASCII: NUL and half a surrogate pass too, and a character is a byte.
            f"{self._attempt}.{block.number} {at} {to} {json.dumps(_delta(block.kind, words[at:to]).flat())}"
            for at, to in pairwise([*cuts, len(words)])
        ]

    def _is_watched(self) -> bool:
        return time.monotonic() < self._watched_until

    def _say_so(self) -> None:
        if self._is_watched():
            self.has_words()


def _delta(kind: str, words: str) -> TextDeltaEvent | ThinkingDeltaEvent:
    return TextDeltaEvent(text_delta=words) if kind == "text" else ThinkingDeltaEvent(thinking_delta=words)


def follows(piece: str) -> int:
    """The number of the event that a piece comes behind."""
    return int(piece.split(" ", 2)[1])


class DeltaAssembler:
    """Puts pieces together for one reader: what passes is the beginning of one block, and continues what has passed
    since the last event."""

    def __init__(self) -> None:
        self._after = -1
        self._place = ("", "0")

    def passes(self, piece: str, after: int) -> str | None:
        """The flat object of a piece as JSON text, if it belongs where the reader is: behind event `after`."""
        _, number, block, at, to, body = piece.split(" ", 5)
        if int(number) != after:
            return None
        if at != "0" if after != self._after else (block, at) != self._place:
            return None
        self._after, self._place = after, (block, to)
        return body
