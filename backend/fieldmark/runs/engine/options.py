"""How the Agent SDK's CLI is started: our tools and nothing else, in a sealed environment."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import cast
from uuid import UUID

import claude_agent_sdk
from claude_agent_sdk import ClaudeAgentOptions, HookMatcher
from claude_agent_sdk.types import HookCallback, McpSdkServerConfig, SessionStore

from fieldmark.isolation import landlock
from fieldmark.runs.engine.binding import RunBinding
from fieldmark.runs.engine.session_store import Sessions

MAX_MESSAGE_BYTES = 8 * 1024 * 1024
"""The largest single message taken from the CLI. A model's tool call is far below; more ends the run."""

HOOK_SECONDS = 60

# Plugins that come with the CLI: one of them brings a skill where slash commands are on.
_PLUGINS = ("agents-md", "privacy", "plugin-authoring")
_SETTINGS = json.dumps({"enabledPlugins": {f"cc-plugin-{name}@builtin": False for name in _PLUGINS}})


@dataclass(frozen=True, slots=True)
class ModelService:
    """Where model requests go, and what they are paid with. `offline`: the offline model answers, at no cost."""

    base_url: str | None
    api_key: str | None
    auth_token: str | None
    offline: bool = False


def agent_options(
    prompt: str,
    *,
    model: str,
    service: ModelService,
    folder: Path,
    server: McpSdkServerConfig,
    hook: HookCallback,
    sessions: Sessions | RunBinding,
    session_id: UUID,
    resumed: bool,
    max_turns: int,
    cpu_seconds: int,
    on_stderr: Callable[[str], None],
    after: HookCallback | None = None,
    shared: bool = False,
    several_calls: bool = False,
) -> ClaudeAgentOptions:
    """The options of one run. `folder` is an empty directory that becomes the CLI's home, cwd and config. The
    conversation is `session_id` in `sessions`: begun there, or gone on with if `resumed`.

    With `shared` they are those of several runs, one after the other: the CLI can then be cleared by a command, and
    whoever tells it anything else has to mark that as text (`client_composed`). Without `several_calls` the model is
    asked for one call a message."""
    without_commands = {} if shared else {"disable-slash-commands": None}
    launcher = Path(str(files("fieldmark.runs.engine") / "sealed-cli.sh"))
    return ClaudeAgentOptions(
        tools=[],
        allowed_tools=[],
        permission_mode="dontAsk",
        mcp_servers={server["name"]: server},
        strict_mcp_config=True,
        setting_sources=[],
        skills=[],
        plugins=[],
        # It sees every call: a matcher of None matches all tools. What comes after a call only ends a run that is done.
        hooks={
            "PreToolUse": [HookMatcher(matcher=None, hooks=[hook], timeout=HOOK_SECONDS)],
            "PostToolUse": [HookMatcher(matcher=None, hooks=[after], timeout=HOOK_SECONDS)] if after else [],
        },
        system_prompt=prompt,
        model=model,
        verbatim_prompts=not shared,
        include_partial_messages=True,
        max_turns=max_turns,
        max_buffer_size=MAX_MESSAGE_BYTES,
        settings=_SETTINGS,
        extra_args={**without_commands, "restricted": None, "system-prompt-snapshot": "off"},
        cli_path=launcher,
        cwd=folder,
        session_store=cast(SessionStore, sessions),  # not all of it: the SDK asks what there is
        session_store_flush="eager",
        session_id=None if resumed else str(session_id),
        resume=str(session_id) if resumed else None,
        env={
            "FIELDMARK_CLI": str(Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"),
            "FIELDMARK_SEALED": str(folder),
            "FIELDMARK_USER": str(folder.stat().st_uid),
            "FIELDMARK_PYTHON": sys.executable,
            "FIELDMARK_CONFINE": landlock.__file__,
            "FIELDMARK_SERVICE_PID": str(os.getpid()),
            # The SDK puts a folder of its own in its place when it resumes a conversation.
            "CLAUDE_CONFIG_DIR": str(folder / "config"),
            "FIELDMARK_CPU_SECONDS": str(cpu_seconds),
            "FIELDMARK_ONE_AT_A_TIME": "false" if several_calls else "true",
            # Anthropic's own service holds an argument back until it is whole, if it is not asked for the pieces.
            # Another may not know what it is asked for.
            "FIELDMARK_EAGER_ARGUMENTS": "" if service.base_url else "true",
            "FIELDMARK_MODEL_KEY": service.api_key or "",
            "FIELDMARK_MODEL_TOKEN": service.auth_token or "",
            "ANTHROPIC_BASE_URL": service.base_url or "",
        },
        stderr=on_stderr,
    )
