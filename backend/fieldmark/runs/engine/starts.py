"""How a worker begins with a run that it has claimed: a value, not a boolean."""

from __future__ import annotations

from dataclasses import dataclass

from fieldmark.agents.spec import Prompt


@dataclass(frozen=True, slots=True)
class Fresh:
    """A new conversation, with its first message."""

    prompt: Prompt


@dataclass(frozen=True, slots=True)
class NextMessage:
    """The next turn of a thread: its conversation goes on with one message more."""

    prompt: Prompt


@dataclass(frozen=True, slots=True)
class AfterDecision:
    """The conversation stopped at a call that was decided meanwhile, or whose child runs have ended: without a word the
    CLI asks for that call again and is given its recorded result."""

    call_id: str


@dataclass(frozen=True, slots=True)
class AfterCrash:
    """The conversation was broken off: a message says so, and what has been done since."""

    prompt: Prompt


RunStart = Fresh | NextMessage | AfterDecision | AfterCrash


class NotResumed(Exception):
    """The CLI did not go on where its conversation stopped. Nothing is lost by beginning a new one: what was decided
    has been done, and the first message says so."""
