"""What may be answered to one request: a turn of the model, or one of the faults that a real service has."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fieldmark.offline_model.messages import Block, Turn


@dataclass(frozen=True, slots=True)
class HttpError:
    """The request is refused with this status. `retry_after` is the header's value in seconds."""

    status: int
    retry_after: float | None = None
    message: str = "The script says so."


@dataclass(frozen=True, slots=True)
class Cut:
    """The stream breaks off in the middle of its last block (of nothing, without any), after `seconds` of silence."""

    blocks: Sequence[Block] = ()
    seconds: float = 0


@dataclass(frozen=True, slots=True)
class Held:
    """A turn that pauses in the middle of its first block until it is let go on."""

    blocks: Sequence[Block]
    goes_on: Callable[[], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Paced:
    """A turn that is written in small pieces. Before each of a block, `goes_on` is awaited, with what stands of the
    block already: its words, or a call's arguments."""

    blocks: Sequence[Block]
    goes_on: Callable[[str], Awaitable[Any]]
    characters: int = 4


Fault = HttpError | Cut
Reply = Sequence[Block] | Turn | Held | Paced | Fault
