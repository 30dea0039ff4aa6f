"""What the CLI must say of itself before it may begin: our tools, and nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

from claude_agent_sdk import AssistantMessage, Message, SystemMessage

from fieldmark.runs.options import SERVER, TOOL_PREFIX
from fieldmark.tools.toolkit import Toolkit


class Unsealed(Exception):
    """The CLI has more than our tools, or lets calls past the gate: the run must not go on."""


async def sealed(
    messages: AsyncIterator[Message], toolkit: Toolkit, check_calls: Callable[[], None]
) -> AsyncIterator[Message]:
    """The same messages. Raises Unsealed if the CLI has anything besides the toolkit, or does not say what it has, and
    whatever `check_calls` raises, which is asked ahead of each."""
    checked = False
    async for message in messages:
        check_calls()
        if isinstance(message, SystemMessage) and message.subtype == "init":
            _check(message.data, toolkit)
            checked = True
        elif isinstance(message, AssistantMessage) and not checked:
            raise Unsealed("The agent's CLI did not say which tools it has.")
        yield message


def _check(init: dict[str, Any], toolkit: Toolkit) -> None:
    tools = {TOOL_PREFIX + name for name in toolkit.tools} ^ set(init.get("tools", []))
    faults = [f"the tools {sorted(tools)[:5]}"] if tools else []
    # A list that is not there may hold anything: only an empty one is empty.
    faults += [f"its {kind}" for kind in ("slash_commands", "skills", "agents") if init.get(kind) != []]
    if [server.get("name") for server in init.get("mcp_servers", [])] != [SERVER]:
        faults.append("its servers")
    if any(plugin.get("path") != "builtin" for plugin in init.get("plugins", [])):
        faults.append("its plugins")
    if init.get("permissionMode") != "dontAsk":
        faults.append("its permission mode")
    if faults:
        raise Unsealed(f"The agent's CLI is not sealed: it differs in {', '.join(faults)}.")
