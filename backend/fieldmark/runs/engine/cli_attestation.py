"""What the CLI must say of itself before it may begin: our tools, and nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Set
from typing import Any, cast

from claude_agent_sdk import AssistantMessage, Message, SystemMessage

from fieldmark.runs.engine.tool_server import NAME, TOOL_PREFIX
from fieldmark.tools.toolset import Toolset


class SandboxViolation(Exception):
    """The CLI has more than our tools, or lets calls past the permission hook: the run must not go on."""


# A CLI that can be told to clear its conversation has all of these. None is ever called: nothing but our own `/clear`
# reaches it as a command, and the model has no tool for them. One more would be one that nobody has looked at.
# fmt: off
COMMANDS = frozenset((
    "__remote-workflow", "agents", "auto-mode-setup", "autocompact", "clear", "color", "compact", "config",
    "context", "effort", "fast", "focus", "goal", "heapdump", "init", "insights", "list-agents", "mcp", "model",
    "output-style", "recap", "reload-plugins", "reload-skills", "rename", "security-review", "team-onboarding",
    "usage", "workflow-launch-exec",
))
# fmt: on


async def sealed(
    messages: AsyncIterator[Message], toolset: Toolset, commands: Set[str] = frozenset()
) -> AsyncIterator[Message]:
    """Yield the same messages. Raise SandboxViolation if the CLI has anything but the toolset and these commands, or
    does not say what it has."""
    checked = False
    async for message in messages:
        if isinstance(message, SystemMessage) and message.subtype == "init":
            check_init(message.data, toolset, commands)
            checked = True
        elif isinstance(message, AssistantMessage) and not checked:
            raise SandboxViolation("The agent's CLI did not say which tools it has.")
        yield message


def check_init(init: dict[str, Any], toolset: Toolset, commands: Set[str]) -> None:
    """Raise SandboxViolation if an init message tells of anything besides the toolset and these commands."""
    tools = {TOOL_PREFIX + name for name in toolset.tools} ^ set(init.get("tools", []))
    faults = [f"the tools {sorted(tools)[:5]}"] if tools else []
    # A list that is not there may hold anything: only an empty one is empty.
    faults += [f"its {kind}" for kind in ("skills", "agents") if init.get(kind) != []]
    if not isinstance(said := init.get("slash_commands"), list) or not set(cast(list[Any], said)) <= commands:
        faults.append("its slash_commands")
    if [server.get("name") for server in init.get("mcp_servers", [])] != [NAME]:
        faults.append("its servers")
    if any(plugin.get("path") != "builtin" for plugin in init.get("plugins", [])):
        faults.append("its plugins")
    if init.get("permissionMode") != "dontAsk":
        faults.append("its permission mode")
    if faults:
        raise SandboxViolation(f"The agent's CLI is not sealed: it differs in {', '.join(faults)}.")
