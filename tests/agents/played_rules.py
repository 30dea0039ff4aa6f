"""A conversation with the offline model's rules, without a CLI: each tool answers by a script."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from fieldmark.offline_model.messages import Call, Text
from fieldmark.tools.toolset import model_text

WORD = "0123456789abcdef01234567"
Made = list[tuple[str, dict[str, Any]]]
Answers = dict[str, list[tuple[str, str, Any]]]
"""What each tool says, in turn: its words, its code and its data. Codes with a ! are errors."""


def fenced(texts: dict[str, str]) -> str:
    """Foreign texts as they stand in a message."""
    return "\n".join(f"[{WORD} {what} begins]\n{text.rstrip()}\n[{WORD} {what} ends]" for what, text in texts.items())


def play(
    rules: Callable[[Any], list[Any] | None],
    tools: Iterable[str],
    task: str,
    answers: Answers,
    before: Iterable[dict[str, Any]] = (),
) -> tuple[list[Made], str]:
    """The calls of each message, and the closing words. A call that nothing answers for ends the conversation."""
    offered = [{"name": f"mcp__fieldmark__{name}"} for name in tools]
    messages: list[dict[str, Any]] = [*before, {"role": "user", "content": task}]
    made: list[Made] = []
    left = {tool: list(said) for tool, said in answers.items()}
    while True:
        turn = rules({"messages": messages, "tools": offered})
        assert turn is not None
        calls = [block for block in turn if isinstance(block, Call)]
        if not calls:
            assert isinstance(turn[-1], Text)
            return made, turn[-1].text
        made.append([(one.name, json.loads(one.arguments)) for one in calls])
        results: list[dict[str, Any]] = []
        for one in calls:
            if not left.get(one.name):
                return made, ""
            said, code, data = left[one.name].pop(0)
            words = model_text(said, code.strip("!"), data)
            is_error = code.endswith("!")
            results.append({"type": "tool_result", "tool_use_id": one.id, "content": words, "is_error": is_error})
        used = [{"type": "tool_use", "id": one.id, "name": f"mcp__fieldmark__{one.name}", "input": {}} for one in calls]
        messages += [{"role": "assistant", "content": used}, {"role": "user", "content": results}]
