"""What the model says while it says it: gathered at the worker, told past the rows, put together again for a reader.

A piece says where it belongs, so that whatever is lost on the way costs the rest of its block and never its sense:

    <run> <number of the event before it> <attempt>.<block> <from> <to> {"type": "text_delta", "text_delta": "…"}

A preview has no place. Any of them may be missing. Whoever follows a run
above hears it too: that run is the first word, and the run that says it stands before the attempt (`<run>/<attempt>…`).
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
from fieldmark.runs.parts import BlockDelta, BlockStarted, MessageStarted, Part, ToolReturned

PIECE_CHARACTERS = 600
"""A notification carries less than 8,000 bytes, and a character takes up to 12 in ASCII JSON."""
PREVIEW_BYTES = 7_500
"""A field whose preview is longer has none."""
MOST_PREVIEWS = 500
"""How many fields of one call have previews."""
_PREVIEW = "preview"
_WITHDRAWN = "withdrawn"


@dataclass(slots=True)
class _Heard:
    """What has passed of one run's words: the event that they came behind, the block and the place in it."""

    after: int = -1
    place: tuple[str, str] = ("", "0")


@dataclass(slots=True)
class _Block:
    """One that the model is saying. `told` of its characters were told."""

    number: int
    kind: str = ""
    parts: list[str] = field(default_factory=list[str])
    told: int = 0


@dataclass(slots=True)
class _Call:
    """One that the model is writing, or that has not ended yet. `told`: number of previews that were told; `previews`
    are told next."""

    previews: list[str] = field(default_factory=list[str])
    is_whole: bool = False
    told: int = 0


class DeltaBuffer:
    """An observer that keeps what the model is saying until readers are told it: the words of a block, the fields of a
    call. With `is_told` false nobody is told."""

    def __init__(self, attempt: int, *, is_told: bool = True) -> None:
        self._attempt = attempt
        self.is_told = is_told
        self._blocks = 0
        self._block: _Block | None = None
        self._calls: dict[str, _Call] = {}
        self._withdrawn: list[str] = []
        self.has_words: Callable[[], object] = lambda: None
        """Called whenever there may be something to take."""

    def on_part(self, part: Part) -> None:
        match part:
            case MessageStarted():
                while self._calls:  # the answer that they stood in broke off: they never come
                    self._withdraw(*self._calls.popitem())
            case BlockStarted():
                self._blocks += 1
                self._block = _Block(self._blocks)
                if part.call_id is not None:
                    self._calls[part.call_id] = _Call()
            case BlockDelta(kind="text" | "thinking") if self._block is not None:
                self._block.kind = part.kind
                self._block.parts.append(part.text)
                self._say_so()
            case ToolReturned():
                self._calls.pop(part.call_id, None)
            case _:
                pass

    def preview(self, event: PreviewEvent) -> None:
        """Take note of a field, unless its call is whole: then its event has all of them, and its end may be told."""
        call = self._calls.get(event.call_id)
        if call is None or call.is_whole or call.told + len(call.previews) == MOST_PREVIEWS:
            return
        body = json.dumps(event.flat())
        if len(body) <= PREVIEW_BYTES:
            call.previews.append(f"{self._attempt}.{_PREVIEW} 0 0 {body}")
            self._say_so()

    def withdraw_all(self) -> None:
        """Take back what an earlier attempt may have foreseen."""
        self._withdrawn.append(self._withdrawal(None))

    def pass_over(self, event: Event | None = None) -> None:
        """An event comes, most often that of the whole block: nothing more is told of it. Nor of the fields of a call
        that it tells of."""
        self._block = None
        if isinstance(event, ToolEvent | ToolResultEvent) and (call := self._calls.get(event.call_id)) is not None:
            call.is_whole = True
            call.previews = []
            if event.status == "error":
                self._withdraw(event.call_id, call)

    def take(self) -> list[str]:
        """What is to be told now, in pieces."""
        pieces, self._withdrawn = self._withdrawn, []
        if not self.is_told:
            return []
        for call in self._calls.values():
            pieces += call.previews
            call.told += len(call.previews)
            call.previews = []
        return pieces + self._words()

    def _words(self) -> list[str]:
        block = self._block
        if block is None:
            return []
        words = "".join(block.parts)
        if not words or words.isspace():  # a block that stays blank becomes no event
            return []
        cuts = range(block.told, len(words), PIECE_CHARACTERS)
        block.told = len(words)
        return [
            # In ASCII: NUL and half a surrogate pass too, and a character is a byte.
            f"{self._attempt}.{block.number} {at} {to} {json.dumps(_delta(block.kind, words[at:to]).flat())}"
            for at, to in pairwise([*cuts, len(words)])
        ]

    def _withdraw(self, call_id: str, call: _Call) -> None:
        if call.told:
            self._withdrawn.append(self._withdrawal(call_id))
            self._say_so()

    def _withdrawal(self, call_id: str | None) -> str:
        body = json.dumps(PreviewWithdrawnEvent(call_id=call_id).flat())
        return f"{self._attempt}.{_WITHDRAWN} 0 0 {body}"

    def _say_so(self) -> None:
        if self.is_told:
            self.has_words()


def _delta(kind: str, words: str) -> TextDeltaEvent | ThinkingDeltaEvent:
    return TextDeltaEvent(text_delta=words) if kind == "text" else ThinkingDeltaEvent(thinking_delta=words)


def follows(piece: str) -> int:
    """The number of the event that a piece comes behind."""
    return int(piece.split(" ", 2)[1])


class DeltaAssembler:
    """Puts pieces together for one reader. Of words there passes what is the beginning of one block, and continues what
    has passed since the last event. So too of each run that is part of the one that is read."""

    def __init__(self) -> None:
        self._heard: dict[str, _Heard] = {}

    def passing(self, pieces: Iterable[str], after: int) -> Iterator[str]:
        """What passes of several pieces, as flat objects."""
        for piece in pieces:
            if (body := self.passes(piece, after)) is not None:
                yield body

    def passes(self, piece: str, after: int) -> str | None:
        """The flat object of a piece as JSON text, if it belongs where the reader is: behind event `after`."""
        _, number, told, at, to, body = piece.split(" ", 5)
        part, _, block = told.rpartition("/")
        kind = block.partition(".")[2]
        if kind == _WITHDRAWN:
            return body  # however late: no call comes back
        if int(number) != after:
            return None
        if kind == _PREVIEW:
            return body
        heard = self._heard.setdefault(part, _Heard())
        if at != "0" if after != heard.after else (block, at) != heard.place:
            return None
        heard.after, heard.place = after, (block, to)
        return body
