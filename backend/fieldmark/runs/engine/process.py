"""One CLI: its folder, what it is asked and says, and its end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
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
    SystemMessage,
)

from fieldmark.agents.spec import Prompt
from fieldmark.isolation import users
from fieldmark.runs.engine.cli_attestation import SandboxViolation, check_init, sealed
from fieldmark.runs.engine.model_stream import result_of
from fieldmark.runs.outcome import outcome_of
from fieldmark.tools.toolset import Toolset

log = structlog.get_logger()

CONNECT_SECONDS = 30
CLEAR_SECONDS = 10
GOODBYE_SECONDS = 3
FOLDER = "fieldmark-agent-"

_LAUNCHER_SAYS = re.compile(r"(/\S*/)?sealed-cli\.sh: ")
# What the CLI needs for its own life, by its place in the folder; a run has left the rest.
_ITS_OWN = ("pid", "config/.claude.json", "config/sessions")


class Process:
    """A CLI that lives until `end`. `options_in(folder)` gives its options once its folder is there.

    `session_id` is the conversation it is in. `commands` are the slash commands it may have: with any, what is not ours
    is still told it as text alone.
    """

    def __init__(
        self,
        options_in: Callable[[Path], ClaudeAgentOptions],
        toolset: Toolset,
        session_id: UUID,
        commands: frozenset[str] = frozenset(),
    ) -> None:
        self.session_id = session_id
        self.ended_well = False
        self._toolkit = toolset
        self._commands = commands
        self._user = users.take()
        self._folder = _make_folder(self._user)
        self._client = ClaudeSDKClient(options_in(self._folder))

    async def connect(self, seconds: float = CONNECT_SECONDS) -> None:
        """Start it. Raises what the SDK raises, CLIConnectionError too where it takes longer; it has to be ended all
        the same."""
        try:
            async with asyncio.timeout(seconds):
                await self._client.connect()
        except TimeoutError:  # which a run would take for its own deadline
            raise CLIConnectionError("The agent's CLI did not start in time.") from None

    async def converse(self, prompt: Prompt | None, check_calls: Callable[[], None]) -> AsyncIterator[Message]:
        """Its messages in answer to a prompt, or without one from where its conversation stopped. `ended_well` tells
        then whether the last one was that of a run that was completed. Raises SandboxViolation if the CLI has anything
        besides our tools or speaks of another conversation, and what `check_calls` raises, asked ahead of each."""
        self.ended_well = False
        if prompt is not None:
            await self._say(prompt, as_text=True)
        messages = sealed(self._client.receive_response(), self._toolkit, check_calls, self._commands)
        async for message in messages:
            told_of = _session_of(message)
            if told_of not in (None, str(self.session_id)) and not isinstance(message, MirrorErrorMessage):
                raise SandboxViolation("The agent's CLI is in another conversation than this run's.")
            if isinstance(message, ResultMessage):
                self.ended_well = outcome_of(result_of(message)).status == "completed"
            yield message

    async def clear(self, seconds: float = CLEAR_SECONDS) -> UUID:
        """Make it forget its conversation and what lies of it in its folder; answers the new conversation's id. Raises
        SandboxViolation where it answers anything but that it did, TimeoutError, or what the SDK raises."""
        self.ended_well = False
        async with asyncio.timeout(seconds):
            await self._say("/clear", as_text=False)
            self.session_id = await self._cleared()
        await asyncio.to_thread(_tidy, self._folder, self.session_id)
        return self.session_id

    async def end(self, in_order: bool) -> None:
        """Ask it to go, kill it if it stays (at once if not `in_order`), and remove its folder."""
        # In a task of its own: a second cancellation must not interrupt the goodbye and leave the CLI behind.
        goodbye = asyncio.create_task(_say_goodbye(self._client, self._folder, in_order, self._user))
        try:
            await asyncio.shield(goodbye)
        except asyncio.CancelledError:
            await goodbye
            raise

    def lives(self) -> bool:
        """Whether it has not ended by itself."""
        pid = _pid(self._folder)
        if pid is None:
            return False
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True

    def memory_mb(self) -> float:
        """What it holds of memory that nobody shares; 0 where the system does not tell."""
        with contextlib.suppress(OSError, ValueError):
            for line in Path(f"/proc/{_pid(self._folder)}/status").read_text().splitlines():
                if line.startswith("RssAnon:"):
                    return int(line.split()[1]) / 1024
        return 0

    def cpu_seconds(self) -> float:
        """What it has used of its processor time; 0 where the system does not tell."""
        with contextlib.suppress(OSError, ValueError, IndexError):
            # The name stands in brackets and may hold anything: what follows the last one is numbers.
            numbers = Path(f"/proc/{_pid(self._folder)}/stat").read_text().rpartition(")")[2].split()
            return (int(numbers[11]) + int(numbers[12])) / os.sysconf("SC_CLK_TCK")
        return 0

    async def _say(self, prompt: Prompt, *, as_text: bool) -> None:
        """Tell it something. Only what is wholly our own may be a command; all else is text, whatever it looks like."""
        message: dict[str, Any] = {
            "type": "user",
            "message": {"role": "user", "content": prompt if isinstance(prompt, str) else _blocks(*prompt)},
            "parent_tool_use_id": None,
        }
        if as_text:
            message["client_composed"] = True

        async def messages() -> AsyncIterator[dict[str, Any]]:
            yield message

        await self._client.query(messages())

    async def _cleared(self) -> UUID:
        before, was_reset = str(self.session_id), False
        async for message in self._client.receive_response():
            if isinstance(message, ConversationResetMessage) and not was_reset and message.session_id == before:
                was_reset = True
            elif isinstance(message, ResultMessage):
                if was_reset and not message.is_error and message.num_turns == 0 and message.session_id != before:
                    return UUID(message.session_id)
                break
            elif isinstance(message, SystemMessage) and not isinstance(message, MirrorErrorMessage):
                if message.subtype == "init":
                    check_init(message.data, self._toolkit, self._commands)
            else:
                break
        raise SandboxViolation("The agent's CLI was not cleared.")


def _blocks(common: str, own: str) -> list[dict[str, Any]]:
    """Two texts as one message, of which the model's service may keep all up to the end of the first. It takes four
    such marks in a request, and the CLI sets three."""
    kept = {"type": "text", "text": common, "cache_control": {"type": "ephemeral"}}
    return [kept, {"type": "text", "text": own}]


def log_stderr(line: str) -> None:
    """What the CLI writes on standard error may repeat the document; what our launcher writes cannot."""
    if _LAUNCHER_SAYS.match(line):
        log.warning("the agent's process cannot be started", reason=line[:500])
    else:
        log.debug("the CLI wrote on standard error", characters=len(line))


def _session_of(message: Message) -> str | None:
    found: object = getattr(message, "session_id", None)
    if found is None and isinstance(message, SystemMessage):
        found = message.data.get("session_id")
    return found if isinstance(found, str) else None


def _make_folder(owner: users.Taken | None) -> Path:
    folder = Path(tempfile.mkdtemp(prefix=FOLDER))
    (folder / "config").mkdir(mode=0o700)
    if owner is not None:
        os.chown(folder / "config", owner.user, owner.user)
        os.chown(folder, owner.user, owner.user)
    return folder


def _tidy(folder: Path, session_id: UUID) -> None:
    """Remove what earlier conversations have left: transcripts, logs of calls, whatever else."""
    # By descriptors, as rmtree does: a folder that the CLI swaps for a link meanwhile leads nowhere.
    for place, folders, files, descriptor in os.fwalk(folder, topdown=False, follow_symlinks=False):
        here = Path(place).relative_to(folder)
        for name in (*files, *folders):
            if str(here / name).startswith(_ITS_OWN) or name.startswith(str(session_id)):
                continue
            with contextlib.suppress(OSError):  # a folder that is not empty
                try:
                    os.unlink(name, dir_fd=descriptor)
                except IsADirectoryError:
                    os.rmdir(name, dir_fd=descriptor)


async def _say_goodbye(client: ClaudeSDKClient, folder: Path, in_order: bool, user: users.Taken | None) -> None:
    if not in_order:  # it may be waiting for a model that never answers
        _kill(folder)
    # Waited for and never cancelled: a cancelled goodbye leaves the process and its streams behind.
    going = asyncio.create_task(client.disconnect())
    try:
        _, staying = await asyncio.wait({going}, timeout=GOODBYE_SECONDS)
        if staying:
            log.warning("the CLI did not go by itself", folder=folder.name)
            _kill(folder)
            await asyncio.wait({going}, timeout=GOODBYE_SECONDS)
        if going.done() and not going.cancelled() and (error := going.exception()):
            log.warning("the CLI did not go in order", folder=folder.name, error=type(error).__name__)
    finally:
        _kill(folder)
        await asyncio.to_thread(shutil.rmtree, folder, True)
        if user is not None:
            user.give_back()


def _pid(folder: Path) -> int | None:
    """The CLI's, if it is still the process that lives in this folder: the number may belong to somebody else by now,
    and the file is the CLI's to write."""
    with contextlib.suppress(OSError, ValueError):
        pid = int((folder / "pid").read_text())
        its = Path(f"/proc/{pid}")
        if not its.exists():
            return pid
        try:
            is_ours = str(folder).encode() in (its / "environ").read_bytes()
        except PermissionError:
            # Root in a container has not CAP_SYS_PTRACE, and may not look into what belongs to others.
            is_ours = os.geteuid() == 0 and its.stat().st_uid == folder.stat().st_uid
        return pid if is_ours else None
    return None


def _kill(folder: Path) -> None:
    pid = _pid(folder)
    if pid is not None:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
