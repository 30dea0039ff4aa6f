"""A model that plays both agents of a conversation about a document: the one that is talked with, and the one that
extracts the fields for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from fieldmark.offline_model.messages import call, items, text
from fieldmark.testing.script import Script, answers_so_far, conversation

EXTRACTS = [
    [call("extract_fields", {"fields": {"total": 10}, "confidences": {"total": 0.9}})],
    [call("complete_extraction", {"summary": "One total."})],
    [text("Extracted.")],
]


def run() -> Any:
    """A call that has the fields extracted."""
    return call("run_extraction")


def tools_of(body: Any) -> set[str]:
    """The bare names of the tools that a request offers."""
    return {str(tool.get("name")).rsplit("__", 1)[-1] for tool in items(body, "tools")}


def talking(*turns: Any, extracts: Any = None) -> Callable[[Any], Awaitable[Any]]:
    """Whoever is talked with follows the turns, from message to message of a thread; whoever extracts follows a script
    too."""
    talks, other = Script(turns), extracts or Script(EXTRACTS)
    before: dict[str, int] = {}
    used = 0

    async def answer(body: Any) -> Any:
        nonlocal used
        if "run_extraction" not in tools_of(body):
            return await other(body)
        is_first = "conversation begins]" not in str(items(body, "messages")[0])
        done = before.setdefault(conversation(body), 0 if is_first else used)
        used = done + answers_so_far(body) + 1
        return await talks(body, done)

    return answer
