"""The options that the Agent SDK's CLI is started with: only our tools, in a sandbox."""

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
from fieldmark.runs.engine.binding import RunBinding
from fieldmark.runs.engine.tool_server import tool_server
from fieldmark.tools.toolset import Toolset
from processisolation import landlock

log = structlog.get_logger()

MAX_MESSAGE_BYTES = 8 * 1024 * 1024
"""Size limit of one message from the CLI. A tool call is far smaller; a larger message ends the run."""

HOOK_SECONDS = 60

RETRIES = 7
"""How often the CLI retries a request to the model's service. It waits half a second, then twice as long each time:
about a minute in total, which is within the time limit of every run."""

SECOND_RETRIES = 3
"""The same for a second reading, which an extraction waits for: about four seconds. A gateway retries by itself."""

_LAUNCHER_LINE = re.compile(r"(/\S*/)?sealed-cli\.sh: ")

# Plugins included in the CLI. One of them adds a skill if slash commands are enabled.
_PLUGINS = ("agents-md", "privacy", "plugin-authoring")
_SETTINGS = json.dumps({"enabledPlugins": {f"cc-plugin-{name}@builtin": False for name in _PLUGINS}})


@dataclass(frozen=True, slots=True)
class ModelService:
    """The model's service and its credentials. If `offline`, the offline model answers, at no cost. `effort` overrides
    the agents' effort; `fallback_model` is used if the model is overloaded; `max_output_tokens` limits an answer."""

    base_url: str | None
    api_key: str | None
    auth_token: str | None
    offline: bool = False
    effort: Effort | None = None
    retries: int = RETRIES
    fallback_model: str | None = None
    max_output_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class CliKind:
    """The options that a CLI can't change after its start. With `one_at_a_time` the model may make one call per
    message."""

    agent: str
    prompt: str
    toolset: Toolset
    model: str
    max_turns: int
    one_at_a_time: bool = False
    effort: Effort = Effort.HIGH
    uses_second_model: bool = False

    @classmethod
    def of(cls, spec: AgentSpec, model: str, max_turns: int, one_at_a_time: bool = False) -> Self:
        return cls(
            spec.name,
            spec.prompt,
            spec.toolset,
            model,
            max_turns,
            one_at_a_time,
            spec.effort,
            spec.uses_second_model,
        )


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
    """Return the options of one CLI. Its hooks, tools and transcripts go to the binding. `folder` is an empty directory
    that becomes its home, working and config directory. With `resumed` the CLI continues the conversation that is
    stored under the binding's session id.

    A CLI that `is_clearable` accepts `/clear`, so it can serve several runs, one after the other. All other prompts to
    it must be marked as plain text (`client_composed`)."""
    server = tool_server(kind.toolset, binding.call_tool)
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
        # A matcher of None matches all tools. The CLI refuses a call whose PreToolUse hook fails.
        hooks={
            "PreToolUse": [HookMatcher(None, [binding.before_call], timeout=HOOK_SECONDS, on_failure="block")],
            "PostToolUse": [HookMatcher(matcher=None, hooks=[binding.after_call], timeout=HOOK_SECONDS)],
        },
        system_prompt=SystemPromptCustom(type="custom", prompt=kind.prompt, snapshot=False),
        model=kind.model,
        fallback_model=None if service.fallback_model == kind.model else service.fallback_model,
        effort=effort.value,
        thinking={"type": "adaptive"} if effort.thinks else {"type": "disabled"},
        verbatim_prompts=not is_clearable,
        # Also for runs that no one watches: only these have the message's end and the output tokens that are charged.
        include_partial_messages=True,
        max_turns=kind.max_turns,
        max_buffer_size=MAX_MESSAGE_BYTES,
        settings=_SETTINGS,
        extra_args={**without_commands, "restricted": None},
        client_app=f"fieldmark/{__version__}",
        cli_path=launcher,
        cwd=folder,
        session_store=cast(SessionStore, binding),  # a part of the protocol: the SDK checks which methods exist
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
            # The SDK replaces this with its own folder when it resumes a conversation.
            "CLAUDE_CONFIG_DIR": str(folder / "config"),
            "FIELDMARK_CPU_SECONDS": str(cpu_seconds),
            "FIELDMARK_ONE_AT_A_TIME": "true" if kind.one_at_a_time else "false",
            "FIELDMARK_RETRIES": str(service.retries),
            "FIELDMARK_OUTPUT_TOKENS": str(service.max_output_tokens or ""),
            # Without this, Anthropic's service sends an argument only when it is complete. Other services may not
            # support it.
            "FIELDMARK_EAGER_ARGUMENTS": "" if service.base_url else "true",
            "FIELDMARK_MODEL_KEY": service.api_key or "",
            "FIELDMARK_MODEL_TOKEN": service.auth_token or "",
            "ANTHROPIC_BASE_URL": service.base_url or "",
        },
        stderr=_log_stderr,
    )


def _log_stderr(line: str) -> None:
    # The CLI's output may contain the document; our launcher's can't.
    if _LAUNCHER_LINE.match(line):
        log.warning("the agent's process could not start", reason=line[:500])
    else:
        log.debug("the CLI wrote on standard error", characters=len(line))
