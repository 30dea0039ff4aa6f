"""How the Agent SDK's CLI is started: our tools and nothing else, in a sealed environment."""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Self, cast

import claude_agent_sdk
import structlog
from claude_agent_sdk import ClaudeAgentOptions, HookMatcher
from claude_agent_sdk.types import SessionStore, SystemPromptCustom

from fieldmark import __version__
from fieldmark.agents.spec import AgentSpec
from fieldmark.domain.statuses import Effort
from fieldmark.isolation import landlock
from fieldmark.runs.engine.binding import RunBinding
from fieldmark.runs.engine.tool_server import tool_server
from fieldmark.tools.toolset import Toolset

log = structlog.get_logger()

MAX_MESSAGE_BYTES = 8 * 1024 * 1024
"""The largest single message taken from the CLI. A model's tool call is far below; more ends the run."""

HOOK_SECONDS = 60

RETRIES = 7
"""How often the CLI asks a busy or unreachable service again. It waits half a second, then twice as long each time: a
minute in all, which every run has."""

_LAUNCHER_SAYS = re.compile(r"(/\S*/)?sealed-cli\.sh: ")

# Plugins that come with the CLI: one of them brings a skill where slash commands are on.
_PLUGINS = ("agents-md", "privacy", "plugin-authoring")
_SETTINGS = json.dumps({"enabledPlugins": {f"cc-plugin-{name}@builtin": False for name in _PLUGINS}})


@dataclass(frozen=True, slots=True)
class ModelService:
    """Where model requests go, and what they are paid with. `offline`: the offline model answers, at no cost. `effort`
    overrides the agents' own; `fallback_model` answers where the model is overloaded."""

    base_url: str | None
    api_key: str | None
    auth_token: str | None
    offline: bool = False
    effort: Effort | None = None
    retries: int = RETRIES
    fallback_model: str | None = None


@dataclass(frozen=True, slots=True)
class CliKind:
    """What a CLI is started with and keeps for its life. With `one_at_a_time` the model is asked for one call a
    message."""

    agent: str
    prompt: str
    toolset: Toolset
    model: str
    max_turns: int
    one_at_a_time: bool = False
    effort: Effort = Effort.HIGH

    @classmethod
    def of(cls, spec: AgentSpec, model: str, max_turns: int, one_at_a_time: bool = False) -> Self:
        """Return the kind of CLI that serves an agent."""
        return cls(spec.name, spec.prompt, spec.toolset, model, max_turns, one_at_a_time, spec.effort)


def agent_options(
    kind: CliKind,
    binding: RunBinding,
    folder: Path,
    *,
    service: ModelService,
    cpu_seconds: int,
    resumed: bool = False,
    is_clearable: bool = False,
) -> ClaudeAgentOptions:
    """Return the options of one CLI, whose hooks, tools and transcript are the binding's. `folder` is an empty
    directory that becomes its home, cwd and config. With `resumed` the CLI goes on with the conversation that is stored
    under the binding's session id.

    One that `is_clearable` by a command may serve several runs, one after the other. Everything else that it is told
    has to be marked as text (`client_composed`)."""
    server = tool_server(kind.toolset, binding.answer)
    session_id = str(binding.session_id)
    effort = service.effort or kind.effort
    without_commands = {} if is_clearable else {"disable-slash-commands": None}
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
        # It sees every call: a matcher of None matches all tools. The CLI refuses a call whose hook fails.
        # What comes after a call only ends a run that is done.
        hooks={
            "PreToolUse": [HookMatcher(None, [binding.hook], timeout=HOOK_SECONDS, on_failure="block")],
            "PostToolUse": [HookMatcher(matcher=None, hooks=[binding.after], timeout=HOOK_SECONDS)],
        },
        system_prompt=SystemPromptCustom(type="custom", prompt=kind.prompt, snapshot=False),
        model=kind.model,
        fallback_model=None if service.fallback_model == kind.model else service.fallback_model,
        effort=effort.value,
        thinking={"type": "adaptive"} if effort.thinks else {"type": "disabled"},
        verbatim_prompts=not is_clearable,
        include_partial_messages=True,
        max_turns=kind.max_turns,
        max_buffer_size=MAX_MESSAGE_BYTES,
        settings=_SETTINGS,
        extra_args={**without_commands, "restricted": None},
        client_app=f"fieldmark/{__version__}",
        cli_path=launcher,
        cwd=folder,
        session_store=cast(SessionStore, binding),  # not all of it: the SDK asks what there is
        session_store_flush="eager",
        session_id=None if resumed else session_id,
        resume=session_id if resumed else None,
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
            "FIELDMARK_ONE_AT_A_TIME": "true" if kind.one_at_a_time else "false",
            "FIELDMARK_RETRIES": str(service.retries),
            # Anthropic's own service holds an argument back until it is whole, if it is not asked for the pieces.
            # Another may not know what it is asked for.
            "FIELDMARK_EAGER_ARGUMENTS": "" if service.base_url else "true",
            "FIELDMARK_MODEL_KEY": service.api_key or "",
            "FIELDMARK_MODEL_TOKEN": service.auth_token or "",
            "ANTHROPIC_BASE_URL": service.base_url or "",
        },
        stderr=_log_stderr,
    )


def _log_stderr(line: str) -> None:
    # What the CLI writes on standard error may repeat the document; what our launcher writes cannot.
    if _LAUNCHER_SAYS.match(line):
        log.warning("the agent's process cannot be started", reason=line[:500])
    else:
        log.debug("the CLI wrote on standard error", characters=len(line))
