"""A model that plays both agents of a conversation about a document: the one that is talked with, and the one that
extracts the fields for it."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

from fieldmark.offline_model.messages import call, items, text
from fieldmark.testing.script import Script, answers_so_far

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
        sent = str(body["messages"])
        run = re.search(r"\[(\w{24}) document begins\]", sent)  # a word of the run's own
        assert run is not None, sent
        done = before.setdefault(run[1], used if f"[{run[1]} conversation begins]" in sent else 0)
        used = done + answers_so_far(body) + 1
        return await talks(body, done)

    return answer
