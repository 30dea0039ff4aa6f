"""The model's words while it says them: gathered at the worker, told past the rows, put together again for a reader.

A piece says where it belongs, so that whatever is lost on the way costs the rest of its block and never its sense:

    <run> <number of the event before it> <attempt>.<block> <from> <to> {"text_delta": "…"}
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any, cast

PIECE_CHARACTERS = 600
"""A notification carries less than 8,000 bytes, and a character takes up to 12 in ASCII JSON."""

_KINDS = {"text_delta": "text", "thinking_delta": "thinking"}


@dataclass(slots=True)
class _Block:
    """One that the model is saying: `waiting` is what was said behind its first `told` characters."""

    name: str
    kind: str
    told: int = 0
    waiting: str = ""


class Draft:
    """What the model is saying in one attempt at a run. Gathers nothing while nobody watches."""

    def __init__(self, attempt: int) -> None:
        self._attempt = attempt
        self._blocks = 0
        self._block: _Block | None = None
        self._watched_until = 0.0

    def watched_for(self, seconds: float) -> None:
        """Somebody watches for so long from now."""
        self._watched_until = time.monotonic() + seconds

    def saw(self, event: dict[str, Any]) -> bool:
        """A partial message; answers whether there is something to tell."""
        match event.get("type"):
            case "content_block_start":
                # From here on or not at all: nobody could tell where the middle of a block belongs.
                self._blocks += 1
                watched = time.monotonic() < self._watched_until
                self._block = _Block(f"{self._attempt}.{self._blocks}", "") if watched else None
            case "content_block_delta" if self._block is not None:
                given: Any = event.get("delta")
                delta = cast(dict[str, Any], given) if isinstance(given, dict) else {}
                kind = delta.get("type")
                words = delta.get(_KINDS.get(kind, "")) if isinstance(kind, str) else None
                if isinstance(kind, str) and isinstance(words, str):
                    self._block.kind = kind
                    self._block.waiting += words
            case _:
                pass
        return self._block is not None and self._is_worth_telling(self._block)

    def pass_over(self) -> None:
        """An event tells more than what waits here: it is not told any more."""
        if self._block is not None:
            self._block.told += len(self._block.waiting)
            self._block.waiting = ""

    def take(self) -> list[str]:
        """What waits, in pieces to be told now."""
        block = self._block
        if block is None or not self._is_worth_telling(block):
            return []
        words, block.waiting = block.waiting, ""
        pieces: list[str] = []
        for at in range(0, len(words), PIECE_CHARACTERS):
            part = words[at : at + PIECE_CHARACTERS]
            # In ASCII: NUL and half a surrogate pass too, and a character is a byte.
            pieces.append(f"{block.name} {block.told} {block.told + len(part)} {json.dumps({block.kind: part})}")
            block.told += len(part)
        return pieces

    @staticmethod
    def _is_worth_telling(block: _Block) -> bool:
        """A block that is blank to its end becomes no event; so neither is its beginning told."""
        return bool(block.waiting) and (block.told > 0 or not block.waiting.isspace())


class Reading:
    """Puts pieces together for one reader: what passes is the beginning of one block, and continues what has passed
    since the last event."""

    def __init__(self) -> None:
        self._after = -1
        self._place = ("", 0)

    def passes(self, piece: str, after: int) -> str | None:
        """The flat object of a piece as JSON text, if it belongs where the reader is: behind event `after`."""
        _, number, block, begin, end, body = piece.split(" ", 5)
        if int(number) != after:
            return None
        if (block, int(begin)) != self._place if self._after == after else begin != "0":
            return None
        self._after, self._place = after, (block, int(end))
        return body
