"""A scripted model that plays two agents: the one the user chats with and the extraction agent it starts."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

from fieldmark.offline_model.messages import call, objects_in, text
from fieldmark.testing.script import Script, count_model_answers

EXTRACTS = [
    [call("extract_fields", {"fields": {"total": 10}, "confidences": {"total": 0.9}})],
    [call("complete_extraction", {"summary": "One total."})],
    [text("Extracted.")],
]


def extraction_call() -> Any:
    """Return the chat agent's tool call that starts an extraction run."""
    return call("run_extraction")


def tools_of(body: Any) -> set[str]:
    """Return the names of the tools offered in a model request, without their server prefix."""
    return {str(tool.get("name")).rsplit("__", 1)[-1] for tool in objects_in(body, "tools")}


def chat_script(*turns: Any, extracts: Any = None) -> Callable[[Any], Awaitable[Any]]:
    """Return a model whose chat agent plays `turns` across a thread's messages, and extraction agent `extracts`."""
    chat, extraction = Script(turns), extracts or Script(EXTRACTS)
    before: dict[str, int] = {}
    used = 0

    async def answer(body: Any) -> Any:
        nonlocal used
        if "run_extraction" not in tools_of(body):
            return await extraction(body)
        sent = str(body["messages"])
        run = re.search(r"\[(\w{24}) document begins\]", sent)  # the random marker of this run
        assert run is not None, sent
        done = before.setdefault(run[1], used if f"[{run[1]} conversation begins]" in sent else 0)
        used = done + count_model_answers(body) + 1
        return await chat(body, done)

    return answer
