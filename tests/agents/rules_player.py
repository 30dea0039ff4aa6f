"""Plays a conversation with the offline model's rules, without a CLI. Tool results come from a script."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from fieldmark.offline_model.messages import Call, Text
from fieldmark.tools.toolset import model_text

BOUNDARY_WORD = "0123456789abcdef01234567"
CallsByMessage = list[tuple[str, dict[str, Any]]]
ToolResults = dict[str, list[tuple[str, str, Any]]]
"""(text, code, data) of each tool's results, in order. A code that ends with ! is an error."""


def enclose(texts: dict[str, str]) -> str:
    """Return untrusted texts enclosed in boundary lines, as in a message."""
    return "\n".join(
        f"[{BOUNDARY_WORD} {name} begins]\n{text.rstrip()}\n[{BOUNDARY_WORD} {name} ends]"
        for name, text in texts.items()
    )


def play_rules(
    rules: Callable[[Any], list[Any] | None],
    tools: Iterable[str],
    task: str,
    answers: ToolResults,
    before: Iterable[dict[str, Any]] = (),
) -> tuple[list[CallsByMessage], str]:
    """Return the calls of each message, and the final text. The conversation ends at a call without a scripted
    result."""
    offered = [{"name": f"mcp__fieldmark__{name}"} for name in tools]
    messages: list[dict[str, Any]] = [*before, {"role": "user", "content": task}]
    calls_by_message: list[CallsByMessage] = []
    remaining = {tool: list(text) for tool, text in answers.items()}
    while True:
        turn = rules({"messages": messages, "tools": offered})
        assert turn is not None
        calls = [block for block in turn if isinstance(block, Call)]
        if not calls:
            assert isinstance(turn[-1], Text)
            return calls_by_message, turn[-1].text
        calls_by_message.append([(one.name, json.loads(one.arguments)) for one in calls])
        results: list[dict[str, Any]] = []
        for one in calls:
            if not remaining.get(one.name):
                return calls_by_message, ""
            text, code, data = remaining[one.name].pop(0)
            content = model_text(text, code.strip("!"), data)
            is_error = code.endswith("!")
            results.append({"type": "tool_result", "tool_use_id": one.id, "content": content, "is_error": is_error})
        used = [{"type": "tool_use", "id": one.id, "name": f"mcp__fieldmark__{one.name}", "input": {}} for one in calls]
        messages += [{"role": "assistant", "content": used}, {"role": "user", "content": results}]
