"""Checks the init message of a CLI: it must list our tools and nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Set
from typing import Any, cast

from claude_agent_sdk import AssistantMessage, Message, SystemMessage

from fieldmark.runs.engine.tool_server import SERVER_NAME, TOOL_PREFIX
from fieldmark.tools.toolset import Toolset


class SandboxViolation(Exception):
    """The CLI has more than our tools, or a call bypassed the permission hook. Ends the run."""


# The slash commands of a CLI that accepts `/clear`. The others can't be called: every other prompt is sent as plain
# text, and the model has no tool for them. Review each new command before adding it.
# fmt: off
COMMANDS = frozenset((
    "__remote-workflow", "agents", "auto-mode-setup", "autocompact", "clear", "color", "compact", "config",
    "context", "effort", "fast", "focus", "goal", "heapdump", "init", "insights", "list-agents", "mcp", "model",
    "output-style", "recap", "reload-plugins", "reload-skills", "rename", "security-review", "team-onboarding",
    "usage", "workflow-launch-exec",
))
# fmt: on


async def checked_messages(
    messages: AsyncIterator[Message], toolset: Toolset, commands: Set[str] = frozenset()
) -> AsyncIterator[Message]:
    """Yield the messages unchanged. Raise SandboxViolation if the init message lists anything besides the toolset and
    these commands, or if it is missing."""
    checked = False
    async for message in messages:
        if isinstance(message, SystemMessage) and message.subtype == "init":
            check_init(message.data, toolset, commands)
            checked = True
        elif isinstance(message, AssistantMessage) and not checked:
            raise SandboxViolation(
                "The agent's CLI did not list its tools. Reinstall claude-agent-sdk in the required version."
            )
        yield message


def check_init(init: dict[str, Any], toolset: Toolset, commands: Set[str]) -> None:
    """Raise SandboxViolation if an init message lists anything besides the toolset and these commands."""
    tools = {TOOL_PREFIX + name for name in toolset.tools} ^ set(init.get("tools", []))
    faults = [f"the tools {sorted(tools)[:5]}"] if tools else []
    # A missing list is a fault too: it doesn't prove that there are none.
    faults += [f"its {kind}" for kind in ("skills", "agents") if init.get(kind) != []]
    if (
        not isinstance(commands_listed := init.get("slash_commands"), list)
        or not set(cast(list[Any], commands_listed)) <= commands
    ):
        faults.append("its slash_commands")
    if [server.get("name") for server in init.get("mcp_servers", [])] != [SERVER_NAME]:
        faults.append("its servers")
    if any(plugin.get("path") != "builtin" for plugin in init.get("plugins", [])):
        faults.append("its plugins")
    if init.get("permissionMode") != "dontAsk":
        faults.append("its permission mode")
    if faults:
        raise SandboxViolation(
            f"The agent's CLI has more or less than Fieldmark's tools. Unexpected: {', '.join(faults)}."
        )
