"""The real Agent SDK and its CLI against an offline model, with the extraction agent's tools kept in memory."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from claude_agent_sdk import (
    AssistantMessage,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    HookMatcher,
    ResultMessage,
    StreamEvent,
    TextBlock,
    ThinkingBlock,
    create_sdk_mcp_server,
    tool,
)

from fieldmark.agents.extraction.agent import EXTRACTION

ANY = {"type": "object", "properties": {}, "additionalProperties": True}


@dataclass
class Desk:
    """What the in-memory tools serve and what was done with them."""

    document: str = ""
    extraction: dict[str, Any] = field(default_factory=dict)
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    deltas: set[str] = field(default_factory=set)
    answer: str = ""
    result: ResultMessage | None = None

    def answer_of(self, name: str) -> str:
        match name:
            case "get_document_text":
                return self.document
            case "get_current_extraction":
                return json.dumps({"extracted_fields": self.extraction})
            case _:
                return "Done."

    def tools(self) -> list[Any]:
        def one(name: str) -> Any:
            @tool(name, name.replace("_", " "), ANY)
            async def run(arguments: dict[str, Any]) -> dict[str, Any]:
                self.calls.append((name, arguments))
                return {"content": [{"type": "text", "text": self.answer_of(name)}]}

            return run

        return [one(name) for name in EXTRACTION.toolset.tools]


async def allow(*_: Any) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow"}}


async def converse(desk: Desk, base_url: str, prompt: str, where: Path) -> Desk:
    """One run of the CLI over `prompt`; `where` is an empty folder of its own."""
    options = ClaudeAgentOptions(
        tools=[],
        allowed_tools=[],
        permission_mode="dontAsk",
        strict_mcp_config=True,
        setting_sources=[],
        skills=[],
        plugins=[],
        verbatim_prompts=True,
        include_partial_messages=True,
        max_turns=30,
        system_prompt="You extract fields.",
        model="claude-sonnet-5",
        cwd=where,
        mcp_servers={"fieldmark": create_sdk_mcp_server("fieldmark", tools=desk.tools())},
        hooks={"PreToolUse": [HookMatcher(matcher=None, hooks=[allow], timeout=20)]},
        extra_args={"disable-slash-commands": None, "restricted": None, "system-prompt-snapshot": "off"},
        env={
            "ANTHROPIC_BASE_URL": base_url,
            "ANTHROPIC_API_KEY": "offline",
            "CLAUDE_CONFIG_DIR": str(where / "config"),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
        },
    )
    async with ClaudeSDKClient(options) as client:
        await client.query(prompt)
        async for message in client.receive_response():
            match message:
                case StreamEvent():
                    desk.deltas.add(str(message.event.get("delta", {}).get("type")))
                case AssistantMessage():
                    for block in message.content:
                        if isinstance(block, TextBlock):
                            desk.answer = block.text
                        elif isinstance(block, ThinkingBlock):
                            desk.thoughts.append(block.thinking)
                case ResultMessage():
                    desk.result = message
                case _:
                    pass
    return desk
