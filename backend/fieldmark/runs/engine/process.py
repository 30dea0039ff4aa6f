"""One CLI process: its folder, its conversation, and its end."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import structlog
from claude_agent_sdk import (
    ClaudeAgentOptions,
    ClaudeSDKClient,
    CLIConnectionError,
    ConversationResetMessage,
    Message,
    MirrorErrorMessage,
    ResultMessage,
    StreamEvent,
    SystemMessage,
)

from fieldmark.agents.spec import Briefing
from fieldmark.isolation import lease_user
from fieldmark.runs.engine.binding import RunBinding
from fieldmark.runs.engine.cli_attestation import COMMANDS, SandboxViolation, check_init, checked_messages
from fieldmark.runs.engine.cli_errors import readable_messages
from fieldmark.runs.engine.model_stream import conversation_result
from fieldmark.runs.engine.options import CliKind
from fieldmark.runs.outcome import outcome_of_result

log = structlog.get_logger()

CONNECT_SECONDS = 30
CLEAR_SECONDS = 10
EXIT_SECONDS = 3
FOLDER_PREFIX = "fieldmark-agent-"

# Paths in the folder that the CLI needs itself. Runs left everything else.
_CLI_PATHS = ("pid", "config/.claude.json", "config/sessions")


class CliProcess:
    """A CLI process, from `connect` to `end`. `options_in(folder)` returns its options once its folder exists.

    A CLI that `is_clearable` accepts slash commands; other prompts are then sent to it marked as plain text."""

    # Used by the pool. `org_id` is set by the first run. `clearing` is the task that clears the conversation after a
    # run; it returns the reason if that failed.
    org_id: UUID | None = None
    runs = 0
    idle_since = 0.0
    clearing: asyncio.Task[str | None]

    def __init__(
        self,
        options_in: Callable[[Path], ClaudeAgentOptions],
        kind: CliKind,
        binding: RunBinding,
        is_clearable: bool = False,
    ) -> None:
        self.kind = kind
        self.binding = binding
        self.is_clearable = is_clearable
        self.has_completed = False
        self._options_in = options_in
        self._commands = COMMANDS if is_clearable else frozenset[str]()
        self._resources = contextlib.ExitStack()
        self._folder: Path | None = None
        self._client: ClaudeSDKClient | None = None

    @property
    def session_id(self) -> UUID:
        """The id of its conversation."""
        return self.binding.session_id

    async def connect(self, seconds: float = CONNECT_SECONDS) -> None:
        """Start the CLI. Raise the SDK's exceptions; CLIConnectionError also if the folder can't be created or the
        start takes too long. The caller must call `end` after any exception."""
        try:
            folder = self._make_folder()
        except OSError as error:
            reason = type(error).__name__
            raise CLIConnectionError(f"The folder of the agent's CLI could not be created: {reason}.") from None
        self._client = ClaudeSDKClient(self._options_in(folder))
        try:
            async with asyncio.timeout(seconds):
                # In an empty context: the CLI may outlive the run whose ids are in the current one.
                await asyncio.create_task(self._client.connect(), context=contextvars.Context())
        except TimeoutError:  # a run would mistake this for its own deadline
            raise CLIConnectionError("The agent's CLI did not start in time.") from None

    def _make_folder(self) -> Path:
        lease = lease_user()
        if lease is not None:
            self._resources.callback(lease.release)
        self._folder = folder = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX))
        self._resources.callback(shutil.rmtree, folder, True)
        (folder / "config").mkdir(mode=0o700)
        if lease is not None:
            os.chown(folder / "config", lease.user, lease.user)
            os.chown(folder, lease.user, lease.user)
        return folder

    async def converse(self, prompt: Briefing | None) -> AsyncIterator[Message]:
        """Yield the CLI's replies to a prompt. Without a prompt the CLI continues where its conversation stopped.

        Afterwards `has_completed` is true if the last message is that of a completed run. Raise SandboxViolation if the
        CLI has anything besides our tools or is in another conversation, and the error of a call that must end the
        run."""
        self.has_completed = False
        self.binding.hear()
        if prompt is not None:
            await self._send(prompt, as_text=True)
        messages = readable_messages(self._connected.receive_response())
        async for message in checked_messages(messages, self.kind.toolset, self._commands):
            self.binding.check()
            if not isinstance(message, StreamEvent):
                self.binding.hear()
            session_id = _session_id(message)
            if session_id not in (None, str(self.session_id)) and not isinstance(message, MirrorErrorMessage):
                raise SandboxViolation("The agent's CLI is in another conversation than this run's.")
            if isinstance(message, ResultMessage):
                self.has_completed = outcome_of_result(conversation_result(message)).status == "completed"
            yield message

    async def clear(self, seconds: float = CLEAR_SECONDS) -> None:
        """Clear the conversation and its files. The CLI then has a new conversation. Raise SandboxViolation if the CLI
        doesn't confirm it, TimeoutError, or the SDK's exceptions."""
        self.has_completed = False
        async with asyncio.timeout(seconds):
            await self._send("/clear", as_text=False)
            self.binding.start_session(await self._wait_until_cleared())
        assert self._folder is not None
        await asyncio.to_thread(_remove_old_files, self._folder, self.session_id)

    async def end(self, gracefully: bool) -> None:
        """End the CLI and remove its folder. If `gracefully`, ask it to exit before killing it."""
        # In a separate task, so that a second cancellation can't leave the CLI running.
        shutdown = asyncio.create_task(self._shut_down(gracefully))
        try:
            await asyncio.shield(shutdown)
        except asyncio.CancelledError:
            await shutdown
            raise

    def is_running(self) -> bool:
        pid = self._pid()
        if pid is None:
            return False
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True

    def retire_reason(self, *, runs: int, max_mb: int, cpu_seconds: float) -> str | None:
        """Return the reason if the CLI must not be reused, as a metric label."""
        if self.binding.tainted:
            return "tainted"
        if not self.is_running():
            return "died"
        if self.runs >= runs:
            return "runs"
        if self.memory_mb() > max_mb:
            return "memory"
        return "cpu" if self.cpu_seconds() > cpu_seconds else None

    def memory_mb(self) -> float:
        """Return its private memory in MB; 0 if the system doesn't report it."""
        with contextlib.suppress(OSError, ValueError):
            for line in Path(f"/proc/{self._pid()}/status").read_text().splitlines():
                if line.startswith("RssAnon:"):
                    return int(line.split()[1]) / 1024
        return 0

    def cpu_seconds(self) -> float:
        """Return its processor time so far; 0 if the system doesn't report it."""
        with contextlib.suppress(OSError, ValueError, IndexError):
            # The process name is in parentheses and may contain any character. Numbers follow the last one.
            numbers = Path(f"/proc/{self._pid()}/stat").read_text().rpartition(")")[2].split()
            return (int(numbers[11]) + int(numbers[12])) / os.sysconf("SC_CLK_TCK")
        return 0

    async def _send(self, prompt: Briefing, *, as_text: bool) -> None:
        """Send a prompt. Unless `as_text`, the CLI may interpret it as a command: only for fixed prompts of ours."""
        message: dict[str, Any] = {
            "type": "user",
            "message": {"role": "user", "content": prompt if isinstance(prompt, str) else _blocks(*prompt)},
            "parent_tool_use_id": None,
        }
        if as_text:
            message["client_composed"] = True

        async def messages() -> AsyncIterator[dict[str, Any]]:
            yield message

        await self._connected.query(messages())

    async def _wait_until_cleared(self) -> UUID:
        before, was_reset = str(self.session_id), False
        async for message in self._connected.receive_response():
            if isinstance(message, ConversationResetMessage) and not was_reset and message.session_id == before:
                was_reset = True
            elif isinstance(message, ResultMessage):
                if was_reset and not message.is_error and message.num_turns == 0 and message.session_id != before:
                    return UUID(message.session_id)
                break
            elif isinstance(message, SystemMessage) and not isinstance(message, MirrorErrorMessage):
                if message.subtype == "init":
                    check_init(message.data, self.kind.toolset, self._commands)
            else:
                break
        raise SandboxViolation("The agent's CLI did not confirm that its conversation was cleared.")

    @property
    def _connected(self) -> ClaudeSDKClient:
        assert self._client is not None, "connect() comes first"
        return self._client

    async def _shut_down(self, gracefully: bool) -> None:
        if not gracefully:  # it may wait for a model that never answers
            self._kill()
        try:
            if self._client is not None:
                await self._disconnect(self._client)
        finally:
            self._kill()
            await asyncio.to_thread(self._resources.close)

    async def _disconnect(self, client: ClaudeSDKClient) -> None:
        # Never cancelled: a cancelled disconnect leaves the process and its streams open.
        disconnecting = asyncio.create_task(client.disconnect())
        _, pending = await asyncio.wait({disconnecting}, timeout=EXIT_SECONDS)
        if pending:
            log.warning("the CLI did not exit in time and was killed")
            self._kill()
            await asyncio.wait({disconnecting}, timeout=EXIT_SECONDS)
        if disconnecting.done() and not disconnecting.cancelled() and (error := disconnecting.exception()):
            log.warning("the CLI could not be disconnected", error=type(error).__name__)

    def _pid(self) -> int | None:
        """Return the CLI's process id, if that process still belongs to this folder: the id may be reused by another
        process, and the CLI can write the file that contains it."""
        folder = self._folder
        with contextlib.suppress(OSError, ValueError):
            if folder is None:
                return None
            pid = int((folder / "pid").read_text())
            process = Path(f"/proc/{pid}")
            if not process.exists():
                return pid
            try:
                is_ours = str(folder).encode() in (process / "environ").read_bytes()
            except PermissionError:
                # Root in a container without CAP_SYS_PTRACE can't read the environment of another user's process.
                is_ours = os.geteuid() == 0 and process.stat().st_uid == folder.stat().st_uid
            return pid if is_ours else None
        return None

    def _kill(self) -> None:
        pid = self._pid()
        if pid is not None:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)


def _blocks(common: str, own: str) -> list[dict[str, Any]]:
    """Return two texts as one message, with a cache breakpoint after the first. The model's service allows four
    breakpoints per request, and the CLI sets three."""
    cached = {"type": "text", "text": common, "cache_control": {"type": "ephemeral"}}
    return [cached, {"type": "text", "text": own}]


def _session_id(message: Message) -> str | None:
    session_id: object = getattr(message, "session_id", None)
    if session_id is None and isinstance(message, SystemMessage):
        session_id = message.data.get("session_id")
    return session_id if isinstance(session_id, str) else None


def _remove_old_files(folder: Path, session_id: UUID) -> None:
    """Remove the files of earlier conversations."""
    # By descriptor, as rmtree does, so that a folder which the CLI replaces by a link is not followed.
    for path, folders, files, descriptor in os.fwalk(folder, topdown=False, follow_symlinks=False):
        relative = Path(path).relative_to(folder)
        for name in (*files, *folders):
            if str(relative / name).startswith(_CLI_PATHS) or name.startswith(str(session_id)):
                continue
            with contextlib.suppress(OSError):  # a folder that is not empty
                try:
                    os.unlink(name, dir_fd=descriptor)
                except IsADirectoryError:
                    os.rmdir(name, dir_fd=descriptor)
